// SPDX-License-Identifier: Apache-2.0
/* The figures of headrace bench as tables for people. */
#include <string.h>

#include "bench_figures.h"

static const double giga = 1e9;

static void print_device(const struct bench *b, FILE *out)
{
    struct hr_device device;
    if (b->on_host || !find_listed_device(b->device, &device))
        fprintf(out, "device: %s%s\n", b->device,
                b->on_host ? ", so that pipelines end in memory of the host: no copies to a GPU"
                           : "");
    else
        fprintf(out, "device: %s, %s, %s\n", b->device, device.title, device.version);
    if (!b->on_host && !(b->is_pinned[0] && b->is_pinned[1]))
        fputs("the driver refused to pin the memory: its copies are slow\n", out);
}

static void print_machine(const struct bench *b, FILE *out)
{
    struct machine m;
    char size[HUMAN_SIZE];
    char packed[HUMAN_SIZE];
    look_at_machine(&m);
    fprintf(out, "%.60s, %ld usable CPUs, load %.1f\n%.60s; headrace %s, I/O by %s\n", m.cpu,
            m.n_cpus, m.load[0], m.system, hr_version(), hr_loop_io(b->pool.loop, NULL));
    print_device(b, out);
    fprintf(out, "%s of generated numbers", human_bytes((double)b->size, size));
    if (!b->no_packed[0])
        fprintf(out, "; %s of them for zstd, encoded to %.0f %%",
                human_bytes((double)b->packed_of, packed),
                100.0 * (double)b->packed_size / (double)b->packed_of);
    fprintf(
        out,
        "\nRates are medians in GB/s (1e9) of decoded bytes, after a run that is verified; files "
        "are in the\npage cache, in %s: only read-direct is a figure of a disk.\n",
        b->folder ? b->folder : "no folder");
}

/* ---- ceilings ---- */

static void print_ceiling(const struct measured *one, unsigned i, FILE *out)
{
    const struct way *best = best_way(one);
    fprintf(out, "%-12s ", bench_cases[i].name);
    if (!best) {
        fprintf(out, "not measured: %s\n", one->error);
        return;
    }
    const struct summary rate = summary_of_rates(best);
    fprintf(out, "%8.2f %8.2f %8.2f %3u ", rate.median / giga, rate.least / giga, rate.most / giga,
            best->n);
    if (bench_cases[i].gpu_only)
        fprintf(out, "%8s", "");
    else
        fprintf(out, "%8.3f", SUMMARY(best, cpu_s).median * giga / (double)best->bytes);
    for (unsigned k = 0; k < one->n_ways && bench_cases[i].by_threads; k++)
        fprintf(out, "%s%u: %.2f", k ? ", " : "  ", one->ways[k].width,
                summary_of_rates(&one->ways[k]).median / giga);
    if (!bench_cases[i].by_threads)
        fprintf(out, "  %s", bench_cases[i].what);
    fputc('\n', out);
}

static bool any(const struct measured *all, bool shapes)
{
    for (unsigned i = 0; i < N_CASES; i++)
        if (all[i].wanted && is_shape(&bench_cases[i]) == shapes)
            return true;
    return false;
}

/* For one reason in one line. */
static void print_without_gpu(const struct bench *b, const struct measured *all, FILE *out)
{
    const struct measured *last = NULL;
    for (unsigned i = 0; i < N_CASES && b->on_host; i++) {
        if (!all[i].wanted || !bench_cases[i].gpu_only)
            continue;
        fprintf(out, "%s%s", last ? ", " : "", bench_cases[i].name);
        last = &all[i];
    }
    if (last)
        fprintf(out, " not measured: %s\n", last->error);
}

static void print_ceilings(const struct bench *b, const struct measured *all, FILE *out)
{
    if (!any(all, false))
        return;
    fprintf(out, "\n%-12s %8s %8s %8s %3s %8s  %s\n", "ceiling", "best", "min", "max", "n",
            "CPU s/GB", "by threads, or what it is");
    for (unsigned i = 0; i < N_CASES; i++)
        if (all[i].wanted && !is_shape(&bench_cases[i]) && !(bench_cases[i].gpu_only && b->on_host))
            print_ceiling(&all[i], i, out);
    print_without_gpu(b, all, out);
}

