// SPDX-License-Identifier: Apache-2.0
/* What gpu_transfers measured, as JSON on stdout: numbers are exact, the unit is in the key. */
#ifndef GPU_SAMPLES_H
#define GPU_SAMPLES_H

#include "gpu_ways.h"

/* With a comma behind it. */
void print_number(const char *key, uint64_t value);
/* A member that is a list; has_stats: of pipelines. */
void print_samples(const struct sample *samples, unsigned n_samples, bool has_stats);

#endif
