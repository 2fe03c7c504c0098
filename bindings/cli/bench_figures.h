// SPDX-License-Identifier: Apache-2.0
/* headrace bench: what samples say together. */
#ifndef HR_BENCH_FIGURES_H
#define HR_BENCH_FIGURES_H

#include "bench.h"

enum { MAX_NUMBERS = 15 };

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

/* CPU seconds that each of its bytes takes, as a part. */
double cpu_per_byte(const struct bench *b, unsigned i, const struct measured *all);

/* What a shape stands beside: the least of its parts' rates, and of what the CPUs can do together. */
struct ceiling {
    double rate;         /* bytes a second; 0: not known */
    const char *name;    /* of the part, or "cpu" */
    const char *missing; /* a part that was not measured, so that it is not known */
    double cpu_rate;     /* by the CPUs alone; 0: no part needs any */
};

struct ceiling ceiling_of(const struct bench *b, const struct measured *all, unsigned i);

/* Decoded bytes of the stream a second that the part allows; 0: it is not there on this device, or
 * was not measured. */
double part_rate(const struct bench *b, const struct measured *all, const struct part *part);

/* A shape's rate as a part of what its ceiling allows; 0: that is not known. */
double shape_efficiency(const struct bench *b, const struct measured *all, unsigned i);

/* A bit more than its ceiling is noise; with more the ceiling was measured too low. */
bool is_above_ceiling(double efficiency);

/* By what factor a shape is faster than with one chunk on its way; 0: not measured. */
double shape_gain(const struct measured *one);

/* Whether the gain that the library tells is of the same thing as shape_gain(): no stage did several
 * things at once, which one chunk on its way ends, too. */
bool told_gain_compares(const struct bench_case *of, const struct measured *one);

#endif