/* ---- shapes ---- */

static void print_beside(const struct bench *b, const struct measured *all, unsigned i, FILE *out)
{
    const struct ceiling ceiling = ceiling_of(b, all, i);
    const struct spread reached = shape_efficiency(b, all, i);
    const struct report report = {.stats = all[i].ways[0].stats,
                                  .null_sink = bench_cases[i].to == TO_NULL};
    if (ceiling.missing)
        fprintf(out, "%18sceiling not known, for %s was not measured", "", ceiling.missing);
    else
        fprintf(out, "%18s%3.0f %% (%.0f to %.0f) of %.2f, which %s allow%s", "",
                100 * reached.median, 100 * reached.low, 100 * reached.high, ceiling.rate / giga,
                ceiling.part == MAX_PARTS ? "the CPUs together" : ceiling.name,
                ceiling.part == MAX_PARTS ? "" : "s");
    fputs("; bottleneck: ", out);
    print_bottleneck(&report, out);
    fputc('\n', out);
}

static void print_shape(const struct bench *b, const struct measured *all, unsigned i, FILE *out)
{
    const struct way *deep = &all[i].ways[0];
    const struct way *shallow = &all[i].ways[1];
    fprintf(out, "%-17s ", bench_cases[i].name);
    if (!deep->n) {
        fprintf(out, "not measured: %s\n", all[i].error);
        return;
    }
    const struct summary rate = summary_of_rates(deep);
    fprintf(out, "%7.2f %7.2f %7.2f %3u %8.3f %7.2f %8.2f %5.2f ", rate.median / giga,
            rate.least / giga, rate.most / giga, deep->n,
            SUMMARY(deep, cpu_s).median * giga / (double)deep->bytes, SUMMARY(deep, overlap).median,
            summary_of_rates(shallow).median / giga, shape_gain(&all[i]).median);
    if (told_gain_compares(&bench_cases[i], &all[i]))
        fprintf(out, "%5.2f\n", SUMMARY(deep, gain).median);
    else
        fprintf(out, "%5s\n", "-");
    print_beside(b, all, i, out);
}

static void print_legend(const struct bench *b, const struct measured *all, FILE *out)
{
    bool above = false;
    for (unsigned i = 0; i < N_CASES; i++)
        above |= all[i].wanted && is_shape(&bench_cases[i]) &&
                 is_above_ceiling(shape_efficiency(b, all, i).median);
    fputs("\ndepth 1: GB/s with one chunk on its way, one thing after the other; gain: how many "
          "times faster\nthe default is than that. It counts all that is done at once: stages, and "
          "in a stage several\nworkers or requests. told: what the statistics tell, of stages "
          "alone; -: not the same thing,\nfor a stage does several things at once, or waits for "
          "others.\nThe ceiling is the least of the parts' rates, and of what all usable CPUs can "
          "do of the parts'\nCPU time, for they share them; it was measured again next to the "
          "pipeline, round by round.\nPercentages, with their quartiles, and gains are medians of "
          "those of rounds.\n",
          out);
    if (above)
        fputs("More than 105 % of a ceiling: that one was measured too low; try a machine that is "
              "idle, or a\nlarger --size.\n",
              out);
}

static void print_shapes(const struct bench *b, const struct measured *all, FILE *out)
{
    if (!any(all, true))
        return;
    fprintf(out, "\n%-17s %7s %7s %7s %3s %8s %7s %8s %5s %5s\n", "pipeline", "GB/s", "min", "max",
            "n", "CPU s/GB", "overlap", "depth 1", "gain", "told");
    for (unsigned i = 0; i < N_CASES; i++)
        if (all[i].wanted && is_shape(&bench_cases[i]))
            print_shape(b, all, i, out);
    print_legend(b, all, out);
}

void bench_print(const struct bench *b, const struct measured *all, FILE *out)
{
    print_machine(b, out);
    print_ceilings(b, all, out);
    print_shapes(b, all, out);
}
