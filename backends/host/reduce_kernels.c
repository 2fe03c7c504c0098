// SPDX-License-Identifier: Apache-2.0
/*
 * Reductions. Every state is made of integers that are combined by operations free of order:
 * wrapping addition, minimum and maximum, exclusive or. Rounding happens once, on finishing.
 */
#include <assert.h>

#include "host_kernels.h"
#include "host_numbers.h"
#include "reduce_state.h"

typedef struct hr__reduce_state state_t;

static uint64_t *bins_of(state_t *s)
{
    return (uint64_t *)(void *)((unsigned char *)s + offsetof(state_t, u));
}

static const uint64_t *const_bins_of(const state_t *s)
{
    return (const uint64_t *)(const void *)((const unsigned char *)s + offsetof(state_t, u));
}

static bool is_float(enum hr__type type)
{
    return type >= HR__TYPE_F16 && type <= HR__TYPE_F64;
}

/* ---- min and max ---- */

/*
 * A float's bits, the magnitude inverted when negative, order as integers just as the numbers do,
 * with -0 < +0 and NaNs at both ends. So a NaN, moved to the end where it loses, is ignored; and a
 * key still at that end says that there was nothing else.
 */
#define FLOAT_KEY(T, BITS, INF)                                                                    \
    static inline int##BITS##_t key_##T(const hr__raw_i##BITS *p, int##BITS##_t if_nan)            \
    {                                                                                              \
        const int##BITS##_t magnitude = (int##BITS##_t)(*p & INT##BITS##_MAX);                     \
        const int##BITS##_t key = (int##BITS##_t)(*p < 0 ? ~magnitude : magnitude);                \
        return magnitude > (INF) ? if_nan : key;                                                   \
    }

FLOAT_KEY(f16, 16, 0x7c00)
FLOAT_KEY(bf16, 16, 0x7f80)
FLOAT_KEY(f32, 32, 0x7f800000)
FLOAT_KEY(f64, 64, 0x7ff0000000000000)

#define INT_KEY(T, ENUM, W)                                                                        \
    static inline T##_key key_##T(const hr__raw_##T *p, T##_key unused)                            \
    {                                                                                              \
        (void)unused;                                                                              \
        return *p;                                                                                 \
    }

typedef uint8_t u8_key;
typedef int8_t i8_key;
typedef uint16_t u16_key;
typedef int16_t i16_key;
typedef int32_t i32_key;
typedef int64_t i64_key;
typedef int16_t f16_key;
typedef int16_t bf16_key;
typedef int32_t f32_key;
typedef int64_t f64_key;

HR__INT_TYPES(INT_KEY)

#define BEST_LOOPS(T, LEAST, MOST, raw)                                                            \
    static int64_t min_##T(const void *data, size_t n)                                             \
    {                                                                                              \
        const raw *p = data;                                                                       \
        T##_key best = (MOST);                                                                     \
        for (size_t i = 0; i < n; i++) {                                                           \
            const T##_key key = key_##T(p + i, (MOST));                                            \
            best = key < best ? key : best;                                                        \
        }                                                                                          \
        return best;                                                                               \
    }                                                                                              \
    static int64_t max_##T(const void *data, size_t n)                                             \
    {                                                                                              \
        const raw *p = data;                                                                       \
        T##_key best = (LEAST);                                                                    \
        for (size_t i = 0; i < n; i++) {                                                           \
            const T##_key key = key_##T(p + i, (LEAST));                                           \
            best = key > best ? key : best;                                                        \
        }                                                                                          \
        return best;                                                                               \
    }

