// SPDX-License-Identifier: Apache-2.0
/* The figures of headrace bench as JSON: every sample is kept, and the unit is in the key. */
#include "bench_figures.h"

static const double giga = 1e9;

static void text(const char *key, const char *value, FILE *out)
{
    fprintf(out, ", \"%s\": ", key);
    json_text(out, value);
}

/* The keys of bench/report.py, and ours. */
void bench_print_json_machine(const struct pool *pool, const char *device, FILE *out)
{
    struct machine m;
    struct hr_device listed;
    const char *why = "";
    look_at_machine(&m);
    fputs("{\"cpu\": ", out);
    json_text(out, m.cpu);
    fprintf(out, ", \"usable_cpus\": %ld, \"memory_bytes\": %llu", m.n_cpus,
            (unsigned long long)m.memory_bytes);
    fprintf(out, ", \"load_average\": [%.2f, %.2f, %.2f]", m.load[0], m.load[1], m.load[2]);
    text("kernel", m.kernel, out);
    text("system", m.system, out);
    text("headrace", hr_version(), out);
    text("io", hr_loop_io(pool->loop, &why), out);
    text("io_why", why, out);
    text("device", device, out);
    if (find_listed_device(device, &listed)) {
        text("device_title", listed.title, out);
        text("device_version", listed.version, out);
        fprintf(out, ", \"device_memory_bytes\": %llu", (unsigned long long)listed.memory_bytes);
    }
    fputc('}', out);
}

static void print_rate(const char *prefix, const struct way *way, FILE *out)
{
    const struct summary rate = summary_of_rates(way);
    fprintf(out,
            "\"%sgigabytes_per_s\": %.6g, \"%sgigabytes_per_s_min\": %.6g, "
            "\"%sgigabytes_per_s_max\": %.6g",
            prefix, rate.median / giga, prefix, rate.least / giga, prefix, rate.most / giga);
}

/* An array of a number of each sample. */
static void print_samples(const char *prefix, const struct way *way, FILE *out)
{
    static const char *const keys[] = {"wall_s", "cpu_s"};
    for (unsigned k = 0; k < 2; k++) {
        fprintf(out, ", \"%s%s\": [", prefix, keys[k]);
        for (unsigned i = 0; i < way->n; i++)
            fprintf(out, "%s%.9f", i ? ", " : "",
                    k ? way->samples[i].cpu_s : way->samples[i].wall_s);
        fputc(']', out);
    }
}

static void print_ceiling(const struct measured *one, const struct bench_case *of, FILE *out)
{
    const struct way *best = best_way(one);
    if (of->by_threads)
        fprintf(out, ", \"best_threads\": %u", best->width);
    fputs(", ", out);
    print_rate("", best, out);
    fprintf(out, ", \"cpu_s_per_gigabyte\": %.6g, \"measured\": [",
            SUMMARY(best, cpu_s).median * giga / (double)best->bytes);
    for (unsigned i = 0; i < one->n_ways; i++) {
        const struct way *way = &one->ways[i];
        fprintf(out, "%s{", i ? ", " : "");
        if (of->by_threads)
            fprintf(out, "\"threads\": %u, ", way->width);
        fprintf(out, "\"bytes\": %llu, ", (unsigned long long)way->bytes);
        print_rate("", way, out);
        print_samples("", way, out);
        fputc('}', out);
    }
    fputc(']', out);
}

static void print_spread(const char *key, struct spread spread, FILE *out)
{
    fprintf(out, ", \"%s\": %.4f, \"%s_quartiles\": [%.4f, %.4f]", key, spread.median, key,
            spread.low, spread.high);
}

static void print_parts(const struct bench *b, const struct measured *all, unsigned i, FILE *out)
{
    const double cpu_rate = ceiling_of(b, all, i).cpu_rate;
    const char *between = "";
    fputs(", \"parts_gigabytes_per_s\": {", out);
    for (unsigned k = 0; k < MAX_PARTS && bench_cases[i].parts[k].name; k++) {
        const double rate = part_rate(b, all, i, k);
        if (rate <= 0)
            continue;
        fprintf(out, "%s\"%s\": %.6g", between, bench_cases[i].parts[k].name, rate / giga);
        between = ", ";
    }
    if (cpu_rate > 0)
        fprintf(out, "%s\"cpu\": %.6g", between, cpu_rate / giga);
    fputc('}', out);
}

