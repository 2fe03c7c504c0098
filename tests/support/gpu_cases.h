// SPDX-License-Identifier: Apache-2.0
/* The built-in kernels of GPUs against the host's, byte for byte, wherever they run. */
#ifndef HR_GPU_CASES_H
#define HR_GPU_CASES_H

#include <stdbool.h>

#include "gpu_builtin.h"

/* Everything is host memory, copied there and back by the runner. out and state may be NULL with
 * sizes of 0; out is copied there too, so that what a kernel must not write is seen to be kept. */
struct gpu_run {
    const struct hr__gpu_builtin *builtin;
    uint32_t n_blocks;
    const void *in;
    size_t in_bytes;
    void *out;
    size_t out_bytes;
    uint64_t n_units;
    uint64_t first_unit;
    uint64_t count;
    void *state;
};

struct gpu_runner {
    bool (*run)(void *user, struct gpu_run *run);
    void *user;
    size_t max_bytes; /* of the longest input */
    int n_contents;   /* at most GPU_N_CONTENTS: the first so many */
};

/* Runs all of the table, prints a line for each kernel that differs and one at the end. Returns how
 * many kernels differ. */
unsigned gpu_cases(const struct gpu_runner *runner);

enum gpu_content { GPU_MIXED, GPU_FINITE, GPU_SMALL, GPU_SAME, GPU_N_CONTENTS };

/* Elements of the type: everything there is; random bits but no infinity and no NaN; small numbers;
 * all the same. */
void gpu_fill(enum hr__type type, enum gpu_content content, unsigned char *data, size_t n_bytes);

#endif
