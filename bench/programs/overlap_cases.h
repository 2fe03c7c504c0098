// SPDX-License-Identifier: Apache-2.0
/* The groups of cases of overlap_truth. */
#ifndef OVERLAP_CASES_H
#define OVERLAP_CASES_H

/* What must agree with known lengths; and the reported gain with that against depth 1. */
#define TRUTH_MARGIN 0.03
#define GAIN_MARGIN 0.10

/* Stages of known length on the host: one that dominates, two equal ones, all equal. */
void host_lines(void);
/* zstd, whose CPU time is known from outside. */
void host_codecs(void);
/* A pipe that a peer fills or empties at a known pace. */
void host_pipes(void);
/* What must not count. */
void host_counter_examples(void);

/* Copies and kernels of known length on "cuda:N" or "hip:N". */
void gpu_cases(const char *device);

#endif
