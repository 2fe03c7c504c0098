// SPDX-License-Identifier: Apache-2.0
/* The pull form: what chunks say of themselves, loans and their return from anywhere, waiting, and
 * the end; and delivery in any order. */
#include <criterion/criterion.h>
#include <headrace.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#if HR_HAVE_ZSTD
#include <zstd.h>
#endif

#include "chains.h"
#include "engines.h"

static hr_loop *loops[2];
static unsigned n_loops;

static void make_loops(void)
{
    n_loops = test_loops(loops);
}

static void free_loops(void)
{
    for (unsigned i = 0; i < n_loops; i++)
        hr_loop_free(loops[i]);
}

TestSuite(pull, .init = make_loops, .fini = free_loops, .timeout = 60);

enum { CHUNK = 1000, SIZE = 20 * CHUNK + 7 };
static const int wait_ms = 20000; /* far more than anything takes */

static void start(struct chain *chain, const void *data, size_t size)
{
    chain_init(chain);
    if (size)
        chain_read_memory(chain, data, size);
    chain->config.sink = (struct hr_sink){.struct_size = sizeof(struct hr_sink), .kind = HR_PULL};
    chain->config.chunk_size = CHUNK;
    chain->config.depth = 4;
}

static void create(struct chain *chain, hr_loop *loop)
{
    cr_assert_eq(chain_create(chain, loop), HR_OK, "%s", chain->error.text);
}

static hr_status next(struct chain *chain, int timeout_ms, struct hr_chunk *chunk)
{
    *chunk = (struct hr_chunk){.struct_size = sizeof *chunk};
    return hr_pipeline_next(chain->pipeline, timeout_ms, chunk, &chain->error);
}

static void must_lend(struct chain *chain, struct hr_chunk *chunk)
{
    const hr_status status = next(chain, wait_ms, chunk);
    cr_assert_eq(status, HR_OK, "%s: %s", hr_status_name(status), chain->error.text);
    cr_assert_not_null(chunk->data);
    cr_assert_null(chunk->ready);
}

static void must_end(struct chain *chain)
{
    struct hr_chunk chunk;
    for (int i = 0; i < 3; i++) {
        const hr_status status = next(chain, i % 2 ? 0 : wait_ms, &chunk);
        cr_assert_eq(status, HR_END, "%s: %s", hr_status_name(status), chain->error.text);
    }
    cr_assert_eq(hr_pipeline_state(chain->pipeline, &chain->error), HR_OK);
}

/* Takes all that comes, one at a time; returns how the stream ended. */
static hr_status take_all(struct chain *chain, const unsigned char *bytes, uint64_t *n)
{
    struct hr_chunk chunk;
    hr_status status;
    *n = 0;
    while ((status = next(chain, wait_ms, &chunk)) == HR_OK) {
        cr_assert(memcmp(chunk.data, bytes + *n, chunk.size) == 0);
        *n += chunk.size;
        hr_chunk_release(&chunk, NULL);
    }
    return status;
}

/* ---- what chunks say ---- */

Test(pull, chunks_come_in_order_and_say_where_they_are)
{
    unsigned char *data = test_bytes(SIZE);
    for (unsigned i = 0; i < n_loops; i++) {
        struct chain chain;
        struct hr_chunk chunk;
        start(&chain, data, 3 * CHUNK + 5);
        chain_read_memory(&chain, data + 3 * CHUNK + 5, CHUNK);
        create(&chain, loops[i]);
        static const uint64_t sizes[] = {CHUNK, CHUNK, CHUNK, 5, CHUNK};
        uint64_t offset = 0;
        for (uint64_t k = 0; k < 5; k++) {
            must_lend(&chain, &chunk);
            cr_assert_eq(chunk.index, k);
            cr_assert_eq(chunk.size, sizes[k]);
            cr_assert_eq(chunk.n_units, sizes[k]);
            cr_assert_eq(chunk.stream_offset, offset);
            cr_assert_eq(chunk.source, k / 4);
            cr_assert_eq(chunk.source_offset, k == 4 ? 0 : offset);
            cr_assert_eq(chunk.flags,
                         (k == 0 ? HR_CHUNK_FIRST : 0u) | (k == 4 ? HR_CHUNK_LAST : 0u));
            cr_assert(memcmp(chunk.data, data + offset, sizes[k]) == 0);
            offset += sizes[k];
            hr_chunk_release(&chunk, NULL);
            cr_assert_null(chunk.data);
            hr_chunk_release(&chunk, NULL); /* it is given back already */
        }
        must_end(&chain);
        chain_reset(&chain);
    }
    free(data);
}

