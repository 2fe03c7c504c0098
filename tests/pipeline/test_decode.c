// SPDX-License-Identifier: Apache-2.0
/* Decoding zstd streams of every make that are right, through the public header, on both I/O
 * engines, from all kinds of sources. */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <zstd.h>

#include "decode_suite.h"

TestSuite(decode, .init = make_loops, .fini = free_loops, .timeout = 60);

static void assert_decodes(hr_loop *loop, size_t chunk, uint32_t depth, const struct frames *f)
{
    for (unsigned way = 0; way < N_QUICK_WAYS; way++) {
        struct trial t = trial_of(way, chunk, depth);
        assert_gives(loop, &t, &f->packed, &f->plain);
        buffer_free(&t.got);
    }
}

/* ---- streams of every make ---- */

Test(decode, every_kind_of_frame_from_every_source_in_every_size)
{
    for (unsigned c = 0; c < N_CHUNKS; c++) {
        struct frames f = {0};
        add_mixture(&f, chunks[c] < 100 ? 60 : 7000);
        for (unsigned l = 0; l < n_loops; l++)
            for (unsigned d = 0; d < N_DEPTHS; d++)
                for (unsigned way = 0; way < N_WAYS; way++) {
                    struct trial t = trial_of(way, chunks[c], depths[d]);
                    if ((t.step == 1 || chunks[c] < 100) && d != c % N_DEPTHS)
                        continue; /* it takes long */
                    assert_gives(loops[l], &t, &f.packed, &f.plain);
                    buffer_free(&t.got);
                }
        frames_free(&f);
    }
}

Test(decode, ten_thousand_tiny_frames)
{
    struct frames f = {0};
    for (unsigned i = 0; i < 10000; i++)
        add_frame(&f, (enum frame_kind)(i % N_FRAME_KINDS), i % 5);
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned way = 0; way < N_QUICK_WAYS; way++) {
            struct trial t = trial_of(way, 4096, 4);
            assert_gives(loops[l], &t, &f.packed, &f.plain);
            cr_assert_eq(t.stats.n_frames_in, 10000 - 10000 / N_FRAME_KINDS);
            buffer_free(&t.got);
        }
    frames_free(&f);
}

Test(decode, frames_end_and_headers_lie_anywhere_at_a_blocks_end)
{
    enum { BLOCK = 4096 };
    for (size_t pad = BLOCK - 40; pad < BLOCK + 3; pad++) {
        struct frames f = {0};
        add_skippable(&f, 3, pad - 8);
        add_frame(&f, FRAME_USUAL, 10);
        add_frame(&f, FRAME_BARE, 3000);
        add_frame(&f, FRAME_PIPED, 5000);
        for (unsigned l = 0; l < n_loops; l++)
            for (unsigned way = 0; way < 3; way++) {
                struct trial t = trial_of(way, BLOCK, 3);
                assert_gives(loops[l], &t, &f.packed, &f.plain);
                buffer_free(&t.got);
            }
        frames_free(&f);
    }
}

Test(decode, skippable_frames_of_all_magics_and_lengths_give_nothing)
{
    static const size_t lengths[] = {0, 4, 70000};
    struct frames f = {0};
    for (unsigned i = 0; i < 3; i++)
        for (unsigned variant = 0; variant < 16; variant++) {
            add_skippable(&f, variant, lengths[i]);
            if (variant % 4 == 3)
                add_frame(&f, FRAME_USUAL, 100 * variant);
        }
    add_skippable(&f, 0, 20 << 20);
    add_frame(&f, FRAME_USUAL, 500);
    add_skippable(&f, 15, 20 << 20);
    for (unsigned l = 0; l < n_loops; l++)
        assert_decodes(loops[l], 65537, 4, &f);
    frames_free(&f);
}

