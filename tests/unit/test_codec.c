// SPDX-License-Identifier: Apache-2.0
/* compress/: the walk over frames, decoding, encoding, seek tables. Hostile input is built by
 * hand: a frame of raw blocks is a magic number, two bytes of header and three bytes before each
 * block. */
#include "codec.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zdict.h>
#include <zstd.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
/* A leak alone does not fail a Criterion test, so that the last line of a body asks for it. */
#define assert_no_leak() cr_assert_eq(__lsan_do_recoverable_leak_check(), 0)
#else
#define assert_no_leak() ((void)0)
#endif

#define MAX_WINDOW ((uint64_t)1 << 27)
#define WINDOW_LOG 27

struct bytes {
    uint8_t *data;
    size_t size;
    size_t cap; /* of data, as far as append() knows */
};

static void append(struct bytes *b, const void *data, size_t size)
{
    if (size == 0)
        return;
    if (b->size + size > b->cap) {
        b->cap = 2 * (b->size + size);
        b->data = realloc(b->data, b->cap);
        cr_assert_not_null(b->data);
    }
    memcpy(b->data + b->size, data, size);
    b->size += size;
}

static void append_le(struct bytes *b, uint64_t value, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        append(b, &(uint8_t){(uint8_t)(value >> 8 * i)}, 1);
}

/* Half text-like, half noise, the same for the same size. */
static struct bytes sample(size_t size)
{
    struct bytes b = {.data = malloc(size + 1), .size = size};
    cr_assert_not_null(b.data);
    uint32_t x = 12345;
    for (size_t i = 0; i < size; i++) {
        x = x * 1664525u + 1013904223u;
        b.data[i] = (uint8_t)(i / 4096 % 2 ? x >> 24 : 'a' + (x >> 30));
    }
    return b;
}

static void append_frame(struct bytes *b, const struct bytes *content)
{
    struct hr__encoder *e = NULL;
    cr_assert_eq(hr__encoder_create(&e, 3, NULL, 0, NULL), HR__CODEC_OK);
    size_t cap = hr__encode_bound(content->size);
    size_t written = 0;
    void *frame = malloc(cap);
    cr_assert_eq(hr__encoder_frame(e, content->data, content->size, frame, cap, &written, NULL),
                 HR__CODEC_OK);
    append(b, frame, written);
    free(frame);
    hr__encoder_free(e);
}

/* As from a pipe: no content size; flushed now and then, so blocks have odd sizes. */
static void append_piped_frame(struct bytes *b, const struct bytes *content)
{
    ZSTD_CCtx *c = ZSTD_createCCtx();
    uint8_t buffer[4096];
    ZSTD_inBuffer in = {.src = content->data};
    for (size_t left = 1; left > 0 || in.pos < content->size;) {
        in.size = content->size - in.pos < 30000 ? content->size : in.pos + 30000;
        ZSTD_outBuffer out = {.dst = buffer, .size = sizeof buffer};
        left = ZSTD_compressStream2(c, &out, &in,
                                    in.size == content->size ? ZSTD_e_end : ZSTD_e_flush);
        cr_assert(!ZSTD_isError(left));
        append(b, buffer, out.pos);
    }
    ZSTD_freeCCtx(c);
}

static void append_skippable(struct bytes *b, unsigned variant, size_t size)
{
    struct bytes content = sample(size);
    append_le(b, 0x184D2A50u + variant, 4);
    append_le(b, size, 4);
    append(b, content.data, size);
    free(content.data);
}

/* Magic, a header of the given bytes, then one last raw block of "hello". */
static void append_raw_frame(struct bytes *b, const void *header, size_t size)
{
    append_le(b, 0xFD2FB528u, 4);
    append(b, header, size);
    append_le(b, 5 << 3 | 1, 3);
    append(b, "hello", 5);
}

struct walked {
    struct hr__frame frames[64];
    size_t n;
    enum hr__walk_error error;
    uint64_t error_offset;
    uint64_t window;
};