/* A joint unit is of the source that it begins in. */
Test(pull, a_joint_unit_says_where_it_begins)
{
    unsigned char *data = test_bytes(36);
    for (unsigned i = 0; i < n_loops; i++) {
        struct chain chain;
        struct hr_chunk chunk;
        start(&chain, data, 17);
        chain_read_memory(&chain, data + 17, 3);
        chain_read_memory(&chain, data + 20, 16);
        chain_add(&chain, "shuffle:4,12");
        create(&chain, loops[i]);
        static const struct {
            uint64_t offset, source_offset, n_units;
            uint32_t source;
        } said[] = {{0, 0, 1, 0}, {12, 12, 2, 0}};
        for (unsigned k = 0; k < 2; k++) {
            must_lend(&chain, &chunk);
            cr_assert_eq(chunk.stream_offset, said[k].offset);
            cr_assert_eq(chunk.source, said[k].source, "chunk %u is of source %u", k, chunk.source);
            cr_assert_eq(chunk.source_offset, said[k].source_offset, "chunk %u is at %zu", k,
                         (size_t)chunk.source_offset);
            cr_assert_eq(chunk.n_units, said[k].n_units);
            hr_chunk_release(&chunk, NULL);
        }
        must_end(&chain);
        chain_reset(&chain);
    }
    free(data);
}

Test(pull, units_are_those_that_leave)
{
    unsigned char *data = test_bytes(SIZE);
    for (unsigned i = 0; i < n_loops; i++) {
        struct chain chain;
        struct hr_chunk chunk;
        start(&chain, data, 2 * CHUNK);
        chain_add(&chain, "cast:i16,i32");
        chain_add(&chain, "sum:u8");
        create(&chain, loops[i]);
        for (unsigned k = 0; k < 2; k++) {
            must_lend(&chain, &chunk);
            cr_assert_eq(chunk.size, 2 * CHUNK);
            cr_assert_eq(chunk.n_units, CHUNK / 2);
            cr_assert_eq(chunk.stream_offset, k * CHUNK);
            hr_chunk_release(&chunk, NULL);
        }
        must_end(&chain);
        struct hr_result result = {.struct_size = sizeof result};
        cr_assert_eq(hr_pipeline_result(chain.pipeline, 1, &result, NULL), HR_OK);
        cr_assert_eq(result.n_units, 4 * CHUNK);
        chain_reset(&chain);
    }
    free(data);
}

/* Chunks of which nothing is kept are not lent, and hold nothing up. */
Test(pull, a_filter_that_keeps_little)
{
    unsigned char *data = calloc(1, SIZE);
    for (unsigned i = 0; i < 3 * n_loops; i++) {
        struct chain chain;
        struct hr_chunk chunk;
        const unsigned case_of = i / n_loops;
        memset(data, 9, SIZE);
        if (case_of)
            data[case_of == 1 ? 7 * CHUNK + 3 : SIZE - 1] = 1;
        start(&chain, data, SIZE);
        chain.config.depth = 2;
        chain_add(&chain, "filter:u8,lt,5");
        create(&chain, loops[i % n_loops]);
        if (case_of) {
            must_lend(&chain, &chunk);
            cr_assert_eq(chunk.size, 1);
            cr_assert_eq(chunk.index, case_of == 1 ? 7 : 20);
            cr_assert(chunk.flags & HR_CHUNK_FIRST, "nothing came before it");
            hr_chunk_release(&chunk, NULL);
        }
        must_end(&chain);
        chain_reset(&chain);
    }
    free(data);
}

