// SPDX-License-Identifier: Apache-2.0
/* Decoding zstd streams of every make, whole and damaged, through the public header, on both I/O
 * engines, from all kinds of sources. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <zdict.h>
#include <zstd.h>

#include "codec_suite.h"

TestSuite(decode, .init = make_loops, .fini = free_loops, .timeout = 60);

static const size_t chunks[] = {1, 7, 4096, 65537, 1 << 20};
static const uint32_t depths[] = {1, 2, 8};
enum { N_CHUNKS = sizeof chunks / sizeof chunks[0], N_DEPTHS = sizeof depths / sizeof depths[0] };

/* Each way that bytes can come. */
static const struct {
    enum feed feed;
    size_t step;
} feeds[] = {{FEED_MEMORY, 0}, {FEED_FILE, 0}, {FEED_CALLBACK, 0}, {FEED_CALLBACK, 7},
             {FEED_PIPE, 1},   {FEED_PIPE, 7}, {FEED_PIPE, 4097}};
enum { N_WAYS = sizeof feeds / sizeof feeds[0] };

static struct trial trial_of(unsigned way, size_t chunk, uint32_t depth)
{
    return (struct trial){.feed = feeds[way].feed,
                          .step = feeds[way].step,
                          .chunk_size = chunk,
                          .depth = depth,
                          .decode = HR_CODEC_ZSTD};
}

/* From memory, in chunks that hold every frame of the test whole. */
static struct trial usual(void)
{
    return trial_of(0, 1 << 20, 4);
}

/* ---- streams that are right ---- */

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
        for (unsigned way = 0; way < N_WAYS; way++) {
            struct trial t = trial_of(way, 4096, 4);
            if (t.step == 1 || t.step == 7) /* covered by the mixture; here it takes long */
                continue;
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
        for (unsigned way = 0; way < N_WAYS; way++) {
            struct trial t = trial_of(way, 65537, 4);
            if (t.step == 1 || t.step == 7)
                continue;
            assert_gives(loops[l], &t, &f.packed, &f.plain);
            buffer_free(&t.got);
        }
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
                for (unsigned way = 0; way < N_WAYS; way++) {
                    struct trial t = trial_of(way, chunks[c], depths[d]);
                    if (t.step == 1 || t.step == 7)
                        continue;
                    assert_gives(loops[l], &t, &f.packed, &f.plain);
                    buffer_free(&t.got);
                }
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
        const struct hr_source source = {.struct_size = sizeof source,
                                         .kind = HR_MEMORY,
                                         .data = f.packed.data,
                                         .size = f.packed.size};
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

/* ---- limits and headers that lie ---- */

Test(decode, a_window_over_the_limit_is_refused_in_words_that_help)
{
    struct frames f = {0};
    add_frame(&f, FRAME_USUAL, 1000);
    static const unsigned char window_256_mib[] = {0x00, (28 - 10) << 3};
    add_frame_by_hand(&f.packed, window_256_mib, sizeof window_256_mib);
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned way = 0; way < N_WAYS; way++) {
            struct trial t = trial_of(way, 4096, 2);
            assert_fails(loops[l], &t, &f.packed, HR_ELIMIT, "268435456");
            cr_assert(strstr(t.error.text, "134217728") && strstr(t.error.text, "--window-log"));
            cr_assert_eq(t.error.stage, HR_STAGE_DECODE);
            cr_assert_eq(t.error.offset, 1000);
            cr_assert(same_bytes(&t.got, &f.plain), "%s", name_of(&t));
            t.window_log = 28;
            run_trial(loops[l], &t, &f.packed);
            cr_assert_eq(t.status, HR_OK, "%s", name_of(&t));
            cr_assert_eq(t.got.size, 1005);
            buffer_free(&t.got);
        }
    frames_free(&f);
}

Test(decode, a_window_limit_holds_for_frames_of_libzstd_too)
{
    struct buffer packed = {0}, plain = {0};
    add_sample(&plain, 3 << 20, 1);
    ZSTD_CCtx *c = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(c, ZSTD_c_windowLog, 21);
    ZSTD_CCtx_setParameter(c, ZSTD_c_enableLongDistanceMatching, 1);
    packed.data = malloc(ZSTD_compressBound(plain.size));
    packed.size =
        ZSTD_compress2(c, packed.data, ZSTD_compressBound(plain.size), plain.data, plain.size);
    ZSTD_freeCCtx(c);
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned chunk = 0; chunk < 2; chunk++) {
            struct trial t = trial_of(0, chunk ? 4 << 20 : 4096, 4);
            t.window_log = 20;
            assert_fails(loops[l], &t, &packed, HR_ELIMIT, "2097152");
            t.window_log = 21;
            assert_gives(loops[l], &t, &packed, &plain);
            buffer_free(&t.got);
        }
    buffer_free(&packed);
    buffer_free(&plain);
}

