// SPDX-License-Identifier: Apache-2.0
/* Decoding and encoding: damage, lies, dictionaries, steps of every size. */
#include "codec.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zdict.h>
#include <zstd.h>

#include "zstd_inputs.h"

/* One frame, and what decodes it. */
struct one_frame {
    struct buffer content;
    struct buffer packed;
    struct hr__decoder *d;
    uint8_t *dst; /* as large as the content */
};

static struct one_frame one_frame_of(size_t size)
{
    struct one_frame f = {.content = sample(size), .d = decoder(NULL), .dst = malloc(size)};
    append_frame(&f.packed, &f.content);
    return f;
}

static void free_one_frame(struct one_frame *f)
{
    hr__decoder_free(f->d);
    free(f->dst);
    free(f->content.data);
    free(f->packed.data);
}

Test(codec, frames_decode_one_by_one_into_their_bounds)
{
    struct buffer b = mixture();
    struct buffer by_frame = decode_frames(&b);
    enum hr__step last;
    struct buffer streamed = stream(&b, 1000, 777, NULL, &last, NULL);
    cr_assert_eq(last, HR__STEP_FRAME_DONE);
    cr_assert_eq(by_frame.size, 700 + 300000 + 5 + 300000);
    assert_same_bytes(&by_frame, &streamed);
    free(streamed.data);
    free(by_frame.data);
    free(b.data);
    assert_no_leak();
}

Test(codec, frames_cut_at_every_byte_are_never_a_success)
{
    struct one_frame f = one_frame_of(20000);
    for (size_t cut = 0; cut < f.packed.size; cut++) {
        struct walked r = walk(f.packed.data, cut, SIZE_MAX, MAX_WINDOW);
        cr_assert_eq(r.error, cut < 4 ? HR__WALK_NO_FRAME : HR__WALK_TRUNCATED);
        cr_assert_eq(r.error_offset, cut < 4 ? 0 : cut);
        size_t produced = 0;
        if (cut > 0)
            cr_assert_neq(
                hr__decoder_frame(f.d, f.packed.data, cut, f.dst, f.content.size, &produced, NULL),
                HR__CODEC_OK);
        struct hr__step_io io = {
            .src = f.packed.data, .size = cut, .dst = f.dst, .cap = f.content.size};
        hr__decoder_reset(f.d);
        cr_assert_neq(hr__decoder_step(f.d, &io, NULL), HR__STEP_FRAME_DONE);
    }
    free_one_frame(&f);
    assert_no_leak();
}

Test(codec, a_window_over_the_limit_tells_what_the_frame_needs)
{
    /* 0x88: 2^27; 0x89: an eighth more; 0xFF: the most that can be stated. */
    struct walked fits = walk("\x28\xB5\x2F\xFD\x00\x88\x01\x00\x00", 9, 1, MAX_WINDOW);
    cr_assert_eq(fits.error, HR__WALK_OK);
    struct walked over = walk("\x28\xB5\x2F\xFD\x00\x89\x01\x00\x00", 9, 1, MAX_WINDOW);
    cr_assert_eq(over.error, HR__WALK_WINDOW);
    cr_assert_eq(over.window, (uint64_t)9 << 24);
    struct walked most = walk("\x28\xB5\x2F\xFD\x00\xFF\x01\x00\x00", 9, 1, MAX_WINDOW);
    cr_assert_eq(most.window, ((uint64_t)1 << 41) + ((uint64_t)7 << 38));

    struct hr__decoder *d = decoder(NULL);
    uint8_t dst[16];
    struct hr__codec_error err = {0};
    struct hr__step_io io = {
        .src = "\x28\xB5\x2F\xFD\x00\x89\x01\x00\x00", .size = 9, .dst = dst, .cap = sizeof dst};
    cr_assert_eq(hr__decoder_step(d, &io, &err), HR__STEP_ERROR);
    cr_assert_eq(err.code, HR__CODEC_WINDOW);
    hr__decoder_free(d);
    d = NULL;
    cr_assert_eq(hr__decoder_create(&d, NULL, 0, 99, &err), HR__CODEC_WINDOW);
    cr_assert_null(d);
    assert_no_leak();
}