#if HR_HAVE_ZSTD
/* Of three frames; the middle one may have no checksum. */
static void run_verified(hr_loop *loop, const unsigned char *data, bool middle)
{
    unsigned char packed[4096];
    size_t n = 0;
    ZSTD_CCtx *context = ZSTD_createCCtx();
    for (int i = 0; i < 3; i++) {
        ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, i != 1 || middle);
        n += ZSTD_compress2(context, packed + n, sizeof packed - n, data + 100 * i, 100);
    }
    ZSTD_freeCCtx(context);
    struct chain chain;
    struct hr_chunk chunk;
    start(&chain, packed, n);
    chain.config.decode = HR_CODEC_ZSTD;
    chain.config.chunk_size = 60;
    chain_add(&chain, "unshuffle:4,12");
    create(&chain, loop);
    while (next(&chain, wait_ms, &chunk) == HR_OK) {
        const bool touches = chunk.stream_offset < 200 && chunk.stream_offset + chunk.size > 100;
        const bool verified = chunk.flags & HR_CHUNK_VERIFIED;
        cr_assert(verified ? middle || !touches : touches, "%zu bytes at %zu: %sverified",
                  (size_t)chunk.size, (size_t)chunk.stream_offset, verified ? "" : "not ");
        hr_chunk_release(&chunk, NULL);
    }
    must_end(&chain);
    chain_reset(&chain);
}

/* One chunk is kept all the time, of the two that there may be. The frame is larger than both, chunks
 * are no whole pages, and units need headroom. */
Test(pull, a_chunk_may_be_kept_of_a_frame_that_is_larger_than_all)
{
    unsigned char *data = test_bytes(SIZE - 7);
    const size_t room = ZSTD_compressBound(SIZE);
    unsigned char *packed = malloc(room);
    cr_assert_not_null(packed);
    const size_t n = ZSTD_compress(packed, room, data, SIZE - 7, 1);
    for (unsigned i = 0; i < n_loops; i++) {
        struct chain chain;
        struct hr_chunk chunks[2];
        start(&chain, packed, n);
        chain.config.decode = HR_CODEC_ZSTD;
        chain.config.depth = 2;
        chain_add(&chain, "sum:i32");
        create(&chain, loops[i]);
        for (unsigned k = 0; k < 20; k++) {
            must_lend(&chain, &chunks[k % 2]);
            if (k > 0)
                hr_chunk_release(&chunks[(k - 1) % 2], NULL);
        }
        hr_chunk_release(&chunks[1], NULL);
        must_end(&chain);
        chain_reset(&chain);
    }
    free(packed);
    free(data);
}

Test(pull, only_what_had_checksums_is_verified)
{
    unsigned char *data = test_bytes(300);
    for (unsigned i = 0; i < n_loops; i++) {
        run_verified(loops[i], data, true);
        run_verified(loops[i], data, false);
    }
    free(data);
}
#endif

/* ---- waiting ---- */

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

Test(pull, waits_as_long_as_it_may)
{
    for (unsigned i = 0; i < n_loops; i++) {
        struct chain chain;
        struct hr_chunk chunk;
        int ends[2];
        cr_assert_eq(pipe(ends), 0);
        start(&chain, NULL, 0);
        chain_read_fd(&chain, ends[0]);
        create(&chain, loops[i]);
        cr_assert_eq(next(&chain, 0, &chunk), HR_PENDING);
        const uint64_t begun = now_ms();
        cr_assert_eq(next(&chain, 60, &chunk), HR_PENDING);
        cr_assert_geq(now_ms() - begun, 59);
        cr_assert_eq(write(ends[1], "some", 4), 4);
        must_lend(&chain, &chunk);
        cr_assert_eq(chunk.size, 4);
        cr_assert_eq(next(&chain, 0, &chunk), HR_PENDING, "the pipe is open");
        close(ends[1]);
        must_end(&chain); /* although a chunk is on loan */
        chain_reset(&chain);
        close(ends[0]);
    }
}