static struct walked walk(const void *data, size_t size, size_t step, uint64_t max_window)
{
    struct walked r = {.n = 0};
    struct hr__walk w;
    hr__walk_init(&w, max_window);
    const uint8_t *p = data;
    enum hr__walk_result result = HR__WALK_MORE;
    for (size_t at = 0, used = 0; at < size && result != HR__WALK_ERROR; at += used) {
        result = hr__walk_feed(&w, p + at, size - at < step ? size - at : step, &used);
        if (result == HR__WALK_FRAME && r.n < 64)
            r.frames[r.n++] = w.frame;
    }
    r.error = hr__walk_finish(&w);
    r.error_offset = w.error_offset;
    r.window = w.frame.window_size;
    return r;
}

static struct walked walk_all(const struct bytes *b)
{
    return walk(b->data, b->size, SIZE_MAX, MAX_WINDOW);
}

static void assert_same_walk(const struct walked *a, const struct walked *b)
{
    cr_assert_eq(a->n, b->n);
    cr_assert_eq(a->error, b->error);
    cr_assert_eq(a->error_offset, b->error_offset);
    for (size_t i = 0; i < a->n; i++) {
        cr_assert_eq(a->frames[i].in_offset, b->frames[i].in_offset);
        cr_assert_eq(a->frames[i].in_size, b->frames[i].in_size);
        cr_assert_eq(a->frames[i].content_size, b->frames[i].content_size);
        cr_assert_eq(a->frames[i].bound, b->frames[i].bound);
        cr_assert_eq(a->frames[i].window_size, b->frames[i].window_size);
    }
}

static struct hr__decoder *decoder(const struct bytes *dict)
{
    struct hr__decoder *d = NULL;
    cr_assert_eq(
        hr__decoder_create(&d, dict ? dict->data : NULL, dict ? dict->size : 0, WINDOW_LOG, NULL),
        HR__CODEC_OK);
    return d;
}

/* Decodes each frame into a destination of exactly its bound, which must always be enough. */
static struct bytes decode_frames(const struct bytes *b)
{
    struct walked r = walk_all(b);
    cr_assert_eq(r.error, HR__WALK_OK);
    struct hr__decoder *d = decoder(NULL);
    struct bytes all = {0};
    for (size_t i = 0; i < r.n; i++) {
        const struct hr__frame *f = &r.frames[i];
        void *dst = malloc((size_t)f->bound + 1);
        size_t produced = 0;
        cr_assert_eq(hr__decoder_frame(d, b->data + f->in_offset, (size_t)f->in_size, dst,
                                       (size_t)f->bound, &produced, NULL),
                     HR__CODEC_OK);
        if (f->content_size != HR__SIZE_UNKNOWN)
            cr_assert_eq(produced, f->content_size);
        append(&all, dst, produced);
        free(dst);
    }
    hr__decoder_free(d);
    return all;
}

/* Streams b through with the given step sizes; *last is the last step's result. */
static struct bytes stream(const struct bytes *b, size_t in_step, size_t out_step,
                           const struct bytes *dict, enum hr__step *last,
                           struct hr__codec_error *err)
{
    struct hr__decoder *d = decoder(dict);
    struct bytes all = {0};
    uint8_t *dst = malloc(out_step);
    size_t at = 0;
    do {
        struct hr__step_io io = {
            .src = b->data + at,
            .size = b->size - at < in_step ? b->size - at : in_step,
            .dst = dst,
            .cap = out_step,
        };
        *last = hr__decoder_step(d, &io, err);
        at += io.used;
        append(&all, dst, io.produced);
        if (*last == HR__STEP_NEED_INPUT)
            cr_assert_eq(io.used, io.size);
    } while (*last != HR__STEP_ERROR && (at < b->size || *last == HR__STEP_OUTPUT_FULL));
    free(dst);
    hr__decoder_free(d);
    return all;
}

static void assert_same_bytes(const struct bytes *a, const struct bytes *b)
{
    cr_assert_eq(a->size, b->size);
    if (a->size > 0)
        cr_assert_eq(memcmp(a->data, b->data, a->size), 0);
}

/* One of everything: known and unknown size, empty, skippable, with and without checksum. */
static struct bytes mixture(void)
{
    struct bytes b = {0};
    struct bytes small = sample(700);
    struct bytes large = sample(300000);
    struct bytes empty = {0};
    append_skippable(&b, 0, 3);
    append_frame(&b, &small);
    append_piped_frame(&b, &large);
    append_frame(&b, &empty);
    append_skippable(&b, 15, 0);
    append_raw_frame(&b, "\x00\x00", 2);
    append_frame(&b, &large);
    free(small.data);
    free(large.data);
    return b;
}

