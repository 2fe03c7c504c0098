// SPDX-License-Identifier: Apache-2.0
#ifndef HR__HOST_NUMBERS_H
#define HR__HOST_NUMBERS_H

/*
 * Loads and conversions of single elements, written without branches so that loops over them become
 * vector code. An element is loaded into its wide type: i32 for u8 i8 u16 i16 i32, i64 for i64, f32
 * for f16 bf16 f32, f64 for f64 (all exact); WIDE_to_TYPE then rounds once.
 */

#include <stdint.h>
#include <string.h>

/* Packed views: any alignment, may alias anything. */
#define HR__PACKED __attribute__((aligned(1), may_alias))
typedef uint8_t hr__raw_u8 HR__PACKED;
typedef int8_t hr__raw_i8 HR__PACKED;
typedef uint16_t hr__raw_u16 HR__PACKED;
typedef int16_t hr__raw_i16 HR__PACKED;
typedef int32_t hr__raw_i32 HR__PACKED;
typedef int64_t hr__raw_i64 HR__PACKED;
typedef uint16_t hr__raw_f16 HR__PACKED;
typedef uint16_t hr__raw_bf16 HR__PACKED;
typedef float hr__raw_f32 HR__PACKED;
typedef double hr__raw_f64 HR__PACKED;
typedef uint32_t hr__raw_u32 HR__PACKED;
typedef uint64_t hr__raw_u64 HR__PACKED;

typedef int32_t hr__wide_i32;
typedef int64_t hr__wide_i64;
typedef float hr__wide_f32;
typedef double hr__wide_f64;

/* X(TYPE word, enum suffix, wide type) */
#define HR__INT32_TYPES(X)                                                                         \
    X(u8, U8, i32) X(i8, I8, i32) X(u16, U16, i32) X(i16, I16, i32) X(i32, I32, i32)
#define HR__INT_TYPES(X) HR__INT32_TYPES(X) X(i64, I64, i64)
#define HR__SMALL_FLOAT_TYPES(X) X(f16, F16, f32) X(bf16, BF16, f32) X(f32, F32, f32)
#define HR__FLOAT_TYPES(X) HR__SMALL_FLOAT_TYPES(X) X(f64, F64, f64)
#define HR__ALL_TYPES(X) HR__INT_TYPES(X) HR__FLOAT_TYPES(X)