/* Nothing may wait for what is there already: an end inside of a unit, and chunks kept of nothing.
 */
Test(pull, the_end_of_a_pipe_wakes_who_waits)
{
    for (unsigned i = 0; i < n_loops; i++) {
        struct chain chain;
        struct hr_chunk chunk;
        int fd;
        struct feeder *feeder = feeder_start("0123456789abcdefg", 17, 3, &fd);
        start(&chain, NULL, 0);
        chain_read_fd(&chain, fd);
        chain.config.min_fill = CHUNK;
        chain_add(&chain, "shuffle:4,12");
        create(&chain, loops[i]);
        cr_assert_eq(next(&chain, -1, &chunk), HR_OK);
        cr_assert_eq(chunk.size, 12);
        hr_chunk_release(&chunk, NULL);
        cr_assert_eq(next(&chain, -1, &chunk), HR_ETRUNCATED, "%s", chain.error.text);
        cr_assert_eq(next(&chain, 0, &chunk), HR_ETRUNCATED);
        chain_reset(&chain);
        feeder_join(feeder);
    }
}

Test(pull, run_and_poll_end_when_all_is_fetched)
{
    for (unsigned i = 0; i < n_loops; i++) {
        struct chain chain;
        struct hr_chunk chunk;
        start(&chain, "abc", 3);
        create(&chain, loops[i]);
        must_lend(&chain, &chunk);
        cr_assert_eq(hr_pipeline_run(chain.pipeline, &chain.error), HR_OK);
        cr_assert_arr_eq(chunk.data, "abc", 3, "it is still on loan");
        hr_chunk_release(&chunk, NULL);
        must_end(&chain);
        chain_reset(&chain);
    }
}

/* ---- loans ---- */

Test(pull, all_on_loan_is_an_error_and_not_a_wait)
{
    unsigned char *data = test_bytes(SIZE);
    for (unsigned i = 0; i < 2 * n_loops; i++) {
        struct chain chain;
        struct hr_chunk chunks[4];
        struct hr_chunk more;
        start(&chain, data, SIZE);
        if (i / n_loops)
            chain_add(&chain, "bswap:2"); /* an odd number of bytes: see below */
        create(&chain, loops[i % n_loops]);
        for (unsigned k = 0; k < 4; k++)
            must_lend(&chain, &chunks[k]);
        cr_assert_eq(next(&chain, -1, &more), HR_ELOANED);
        cr_assert(strstr(chain.error.text, "4 chunks"), "%s", chain.error.text);
        cr_assert_eq(next(&chain, 0, &more), HR_ELOANED);
        hr_chunk_release(&chunks[2], NULL);
        must_lend(&chain, &more);
        cr_assert_eq(more.index, 4);
        cr_assert_eq(hr_pipeline_state(chain.pipeline, NULL), HR_PENDING);
        if (i / n_loops == 0)
            for (unsigned k = 0; k < 4; k++)
                cr_assert(k == 2 || memcmp(chunks[k].data, data + k * CHUNK, CHUNK) == 0);
        hr_pipeline_free(chain.pipeline); /* with loans */
        chain.pipeline = NULL;
    }
    free(data);
}

/* Also when a source is silent: no byte of it could be taken. */
Test(pull, all_on_loan_while_a_pipe_is_silent)
{
    for (unsigned i = 0; i < n_loops; i++) {
        struct chain chain;
        struct hr_chunk chunks[4];
        struct hr_chunk more;
        int ends[2];
        cr_assert_eq(pipe(ends), 0);
        start(&chain, NULL, 0);
        chain_read_fd(&chain, ends[0]);
        create(&chain, loops[i]);
        for (unsigned k = 0; k < 4; k++) {
            cr_assert_eq(write(ends[1], "abc", 3), 3);
            must_lend(&chain, &chunks[k]);
            cr_assert_eq(chunks[k].size, 3);
        }
        cr_assert_eq(next(&chain, 500, &more), HR_ELOANED);
        hr_chunk_release(&chunks[0], NULL);
        cr_assert_eq(next(&chain, 0, &more), HR_PENDING);
        close(ends[1]);
        must_end(&chain);
        chain_reset(&chain);
        close(ends[0]);
    }
}