BEST_LOOPS(u8, 0, UINT8_MAX, hr__raw_u8)
BEST_LOOPS(i8, INT8_MIN, INT8_MAX, hr__raw_i8)
BEST_LOOPS(u16, 0, UINT16_MAX, hr__raw_u16)
BEST_LOOPS(i16, INT16_MIN, INT16_MAX, hr__raw_i16)
BEST_LOOPS(i32, INT32_MIN, INT32_MAX, hr__raw_i32)
BEST_LOOPS(i64, INT64_MIN, INT64_MAX, hr__raw_i64)
BEST_LOOPS(f16, INT16_MIN, INT16_MAX, hr__raw_i16)
BEST_LOOPS(bf16, INT16_MIN, INT16_MAX, hr__raw_i16)
BEST_LOOPS(f32, INT32_MIN, INT32_MAX, hr__raw_i32)
BEST_LOOPS(f64, INT64_MIN, INT64_MAX, hr__raw_i64)

typedef int64_t best_fn(const void *data, size_t n);
#define MIN_ROW(T, ENUM, W) [HR__TYPE_##ENUM] = min_##T,
#define MAX_ROW(T, ENUM, W) [HR__TYPE_##ENUM] = max_##T,
static best_fn *const min_table[HR__N_DATA_TYPES] = {HR__ALL_TYPES(MIN_ROW)};
static best_fn *const max_table[HR__N_DATA_TYPES] = {HR__ALL_TYPES(MAX_ROW)};

static int64_t better(enum hr__kernel_kind kind, int64_t a, int64_t b)
{
    return (kind == HR__KERNEL_MIN) == (a < b) ? a : b;
}

/* The key of an initial state loses against every key of every type but its own worst; for floats
 * narrower than 64 bits that one is a NaN's, hence the two tests. */
static uint64_t value_of_key(enum hr__type type, int64_t key)
{
    static const uint16_t infinities[] = {0x7c00, 0x7f80};
    uint64_t inf = 0x7ff0000000000000u;
    uint64_t canonical = 0x7ff8000000000000u;
    if (!is_float(type))
        return (uint64_t)key;
    if (type == HR__TYPE_F32) {
        inf = 0x7f800000u;
        canonical = 0x7fc00000u;
    } else if (type != HR__TYPE_F64) {
        inf = infinities[type - HR__TYPE_F16];
        canonical = type == HR__TYPE_F16 ? 0x7e00 : 0x7fc0;
    }
    const uint64_t magnitude = (uint64_t)(key < 0 ? ~key : key);
    const uint64_t sign = UINT64_C(1) << (8 * hr__type_bytes(type) - 1);
    if (magnitude > inf)
        return canonical;
    return magnitude | (key < 0 ? sign : 0);
}

/* ---- sums ---- */

/* Partial sums of up to 2^24 values of 32 bits fit 64. */
#define SUM_LOOP(T, ENUM, W)                                                                       \
    static int64_t sum_##T(const void *data, size_t n)                                             \
    {                                                                                              \
        const hr__raw_##T *p = data;                                                               \
        int64_t sum = 0;                                                                           \
        for (size_t i = 0; i < n; i++)                                                             \
            sum += p[i];                                                                           \
        return sum;                                                                                \
    }

HR__INT32_TYPES(SUM_LOOP)

typedef int64_t sum_fn(const void *data, size_t n);
#define SUM_ROW(T, ENUM, W) [HR__TYPE_##ENUM] = sum_##T,
static sum_fn *const sum_table[HR__TYPE_I64] = {HR__INT32_TYPES(SUM_ROW)};

static void add_128(uint64_t *sum, uint64_t low, uint64_t high)
{
    sum[0] += low;
    sum[1] += high + (sum[0] < low);
}

static void fold_int_sum(enum hr__type type, uint64_t *sum, const unsigned char *p, size_t n)
{
    if (type == HR__TYPE_I64) {
        const hr__raw_i64 *v = (const void *)p;
        for (size_t i = 0; i < n; i++)
            add_128(sum, (uint64_t)v[i], (uint64_t)(v[i] >> 63));
        return;
    }
    while (n > 0) {
        const size_t part = n < 1u << 24 ? n : 1u << 24;
        const int64_t v = sum_table[type](p, part);
        add_128(sum, (uint64_t)v, (uint64_t)(v >> 63));
        p += part * hr__type_bytes(type);
        n -= part;
    }
}

/* ---- histogram ---- */