Test(decode, nothing_but_skippable_or_empty_frames_is_nothing)
{
    const struct buffer nothing = {0};
    for (unsigned kind = 0; kind < N_FRAME_KINDS; kind++) {
        struct frames f = {0};
        add_frame(&f, (enum frame_kind)kind, 0);
        for (unsigned l = 0; l < n_loops; l++)
            for (unsigned way = 0; way < N_WAYS; way++) {
                struct trial t = trial_of(way, 4096, 2);
                assert_gives(loops[l], &t, &f.packed, &nothing);
            }
        frames_free(&f);
    }
}

Test(decode, frames_larger_than_all_memory_are_streamed)
{
    struct frames f = {0};
    add_frame(&f, FRAME_USUAL, 300);
    add_frame(&f, FRAME_USUAL, 700000);
    add_frame(&f, FRAME_PIPED, 400000);
    add_frame(&f, FRAME_NOISE, 300000);
    add_frame(&f, FRAME_USUAL, 20);
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned c = 2; c < N_CHUNKS; c++)
            for (unsigned d = 0; d < N_DEPTHS; d++)
                assert_decodes(loops[l], chunks[c], depths[d], &f);
    frames_free(&f);
}

/* The ring of blocks has at least 16; frames go over its end at every distance, and fill their span
 * to the last byte. */
Test(decode, frames_that_lie_over_the_rings_end)
{
    enum { BLOCK = 4096 };
    struct frames f = {0};
    for (unsigned i = 0; i < 700; i++) {
        add_frame(&f, i % 3 ? FRAME_NOISE : FRAME_USUAL, BLOCK);
        if (i % 5 == 0)
            add_frame(&f, FRAME_USUAL, 0);
        if (i % 7 == 0)
            add_skippable(&f, i % 16, i);
    }
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned d = 0; d < N_DEPTHS; d++)
            for (unsigned way = 0; way < 3; way++) {
                struct trial t = trial_of(way, BLOCK, depths[d]);
                assert_gives(loops[l], &t, &f.packed, &f.plain);
                t.chunk_size = 2 * BLOCK;
                assert_gives(loops[l], &t, &f.packed, &f.plain);
                buffer_free(&t.got);
            }
    frames_free(&f);
}

static int64_t count_zeros(void *user, const void *bytes, size_t size, uint64_t offset)
{
    uint64_t *n = user;
    const char *p = bytes;
    if (offset != *n || (size && (p[0] || memcmp(p, p + 1, size - 1) != 0)))
        return -1;
    *n += size;
    return (int64_t)size;
}

Test(decode, one_frame_of_more_than_the_memory_of_a_pipeline)
{
    enum { MIB = 1 << 20, SIZE_MIB = 200 };
    struct frames f = {0};
    add_frame(&f, FRAME_ZEROS, (size_t)SIZE_MIB * MIB);
    for (unsigned l = 0; l < n_loops; l++) {
        uint64_t n = 0;
        const struct hr_source source = memory_source(&f.packed);
        const struct hr_pipeline_config config = {.struct_size = sizeof config,
                                                  .n_sources = 1,
                                                  .sources = &source,
                                                  .sink = {.struct_size = sizeof config.sink,
                                                           .kind = HR_CALLBACK,
                                                           .write = count_zeros,
                                                           .user = &n},
                                                  .decode = HR_CODEC_ZSTD};
        hr_pipeline *pipeline = NULL;
        struct hr_stats stats = {.struct_size = sizeof stats};
        bool hung;
        hr_error error = {0};
        cr_assert_eq(hr_pipeline_create(loops[l], &config, &pipeline, NULL), HR_OK);
        cr_assert_eq(run_in_time(loops[l], pipeline, &hung, &error), HR_OK, "%s", error.text);
        cr_assert_eq(hr_pipeline_stats(pipeline, &stats), HR_OK);
        cr_assert_eq(n, (uint64_t)SIZE_MIB * MIB);
        cr_assert_lt(stats.leased_bytes, 160u * MIB);
        hr_pipeline_free(pipeline);
    }
    frames_free(&f);
}

