// SPDX-License-Identifier: Apache-2.0
/*
 * Host kernels: the values that host_kernels.h promises, at odd addresses, and the independence of
 * reductions from cutting and order.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crc32.h"
#include "host_kernels.h"

static const size_t sizes[] = {0, 1, 7, 4097};
enum { N_SIZES = sizeof sizes / sizeof sizes[0] };

static struct hr__kernel_spec parse(const char *text)
{
    struct hr__kernel_spec spec = {0};
    char why[256] = "";
    cr_assert_eq(hr__kernel_parse(text, &spec, why, sizeof why), 0, "%s", why);
    return spec;
}

/* A fixed pseudo-random sequence (Knuth's MMIX constants). */
static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 16 ^ *state << 24;
}

/* Heap memory that ends where the data end, so that a sanitizer sees every byte too far. The data
 * start one byte after the allocation. */
static unsigned char *odd_copy(const void *data, size_t n_bytes)
{
    unsigned char *p = malloc(n_bytes + 1);
    cr_assert_not_null(p);
    if (n_bytes > 0 && data != NULL)
        memcpy(p + 1, data, n_bytes);
    return p + 1;
}

static void odd_free(unsigned char *p)
{
    free(p - 1);
}

static uint64_t map_one(const char *text, uint64_t bits)
{
    const struct hr__kernel_spec spec = parse(text);
    unsigned char *in = odd_copy(NULL, (size_t)spec.unit_in_bytes * 7);
    unsigned char *out = odd_copy(NULL, (size_t)spec.unit_out_bytes * 7);
    for (size_t i = 0; i < 7; i++)
        memcpy(in + i * spec.unit_in_bytes, &bits, spec.unit_in_bytes);
    hr__kernel_map(&spec, in, out, 7);
    uint64_t result = 0;
    memcpy(&result, out, spec.unit_out_bytes);
    cr_expect_eq(memcmp(out, out + 6 * (size_t)spec.unit_out_bytes, spec.unit_out_bytes), 0);
    odd_free(in);
    odd_free(out);
    return result;
}

