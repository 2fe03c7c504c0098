// SPDX-License-Identifier: Apache-2.0
/* Runs the kernels of GPUs on the CPU, for tests without a GPU. The blocks of a grid run one after
 * the other, so that a block's shared memory can be static; the threads of a block are fibers of
 * one thread, and a barrier passes control to the next. */
#ifndef HR_GPU_EMULATION_H
#define HR_GPU_EMULATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct gpu_launch {
    const void *in;
    void *out;
    uint64_t n_units;
    uint64_t first_unit;
    uint64_t *count;
    void *state;
};

/* False if there is no such entry. */
bool gpu_emulate(const char *entry, const void *args, size_t args_size, uint32_t n_blocks,
                 const struct gpu_launch *launch);

#ifdef __cplusplus
}
#endif

#endif
