// SPDX-License-Identifier: Apache-2.0
#include "zstd_inputs.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

struct buffer sample(size_t size)
{
    struct buffer b = {.data = malloc(size + 1), .size = size};
    cr_assert_not_null(b.data);
    uint32_t x = 12345;
    for (size_t i = 0; i < size; i++) {
        x = x * 1664525u + 1013904223u;
        b.data[i] = (uint8_t)(i / 4096 % 2 ? x >> 24 : 'a' + (x >> 30));
    }
    return b;
}

void append_frame(struct buffer *b, const struct buffer *content)
{
    struct hr__encoder *e = NULL;
    cr_assert_eq(hr__encoder_create(&e, 3, NULL, 0, NULL), HR__CODEC_OK);
    size_t cap = hr__encode_bound(content->size);
    size_t written = 0;
    void *frame = malloc(cap);
    cr_assert_eq(hr__encoder_frame(e, content->data, content->size, frame, cap, &written, NULL),
                 HR__CODEC_OK);
    buffer_add(b, frame, written);
    free(frame);
    hr__encoder_free(e);
}

void append_piped_frame(struct buffer *b, const struct buffer *content)
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
        buffer_add(b, buffer, out.pos);
    }
    ZSTD_freeCCtx(c);
}

void append_skippable(struct buffer *b, unsigned variant, size_t size)
{
    struct buffer content = sample(size);
    buffer_add_le(b, 0x184D2A50u + variant, 4);
    buffer_add_le(b, size, 4);
    buffer_add(b, content.data, size);
    free(content.data);
}

struct walked walk(const void *data, size_t size, size_t step, uint64_t max_window)
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

struct walked walk_all(const struct buffer *b)
{
    return walk(b->data, b->size, SIZE_MAX, MAX_WINDOW);
}

void assert_same_walk(const struct walked *a, const struct walked *b)
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

struct hr__decoder *decoder(const struct buffer *dict)
{
    struct hr__decoder *d = NULL;
    cr_assert_eq(
        hr__decoder_create(&d, dict ? dict->data : NULL, dict ? dict->size : 0, WINDOW_LOG, NULL),
        HR__CODEC_OK);
    return d;
}

struct buffer decode_frames(const struct buffer *b)
{
    struct walked r = walk_all(b);
    cr_assert_eq(r.error, HR__WALK_OK);
    struct hr__decoder *d = decoder(NULL);
    struct buffer all = {0};
    for (size_t i = 0; i < r.n; i++) {
        const struct hr__frame *f = &r.frames[i];
        void *dst = malloc((size_t)f->bound + 1);
        size_t produced = 0;
        cr_assert_eq(hr__decoder_frame(d, b->data + f->in_offset, (size_t)f->in_size, dst,
                                       (size_t)f->bound, &produced, NULL),
                     HR__CODEC_OK);
        if (f->content_size != HR__SIZE_UNKNOWN)
            cr_assert_eq(produced, f->content_size);
        buffer_add(&all, dst, produced);
        free(dst);
    }
    hr__decoder_free(d);
    return all;
}

struct buffer stream(const struct buffer *b, size_t in_step, size_t out_step,
                     const struct buffer *dict, enum hr__step *last, struct hr__codec_error *err)
{
    struct hr__decoder *d = decoder(dict);
    struct buffer all = {0};
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
        buffer_add(&all, dst, io.produced);
        if (*last == HR__STEP_NEED_INPUT)
            cr_assert_eq(io.used, io.size);
    } while (*last != HR__STEP_ERROR && (at < b->size || *last == HR__STEP_OUTPUT_FULL));
    free(dst);
    hr__decoder_free(d);
    return all;
}

void assert_same_bytes(const struct buffer *a, const struct buffer *b)
{
    cr_assert_eq(a->size, b->size);
    cr_assert(same_bytes(a, b));
}

struct buffer mixture(void)
{
    struct buffer b = {0};
    struct buffer small = sample(700);
    struct buffer large = sample(300000);
    struct buffer empty = {0};
    append_skippable(&b, 0, 3);
    append_frame(&b, &small);
    append_piped_frame(&b, &large);
    append_frame(&b, &empty);
    append_skippable(&b, 15, 0);
    add_frame_by_hand(&b, "\x00\x00", 2);
    append_frame(&b, &large);
    free(small.data);
    free(large.data);
    return b;
}