static inline uint32_t hr__f32_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float hr__bits_f32(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline uint64_t hr__f64_bits(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline double hr__bits_f64(uint64_t u)
{
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* ---- loads ---- */

static inline int32_t hr__load_u8(const hr__raw_u8 *p)
{
    return *p;
}
static inline int32_t hr__load_i8(const hr__raw_i8 *p)
{
    return *p;
}
static inline int32_t hr__load_u16(const hr__raw_u16 *p)
{
    return *p;
}
static inline int32_t hr__load_i16(const hr__raw_i16 *p)
{
    return *p;
}
static inline int32_t hr__load_i32(const hr__raw_i32 *p)
{
    return *p;
}
static inline int64_t hr__load_i64(const hr__raw_i64 *p)
{
    return *p;
}
static inline float hr__load_f32(const hr__raw_f32 *p)
{
    return *p;
}
static inline double hr__load_f64(const hr__raw_f64 *p)
{
    return *p;
}
static inline float hr__load_bf16(const hr__raw_bf16 *p)
{
    return hr__bits_f32((uint32_t)*p << 16);
}

/* Normal numbers by moving the exponent's bias; a subnormal's bits are put under a leading 1 whose
 * value is then subtracted. */
static inline float hr__load_f16(const hr__raw_f16 *p)
{
    const uint32_t h = *p;
    const uint32_t magnitude = (h & 0x7fffu) << 13;
    const uint32_t normal = magnitude + (112u << 23);
    const uint32_t small = hr__f32_bits(hr__bits_f32(magnitude + (113u << 23)) - 0x1p-14f);
    const uint32_t top = magnitude + (224u << 23); /* infinity, NaN */
    uint32_t u = magnitude < (1u << 23) ? small : normal;
    u = magnitude >= (31u << 23) ? top : u;
    return hr__bits_f32(u | (h & 0x8000u) << 16);
}

/* ---- to floats ---- */

static inline float hr__f32_to_f32(float x)
{
    const uint32_t u = hr__f32_bits(x);
    return hr__bits_f32((u & 0x7fffffffu) > 0x7f800000u ? 0x7fc00000u : u);
}

static inline double hr__f64_to_f64(double x)
{
    const uint64_t u = hr__f64_bits(x);
    return x != x ? hr__bits_f64(0x7ff8000000000000u) : hr__bits_f64(u);
}

static inline double hr__f32_to_f64(float x)
{
    return hr__f64_to_f64((double)x);
}
static inline float hr__f64_to_f32(double x)
{
    return hr__f32_to_f32((float)x);
}
static inline float hr__i32_to_f32(int32_t x)
{
    return (float)x;
}
static inline float hr__i64_to_f32(int64_t x)
{
    return (float)x;
}
static inline double hr__i32_to_f64(int32_t x)
{
    return (double)x;
}
static inline double hr__i64_to_f64(int64_t x)
{
    return (double)x;
}

/* Below the smallest normal f16, adding 0.5 leaves the f16's subnormal bits, rounded, at the bottom
 * of the f32; above, half an ulp is added in the integer and the exponent's bias moved. */
static inline uint16_t hr__f32_to_f16(float x)
{
    const uint32_t u = hr__f32_bits(x);
    const uint32_t a = u & 0x7fffffffu;
    const uint32_t sign = (u >> 16) & 0x8000u;
    const uint32_t small = hr__f32_bits(hr__bits_f32(a) + 0.5f) - 0x3f000000u;
    const uint32_t normal = (a - (112u << 23) + 0xfffu + ((a >> 13) & 1u)) >> 13;
    uint32_t h = a < 0x38800000u ? small : normal;
    h = a >= 0x47800000u ? 0x7c00u : h;
    h |= sign;
    return (uint16_t)(a > 0x7f800000u ? 0x7e00u : h);
}

static inline uint16_t hr__f32_to_bf16(float x)
{
    const uint32_t u = hr__f32_bits(x);
    const uint32_t r = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : r);
}

/* f64 to f32 rounded to odd: what is cut off stays visible in the last bit, so that a second
 * rounding to at least two bits fewer is as if done once (Boldo and Melquiond, 2008). */
static inline float hr__f64_to_f32_odd(double x)
{
    const float f = (float)x;
    const double back = (double)f;
    const uint32_t u = hr__f32_bits(f);
    const double ax = hr__bits_f64(hr__f64_bits(x) & 0x7fffffffffffffffu);
    const double ab = hr__bits_f64(hr__f64_bits(back) & 0x7fffffffffffffffu);
    const uint32_t even = ~u & 1u;
    const uint32_t up = (uint32_t)(ax > ab) & even;
    const uint32_t down = (uint32_t)(ax < ab) & even;
    return hr__bits_f32(u + up - down);
}

static inline uint16_t hr__f64_to_f16(double x)
{
    return hr__f32_to_f16(hr__f64_to_f32_odd(x));
}
static inline uint16_t hr__f64_to_bf16(double x)
{
    return hr__f32_to_bf16(hr__f64_to_f32_odd(x));
}

/* 2^20 is exact in f32 and far beyond the largest f16. */
static inline uint16_t hr__i32_to_f16(int32_t x)
{
    x = x > 1 << 20 ? 1 << 20 : x;
    x = x < -(1 << 20) ? -(1 << 20) : x;
    return hr__f32_to_f16((float)x);
}

static inline uint16_t hr__i64_to_f16(int64_t x)
{
    x = x > 1 << 20 ? 1 << 20 : x;
    x = x < -(1 << 20) ? -(1 << 20) : x;
    return hr__f32_to_f16((float)(int32_t)x);
}

/* Rounding to odd again: the floor of x / 2^k with the lost bits ORed into the last one. */
static inline uint16_t hr__i32_to_bf16(int32_t x)
{
    const int32_t odd = (x >> 8) | ((x & 0xff) != 0);
    const int is_small = x > -(1 << 24) && x < 1 << 24;
    return hr__f32_to_bf16((float)(is_small ? x : odd) * (is_small ? 1.0f : 256.0f));
}

static inline uint16_t hr__i64_to_bf16(int64_t x)
{
    const int64_t odd = (x >> 11) | ((x & 0x7ff) != 0);
    const int is_small = x > -(INT64_C(1) << 53) && x < INT64_C(1) << 53;
    return hr__f64_to_bf16((double)(is_small ? x : odd) * (is_small ? 1.0 : 2048.0));
}

/* ---- to integers ---- */

/* Clamp first (the bounds are integers, so the order does not matter), then round by adding
 * 1.5 * 2^(mantissa bits): the integer is in the low bits. */
static inline int32_t hr__f32_round(float x, float lo, float hi)
{
    x = x == x ? x : 0.0f;
    x = x > lo ? x : lo;
    x = x < hi ? x : hi;
    return (int32_t)(hr__f32_bits(x + 0x1.8p23f) - 0x4b400000u);
}

static inline int32_t hr__f64_round(double x, double lo, double hi)
{
    x = x == x ? x : 0.0;
    x = x > lo ? x : lo;
    x = x < hi ? x : hi;
    return (int32_t)(uint32_t)hr__f64_bits(x + 0x1.8p52);
}

static inline int64_t hr__f64_to_i64(double x)
{
    const uint64_t sign = hr__f64_bits(x) & 0x8000000000000000u;
    const double big = hr__bits_f64(sign | 0x4330000000000000u); /* 2^52 with the sign of x */
    const double r = x > -0x1p52 && x < 0x1p52 ? (x + big) - big : x;
    if (!(r >= -0x1p63))
        return r == r ? INT64_MIN : 0;
    return r < 0x1p63 ? (int64_t)r : INT64_MAX;
}

static inline int64_t hr__f32_to_i64(float x)
{
    return hr__f64_to_i64((double)x);
}
static inline int32_t hr__f32_to_i32(float x)
{
    return hr__f64_round((double)x, -0x1p31, 0x1p31 - 1);
}
static inline int32_t hr__f64_to_i32(double x)
{
    return hr__f64_round(x, -0x1p31, 0x1p31 - 1);
}
static inline int32_t hr__i32_to_i32(int32_t x)
{
    return x;
}
static inline int64_t hr__i32_to_i64(int32_t x)
{
    return x;
}
static inline int64_t hr__i64_to_i64(int64_t x)
{
    return x;
}

static inline int32_t hr__i64_to_i32(int64_t x)
{
    x = x < INT32_MIN ? INT32_MIN : x;
    return (int32_t)(x > INT32_MAX ? INT32_MAX : x);
}

#define HR__NARROW_INT(T, ctype, lo, hi)                                                           \
    static inline ctype hr__i32_to_##T(int32_t x)                                                  \
    {                                                                                              \
        x = x < (lo) ? (lo) : x;                                                                   \
        return (ctype)(x > (hi) ? (hi) : x);                                                       \
    }                                                                                              \
    static inline ctype hr__i64_to_##T(int64_t x)                                                  \
    {                                                                                              \
        return hr__i32_to_##T(hr__i64_to_i32(x));                                                  \
    }                                                                                              \
    static inline ctype hr__f32_to_##T(float x)                                                    \
    {                                                                                              \
        return (ctype)hr__f32_round(x, (lo), (hi));                                                \
    }                                                                                              \
    static inline ctype hr__f64_to_##T(double x)                                                   \
    {                                                                                              \
        return (ctype)hr__f64_round(x, (lo), (hi));                                                \
    }

HR__NARROW_INT(u8, uint8_t, 0, UINT8_MAX)
HR__NARROW_INT(i8, int8_t, INT8_MIN, INT8_MAX)
HR__NARROW_INT(u16, uint16_t, 0, UINT16_MAX)
HR__NARROW_INT(i16, int16_t, INT16_MIN, INT16_MAX)
#undef HR__NARROW_INT

#endif
