// SPDX-License-Identifier: Apache-2.0
#ifndef HR_GPU_BENCH_H
#define HR_GPU_BENCH_H

#include <stdbool.h>

#include "driver_calls.h"
#include "gpu_builtin.h"

/* Memory of the device, in the order of an entry's parameters. */
struct gpu_memory {
    cuda_memory in;
    cuda_memory out;
    cuda_memory count;
    cuda_memory state;
};

/* Enqueues one launch of the function, which is the builtin's entry. */
bool gpu_enqueue(void *function, const struct hr__gpu_builtin *builtin, uint32_t n_blocks,
                 const struct gpu_memory *memory, uint64_t n_units, uint64_t first_unit);

/* Prints a table of what the module's kernels move, on 8 MiB (in the cache) and on 512 MiB of input,
 * beside a copy on the device: GB/s of input and output together, the median of five. */
bool gpu_bench(void *module);

#endif
