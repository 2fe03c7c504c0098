// SPDX-License-Identifier: Apache-2.0
/* Encoding: whatever the sizes of chunks and frames, libzstd decodes what comes out, and we read it
 * back whole and by ranges. Public header, both I/O engines. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <zstd.h>

#include "codec_suite.h"

TestSuite(encode, .init = make_loops, .fini = free_loops, .timeout = 60);

static struct trial encode_in(enum feed feed, uint64_t chunk, uint64_t frame)
{
    return (struct trial){.feed = feed,
                          .chunk_size = chunk,
                          .depth = 3,
                          .encode = HR_CODEC_ZSTD,
                          .frame_size = frame};
}

static struct buffer sample(size_t size)
{
    struct buffer b = {0};
    add_sample(&b, size, (unsigned)size);
    return b;
}

static struct buffer decoded_by_libzstd(const struct buffer *packed, size_t most)
{
    struct buffer plain = {.data = malloc(most + 1)};
    const size_t n = ZSTD_decompress(plain.data, most + 1, packed->data, packed->size);
    cr_assert(!ZSTD_isError(n), "%s", ZSTD_getErrorName(n));
    plain.size = n;
    return plain;
}

/* Frames of the size that was asked for, each with its size and checksum, then a seek table. */
static void assert_frames(const struct buffer *packed, size_t total, size_t frame_size)
{
    size_t left = total;
    size_t at = 0;
    do {
        const size_t due = left < frame_size ? left : frame_size;
        cr_assert_lt(at, packed->size);
        cr_assert_eq(ZSTD_getFrameContentSize(packed->data + at, packed->size - at), due);
        cr_assert(packed->data[at + 4] & 4, "a frame has no checksum"); /* RFC 8878, 3.1.1.1.1 */
        left -= due;
        at += ZSTD_findFrameCompressedSize(packed->data + at, packed->size - at);
    } while (left);
    cr_assert(packed->size - at >= 17 && memcmp(packed->data + at, "\x5e\x2a\x4d\x18", 4) == 0,
              "no seek table at byte %zu of %zu", at, packed->size);
    cr_assert_eq(at + ZSTD_findFrameCompressedSize(packed->data + at, packed->size - at),
                 packed->size);
}

static void assert_encoded(hr_loop *loop, struct trial *t, const struct buffer *plain)
{
    run_trial(loop, t, plain);
    cr_assert_eq(t->status, HR_OK, "%s", name_of(t));
    assert_frames(&t->got, plain->size, (size_t)t->frame_size);
    struct buffer back = decoded_by_libzstd(&t->got, plain->size);
    cr_assert(same_bytes(&back, plain), "%s: %zu of %zu bytes", name_of(t), back.size, plain->size);
    buffer_free(&back);
}

static void assert_range(hr_loop *loop, const struct buffer *packed, const struct buffer *plain,
                         uint64_t offset, uint64_t length)
{
    struct trial t = {.feed = FEED_FILE,
                      .chunk_size = 65536,
                      .depth = 2,
                      .decode = HR_CODEC_ZSTD,
                      .flags = HR_STRICT,
                      .range = true,
                      .offset = offset,
                      .length = length};
    const size_t from = offset < plain->size ? (size_t)offset : plain->size;
    const size_t left = plain->size - from;
    const struct buffer want = {.data = plain->data + from,
                                .size = length < left ? (size_t)length : left};
    assert_gives(loop, &t, packed, &want);
    buffer_free(&t.got);
}

Test(encode, every_size_around_frames_and_chunks_is_decoded_by_libzstd_and_by_ranges)
{
    static const size_t frames[] = {1, 1000, 4096, 1 << 20};
    static const size_t chunks[] = {7, 1000, 4096, 65537};
    for (unsigned f = 0; f < 4; f++)
        for (unsigned c = 0; c < 4; c++) {
            const size_t frame = frames[f];
            const size_t sizes[] = {0, 1, frame - 1, frame, frame + 1, 3 * frame, 3 * frame + 5};
            for (unsigned s = 0; s < 7; s++) {
                if (sizes[s] / chunks[c] > 3000)
                    continue;
                struct buffer plain = sample(sizes[s]);
                for (unsigned l = 0; l < n_loops; l++)
                    for (unsigned feed = 0; feed < N_FEEDS; feed++) {
                        struct trial t = encode_in((enum feed)feed, chunks[c], frame);
                        if (feed == FEED_PIPE) /* frames close early there: see below */
                            continue;
                        assert_encoded(loops[l], &t, &plain);
                        if (feed == FEED_MEMORY) {
                            assert_range(loops[l], &t.got, &plain, 0, UINT64_MAX);
                            assert_range(loops[l], &t.got, &plain, frame - 1, frame + 1);
                            assert_range(loops[l], &t.got, &plain, plain.size, 5);
                        }
                        buffer_free(&t.got);
                    }
                buffer_free(&plain);
            }
        }
}