Test(codec, walk_gives_the_same_for_every_split)
{
    struct bytes b = mixture();
    struct walked whole = walk_all(&b);
    cr_assert_eq(whole.error, HR__WALK_OK);
    cr_assert_eq(whole.n, 7);
    static const size_t steps[] = {1, 2, 3, 5, 7, 13, 64, 4095, 4096, 4097, 100000};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        struct walked r = walk(b.data, b.size, steps[i], MAX_WINDOW);
        assert_same_walk(&whole, &r);
    }
    free(b.data);
    assert_no_leak();
}

Test(codec, walk_gives_the_same_for_one_cut_at_every_byte)
{
    struct bytes b = {0};
    struct bytes small = sample(300);
    append_frame(&b, &small);
    append_skippable(&b, 7, 9);
    append_piped_frame(&b, &small);
    struct walked whole = walk_all(&b);
    for (size_t cut = 0; cut <= b.size; cut++) {
        struct hr__walk w;
        size_t used = 0;
        size_t n = 0;
        hr__walk_init(&w, MAX_WINDOW);
        for (size_t at = 0; at < b.size; at += used) {
            size_t end = at < cut ? cut : b.size;
            n += hr__walk_feed(&w, b.data + at, end - at, &used) == HR__WALK_FRAME;
        }
        cr_assert_eq(n, whole.n);
        cr_assert_eq(hr__walk_finish(&w), HR__WALK_OK);
    }
    free(small.data);
    free(b.data);
    assert_no_leak();
}

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

Test(codec, ten_thousand_tiny_frames_are_all_found)
{
    struct bytes b = {0};
    for (int i = 0; i < 10000; i++)
        append_raw_frame(&b, "\x00\x00", 2);
    struct hr__walk w;
    hr__walk_init(&w, MAX_WINDOW);
    size_t used = 0;
    for (size_t at = 0; at < b.size; at += used) {
        cr_assert_eq(hr__walk_feed(&w, b.data + at, b.size - at, &used), HR__WALK_FRAME);
        cr_assert_eq(w.frame.in_size, 14);
        cr_assert_eq(w.frame.bound, 5);
    }
    cr_assert_eq(hr__walk_finish(&w), HR__WALK_OK);
    cr_assert_eq(w.n_frames, 10000);
    free(b.data);
    assert_no_leak();
}

Test(codec, all_sixteen_skippable_magics_are_passed_over)
{
    struct bytes b = {0};
    struct bytes small = sample(100);
    for (unsigned i = 0; i < 16; i++) {
        append_skippable(&b, i, i % 5);
        append_frame(&b, &small);
    }
    struct walked r = walk_all(&b);
    cr_assert_eq(r.n, 32);
    for (size_t i = 0; i < 32; i++)
        cr_assert_eq(r.frames[i].skippable, i % 2 == 0);
    struct bytes all = decode_frames(&b);
    cr_assert_eq(all.size, 1600);
    free(all.data);
    free(small.data);
    free(b.data);
    assert_no_leak();
}

Test(codec, a_skippable_frame_of_four_gigabytes_is_walked)
{
    struct hr__walk w;
    hr__walk_init(&w, MAX_WINDOW);
    struct bytes b = {0};
    append_le(&b, 0x184D2A53u, 4);
    append_le(&b, UINT32_MAX, 4);
    size_t used;
    cr_assert_eq(hr__walk_feed(&w, b.data, b.size, &used), HR__WALK_MORE);
    cr_assert(hr__walk_header_known(&w));
    cr_assert(w.frame.skippable);
    const size_t piece = 1 << 24;
    uint8_t *zeros = calloc(1, piece);
    enum hr__walk_result result = HR__WALK_MORE;
    for (uint64_t left = UINT32_MAX; left > 0; left -= used)
        result = hr__walk_feed(&w, zeros, left < piece ? (size_t)left : piece, &used);
    cr_assert_eq(result, HR__WALK_FRAME);
    cr_assert_eq(w.frame.in_size, (uint64_t)UINT32_MAX + 8);
    cr_assert_eq(hr__walk_finish(&w), HR__WALK_OK);
    free(zeros);
    free(b.data);
    assert_no_leak();
}

