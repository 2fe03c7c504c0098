// SPDX-License-Identifier: Apache-2.0
/* headrace bench --tune: its parts. */
#ifndef HR_BENCH_TUNE_H
#define HR_BENCH_TUNE_H

#include "bench_figures.h"
#include "bench_tools.h"
#include "tuned.h"

enum { MAX_TRIALS = 64, MAX_TURNS = 15, N_TUNE_POOLS = 4 };

/* Two settings, by turns on the same work. */
struct trial {
    struct tuned with;
    struct tuned beside; /* the best so far */
    unsigned n;
    double with_s[MAX_TURNS];
    double beside_s[MAX_TURNS];
    double gain;  /* of with over beside: the median of the turns' ratios; 1: no turn */
    bool is_gain; /* more than noise */
};

struct tune {
    struct bench bench; /* its device, and the made input */
    const char *path;
    uint64_t bytes;       /* of the stream that each transfer moves, decoded */
    double run_s;         /* that a run should take */
    unsigned n_transfers; /* of a run */
    bool decodes;
    uint32_t crc32;
    void *there;              /* memory of the GPU that gets it */
    struct hr_stats defaults; /* of a transfer without settings */
    struct {
        uint64_t threads; /* 0: free */
        struct pool pool;
    } pools[N_TUNE_POOLS];
    double end_s; /* of the search, by the clock */

    unsigned n_trials;
    struct trial trials[MAX_TRIALS];
    struct trial proof; /* the last one: what was found beside the defaults */
    bool out_of_time;
    struct tuned proposed;
    char saved[HR_ERROR_TEXT]; /* the file; "": not asked for, or failed */
};

/* ---- bench_tune_run.c ---- */

/* All: false with the reason in error. */
bool tune_set_up(struct tune *tune, const struct tune_options *options, char *error);
void tune_tear_down(struct tune *tune);
bool tune_run(struct tune *tune, const struct tuned *with, double *wall_s, char *error);
/* That a transfer with these settings brings the device what it should. */
bool tune_verify(struct tune *tune, const struct tuned *with, char *error);

/* ---- bench_tune_trial.c ---- */

/* Runs both by turns until until_s, but at least as many times as it takes to tell a gain: *whole
 * says whether there was time for that. With most turns it goes on; without, it ends as soon as the
 * trial is lost. False with the reason in error. */
bool trial_run(struct tune *tune, struct trial *trial, double until_s, bool most, bool *whole,
               char *error);

/* ---- bench_tune_text.c ---- */

/* What is in force: where nothing is set, the default. */
struct tuned tune_in_force(const struct tune *tune, const struct tuned *with);
void tune_print(const struct tune *tune, FILE *out);
void tune_print_json(const void *tune, FILE *out);

#endif