#if HR_HAVE_ZSTD
/* All memory there is holds blocks, chunks and frames: the seek table waits for a frame to come
 * back. */
Test(pull, a_seek_table_waits_for_the_memory_of_a_loan)
{
    const struct hr_context_config tight = {
        .struct_size = sizeof tight, .n_threads = 1, .max_memory = 2 * 4096};
    hr_context *context = NULL;
    hr_loop *loop = NULL;
    struct chain chain;
    struct hr_chunk frame;
    struct hr_chunk more;
    unsigned char *data = test_bytes(CHUNK);
    cr_assert_eq(hr_context_create(&tight, &context, NULL), HR_OK);
    cr_assert_eq(hr_loop_create(context, NULL, &loop, NULL), HR_OK);
    start(&chain, data, CHUNK);
    chain.config.encode = HR_CODEC_ZSTD;
    chain.config.frame_size = CHUNK; /* a page, with what is written; a block has the other */
    create(&chain, loop);
    must_lend(&chain, &frame);
    cr_assert_eq(next(&chain, wait_ms, &more), HR_ELOANED, "%s", chain.error.text);
    hr_chunk_release(&frame, NULL);
    must_lend(&chain, &more); /* the table */
    hr_chunk_release(&more, NULL);
    must_end(&chain);
    chain_reset(&chain);
    hr_loop_free(loop);
    hr_context_free(context);
    free(data);
}
#endif

/* Chunks go to another thread through a pipe, which keeps each for a while. */
static void *give_back(void *argument)
{
    const int *fd = argument;
    struct hr_chunk chunk;
    unsigned sum = 0;
    while (read(*fd, &chunk, sizeof chunk) == sizeof chunk) {
        for (uint64_t i = 0; i < chunk.size; i++)
            sum += ((const unsigned char *)chunk.data)[i];
        hr_chunk_release(&chunk, NULL);
    }
    return (void *)(uintptr_t)sum;
}

static void run_with_threads(hr_loop *loop, const unsigned char *data, const char *kernel)
{
    enum { N_THREADS = 3 };
    pthread_t threads[N_THREADS];
    struct chain chain;
    struct hr_chunk chunk;
    int ends[2];
    unsigned sum = 0;
    unsigned expected = 0;
    uint64_t n_taken = 0;
    cr_assert_eq(pipe(ends), 0);
    for (unsigned i = 0; i < N_THREADS; i++)
        pthread_create(&threads[i], NULL, give_back, &ends[0]);
    start(&chain, data, SIZE);
    chain.config.chunk_size = 16;
    if (kernel)
        chain_add(&chain, kernel);
    create(&chain, loop);
    while (n_taken < SIZE) {
        const hr_status status = next(&chain, wait_ms, &chunk);
        cr_assert(status == HR_OK || status == HR_ELOANED, "%s", chain.error.text);
        if (status == HR_ELOANED)
            cr_assert_geq(hr_loop_poll(loop, wait_ms, NULL), 0); /* until one comes back */
        else
            cr_assert_eq(write(ends[1], &chunk, sizeof chunk), sizeof chunk);
        n_taken += status == HR_OK ? chunk.size : 0;
    }
    close(ends[1]);
    for (unsigned i = 0; i < N_THREADS; i++) {
        void *part;
        pthread_join(threads[i], &part);
        sum += (unsigned)(uintptr_t)part;
    }
    for (size_t i = 0; i < SIZE; i++)
        expected += data[i];
    cr_assert_eq(sum, expected);
    must_end(&chain);
    chain_reset(&chain);
    close(ends[0]);
}

Test(pull, other_threads_give_back_while_the_loop_runs)
{
    unsigned char *data = test_bytes(SIZE);
    for (unsigned i = 0; i < n_loops; i++) {
        run_with_threads(loops[i], data, NULL);
        run_with_threads(loops[i], data, "filter:u8,ge,0");
    }
    free(data);
}

