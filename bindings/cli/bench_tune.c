// SPDX-License-Identifier: Apache-2.0
/* Looks for settings that are faster than the defaults: one knob after the other, its values by turns
 * with what is best so far. What is found at the end must beat the defaults in turns with them, by
 * more than they differ among themselves; else the defaults are proposed. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench_tune.h"

enum { LEAST_ROUNDS = 3, LEAST_TURNS = 3, MAX_VALUES = 5 };

static const double worth = 1.02;         /* less is not told apart from noise */
static const double part_to_prove = 0.25; /* of the time, for the last comparison */

static void set_knob(struct tuned *with, enum knob knob, uint64_t value)
{
    uint64_t *const at[N_KNOBS] = {&with->chunk, &with->depth, &with->threads, &with->streams};
    *at[knob] = value;
}

/* ---- what is tried ---- */

static unsigned choose_chunks(uint64_t values[MAX_VALUES])
{
    for (unsigned i = 0; i < MAX_VALUES; i++)
        values[i] = UINT64_C(1) << (20 + i);
    return MAX_VALUES;
}

/* Halves and doubles of what is in force. */
static unsigned choose_around(uint64_t now, uint64_t values[MAX_VALUES])
{
    const uint64_t around[] = {now / 2, now * 3 / 4, now * 3 / 2, now * 2};
    unsigned n = 0;
    for (unsigned i = 0; i < sizeof around / sizeof around[0]; i++)
        if (around[i] > 1 && around[i] != now)
            values[n++] = around[i];
    return n;
}

static unsigned choose_values(const struct tune *t, const struct tuned *best, enum knob knob,
                              uint64_t values[MAX_VALUES])
{
    static const uint64_t streams[] = {1, 2, 4, 8};
    const uint64_t cpus = (uint64_t)t->bench.n_cpus;
    switch (knob) {
    case KNOB_CHUNK:
        return choose_chunks(values);
    case KNOB_DEPTH:
        return choose_around(knob_value(t, best, knob), values);
    case KNOB_THREADS: /* idle, if nothing is decoded and kernels run elsewhere */
        return t->decodes ? choose_around(cpus, values) : 0;
    case KNOB_STREAMS:
        memcpy(values, streams, sizeof streams);
        return t->bench.on_host ? 0 : sizeof streams / sizeof streams[0];
    case N_KNOBS:
        break;
    }
    return 0;
}

/* What is best so far first, then the values that differ from it. */
static struct trial *add_trials(struct tune *t, const struct tuned *best, enum knob knob,
                                unsigned *n)
{
    uint64_t values[MAX_VALUES];
    struct trial *first = &t->trials[t->n_trials];
    const unsigned n_values = choose_values(t, best, knob, values);
    *n = 0;
    if (!n_values || t->n_trials + n_values + 1 > MAX_TRIALS)
        return first;
    first[(*n)++] = (struct trial){.knob = knob, .with = *best};
    for (unsigned i = 0; i < n_values; i++) {
        if (values[i] == knob_value(t, best, knob))
            continue;
        first[*n] = (struct trial){.knob = knob, .with = *best};
        set_knob(&first[(*n)++].with, knob, values[i]);
    }
    return first;
}

/* ---- the search ---- */

static bool run_trial(struct tune *t, struct trial *trial, char *error)
{
    const bool with_kernel = trial->knob == KNOB_STREAMS;
    if (!tune_run(t, &trial->with, with_kernel, &trial->wall_s[trial->n], error))
        return false;
    trial->n++;
    return true;
}

static double median_s(const struct trial *trial)
{
    return median_of(trial->wall_s, trial->n);
}

/* The one that is worth a change; else the first. */
static const struct trial *fastest(const struct trial *trials, unsigned n)
{
    const struct trial *least = trials;
    for (unsigned i = 1; i < n; i++)
        if (median_s(&trials[i]) < median_s(least))
            least = &trials[i];
    return median_s(trials) > worth * median_s(least) ? least : trials;
}

/* False: failed. A knob for which there is no time is left as it is; while there is, its trials get
 * more rounds than they need. */