/* A unit begins in one frame, or source block, and ends in a later one. */
Test(decode, units_of_a_kernel_lie_over_frames)
{
    enum { UNIT = 8 };
    struct frames f = {0};
    for (size_t i = 0; i < 400; i++)
        add_frame(&f, (enum frame_kind)(i % N_FRAME_KINDS), i * 37 % 501);
    add_frame(&f, FRAME_USUAL, 70000);
    add_frame(&f, FRAME_USUAL, UNIT - f.plain.size % UNIT);
    struct buffer swapped = {0};
    for (size_t at = 0; at < f.plain.size; at += UNIT)
        for (size_t i = UNIT; i-- > 0;)
            buffer_add(&swapped, f.plain.data + at + i, 1);
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned d = 0; d < N_DEPTHS; d++)
            for (unsigned c = 2; c < N_CHUNKS; c++)
                for (unsigned raw = 0; raw < 2; raw++)
                    for (unsigned way = 0; way < 3; way++) {
                        struct trial t = trial_of(way, chunks[c], depths[d]);
                        t.decode = HR_CODEC_AUTO;
                        t.kernel = "bswap:8";
                        assert_gives(loops[l], &t, raw ? &f.plain : &f.packed, &swapped);
                        buffer_free(&t.got);
                    }
    buffer_free(&swapped);
    frames_free(&f);
}

/* ---- the pull form ---- */

/* Bytes are called verified if, and only if, a checksum over all of their frame was checked. */
Test(decode, chunks_tell_whether_they_are_verified)
{
    for (unsigned kind = FRAME_USUAL; kind <= FRAME_BARE; kind++)
        for (unsigned streamed = 0; streamed < 2; streamed++)
            for (unsigned l = 0; l < n_loops; l++) {
                struct frames f = {0};
                add_frame(&f, (enum frame_kind)kind, 50000);
                add_frame(&f, (enum frame_kind)kind, 50000);
                const struct hr_source source = memory_source(&f.packed);
                const struct hr_pipeline_config config = {
                    .struct_size = sizeof config,
                    .n_sources = 1,
                    .sources = &source,
                    .sink = {.struct_size = sizeof config.sink, .kind = HR_PULL},
                    .chunk_size = streamed ? 4096 : 60000,
                    .depth = 3,
                    .decode = HR_CODEC_ZSTD};
                hr_pipeline *pipeline = NULL;
                struct hr_chunk chunk = {.struct_size = sizeof chunk};
                struct buffer got = {0};
                hr_status status;
                cr_assert_eq(hr_pipeline_create(loops[l], &config, &pipeline, NULL), HR_OK);
                while ((status = hr_pipeline_next(pipeline, 10000, &chunk, NULL)) == HR_OK) {
                    cr_assert_eq((chunk.flags & HR_CHUNK_VERIFIED) != 0,
                                 kind == FRAME_USUAL && !streamed);
                    cr_assert_eq(chunk.source_offset, got.size);
                    buffer_add(&got, chunk.data, chunk.size);
                    hr_chunk_release(&chunk, NULL);
                }
                cr_assert_eq(status, HR_END);
                cr_assert(same_bytes(&got, &f.plain));
                hr_pipeline_free(pipeline);
                buffer_free(&got);
                frames_free(&f);
            }
}

/* ---- slow senders ---- */

/* Steps the loop until `size` bytes came, or 10 s. */
static void await_bytes(hr_loop *loop, hr_pipeline *pipeline, const struct buffer *got, size_t size)
{
    hr_error error = {0};
    const time_t end = time(NULL) + 10;
    while (got->size < size && time(NULL) < end) {
        cr_assert_eq(hr_loop_poll(loop, 1000, NULL), HR_PENDING);
        cr_assert_eq(hr_pipeline_state(pipeline, &error), HR_PENDING, "%s", error.text);
    }
    cr_assert_geq(got->size, size, "only %zu of %zu bytes came while the pipe was open", got->size,
                  size);
}