Test(pull, chunks_outlive_the_end_of_the_pipeline_and_go_back_after_it)
{
    unsigned char *data = test_bytes(SIZE);
    for (unsigned i = 0; i < 2 * n_loops; i++) {
        struct chain chain;
        struct hr_chunk chunks[3];
        const bool cancelled = i / n_loops;
        int fd;
        struct feeder *feeder = feeder_start(data, 3 * CHUNK, 3 * CHUNK, &fd);
        start(&chain, NULL, 0);
        chain_read_fd(&chain, fd);
        chain.config.min_fill = CHUNK;
        create(&chain, loops[i % n_loops]);
        for (unsigned k = 0; k < 3; k++)
            must_lend(&chain, &chunks[k]);
        if (cancelled) {
            hr_pipeline_cancel(chain.pipeline);
            hr_chunk_release(&chunks[1], NULL);
            cr_assert_eq(next(&chain, wait_ms, &chunks[1]), HR_ECANCELED);
        } else {
            must_end(&chain);
        }
        cr_assert(memcmp(chunks[2].data, data + 2 * CHUNK, CHUNK) == 0);
        hr_chunk_release(&chunks[2], NULL);
        hr_chunk_release(&chunks[0], NULL);
        chain_reset(&chain); /* with one on loan, or all back */
        feeder_join(feeder);
    }
    free(data);
}

/* ---- failures ---- */

static int32_t fail_at_chunk(void *user, const struct hr_kernel_call *call)
{
    return call->chunk == *(const uint64_t *)user ? 5 : 0;
}

Test(pull, what_precedes_a_failure_is_lent_first)
{
    unsigned char *data = test_bytes(SIZE);
    for (unsigned i = 0; i < 12 * n_loops; i++) {
        struct chain chain;
        struct hr_chunk chunk;
        uint64_t bad = i / n_loops;
        uint64_t n;
        start(&chain, data, SIZE);
        chain.config.depth = 1 + i % 5;
        chain_add_kernel(&chain, (struct hr_kernel){.kind = HR_KERNEL_FUNCTION,
                                                    .function = fail_at_chunk,
                                                    .user = &bad,
                                                    .text = "fifth"});
        create(&chain, loops[i % n_loops]);
        cr_assert_eq(take_all(&chain, data, &n), HR_EDEVICE);
        cr_assert_eq(n, bad * CHUNK);
        cr_assert_eq(chain.error.chunk, bad);
        cr_assert_eq(next(&chain, 0, &chunk), HR_EDEVICE, "it stays so");
        cr_assert(strstr(chain.error.text, "fifth"));
        chain_reset(&chain);
    }
    free(data);
}

static int64_t read_then_fail(void *user, void *buffer, size_t size, uint64_t offset)
{
    (void)user;
    if (offset >= 2500)
        return -5;
    const size_t n = size < 2500 - offset ? size : (size_t)(2500 - offset);
    memset(buffer, 7, n);
    return (int64_t)n;
}

Test(pull, what_precedes_a_failed_read_is_lent_first)
{
    unsigned char sevens[2500];
    memset(sevens, 7, sizeof sevens);
    for (unsigned i = 0; i < n_loops; i++) {
        struct chain chain;
        uint64_t n;
        start(&chain, NULL, 0);
        chain.sources[0] = (struct hr_source){
            .struct_size = sizeof chain.sources[0], .kind = HR_CALLBACK, .read = read_then_fail};
        chain.config.n_sources = 1;
        create(&chain, loops[i]);
        cr_assert_eq(take_all(&chain, sevens, &n), HR_EIO);
        cr_assert_eq(n, 2500);
        cr_assert_eq(chain.error.native, 5);
        chain_reset(&chain);
    }
}