/* What the shape reached of each part that is near to be its ceiling. */
static void print_efficiencies(const struct bench *b, const struct measured *all, unsigned i,
                               FILE *out)
{
    const char *between = "";
    fputs(", \"efficiency_by_part\": {", out);
    for (unsigned k = 0; k <= MAX_PARTS; k++) {
        const bool is_beside = k == MAX_PARTS || all[i].beside[k].n;
        const double reached = is_beside ? part_efficiency(b, all, i, k).median : 0;
        if (reached <= 0)
            continue;
        fprintf(out, "%s\"%s\": %.4f", between,
                k < MAX_PARTS ? bench_cases[i].parts[k].name : "cpu", reached);
        between = ", ";
    }
    fputc('}', out);
}

static void print_beside(const struct bench *b, const struct measured *all, unsigned i, FILE *out)
{
    const struct ceiling ceiling = ceiling_of(b, all, i);
    if (ceiling.missing)
        text("ceiling_not_known_without", ceiling.missing, out);
    else {
        fprintf(out, ", \"ceiling_gigabytes_per_s\": %.6g", ceiling.rate / giga);
        print_spread("efficiency", shape_efficiency(b, all, i), out);
        text("ceiling", ceiling.name, out);
        print_efficiencies(b, all, i, out);
    }
    print_parts(b, all, i, out);
}

static void print_shape(const struct bench *b, const struct measured *all, unsigned i, FILE *out)
{
    const struct way *deep = &all[i].ways[0];
    const struct way *shallow = &all[i].ways[1];
    const struct report report = {.stats = deep->stats, .null_sink = bench_cases[i].to == TO_NULL};
    const enum hr_stage stage = (enum hr_stage)deep->stats.bottleneck;
    fprintf(out, ", \"bytes\": %llu, \"chunk_bytes\": %llu, \"slots\": %u, ",
            (unsigned long long)deep->bytes, (unsigned long long)deep->stats.chunk_size,
            deep->stats.depth);
    print_rate("", deep, out);
    print_samples("", deep, out);
    fprintf(out,
            ", \"cpu_s_per_gigabyte\": %.6g, \"overlap_efficiency\": %.4f, \"gain_told\": %.4f",
            SUMMARY(deep, cpu_s).median * giga / (double)deep->bytes, SUMMARY(deep, overlap).median,
            SUMMARY(deep, gain).median);
    print_spread("gain_measured", shape_gain(&all[i]), out);
    fprintf(out, ", \"gain_told_compares\": %s, \"depth_1_bytes\": %llu, ",
            told_gain_compares(&bench_cases[i], &all[i]) ? "true" : "false",
            (unsigned long long)shallow->bytes);
    print_rate("depth_1_", shallow, out);
    print_samples("depth_1_", shallow, out);
    text("bottleneck", hr_stage_name(stage), out);
    text("bottleneck_resource", resource_word(&report, stage), out);
    print_beside(b, all, i, out);
}

static void print_cases(const struct bench *b, const struct measured *all, bool shapes, FILE *out)
{
    const char *between = "\n  ";
    for (unsigned i = 0; i < N_CASES; i++) {
        const struct bench_case *one = &bench_cases[i];
        if (!all[i].wanted || is_shape(one) != shapes)
            continue;
        fprintf(out, "%s{\"name\": \"%s\"", between, one->name);
        text("what", one->what, out);
        between = ",\n  ";
        if (!best_way(&all[i]))
            text("error", all[i].error, out);
        else if (shapes)
            print_shape(b, all, i, out);
        else
            print_ceiling(&all[i], one, out);
        fputc('}', out);
    }
}

void bench_print_json(const struct bench *b, const struct measured *all, FILE *out)
{
    fputs("{\"machine\": ", out);
    bench_print_json_machine(&b->pool, b->device, out);
    fprintf(out,
            ",\n \"bytes\": %llu, \"zstd_decoded_bytes\": %llu, \"zstd_bytes\": %llu, "
            "\"pinned\": %s,\n \"ceilings\": [",
            (unsigned long long)b->size, (unsigned long long)b->packed_of,
            (unsigned long long)b->packed_size,
            b->is_pinned[0] && b->is_pinned[1] ? "true" : "false");
    print_cases(b, all, false, out);
    fputs("],\n \"pipelines\": [", out);
    print_cases(b, all, true, out);
    fputs("]}\n", out);
}
