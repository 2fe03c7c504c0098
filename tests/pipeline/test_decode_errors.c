// SPDX-License-Identifier: Apache-2.0
/* Decoding what is damaged, lies, is cut off, is no zstd, or wants a window or a dictionary that
 * was not given: an error in its place, and never wrong bytes. On both I/O engines, through the
 * public header. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <zdict.h>
#include <zstd.h>

#include "decode_suite.h"

TestSuite(decode_errors, .init = make_loops, .fini = free_loops, .timeout = 60);

/* ---- limits and headers that lie ---- */

Test(decode_errors, a_window_over_the_limit_is_refused_in_words_that_help)
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

Test(decode_errors, a_window_limit_holds_for_frames_of_libzstd_too)
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
Test(decode_errors, a_false_content_size_is_an_error_and_takes_no_memory)
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

Test(decode_errors, a_huge_single_segment_is_refused_by_its_window)
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

Test(decode_errors, a_stream_cut_anywhere_is_an_error)
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

Test(decode_errors, a_flipped_bit_never_gives_wrong_bytes)
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
Test(decode_errors, a_wrong_checksum_ends_the_stream_before_its_frame)
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

Test(decode_errors, a_wrong_checksum_of_a_streamed_frame_is_an_error)
{
    struct frames f = {0};
    add_frame(&f, FRAME_USUAL, 5000);
    add_frame(&f, FRAME_USUAL, 30000);
    f.packed.data[f.packed.size - 1] ^= 1;
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned d = 0; d < N_DEPTHS; d++)
            for (unsigned way = 0; way < N_QUICK_WAYS; way++) {
                struct trial t = trial_of(way, 1024, depths[d]);
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

Test(decode_errors, bytes_behind_the_last_frame_are_an_error_at_their_position)
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
                for (unsigned way = 0; way < N_QUICK_WAYS; way++) {
                    struct trial t = trial_of(way, 100000, 3);
                    assert_fails(loops[l], &t, &f.packed, HR_ECORRUPT, text);
                    cr_assert(same_bytes(&t.got, &f.plain), "%s", name_of(&t));
                    cr_assert_eq(t.error.offset, f.plain.size);
                    buffer_free(&t.got);
                }
        }
    frames_free(&f);
}

Test(decode_errors, a_read_error_within_a_frame_stands_behind_all_before_it)
{
    struct frames f = {0};
    add_frame(&f, FRAME_USUAL, 5000);
    const size_t second = f.packed.size;
    add_frame(&f, FRAME_NOISE, 30000);
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned c = 2; c < N_CHUNKS; c++)
            for (size_t good = second; good < f.packed.size; good += 3001) {
                struct failing failing = {.in = &f.packed, .good = good};
                struct buffer got = {0};
                const struct hr_source source = {.struct_size = sizeof source,
                                                 .kind = HR_CALLBACK,
                                                 .read = give_and_fail,
                                                 .user = &failing};
                const struct hr_pipeline_config config = {.struct_size = sizeof config,
                                                          .n_sources = 1,
                                                          .sources = &source,
                                                          .chunk_size = chunks[c],
                                                          .depth = 3,
                                                          .decode = HR_CODEC_ZSTD};
                hr_error error = {0};
                cr_assert_eq(run_gathering(loops[l], &config, &got, &error), HR_EIO, "%s",
                             error.text);
                cr_assert(error.stage == HR_STAGE_READ && error.native == EREMOTEIO);
                cr_assert(got.size >= 5000 && begins(&got, &f.plain), "%zu bytes", got.size);
                buffer_free(&got);
            }
    frames_free(&f);
}

/* With auto, too few bytes came to tell whether they are encoded: they pass, then the error. */
Test(decode_errors, a_read_error_before_the_first_four_bytes_is_an_error_and_not_a_wait)
{
    struct frames f = {0};
    add_frame(&f, FRAME_USUAL, 5000);
    for (unsigned l = 0; l < n_loops; l++)
        for (size_t good = 0; good < 4; good++) {
            struct failing failing = {.in = &f.packed, .good = good};
            struct buffer got = {0};
            const struct hr_source source = {.struct_size = sizeof source,
                                             .kind = HR_CALLBACK,
                                             .read = give_and_fail,
                                             .user = &failing};
            const struct hr_pipeline_config config = {.struct_size = sizeof config,
                                                      .n_sources = 1,
                                                      .sources = &source,
                                                      .decode = HR_CODEC_AUTO};
            hr_error error = {0};
            cr_assert_eq(run_gathering(loops[l], &config, &got, &error), HR_EIO, "%zu bytes: %s",
                         good, error.text);
            cr_assert(error.stage == HR_STAGE_READ && error.native == EREMOTEIO);
            cr_assert(got.size == good && begins(&got, &f.packed));
            buffer_free(&got);
        }
    frames_free(&f);
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

Test(decode_errors, dictionaries_needed_wrong_and_right)
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

Test(decode_errors, a_damaged_dictionary_is_an_error)
{
    struct with_dict a = make_with_dict(1);
    memset(a.dict.data + 8, 0xff, 60);
    for (unsigned l = 0; l < n_loops; l++) {
        struct trial t = trial_of(0, 1 << 20, 4);
        t.dict = &a.dict;
        run_trial(loops[l], &t, &a.f.packed);
        cr_assert(t.status < 0 && strstr(t.error.text, "ictionary"), "%s", name_of(&t));
        cr_assert_null(strstr(t.error.text, "memory"));
    }
    frames_free(&a.f);
    buffer_free(&a.dict);
}

/* ---- no zstd at all ---- */

Test(decode_errors, empty_input_stubs_and_plain_text_are_no_zstd)
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
