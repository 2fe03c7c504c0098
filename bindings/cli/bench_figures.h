// SPDX-License-Identifier: Apache-2.0
/* headrace bench: what samples say together. */
#ifndef HR_BENCH_FIGURES_H
#define HR_BENCH_FIGURES_H

#include "bench.h"

enum { MAX_NUMBERS = MAX_SAMPLES };

void sort_numbers(double *numbers, unsigned n);
/* Of at most MAX_NUMBERS; 0 of none. */
double median_of(const double *numbers, unsigned n);

struct summary {
    double median;
    double least;
    double most;
};

struct summary summary_of_rates(const struct way *way);
struct summary summary_of(const struct way *way, size_t member); /* offset in struct sample */
#define SUMMARY(way, member) summary_of(way, offsetof(struct sample, member))

/* The one with the highest median; NULL: nothing was measured. */
const struct way *best_way(const struct measured *one);

/* Of the rounds of a shape. */
struct spread {
    double median;
    double low; /* quartiles */
    double high;
};

/* What a shape stands beside: the least of its parts' rates, and of what the CPUs can do together. */
struct ceiling {
    double rate;         /* bytes a second; 0: not known */
    const char *name;    /* of the part, or "cpu" */
    unsigned part;       /* MAX_PARTS: "cpu" */
    const char *missing; /* a part that was not measured, so that it is not known */
    double cpu_rate;     /* by the CPUs alone; 0: no part needs any */
};

struct ceiling ceiling_of(const struct bench *b, const struct measured *all, unsigned i);

/* Decoded bytes of the stream a second that part k of a shape allows; 0: it is not there on this
 * device, or was not measured. */
double part_rate(const struct bench *b, const struct measured *all, unsigned i, unsigned k);
bool part_uses_cpu(const struct bench *b, const struct measured *all, unsigned i, unsigned k);

/* A shape's rate as a part of what part k, or MAX_PARTS: the CPUs allow, in the same rounds. All 0:
 * not known. */
struct spread part_efficiency(const struct bench *b, const struct measured *all, unsigned i,
                              unsigned k);
/* Of what its ceiling allows. */
struct spread shape_efficiency(const struct bench *b, const struct measured *all, unsigned i);

/* A bit more than its ceiling is noise; with more the ceiling was measured too low. */
bool is_above_ceiling(double efficiency);

/* By what factor a shape is faster than with one chunk on its way; all 0: not measured. */
struct spread shape_gain(const struct measured *one);

/* Whether the gain that the library tells is of the same thing as shape_gain(): no stage did several
 * things at once, which one chunk on its way ends, too. */
bool told_gain_compares(const struct bench_case *of, const struct measured *one);

#endif