/* Whatever the header claims of five bytes: an error, and no memory for the claim. */
Test(decode, a_false_content_size_is_an_error_and_takes_no_memory)
{
    static const unsigned char headers[][10] = {
        {0xC0, 8 << 3, 0, 0, 0, 0, 0, 1, 0, 0}, /* 2^40, window 256 KiB */
        {0x80, 8 << 3, 0, 0, 0, 0x7f},          /* 2^31 - 2^24 */
        {0x20, 4},                              /* 4, single segment */
        {0x20, 6},                              /* 6 */
        {0x40, 8 << 3, 0, 0},                   /* 256 */
    };
    static const size_t sizes[] = {10, 6, 2, 2, 4};
    for (unsigned i = 0; i < 5; i++) {
        struct buffer packed = {0};
        add_frame_by_hand(&packed, headers[i], sizes[i]);
        for (unsigned l = 0; l < n_loops; l++)
            for (unsigned way = 0; way < N_WAYS; way++) {
                struct trial t = trial_of(way, 65536, 4);
                assert_fails(loops[l], &t, &packed, HR_ECORRUPT, "at byte ");
                cr_assert_lt(t.stats.leased_bytes, 8u << 20);
                cr_assert_leq(t.got.size, 5);
                buffer_free(&t.got);
            }
        buffer_free(&packed);
    }
}

Test(decode, a_huge_single_segment_is_refused_by_its_window)
{
    static const unsigned char header[9] = {0xE0, 0, 0, 0, 0, 0, 1};
    struct buffer packed = {0};
    add_frame_by_hand(&packed, header, sizeof header);
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned way = 0; way < N_WAYS; way++) {
            struct trial t = trial_of(way, 4096, 2);
            assert_fails(loops[l], &t, &packed, HR_ELIMIT, "1099511627776");
            buffer_free(&t.got);
        }
    buffer_free(&packed);
}

/* ---- damage ---- */

/* One frame that is streamed or decoded at once, as the chunk size makes it, from a source that
 * changes with i. */
static struct trial varied(unsigned i)
{
    struct trial t = trial_of(i % 3, i / 3 % 2 ? 16384 : 1 << 20, 4);
    return t;
}

static void assert_cut_fails(const struct frames *f, size_t size, unsigned i)
{
    const struct buffer cut = {.data = f->packed.data, .size = size};
    struct trial t = varied(i);
    run_trial(loops[i / 7 % n_loops], &t, &cut);
    cr_assert_lt(t.status, 0, "cut at %zu: %s", size, name_of(&t));
    cr_assert(!t.hung, "cut at %zu: %s", size, name_of(&t));
    cr_assert(begins(&t.got, &f->plain), "cut at %zu: %s", size, name_of(&t));
    cr_assert_eq(t.error.stage, HR_STAGE_DECODE);
    cr_assert_eq(t.error.offset, t.got.size, "cut at %zu: %s", size, name_of(&t));
    buffer_free(&t.got);
}

Test(decode, a_stream_cut_anywhere_is_an_error)
{
    struct frames f = {0};
    add_frame(&f, FRAME_USUAL, 300000);
    for (unsigned i = 1; i <= 2000; i++)
        assert_cut_fails(&f, f.packed.size - i, i);
    unsigned seed = 7;
    for (unsigned i = 0; i < 500; i++)
        assert_cut_fails(&f, (size_t)rand_r(&seed) % f.packed.size, i);
    frames_free(&f);
}

Test(decode, a_flipped_bit_never_gives_wrong_bytes)
{
    struct frames f = {0};
    add_frame(&f, FRAME_USUAL, 150000);
    add_frame(&f, FRAME_PIPED, 150000);
    unsigned seed = 11;
    for (unsigned i = 0; i < 500; i++) {
        const size_t at = (size_t)rand_r(&seed) % f.packed.size;
        const unsigned char flip = (unsigned char)(1u << rand_r(&seed) % 8);
        f.packed.data[at] ^= flip;
        struct trial t = varied(i);
        run_trial(loops[i / 7 % n_loops], &t, &f.packed);
        cr_assert(!t.hung, "bit at %zu: %s", at, name_of(&t));
        cr_assert(t.status < 0 || same_bytes(&t.got, &f.plain), "bit at %zu: %s", at, name_of(&t));
        cr_assert(t.status == HR_OK || t.error.offset == t.got.size, "bit at %zu: %s", at,
                  name_of(&t));
        buffer_free(&t.got);
        f.packed.data[at] ^= flip;
    }
    frames_free(&f);
}

