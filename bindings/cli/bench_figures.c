// SPDX-License-Identifier: Apache-2.0
/* What samples say together: medians, and the ceilings that shapes stand beside. */
#include <stdlib.h>
#include <string.h>

#include "bench_figures.h"

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

void sort_numbers(double *numbers, unsigned n)
{
    qsort(numbers, n, sizeof numbers[0], by_size);
}

double median_of(const double *numbers, unsigned n)
{
    double sorted[MAX_NUMBERS] = {0};
    if (!n)
        return 0;
    memcpy(sorted, numbers, n * sizeof sorted[0]);
    sort_numbers(sorted, n);
    return (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
}

struct summary summary_of(const struct way *way, size_t member)
{
    double values[MAX_SAMPLES] = {0};
    if (!way->n)
        return (struct summary){0};
    for (unsigned i = 0; i < way->n; i++)
        memcpy(&values[i], (const char *)&way->samples[i] + member, sizeof values[i]);
    sort_numbers(values, way->n);
    return (struct summary){median_of(values, way->n), values[0], values[way->n - 1]};
}

struct summary summary_of_rates(const struct way *way)
{
    return SUMMARY(way, rate);
}

const struct way *best_way(const struct measured *one)
{
    const struct way *best = NULL;
    for (unsigned i = 0; i < one->n_ways; i++)
        if (one->ways[i].n &&
            (!best || summary_of_rates(&one->ways[i]).median > summary_of_rates(best).median))
            best = &one->ways[i];
    return best;
}

double cpu_per_byte(const struct bench *b, unsigned i, const struct measured *all)
{
    const struct way *best = best_way(&all[i]);
    if (!best || (bench_cases[i].waits_for_gpu && !b->on_host))
        return 0;
    return SUMMARY(best, cpu_s).median / (double)best->bytes;
}

double shape_gain(const struct measured *one)
{
    const double shallow = summary_of_rates(&one->ways[1]).median;
    return shallow > 0 ? summary_of_rates(&one->ways[0]).median / shallow : 0;
}

/* The library divides a stage's service by what it can work on at once; but that several requests of
 * a file are under way it counts as one. A socket also waits for its peer. */
bool told_gain_compares(const struct bench_case *of, const struct measured *one)
{
    const double as_good_as_one = 1.1;
    const struct hr_stats *stats = &one->ways[0].stats;
    uint64_t service_ns = 0;
    for (unsigned i = 0; i < HR_STAGE_COUNT; i++)
        service_ns += stats->stages[i].service_ns;
    const bool in_memory =
        (of->from == FROM_MEMORY || of->from == FROM_DEVICE) && of->to != TO_FILE;
    return in_memory && (double)service_ns <= as_good_as_one * stats->gain * (double)stats->wall_ns;
}

/* Bytes of the part for each byte of the stream. */
static double weight_of(const struct bench *b, const struct part *part)
{
    if (part->weight == PER_PACKED_BYTE)
        return (double)b->packed_size / (double)b->packed_of;
    return part->weight == TWICE ? 2 : 1;
}

double part_rate(const struct bench *b, const struct measured *all, const struct part *part)
{
    const struct way *best = best_way(&all[index_of_case(part->name)]);
    return best ? summary_of_rates(best).median / weight_of(b, part) : 0;
}

/* Parts share the CPUs: together they cannot do more than these have time for. */
static double rate_of_cpus(const struct bench *b, const struct measured *all,
                           const struct bench_case *one)
{
    double cpu_s = 0;
    for (unsigned i = 0; i < MAX_PARTS && one->parts[i].name; i++)
        cpu_s += weight_of(b, &one->parts[i]) *
                 cpu_per_byte(b, (unsigned)index_of_case(one->parts[i].name), all);
    return cpu_s > 0 ? (double)b->n_cpus / cpu_s : 0;
}

struct ceiling ceiling_of(const struct bench *b, const struct measured *all, unsigned i)
{
    const struct bench_case *one = &bench_cases[i];
    struct ceiling least = {.cpu_rate = rate_of_cpus(b, all, one)};
    for (unsigned k = 0; k < MAX_PARTS && one->parts[k].name; k++) {
        const struct bench_case *part = &bench_cases[index_of_case(one->parts[k].name)];
        const double rate = part_rate(b, all, &one->parts[k]);
        if (part->gpu_only && b->on_host)
            continue;
        if (rate <= 0)
            return (struct ceiling){.missing = part->name};
        if (!least.name || rate < least.rate) {
            least.name = part->name;
            least.rate = rate;
        }
    }
    if (least.cpu_rate > 0 && (!least.name || least.cpu_rate < least.rate)) {
        least.name = "cpu";
        least.rate = least.cpu_rate;
    }
    return least;
}

double shape_efficiency(const struct bench *b, const struct measured *all, unsigned i)
{
    const struct ceiling ceiling = ceiling_of(b, all, i);
    if (ceiling.missing || !all[i].ways[0].n || ceiling.rate <= 0)
        return 0;
    return summary_of_rates(&all[i].ways[0]).median / ceiling.rate;
}

bool is_above_ceiling(double efficiency)
{
    return efficiency > 1.05;
}