/* Chunks that were ready are not lent any more: their memory has been given away. */
Test(pull, nothing_is_lent_after_a_cancel)
{
    unsigned char *data = test_bytes(SIZE);
    for (unsigned i = 0; i < 2 * n_loops; i++) {
        struct chain chain;
        struct hr_chunk chunk;
        start(&chain, data, SIZE);
        if (i / n_loops)
            chain_add(&chain, "bswap:2");
        create(&chain, loops[i % n_loops]);
        must_lend(&chain, &chunk);
        hr_chunk_release(&chunk, NULL);
        usleep(2000); /* others get ready */
        cr_assert_eq(hr_loop_step(loops[i % n_loops], NULL), HR_PENDING);
        hr_pipeline_cancel(chain.pipeline);
        for (unsigned k = 0; k < 3; k++)
            cr_assert_eq(next(&chain, wait_ms, &chunk), HR_ECANCELED);
        chain_reset(&chain);
    }
    free(data);
}

Test(pull, wrong_calls_are_refused)
{
    struct chain chain;
    struct hr_chunk chunk = {0};
    chain_init(&chain);
    chain_read_memory(&chain, "abc", 3);
    create(&chain, loops[0]);
    cr_assert_eq(next(&chain, 0, &chunk), HR_EINVAL, "it is no pull form");
    chain_reset(&chain);
    start(&chain, "abc", 3);
    create(&chain, loops[0]);
    cr_assert_eq(hr_pipeline_next(chain.pipeline, 0, NULL, NULL), HR_EINVAL);
    chunk.struct_size = 0;
    cr_assert_eq(hr_pipeline_next(chain.pipeline, 0, &chunk, NULL), HR_EINVAL);
    hr_chunk_release(NULL, NULL);
    hr_chunk_release(&chunk, NULL);
    chain_reset(&chain);
}

/* ---- any order ---- */

/* Chunks of low index take longest, so that they come last. */
static int32_t slow_first(void *user, const struct hr_kernel_call *call)
{
    (void)user;
    usleep(call->chunk % 3 == 0 ? 3000 : 10);
    memcpy(call->out, call->in[0], (size_t)call->n_units);
    for (uint64_t i = 0; i < call->n_units; i++)
        ((unsigned char *)call->out)[i] ^= 0x5a;
    return 0;
}

static void start_unordered(struct chain *chain, const unsigned char *data)
{
    start(chain, data, SIZE);
    chain->config.flags = HR_UNORDERED;
    chain->config.depth = 6;
    chain->config.n_streams = 4;
    chain_add_kernel(chain, (struct hr_kernel){
                                .kind = HR_KERNEL_FUNCTION, .function = slow_first, .unit_out = 1});
}

Test(unordered, every_chunk_is_lent_once_and_says_its_place, .init = make_loops, .fini = free_loops,
     .timeout = 60)
{
    unsigned char *data = test_bytes(SIZE);
    for (unsigned i = 0; i < n_loops; i++) {
        struct chain chain;
        struct hr_chunk chunk;
        unsigned n_lent[21] = {0};
        unsigned n_early = 0;
        uint64_t expected = 0;
        start_unordered(&chain, data);
        create(&chain, loops[i]);
        hr_status status;
        while ((status = next(&chain, wait_ms, &chunk)) == HR_OK) {
            cr_assert_lt(chunk.index, 21);
            n_lent[chunk.index]++;
            n_early += chunk.index > expected++;
            cr_assert_eq(chunk.stream_offset, chunk.index * CHUNK);
            cr_assert_eq(!!(chunk.flags & HR_CHUNK_FIRST), chunk.index == 0);
            for (uint64_t k = 0; k < chunk.size; k++)
                cr_assert_eq(((const unsigned char *)chunk.data)[k],
                             data[chunk.stream_offset + k] ^ 0x5a);
            hr_chunk_release(&chunk, NULL);
        }
        cr_assert_eq(status, HR_END, "%s", chain.error.text);
        for (unsigned k = 0; k < 21; k++)
            cr_assert_eq(n_lent[k], 1, "chunk %u was lent %u times", k, n_lent[k]);
        cr_assert_gt(n_early, 0, "all came in order");
        chain_reset(&chain);
    }
    free(data);
}