Test(codec, a_lying_content_size_is_no_large_bound_and_no_success)
{
    struct buffer b = {0};
    add_frame_by_hand(&b, "\xC0\x00\x00\x00\x00\x00\x00\x01\x00\x00", 10); /* states 2^40 */
    add_frame_by_hand(&b, "\x20\x03", 2); /* states 3, in a window of 3 */
    struct walked r = walk(b.data, b.size, 1, MAX_WINDOW);
    cr_assert_eq(r.frames[0].content_size, (uint64_t)1 << 40);
    cr_assert_eq(r.frames[0].bound, 5);
    cr_assert_eq(r.error, HR__WALK_RESERVED);

    struct hr__decoder *d = decoder(NULL);
    uint8_t dst[16];
    size_t produced = 99;
    cr_assert_eq(hr__decoder_frame(d, b.data, 22, dst, 5, &produced, NULL), HR__CODEC_CORRUPT);
    cr_assert_eq(produced, 99);

    struct buffer low = {0};
    add_frame_by_hand(&low, "\x80\x00\x04\x00\x00\x00", 6); /* states 4 */
    struct walked s = walk_all(&low);
    cr_assert_eq(s.frames[0].bound, 4);
    cr_assert_eq(hr__decoder_frame(d, low.data, low.size, dst, 4, &produced, NULL),
                 HR__CODEC_SIZE_MISMATCH);
    hr__decoder_free(d);

    /* With an empty last block, libzstd's streaming does not compare the sizes. */
    static const char empty_last[] = "\x28\xB5\x2F\xFD\x80\x00\x09\x00\x00\x00\x28\x00\x00"
                                     "hello\x01\x00\x00";
    struct buffer lie = {0};
    buffer_add(&lie, empty_last, sizeof empty_last - 1);
    for (size_t step = 1; step < 20; step += 9) {
        enum hr__step last;
        struct hr__codec_error err;
        struct buffer part = stream(&lie, step, 64, NULL, &last, &err);
        cr_assert_eq(last, HR__STEP_ERROR);
        cr_assert_eq(err.code, HR__CODEC_SIZE_MISMATCH);
        free(part.data);
    }
    free(lie.data);
    free(low.data);
    free(b.data);
    assert_no_leak();
}

Test(codec, a_flipped_checksum_is_told_as_such)
{
    struct one_frame f = one_frame_of(5000);
    f.packed.data[f.packed.size - 1] ^= 1;
    size_t produced;
    struct hr__codec_error err;
    cr_assert_eq(hr__decoder_frame(f.d, f.packed.data, f.packed.size, f.dst, f.content.size,
                                   &produced, &err),
                 HR__CODEC_CHECKSUM);
    cr_assert_not_null(err.text);
    enum hr__step last;
    struct buffer part = stream(&f.packed, 100, 100, NULL, &last, &err);
    cr_assert_eq(last, HR__STEP_ERROR);
    cr_assert_eq(err.code, HR__CODEC_CHECKSUM);
    f.packed.data[f.packed.size - 1] ^= 1;
    cr_assert_eq(hr__decoder_frame(f.d, f.packed.data, f.packed.size, f.dst, f.content.size,
                                   &produced, &err),
                 HR__CODEC_OK);
    free(part.data);
    free_one_frame(&f);
    assert_no_leak();
}

