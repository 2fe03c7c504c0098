// SPDX-License-Identifier: Apache-2.0
/* Several kernels in a row, many small chunks on several streams, units that are joined behind a
 * counted kernel, and zstd around it all. */
#include <stdlib.h>
#include <string.h>

#include "selftest.h"

enum { SIZE = 720 * 1000, SMALL_CHUNK = 4080 }; /* whole units of every kernel here */

struct chain {
    const char *name;
    const char *kernels[CHAIN_MAX + 1];
};

static const struct chain chains[] = {
    {"chain: cast, bswap", {"cast:u8,f32", "bswap:8"}},
    {"chain: shuffle, unshuffle, crc32", {"shuffle:4,12", "unshuffle:4,12", "crc32"}},
    {"chain: cast, scale, cast, mean",
     {"cast:u16,f64", "scale:f64,0.1,0", "cast:f64,f16", "mean:f16"}},
    {"chain: four reductions", {"sum:u16", "max:f32", "histogram", "crc32"}},
    {"chain: filter, scale, cast", {"filter:u8,lt,77", "scale:u8,2,1", "cast:u8,f32"}},
    {"chain: filter, filter, crc32", {"filter:u8,ge,50", "filter:u8,lt,200", "crc32"}},
};

static void run_chain(struct selftest *t, const void *what)
{
    const struct chain *chain = what;
    unsigned char *data = take_memory(SIZE);
    struct flow flow = {
        .source = from_memory(data, SIZE), .chunk_size = 65536, .depth = 4, .n_streams = 3};
    memcpy(flow.kernels, chain->kernels, sizeof flow.kernels);
    fill_random(data, SIZE, 2);
    compare_flow(t, flow);
    free(data);
}

/* ---- many small chunks, in order ---- */

struct taken {
    unsigned char *memory;
    uint64_t size;
    uint64_t room;
    bool is_torn; /* a chunk was not where the one before it ended */
};

static int64_t take(void *user, const void *buffer, size_t size, uint64_t offset)
{
    struct taken *taken = user;
    taken->is_torn = taken->is_torn || offset != taken->size || size > taken->room - taken->size;
    if (!taken->is_torn) {
        memcpy(taken->memory + taken->size, buffer, size);
        taken->size += size;
    }
    return (int64_t)size;
}

static void run_small_chunks(struct selftest *t, const void *unused)
{
    enum { GROWTH = 4 };
    unsigned char *data = take_memory(SIZE);
    struct taken taken = {.memory = take_memory(SIZE * GROWTH), .room = SIZE * GROWTH};
    unsigned char *expected = take_memory(SIZE * GROWTH);
    struct outcome got;
    struct flow flow = {.device = t->device,
                        .source = from_memory(data, SIZE),
                        .sink = {.struct_size = sizeof flow.sink,
                                 .kind = HR_CALLBACK,
                                 .write = take,
                                 .user = &taken},
                        .kernels = {"cast:u8,f32", "crc32"},
                        .chunk_size = SMALL_CHUNK,
                        .depth = 16,
                        .n_streams = 4};
    (void)unused;
    fill_random(data, SIZE, 3);
    if (must_run(t, &flow, &got)) {
        flow.device = "host";
        flow.sink = to_memory(expected, SIZE * GROWTH);
        flow.chunk_size = 0;
        must_run(t, &flow, &got);
        if (taken.is_torn || taken.size != got.size)
            fail(t, "expected %llu bytes in order, got %llu before one was not in its place",
                 (unsigned long long)got.size, (unsigned long long)taken.size);
        expect_bytes(t, "in order", taken.memory, expected, taken.size);
    }
    free(data);
    free(taken.memory);
    free(expected);
}

/* ---- units joined on the device ---- */

/* Of each pair of bytes one is kept, so that what is kept has whole units. */
static void fill_pairs(unsigned char *data, uint64_t size)
{
    fill_random(data, size, 4);
    for (uint64_t i = 0; i + 1 < size; i += 2)
        data[i + 1] = data[i] ^ 0x80;
}

