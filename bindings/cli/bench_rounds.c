// SPDX-License-Identifier: Apache-2.0
/* Rounds: each runs every way of every case once, so that a machine that slows down or is busy for a
 * while spoils a round and not a case. The first verifies, which also warms caches and leases. */
#include <string.h>
#include <unistd.h>

#include "bench_tools.h"

static const uint64_t some_bytes = 256 << 20;
static const uint64_t least_share = 1 << 20;
static const double budget_s = 4;       /* of a case's way, after which it has enough samples */
static const double budget_all_s = 100; /* after which nothing gets more than it needs */

static uint64_t at_most(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t bytes_of(const struct bench *b, const struct bench_case *one, unsigned width)
{
    if (is_shape(one))
        return shape_bytes(b, one);
    if (one->amount == SOME)
        return at_most(b->size, some_bytes);
    if (one->amount == ALL)
        return b->size;
    const uint64_t share = b->packed_of / (uint64_t)b->n_cpus * width;
    return at_most(b->packed_of, share < least_share ? least_share : share - share % 4096);
}

static void plan(const struct bench *b, const struct bench_case *one, struct measured *m)
{
    m->n_ways = is_shape(one) ? 2 : one->by_threads ? b->n_widths : 1;
    for (unsigned i = 0; i < m->n_ways; i++) {
        const unsigned width = is_shape(one) ? i : one->by_threads ? b->widths[i] : 0;
        m->ways[i] = (struct way){.width = width, .bytes = bytes_of(b, one, width)};
    }
}

static bool run_way(struct bench *b, const struct bench_case *one, struct way *way,
                    struct sample *sample, char *error)
{
    return is_shape(one) ? run_shape(b, one, way, sample, error) : one->run(b, way, sample, error);
}

static bool has_enough(const struct way *way, double begin_s)
{
    double spent_s = 0;
    for (unsigned i = 0; i < way->n; i++)
        spent_s += way->samples[i].wall_s;
    return way->n >= MAX_SAMPLES ||
           (way->n >= LEAST_SAMPLES &&
            (spent_s > budget_s || bench_clock_seconds() - begin_s > budget_all_s));
}

/* A case that fails once is not told at all. Every second round begins with the last way, for what ran
 * before leaves its mark: pages that were just freed are cheaper than new ones. */
static void run_case(struct bench *b, const struct bench_case *one, struct measured *m,
                     double begin_s)
{
    struct sample sample;
    for (unsigned i = 0; i < m->n_ways && !m->error[0] && !interrupted(); i++) {
        struct way *way = &m->ways[b->round % 2 ? m->n_ways - 1 - i : i];
        if (!is_verifying(b) && has_enough(way, begin_s))
            continue;
        if (!run_way(b, one, way, &sample, m->error)) {
            if (!m->error[0])
                snprintf(m->error, sizeof m->error, "it failed and told no reason");
            m->n_ways = 0;
        } else if (!is_verifying(b)) {
            way->samples[way->n++] = sample;
        }
    }
}

static void tell_round(unsigned round, const char *name)
{
    if (!isatty(STDERR_FILENO))
        return;
    if (round == 0)
        fprintf(stderr, "\rverifying %-24s", name);
    else
        fprintf(stderr, "\rround %u of %d: %-16s", round, MAX_SAMPLES, name);
}

void bench_rounds(struct bench *b, struct measured *all)
{
    const double begin_s = bench_clock_seconds();
    for (unsigned i = 0; i < N_CASES; i++) {
        if (bench_cases[i].gpu_only && b->on_host)
            snprintf(all[i].error, sizeof all[i].error,
                     "the device is the host: there is nothing to copy to");
        else if (all[i].wanted)
            plan(b, &bench_cases[i], &all[i]);
    }
    for (b->round = 0; b->round <= MAX_SAMPLES; b->round++)
        for (unsigned i = 0; i < N_CASES && !interrupted(); i++)
            if (all[i].wanted && !all[i].error[0]) {
                tell_round(b->round, bench_cases[i].name);
                run_case(b, &bench_cases[i], &all[i], begin_s);
            }
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r%40s\r", "");
}
