// SPDX-License-Identifier: Apache-2.0
/* Loans of chunks where the device has them: kept for long, too many of them, and kept over the
 * end. */
#include <stdlib.h>
#include <string.h>

#include "chains.h"
#include "trials.h"

enum { CHUNK = 65536, DEPTH = 4, N_CHUNKS = 9, WAIT_MS = 60000 };

struct lender {
    struct bed *bed;
    struct run run;
    struct trial_outcome out;
    struct trial trial;
    struct trial_outcome expected;
    struct hr_chunk chunks[N_CHUNKS];
};

static hr_status next(struct lender *lender, int i)
{
    struct hr_chunk *chunk = &lender->chunks[i];
    *chunk = (struct hr_chunk){.struct_size = sizeof *chunk};
    return hr_pipeline_next(lender->run.pipeline, WAIT_MS, chunk, &lender->out.error);
}

static void must_lend(struct lender *lender, int i)
{
    const hr_status status = next(lender, i);
    expect(lender->bed, status == HR_OK && lender->chunks[i].data, "loan %d: %s %s", i,
           hr_status_name(status), lender->out.error.text);
}

/* Its bytes are still those of its place in the stream. */
static void look_at(struct lender *lender, int i)
{
    const struct hr_chunk *chunk = &lender->chunks[i];
    const unsigned char *expected = lender->expected.bytes;
    const size_t growth = lender->trial.size ? lender->expected.size / lender->trial.size : 1;
    const size_t at = (size_t)chunk->stream_offset * growth;
    const size_t size = (size_t)chunk->size;
    hr_error error = {0};
    hr_status status = chunk->data ? hr_chunk_wait(chunk, NULL, &error) : HR_EINVAL;
    unsigned char *bytes = malloc(size + 1);
    if (status == HR_OK && chunk->flags & HR_CHUNK_DEVICE)
        status = device_get(lender->bed, lender->bed->device, bytes, chunk->data, size, &error);
    else if (status == HR_OK)
        memcpy(bytes, chunk->data, size);
    expect(lender->bed,
           status == HR_OK && at + size <= lender->expected.size &&
               memcmp(bytes, expected + at, size) == 0,
           "loan %d, %zu bytes at %zu, is not what it was: %s %s", i, size, at,
           hr_status_name(status), error.text);
    free(bytes);
}

static void open_lender(struct lender *lender, struct bed *bed, const unsigned char *bytes,
                        size_t size, const char *kernel)
{
    memset(lender, 0, sizeof *lender);
    lender->bed = bed;
    lender->trial = (struct trial){.to = TO_LOANS,
                                   .bytes = bytes,
                                   .size = size,
                                   .chunk_size = CHUNK,
                                   .depth = DEPTH,
                                   .kernels = {kernel}};
    trial_reference(bed, &lender->trial, &lender->expected);
    run_start(&lender->run, bed, &lender->trial, bed->device, &lender->out);
    expect(bed, lender->out.status == HR_PENDING, "a pipeline of loans: %s",
           lender->out.error.text);
}

static void close_lender(struct lender *lender)
{
    run_finish(&lender->run);
    free(lender->expected.bytes);
    free(lender->out.bytes);
}

/* All that there are, and one more; given back in another order; then to the end. */
static void lend_too_many(struct lender *lender)
{
    struct bed *bed = lender->bed;
    for (int i = 0; i < DEPTH; i++)
        must_lend(lender, i);
    const hr_status status = next(lender, DEPTH);
    expect(bed, status == HR_ELOANED, "a loan too many: %s", hr_status_name(status));
    for (int i = 0; i < DEPTH; i++)
        look_at(lender, i);
    hr_chunk_release(&lender->chunks[2], NULL);
    must_lend(lender, DEPTH);
    look_at(lender, DEPTH);
    for (int i = 0; i < DEPTH; i++) {
        if (i != 2)
            look_at(lender, i);
        hr_chunk_release(&lender->chunks[i], NULL); /* one of them again */
    }
    for (int i = DEPTH + 1; i < N_CHUNKS; i++) {
        must_lend(lender, i);
        hr_chunk_release(&lender->chunks[i - 1], NULL);
        look_at(lender, i);
    }
}

/* The last ones stay on loan when the stream ends. */
static void lend_over_the_end(struct lender *lender)
{
    struct bed *bed = lender->bed;
    for (int i = 0; i < 2; i++)
        must_lend(lender, i);
    hr_status status = next(lender, 2);
    expect(bed, status == HR_END, "at the end: %s", hr_status_name(status));
    status = hr_pipeline_state(lender->run.pipeline, NULL);
    expect(bed, status == HR_OK, "the end: %s", hr_status_name(status));
    for (int i = 0; i < 2; i++)
        look_at(lender, i);
    hr_chunk_release(&lender->chunks[0], NULL);
}

/* Freed while chunks are on loan and others on their way. */
static void leave_early(struct lender *lender)
{
    must_lend(lender, 0);
    must_lend(lender, 1);
    hr_chunk_release(&lender->chunks[1], NULL);
}

void group_loans(struct bed *bed)
{
    static const char *const kernels[] = {NULL, "scale:u8,1,1", "cast:u8,f32", "crc32"};
    static struct lender lender;
    const size_t size = N_CHUNKS * CHUNK - 5;
    unsigned char *bytes = test_bytes(size);
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        open_lender(&lender, bed, bytes, size, kernels[i]);
        if (lender.out.status == HR_PENDING)
            lend_too_many(&lender);
        close_lender(&lender);
        open_lender(&lender, bed, bytes, CHUNK + 7, kernels[i]);
        if (lender.out.status == HR_PENDING)
            lend_over_the_end(&lender);
        close_lender(&lender);
        open_lender(&lender, bed, bytes, size, kernels[i]);
        if (lender.out.status == HR_PENDING)
            leave_early(&lender);
        close_lender(&lender);
    }
    free(bytes);
}