static double edge(const struct hr__kernel_spec *spec, uint32_t i)
{
    const double step = (spec->hi - spec->lo) / spec->n_bins;
    const double offset = i * step;
    return i == spec->n_bins ? spec->hi : spec->lo + offset;
}

/* An estimate by division, set right by the edges themselves. Returns n_bins if x is in none. */
static uint32_t bin_of(const struct hr__kernel_spec *spec, double x)
{
    const uint32_t last = spec->n_bins - 1;
    if (!(x >= spec->lo && x <= spec->hi))
        return spec->n_bins;
    const double estimate = (x - spec->lo) / (spec->hi - spec->lo) * spec->n_bins;
    uint32_t i = estimate < last ? (uint32_t)estimate : last;
    while (i > 0 && x < edge(spec, i))
        i--;
    while (i < last && x >= edge(spec, i + 1))
        i++;
    return i;
}

static void count_bin(const struct hr__kernel_spec *spec, uint64_t *bins, double x, uint64_t n)
{
    const uint32_t i = bin_of(spec, x);
    if (i < spec->n_bins)
        bins[i] += n;
}

/* Bytes are counted by value, in four tables in turn so that runs of a value do not wait for their
 * own stores, and the 256 values are then put into bins. */
static void histogram_bytes(const struct hr__kernel_spec *spec, uint64_t *bins, const uint8_t *p,
                            size_t n)
{
    uint64_t seen[4][256] = {{0}};
    for (size_t i = 0; i < n; i++)
        seen[i & 3][p[i]]++;
    for (int v = 0; v < 256; v++) {
        const int x = spec->from == HR__TYPE_I8 ? (v ^ 128) - 128 : v;
        count_bin(spec, bins, x, seen[0][v] + seen[1][v] + seen[2][v] + seen[3][v]);
    }
}

static void fold_histogram(const struct hr__kernel_spec *spec, uint64_t *bins,
                           const unsigned char *p, size_t n)
{
    double x[256];
    const size_t element = hr__type_bytes(spec->from);
    if (element == 1) {
        histogram_bytes(spec, bins, p, n);
        return;
    }
    while (n > 0) {
        const size_t part = n < 256 ? n : 256;
        hr__cast(spec->from, HR__TYPE_F64, p, x, part);
        for (size_t i = 0; i < part; i++)
            count_bin(spec, bins, x[i], 1);
        p += part * element;
        n -= part;
    }
}

/* ---- CRC-32 ---- */

/*
 * With D(x) the bytes of one fold and `end` the stream offset after them, the stream's register
 * without inversions is the sum over folds of D x^32 x^(8 (total - end)). Each fold adds
 * D x^32 x^(-8 end), which needs no total and commutes; finish multiplies by x^(8 total).
 */
static void fold_crc(state_t *s, const void *data, size_t n, uint64_t first)
{
    const uint32_t bare = ~hr__crc32(UINT32_MAX, data, n);
    s->u.crc ^= hr__crc32_shift(bare, first % UINT32_MAX + n, true);
}

static uint64_t finish_crc(const state_t *s)
{
    return UINT32_MAX ^ hr__crc32_shift(s->u.crc ^ UINT32_MAX, s->n_units, false);
}

/* ---- all ---- */

void hr__reduce_init(const struct hr__kernel_spec *spec, void *state)
{
    assert(spec->is_reduction);
    state_t *s = state;
    memset(state, 0, spec->state_bytes);
    if (spec->kind == HR__KERNEL_MIN)
        s->u.best = INT64_MAX;
    if (spec->kind == HR__KERNEL_MAX)
        s->u.best = INT64_MIN;
}

static void fold_sum(const struct hr__kernel_spec *spec, state_t *s, const void *data, size_t n)
{
    if (is_float(spec->from))
        hr__exact_add(&s->u.exact, spec->from, data, n);
    else
        fold_int_sum(spec->from, s->u.sum, data, n);
}