Test(encode, from_a_pipe_what_comes_out_is_whole)
{
    static const size_t steps[] = {1, 7, 4097};
    struct buffer plain = sample(20011);
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned s = 0; s < 3; s++)
            for (size_t frame = 100; frame < 100000; frame *= 10) {
                struct trial t = encode_in(FEED_PIPE, 4096, frame);
                t.step = steps[s];
                run_trial(loops[l], &t, &plain);
                cr_assert_eq(t.status, HR_OK, "%s", name_of(&t));
                struct buffer back = decoded_by_libzstd(&t.got, plain.size);
                cr_assert(same_bytes(&back, &plain), "%s", name_of(&t));
                assert_range(loops[l], &t.got, &plain, 777, 15000);
                buffer_free(&back);
                buffer_free(&t.got);
            }
    buffer_free(&plain);
}

Test(encode, all_levels)
{
    static const int levels[] = {-5, 1, 3, 19, 0, 1000, -1000000};
    struct buffer plain = sample(300007);
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned i = 0; i < 7; i++) {
            struct trial t = encode_in(FEED_MEMORY, 65536, 100000);
            t.level = levels[i];
            assert_encoded(loops[l], &t, &plain);
            buffer_free(&t.got);
        }
    buffer_free(&plain);
}

Test(encode, with_a_dictionary_both_ways)
{
    struct buffer plain = sample(50000), dict = sample(3000);
    for (unsigned l = 0; l < n_loops; l++) {
        struct trial t = encode_in(FEED_MEMORY, 65536, 1000);
        t.dict = &dict;
        run_trial(loops[l], &t, &plain);
        cr_assert_eq(t.status, HR_OK, "%s", name_of(&t));
        struct trial back = {.chunk_size = 4096, .decode = HR_CODEC_ZSTD, .dict = &dict};
        assert_gives(loops[l], &back, &t.got, &plain);
        back.dict = NULL;
        run_trial(loops[l], &back, &t.got);
        cr_assert_eq(back.status, HR_ECORRUPT, "%s", name_of(&back));
        buffer_free(&back.got);
        buffer_free(&t.got);
    }
    buffer_free(&plain);
    buffer_free(&dict);
}

Test(encode, decode_then_encode_in_one_pipeline)
{
    struct frames f = {0};
    add_mixture(&f, 60000);
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned feed = 0; feed < FEED_PIPE; feed++)
            for (size_t chunk = 1000; chunk < 1000000; chunk *= 13)
                for (size_t frame = 999; frame < 2000000; frame *= 30)
                    for (uint32_t depth = 1; depth < 9; depth += 7) {
                        struct trial t = encode_in((enum feed)feed, chunk, frame);
                        t.decode = HR_CODEC_ZSTD;
                        t.depth = depth;
                        run_trial(loops[l], &t, &f.packed);
                        cr_assert_eq(t.status, HR_OK, "%s", name_of(&t));
                        struct buffer back = decoded_by_libzstd(&t.got, f.plain.size);
                        cr_assert(same_bytes(&back, &f.plain), "%s", name_of(&t));
                        buffer_free(&back);
                        buffer_free(&t.got);
                    }
    frames_free(&f);
}

/* All before the damage comes out encoded, and there is no seek table that makes it look whole. */
Test(encode, an_error_before_it_leaves_the_frames_before_and_no_table)
{
    struct frames f = {0};
    add_frame(&f, FRAME_USUAL, 10000);
    add_frame(&f, FRAME_USUAL, 20000);
    f.packed.data[f.packed.size - 1] ^= 1;
    for (unsigned l = 0; l < n_loops; l++)
        for (size_t frame = 700; frame < 100000; frame *= 5) {
            struct trial t = encode_in(FEED_MEMORY, 65536, frame);
            t.decode = HR_CODEC_ZSTD;
            run_trial(loops[l], &t, &f.packed);
            cr_assert_eq(t.status, HR_ECORRUPT, "%s", name_of(&t));
            cr_assert_eq(t.error.stage, HR_STAGE_DECODE);
            cr_assert_eq(t.error.offset, 10000);
            struct buffer back = decoded_by_libzstd(&t.got, f.plain.size);
            cr_assert_eq(back.size, 10000);
            cr_assert(begins(&back, &f.plain));
            cr_assert_neq(memcmp(t.got.data + t.got.size - 4, "\xb1\xea\x92\x8f", 4), 0);
            buffer_free(&back);
            buffer_free(&t.got);
        }
    frames_free(&f);
}

/* ---- a peer that waits for its answer ---- */

static unsigned long long decoded_size(const struct buffer *packed)
{
    unsigned long long size = 0;
    for (size_t at = 0; at < packed->size;) {
        size += ZSTD_getFrameContentSize(packed->data + at, packed->size - at);
        at += ZSTD_findFrameCompressedSize(packed->data + at, packed->size - at);
    }
    return size;
}

/* Steps until what came decodes to `size` bytes, all of them in whole frames. */
static void await_frames(hr_loop *loop, const struct buffer *got, const struct buffer *plain,
                         size_t size)
{
    const time_t end = time(NULL) + 10;
    unsigned long long decoded = 0;
    while (decoded < size && time(NULL) < end) {
        cr_assert_eq(hr_loop_poll(loop, 1000, NULL), HR_PENDING);
        decoded = decoded_size(got);
    }
    cr_assert_eq(decoded, size, "%llu of %zu bytes came while the pipe was open", decoded, size);
    struct buffer back = decoded_by_libzstd(got, size);
    cr_assert(begins(&back, plain));
    buffer_free(&back);
}

