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

Test(codec, frames_decode_one_by_one_into_their_bounds)
{
    struct bytes b = mixture();
    struct bytes by_frame = decode_frames(&b);
    enum hr__step last;
    struct bytes streamed = stream(&b, 1000, 777, NULL, &last, NULL);
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
    struct bytes content = sample(20000);
    struct bytes b = {0};
    append_frame(&b, &content);
    struct hr__decoder *d = decoder(NULL);
    uint8_t *dst = malloc(content.size);
    for (size_t cut = 0; cut < b.size; cut++) {
        struct walked r = walk(b.data, cut, SIZE_MAX, MAX_WINDOW);
        cr_assert_eq(r.error, cut < 4 ? HR__WALK_NO_FRAME : HR__WALK_TRUNCATED);
        cr_assert_eq(r.error_offset, cut < 4 ? 0 : cut);
        size_t produced = 0;
        if (cut > 0)
            cr_assert_neq(hr__decoder_frame(d, b.data, cut, dst, content.size, &produced, NULL),
                          HR__CODEC_OK);
        struct hr__step_io io = {.src = b.data, .size = cut, .dst = dst, .cap = content.size};
        hr__decoder_reset(d);
        cr_assert_neq(hr__decoder_step(d, &io, NULL), HR__STEP_FRAME_DONE);
    }
    hr__decoder_free(d);
    free(dst);
    free(content.data);
    free(b.data);
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
    struct bytes b = {0};
    append_raw_frame(&b, "\xC0\x00\x00\x00\x00\x00\x00\x01\x00\x00", 10); /* states 2^40 */
    append_raw_frame(&b, "\x20\x03", 2); /* states 3, in a window of 3 */
    struct walked r = walk(b.data, b.size, 1, MAX_WINDOW);
    cr_assert_eq(r.frames[0].content_size, (uint64_t)1 << 40);
    cr_assert_eq(r.frames[0].bound, 5);
    cr_assert_eq(r.error, HR__WALK_RESERVED);

    struct hr__decoder *d = decoder(NULL);
    uint8_t dst[16];
    size_t produced = 99;
    cr_assert_eq(hr__decoder_frame(d, b.data, 22, dst, 5, &produced, NULL), HR__CODEC_CORRUPT);
    cr_assert_eq(produced, 99);

    struct bytes low = {0};
    append_raw_frame(&low, "\x80\x00\x04\x00\x00\x00", 6); /* states 4 */
    struct walked s = walk_all(&low);
    cr_assert_eq(s.frames[0].bound, 4);
    cr_assert_eq(hr__decoder_frame(d, low.data, low.size, dst, 4, &produced, NULL),
                 HR__CODEC_SIZE_MISMATCH);
    hr__decoder_free(d);

    /* With an empty last block, libzstd's streaming does not compare the sizes. */
    static const char empty_last[] = "\x28\xB5\x2F\xFD\x80\x00\x09\x00\x00\x00\x28\x00\x00"
                                     "hello\x01\x00\x00";
    struct bytes lie = {0};
    append(&lie, empty_last, sizeof empty_last - 1);
    for (size_t step = 1; step < 20; step += 9) {
        enum hr__step last;
        struct hr__codec_error err;
        struct bytes part = stream(&lie, step, 64, NULL, &last, &err);
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
    struct bytes content = sample(5000);
    struct bytes b = {0};
    append_frame(&b, &content);
    b.data[b.size - 1] ^= 1;
    struct hr__decoder *d = decoder(NULL);
    uint8_t *dst = malloc(content.size);
    size_t produced;
    struct hr__codec_error err;
    cr_assert_eq(hr__decoder_frame(d, b.data, b.size, dst, content.size, &produced, &err),
                 HR__CODEC_CHECKSUM);
    cr_assert_not_null(err.text);
    enum hr__step last;
    struct bytes part = stream(&b, 100, 100, NULL, &last, &err);
    cr_assert_eq(last, HR__STEP_ERROR);
    cr_assert_eq(err.code, HR__CODEC_CHECKSUM);
    b.data[b.size - 1] ^= 1;
    cr_assert_eq(hr__decoder_frame(d, b.data, b.size, dst, content.size, &produced, &err),
                 HR__CODEC_OK);
    hr__decoder_free(d);
    free(part.data);
    free(dst);
    free(content.data);
    free(b.data);
    assert_no_leak();
}

Test(codec, flipped_bits_never_decode_to_other_bytes)
{
    struct bytes content = sample(20000);
    struct bytes b = {0};
    append_frame(&b, &content);
    struct hr__decoder *d = decoder(NULL);
    uint8_t *dst = malloc(content.size);
    for (size_t bit = 0; bit < b.size * 8; bit += 97) {
        b.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        struct walked r = walk_all(&b);
        size_t produced = 0;
        if (r.error == HR__WALK_OK && r.n == 1 && r.frames[0].bound <= content.size &&
            !hr__decoder_frame(d, b.data, b.size, dst, content.size, &produced, NULL))
            cr_assert(produced == content.size && !memcmp(dst, content.data, produced));
        b.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    hr__decoder_free(d);
    free(dst);
    free(content.data);
    free(b.data);
    assert_no_leak();
}

Test(codec, every_step_size_streams_to_the_same_bytes)
{
    struct bytes b = mixture();
    struct bytes all = decode_frames(&b);
    static const size_t steps[][2] = {
        {1, 4096}, {4096, 1}, {7, 13}, {4096, 4096}, {1 << 20, 1 << 20},
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        enum hr__step last;
        struct bytes streamed = stream(&b, steps[i][0], steps[i][1], NULL, &last, NULL);
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
    struct bytes content = sample(50000);
    struct bytes b = {0};
    append_frame(&b, &content);
    struct hr__decoder *d = decoder(NULL);
    uint8_t *dst = malloc(content.size);
    struct hr__step_io dry = {.src = b.data, .dst = dst, .cap = 10};
    for (int i = 0; i < 100; i++)
        cr_assert_eq(hr__decoder_step(d, &dry, NULL), HR__STEP_NEED_INPUT);
    struct hr__step_io io = {.src = b.data, .size = b.size};
    for (int i = 0; i < 100; i++) {
        cr_assert_eq(hr__decoder_step(d, &io, NULL), HR__STEP_OUTPUT_FULL);
        io.src = (const uint8_t *)io.src + io.used;
        io.size -= io.used;
    }
    io.dst = dst;
    io.cap = content.size;
    cr_assert_eq(hr__decoder_step(d, &io, NULL), HR__STEP_FRAME_DONE);
    cr_assert_eq(io.produced, content.size);
    cr_assert_eq(memcmp(dst, content.data, content.size), 0);
    hr__decoder_free(d);
    free(dst);
    free(content.data);
    free(b.data);
    assert_no_leak();
}

/* The frame is written by hand: to be asked for a dictionary it need only state an id. */
Test(codec, a_stated_dictionary_is_needed_or_wrong)
{
    struct bytes b = {0};
    append_raw_frame(&b, "\x03\x00\x39\x30\x00\x00", 6); /* dictionary 12345 */
    struct walked r = walk_all(&b);
    cr_assert_eq(r.frames[0].dict_id, 12345);
    uint8_t dst[16];
    size_t produced;
    struct hr__decoder *d = decoder(NULL);
    cr_assert_eq(hr__decoder_frame(d, b.data, b.size, dst, 5, &produced, NULL),
                 HR__CODEC_DICT_NEEDED);
    hr__decoder_free(d);

    struct bytes raw = sample(1000);
    d = decoder(&raw);
    cr_assert_eq(hr__decoder_frame(d, b.data, b.size, dst, 5, &produced, NULL),
                 HR__CODEC_DICT_WRONG);
    enum hr__step last;
    struct hr__codec_error err;
    struct bytes part = stream(&b, 3, 3, &raw, &last, &err);
    cr_assert_eq(last, HR__STEP_ERROR);
    cr_assert_eq(err.code, HR__CODEC_DICT_WRONG);
    hr__decoder_free(d);
    free(part.data);
    free(raw.data);
    free(b.data);
    assert_no_leak();
}

static struct bytes trained_dictionary(void)
{
    struct bytes samples = {0};
    size_t sizes[500];
    for (size_t i = 0; i < 500; i++) {
        char line[200];
        sizes[i] = (size_t)snprintf(line, sizeof line,
                                    "{\"id\": %zu, \"name\": \"sample %zu\", \"value\": %zu}\n", i,
                                    i * 7919 % 500, i * i);
        append(&samples, line, sizes[i]);
    }
    struct bytes dict = {.data = malloc(4096)};
    dict.size = ZDICT_trainFromBuffer(dict.data, 4096, samples.data, sizes, 500);
    cr_assert(!ZDICT_isError(dict.size));
    free(samples.data);
    return dict;
}

Test(codec, a_trained_dictionary_serves_both_ways_and_is_asked_for)
{
    struct bytes dict = trained_dictionary();
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
    struct bytes dict = sample(4000);
    struct bytes content = sample(4000);
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
    struct bytes coded = {.data = frame, .size = written};
    enum hr__step last;
    struct bytes streamed = stream(&coded, 1, 100, &dict, &last, NULL);
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
        struct bytes content = sample(sizes[i]);
        struct bytes b = {0};
        append_frame(&b, &content);
        struct walked r = walk(b.data, b.size, 1, MAX_WINDOW);
        cr_assert_eq(r.n, 1);
        cr_assert_eq(r.frames[0].content_size, sizes[i]);
        cr_assert_eq(r.frames[0].bound, sizes[i]);
        cr_assert_eq(r.frames[0].in_size, b.size);
        cr_assert(r.frames[0].has_checksum);
        struct bytes all = decode_frames(&b);
        assert_same_bytes(&all, &content);
        free(all.data);
        free(b.data);
        free(content.data);
    }
    assert_no_leak();
}

Test(codec, an_encoder_without_room_fails_and_goes_on)
{
    struct bytes content = sample(10000);
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
