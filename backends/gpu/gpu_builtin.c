// SPDX-License-Identifier: Apache-2.0
/* From a built-in kernel's specification to its entry, parameters and grid. */
#include "gpu_builtin.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "reduce_state.h"

enum { BLOCK = 256, ROW_BYTES = 16 * BLOCK, MAX_BLOCKS = 1024, SCRATCH_WORDS = 2 + MAX_BLOCKS };

/* What kernels/reduce.cu calls STATE_VALUE and STATE_SPECIALS. */
static_assert(offsetof(struct hr__reduce_state, u) == 2 * sizeof(uint64_t), "STATE_VALUE");
static_assert(offsetof(struct hr__reduce_state, u.exact.specials) == 72 * sizeof(uint64_t),
              "STATE_SPECIALS");
static_assert(sizeof(struct hr__gpu_args) == 96, "struct Args");
static_assert(sizeof(struct hr__gpu_crc_args) == 224, "struct CrcArgs");

static const char *const type_names[HR__N_DATA_TYPES] = {
    [HR__TYPE_U8] = "U8",   [HR__TYPE_I8] = "I8",     [HR__TYPE_U16] = "U16",
    [HR__TYPE_I16] = "I16", [HR__TYPE_I32] = "I32",   [HR__TYPE_I64] = "I64",
    [HR__TYPE_F16] = "F16", [HR__TYPE_BF16] = "BF16", [HR__TYPE_F32] = "F32",
    [HR__TYPE_F64] = "F64",
};

/* Lower and upper case of a kind: hr_min_F32 is made by HR_MIN(F32). */
static void name_entry(struct hr__gpu_builtin *out, const char *lower, const char *upper,
                       const char *type)
{
    snprintf(out->entry, sizeof out->entry, "hr_%s_%s", lower, type);
    snprintf(out->only, sizeof out->only, "HR_%s(%s)", upper, type);
}

static void name_bits(struct hr__gpu_builtin *out, const char *lower, const char *upper,
                      uint32_t n_bytes)
{
    char bits[8];
    snprintf(bits, sizeof bits, "%u", 8 * n_bytes % 1000);
    name_entry(out, lower, upper, bits);
}

static void name_cast(const struct hr__kernel_spec *spec, struct hr__gpu_builtin *out)
{
    const char *from = type_names[spec->from];
    const char *to = type_names[spec->to];
    if (spec->from == spec->to) {
        name_bits(out, "copy", "COPY", spec->unit_in_bytes);
        return;
    }
    snprintf(out->entry, sizeof out->entry, "hr_cast_%s_%s", from, to);
    snprintf(out->only, sizeof out->only, "HR_CAST(%s,%s)", from, to);
}

static void name_plain(struct hr__gpu_builtin *out, const char *entry, const char *only)
{
    snprintf(out->entry, sizeof out->entry, "%s", entry);
    snprintf(out->only, sizeof out->only, "%s", only);
}

/* False for a kind without an entry. */
static bool name_kind(const struct hr__kernel_spec *spec, struct hr__gpu_builtin *out)
{
    const char *type = type_names[spec->from];
    const bool is_float = spec->from >= HR__TYPE_F16;
    switch (spec->kind) {
    case HR__KERNEL_CAST:
        name_cast(spec, out);
        return true;
    case HR__KERNEL_SCALE:
        name_entry(out, "scale", "SCALE", type);
        return true;
    case HR__KERNEL_BSWAP:
        name_bits(out, "bswap", "BSWAP", spec->width_bytes);
        return true;
    case HR__KERNEL_SHUFFLE:
        name_plain(out, "hr_shuffle", "HR_SHUFFLE");
        return true;
    case HR__KERNEL_UNSHUFFLE:
        name_plain(out, "hr_unshuffle", "HR_UNSHUFFLE");
        return true;
    case HR__KERNEL_FILTER:
        name_entry(out, "filter", "FILTER", type);
        return true;
    case HR__KERNEL_SUM:
    case HR__KERNEL_MEAN:
        name_entry(out, "sum", is_float ? "SUM_FLOAT" : "SUM_INT", type);
        return true;
    case HR__KERNEL_MIN:
        name_entry(out, "min", "MIN", type);
        return true;
    case HR__KERNEL_MAX:
        name_entry(out, "max", "MAX", type);
        return true;
    case HR__KERNEL_HISTOGRAM:
        name_entry(out, "histogram", spec->unit_in_bytes == 1 ? "HISTOGRAM_BYTES" : "HISTOGRAM",
                   type);
        return true;
    case HR__KERNEL_COUNT:
        name_entry(out, "count", "COUNT", type);
        return true;
    case HR__KERNEL_CRC32:
        name_plain(out, "hr_crc32", "HR_CRC32");
        return true;
    }
    return false;
}

