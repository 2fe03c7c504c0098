// SPDX-License-Identifier: Apache-2.0
/* Pipelines of stages whose lengths are known, and what must then be told of them.
 *
 * A load is a stage's work on one chunk: it sleeps, or burns CPU time of its thread, and adds up
 * by a clock of its own how long that was. */
#ifndef OVERLAP_LINE_H
#define OVERLAP_LINE_H

#include <headrace.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct load {
    uint64_t ns; /* of one chunk; 0: none */
    bool burns;
    atomic_uint_fast64_t spent_ns; /* of all, as it was */
    atomic_uint_fast64_t wall_ns;  /* and by the wall: more, if others had the CPU */
};

enum { N_ROUNDS = 3 };

/* A pipeline to be run. Ends that are not set here are callbacks with the loads. */
struct line {
    const char *name;
    struct load read;
    struct load kernel;
    struct load write;
    uint64_t n_chunks;
    uint64_t chunk_bytes;
    unsigned depth;
    unsigned n_threads;
};

uint64_t now_ns(void);
void work(struct load *load);

/* What stages served, known from elsewhere. */
struct truth {
    double service_ns[HR_STAGE_COUNT];
    double margins[HR_STAGE_COUNT]; /* 0: that of all */
};

/* A run, seen from outside. */
struct outcome {
    struct hr_stats stats;
    uint64_t wall_ns;
    uint64_t workers_cpu_ns; /* CPU time of all threads but this one, whose is the loop */
    struct truth truth;      /* of a line, as its loads say */
    bool is_disturbed;       /* its loads took longer than they should: the machine is busy */
    char doubt[96];          /* why its truth is not known well enough; "": it is */
};

/* Runs a configuration to its end, and keeps what it told. */
hr_status run_on(hr_loop *loop, const char *name, const struct hr_pipeline_config *config,
                 struct outcome *outcome, hr_error *error);
/* The same on a context of so many workers of its own. A failure ends the program. */
void run_config(const char *name, unsigned n_threads, const struct hr_pipeline_config *config,
                struct outcome *outcome);
/* Runs a line on the host. */
struct outcome run_line(struct line *line);
/* Some times: the median by wall. */
struct outcome run_rounds(struct line *line);
/* Once, but again, some times at most, if the machine was busy. */
struct outcome run_calm(struct line *line);
/* That one of outcomes, whose order changes. */
struct outcome median_by_wall(struct outcome *outcomes, unsigned n);

/* As check(), but on a machine that was busy meanwhile the figure is only told: it needs threads that
 * run when they can. */
void check_undisturbed(const struct outcome *outcome, const char *figure, double wanted, double got,
                       double margin);
/* Compares utilisation, efficiency, serial time and gain with what follows from the truth and the
 * wall; on a machine that was busy, less strictly. */
void check_truth(const struct outcome *outcome, double margin);
/* Compares with what stages of these lengths give: the first chunk passes them all, then each
 * waits for the longest. Lengths are the truth's, as they were: a sleep is longer than asked for.
 */
void check_model(const struct outcome *outcome, uint64_t n_chunks);

#endif