/* Frames before the damaged one are delivered, exactly, and the error stands behind them. */
Test(decode, a_wrong_checksum_ends_the_stream_before_its_frame)
{
    static const size_t before[] = {0, 1, 70000, 3000000};
    for (unsigned b = 0; b < 4; b++) {
        struct frames f = {0};
        if (before[b]) {
            add_frame(&f, FRAME_USUAL, before[b] / 2);
            add_frame(&f, FRAME_PIPED, before[b] - before[b] / 2);
        }
        const struct buffer good = {.data = f.plain.data, .size = f.plain.size};
        const size_t begin = f.packed.size;
        add_frame(&f, FRAME_USUAL, 50000);
        f.packed.data[f.packed.size - 1] ^= 1;
        add_frame(&f, FRAME_USUAL, 60000);
        char text[64];
        snprintf(text, sizeof text, "frame at byte %zu", begin);
        for (unsigned l = 0; l < n_loops; l++)
            for (unsigned way = 0; way < 2; way++) {
                struct trial t = trial_of(way, 1 << 20, 8);
                assert_fails(loops[l], &t, &f.packed, HR_ECORRUPT, text);
                cr_assert_eq(t.error.stage, HR_STAGE_DECODE);
                cr_assert_eq(t.error.offset, before[b]);
                cr_assert_eq(t.got.size, good.size, "%s: %zu came", name_of(&t), t.got.size);
                cr_assert(begins(&t.got, &f.plain), "%s", name_of(&t));
                buffer_free(&t.got);
            }
        frames_free(&f);
    }
}

Test(decode, a_wrong_checksum_of_a_streamed_frame_is_an_error)
{
    struct frames f = {0};
    add_frame(&f, FRAME_USUAL, 5000);
    add_frame(&f, FRAME_USUAL, 30000);
    f.packed.data[f.packed.size - 1] ^= 1;
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned d = 0; d < N_DEPTHS; d++)
            for (unsigned way = 0; way < N_WAYS; way++) {
                struct trial t = trial_of(way, 1024, depths[d]);
                if (t.step == 1 || t.step == 7)
                    continue;
                assert_fails(loops[l], &t, &f.packed, HR_ECORRUPT, "checksum");
                cr_assert(begins(&t.got, &f.plain) && t.got.size >= 5000, "%s", name_of(&t));
                cr_assert_eq(t.error.offset, t.got.size);
                cr_assert_null(strstr(t.error.text, "not passed on"),
                               "%zu bytes of it were passed on: %s", t.got.size - 5000,
                               name_of(&t));
                buffer_free(&t.got);
            }
    frames_free(&f);
}

Test(decode, bytes_behind_the_last_frame_are_an_error_at_their_position)
{
    static const size_t sizes[] = {1, 3, 4, 512};
    struct frames f = {0};
    add_frame(&f, FRAME_USUAL, 70000);
    const size_t end = f.packed.size;
    char text[64];
    snprintf(text, sizeof text, "at byte %zu,", end);
    for (unsigned kind = 0; kind < 3; kind++)
        for (unsigned s = 0; s < 4; s++) {
            unsigned char rest[512] = {0};
            for (size_t i = 0; kind && i < sizeof rest; i++)
                rest[i] =
                    kind == 1 ? (unsigned char)"text\n"[i % 5] : (unsigned char)((i + 1) * 37);
            f.packed.size = end;
            buffer_add(&f.packed, rest, sizes[s]);
            for (unsigned l = 0; l < n_loops; l++)
                for (unsigned way = 0; way < N_WAYS; way++) {
                    struct trial t = trial_of(way, 100000, 3);
                    if (t.step == 1 || t.step == 7)
                        continue;
                    assert_fails(loops[l], &t, &f.packed, HR_ECORRUPT, text);
                    cr_assert(same_bytes(&t.got, &f.plain), "%s", name_of(&t));
                    cr_assert_eq(t.error.offset, f.plain.size);
                    buffer_free(&t.got);
                }
        }
    frames_free(&f);
}

struct failing {
    const struct buffer *in;
    size_t good;
};

static int64_t give_and_fail(void *user, void *bytes, size_t size, uint64_t offset)
{
    const struct failing *f = user;
    if (offset >= f->good)
        return -EREMOTEIO;
    const size_t left = f->good - (size_t)offset;
    const size_t n = left < size ? left : size;
    memcpy(bytes, f->in->data + offset, n);
    return (int64_t)n;
}

