// SPDX-License-Identifier: Apache-2.0
/* Built-in kernels for the fake driver: one entry that gets the parsed kernel as its arguments and
 * runs the host's version. Linked into a test, it takes the place of the library's. */
#include <string.h>

#include "fake_cuda.h"
#include "gpu_builtin.h"

const char hr__gpu_builtin_source[] = "fake source";
const unsigned char hr__gpu_builtin_ptx[] = "";
const size_t hr__gpu_builtin_ptx_size = 0;

_Static_assert(sizeof(struct hr__kernel_spec) <= sizeof((struct hr__gpu_builtin *)0)->args,
               "a parsed kernel is an argument");

hr_status hr__gpu_builtin(const struct hr__kernel_spec *spec, struct hr__gpu_builtin *out)
{
    *out = (struct hr__gpu_builtin){
        .entry = "fake_builtin",
        .args_size = sizeof *spec,
        .block = 128,
        .bytes_per_block = 4096,
        .max_blocks = 64,
        .state_bytes = spec->is_counted ? 4096 : (size_t)spec->state_bytes,
    };
    memcpy(out->args, spec, sizeof *spec);
    return HR_OK;
}

uint32_t hr__gpu_builtin_blocks(const struct hr__gpu_builtin *builtin, uint64_t n_bytes)
{
    const uint64_t n = n_bytes / builtin->bytes_per_block + 1;
    return n < builtin->max_blocks ? (uint32_t)n : builtin->max_blocks;
}

size_t hr__gpu_builtin_cut(const char *ptx, const char *entry, char *out, size_t out_size)
{
    (void)ptx;
    (void)entry;
    (void)out;
    (void)out_size;
    return 0;
}

enum param { IN, OUT, N_UNITS, FIRST_UNIT, COUNT, STATE, ARGS };

static uint64_t number(const struct fake_cuda_launch *launch, enum param param)
{
    uint64_t value;
    memcpy(&value, launch->params[param], sizeof value);
    return value;
}

static int run(const struct fake_cuda_launch *launch)
{
    struct hr__kernel_spec spec;
    const size_t n = (size_t)number(launch, N_UNITS);
    memcpy(&spec, launch->params[ARGS], sizeof spec);
    const void *in = fake_cuda_host(number(launch, IN), n * spec.unit_in_bytes);
    if (spec.is_reduction) {
        void *state = fake_cuda_host(number(launch, STATE), (size_t)spec.state_bytes);
        hr__reduce_fold(&spec, state, in, n, number(launch, FIRST_UNIT));
        return 0;
    }
    void *out = fake_cuda_host(number(launch, OUT), n * spec.unit_out_bytes);
    if (spec.is_counted) {
        uint64_t *count = fake_cuda_host(number(launch, COUNT), sizeof *count);
        *count = hr__kernel_filter(&spec, in, out, n);
    } else {
        hr__kernel_map(&spec, in, out, n);
    }
    return 0;
}

/* Programs need not know of it. */
__attribute__((constructor)) static void register_kernels(void)
{
    static const size_t sizes[] = {8, 8, 8, 8, 8, 8, sizeof((struct hr__gpu_builtin *)0)->args, 0};
    fake_cuda_kernel("fake_builtin", run, sizes);
}
