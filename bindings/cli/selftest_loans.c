// SPDX-License-Identifier: Apache-2.0
/* Chunks that are lent where the device has them: waited for by the thread or by a stream, read by
 * another pipeline meanwhile, and given back on the stream, two at a time. */
#include <stdlib.h>
#include <string.h>

#include "selftest.h"

enum { CHUNK = 65536, N_CHUNKS = 9, SIZE = N_CHUNKS * CHUNK - 20, GROWTH = 4, WAIT_MS = 30000 };

/* cuda.h, hip_runtime_api.h: CU_STREAM_PER_THREAD, hipStreamPerThread. */
static void *const default_stream = (void *)2;

struct lent {
    const unsigned char *expected;
    uint64_t n_expected;
    uint64_t at; /* in the stream that comes out */
    unsigned char *room;
};

static void read_chunk(struct selftest *t, const struct hr_chunk *chunk, unsigned char *to)
{
    struct outcome got;
    const struct flow flow = {.device = t->device,
                              .source = from_device(chunk->data, chunk->size),
                              .sink = to_memory(to, chunk->size)};
    if (chunk->flags & HR_CHUNK_DEVICE)
        must_run(t, &flow, &got);
    else
        memcpy(to, chunk->data, (size_t)chunk->size);
}

static void look_at_chunk(struct selftest *t, const struct hr_chunk *chunk, struct lent *lent)
{
    char what[64];
    hr_error error = {0};
    const bool on_device = (chunk->flags & HR_CHUNK_DEVICE) != 0;
    snprintf(what, sizeof what, "chunk %llu", (unsigned long long)chunk->index);
    if (on_device == t->is_host || on_device != (chunk->ready != NULL))
        fail(t, "%s: flags %u and event %p", what, chunk->flags, chunk->ready);
    if (chunk->size > lent->n_expected - lent->at) {
        fail(t, "%s: more than the %llu bytes expected", what,
             (unsigned long long)lent->n_expected);
        return;
    }
    hr_status status = HR_OK;
    if (on_device && chunk->index % 2 == 1) /* both ways of waiting */
        status = hr_chunk_wait(chunk, default_stream, &error);
    if (status == HR_OK)
        status = hr_chunk_wait(chunk, NULL, &error);
    if (expect_ok(t, what, status, &error))
        read_chunk(t, chunk, lent->room);
    expect_bytes(t, what, lent->room, lent->expected + lent->at, chunk->size);
    lent->at += chunk->size;
}

/* The one before is kept until the next is there. */
static void take_chunks(struct selftest *t, hr_pipeline *pipeline, struct lent *lent)
{
    struct hr_chunk chunks[2] = {{.struct_size = sizeof chunks[0]},
                                 {.struct_size = sizeof chunks[0]}};
    hr_error error = {0};
    void *stream = t->is_host ? NULL : default_stream;
    hr_status status = HR_OK;
    unsigned n = 0;
    while (status == HR_OK && !t->why[0]) {
        struct hr_chunk *chunk = &chunks[n % 2];
        status = hr_pipeline_next(pipeline, WAIT_MS, chunk, &error);
        if (n > 0)
            hr_chunk_release(&chunks[(n - 1) % 2], stream);
        if (status != HR_OK)
            break;
        look_at_chunk(t, chunk, lent);
        n++;
    }
    if (status == HR_OK && n > 0)
        hr_chunk_release(&chunks[(n - 1) % 2], stream);
    else if (status != HR_END)
        fail(t, "after %u chunks: %s: %s", n, hr_status_name(status), error.text);
    else if (lent->at != lent->n_expected)
        fail(t, "expected %llu bytes, got %llu", (unsigned long long)lent->n_expected,
             (unsigned long long)lent->at);
}

static void lend(struct selftest *t, struct flow flow, struct lent *lent)
{
    hr_pipeline *pipeline = NULL;
    hr_error error = {0};
    flow.device = t->device;
    flow.sink =
        (struct hr_sink){.struct_size = sizeof flow.sink, .kind = HR_PULL, .flags = HR_LEND_DEVICE};
    if (expect_ok(t, "creating", create_flow(t, &flow, &pipeline, &error), &error))
        take_chunks(t, pipeline, lent);
    hr_pipeline_free(pipeline);
}

static void run_loans(struct selftest *t, const void *kernel)
{
    unsigned char *data = take_memory(SIZE);
    unsigned char *expected = take_memory(SIZE * GROWTH);
    struct lent lent = {.expected = expected, .room = take_memory(CHUNK * GROWTH)};
    struct outcome made;
    struct flow flow = {.device = "host",
                        .source = from_memory(data, SIZE),
                        .sink = to_memory(expected, SIZE * GROWTH),
                        .kernels = {kernel},
                        .chunk_size = CHUNK,
                        .depth = 4};
    fill_random(data, SIZE, 6);
    if (must_run(t, &flow, &made)) {
        lent.n_expected = made.size;
        lend(t, flow, &lent);
    }
    free(data);
    free(expected);
    free(lent.room);
}

void selftest_loans(struct selftest *t)
{
    check(t, "chunks lent on the device", run_loans, NULL);
    check(t, "chunks lent on the device, behind a kernel", run_loans, "cast:u8,f32");
}