Test(decode, a_read_error_within_a_frame_stands_behind_all_before_it)
{
    struct frames f = {0};
    add_frame(&f, FRAME_USUAL, 5000);
    const size_t second = f.packed.size;
    add_frame(&f, FRAME_NOISE, 30000);
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned c = 2; c < N_CHUNKS; c++)
            for (size_t good = second; good < f.packed.size; good += 3001) {
                struct failing failing = {&f.packed, good};
                struct buffer got = {0};
                const struct hr_source source = {.struct_size = sizeof source,
                                                 .kind = HR_CALLBACK,
                                                 .read = give_and_fail,
                                                 .user = &failing};
                const struct hr_pipeline_config config = {
                    .struct_size = sizeof config,
                    .n_sources = 1,
                    .sources = &source,
                    .sink = {.struct_size = sizeof config.sink,
                             .kind = HR_CALLBACK,
                             .write = gather,
                             .user = &got},
                    .chunk_size = chunks[c],
                    .depth = 3,
                    .decode = HR_CODEC_ZSTD};
                hr_pipeline *pipeline = NULL;
                hr_error error = {0};
                bool hung;
                cr_assert_eq(hr_pipeline_create(loops[l], &config, &pipeline, NULL), HR_OK);
                cr_assert_eq(run_in_time(loops[l], pipeline, &hung, &error), HR_EIO, "%s",
                             error.text);
                cr_assert(error.stage == HR_STAGE_READ && error.native == EREMOTEIO);
                cr_assert(got.size >= 5000 && begins(&got, &f.plain), "%zu bytes", got.size);
                hr_pipeline_free(pipeline);
                buffer_free(&got);
            }
    frames_free(&f);
}

/* With auto, too few bytes came to tell whether they are encoded: they pass, then the error. */
Test(decode, a_read_error_before_the_first_four_bytes_is_an_error_and_not_a_wait)
{
    struct frames f = {0};
    add_frame(&f, FRAME_USUAL, 5000);
    for (unsigned l = 0; l < n_loops; l++)
        for (size_t good = 0; good < 4; good++) {
            struct failing failing = {&f.packed, good};
            struct buffer got = {0};
            const struct hr_source source = {.struct_size = sizeof source,
                                             .kind = HR_CALLBACK,
                                             .read = give_and_fail,
                                             .user = &failing};
            const struct hr_pipeline_config config = {.struct_size = sizeof config,
                                                      .n_sources = 1,
                                                      .sources = &source,
                                                      .sink = {.struct_size = sizeof config.sink,
                                                               .kind = HR_CALLBACK,
                                                               .write = gather,
                                                               .user = &got},
                                                      .decode = HR_CODEC_AUTO};
            hr_pipeline *pipeline = NULL;
            hr_error error = {0};
            bool hung;
            cr_assert_eq(hr_pipeline_create(loops[l], &config, &pipeline, NULL), HR_OK);
            cr_assert_eq(run_in_time(loops[l], pipeline, &hung, &error), HR_EIO, "%zu bytes: %s",
                         good, hung ? "hung" : error.text);
            cr_assert(error.stage == HR_STAGE_READ && error.native == EREMOTEIO);
            cr_assert(got.size == good && begins(&got, &f.packed));
            hr_pipeline_free(pipeline);
            buffer_free(&got);
        }
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
                const struct hr_source source = {.struct_size = sizeof source,
                                                 .kind = HR_MEMORY,
                                                 .data = f.packed.data,
                                                 .size = f.packed.size};
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

/* ---- dictionaries ---- */

struct with_dict {
    struct buffer dict;
    struct frames f; /* a frame without a dictionary, then one with it */
    size_t begin;    /* of the latter */
    unsigned id;
};

static struct with_dict make_with_dict(unsigned seed)
{
    enum { N = 400, EACH = 300, ROOM = 8192 };
    struct with_dict w = {.dict = {.data = malloc(ROOM), .room = ROOM}};
    struct buffer samples = {0};
    size_t sizes[N];
    for (unsigned i = 0; i < N; i++) {
        sizes[i] = EACH;
        char text[EACH] = {0};
        for (size_t at = 0; at + 40 < EACH;)
            at += (size_t)snprintf(text + at, EACH - at, "key%u=%u;", (i + seed) * 7 % 97,
                                   (unsigned)at * seed % 1009);
        buffer_add(&samples, text, EACH);
    }
    w.dict.size = ZDICT_trainFromBuffer(w.dict.data, ROOM, samples.data, sizes, N);
    cr_assert(!ZDICT_isError(w.dict.size));
    w.id = ZDICT_getDictID(w.dict.data, w.dict.size);
    add_frame(&w.f, FRAME_USUAL, 1000);
    w.begin = w.f.packed.size;
    ZSTD_CCtx *c = ZSTD_createCCtx();
    unsigned char packed[4 * EACH];
    const size_t n = ZSTD_compress_usingDict(c, packed, sizeof packed, samples.data, 2 * EACH,
                                             w.dict.data, w.dict.size, 3);
    cr_assert(!ZSTD_isError(n));
    buffer_add(&w.f.packed, packed, n);
    buffer_add(&w.f.plain, samples.data, 2 * EACH);
    ZSTD_freeCCtx(c);
    buffer_free(&samples);
    return w;
}

Test(decode, dictionaries_needed_wrong_and_right)
{
    struct with_dict a = make_with_dict(1), b = make_with_dict(2);
    cr_assert_neq(a.id, b.id);
    char number[64], place[64];
    snprintf(number, sizeof number, "dictionary %u", a.id);
    snprintf(place, sizeof place, "frame at byte %zu", a.begin);
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned way = 0; way < N_WAYS; way++)
            for (unsigned streamed = 0; streamed < 2; streamed++) {
                struct trial t = trial_of(way, streamed ? 64 : 1 << 16, 4);
                assert_fails(loops[l], &t, &a.f.packed, HR_ECORRUPT, number);
                cr_assert(strstr(t.error.text, "--dict") && strstr(t.error.text, place), "%s",
                          name_of(&t));
                cr_assert_eq(t.got.size, 1000);
                t.dict = &b.dict;
                assert_fails(loops[l], &t, &a.f.packed, HR_ECORRUPT, number);
                cr_assert(strstr(t.error.text, "another dictionary"), "%s", name_of(&t));
                t.dict = &a.dict;
                assert_gives(loops[l], &t, &a.f.packed, &a.f.plain);
                buffer_free(&t.got);
            }
    frames_free(&a.f);
    frames_free(&b.f);
    buffer_free(&a.dict);
    buffer_free(&b.dict);
}