static bool turn_knob(struct tune *t, enum knob knob, double until_s, struct tuned *best,
                      char *error)
{
    const double now_s = bench_clock_seconds();
    const double enough_s = now_s + (until_s - now_s) / (N_KNOBS - knob);
    unsigned n;
    struct trial *trials = add_trials(t, best, knob, &n);
    for (unsigned round = 0; round < MAX_SAMPLES; round++) {
        if (round >= LEAST_ROUNDS && bench_clock_seconds() > enough_s)
            break;
        for (unsigned i = 0; i < n; i++) {
            if (interrupted() || bench_clock_seconds() > until_s) {
                t->out_of_time = true;
                return true;
            }
            if (!run_trial(t, &trials[i], error))
                return false;
        }
    }
    t->n_trials += n;
    if (n)
        *best = fastest(trials, n)->with;
    return true;
}

static bool search(struct tune *t, double limit_s, struct tuned *best, char *error)
{
    const double until_s = t->end_s - part_to_prove * limit_s;
    for (enum knob knob = KNOB_CHUNK; knob < N_KNOBS && !interrupted(); knob++) {
        if (isatty(STDERR_FILENO))
            fprintf(stderr, "\rtrying, part %d of %d", (int)knob + 1, N_KNOBS + 1);
        if (!turn_knob(t, knob, until_s, best, error))
            return false;
    }
    return true;
}

/* ---- the proof ---- */

/* The lower quartile of the turns must be a gain, too. */
static void judge(struct tune *t)
{
    double ratios[MAX_SAMPLES];
    const unsigned n = t->found.n;
    for (unsigned i = 0; i < n; i++)
        ratios[i] = t->by_default.wall_s[i] / t->found.wall_s[i];
    sort_numbers(ratios, n);
    t->gain = n ? median_of(ratios, n) : 1;
    t->is_gain = n >= LEAST_TURNS && t->gain >= worth && ratios[n / 4] > 1;
}

static bool is_default(const struct tuned *with)
{
    return !with->chunk && !with->depth && !with->streams && !with->threads;
}

static bool prove(struct tune *t, const struct tuned *best, char *error)
{
    const bool with_kernel = best->streams != 0;
    t->found.with = *best;
    t->gain = 1;
    if (is_default(best))
        return tune_verify(t, error);
    for (unsigned i = 0; i < MAX_SAMPLES && !interrupted(); i++) {
        if (i >= LEAST_TURNS && bench_clock_seconds() > t->end_s)
            break;
        if (!tune_run(t, &t->by_default.with, with_kernel, &t->by_default.wall_s[i], error) ||
            !tune_run(t, best, with_kernel, &t->found.wall_s[i], error))
            return false;
        t->by_default.n = t->found.n = i + 1;
    }
    judge(t);
    if (t->is_gain)
        t->proposed = *best;
    return tune_verify(t, error);
}

/* ---- the command ---- */

static bool save(struct tune *t)
{
    char why[HR_ERROR_TEXT];
    char *path = tuned_path();
    snprintf(t->proposed.device, sizeof t->proposed.device, "%s", t->bench.device);
    snprintf(t->proposed.kind, sizeof t->proposed.kind, t->decodes ? "zstd" : "plain");
    t->proposed.gain = t->is_gain ? t->gain : 1;
    const bool saved = tuned_save(&t->proposed, why);
    if (saved && path)
        snprintf(t->saved, sizeof t->saved, "%s", path);
    else
        fprintf(stderr, "headrace: --save: %s\n", why);
    free(path);
    return saved;
}

static int tune(struct tune *t, const struct tune_options *o)
{
    char error[HR_ERROR_TEXT] = "";
    struct tuned best = {0};
    bool done =
        tune_set_up(t, o, error) && search(t, o->limit_s, &best, error) && prove(t, &best, error);
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r%24s\r", "");
    if (interrupted()) {
        fputs("headrace: interrupted: nothing is told of half a search\n", stderr);
        return EXIT_INTERRUPTED;
    }
    if (!done) {
        fprintf(stderr, "headrace: bench --tune: %s\n", error);
        return EXIT_TRANSFER;
    }
    done = !o->save || save(t);
    tune_print(t, stdout);
    const int code = finish_stdout();
    return bench_write_json(o->json, tune_print_json, t) && done ? code : EXIT_TRANSFER;
}

int run_tune(const struct tune_options *options)
{
    static struct tune t;
    const int code = tune(&t, options);
    tune_tear_down(&t);
    return code;
}
