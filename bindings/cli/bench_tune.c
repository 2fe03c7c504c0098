// SPDX-License-Identifier: Apache-2.0
/* Looks for settings that are faster than the defaults. From the best so far it goes a step at a
 * time; a step is taken if it is a gain by turns with that, by more than noise. Chunk and depth are
 * turned together, for what matters is how large chunks are that take the same memory, and then how
 * much memory. What is found at the end must beat the defaults, by turns with them; else these are
 * proposed. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench_tune.h"

static const double part_to_prove = 0.25; /* of the time, for the last comparison */
static const uint64_t least_chunk = 64 << 10;
static const uint64_t most_chunk = 64 << 20;
static const uint64_t most_in_flight = 256 << 20; /* a context leases 1 GiB by default */

/* Quarters by which a setting is multiplied. */
struct step {
    unsigned chunk;
    unsigned depth;
    unsigned threads; /* 0: as they are; else of the CPUs */
};

static const struct step steps[] = {
    {8, 2, 0}, {2, 8, 0}, {16, 1, 0}, {1, 16, 0}, /* the same memory */
    {4, 2, 0}, {4, 8, 0},                         /* less and more of it */
    {8, 4, 0}, {2, 4, 0},                         /* both */
    {4, 4, 3}, {4, 4, 6}, {4, 4, 2},  {4, 4, 8},
};

/* ---- what is tried ---- */

static uint64_t quarters(uint64_t value, unsigned n)
{
    return value * n / 4;
}

/* Of the last-level cache; no limit where it is not known. */
static uint64_t cache_bytes(void)
{
    const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return bytes > 0 ? (uint64_t)bytes : UINT64_MAX;
}

/* Chunks that are on their way should be found in the last-level cache: more of them is not tried. */
static bool is_sensible(const struct tune *t, const struct tuned *with, const struct tuned *best)
{
    const uint64_t bytes = with->chunk * with->depth;
    const uint64_t cache = cache_bytes();
    const bool grows = bytes > best->chunk * best->depth;
    return with->depth >= 2 && with->chunk >= least_chunk && with->chunk <= most_chunk &&
           with->chunk <= t->bytes && (!grows || (bytes <= most_in_flight && bytes <= cache));
}

static bool is_same(const struct tune *t, const struct tuned *a, const struct tuned *b)
{
    const struct tuned x = tune_in_force(t, a);
    const struct tuned y = tune_in_force(t, b);
    return x.chunk == y.chunk && x.depth == y.depth && x.threads == y.threads;
}

static bool was_tried(const struct tune *t, const struct tuned *with)
{
    static const struct tuned defaults;
    bool tried = is_same(t, with, &defaults);
    for (unsigned i = 0; i < t->n_trials; i++)
        tried |= is_same(t, with, &t->trials[i].with);
    return tried;
}

/* Threads are idle, if nothing is decoded. What stays as it is by default stays unset. False: the
 * step leads nowhere. */
static bool take_step(const struct tune *t, const struct tuned *best, const struct step *step,
                      struct tuned *out)
{
    const struct tuned now = tune_in_force(t, best);
    struct tuned next = now;
    *out = *best;
    if (step->threads) {
        out->threads = quarters((uint64_t)t->bench.n_cpus, step->threads);
        return t->decodes && out->threads && !was_tried(t, out);
    }
    next.chunk = quarters(now.chunk, step->chunk) / 4096 * 4096;
    next.depth = quarters(now.depth, step->depth);
    if (!is_sensible(t, &next, &now))
        return false;
    out->chunk = step->chunk == 4 ? best->chunk : next.chunk;
    out->depth = step->depth == 4 ? best->depth : next.depth;
    return !was_tried(t, out);
}

/* ---- the search ---- */

static void tell_progress(const struct tune *t)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\rtrying, %u so far", t->n_trials);
}

/* *stepped: the step was a gain. */
static bool try_step(struct tune *t, const struct step *step, double until_s, struct tuned *best,
                     bool *stepped, char *error)
{
    struct trial *trial = &t->trials[t->n_trials];
    bool whole;
    *trial = (struct trial){.beside = *best};
    if (t->n_trials == MAX_TRIALS || !take_step(t, best, step, &trial->with))
        return true;
    if (!trial_run(t, trial, until_s, false, &whole, error))
        return false;
    t->out_of_time |= !whole;
    t->n_trials += whole;
    if (whole && trial->is_gain) {
        *best = trial->with;
        *stepped = true;
    }
    tell_progress(t);
    return true;
}

/* All steps over and over again, until none is a gain. */
static bool search(struct tune *t, double limit_s, struct tuned *best, char *error)
{
    const double until_s = t->end_s - part_to_prove * limit_s;
    bool stepped = true;
    while (stepped) {
        stepped = false;
        for (unsigned i = 0; i < sizeof steps / sizeof steps[0]; i++) {
            if (t->out_of_time || interrupted())
                return true;
            if (!try_step(t, &steps[i], until_s, best, &stepped, error))
                return false;
        }
    }
    return true;
}

static bool prove(struct tune *t, const struct tuned *best, char *error)
{
    bool whole;
    t->proof = (struct trial){.with = *best, .gain = 1};
    if (is_same(t, best, &t->proof.beside))
        return true;
    if (!trial_run(t, &t->proof, t->end_s, true, &whole, error))
        return false;
    if (whole && t->proof.is_gain)
        t->proposed = *best;
    return true;
}

/* ---- the command ---- */

static bool save(struct tune *t)
{
    char why[HR_ERROR_TEXT];
    char *path = tuned_path();
    snprintf(t->proposed.device, sizeof t->proposed.device, "%s", t->bench.device);
    snprintf(t->proposed.kind, sizeof t->proposed.kind, t->decodes ? "zstd" : "plain");
    t->proposed.gain = t->proof.is_gain ? t->proof.gain : 1;
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
