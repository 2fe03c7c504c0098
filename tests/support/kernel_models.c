// SPDX-License-Identifier: Apache-2.0
#include "kernel_models.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* LOAD(int16_t, x, in, i): declares x, element i. Types and names take no parentheses.
 * NOLINTBEGIN(bugprone-macro-parentheses) */
#define LOAD(type, x, in, i)                                                                       \
    type x;                                                                                        \
    memcpy(&x, (in) + (i) * sizeof x, sizeof x)
#define STORE(type, value, out, i)                                                                 \
    do {                                                                                           \
        const type stored = (value);                                                               \
        memcpy((out) + (i) * sizeof stored, &stored, sizeof stored);                               \
    } while (0)
/* NOLINTEND(bugprone-macro-parentheses) */

static int32_t to_i32(double x)
{
    const double rounded = nearbyint(x);
    return rounded <= INT32_MIN ? INT32_MIN : rounded >= INT32_MAX ? INT32_MAX : (int32_t)rounded;
}

/* ---- maps ---- */

static size_t cast_u8_f32(const unsigned char *in, size_t n, unsigned char *out)
{
    for (size_t i = 0; i < n; i++)
        STORE(float, in[i], out, i);
    return n * sizeof(float);
}

static size_t cast_i16_i32(const unsigned char *in, size_t n, unsigned char *out)
{
    for (size_t i = 0; i < n; i++) {
        LOAD(int16_t, x, in, i);
        STORE(int32_t, x, out, i);
    }
    return n * sizeof(int32_t);
}

static size_t cast_i32_u8(const unsigned char *in, size_t n, unsigned char *out)
{
    for (size_t i = 0; i < n; i++) {
        LOAD(int32_t, x, in, i);
        out[i] = (unsigned char)(x < 0 ? 0 : x > UINT8_MAX ? UINT8_MAX : x);
    }
    return n;
}

static size_t cast_i64_f64(const unsigned char *in, size_t n, unsigned char *out)
{
    for (size_t i = 0; i < n; i++) {
        LOAD(int64_t, x, in, i);
        STORE(double, (double)x, out, i);
    }
    return n * sizeof(double);
}

static size_t scale_i32(const unsigned char *in, size_t n, unsigned char *out)
{
    for (size_t i = 0; i < n; i++) {
        LOAD(int32_t, x, in, i);
        STORE(int32_t, to_i32(x * 3.0 - 1.5), out, i);
    }
    return n * sizeof(int32_t);
}

static void reverse(const unsigned char *in, size_t n, size_t width, unsigned char *out)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < width; k++)
            out[i * width + k] = in[i * width + width - 1 - k];
}

static size_t bswap_2(const unsigned char *in, size_t n, unsigned char *out)
{
    reverse(in, n, 2, out);
    return n * 2;
}

static size_t bswap_4(const unsigned char *in, size_t n, unsigned char *out)
{
    reverse(in, n, 4, out);
    return n * 4;
}

static size_t bswap_8(const unsigned char *in, size_t n, unsigned char *out)
{
    reverse(in, n, 8, out);
    return n * 8;
}

/* Blocks of `block` bytes, seen as tables of elements by bytes: rows become columns. */
static void transpose(const unsigned char *in, size_t n, size_t block, size_t columns,
                      unsigned char *out)
{
    const size_t rows = block / columns;
    for (size_t i = 0; i < n; i++)
        for (size_t at = 0; at < block; at++)
            out[i * block + at % columns * rows + at / columns] = in[i * block + at];
}

static size_t shuffle_4_12(const unsigned char *in, size_t n, unsigned char *out)
{
    transpose(in, n, 12, 4, out);
    return n * 12;
}

static size_t unshuffle_4_12(const unsigned char *in, size_t n, unsigned char *out)
{
    transpose(in, n, 12, 3, out);
    return n * 12;
}

static size_t shuffle_2_1000(const unsigned char *in, size_t n, unsigned char *out)
{
    transpose(in, n, 1000, 2, out);
    return n * 1000;
}

static size_t filter_i32(const unsigned char *in, size_t n, unsigned char *out)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        LOAD(int32_t, x, in, i);
        if (x > 1000)
            STORE(int32_t, x, out, kept++);
    }
    return kept * sizeof(int32_t);
}

static size_t filter_u8(const unsigned char *in, size_t n, unsigned char *out)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (in[i] < 77)
            out[kept++] = in[i];
    return kept;
}

static size_t filter_none(const unsigned char *in, size_t n, unsigned char *out)
{
    (void)in;
    (void)n;
    (void)out;
    return 0;
}

static size_t filter_all(const unsigned char *in, size_t n, unsigned char *out)
{
    memcpy(out, in, n);
    return n;
}

/* ---- reductions ---- */