static uint64_t of_f64(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static uint64_t of_f32(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static double to_f64(uint64_t u)
{
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

struct value {
    const char *text;
    uint64_t in;
    uint64_t out;
};

static void check_values(const struct value *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint64_t got = map_one(values[i].text, values[i].in);
        cr_expect_eq(got, values[i].out, "%s of %#llx: %#llx, expected %#llx", values[i].text,
                     (unsigned long long)values[i].in, (unsigned long long)got,
                     (unsigned long long)values[i].out);
    }
}
#define CHECK_VALUES(values) check_values(values, sizeof(values) / sizeof(values)[0])

Test(kernels, float_to_integer_rounds_to_even_saturates_and_makes_nan_zero)
{
    const struct value values[] = {
        {"cast:f32,u8", of_f32(0.5f), 0},
        {"cast:f32,u8", of_f32(1.5f), 2},
        {"cast:f32,u8", of_f32(2.5f), 2},
        {"cast:f32,u8", of_f32(-1.0f), 0},
        {"cast:f32,u8", of_f32(255.5f), 255},
        {"cast:f32,i8", of_f32(-128.5f), 0x80},
        {"cast:f32,i16", 0x7fc00000, 0},
        {"cast:f32,i32", 0xff800000, 0x80000000},
        {"cast:f32,i32", of_f32(16777217.0f), 16777216},
        {"cast:f64,i32", of_f64(2147483646.5), 2147483646},
        {"cast:f64,i64", of_f64(0x1p63), INT64_MAX},
        {"cast:f64,i64", of_f64(-0x1p63), (uint64_t)INT64_MIN},
        {"cast:f64,i64", of_f64(-INFINITY), (uint64_t)INT64_MIN},
        {"cast:f64,i64", of_f64(4503599627370495.5), 4503599627370496},
        {"cast:f64,i64", of_f64(-2.5), (uint64_t)-2},
        {"cast:f64,i64", 0x7ff0000000000001, 0},
        {"cast:f16,u16", 0x7c00, 65535},
        {"cast:bf16,i64", 0xff80, (uint64_t)INT64_MIN},
    };
    CHECK_VALUES(values);
}

Test(kernels, integer_to_narrower_integer_saturates)
{
    const struct value values[] = {
        {"cast:i64,i32", (uint64_t)INT64_MIN, 0x80000000},
        {"cast:i64,u8", 256, 255},
        {"cast:i8,u8", 0xff, 0},
        {"cast:u8,i8", 200, 127},
        {"cast:i32,u16", 65536, 65535},
        {"cast:u16,i16", 0xffff, 0x7fff},
    };
    CHECK_VALUES(values);
}

Test(kernels, to_a_float_rounds_once)
{
    const struct value values[] = {
        /* just above a tie of f16: by way of f32 it would become the tie and go down */
        {"cast:f64,f16", of_f64(1 + 0x1p-11 + 0x1p-40), 0x3c01},
        {"cast:f64,f16", of_f64(1 + 0x1p-11), 0x3c00},
        {"cast:f64,bf16", of_f64(1 + 0x1p-8 + 0x1p-40), 0x3f81},
        {"cast:i64,bf16", (UINT64_C(1) << 62) + (UINT64_C(1) << 54) + 1, 0x5e81},
        {"cast:i64,bf16", (UINT64_C(1) << 62) + (UINT64_C(1) << 54), 0x5e80},
        {"cast:i32,bf16", (1u << 30) + (1u << 22) + 1, 0x4e81},
        {"cast:i64,f32", (UINT64_C(1) << 60) + (UINT64_C(1) << 36) + 1, 0x5d800001},
        {"cast:i32,f16", 65519, 0x7bff},
        {"cast:i32,f16", 65520, 0x7c00},
        {"cast:i64,f16", (uint64_t)INT64_MIN, 0xfc00},
        {"cast:f64,f32", of_f64(1e300), 0x7f800000},
        {"cast:f32,bf16", 0x7f7fffff, 0x7f80},
        {"cast:f64,bf16", of_f64(-1e300), 0xff80},
        {"cast:f32,f16", of_f32(0x1p-24f), 0x0001},
        {"cast:f32,f16", of_f32(0x1p-25f), 0x0000},
        {"cast:f32,f16", of_f32(-0x1.8p-25f), 0x8001},
        {"cast:f16,f64", 0x0001, of_f64(0x1p-24)},
        {"cast:f64,f32", of_f64(0x1p-149), 1},
        {"cast:f64,bf16", of_f64(0x1p-133), 1},
        {"cast:f32,f16", 0x80000000, 0x8000},
    };
    CHECK_VALUES(values);
}

Test(kernels, nan_becomes_canonical_but_a_cast_to_the_same_type_copies)
{
    const struct value values[] = {
        {"cast:f64,f16", 0xfff0000000000001, 0x7e00},
        {"cast:f64,bf16", 0xfff0000000000001, 0x7fc0},
        {"cast:f64,f32", 0xfff0000000000001, 0x7fc00000},
        {"cast:f16,f64", 0xfc01, 0x7ff8000000000000},
        {"cast:bf16,f32", 0xff81, 0x7fc00000},
        {"cast:f32,f32", 0xff800001, 0xff800001},
        {"scale:f32,1,0", 0xff800001, 0x7fc00000},
        {"scale:f64,0,0", 0x7ff0000000000000, 0x7ff8000000000000},
    };
    CHECK_VALUES(values);
}

static const char *const words[] = {"u8",  "i8",  "u16",  "i16", "i32",
                                    "i64", "f16", "bf16", "f32", "f64"};

Test(kernels, every_cast_keeps_small_integers_and_there_and_back_is_the_same)
{
    for (size_t from = 0; from < 10; from++) {
        for (size_t to = 0; to < 10; to++) {
            char there[32];
            char back[32];
            char first[32];
            snprintf(there, sizeof there, "cast:%s,%s", words[from], words[to]);
            snprintf(back, sizeof back, "cast:%s,%s", words[to], words[from]);
            snprintf(first, sizeof first, "cast:u8,%s", words[from]);
            for (uint64_t v = 0; v < 128; v += 127) {
                const uint64_t x = map_one(first, v);
                cr_expect_eq(map_one(back, map_one(there, x)), x, "%s of %d", there, (int)v);
            }
        }
    }
}

Test(kernels, every_cast_of_every_size_stays_in_bounds)
{
    for (size_t pair = 0; pair < 100; pair++) {
        char text[32];
        snprintf(text, sizeof text, "cast:%s,%s", words[pair / 10], words[pair % 10]);
        const struct hr__kernel_spec spec = parse(text);
        for (size_t s = 0; s < N_SIZES; s++) {
            unsigned char *in = odd_copy(NULL, sizes[s] * spec.unit_in_bytes);
            unsigned char *out = odd_copy(NULL, sizes[s] * spec.unit_out_bytes);
            memset(in, 0x41, sizes[s] * spec.unit_in_bytes);
            hr__kernel_map(&spec, in, out, sizes[s]);
            if (sizes[s] > 1)
                cr_expect_eq(
                    memcmp(out, out + (sizes[s] - 1) * spec.unit_out_bytes, spec.unit_out_bytes), 0,
                    "%s", text);
            odd_free(in);
            odd_free(out);
        }
    }
}

Test(kernels, scale_multiplies_then_adds)
{
    const float x = 1.0f + 0x1p-12f;
    const float product = x * x;
    const struct value values[] = {
        {"scale:u8,0.5,0", 5, 2},
        {"scale:u8,2,0", 200, 255},
        {"scale:i64,1,1", 41, 42},
        {"scale:i32,-1,0", 0x80000000, 0x7fffffff},
        {"scale:f32,1.000244140625,-1", of_f32(x),
         of_f32(product - 1.0f)}, /* a fused one differs */
        {"scale:f16,2,1", 0x3c00, 0x4200},
        {"scale:f64,2,-1", of_f64(1.5), of_f64(2)},
    };
    CHECK_VALUES(values);
}

/* Long runs of one-byte types are looked up in a table, short ones computed. */
Test(kernels, scale_of_bytes_is_the_same_in_long_and_short_runs)
{
    const enum hr__type types[] = {HR__TYPE_U8, HR__TYPE_I8};
    for (size_t t = 0; t < 2; t++) {
        uint8_t in[600];
        uint8_t at_once[sizeof in];
        uint8_t one_by_one[sizeof in];
        for (size_t i = 0; i < sizeof in; i++)
            in[i] = (uint8_t)(7 * i);
        hr__scale(types[t], -1.75, 101.5, in, at_once, sizeof in);
        for (size_t i = 0; i < sizeof in; i++)
            hr__scale(types[t], -1.75, 101.5, in + i, one_by_one + i, 1);
        cr_assert_arr_eq(at_once, one_by_one, sizeof in, "type %zu", t);
    }
}

Test(kernels, byte_swap_reverses)
{
    const struct value values[] = {
        {"bswap:2", 0x0102, 0x0201},
        {"bswap:4", 0x01020304, 0x04030201},
        {"bswap:8", 0x0102030405060708, 0x0807060504030201},
    };
    CHECK_VALUES(values);
}

static void check_shuffle(unsigned width, size_t n_elements, size_t n_blocks)
{
    char text[2][48];
    const size_t block = width * n_elements;
    snprintf(text[0], sizeof text[0], "shuffle:%u,%zu", width, block);
    snprintf(text[1], sizeof text[1], "unshuffle:%u,%zu", width, block);
    const struct hr__kernel_spec there = parse(text[0]);
    const struct hr__kernel_spec back = parse(text[1]);
    unsigned char *in = odd_copy(NULL, block * n_blocks);
    unsigned char *mid = odd_copy(NULL, block * n_blocks);
    unsigned char *out = odd_copy(NULL, block * n_blocks);
    for (size_t i = 0; i < block * n_blocks; i++)
        in[i] = (unsigned char)(i * 7 + i / 256);
    hr__kernel_map(&there, in, mid, n_blocks);
    hr__kernel_map(&back, mid, out, n_blocks);
    for (size_t i = 0; i < block * n_blocks; i++) {
        const size_t at = i % block;
        cr_assert_eq(mid[i - at + at % width * n_elements + at / width], in[i]);
        cr_assert_eq(out[i], in[i]);
    }
    odd_free(in);
    odd_free(mid);
    odd_free(out);
}

Test(kernels, shuffle_transposes_and_unshuffle_undoes)
{
    const unsigned widths[] = {1, 2, 3, 4, 8, 256};
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
        check_shuffle(widths[w], 1, 7);
        check_shuffle(widths[w], 7, 1);
        check_shuffle(widths[w], 4097, 2);
        check_shuffle(widths[w], 5, 0);
    }
}

Test(kernels, filter_keeps_what_satisfies_in_order)
{
    const float data[] = {1, NAN, -0.0f, 3, 0, INFINITY, 3};
    const struct {
        const char *text;
        uint64_t n;
        float first;
    } cases[] = {
        {"filter:f32,lt,1", 2, -0.0f}, {"filter:f32,le,1", 3, 1},     {"filter:f32,gt,1", 3, 3},
        {"filter:f32,ge,3", 3, 3},     {"filter:f32,eq,0", 2, -0.0f}, {"filter:f32,ne,3", 5, 1},
        {"filter:f32,gt,inf", 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct hr__kernel_spec spec = parse(cases[i].text);
        unsigned char *in = odd_copy(data, sizeof data);
        unsigned char *out = odd_copy(NULL, sizeof data);
        cr_expect(spec.is_counted);
        cr_expect_eq(hr__kernel_filter(&spec, in, out, 0), 0);
        cr_expect_eq(hr__kernel_filter(&spec, in, out, 7), cases[i].n, "%s", cases[i].text);
        if (cases[i].n > 0)
            cr_expect_eq(memcmp(out, &cases[i].first, sizeof(float)), 0, "%s", cases[i].text);
        odd_free(in);
        odd_free(out);
    }
}

Test(kernels, filter_compares_wide_integers_exactly)
{
    const struct hr__kernel_spec spec = parse("filter:i64,gt,9007199254740992");
    const int64_t data[] = {9007199254740992, 9007199254740993};
    int64_t out[2] = {0};
    cr_expect_eq(hr__kernel_filter(&spec, data, out, 2), 1);
    cr_expect_eq(out[0], 9007199254740993);
}

/* Fold [first, end) in pieces of random length, each into a state of its own, merged at random into
 * the front or the back. */
static void fold_in_pieces(const struct hr__kernel_spec *spec, const unsigned char *data, size_t n,
                           uint64_t *seed, void *into)
{
    void *one = malloc(spec->state_bytes);
    size_t end = n;
    hr__reduce_init(spec, into);
    while (end > 0) {
        const size_t part = 1 + (size_t)(next_random(seed) % end);
        unsigned char *copy =
            odd_copy(data + (end - part) * spec->unit_in_bytes, part * spec->unit_in_bytes);
        hr__reduce_init(spec, one);
        hr__reduce_fold(spec, one, copy, part, end - part);
        if (next_random(seed) & 1u) {
            hr__reduce_merge(spec, into, one);
        } else {
            hr__reduce_merge(spec, one, into);
            memcpy(into, one, spec->state_bytes);
        }
        odd_free(copy);
        end -= part;
    }
    free(one);
}

static void check_reduction(const char *text, size_t n)
{
    const struct hr__kernel_spec spec = parse(text);
    uint64_t seed = n + 1;
    unsigned char *data = odd_copy(NULL, n * spec.unit_in_bytes);
    for (size_t i = 0; i < n * spec.unit_in_bytes; i++)
        data[i] = (unsigned char)next_random(&seed);
    void *whole = malloc(spec.state_bytes);
    void *pieces = malloc(spec.state_bytes);
    struct hr__reduce_result a;
    struct hr__reduce_result b;
    hr__reduce_init(&spec, whole);
    hr__reduce_fold(&spec, whole, data, n, 0);
    hr__reduce_finish(&spec, whole, &a);
    for (int round = 0; round < 5; round++) {
        fold_in_pieces(&spec, data, n, &seed, pieces);
        hr__reduce_finish(&spec, pieces, &b);
        cr_assert_eq(a.n_units, n);
        cr_assert_eq(b.n_units, n);
        cr_assert_eq(a.n_values, b.n_values);
        cr_assert_eq(memcmp(a.data, b.data, a.n_values * hr__type_bytes(a.type)), 0, "%s", text);
    }
    free(whole);
    free(pieces);
    odd_free(data);
}

Test(kernels, reductions_do_not_depend_on_cutting_or_order)
{
    static const struct {
        const char *before;
        const char *after;
    } forms[] = {{"sum:", ""}, {"mean:", ""},        {"min:", ""},
                 {"max:", ""}, {"count:", ",lt,10"}, {"histogram:", ",-5,99,13"}};
    for (size_t s = 0; s < N_SIZES; s++) {
        for (size_t i = 0; i < 60; i++) {
            char text[64];
            snprintf(text, sizeof text, "%s%s%s", forms[i / 10].before, words[i % 10],
                     forms[i / 10].after);
            check_reduction(text, sizes[s]);
        }
        check_reduction("histogram", sizes[s]);
        check_reduction("crc32", sizes[s]);
    }
}

static uint64_t reduce(const char *text, const void *data, size_t n)
{
    const struct hr__kernel_spec spec = parse(text);
    void *state = malloc(spec.state_bytes);
    struct hr__reduce_result result;
    uint64_t value = 0;
    unsigned char *copy = odd_copy(data, n * spec.unit_in_bytes);
    hr__reduce_init(&spec, state);
    hr__reduce_fold(&spec, state, copy, n, 0);
    hr__reduce_finish(&spec, state, &result);
    memcpy(&value, result.data, result.n_values * hr__type_bytes(result.type));
    odd_free(copy);
    free(state);
    return value;
}

static double reduce_f64(const char *text, const double *data, size_t n)
{
    return to_f64(reduce(text, data, n));
}

Test(kernels, float_sums_are_exact)
{
    const double big[] = {1e308, 1, 1e308, -1e308, -1e308};
    const double tiny[] = {0x1p-1074, 0x1p-1074, 0x1p-1074};
    const double half[] = {1, 0x1p-53, 0x1p-1074};
    const double over[] = {1.7976931348623157e308, 1.7976931348623157e308};
    const double less[] = {-1, -0x1p-53, 0x1p-1074};
    const double nulls[] = {-0.0, -0.0};
    cr_expect_eq(reduce_f64("sum:f64", big, 5), 1);
    cr_expect_eq(reduce_f64("sum:f64", tiny, 3), 3 * 0x1p-1074);
    cr_expect_eq(reduce_f64("sum:f64", half, 2), 1);
    cr_expect_eq(reduce_f64("sum:f64", half, 3), 1 + 0x1p-52);
    cr_expect_eq(reduce_f64("sum:f64", less, 3), -1);
    cr_expect_eq(reduce_f64("sum:f64", over, 2), INFINITY);
    cr_expect_eq(reduce_f64("mean:f64", over, 2), over[0]);
    cr_expect_eq(reduce_f64("mean:f64", tiny, 3), 0x1p-1074);
    cr_expect_eq(reduce("sum:f64", nulls, 2), 0);
    cr_expect_eq(reduce("sum:f64", NULL, 0), 0);
}

Test(kernels, float_sums_know_infinities_and_nan)
{
    const double both[] = {INFINITY, 1, -INFINITY};
    const double nan_too[] = {1, NAN};
    cr_expect_eq(reduce_f64("sum:f64", both, 2), INFINITY);
    cr_expect_eq(reduce_f64("mean:f64", both + 1, 2), -INFINITY);
    cr_expect_eq(reduce("sum:f64", both, 3), 0x7ff8000000000000);
    cr_expect_eq(reduce("sum:f64", nan_too, 2), 0x7ff8000000000000);
    cr_expect_eq(reduce("mean:f64", NULL, 0), 0x7ff8000000000000);
}

Test(kernels, integer_sums_wrap_and_means_do_not)
{
    const int64_t top[] = {INT64_MAX, INT64_MAX, INT64_MAX};
    const int32_t thirds[] = {-1, 0, 0};
    cr_expect_eq(reduce("sum:i64", top, 3), UINT64_C(3) * INT64_MAX);
    cr_expect_eq(to_f64(reduce("mean:i64", top, 3)), 0x1p63);
    cr_expect_eq(to_f64(reduce("mean:i32", thirds, 3)), -1.0 / 3);
}

Test(kernels, min_and_max_ignore_nan_and_order_zeros)
{
    const double zeros[] = {0.0, -0.0, NAN};
    const double nans[] = {to_f64(0xfff0000000000001), NAN};
    const struct hr__kernel_spec spec = parse("min:i32");
    struct hr__reduce_result result;
    void *state = malloc(spec.state_bytes);
    cr_expect_eq(reduce("min:f64", zeros, 3), 0x8000000000000000);
    cr_expect_eq(reduce("max:f64", zeros, 3), 0);
    cr_expect_eq(reduce("min:f64", nans, 2), 0x7ff8000000000000);
    cr_expect_eq(reduce("max:f64", nans, 2), 0x7ff8000000000000);
    hr__reduce_init(&spec, state);
    hr__reduce_finish(&spec, state, &result);
    cr_expect_eq(result.n_values, 0);
    free(state);
}

Test(kernels, histogram_has_half_open_bins_and_the_last_is_closed)
{
    const struct hr__kernel_spec spec = parse("histogram:f32,0,4,4");
    const float data[] = {0, 0.5f, 1, 4, 3, -0.1f, 4.1f, NAN, INFINITY};
    const uint64_t expected[] = {2, 1, 0, 2};
    struct hr__reduce_result result;
    void *state = malloc(spec.state_bytes);
    hr__reduce_init(&spec, state);
    hr__reduce_fold(&spec, state, data, 9, 0);
    hr__reduce_finish(&spec, state, &result);
    cr_expect_eq(result.n_values, 4);
    cr_expect_eq(memcmp(result.data, expected, sizeof expected), 0);
    free(state);
}

static void fill_random(unsigned char *data, size_t n)
{
    uint64_t seed = 3;
    for (size_t i = 0; i < n; i++)
        data[i] = (unsigned char)next_random(&seed);
}

Test(kernels, crc32_agrees_with_known_values_and_pieces_combine_to_the_whole)
{
    unsigned char data[4097];
    fill_random(data, sizeof data);
    cr_expect_eq(hr__crc32(0, "", 0), 0);
    cr_expect_eq(hr__crc32(0, "123456789", 9), 0xcbf43926);
    cr_expect_eq(reduce("crc32", "123456789", 9), 0xcbf43926);
    cr_expect_eq(hr__crc32(0, "The quick brown fox jumps over the lazy dog", 43), 0x414fa339);
    for (size_t n = 0; n <= sizeof data; n++)
        cr_assert_eq(hr__crc32(7, data, n), hr__crc32_plain(7, data, n), "%zu bytes", n);
    for (size_t n = 0; n <= sizeof data; n += 241)
        cr_expect_eq(hr__crc32_combine(hr__crc32(0, data, n),
                                       hr__crc32(0, data + n, sizeof data - n), sizeof data - n),
                     hr__crc32(0, data, sizeof data));
}

/* The data end where the allocation ends, so that a sanitizer sees every byte too far. */
static void check_crc32_path(const struct hr__crc32_path *path, const unsigned char *data,
                             size_t max_bytes, uint64_t *seed)
{
    for (size_t n = path->min_bytes; n <= max_bytes; n++) {
        const size_t offset = next_random(seed) % 65;
        const uint32_t first = (uint32_t)next_random(seed);
        unsigned char *memory = malloc(offset + n + 1);
        cr_assert_not_null(memory);
        unsigned char *at = memory + 1 + offset;
        memcpy(at, data + offset, n);
        cr_assert_eq(path->update(first, at, n), hr__crc32_by_tables(first, at, n),
                     "%s: %zu bytes at offset %zu, from %08x", path->name, n, offset, first);
        free(memory);
    }
}

Test(kernels, crc32_is_the_same_by_every_path_at_all_lengths_offsets_and_beginnings)
{
    enum { MAX_BYTES = 2048 };
    static unsigned char data[(1 << 20) + 64];
    uint64_t seed = 4;
    size_t n_paths = 0;
    fill_random(data, sizeof data);
    for (const struct hr__crc32_path *path; (path = hr__crc32_path(n_paths)) != NULL; n_paths++) {
        if (!path->supported()) {
            fprintf(stderr, "crc32: this processor lacks %s: not tested\n", path->name);
            continue;
        }
        check_crc32_path(path, data, MAX_BYTES, &seed);
        cr_expect_eq(path->update(5, data + 1, 1 << 20), hr__crc32_by_tables(5, data + 1, 1 << 20),
                     "%s: 1 MiB", path->name);
    }
    cr_expect_geq(n_paths, 1);
    cr_expect_eq(hr__crc32_path(n_paths - 1)->min_bytes, 0, "the last path takes every length");
}

Test(kernels, crc32_shift_is_a_multiplication_by_that_many_zero_bytes)
{
    static const unsigned char zeros[5000];
    for (size_t n = 0; n < sizeof zeros; n += 1 + n / 7) {
        const uint32_t shifted = hr__crc32_shift(0x89abcdef, n, false);
        cr_expect_eq(shifted, hr__crc32_by_tables(0x89abcdef, zeros, n), "%zu bytes", n);
        cr_expect_eq(hr__crc32_shift(shifted, n, true), 0x89abcdef, "%zu bytes back", n);
    }
}

Test(kernels, crc32_positions_may_lie_beyond_the_order_of_x)
{
    const uint64_t far = UINT64_MAX - 5;
    cr_expect_eq(hr__crc32_shift(hr__crc32_shift(0x1234567, far, true), far, false), 0x1234567);
    cr_expect_eq(hr__crc32_shift(0x1234567, UINT32_MAX, false), 0x1234567);
}

Test(kernels, parse_names_the_wrong_word_and_what_is_accepted)
{
    static const struct {
        const char *text;
        const char *word;
        const char *accepted;
    } bad[] = {
        {"", "\"\"", "crc32"},
        {"casts:u8,f32", "\"casts\"", "cast"},
        {"cast:u8", "\"cast:u8\"", "a TO is missing, as in cast:f32,f16"},
        {"sum", "\"sum\"", "a TYPE is missing, as in sum:f32"},
        {"max", "\"max\"", "a TYPE is missing, as in max:f32"},
        {"count:u8", "\"count:u8\"", "an OP is missing, as in count:f32,gt,0"},
        {"scale:f32,2", "\"scale:f32,2\"", "an ADD is missing, as in scale:f32,2,0"},
        {"bswap", "\"bswap\"", "a WIDTH is missing, as in bswap:4"},
        {"shuffle:4", "\"shuffle:4\"", "a BLOCK is missing, as in shuffle:4,4096"},
        {"histogram:f32", "\"histogram:f32\"", "a LO is missing, as in histogram:f32,0,1,256"},
        {"sum:f32,2", "sum:f32,2", "TYPE"},
        {"cast:u8,f33", "\"f33\"", "bf16"},
        {"scale:f32,two,0", "\"two\"", "number"},
        {"scale:f32,1,nan", "\"nan\"", "number"},
        {"bswap:3", "\"3\"", "2, 4 or 8"},
        {"shuffle:4,6", "\"6\"", "multiple"},
        {"shuffle:0,6", "\"0\"", "WIDTH"},
        {"filter:u8,<,1", "\"<\"", "lt le gt ge eq ne"},
        {"filter:u8,lt,1.5", "\"1.5\"", "integer"},
        {"histogram:f32,1,0,4", "\"0\"", "above LO"},
        {"histogram:f32,0,inf,4", "\"inf\"", "finite"},
        {"histogram:f32,0,1,0", "\"0\"", "bins"},
        {"crc32:u8", "crc32:u8", "crc32 alone"},
        {"sum:u8,u8,u8,u8,u8", "u8", "at most"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct hr__kernel_spec spec = {0};
        char why[256] = "";
        cr_expect_eq(hr__kernel_parse(bad[i].text, &spec, why, sizeof why), -1, "%s", bad[i].text);
        cr_expect(strstr(why, bad[i].word) && strstr(why, bad[i].accepted), "%s", why);
        cr_expect_eq(hr__kernel_parse(bad[i].text, &spec, NULL, 0), -1);
    }
}
