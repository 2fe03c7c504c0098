// SPDX-License-Identifier: Apache-2.0
/* The figures of headrace bench: a table for people, JSON for programs. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"

struct summary {
    double median;
    double least;
    double most;
};

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of the member at this offset in each sample. */
static struct summary summarise(const struct sample *samples, unsigned n, size_t member)
{
    double values[N_SAMPLES] = {0};
    for (unsigned i = 0; i < n; i++)
        memcpy(&values[i], (const char *)&samples[i] + member, sizeof values[i]);
    qsort(values, n, sizeof values[0], by_size);
    return (struct summary){values[n / 2], values[0], values[n - 1]};
}

#define SUMMARY(samples, n, member) summarise(samples, n, offsetof(struct sample, member))

/* The same case's figures as rates and ratios. */
struct figures {
    double rate; /* bytes a second, the median */
    double slowest_rate;
    double fastest_rate;
    double cpu_s;
    double shallow_rate;
    double gain_measured;
    double gain_told;
    double overlap;
    int slowest_part; /* index of a case; -1: not known, or there are no parts */
    double part_rate;
};

static double rate_of(const struct bench *b, const struct measured *one)
{
    const double wall = SUMMARY(one->deep, one->n, wall_s).median;
    return wall > 0 ? (double)b->size / wall : 0;
}

/* Without one of its parts the slowest is not known. */
static void find_slowest_part(const struct bench *b, const struct measured *all, unsigned i,
                              struct figures *f)
{
    f->slowest_part = -1;
    for (unsigned part = 0; part < MAX_PARTS && bench_cases[i].parts[part]; part++)
        for (int k = 0; k < N_CASES; k++) {
            if (strcmp(bench_cases[k].name, bench_cases[i].parts[part]) != 0)
                continue;
            if (!all[k].n) {
                f->slowest_part = -1;
                return;
            }
            const double rate = rate_of(b, &all[k]);
            if (f->slowest_part < 0 || rate < f->part_rate) {
                f->slowest_part = k;
                f->part_rate = rate;
            }
        }
}

static struct figures figures_of(const struct bench *b, const struct measured *all, unsigned i)
{
    const struct measured *m = &all[i];
    const struct summary wall = SUMMARY(m->deep, m->n, wall_s);
    const double size = (double)b->size;
    struct figures f = {
        .rate = size / wall.median,
        .slowest_rate = size / wall.most,
        .fastest_rate = size / wall.least,
        .cpu_s = SUMMARY(m->deep, m->n, cpu_s).median,
        .gain_told = SUMMARY(m->deep, m->n, gain).median,
        .overlap = SUMMARY(m->deep, m->n, overlap).median,
    };
    if (is_pipeline(&bench_cases[i])) {
        const double alone = SUMMARY(m->shallow, m->n, wall_s).median;
        f.shallow_rate = size / alone;
        f.gain_measured = alone / wall.median;
    }
    find_slowest_part(b, all, i, &f);
    return f;
}

/* ---- text ---- */

static void print_machine(const struct bench *b, FILE *out)
{
    struct machine m;
    char size[HUMAN_SIZE];
    look_at_machine(&m);
    fprintf(out, "%.60s, %ld usable CPUs\n%.60s; headrace %s, I/O by %s\n", m.cpu, m.n_cpus,
            m.system, hr_version(), hr_loop_io(b->loop, NULL));
    fprintf(out, "%s of generated numbers", human_bytes((double)b->size, size));
    if (!b->packing_failed[0])
        fprintf(out, ", encoded to %.0f %%", 100.0 * (double)b->packed_size / (double)b->size);
    fprintf(out,
            "; medians of %d after one run to warm up;\n"
            "rates count decoded bytes; files are in the page cache: no figure is one of a disk;\n"
            "their folder is %s\n\n",
            N_SAMPLES, b->folder);
}