/* Gathered in memory of the device whose size is not known before. */
static void gather(struct selftest *t, struct flow flow)
{
    unsigned char *bytes[2] = {take_memory(SIZE), take_memory(SIZE)};
    struct outcome expected;
    struct outcome got;
    struct flow back = {.device = t->device};
    flow.device = "host";
    flow.sink = to_memory(bytes[0], SIZE);
    bool done = must_run(t, &flow, &expected);
    flow.device = t->device;
    flow.sink = to_device(NULL, 0);
    if (done && must_run(t, &flow, &got)) {
        back.source = from_device(got.gathered, got.size);
        back.sink = to_memory(bytes[1], SIZE);
        if (got.size != expected.size)
            fail(t, "expected %llu bytes gathered, got %llu", (unsigned long long)expected.size,
                 (unsigned long long)got.size);
        else if (must_run(t, &back, &expected))
            expect_bytes(t, "gathered", bytes[1], bytes[0], got.size);
        hr_device_free(t->context, t->device, got.gathered);
    }
    free(bytes[0]);
    free(bytes[1]);
}

static void run_joined(struct selftest *t, const void *what)
{
    unsigned char *data = take_memory(SIZE);
    const struct flow flow = {.source = from_memory(data, SIZE),
                              .kernels = {"filter:u8,lt,128", "bswap:8", "crc32"},
                              .chunk_size = SMALL_CHUNK + 1,
                              .depth = 8,
                              .n_streams = 4};
    fill_pairs(data, SIZE);
    if (what)
        gather(t, flow);
    else
        compare_flow(t, flow);
    free(data);
}

/* ---- zstd ---- */

static void recode(struct selftest *t, const unsigned char *data, unsigned char *const room[3],
                   uint64_t size)
{
    struct outcome got;
    struct flow flow = {.device = "host",
                        .source = from_memory(data, SIZE),
                        .sink = to_memory(room[0], size),
                        .encode = HR_CODEC_ZSTD};
    run_flow(t, &flow, &got);
    if (got.status == HR_EUNSUPPORTED)
        skip(t, "%s", got.error.text);
    if (!expect_ok(t, "encoding", got.status, &got.error))
        return;
    flow = (struct flow){.device = t->device,
                         .source = from_memory(room[0], got.size),
                         .sink = to_memory(room[1], size),
                         .kernels = {"bswap:4"},
                         .chunk_size = 65536,
                         .decode = HR_CODEC_ZSTD,
                         .encode = HR_CODEC_ZSTD};
    if (!must_run(t, &flow, &got))
        return;
    flow = (struct flow){.device = "host",
                         .source = from_memory(room[1], got.size),
                         .sink = to_memory(room[2], size),
                         .kernels = {"bswap:4"},
                         .decode = HR_CODEC_ZSTD};
    if (must_run(t, &flow, &got) && got.size != SIZE)
        fail(t, "expected %d bytes decoded, got %llu", SIZE, (unsigned long long)got.size);
    expect_bytes(t, "decoded again", room[2], data, SIZE);
}

static void run_zstd(struct selftest *t, const void *unused)
{
    const uint64_t size = 2 * (uint64_t)SIZE;
    unsigned char *data = take_memory(SIZE);
    unsigned char *const room[] = {take_memory(size), take_memory(size), take_memory(size)};
    (void)unused;
    fill_random(data, SIZE, 5);
    memset(data + SIZE / 4, 7, SIZE / 2);
    recode(t, data, room, size);
    free(data);
    for (int i = 0; i < 3; i++)
        free(room[i]);
}

void selftest_chains(struct selftest *t)
{
    for (size_t i = 0; i < sizeof chains / sizeof chains[0]; i++)
        check(t, chains[i].name, run_chain, &chains[i]);
    check(t, "small chunks on several streams, in order", run_small_chunks, NULL);
    check(t, "units joined behind a filter", run_joined, NULL);
    check(t, "units joined behind a filter, gathered on the device", run_joined, "gathered");
    check(t, "zstd, kernel, zstd", run_zstd, NULL);
}