static void assert_file(const char *path, const unsigned char *data)
{
    unsigned char *got = malloc(SIZE + 1);
    FILE *file = fopen(path, "rb");
    cr_assert(file && fread(got, 1, SIZE + 1, file) == SIZE);
    for (size_t k = 0; k < SIZE; k++)
        cr_assert_eq(got[k], data[k] ^ 0x5a, "byte %zu", k);
    fclose(file);
    free(got);
}

Test(unordered, files_memory_and_crc_are_as_in_order, .init = make_loops, .fini = free_loops,
     .timeout = 60)
{
    unsigned char *data = test_bytes(SIZE);
    unsigned char *got = malloc(SIZE);
    char path[] = "/tmp/headrace-unordered-XXXXXX";
    close(mkstemp(path));
    for (unsigned i = 0; i < n_loops; i++) {
        struct hr_stats stats[2] = {{.struct_size = sizeof stats[0]},
                                    {.struct_size = sizeof stats[1]}};
        struct chain chain;
        start_unordered(&chain, data);
        chain.config.sink.kind = HR_FILE;
        chain.config.sink.path = path;
        cr_assert_eq(chain_run(&chain, loops[i]), HR_OK, "%s", chain.error.text);
        assert_file(path, data);
        chain_reset(&chain);
        start_unordered(&chain, data);
        chain.config.sink.kind = HR_MEMORY;
        chain.config.sink.data = got;
        chain.config.sink.size = SIZE;
        cr_assert_eq(chain_run(&chain, loops[i]), HR_OK, "%s", chain.error.text);
        for (size_t k = 0; k < SIZE; k++)
            cr_assert_eq(got[k], data[k] ^ 0x5a);
        chain_reset(&chain);
        for (unsigned ordered = 0; ordered < 2; ordered++) {
            start_unordered(&chain, data);
            chain.config.sink.kind = HR_NULL;
            chain.config.flags = ordered ? 0 : HR_UNORDERED;
            cr_assert_eq(chain_run(&chain, loops[i]), HR_OK, "%s", chain.error.text);
            cr_assert_eq(hr_pipeline_stats(chain.pipeline, &stats[ordered]), HR_OK);
            chain_reset(&chain);
        }
        cr_assert_eq(stats[0].crc32, stats[1].crc32);
    }
    unlink(path);
    free(got);
    free(data);
}

/* Places beyond the memory are refused whichever chunk comes first. */
Test(unordered, memory_that_is_too_small, .init = make_loops, .fini = free_loops, .timeout = 60)
{
    unsigned char *data = test_bytes(SIZE);
    for (unsigned i = 0; i < 4 * n_loops; i++) {
        static const size_t sizes[] = {0, CHUNK / 2, CHUNK, SIZE - 1};
        const size_t size = sizes[i / n_loops];
        unsigned char *got = malloc(size + 1);
        struct chain chain;
        start_unordered(&chain, data);
        chain.config.sink.kind = HR_MEMORY;
        chain.config.sink.data = got;
        chain.config.sink.size = size;
        cr_assert_eq(chain_run(&chain, loops[i % n_loops]), HR_ESPACE, "%s", chain.error.text);
        cr_assert_eq(chain.error.stage, HR_STAGE_WRITE);
        chain_reset(&chain);
        free(got);
    }
    free(data);
}

Test(unordered, does_not_go_with_encode_nor_with_counted_kernels, .init = make_loops,
     .fini = free_loops)
{
    struct chain chain;
    start(&chain, "abcd", 4);
    chain.config.flags = HR_UNORDERED;
    chain_add(&chain, "filter:u8,lt,5");
    cr_assert_eq(chain_create(&chain, loops[0]), HR_EINVAL);
    cr_assert(strstr(chain.error.text, "HR_UNORDERED"), "%s", chain.error.text);
    start(&chain, "abcd", 4);
    chain.config.flags = HR_UNORDERED;
    chain.config.encode = HR_CODEC_ZSTD;
    cr_assert_eq(chain_create(&chain, loops[0]), HR_EINVAL);
    cr_assert(strstr(chain.error.text, "HR_UNORDERED"), "%s", chain.error.text);
}