static void print_row(const struct bench *b, const struct measured *all, unsigned i, FILE *out)
{
    const struct measured *m = &all[i];
    if (!m->wanted)
        return;
    fprintf(out, "%-14s ", bench_cases[i].name);
    if (!m->n) {
        fprintf(out, "not measured: %s\n", m->error);
        return;
    }
    const struct figures f = figures_of(b, all, i);
    fprintf(out, "%7.2f %7.2f %7.2f %7.2f", f.rate / 1e9, f.slowest_rate / 1e9,
            f.fastest_rate / 1e9, f.cpu_s);
    if (is_pipeline(&bench_cases[i]))
        fprintf(out, " %7.2f %5.2f %9.2f %7.2f", f.shallow_rate / 1e9, f.gain_measured, f.gain_told,
                f.overlap);
    if (f.slowest_part >= 0)
        fprintf(out, "  %3.0f %% of %s", 100 * f.rate / f.part_rate,
                bench_cases[f.slowest_part].name);
    fputc('\n', out);
}

void bench_print(const struct bench *b, const struct measured *all, FILE *out)
{
    print_machine(b, out);
    fprintf(out, "%-14s %7s %7s %7s %7s %7s %5s %9s %7s  %s\n", "case", "GB/s", "min", "max",
            "CPU s", "depth 1", "gain", "gain told", "overlap", "slowest part alone");
    for (unsigned i = 0; i < N_CASES; i++)
        print_row(b, all, i, out);
    fputs("\ndepth 1: GB/s with one chunk on its way; gain: measured against it; gain told: "
          "what\nthe statistics tell. Parts that share the CPUs do not all run at full speed at "
          "once, so\nthe slowest part alone may be out of reach.\n",
          out);
}

/* ---- JSON ---- */

static void print_samples(const char *key, const struct sample *samples, unsigned n, FILE *out)
{
    fprintf(out, ", \"%s\": [", key);
    for (unsigned i = 0; i < n; i++)
        fprintf(out, "%s%.9f", i ? ", " : "", samples[i].wall_s);
    fputc(']', out);
}

static void print_case(const struct bench *b, const struct measured *all, unsigned i, FILE *out)
{
    const struct measured *m = &all[i];
    fprintf(out, "{\"name\": \"%s\", \"what\": \"%s\"", bench_cases[i].name, bench_cases[i].what);
    if (!m->n) {
        fputs(", \"error\": ", out);
        json_text(out, m->error);
        fputc('}', out);
        return;
    }
    const struct figures f = figures_of(b, all, i);
    fprintf(out,
            ", \"gb_per_s\": %.4f, \"gb_per_s_min\": %.4f, \"gb_per_s_max\": %.4f, \"cpu_s\": "
            "%.6f",
            f.rate / 1e9, f.slowest_rate / 1e9, f.fastest_rate / 1e9, f.cpu_s);
    print_samples("wall_s", m->deep, m->n, out);
    if (is_pipeline(&bench_cases[i])) {
        fprintf(out,
                ", \"depth_1_gb_per_s\": %.4f, \"gain_measured\": %.4f, \"gain_told\": %.4f, "
                "\"overlap\": %.4f",
                f.shallow_rate / 1e9, f.gain_measured, f.gain_told, f.overlap);
        print_samples("depth_1_wall_s", m->shallow, m->n, out);
    }
    if (f.slowest_part >= 0)
        fprintf(out, ", \"slowest_part\": \"%s\", \"of_slowest_part\": %.4f",
                bench_cases[f.slowest_part].name, f.rate / f.part_rate);
    fputc('}', out);
}

void bench_print_json(const struct bench *b, const struct measured *all, FILE *out)
{
    struct machine m;
    const char *why = "";
    const char *between = "\n  ";
    look_at_machine(&m);
    fputs("{\"machine\": {\"cpu\": ", out);
    json_text(out, m.cpu);
    fputs(", \"system\": ", out);
    json_text(out, m.system);
    fprintf(out,
            ", \"usable_cpus\": %ld, \"memory_bytes\": %llu, \"headrace\": \"%s\", \"io\": "
            "\"%s\", \"io_why\": ",
            m.n_cpus, (unsigned long long)m.memory_bytes, hr_version(), hr_loop_io(b->loop, &why));
    json_text(out, why);
    fprintf(out, "},\n \"bytes\": %llu, \"packed_bytes\": %llu, \"cases\": [",
            (unsigned long long)b->size, (unsigned long long)b->packed_size);
    for (unsigned i = 0; i < N_CASES; i++)
        if (all[i].wanted) {
            fputs(between, out);
            print_case(b, all, i, out);
            between = ",\n  ";
        }
    fputs("]}\n", out);
}
