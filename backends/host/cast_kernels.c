// SPDX-License-Identifier: Apache-2.0
/*
 * Casts and scale: one loop per pair of types, made from the loads and roundings of host_numbers.h,
 * and a table of them.
 */
#if defined(__GNUC__) && !defined(__clang__)
/* Without this gcc keeps a branch for every selection, lest the arm not taken raise a flag in the
 * floating-point status that nobody reads, and does not vectorise: f16 to f32 is 3 times slower,
 * f32 to u8 10 times. No value changes. */
#pragma GCC optimize("no-trapping-math")
#endif

#include <string.h>

#include "host_kernels.h"
#include "host_numbers.h"

typedef void cast_fn(const void *restrict in, void *restrict out, size_t n);
typedef void scale_fn(double mul, double add, const void *restrict in, void *restrict out,
                      size_t n);

#define CAST_LOOP(F, T, W)                                                                         \
    static void cast_##F##_##T(const void *restrict in, void *restrict out, size_t n)              \
    {                                                                                              \
        const hr__raw_##F *restrict from = in;                                                     \
        hr__raw_##T *restrict to = out;                                                            \
        for (size_t i = 0; i < n; i++)                                                             \
            to[i] = hr__##W##_to_##T(hr__load_##F(from + i));                                      \
    }

#define CAST_LOOPS(F, ENUM, W)                                                                     \
    CAST_LOOP(F, u8, W)                                                                            \
    CAST_LOOP(F, i8, W)                                                                            \
    CAST_LOOP(F, u16, W)                                                                           \
    CAST_LOOP(F, i16, W)                                                                           \
    CAST_LOOP(F, i32, W)                                                                           \
    CAST_LOOP(F, i64, W)                                                                           \
    CAST_LOOP(F, f16, W)                                                                           \
    CAST_LOOP(F, bf16, W)                                                                          \
    CAST_LOOP(F, f32, W)                                                                           \
    CAST_LOOP(F, f64, W)

HR__ALL_TYPES(CAST_LOOPS)

#define CAST_ROW(F, ENUM, W)                                                                       \
    [HR__TYPE_##ENUM] = {cast_##F##_u8,  cast_##F##_i8,  cast_##F##_u16, cast_##F##_i16,           \
                         cast_##F##_i32, cast_##F##_i64, cast_##F##_f16, cast_##F##_bf16,          \
                         cast_##F##_f32, cast_##F##_f64},

static cast_fn *const cast_table[HR__N_DATA_TYPES][HR__N_DATA_TYPES] = {HR__ALL_TYPES(CAST_ROW)};

/* M is the type of the arithmetic: f64 for integers, f32 for the floats up to 32 bits. */
#define SCALE_LOOP(T, W, M)                                                                        \
    static void scale_##T(double mul, double add, const void *restrict in, void *restrict out,     \
                          size_t n)                                                                \
    {                                                                                              \
        const hr__raw_##T *restrict from = in;                                                     \
        hr__raw_##T *restrict to = out;                                                            \
        const hr__wide_##M m = (hr__wide_##M)mul;                                                  \
        const hr__wide_##M a = (hr__wide_##M)add;                                                  \
        for (size_t i = 0; i < n; i++) {                                                           \
            const hr__wide_##M product = (hr__wide_##M)hr__load_##T(from + i) * m;                 \
            to[i] = hr__##M##_to_##T(product + a);                                                 \
        }                                                                                          \
    }
#define SCALE_INT(T, ENUM, W) SCALE_LOOP(T, W, f64)
#define SCALE_FLOAT(T, ENUM, W) SCALE_LOOP(T, W, W)

HR__INT_TYPES(SCALE_INT)
HR__FLOAT_TYPES(SCALE_FLOAT)

#define SCALE_ROW(T, ENUM, W) [HR__TYPE_##ENUM] = scale_##T,

static scale_fn *const scale_table[HR__N_DATA_TYPES] = {HR__ALL_TYPES(SCALE_ROW)};

void hr__cast(enum hr__type from, enum hr__type to, const void *in, void *out, size_t n)
{
    if (n == 0)
        return;
    if (from == to)
        memcpy(out, in, n * hr__type_bytes(from));
    else
        cast_table[from][to](in, out, n);
}

/* Every value of a type of one byte is scaled once, then looked up. */
static void scale_by_table(scale_fn *scale, double mul, double add, const uint8_t *restrict in,
                           uint8_t *restrict out, size_t n)
{
    uint8_t values[256];
    uint8_t scaled[256];
    for (size_t i = 0; i < sizeof values; i++)
        values[i] = (uint8_t)i;
    scale(mul, add, values, scaled, sizeof values);
    for (size_t i = 0; i < n; i++)
        out[i] = scaled[in[i]];
}

void hr__scale(enum hr__type type, double mul, double add, const void *in, void *out, size_t n)
{
    if (hr__type_bytes(type) == 1 && n > 256)
        scale_by_table(scale_table[type], mul, add, in, out, n);
    else
        scale_table[type](mul, add, in, out, n);
}