static void give(struct model_result *r, size_t n_units, const void *value, size_t size)
{
    r->n_units = n_units;
    r->n_values = 1;
    r->size = size;
    memcpy(r->data, value, size);
}

static void sum_i32(const unsigned char *in, size_t n, struct model_result *r)
{
    int64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        LOAD(int32_t, x, in, i);
        sum += x;
    }
    give(r, n, &sum, sizeof sum);
}

static void sum_u8(const unsigned char *in, size_t n, struct model_result *r)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += in[i];
    give(r, n, &sum, sizeof sum);
}

static void mean_i16(const unsigned char *in, size_t n, struct model_result *r)
{
    const uint64_t of_nothing = 0x7ff8000000000000;
    int64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        LOAD(int16_t, x, in, i);
        sum += x;
    }
    const double mean = n ? (double)sum / (double)n : 0;
    give(r, n, n ? (const void *)&mean : (const void *)&of_nothing, sizeof mean);
}

static void min_i32(const unsigned char *in, size_t n, struct model_result *r)
{
    int32_t least = INT32_MAX;
    for (size_t i = 0; i < n; i++) {
        LOAD(int32_t, x, in, i);
        least = x < least ? x : least;
    }
    give(r, n, &least, sizeof least);
    r->n_values = n ? 1 : 0;
}

static void max_i16(const unsigned char *in, size_t n, struct model_result *r)
{
    int16_t most = INT16_MIN;
    for (size_t i = 0; i < n; i++) {
        LOAD(int16_t, x, in, i);
        most = x > most ? x : most;
    }
    give(r, n, &most, sizeof most);
    r->n_values = n ? 1 : 0;
}

static void histogram(const unsigned char *in, size_t n, struct model_result *r)
{
    uint64_t bins[256] = {0};
    for (size_t i = 0; i < n; i++)
        bins[in[i]]++;
    give(r, n, bins, sizeof bins);
    r->n_values = 256;
}

/* Eight bins of 8192 over [-32768, 32768]. */
static void histogram_i16(const unsigned char *in, size_t n, struct model_result *r)
{
    uint64_t bins[8] = {0};
    for (size_t i = 0; i < n; i++) {
        LOAD(int16_t, x, in, i);
        bins[(x + 32768) / 8192]++;
    }
    give(r, n, bins, sizeof bins);
    r->n_values = 8;
}

static void count_u8(const unsigned char *in, size_t n, struct model_result *r)
{
    uint64_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += in[i] >= 200;
    give(r, n, &count, sizeof count);
}

/* Bit by bit: RFC 1952, section 8. */
static void crc32(const unsigned char *in, size_t n, struct model_result *r)
{
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < n; i++) {
        crc ^= in[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
    }
    crc = ~crc;
    give(r, n, &crc, sizeof crc);
}

const struct model kernel_models[] = {
    {"cast:u8,f32", 1, 4, cast_u8_f32, NULL},
    {"cast:i16,i32", 2, 4, cast_i16_i32, NULL},
    {"cast:i32,u8", 4, 1, cast_i32_u8, NULL},
    {"cast:i64,f64", 8, 8, cast_i64_f64, NULL},
    {"scale:i32,3,-1.5", 4, 4, scale_i32, NULL},
    {"bswap:2", 2, 2, bswap_2, NULL},
    {"bswap:4", 4, 4, bswap_4, NULL},
    {"bswap:8", 8, 8, bswap_8, NULL},
    {"shuffle:4,12", 12, 12, shuffle_4_12, NULL},
    {"unshuffle:4,12", 12, 12, unshuffle_4_12, NULL},
    {"shuffle:2,1000", 1000, 1000, shuffle_2_1000, NULL},
    {"filter:i32,gt,1000", 4, 4, filter_i32, NULL},
    {"filter:u8,lt,77", 1, 1, filter_u8, NULL},
    {"filter:u8,lt,0", 1, 1, filter_none, NULL},
    {"filter:u8,ge,0", 1, 1, filter_all, NULL},
    {"sum:i32", 4, 0, NULL, sum_i32},
    {"sum:u8", 1, 0, NULL, sum_u8},
    {"mean:i16", 2, 0, NULL, mean_i16},
    {"min:i32", 4, 0, NULL, min_i32},
    {"max:i16", 2, 0, NULL, max_i16},
    {"histogram", 1, 0, NULL, histogram},
    {"histogram:i16,-32768,32768,8", 2, 0, NULL, histogram_i16},
    {"count:u8,ge,200", 1, 0, NULL, count_u8},
    {"crc32", 1, 0, NULL, crc32},
};
const size_t n_kernel_models = sizeof kernel_models / sizeof kernel_models[0];

const struct model *model_of(const char *text)
{
    for (size_t i = 0; i < n_kernel_models; i++)
        if (strcmp(kernel_models[i].text, text) == 0)
            return &kernel_models[i];
    abort();
}
