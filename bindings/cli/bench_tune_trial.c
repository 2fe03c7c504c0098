// SPDX-License-Identifier: Apache-2.0
/* Two settings beside each other: A B, B A, A B, ... on the same work, so that a machine that gets
 * slower or faster is the same for both. The turns' ratios tell which is the faster one, and how far
 * they are to be believed. */
#include "bench_tune.h"

enum { FEW_TURNS = 3, LEAST_TURNS = 5, USUAL_TURNS = 7 };

static const double worth = 1.02; /* less is not told apart from noise */

/* The lower quartile of the turns must be a gain, too. */
static void judge(struct trial *trial)
{
    double ratios[MAX_TURNS];
    const unsigned n = trial->n;
    for (unsigned i = 0; i < n; i++)
        ratios[i] = trial->beside_s[i] / trial->with_s[i];
    sort_numbers(ratios, n);
    trial->gain = n ? median_of(ratios, n) : 1;
    trial->is_gain = n >= LEAST_TURNS && trial->gain > worth && ratios[n / 4] > 1;
}

static bool take_turn(struct tune *t, struct trial *trial, char *error)
{
    const unsigned i = trial->n;
    double *with_s = &trial->with_s[i];
    double *beside_s = &trial->beside_s[i];
    const bool done = i % 2 ? tune_run(t, &trial->with, with_s, error) &&
                                  tune_run(t, &trial->beside, beside_s, error)
                            : tune_run(t, &trial->beside, beside_s, error) &&
                                  tune_run(t, &trial->with, with_s, error);
    trial->n += done;
    judge(trial);
    return done;
}

/* One that is lost ends early; one that may be a gain, but is not told from noise yet, gets more. */
static bool goes_on(const struct trial *trial, bool most)
{
    if (trial->n < FEW_TURNS)
        return true;
    if (most || (trial->gain > worth && !trial->is_gain))
        return trial->n < MAX_TURNS;
    return trial->n < USUAL_TURNS && trial->gain > 1;
}

bool trial_run(struct tune *t, struct trial *trial, double until_s, bool most, bool *whole,
               char *error)
{
    *whole = true;
    trial->gain = 1;
    if (!tune_verify(t, &trial->with, error)) /* which is the warm-up, too */
        return false;
    while (goes_on(trial, most)) {
        const bool is_late = interrupted() || bench_clock_seconds() > until_s;
        if (is_late && (trial->n >= LEAST_TURNS || !most || interrupted())) {
            *whole = trial->n >= LEAST_TURNS;
            return true;
        }
        if (!take_turn(t, trial, error))
            return false;
    }
    return true;
}