static void assert_answers(hr_loop *loop, uint32_t decode, const struct buffer *plain)
{
    enum { STEP = 3000 };
    int ends[2];
    struct buffer got = {0};
    cr_assert_eq(pipe(ends), 0);
    const struct hr_source source = {.struct_size = sizeof source, .kind = HR_FD, .fd = ends[0]};
    const struct hr_pipeline_config config = {.struct_size = sizeof config,
                                              .n_sources = 1,
                                              .sources = &source,
                                              .sink = {.struct_size = sizeof config.sink,
                                                       .kind = HR_CALLBACK,
                                                       .write = gather,
                                                       .user = &got},
                                              .chunk_size = 1 << 16,
                                              .depth = 3,
                                              .decode = decode,
                                              .encode = HR_CODEC_ZSTD};
    hr_pipeline *pipeline = NULL;
    cr_assert_eq(hr_pipeline_create(loop, &config, &pipeline, NULL), HR_OK);
    for (size_t at = 0; at < 4 * STEP; at += STEP) {
        unsigned char packed[2 * STEP];
        size_t n = STEP;
        if (decode == HR_CODEC_ZSTD)
            n = ZSTD_compress(packed, sizeof packed, plain->data + at, STEP, 1);
        else
            memcpy(packed, plain->data + at, STEP);
        cr_assert_eq(write(ends[1], packed, n), (ssize_t)n);
        await_frames(loop, &got, plain, at + STEP);
    }
    close(ends[1]);
    bool hung;
    hr_error error = {0};
    cr_assert_eq(run_in_time(loop, pipeline, &hung, &error), HR_OK, "%s", error.text);
    assert_range(loop, &got, plain, STEP / 2, 2 * STEP);
    hr_pipeline_free(pipeline);
    close(ends[0]);
    buffer_free(&got);
}

Test(encode, a_chunk_that_left_early_closes_its_frame)
{
    struct buffer plain = sample(12000);
    for (unsigned l = 0; l < n_loops; l++) {
        assert_answers(loops[l], HR_CODEC_NONE, &plain);
        assert_answers(loops[l], HR_CODEC_AUTO, &plain);
    }
    buffer_free(&plain);
}

Test(encode, a_frame_that_was_decoded_early_closes_its_frame)
{
    struct buffer plain = sample(12000);
    for (unsigned l = 0; l < n_loops; l++)
        assert_answers(loops[l], HR_CODEC_ZSTD, &plain);
    buffer_free(&plain);
}

/* ---- little memory, cancel ---- */

Test(encode, with_memory_for_one_lease_of_each_lane_it_still_ends)
{
    enum { CHUNK = 65536, RING = 16, FRAME = 40000 };
    struct frames f = {0};
    add_mixture(&f, 150000);
    for (unsigned decode = 0; decode < 2; decode++) {
        const size_t frame = 2 * FRAME + 512; /* a frame's bytes and what they become at most */
        const struct hr_context_config config = {.struct_size = sizeof config,
                                                 .n_threads = 2,
                                                 .max_memory = (decode ? RING + 1 : 1) * CHUNK +
                                                               (frame + 4095) / 4096 * 4096 + 4096};
        hr_context *context = NULL;
        hr_loop *loop = NULL;
        cr_assert_eq(hr_context_create(&config, &context, NULL), HR_OK);
        cr_assert_eq(hr_loop_create(context, NULL, &loop, NULL), HR_OK);
        hr_context_free(context);
        for (uint32_t depth = 1; depth < 9; depth += 7)
            for (unsigned feed = 0; feed < FEED_PIPE; feed++) {
                struct trial t = encode_in((enum feed)feed, CHUNK, FRAME);
                t.depth = depth;
                t.decode = decode ? HR_CODEC_ZSTD : HR_CODEC_NONE;
                run_trial(loop, &t, decode ? &f.packed : &f.plain);
                cr_assert_eq(t.status, HR_OK, "%s", name_of(&t));
                struct buffer back = decoded_by_libzstd(&t.got, f.plain.size);
                cr_assert(same_bytes(&back, &f.plain));
                buffer_free(&back);
                buffer_free(&t.got);
            }
        hr_loop_free(loop);
    }
    frames_free(&f);
}

Test(encode, cancel_at_any_moment_ends_it)
{
    struct buffer plain = sample(1 << 20);
    unsigned seed = 3;
    for (unsigned i = 0; i < 200; i++) {
        struct trial t = encode_in((enum feed)(i % N_FEEDS), 65536, 1000 + 10000 * (i % 7));
        t.cancel_after_us = 1 + (unsigned)rand_r(&seed) % 5000;
        run_trial(loops[i % n_loops], &t, &plain);
        cr_assert(!t.hung && (t.status == HR_OK || t.status == HR_ECANCELED), "%s", name_of(&t));
        buffer_free(&t.got);
    }
    buffer_free(&plain);
}
