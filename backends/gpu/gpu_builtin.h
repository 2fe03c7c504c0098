// SPDX-License-Identifier: Apache-2.0
/* Built-in kernels on GPUs, of any vendor: which entry of the one source (kernels/) a specification
 * runs, with which parameters and which grid.
 *
 * All entries have the parameters
 *
 *     (const void *in, void *out, uint64_t n_units, uint64_t first_unit, uint64_t *count,
 *      void *state, ARGS args)
 *
 * in and out are aligned to 16 bytes and do not overlap. n_units is not 0. ARGS are passed by
 * value: args_size bytes.
 *
 * The state of a reduction is that of hr__reduce_init(), copied to the device; copied back it is
 * merged and finished by the host's functions. That of a counted kernel is scratch memory: zero
 * before the first launch, used by one launch at a time, and zero again after each. */
#ifndef HR_GPU_BUILTIN_H
#define HR_GPU_BUILTIN_H

#include <stddef.h>
#include <stdint.h>

#include "headrace.h"
#include "host_kernels.h"

/* The same as struct Args of kernels/prelude.cu. */
struct hr__gpu_args {
    double mul;
    double add;
    double lo;
    double hi;
    double step;
    double bins_per_one;
    double float_value;
    int64_t int_value;
    uint32_t lt;
    uint32_t eq;
    uint32_t gt;
    uint32_t invert;
    uint32_t n_bins;
    uint32_t width;
    uint32_t block_bytes;
    uint32_t unused;
};

/* The same as struct CrcArgs there. */
struct hr__gpu_crc_args {
    uint32_t row[16];
    uint32_t level[8];
    uint32_t inverse[32];
};

enum { HR__GPU_ARGS_SIZE = 256 };

struct hr__gpu_builtin {
    char entry[32];
    char only[48]; /* for run-time compilers: defined as HR_ONLY, the source has this entry alone */
    unsigned char args[HR__GPU_ARGS_SIZE];
    size_t args_size;
    size_t state_bytes;       /* of a reduction or a counted kernel; 0: no state */
    uint32_t block;           /* threads of a block */
    uint32_t bytes_per_block; /* of input, about, below which more blocks do not pay */
    uint32_t max_blocks;      /* never more, or a counted kernel's scratch memory overflows */
};

/* Fails: HR_EUNSUPPORTED for a specification that no entry computes. */
hr_status hr__gpu_builtin(const struct hr__kernel_spec *spec, struct hr__gpu_builtin *out)
    __attribute__((warn_unused_result));

/* Blocks of a launch of so many bytes of input (more than 0): n_units * unit_in_bytes. */
uint32_t hr__gpu_builtin_blocks(const struct hr__gpu_builtin *builtin, uint64_t n_bytes);

/* The module cut down to one entry, since a driver translates all that a module has. Returns its
 * length without the final 0; 0 if the entry is not there, or there is no room. */
size_t hr__gpu_builtin_cut(const char *ptx, const char *entry, char *out, size_t out_size);

/* Made by the build: the source, ending with 0; and the PTX, ending with 0 too, which its size does
 * not count. Without clang at build time the size is 0. */
extern const char hr__gpu_builtin_source[];
extern const unsigned char hr__gpu_builtin_ptx[];
extern const size_t hr__gpu_builtin_ptx_size;

#endif
