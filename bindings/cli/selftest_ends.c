// SPDX-License-Identifier: Apache-2.0
/* Ends before the end: cancelled, cut off inside of a unit; and two pipelines at once. */
#include <stdlib.h>
#include <string.h>

#include "selftest.h"

enum { CHUNK = 65536, SIZE = 24 * CHUNK, CANCEL_AT = 5 * CHUNK };

/* ---- cancelled ---- */

struct cancelled {
    hr_pipeline *pipeline;
    const unsigned char *data;
    unsigned char *memory;
    uint64_t size; /* that came out */
};

static int64_t give(void *user, void *buffer, size_t size, uint64_t offset)
{
    const struct cancelled *c = user;
    const uint64_t left = SIZE - offset;
    const size_t n = left < size ? (size_t)left : size;
    if (offset >= CANCEL_AT)
        hr_pipeline_cancel(c->pipeline);
    memcpy(buffer, c->data + offset, n);
    return (int64_t)n;
}

static int64_t take(void *user, const void *buffer, size_t size, uint64_t offset)
{
    struct cancelled *c = user;
    if (offset == c->size) {
        memcpy(c->memory + offset, buffer, size);
        c->size += size;
    }
    return (int64_t)size;
}

static void run_until_cancelled(struct selftest *t, struct cancelled *c)
{
    const struct flow flow = {
        .device = t->device,
        .source = {.struct_size = sizeof flow.source, .kind = HR_CALLBACK, .read = give, .user = c},
        .sink = {.struct_size = sizeof flow.sink, .kind = HR_CALLBACK, .write = take, .user = c},
        .kernels = {"unshuffle:256,65536"},
        .chunk_size = CHUNK,
        .depth = 3};
    hr_error error = {0};
    hr_status status = create_flow(t, &flow, &c->pipeline, &error);
    if (status == HR_OK)
        status = hr_pipeline_run(c->pipeline, &error);
    hr_pipeline_free(c->pipeline);
    if (status != HR_ECANCELED)
        fail(t, "expected HR_ECANCELED, got %s: %s", hr_status_name(status), error.text);
}

/* What was delivered is the begin of the stream, and the device goes on. */
static void run_cancel(struct selftest *t, const void *unused)
{
    unsigned char *data = take_memory(SIZE);
    unsigned char *expected = take_memory(SIZE);
    struct cancelled c = {.data = data, .memory = take_memory(SIZE)};
    struct outcome whole;
    const struct flow flow = {.device = "host",
                              .source = from_memory(data, SIZE),
                              .sink = to_memory(expected, SIZE),
                              .kernels = {"unshuffle:256,65536"}};
    (void)unused;
    fill_random(data, SIZE, 8);
    run_until_cancelled(t, &c);
    if (must_run(t, &flow, &whole))
        expect_bytes(t, "before it was cancelled", c.memory, expected, c.size);
    compare_flow(t, (struct flow){.source = from_memory(data, SIZE), .kernels = {"bswap:4"}});
    free(data);
    free(expected);
    free(c.memory);
}

/* ---- cut off ---- */

static void run_cut_off(struct selftest *t, const void *unused)
{
    unsigned char *data = take_memory(SIZE);
    struct outcome got;
    const struct flow flow = {.device = t->device,
                              .source = from_memory(data, CHUNK + 2),
                              .sink = to_memory(data, SIZE),
                              .kernels = {"bswap:4"},
                              .chunk_size = CHUNK};
    (void)unused;
    run_flow(t, &flow, &got);
    if (got.status != HR_ETRUNCATED)
        fail(t, "expected HR_ETRUNCATED, got %s: %s", hr_status_name(got.status), got.error.text);
    free(data);
}

/* ---- two at once ---- */

/* Running the first steps the second, too. */
static void run_both(struct selftest *t, const struct flow flows[2])
{
    hr_pipeline *pipelines[2] = {NULL, NULL};
    hr_error error = {0};
    hr_status status = create_flow(t, &flows[0], &pipelines[0], &error);
    if (status == HR_OK)
        status = create_flow(t, &flows[1], &pipelines[1], &error);
    for (int i = 0; i < 2 && status == HR_OK; i++)
        status = hr_pipeline_run(pipelines[i], &error);
    hr_pipeline_free(pipelines[0]);
    hr_pipeline_free(pipelines[1]);
    expect_ok(t, "both", status, &error);
}

static void run_two(struct selftest *t, const void *unused)
{
    static const char *const kernels[] = {"bswap:8", "unshuffle:8,4096"};
    unsigned char *data = take_memory(SIZE);
    unsigned char *expected = take_memory(SIZE);
    unsigned char *const memory[] = {take_memory(SIZE), take_memory(SIZE)};
    struct flow flows[2];
    struct outcome got;
    (void)unused;
    fill_random(data, SIZE, 9);
    for (int i = 0; i < 2; i++)
        flows[i] = (struct flow){.device = t->device,
                                 .source = from_memory(data, SIZE),
                                 .sink = to_memory(memory[i], SIZE),
                                 .kernels = {kernels[i]},
                                 .chunk_size = CHUNK};
    run_both(t, flows);
    for (int i = 0; i < 2; i++) {
        flows[i].device = "host";
        flows[i].sink = to_memory(expected, SIZE);
        if (must_run(t, &flows[i], &got))
            expect_bytes(t, kernels[i], memory[i], expected, SIZE);
        free(memory[i]);
    }
    free(data);
    free(expected);
}

void selftest_ends(struct selftest *t)
{
    check(t, "cancelled in the middle", run_cancel, NULL);
    check(t, "cut off inside of a unit", run_cut_off, NULL);
    check(t, "two pipelines at once", run_two, NULL);
}
