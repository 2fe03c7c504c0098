// SPDX-License-Identifier: Apache-2.0
/* headrace bench --tune: its parts. */
#ifndef HR_BENCH_TUNE_H
#define HR_BENCH_TUNE_H

#include "bench_figures.h"
#include "bench_tools.h"
#include "tuned.h"

enum { MAX_TRIALS = 40, MAX_TUNE_POOLS = 8 };

enum knob { KNOB_CHUNK, KNOB_DEPTH, KNOB_THREADS, KNOB_STREAMS, N_KNOBS };

/* One setting and how long its runs took, each interleaved with those it is compared with. */
struct trial {
    enum knob knob; /* that was turned */
    struct tuned with;
    unsigned n;
    double wall_s[MAX_SAMPLES];
};

struct tune {
    struct bench bench; /* its device, and the made input */
    const char *path;
    uint64_t bytes; /* of the stream that each run moves, decoded */
    bool decodes;
    uint32_t crc32;
    void *there;              /* memory of the GPU that gets it */
    struct hr_stats defaults; /* of a run without settings */
    struct {
        uint64_t threads;
        struct pool pool;
    } pools[MAX_TUNE_POOLS];
    double end_s; /* of the search, by the clock */

    unsigned n_trials;
    struct trial trials[MAX_TRIALS];
    struct trial by_default; /* the last comparison: these two by turns */
    struct trial found;
    double gain;  /* of what was found over the default: the median of the turns' ratios */
    bool is_gain; /* more than noise */
    bool out_of_time;
    struct tuned proposed;
    char saved[HR_ERROR_TEXT]; /* the file; "": not asked for, or failed */
};

/* ---- bench_tune_run.c ---- */

/* All: false with the reason in error. */
bool tune_set_up(struct tune *tune, const struct tune_options *options, char *error);
void tune_tear_down(struct tune *tune);
/* with_kernel: through one that copies, for streams. */
bool tune_run(struct tune *tune, const struct tuned *with, bool with_kernel, double *wall_s,
              char *error);
/* That what the device got last is right. */
bool tune_verify(struct tune *tune, char *error);

/* ---- bench_tune_text.c ---- */

/* What the knob stands at: where it is the default, what that is in force. */
uint64_t knob_value(const struct tune *tune, const struct tuned *with, enum knob knob);
void tune_print(const struct tune *tune, FILE *out);
void tune_print_json(const void *tune, FILE *out);

#endif