Test(decode, a_damaged_dictionary_is_an_error)
{
    struct with_dict a = make_with_dict(1);
    memset(a.dict.data + 8, 0xff, 60);
    for (unsigned l = 0; l < n_loops; l++) {
        struct trial t = usual();
        t.dict = &a.dict;
        run_trial(loops[l], &t, &a.f.packed);
        cr_assert(t.status < 0 && strstr(t.error.text, "ictionary"), "%s", name_of(&t));
        cr_assert_null(strstr(t.error.text, "memory"));
    }
    frames_free(&a.f);
    buffer_free(&a.dict);
}

/* ---- no zstd at all ---- */

Test(decode, empty_input_stubs_and_plain_text_are_no_zstd)
{
    static const struct {
        const char *bytes;
        size_t size;
        hr_status status;
        const char *text;
    } cases[] = {{"", 0, HR_ECORRUPT, "no zstd frame"},
                 {"\x28", 1, HR_ECORRUPT, "no zstd frame"},
                 {"\x28\xb5\x2f", 3, HR_ECORRUPT, "no zstd frame"},
                 {"abc", 3, HR_ECORRUPT, "no zstd frame"},
                 {"plain text, a line\n", 19, HR_ECORRUPT, "no zstd data"},
                 {"\x28\xb5\x2f\xfd", 4, HR_ETRUNCATED, "ends at byte 4"}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buffer in = {0};
        buffer_add(&in, cases[i].bytes, cases[i].size);
        for (unsigned l = 0; l < n_loops; l++)
            for (unsigned way = 0; way < N_WAYS; way++) {
                struct trial t = trial_of(way, 4096, 2);
                assert_fails(loops[l], &t, &in, cases[i].status, cases[i].text);
                cr_assert_eq(t.got.size, 0);
            }
        buffer_free(&in);
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
            for (unsigned way = 0; way < N_WAYS; way++) {
                struct trial t = trial_of(way, CHUNK, depths[d]);
                if (t.step == 1 || t.step == 7)
                    continue;
                assert_gives(loop, &t, &f.packed, &f.plain);
                buffer_free(&t.got);
            }
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
            const struct hr_source source = {.struct_size = sizeof source,
                                             .kind = HR_MEMORY,
                                             .data = f.packed.data,
                                             .size = f.packed.size};
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
