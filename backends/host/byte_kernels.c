// SPDX-License-Identifier: Apache-2.0
/*
 * Kernels that move bytes (byte swap, shuffle, unshuffle), and the dispatch of all kernels whose
 * output size is a fixed ratio of the input's.
 */
#include <assert.h>

#include "host_kernels.h"
#include "host_numbers.h"

#define BSWAP_LOOP(BITS)                                                                           \
    static void bswap_##BITS(const void *restrict in, void *restrict out, size_t n)                \
    {                                                                                              \
        const hr__raw_u##BITS *restrict from = in;                                                 \
        hr__raw_u##BITS *restrict to = out;                                                        \
        for (size_t i = 0; i < n; i++)                                                             \
            to[i] = __builtin_bswap##BITS(from[i]);                                                \
    }

BSWAP_LOOP(16)
BSWAP_LOOP(32)
BSWAP_LOOP(64)

static void bswap(uint32_t width, const void *in, void *out, size_t n)
{
    if (width == 2)
        bswap_16(in, out, n);
    else if (width == 4)
        bswap_32(in, out, n);
    else
        bswap_64(in, out, n);
}

/* Rows of `n` elements of `width` bytes to `width` planes of n bytes. Always inlined, so that the
 * usual widths are compiled with a constant stride. */
static inline __attribute__((always_inline)) void
shuffle_block(const uint8_t *restrict in, uint8_t *restrict out, size_t width, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < width; j++)
            out[j * n + i] = in[i * width + j];
}

static inline __attribute__((always_inline)) void
unshuffle_block(const uint8_t *restrict in, uint8_t *restrict out, size_t width, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < width; j++)
            out[i * width + j] = in[j * n + i];
}

#define BY_WIDTH(fn, in, out, width, n)                                                            \
    do {                                                                                           \
        if ((width) == 2)                                                                          \
            fn(in, out, 2, n);                                                                     \
        else if ((width) == 4)                                                                     \
            fn(in, out, 4, n);                                                                     \
        else if ((width) == 8)                                                                     \
            fn(in, out, 8, n);                                                                     \
        else                                                                                       \
            fn(in, out, width, n);                                                                 \
    } while (0)

static void shuffle(const struct hr__kernel_spec *spec, const uint8_t *in, uint8_t *out, size_t n)
{
    const size_t block = spec->unit_in_bytes;
    const size_t width = spec->width_bytes;
    for (size_t b = 0; b < n; b++)
        BY_WIDTH(shuffle_block, in + b * block, out + b * block, width, block / width);
}

static void unshuffle(const struct hr__kernel_spec *spec, const uint8_t *in, uint8_t *out, size_t n)
{
    const size_t block = spec->unit_in_bytes;
    const size_t width = spec->width_bytes;
    for (size_t b = 0; b < n; b++)
        BY_WIDTH(unshuffle_block, in + b * block, out + b * block, width, block / width);
}

void hr__kernel_map(const struct hr__kernel_spec *spec, const void *in, void *out, size_t n_units)
{
    assert(spec->kind <= HR__KERNEL_UNSHUFFLE);
    if (spec->kind == HR__KERNEL_CAST)
        hr__cast(spec->from, spec->to, in, out, n_units);
    else if (spec->kind == HR__KERNEL_SCALE)
        hr__scale(spec->from, spec->mul, spec->add, in, out, n_units);
    else if (spec->kind == HR__KERNEL_BSWAP)
        bswap(spec->width_bytes, in, out, n_units);
    else if (spec->kind == HR__KERNEL_SHUFFLE)
        shuffle(spec, in, out, n_units);
    else
        unshuffle(spec, in, out, n_units);
}