/* A frame that is flushed and not finished, then a pause. */
Test(decode, what_was_sent_of_a_frame_comes_out_while_the_pipe_is_open)
{
    struct buffer plain = {0};
    add_sample(&plain, 50000, 3);
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned c = 0; c < N_CHUNKS; c++) {
            int ends[2];
            struct buffer got = {0};
            cr_assert_eq(pipe(ends), 0);
            const struct hr_source source = {
                .struct_size = sizeof source, .kind = HR_FD, .fd = ends[0]};
            const struct hr_pipeline_config config = {.struct_size = sizeof config,
                                                      .n_sources = 1,
                                                      .sources = &source,
                                                      .sink = {.struct_size = sizeof config.sink,
                                                               .kind = HR_CALLBACK,
                                                               .write = gather,
                                                               .user = &got},
                                                      .chunk_size = chunks[c],
                                                      .depth = 3,
                                                      .decode =
                                                          c % 2 ? HR_CODEC_ZSTD : HR_CODEC_AUTO};
            hr_pipeline *pipeline = NULL;
            cr_assert_eq(hr_pipeline_create(loops[l], &config, &pipeline, NULL), HR_OK);
            ZSTD_CCtx *z = ZSTD_createCCtx();
            const size_t step = chunks[c] < 100 ? 100 : 10000;
            unsigned char packed[20000];
            for (size_t at = 0; at < 5 * step; at += step) {
                ZSTD_inBuffer in = {.src = plain.data + at, .size = step};
                ZSTD_outBuffer out = {.dst = packed, .size = sizeof packed};
                cr_assert_eq(ZSTD_compressStream2(z, &out, &in, ZSTD_e_flush), 0);
                cr_assert_eq(write(ends[1], packed, out.pos), (ssize_t)out.pos);
                await_bytes(loops[l], pipeline, &got, at + step);
            }
            ZSTD_outBuffer out = {.dst = packed, .size = sizeof packed};
            cr_assert_eq(ZSTD_compressStream2(z, &out, &(ZSTD_inBuffer){0}, ZSTD_e_end), 0);
            cr_assert_eq(write(ends[1], packed, out.pos), (ssize_t)out.pos);
            close(ends[1]);
            bool hung;
            hr_error error = {0};
            cr_assert_eq(run_in_time(loops[l], pipeline, &hung, &error), HR_OK, "%s", error.text);
            cr_assert(got.size == 5 * step && begins(&got, &plain));
            hr_pipeline_free(pipeline);
            ZSTD_freeCCtx(z);
            close(ends[0]);
            buffer_free(&got);
        }
    buffer_free(&plain);
}

/* ---- little memory, many at once, cancel ---- */

Test(decode, with_memory_for_one_chunk_of_each_lane_it_still_ends)
{
    enum { CHUNK = 65536, RING = 16 };
    struct frames f = {0};
    add_mixture(&f, 150000);
    for (unsigned extra = 0; extra < 3; extra++) {
        /* the ring of blocks, a span, and perhaps some pages */
        const struct hr_context_config config = {.struct_size = sizeof config,
                                                 .n_threads = 2,
                                                 .max_memory = (RING + 1) * CHUNK + extra * 20480};
        hr_context *context = NULL;
        hr_loop *loop = NULL;
        cr_assert_eq(hr_context_create(&config, &context, NULL), HR_OK);
        cr_assert_eq(hr_loop_create(context, NULL, &loop, NULL), HR_OK);
        hr_context_free(context);
        for (unsigned d = 0; d < N_DEPTHS; d++)
            assert_decodes(loop, CHUNK, depths[d], &f);
        hr_loop_free(loop);
    }
    frames_free(&f);
}