void hr__reduce_fold(const struct hr__kernel_spec *spec, void *state, const void *data,
                     size_t n_units, uint64_t first_unit)
{
    state_t *s = state;
    if (n_units == 0)
        return;
    s->n_units += n_units;
    if (spec->kind == HR__KERNEL_SUM || spec->kind == HR__KERNEL_MEAN)
        fold_sum(spec, s, data, n_units);
    else if (spec->kind == HR__KERNEL_MIN)
        s->u.best = better(spec->kind, s->u.best, min_table[spec->from](data, n_units));
    else if (spec->kind == HR__KERNEL_MAX)
        s->u.best = better(spec->kind, s->u.best, max_table[spec->from](data, n_units));
    else if (spec->kind == HR__KERNEL_HISTOGRAM)
        fold_histogram(spec, bins_of(s), data, n_units);
    else if (spec->kind == HR__KERNEL_COUNT)
        s->u.count += hr__count(spec, data, n_units);
    else
        fold_crc(s, data, n_units, first_unit);
}

static void merge_sum(const struct hr__kernel_spec *spec, state_t *into, const state_t *from)
{
    if (is_float(spec->from))
        hr__exact_merge(&into->u.exact, &from->u.exact);
    else
        add_128(into->u.sum, from->u.sum[0], from->u.sum[1]);
}

void hr__reduce_merge(const struct hr__kernel_spec *spec, void *into, const void *from)
{
    state_t *a = into;
    const state_t *b = from;
    a->n_units += b->n_units;
    if (spec->kind == HR__KERNEL_SUM || spec->kind == HR__KERNEL_MEAN)
        merge_sum(spec, a, b);
    else if (spec->kind == HR__KERNEL_MIN || spec->kind == HR__KERNEL_MAX)
        a->u.best = better(spec->kind, a->u.best, b->u.best);
    else if (spec->kind == HR__KERNEL_COUNT)
        a->u.count += b->u.count;
    else if (spec->kind == HR__KERNEL_CRC32)
        a->u.crc ^= b->u.crc;
    else
        for (uint32_t i = 0; i < spec->n_bins; i++)
            bins_of(a)[i] += const_bins_of(b)[i];
}

static uint64_t finish_mean(const struct hr__kernel_spec *spec, const state_t *s)
{
    if (s->n_units == 0)
        return 0x7ff8000000000000u;
    if (is_float(spec->from))
        return hr__f64_bits(hr__exact_quotient(&s->u.exact, s->n_units));
    return hr__f64_bits(hr__int128_quotient(s->u.sum[1], s->u.sum[0], s->n_units));
}

static uint64_t finish_one(const struct hr__kernel_spec *spec, const state_t *s)
{
    if (spec->kind == HR__KERNEL_MEAN)
        return finish_mean(spec, s);
    if (spec->kind == HR__KERNEL_SUM)
        return is_float(spec->from) ? hr__f64_bits(hr__exact_quotient(&s->u.exact, 1))
                                    : s->u.sum[0];
    if (spec->kind == HR__KERNEL_COUNT)
        return s->u.count;
    if (spec->kind == HR__KERNEL_CRC32)
        return finish_crc(s);
    return value_of_key(spec->from, s->u.best);
}

/* The low bytes of a 64-bit value, in the machine's byte order. */
static void store_value(state_t *s, size_t n_bytes, uint64_t value)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value <<= 64 - 8 * n_bytes;
#else
    (void)n_bytes;
#endif
    s->result = value;
}

void hr__reduce_finish(const struct hr__kernel_spec *spec, void *state,
                       struct hr__reduce_result *result)
{
    state_t *s = state;
    const bool is_best = spec->kind == HR__KERNEL_MIN || spec->kind == HR__KERNEL_MAX;
    *result = (struct hr__reduce_result){.type = spec->to, .n_values = 1, .n_units = s->n_units};
    if (spec->kind == HR__KERNEL_HISTOGRAM) {
        result->n_values = spec->n_bins;
        result->data = bins_of(s);
        return;
    }
    if (is_best && s->n_units == 0)
        result->n_values = 0;
    store_value(s, hr__type_bytes(spec->to), finish_one(spec, s));
    result->data = &s->result;
}
