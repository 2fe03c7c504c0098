// SPDX-License-Identifier: Apache-2.0
/* Three steps. The first verifies every case, which also warms caches and leases. Then rounds of all
 * ceilings: what the machine can do, and which parts of a shape are near to be its ceiling. Then
 * rounds of shapes, each next to these parts, so that a machine that is busy for a while spoils a
 * round and not a case, and seldom a ratio. */
#include <string.h>
#include <unistd.h>

#include "bench_figures.h"
#include "bench_tools.h"
#include "bench_turns.h"

enum { LEAST_ALONE = 3, MOST_ALONE = 7, LEAST_BESIDE = 5 };

static const uint64_t least_share = 1 << 20;
static const double alone_s = 8;   /* of all ceilings, after which they have enough samples */
static const double beside_s = 22; /* of all shapes, which share it alike */
static const double near = 1.15; /* times the rate of the least part: noise may make it the least */

static uint64_t at_most(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t bytes_of(const struct bench *b, const struct bench_case *one, unsigned width)
{
    if (is_shape(one))
        return shape_bytes(b, one, width == 0);
    if (one->amount == SOME)
        return at_most(b->size, BENCH_SOME_BYTES);
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

static void fail(struct measured *m)
{
    if (!m->error[0])
        snprintf(m->error, sizeof m->error, "it failed and told no reason");
    m->n_ways = 0;
    m->ways[0].n = 0;
}

/* One more sample. A case that fails once is not told at all. */
static bool take(struct bench *b, const struct bench_case *one, struct way *way, struct measured *m)
{
    struct sample sample;
    if (m->error[0] || interrupted())
        return false;
    if (!run_way(b, one, way, &sample, m->error)) {
        fail(m);
        return false;
    }
    if (!is_verifying(b))
        way->samples[way->n++] = sample;
    return true;
}

static void tell_round(const struct bench *b, const char *name)
{
    if (!isatty(STDERR_FILENO))
        return;
    if (is_verifying(b))
        fprintf(stderr, "\rverifying %-24s", name);
    else
        fprintf(stderr, "\rround %u: %-24s", b->round, name);
}

/* ---- each alone ---- */

/* Of numbers of threads, the most: it has all that the others have. */
static void verify_case(struct bench *b, const struct bench_case *one, struct measured *m)
{
    for (unsigned i = one->by_threads ? m->n_ways - 1 : 0; i < m->n_ways; i++)
        if (!take(b, one, &m->ways[i], m))
            return;
}

/* Every second round begins with the last way, for what ran before leaves its mark: pages that were
 * just freed are cheaper than new ones. */
static void run_alone(struct bench *b, const struct bench_case *one, struct measured *m)
{
    const unsigned n = m->n_ways;
    for (unsigned i = 0; i < n; i++)
        if (!take(b, one, &m->ways[b->round % 2 ? n - 1 - i : i], m))
            return;
}

/* ---- shapes, beside their parts ---- */

static bool is_near(const struct bench *b, const struct measured *all, unsigned i, unsigned k)
{
    const struct bench_case *part = &bench_cases[index_of_case(bench_cases[i].parts[k].name)];
    const struct ceiling ceiling = ceiling_of(b, all, i);
    const double rate = part_rate(b, all, i, k);
    if (ceiling.missing || rate <= 0 || (part->gpu_only && b->on_host))
        return false;
    return rate < near * ceiling.rate ||
           (ceiling.cpu_rate < near * ceiling.rate && part_uses_cpu(b, all, i, k));
}

/* The parts that a shape is measured beside, each by the best of its ways. */
static void choose_parts(const struct bench *b, struct measured *all, unsigned i)
{
    bool chosen[MAX_PARTS] = {0};
    for (unsigned k = 0; k < MAX_PARTS && bench_cases[i].parts[k].name; k++)
        chosen[k] = is_near(b, all, i, k);
    for (unsigned k = 0; k < MAX_PARTS; k++)
        if (chosen[k]) {
            all[i].beside[k] = *best_way(&all[index_of_case(bench_cases[i].parts[k].name)]);
            all[i].beside[k].n = 0;
        }
}

static bool run_parts(struct bench *b, unsigned i, struct measured *m)
{
    for (unsigned k = 0; k < MAX_PARTS; k++) {
        const struct part *part = &bench_cases[i].parts[k];
        if (m->beside[k].bytes &&
            !take(b, &bench_cases[index_of_case(part->name)], &m->beside[k], m))
            return false;
    }
    return true;
}

/* Shape with one chunk at a time, shape, parts; and backwards in every second round. */
static void run_beside(struct bench *b, unsigned i, struct measured *m)
{
    const struct bench_case *one = &bench_cases[i];
    b->turn++;
    if (one->to == TO_FILE)
        bench_touch_pages(b, m->ways[0].bytes);
    if (m->ways[0].n % 2)
        (void)(run_parts(b, i, m) && take(b, one, &m->ways[0], m) && take(b, one, &m->ways[1], m));
    else
        (void)(take(b, one, &m->ways[1], m) && take(b, one, &m->ways[0], m) && run_parts(b, i, m));
}

/* ---- all ---- */

static bool is_measured(const struct measured *m)
{
    return m->wanted && !m->error[0] && !interrupted();
}

static void verify_all(struct bench *b, struct measured *all)
{
    b->round = 0;
    for (unsigned i = 0; i < N_CASES; i++)
        if (is_measured(&all[i])) {
            tell_round(b, bench_cases[i].name);
            verify_case(b, &bench_cases[i], &all[i]);
            bench_turns_change();
        }
}

static void rounds_alone(struct bench *b, struct measured *all)
{
    const double begin_s = bench_turns_clock();
    for (unsigned n = 0; n < MOST_ALONE && !interrupted(); n++) {
        if (n >= LEAST_ALONE && bench_turns_clock() - begin_s > alone_s)
            break;
        b->round++;
        b->turn++;
        for (unsigned i = 0; i < N_CASES; i++)
            if (is_measured(&all[i]) && !is_shape(&bench_cases[i])) {
                tell_round(b, bench_cases[i].name);
                run_alone(b, &bench_cases[i], &all[i]);
                bench_turns_change();
            }
    }
}

/* The shape that has had the least time: so its rounds are spread over all of it. N_CASES: no one
 * needs more. */
static unsigned next_shape(const struct measured *all, const double *spent_s, bool late)
{
    unsigned next = N_CASES;
    for (unsigned i = 0; i < N_CASES; i++)
        if (is_shape(&bench_cases[i]) && is_measured(&all[i]) &&
            all[i].ways[0].n < (late ? LEAST_BESIDE : MAX_SAMPLES) &&
            (next == N_CASES || spent_s[i] < spent_s[next]))
            next = i;
    return next;
}

static void rounds_beside(struct bench *b, struct measured *all)
{
    double spent_s[N_CASES] = {0};
    const double until_s = bench_turns_clock() + beside_s;
    double now_s = until_s - beside_s;
    unsigned i;
    while ((i = next_shape(all, spent_s, now_s >= until_s)) < N_CASES) {
        b->round++;
        tell_round(b, bench_cases[i].name);
        run_beside(b, i, &all[i]);
        bench_turns_change();
        const double end_s = bench_turns_clock();
        spent_s[i] += end_s - now_s;
        now_s = end_s;
    }
}

void bench_rounds(struct bench *b, struct measured *all)
{
    for (unsigned i = 0; i < N_CASES; i++) {
        if (bench_cases[i].gpu_only && b->on_host)
            snprintf(all[i].error, sizeof all[i].error,
                     "the device is the host: there is nothing to copy to");
        else if (all[i].wanted)
            plan(b, &bench_cases[i], &all[i]);
    }
    verify_all(b, all);
    rounds_alone(b, all);
    for (unsigned i = 0; i < N_CASES; i++)
        if (is_measured(&all[i]) && is_shape(&bench_cases[i]))
            choose_parts(b, all, i);
    rounds_beside(b, all);
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r%40s\r", "");
}
