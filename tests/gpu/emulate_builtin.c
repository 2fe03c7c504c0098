// SPDX-License-Identifier: Apache-2.0
/* The source of the GPUs' kernels, run on the CPU, against the host's kernels. */
#include <stdlib.h>
#include <string.h>

#include "gpu_cases.h"
#include "gpu_emulation.h"

/* The input is copied to where a device's memory would be aligned, and nothing behind it may be
 * read. */
static bool run_emulated(void *user, struct gpu_run *run)
{
    (void)user;
    void *in = NULL;
    if (posix_memalign(&in, 16, run->in_bytes) != 0)
        return false;
    memcpy(in, run->in, run->in_bytes);
    const struct gpu_launch launch = {
        .in = in,
        .out = run->out,
        .n_units = run->n_units,
        .first_unit = run->first_unit,
        .count = &run->count,
        .state = run->state,
    };
    const bool is_there = gpu_emulate(run->builtin->entry, run->builtin->args,
                                      run->builtin->args_size, run->n_blocks, &launch);
    free(in);
    return is_there;
}

int main(void)
{
    const struct gpu_runner runner = {.run = run_emulated, .max_bytes = 1 << 16, .n_contents = 2};
    return gpu_cases(&runner) != 0;
}
