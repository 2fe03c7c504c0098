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

/* A quartile lies between two numbers as far as it should. */
static double quantile_of(const double *sorted, unsigned n, double part)
{
    const double at = part * (n - 1);
    const unsigned below = (unsigned)at;
    const unsigned above = below + 1 < n ? below + 1 : below;
    return sorted[below] + (at - below) * (sorted[above] - sorted[below]);
}

static struct spread spread_of(double *numbers, unsigned n)
{
    if (!n)
        return (struct spread){0};
    sort_numbers(numbers, n);
    return (struct spread){median_of(numbers, n), quantile_of(numbers, n, 0.25),
                           quantile_of(numbers, n, 0.75)};
}

struct spread shape_gain(const struct measured *one)
{
    double gains[MAX_SAMPLES] = {0};
    const struct way *deep = &one->ways[0];
    const struct way *shallow = &one->ways[1];
    const unsigned n = deep->n < shallow->n ? deep->n : shallow->n;
    for (unsigned i = 0; i < n; i++)
        gains[i] = deep->samples[i].rate / shallow->samples[i].rate;
    return spread_of(gains, n);
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

/* ---- parts of a shape ---- */

enum { BY_MEDIANS = MAX_SAMPLES }; /* instead of a round */

static const struct bench_case *part_of(unsigned i, unsigned k)
{
    return &bench_cases[index_of_case(bench_cases[i].parts[k].name)];
}

/* In the shape's rounds, where it was measured there; else in those of ceilings. */
static const struct way *way_of(const struct measured *all, unsigned i, unsigned k)
{
    if (all[i].beside[k].n)
        return &all[i].beside[k];
    return best_way(&all[index_of_case(bench_cases[i].parts[k].name)]);
}

static double rate_in(const struct bench *b, const struct measured *all, unsigned i, unsigned k,
                      unsigned round)
{
    const struct way *way = way_of(all, i, k);
    const double weight = weight_of(b, &bench_cases[i].parts[k]);
    if (!way)
        return 0;
    if (round < all[i].beside[k].n)
        return way->samples[round].rate / weight;
    return summary_of_rates(way).median / weight;
}

/* CPU seconds of the part for each byte of the stream. */
static double cpu_in(const struct bench *b, const struct measured *all, unsigned i, unsigned k,
                     unsigned round)
{
    const struct way *way = way_of(all, i, k);
    const double weight = weight_of(b, &bench_cases[i].parts[k]);
    if (!way || (part_of(i, k)->waits_for_gpu && !b->on_host))
        return 0;
    const double cpu_s =
        round < all[i].beside[k].n ? way->samples[round].cpu_s : SUMMARY(way, cpu_s).median;
    return weight * cpu_s / (double)way->bytes;
}

double part_rate(const struct bench *b, const struct measured *all, unsigned i, unsigned k)
{
    return rate_in(b, all, i, k, BY_MEDIANS);
}

bool part_uses_cpu(const struct bench *b, const struct measured *all, unsigned i, unsigned k)
{
    return cpu_in(b, all, i, k, BY_MEDIANS) > 0;
}

/* Parts share the CPUs: together they cannot do more than these have time for. */
static double rate_of_cpus(const struct bench *b, const struct measured *all, unsigned i,
                           unsigned round)
{
    double cpu_s = 0;
    for (unsigned k = 0; k < MAX_PARTS && bench_cases[i].parts[k].name; k++)
        cpu_s += cpu_in(b, all, i, k, round);
    return cpu_s > 0 ? (double)b->n_cpus / cpu_s : 0;
}

/* Of parts that were measured in the shape's rounds, if any were: the others were far from being its
 * ceiling, and are of another time. */
static bool may_be_ceiling(const struct bench *b, const struct measured *all, unsigned i,
                           unsigned k)
{
    bool any = false;
    for (unsigned other = 0; other < MAX_PARTS; other++)
        any |= all[i].beside[other].n > 0;
    return !(part_of(i, k)->gpu_only && b->on_host) && (!any || all[i].beside[k].n > 0);
}

struct ceiling ceiling_of(const struct bench *b, const struct measured *all, unsigned i)
{
    struct ceiling least = {.cpu_rate = rate_of_cpus(b, all, i, BY_MEDIANS)};
    for (unsigned k = 0; k < MAX_PARTS && bench_cases[i].parts[k].name; k++) {
        const double rate = part_rate(b, all, i, k);
        if (!may_be_ceiling(b, all, i, k))
            continue;
        if (rate <= 0)
            return (struct ceiling){.missing = part_of(i, k)->name};
        if (!least.name || rate < least.rate) {
            least.name = part_of(i, k)->name;
            least.part = k;
            least.rate = rate;
        }
    }
    if (least.cpu_rate > 0 && (!least.name || least.cpu_rate < least.rate)) {
        least.name = "cpu";
        least.part = MAX_PARTS;
        least.rate = least.cpu_rate;
    }
    return least;
}

/* ---- shapes ---- */

struct spread part_efficiency(const struct bench *b, const struct measured *all, unsigned i,
                              unsigned k)
{
    double parts[MAX_SAMPLES] = {0};
    const struct way *deep = &all[i].ways[0];
    for (unsigned j = 0; j < deep->n; j++) {
        const double most = k == MAX_PARTS ? rate_of_cpus(b, all, i, j) : rate_in(b, all, i, k, j);
        if (most <= 0)
            return (struct spread){0};
        parts[j] = deep->samples[j].rate / most;
    }
    return spread_of(parts, deep->n);
}

struct spread shape_efficiency(const struct bench *b, const struct measured *all, unsigned i)
{
    const struct ceiling ceiling = ceiling_of(b, all, i);
    if (ceiling.missing || ceiling.rate <= 0)
        return (struct spread){0};
    return part_efficiency(b, all, i, ceiling.part);
}

bool is_above_ceiling(double efficiency)
{
    return efficiency > 1.05;
}
