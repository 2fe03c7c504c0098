// SPDX-License-Identifier: Apache-2.0
/* Every kind of kernel, chains of them, and the same chain however the stream is cut. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chains.h"
#include "trials.h"

enum { ROW = 720 }; /* bytes: whole units of every kernel here */

static const char *const chains[][MAX_KERNELS + 1] = {
    /* each kind alone */
    {"cast:u8,f64"},
    {"cast:f32,u8"},
    {"cast:f32,f16"},
    {"cast:bf16,i32"},
    {"cast:i64,bf16"},
    {"cast:f64,i16"},
    {"cast:u16,u16"},
    {"scale:i8,-3,11"},
    {"scale:f16,0.3,2"},
    {"scale:f64,1e300,-1"},
    {"bswap:2"},
    {"bswap:4"},
    {"bswap:8"},
    {"shuffle:4,12"},
    {"shuffle:8,240"},
    {"unshuffle:3,9"},
    {"unshuffle:2,80"},
    {"filter:u8,ge,100"},
    {"filter:f32,lt,0.5"},
    {"filter:i64,ne,0"},
    {"sum:u8"},
    {"sum:f32"},
    {"sum:f64"},
    {"mean:f16"},
    {"mean:i32"},
    {"min:f32"},
    {"max:bf16"},
    {"min:i8"},
    {"histogram"},
    {"histogram:f32,-1,1,100"},
    {"count:i16,gt,1000"},
    {"crc32"},
    /* chains */
    {"cast:u8,f32", "bswap:8"},
    {"shuffle:4,12", "unshuffle:4,12"},
    {"cast:u16,f64", "scale:f64,0.1,0", "cast:f64,f16", "mean:f16", "bswap:2"},
    {"sum:u16", "max:f32", "histogram", "crc32"},
    {"cast:u8,i64", "cast:i64,u8", "crc32"},
    {"filter:u8,lt,77", "scale:u8,2,1", "cast:u8,f32"},
    {"filter:u8,ge,50", "filter:u8,lt,200", "crc32"},
    {"crc32", "filter:i16,gt,-9000", "cast:i16,f32", "filter:f32,lt,9000", "sum:f32", "min:f32"},
    {"filter:u8,lt,0", "sum:u8", "max:u8", "cast:u8,f64"},
    {"cast:u8,f32", "filter:f32,ge,3", "sum:f32", "mean:f32", "count:f32,eq,7", "histogram"},
};
enum { N_CHAINS = sizeof chains / sizeof chains[0] };

/* A third is of any bits, a third of small floats, a third of small integers. */
static unsigned char *make_bytes(size_t size)
{
    unsigned char *bytes = test_bytes(size);
    for (size_t at = size / 3 / 4 * 4; at + 4 <= size / 3 * 2; at += 4) {
        const float number = (float)sin((double)at) * 3;
        memcpy(bytes + at, &number, sizeof number);
    }
    for (size_t at = size / 3 * 2; at < size; at++)
        bytes[at] %= 5;
    return bytes;
}

void group_kernels(struct bed *bed)
{
    const size_t size = (size_t)ROW * (bed->is_quick ? 200 : 1000);
    unsigned char *bytes = make_bytes(size);
    struct trial trial = {.bytes = bytes, .size = size, .chunk_size = 65536, .depth = 4};
    for (int i = 0; i < N_CHAINS; i++) {
        memcpy(trial.kernels, chains[i], sizeof trial.kernels);
        for (int way = 0; way < 4; way++) {
            if (bed->is_quick && way != i % 4)
                continue;
            static const enum from froms[] = {FROM_MEMORY, FROM_PARTS, FROM_PINNED_ODD,
                                              FROM_DEVICE};
            static const enum to tos[] = {TO_CALLBACK, TO_GROWING, TO_MEMORY, TO_NULL};
            trial.from = froms[way];
            trial.to = tos[way];
            compare_with_reference(bed, trial);
        }
    }
    free(bytes);
}

/* ---- cuts ---- */

struct cut {
    size_t size;
    uint64_t chunk_size;
};

/* expected: made with the chunks that the library likes. */
static void compare_cut(struct bed *bed, struct trial trial, const struct trial_outcome *expected)
{
    static const uint32_t depths[] = {1, 2, 8, 33};
    static const enum to tos[] = {TO_CALLBACK, TO_LOANS, TO_GROWING, TO_DEVICE};
    const bool is_counted =
        trial.kernels[0] && trial.kernels[1] && strstr(trial.kernels[1], "filter");
    const uint64_t most = bed->is_small ? 4 << 20 : 4 << 26;
    for (int i = 0; i < 4; i++) {
        if (depths[i] * trial.chunk_size > most && depths[i] > 2)
            continue;
        for (uint32_t streams = 1; streams <= 4; streams += 3) {
            trial.depth = depths[i];
            trial.n_streams = streams;
            trial.to = streams == 1 ? TO_CALLBACK : tos[i];
            trial.room = expected->size;
            trial.from = i % 2 ? FROM_FILE : FROM_MEMORY;
            trial.flags = i > 1 && streams > 1 && !is_counted ? HR_UNORDERED : 0;
            compare_trial(bed, &trial, expected);
        }
    }
}

void group_cuts(struct bed *bed)
{
    static const struct cut cuts[] = {{120, 1},
                                      {ROW, 13},
                                      {(size_t)ROW * 800, 65536 + 13},
                                      {(size_t)ROW * 3000, 1 << 20},
                                      {(size_t)ROW * 6500, 4 << 20}};
    static const char *const few[][MAX_KERNELS + 1] = {
        {NULL},
        {"cast:u8,f32", "bswap:8"},
        {"shuffle:4,12", "crc32"},
        {"crc32", "filter:i16,gt,-9000", "cast:i16,f32", "filter:f32,lt,9000", "sum:f32",
         "min:f32"},
    };
    unsigned char *bytes = make_bytes(cuts[4].size);
    for (int i = 0; i < (bed->is_quick ? 3 : 5); i++) {
        for (size_t chain = 0; chain < sizeof few / sizeof few[0]; chain++) {
            struct trial_outcome expected;
            struct trial trial = {
                .bytes = bytes, .size = cuts[i].size, .chunk_size = cuts[i].chunk_size};
            memcpy(trial.kernels, few[chain], sizeof trial.kernels);
            trial_reference(bed, &trial, &expected);
            compare_cut(bed, trial, &expected);
            free(expected.bytes);
        }
    }
    free(bytes);
}