static void fill_args(const struct hr__kernel_spec *spec, struct hr__gpu_builtin *out)
{
    struct hr__gpu_args args = {
        .mul = spec->mul,
        .add = spec->add,
        .lo = spec->lo,
        .hi = spec->hi,
        .float_value = spec->compare.float_value,
        .int_value = spec->compare.int_value,
        .lt = spec->compare.lt,
        .eq = spec->compare.eq,
        .gt = spec->compare.gt,
        .invert = spec->compare.invert,
        .n_bins = spec->n_bins,
        .width = spec->width_bytes,
        .block_bytes = spec->unit_in_bytes,
    };
    if (spec->kind == HR__KERNEL_HISTOGRAM) {
        args.step = (spec->hi - spec->lo) / spec->n_bins;
        args.bins_per_one = spec->n_bins / (spec->hi - spec->lo);
    }
    memcpy(out->args, &args, sizeof args);
    out->args_size = sizeof args;
}

static void fill_crc_args(struct hr__gpu_builtin *out)
{
    const uint32_t one = 0x80000000u; /* bit-reflected */
    struct hr__gpu_crc_args args;
    for (uint32_t j = 0; j < 16; j++)
        args.row[j] = hr__crc32_shift(one, ROW_BYTES - j + 3, false);
    for (uint32_t i = 0; i < 8; i++)
        args.level[i] = hr__crc32_shift(one, UINT64_C(16) << i, true);
    for (uint32_t i = 0; i < 32; i++)
        args.inverse[i] = hr__crc32_shift(one, UINT64_C(1) << i, true);
    memcpy(out->args, &args, sizeof args);
    out->args_size = sizeof args;
}

/* A block of the ordinary kinds has enough to do with 16 KiB; the others spend microseconds on
 * setting up and on adding to the state. */
static uint32_t bytes_per_block(const struct hr__kernel_spec *spec)
{
    if (spec->kind == HR__KERNEL_CRC32 || spec->kind == HR__KERNEL_FILTER)
        return 64 << 10;
    return spec->is_reduction ? 32 << 10 : 16 << 10;
}

hr_status hr__gpu_builtin(const struct hr__kernel_spec *spec, struct hr__gpu_builtin *out)
{
    struct hr__gpu_builtin made = {
        .block = BLOCK,
        .bytes_per_block = bytes_per_block(spec),
        .max_blocks = spec->is_reduction || spec->is_counted ? MAX_BLOCKS : 4 * MAX_BLOCKS,
        .state_bytes = spec->is_counted ? SCRATCH_WORDS * sizeof(uint64_t) : spec->state_bytes,
    };
    if (!name_kind(spec, &made))
        return HR_EUNSUPPORTED;
    if (spec->kind == HR__KERNEL_CRC32)
        fill_crc_args(&made);
    else
        fill_args(spec, &made);
    *out = made;
    return HR_OK;
}

uint32_t hr__gpu_builtin_blocks(const struct hr__gpu_builtin *builtin, uint64_t n_bytes)
{
    const uint64_t n = (n_bytes + builtin->bytes_per_block - 1) / builtin->bytes_per_block;
    return n < builtin->max_blocks ? (uint32_t)n : builtin->max_blocks;
}