Test(decode, sixteen_at_once_on_one_loop)
{
    enum { N = 16 };
    struct frames f = {0};
    add_mixture(&f, 40000);
    for (unsigned l = 0; l < n_loops; l++) {
        hr_pipeline *pipelines[N];
        struct buffer got[N] = {{0}};
        for (unsigned i = 0; i < N; i++) {
            const struct hr_source source = memory_source(&f.packed);
            const struct hr_pipeline_config config = {.struct_size = sizeof config,
                                                      .n_sources = 1,
                                                      .sources = &source,
                                                      .sink = {.struct_size = sizeof config.sink,
                                                               .kind = HR_CALLBACK,
                                                               .write = gather,
                                                               .user = &got[i]},
                                                      .chunk_size = 10000 + 777 * i,
                                                      .depth = 1 + i % 5,
                                                      .decode = HR_CODEC_ZSTD};
            cr_assert_eq(hr_pipeline_create(loops[l], &config, &pipelines[i], NULL), HR_OK);
        }
        for (unsigned i = 0; i < N; i++) {
            bool hung;
            cr_assert_eq(run_in_time(loops[l], pipelines[i], &hung, NULL), HR_OK);
            cr_assert(same_bytes(&got[i], &f.plain));
            hr_pipeline_free(pipelines[i]);
            buffer_free(&got[i]);
        }
    }
    frames_free(&f);
}

Test(decode, cancel_at_any_moment_ends_it)
{
    struct frames f = {0};
    add_mixture(&f, 200000);
    unsigned seed = 5;
    for (unsigned i = 0; i < 300; i++) {
        struct trial t = varied(i);
        t.cancel_after_us = 1 + (unsigned)rand_r(&seed) % 3000;
        t.encode = i % 2 ? HR_CODEC_ZSTD : HR_CODEC_NONE;
        run_trial(loops[i % n_loops], &t, &f.packed);
        cr_assert(!t.hung && (t.status == HR_OK || t.status == HR_ECANCELED), "%s", name_of(&t));
        cr_assert(t.encode || begins(&t.got, &f.plain), "%s", name_of(&t));
        buffer_free(&t.got);
    }
    frames_free(&f);
}

/* ---- at random ---- */

/* What libzstd says of the whole stream. */
static bool libzstd_agrees(const struct frames *f)
{
    struct buffer plain = {.data = malloc(f->plain.size + 1)};
    plain.size = ZSTD_decompress(plain.data, f->plain.size, f->packed.data, f->packed.size);
    const bool same = same_bytes(&plain, &f->plain);
    buffer_free(&plain);
    return same;
}

Test(decode, random_streams_in_random_ways)
{
    const char *given = getenv("HR_TEST_SEED");
    const unsigned first = given ? (unsigned)strtoul(given, NULL, 10) : 1;
    for (unsigned round = 0; round < 60; round++) {
        unsigned seed = first * 1000 + round;
        struct frames f = {0};
        for (int n = 1 + rand_r(&seed) % 30; n > 0; n--) {
            static const int most[] = {1, 100, 5000, 70000, 300000};
            const int size = rand_r(&seed) % most[rand_r(&seed) % 5];
            add_frame(&f, (enum frame_kind)(rand_r(&seed) % N_FRAME_KINDS), (size_t)size);
        }
        cr_assert(libzstd_agrees(&f), "round %u", round);
        const struct hr_context_config config = {.struct_size = sizeof config,
                                                 .n_threads = 1 + (uint32_t)rand_r(&seed) % 4};
        hr_context *context = NULL;
        cr_assert_eq(hr_context_create(&config, &context, NULL), HR_OK);
        for (unsigned i = 0; i < 4; i++) {
            uint32_t engines[2];
            const struct hr_loop_config loop_config = {.struct_size = sizeof loop_config,
                                                       .io = engines[i % test_engines(engines)]};
            hr_loop *loop = NULL;
            cr_assert_eq(hr_loop_create(context, &loop_config, &loop, NULL), HR_OK);
            struct trial t = trial_of((unsigned)rand_r(&seed) % N_WAYS,
                                      1 + (size_t)rand_r(&seed) % (i % 2 ? 100000 : 2000000),
                                      1 + (uint32_t)rand_r(&seed) % 9);
            if (t.step)
                t.step = 1 + (size_t)rand_r(&seed) % 100000;
            run_trial(loop, &t, &f.packed);
            cr_assert(t.status == HR_OK && same_bytes(&t.got, &f.plain),
                      "HR_TEST_SEED=%u round %u: %s", first, round, name_of(&t));
            buffer_free(&t.got);
            hr_loop_free(loop);
        }
        hr_context_free(context);
        frames_free(&f);
    }
}