Test(codec, header_is_known_before_the_frame_is_complete)
{
    struct bytes large = sample(300000);
    struct bytes b = {0};
    append_frame(&b, &large);
    struct hr__walk w;
    size_t used;
    hr__walk_init(&w, MAX_WINDOW);
    cr_assert_eq(hr__walk_feed(&w, b.data, 4, &used), HR__WALK_MORE);
    cr_assert(!hr__walk_header_known(&w));
    cr_assert_eq(hr__walk_feed(&w, b.data + 4, 20, &used), HR__WALK_MORE);
    cr_assert(hr__walk_header_known(&w));
    cr_assert_eq(w.frame.content_size, 300000);
    cr_assert_eq(w.frame.bound, 300000);
    cr_assert(w.frame.has_checksum);
    free(large.data);
    free(b.data);
    assert_no_leak();
}

Test(codec, bound_of_unknown_size_is_never_below_the_real_size)
{
    static const size_t sizes[] = {0, 1, 1023, 1024, 131071, 131072, 131073, 1000000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct bytes content = sample(sizes[i]);
        struct bytes b = {0};
        append_piped_frame(&b, &content);
        struct walked r = walk_all(&b);
        cr_assert_eq(r.n, 1);
        cr_assert(r.frames[0].content_size == HR__SIZE_UNKNOWN || sizes[i] < 30000);
        cr_assert_geq(r.frames[0].bound, sizes[i]);
        struct bytes all = decode_frames(&b);
        assert_same_bytes(&all, &content);
        free(all.data);
        free(b.data);
        free(content.data);
    }
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

Test(codec, bytes_after_the_last_frame_are_told_with_their_place)
{
    static const size_t sizes[] = {1, 3, 4, 512};
    for (size_t i = 0; i < 8; i++) {
        struct bytes b = {0};
        append_raw_frame(&b, "\x00\x00", 2);
        uint8_t tail[512];
        memset(tail, i < 4 ? 0 : 'x', sizeof tail);
        append(&b, tail, sizes[i % 4]);
        struct walked whole = walk_all(&b);
        struct walked bytewise = walk(b.data, b.size, 1, MAX_WINDOW);
        cr_assert_eq(whole.error, HR__WALK_TRAILING);
        cr_assert_eq(whole.error_offset, 14);
        assert_same_walk(&whole, &bytewise);
        free(b.data);
    }
    struct walked cut =
        walk("\x28\xB5\x2F\xFD\x00\x00\x01\x00\x00\x5A\x2A", 11, SIZE_MAX, MAX_WINDOW);
    cr_assert_eq(cut.error, HR__WALK_TRUNCATED);
    assert_no_leak();
}

Test(codec, no_frame_and_not_zstd_are_told_apart)
{
    cr_assert_eq(walk("", 0, 1, MAX_WINDOW).error, HR__WALK_NO_FRAME);
    cr_assert_eq(walk("abc", 3, 1, MAX_WINDOW).error, HR__WALK_NO_FRAME);
    cr_assert_eq(walk("\x28\xB5\x2F", 3, 3, MAX_WINDOW).error, HR__WALK_NO_FRAME);
    cr_assert_eq(walk("plain text", 10, 1, MAX_WINDOW).error, HR__WALK_NOT_ZSTD);
    cr_assert_eq(walk("plain text", 10, 10, MAX_WINDOW).error_offset, 0);
    /* zstd 0.7 */
    cr_assert_eq(walk("\x27\xB5\x2F\xFD\x00\x00\x01\x00\x00", 9, 9, MAX_WINDOW).error,
                 HR__WALK_NOT_ZSTD);
}

Test(codec, reserved_bits_and_oversized_blocks_are_refused_where_they_stand)
{
    struct walked bit = walk("\x28\xB5\x2F\xFD\x08\x00\x01\x00\x00", 9, 1, MAX_WINDOW);
    cr_assert_eq(bit.error, HR__WALK_RESERVED);
    cr_assert_eq(bit.error_offset, 4);
    struct walked type = walk("\x28\xB5\x2F\xFD\x00\x00\x07\x00\x00", 9, 1, MAX_WINDOW);
    cr_assert_eq(type.error, HR__WALK_RESERVED);
    cr_assert_eq(type.error_offset, 6);
    /* An RLE block of 1025 bytes in a window of 1024. */
    struct walked size = walk("\x28\xB5\x2F\xFD\x00\x00\x0B\x20\x00z", 10, 1, MAX_WINDOW);
    cr_assert_eq(size.error, HR__WALK_RESERVED);
    struct walked fits = walk("\x28\xB5\x2F\xFD\x00\x00\x03\x20\x00z", 10, 1, MAX_WINDOW);
    cr_assert_eq(fits.error, HR__WALK_OK);
    cr_assert_eq(fits.frames[0].bound, 1024);
    /* The unused bit of the descriptor is to be ignored. */
    cr_assert_eq(walk("\x28\xB5\x2F\xFD\x10\x00\x01\x00\x00", 9, 1, MAX_WINDOW).error, HR__WALK_OK);
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

Test(codec, files_of_the_parallel_compressor_are_walked)
{
    /* pzstd puts a skippable frame of 4 bytes, the size of the next frame, before each frame. */
    struct bytes content = sample(50000);
    struct bytes b = {0};
    for (int i = 0; i < 5; i++) {
        struct bytes frame = {0};
        append_frame(&frame, &content);
        append_le(&b, 0x184D2A50u, 4);
        append_le(&b, 4, 4);
        append_le(&b, frame.size, 4);
        append(&b, frame.data, frame.size);
        free(frame.data);
    }
    struct bytes all = decode_frames(&b);
    cr_assert_eq(all.size, 250000);
    free(all.data);
    free(content.data);
    free(b.data);
    assert_no_leak();
}

/* ---- Seek tables ---- */

static enum hr__seek_result read_index(struct hr__seek_index *index, const struct bytes *file)
{
    uint64_t size = 0;
    enum hr__seek_result result =
        hr__seek_footer(file->data + file->size - HR__SEEK_FOOTER_SIZE, file->size, &size);
    if (result)
        return result;
    cr_assert_leq(size, file->size);
    return hr__seek_index_parse(index, file->data + file->size - size, (size_t)size, file->size);
}

static void append_table(struct bytes *b, const struct hr__seek_table *t)
{
    size_t size = hr__seek_table_size(t);
    uint8_t *table = malloc(size);
    hr__seek_table_write(t, table);
    append(b, table, size);
    free(table);
}

/* Frames of 0, 1000, 2000 ... decoded bytes and their table. */
static struct bytes seekable(size_t n)
{
    struct bytes b = {0};
    struct hr__seek_table t = {0};
    for (size_t i = 0; i < n; i++) {
        struct bytes content = sample(i * 1000);
        size_t before = b.size;
        append_frame(&b, &content);
        cr_assert_eq(hr__seek_table_add(&t, b.size - before, content.size), HR__SEEK_OK);
        free(content.data);
    }
    append_table(&b, &t);
    hr__seek_table_free(&t);
    return b;
}

Test(codec, a_seek_table_is_read_back_and_is_a_skippable_frame)
{
    struct bytes b = seekable(6);
    struct hr__seek_index index = {0};
    cr_assert_eq(read_index(&index, &b), HR__SEEK_OK);
    struct walked r = walk_all(&b);
    cr_assert_eq(r.error, HR__WALK_OK);
    cr_assert_eq(r.n, 7);
    cr_assert_eq(index.n_frames, 6);
    for (size_t i = 0; i < 6; i++)
        cr_assert_eq(index.in_offset[i], r.frames[i].in_offset);
    cr_assert_eq(index.out_offset[6], 15000);
    cr_assert_eq(hr__seek_index_find(&index, 0), 1); /* frame 0 gives nothing */
    cr_assert_eq(hr__seek_index_find(&index, 999), 1);
    cr_assert_eq(hr__seek_index_find(&index, 1000), 2);
    cr_assert_eq(hr__seek_index_find(&index, 14999), 5);
    cr_assert_eq(hr__seek_index_find(&index, 15000), 6);
    cr_assert_eq(hr__seek_index_find(&index, UINT64_MAX), 6);
    hr__seek_index_free(&index);
    free(b.data);
    assert_no_leak();
}

Test(codec, a_seek_table_of_nothing_and_of_many_is_read_back)
{
    struct bytes none = seekable(0);
    struct hr__seek_index index = {0};
    cr_assert_eq(none.size, 17);
    cr_assert_eq(read_index(&index, &none), HR__SEEK_OK);
    cr_assert_eq(index.n_frames, 0);
    cr_assert_eq(hr__seek_index_find(&index, 0), 0);
    hr__seek_index_free(&index);

    struct hr__seek_table t = {0};
    for (int i = 0; i < 100000; i++)
        cr_assert_eq(hr__seek_table_add(&t, UINT32_MAX, UINT32_MAX), HR__SEEK_OK);
    cr_assert_eq(hr__seek_table_add(&t, (uint64_t)1 << 32, 1), HR__SEEK_LIMIT);
    struct bytes b = {0};
    append_table(&b, &t);
    uint64_t file_size = b.size + (uint64_t)UINT32_MAX * 100000;
    cr_assert_eq(hr__seek_index_parse(&index, b.data, b.size, file_size), HR__SEEK_OK);
    cr_assert_eq(hr__seek_index_find(&index, (uint64_t)UINT32_MAX * 70000), 70000);
    hr__seek_index_free(&index);
    hr__seek_table_free(&t);
    free(none.data);
    free(b.data);
    assert_no_leak();
}

Test(codec, seek_table_entries_with_checksums_are_accepted)
{
    struct bytes b = {0};
    append_raw_frame(&b, "\x00\x00", 2);
    append_le(&b, 0x184D2A5Eu, 4);
    append_le(&b, 12 + 9, 4);
    append_le(&b, 14, 4);
    append_le(&b, 5, 4);
    append_le(&b, 0xDEADBEEFu, 4);
    append_le(&b, 1, 4);
    append_le(&b, 0x83, 1); /* checksums; the two unused bits set */
    append_le(&b, 0x8F92EAB1u, 4);
    struct hr__seek_index index = {0};
    cr_assert_eq(read_index(&index, &b), HR__SEEK_OK);
    cr_assert_eq(index.out_offset[1], 5);
    hr__seek_index_free(&index);
    free(b.data);
    assert_no_leak();
}

static void store(struct bytes *b, size_t from_end, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++)
        b->data[b->size - from_end + i] = (uint8_t)(value >> 8 * i);
}

Test(codec, seek_tables_that_lie_are_refused)
{
    static const struct {
        size_t from_end; /* of a 4-byte field of a table of 3 frames */
        uint32_t value;
    } lies[] = {
        {9, UINT32_MAX},  {9, 1u << 27}, {9, 4},           {9, 2},           {9, 0},
        {9, 0x20000000u}, {9, 1u << 29}, {33, UINT32_MAX}, {33, 0},          {17, UINT32_MAX},
        {17, 1},          {37, 34},      {37, 0},          {37, 0xFFFFFFFF}, {41, 0x184D2A5Du},
    };
    struct hr__seek_index index = {0};
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        struct bytes b = seekable(3);
        store(&b, lies[i].from_end, lies[i].value);
        cr_assert_eq(read_index(&index, &b), HR__SEEK_INVALID, "lie %zu", i);
        free(b.data);
    }
    for (unsigned bit = 2; bit < 7; bit++) {
        struct bytes b = seekable(3);
        b.data[b.size - 5] = (uint8_t)(1u << bit);
        cr_assert_eq(read_index(&index, &b), HR__SEEK_INVALID);
        free(b.data);
    }
    struct bytes plain = seekable(3);
    plain.data[plain.size - 1] ^= 1;
    cr_assert_eq(read_index(&index, &plain), HR__SEEK_NONE);
    free(plain.data);
    cr_assert_null(index.in_offset);
    assert_no_leak();
}

Test(codec, the_seek_table_of_joined_files_is_refused)
{
    struct bytes b = seekable(3);
    struct bytes second = seekable(4);
    append(&b, second.data, second.size);
    struct hr__seek_index index = {0};
    cr_assert_eq(read_index(&index, &b), HR__SEEK_INVALID);
    cr_assert_eq(walk_all(&b).error, HR__WALK_OK);
    free(second.data);
    free(b.data);
    assert_no_leak();
}