Test(codec, flipped_bits_never_decode_to_other_bytes)
{
    struct one_frame f = one_frame_of(20000);
    for (size_t bit = 0; bit < f.packed.size * 8; bit += 97) {
        f.packed.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        struct walked r = walk_all(&f.packed);
        size_t produced = 0;
        if (r.error == HR__WALK_OK && r.n == 1 && r.frames[0].bound <= f.content.size &&
            !hr__decoder_frame(f.d, f.packed.data, f.packed.size, f.dst, f.content.size, &produced,
                               NULL))
            cr_assert(produced == f.content.size && !memcmp(f.dst, f.content.data, produced));
        f.packed.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    free_one_frame(&f);
    assert_no_leak();
}

Test(codec, every_step_size_streams_to_the_same_bytes)
{
    struct buffer b = mixture();
    struct buffer all = decode_frames(&b);
    static const size_t steps[][2] = {
        {1, 4096}, {4096, 1}, {7, 13}, {4096, 4096}, {1 << 20, 1 << 20},
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        enum hr__step last;
        struct buffer streamed = stream(&b, steps[i][0], steps[i][1], NULL, &last, NULL);
        cr_assert_eq(last, HR__STEP_FRAME_DONE);
        assert_same_bytes(&streamed, &all);
        free(streamed.data);
    }
    free(all.data);
    free(b.data);
    assert_no_leak();
}

Test(codec, steps_without_input_or_room_are_no_errors)
{
    struct one_frame f = one_frame_of(50000);
    struct hr__step_io dry = {.src = f.packed.data, .dst = f.dst, .cap = 10};
    for (int i = 0; i < 100; i++)
        cr_assert_eq(hr__decoder_step(f.d, &dry, NULL), HR__STEP_NEED_INPUT);
    struct hr__step_io io = {.src = f.packed.data, .size = f.packed.size};
    for (int i = 0; i < 100; i++) {
        cr_assert_eq(hr__decoder_step(f.d, &io, NULL), HR__STEP_OUTPUT_FULL);
        io.src = (const uint8_t *)io.src + io.used;
        io.size -= io.used;
    }
    io.dst = f.dst;
    io.cap = f.content.size;
    cr_assert_eq(hr__decoder_step(f.d, &io, NULL), HR__STEP_FRAME_DONE);
    cr_assert_eq(io.produced, f.content.size);
    cr_assert_eq(memcmp(f.dst, f.content.data, f.content.size), 0);
    free_one_frame(&f);
    assert_no_leak();
}

/* The frame is written by hand: to be asked for a dictionary it need only state an id. */
Test(codec, a_stated_dictionary_is_needed_or_wrong)
{
    struct buffer b = {0};
    add_frame_by_hand(&b, "\x03\x00\x39\x30\x00\x00", 6); /* dictionary 12345 */
    struct walked r = walk_all(&b);
    cr_assert_eq(r.frames[0].dict_id, 12345);
    uint8_t dst[16];
    size_t produced;
    struct hr__decoder *d = decoder(NULL);
    cr_assert_eq(hr__decoder_frame(d, b.data, b.size, dst, 5, &produced, NULL),
                 HR__CODEC_DICT_NEEDED);
    hr__decoder_free(d);

    struct buffer raw = sample(1000);
    d = decoder(&raw);
    cr_assert_eq(hr__decoder_frame(d, b.data, b.size, dst, 5, &produced, NULL),
                 HR__CODEC_DICT_WRONG);
    enum hr__step last;
    struct hr__codec_error err;
    struct buffer part = stream(&b, 3, 3, &raw, &last, &err);
    cr_assert_eq(last, HR__STEP_ERROR);
    cr_assert_eq(err.code, HR__CODEC_DICT_WRONG);
    hr__decoder_free(d);
    free(part.data);
    free(raw.data);
    free(b.data);
    assert_no_leak();
}

static struct buffer trained_dictionary(void)
{
    struct buffer samples = {0};
    size_t sizes[500];
    for (size_t i = 0; i < 500; i++) {
        char line[200];
        sizes[i] = (size_t)snprintf(line, sizeof line,
                                    "{\"id\": %zu, \"name\": \"sample %zu\", \"value\": %zu}\n", i,
                                    i * 7919 % 500, i * i);
        buffer_add(&samples, line, sizes[i]);
    }
    struct buffer dict = {.data = malloc(4096)};
    dict.size = ZDICT_trainFromBuffer(dict.data, 4096, samples.data, sizes, 500);
    cr_assert(!ZDICT_isError(dict.size));
    free(samples.data);
    return dict;
}

Test(codec, a_trained_dictionary_serves_both_ways_and_is_asked_for)
{
    struct buffer dict = trained_dictionary();
    static const char text[] = "{\"id\": 77, \"name\": \"sample 78\", \"value\": 79}\n";
    struct hr__encoder *e = NULL;
    cr_assert_eq(hr__encoder_create(&e, 3, dict.data, dict.size, NULL), HR__CODEC_OK);
    uint8_t frame[500];
    char dst[sizeof text];
    size_t written = 0;
    size_t produced = 0;
    cr_assert_eq(hr__encoder_frame(e, text, sizeof text, frame, sizeof frame, &written, NULL),
                 HR__CODEC_OK);
    struct walked r = walk(frame, written, 1, MAX_WINDOW);
    cr_assert_eq(r.frames[0].dict_id, ZDICT_getDictID(dict.data, dict.size));
    cr_assert_eq(r.frames[0].bound, sizeof text);
    struct hr__decoder *with = decoder(&dict);
    struct hr__decoder *without = decoder(NULL);
    cr_assert_eq(hr__decoder_frame(without, frame, written, dst, sizeof dst, &produced, NULL),
                 HR__CODEC_DICT_NEEDED);
    cr_assert_eq(hr__decoder_frame(with, frame, written, dst, sizeof dst, &produced, NULL),
                 HR__CODEC_OK);
    cr_assert_eq(memcmp(dst, text, sizeof text), 0);
    hr__decoder_free(with);
    hr__decoder_free(without);
    hr__encoder_free(e);
    free(dict.data);
    assert_no_leak();
}

Test(codec, a_raw_dictionary_serves_both_ways)
{
    struct buffer dict = sample(4000);
    struct buffer content = sample(4000);
    struct hr__encoder *e = NULL;
    cr_assert_eq(hr__encoder_create(&e, 3, dict.data, dict.size, NULL), HR__CODEC_OK);
    uint8_t frame[5000];
    uint8_t dst[4000];
    size_t written = 0;
    size_t produced = 0;
    cr_assert_eq(
        hr__encoder_frame(e, content.data, content.size, frame, sizeof frame, &written, NULL),
        HR__CODEC_OK);
    cr_assert_lt(written, 100);
    struct hr__decoder *with = decoder(&dict);
    cr_assert_eq(hr__decoder_frame(with, frame, written, dst, sizeof dst, &produced, NULL),
                 HR__CODEC_OK);
    cr_assert_eq(memcmp(dst, content.data, content.size), 0);
    struct buffer coded = {.data = frame, .size = written};
    enum hr__step last;
    struct buffer streamed = stream(&coded, 1, 100, &dict, &last, NULL);
    cr_assert_eq(last, HR__STEP_FRAME_DONE);
    assert_same_bytes(&streamed, &content);
    struct hr__decoder *without = decoder(NULL);
    cr_assert_neq(hr__decoder_frame(without, frame, written, dst, sizeof dst, &produced, NULL),
                  HR__CODEC_OK);
    hr__decoder_free(with);
    hr__decoder_free(without);
    hr__encoder_free(e);
    free(streamed.data);
    free(dict.data);
    free(content.data);
    assert_no_leak();
}

Test(codec, a_damaged_dictionary_is_not_called_out_of_memory)
{
    static const char dict[] = "\x37\xA4\x30\xEC\x01\x00\x00\x00 and then no tables at all";
    struct hr__decoder *d = NULL;
    struct hr__encoder *e = NULL;
    struct hr__codec_error err = {0};
    cr_assert_eq(hr__decoder_create(&d, dict, sizeof dict, WINDOW_LOG, &err), HR__CODEC_DICT_WRONG);
    cr_assert_eq(err.code, HR__CODEC_DICT_WRONG);
    cr_assert_eq(hr__encoder_create(&e, 3, dict, sizeof dict, NULL), HR__CODEC_DICT_WRONG);
    cr_assert(!d && !e);
    assert_no_leak();
}

Test(codec, encoded_frames_state_their_size_and_decode)
{
    static const size_t sizes[] = {0, 1, 255, 256, 257, 65791, 65792, 131072, 131073, 1 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct buffer content = sample(sizes[i]);
        struct buffer b = {0};
        append_frame(&b, &content);
        struct walked r = walk(b.data, b.size, 1, MAX_WINDOW);
        cr_assert_eq(r.n, 1);
        cr_assert_eq(r.frames[0].content_size, sizes[i]);
        cr_assert_eq(r.frames[0].bound, sizes[i]);
        cr_assert_eq(r.frames[0].in_size, b.size);
        cr_assert(r.frames[0].has_checksum);
        struct buffer all = decode_frames(&b);
        assert_same_bytes(&all, &content);
        free(all.data);
        free(b.data);
        free(content.data);
    }
    assert_no_leak();
}

Test(codec, an_encoder_without_room_fails_and_goes_on)
{
    struct buffer content = sample(10000);
    struct hr__encoder *e = NULL;
    cr_assert_eq(hr__encoder_create(&e, 1, NULL, 0, NULL), HR__CODEC_OK);
    size_t cap = hr__encode_bound(content.size);
    uint8_t *dst = malloc(cap);
    size_t written = 99;
    cr_assert_eq(hr__encoder_frame(e, content.data, content.size, dst, 20, &written, NULL),
                 HR__CODEC_SIZE_MISMATCH);
    cr_assert_eq(written, 99);
    cr_assert_eq(hr__encoder_frame(e, content.data, content.size, dst, cap, &written, NULL),
                 HR__CODEC_OK);
    cr_assert_eq(hr__encode_bound(SIZE_MAX), 0);
    hr__encoder_free(e);
    free(dst);
    free(content.data);
    assert_no_leak();
}
