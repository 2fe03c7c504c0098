// SPDX-License-Identifier: Apache-2.0
/* The walk over the frames of a zstd stream: a state machine that gathers the few bytes of each
 * header and jumps over everything else.
 *
 *     MAGIC ─┬─▶ DESCRIPTOR ─▶ HEADER ─▶ BLOCK ─▶ BODY ─┬─▶ CHECKSUM ─▶ end of frame
 *            │                            ▲─────────────┤                    ▲
 *            └─▶ SKIP_LENGTH ─▶ SKIP_BODY ──────────────┴────────────────────┘
 *
 * Section numbers are those of RFC 8878. */
#include "codec.h"

#include <string.h>

#define MAGIC 0xFD2FB528u           /* 3.1.1 */
#define SKIPPABLE_MAGIC 0x184D2A50u /* 3.1.2; the low four bits are free */
#define SKIPPABLE_MASK 0xFFFFFFF0u

enum state {
    AT_MAGIC,
    AT_DESCRIPTOR,
    AT_HEADER,
    AT_BLOCK,
    IN_BODY,
    IN_CHECKSUM,
    AT_SKIP_LENGTH,
    IN_SKIP_BODY
};

enum block_type { BLOCK_RAW, BLOCK_RLE, BLOCK_COMPRESSED, BLOCK_RESERVED }; /* 3.1.1.2.2 */

/* The next thing is a header of `need` bytes more (those in field[] stay). */
static void gather(struct hr__walk *w, enum state state, unsigned need)
{
    w->state = (int)state;
    w->need = w->have + need;
}

static void pass_over(struct hr__walk *w, enum state state, uint64_t bytes)
{
    w->state = (int)state;
    w->skip = bytes;
    w->have = w->need = 0;
}

static enum hr__walk_result fail(struct hr__walk *w, enum hr__walk_error error, uint64_t offset)
{
    w->error = error;
    w->error_offset = offset;
    return HR__WALK_ERROR;
}

static void begin_frame(struct hr__walk *w)
{
    w->frame = (struct hr__frame){.in_offset = w->offset};
    w->header_known = false;
    w->last_block = false;
    w->block_sum = 0;
    w->have = 0;
    gather(w, AT_MAGIC, 4);
}

/* Leaves the frame in place for the caller to read; the next feed begins another. */
static enum hr__walk_result end_frame(struct hr__walk *w)
{
    struct hr__frame *f = &w->frame;
    f->in_size = w->offset - f->in_offset;
    if (w->block_sum < f->bound)
        f->bound = w->block_sum;
    w->n_frames++;
    pass_over(w, AT_MAGIC, 0);
    return HR__WALK_FRAME;
}

static bool is_skippable(uint32_t magic)
{
    return (magic & SKIPPABLE_MASK) == SKIPPABLE_MAGIC;
}

static enum hr__walk_result take_magic(struct hr__walk *w)
{
    uint32_t magic = (uint32_t)hr__load_le(w->field, 4);
    w->have = 0;
    if (magic == MAGIC)
        gather(w, AT_DESCRIPTOR, 1);
    else if (is_skippable(magic))
        gather(w, AT_SKIP_LENGTH, 4);
    else
        return fail(w, w->n_frames ? HR__WALK_TRAILING : HR__WALK_NOT_ZSTD, w->frame.in_offset);
    return HR__WALK_MORE;
}

/* 3.1.1.1.1: how long the rest of the header is stands in its first byte. */
static unsigned window_field_size(uint8_t descriptor)
{
    return descriptor & 0x20 ? 0 : 1; /* a single segment needs no window of its own */
}

static unsigned dict_field_size(uint8_t descriptor)
{
    static const uint8_t sizes[] = {0, 1, 2, 4};
    return sizes[descriptor & 3];
}

static unsigned content_field_size(uint8_t descriptor)
{
    unsigned flag = descriptor >> 6;
    return flag == 0 ? !window_field_size(descriptor) : 1u << flag;
}

static enum hr__walk_result take_descriptor(struct hr__walk *w)
{
    uint8_t d = w->field[0];
    if (d & 0x08)
        return fail(w, HR__WALK_RESERVED, w->offset - 1);
    w->frame.has_checksum = (d & 0x04) != 0;
    gather(w, AT_HEADER, window_field_size(d) + dict_field_size(d) + content_field_size(d));
    return HR__WALK_MORE;
}

/* 3.1.1.1.2 */
static uint64_t window_of(uint8_t field)
{
    uint64_t base = (uint64_t)1 << (10 + (field >> 3));
    return base + base / 8 * (field & 7);
}

static uint64_t content_of(const uint8_t *p, unsigned n)
{
    if (n == 0)
        return HR__SIZE_UNKNOWN;
    return hr__load_le(p, n) + (n == 2 ? 256 : 0); /* 3.1.1.1.4 */
}

static enum hr__walk_result take_header(struct hr__walk *w)
{
    struct hr__frame *f = &w->frame;
    const uint8_t *p = w->field;
    uint8_t d = *p++;
    unsigned n_window = window_field_size(d);
    unsigned n_dict = dict_field_size(d);

    f->window_size = n_window ? window_of(*p) : 0;
    p += n_window;
    f->dict_id = (uint32_t)hr__load_le(p, n_dict);
    f->content_size = content_of(p + n_dict, content_field_size(d));
    if (!n_window)
        f->window_size = f->content_size;
    if (f->window_size > w->max_window)
        return fail(w, HR__WALK_WINDOW, f->in_offset);

    f->bound = f->content_size == HR__SIZE_UNKNOWN ? 0 : f->content_size;
    w->header_known = true;
    w->have = 0;
    gather(w, AT_BLOCK, 3);
    return HR__WALK_MORE;
}

/* 3.1.1.2: bit 0 last, bits 1-2 type, the rest size (of an RLE block: decoded size). The maximum
 * holds for all types, encoded and decoded; the reference decoder enforces it when it streams. */
static enum hr__walk_result take_block(struct hr__walk *w)
{
    struct hr__frame *f = &w->frame;
    uint32_t header = (uint32_t)hr__load_le(w->field, 3);
    unsigned type = header >> 1 & 3;
    uint64_t size = header >> 3;
    uint64_t max = f->window_size < HR__BLOCK_MAX ? f->window_size : HR__BLOCK_MAX;
    if (type == BLOCK_RESERVED || size > max)
        return fail(w, HR__WALK_RESERVED, w->offset - 3);

    w->block_sum += type == BLOCK_COMPRESSED ? max : size;
    if (f->content_size == HR__SIZE_UNKNOWN)
        f->bound = w->block_sum;
    w->last_block = header & 1;
    pass_over(w, IN_BODY, type == BLOCK_RLE ? 1 : size);
    return HR__WALK_MORE;
}

static enum hr__walk_result take_skip_length(struct hr__walk *w)
{
    w->frame.skippable = true;
    w->header_known = true;
    pass_over(w, IN_SKIP_BODY, hr__load_le(w->field, 4));
    return HR__WALK_MORE;
}

static enum hr__walk_result after_body(struct hr__walk *w)
{
    if (!w->last_block) {
        gather(w, AT_BLOCK, 3);
        return HR__WALK_MORE;
    }
    if (!w->frame.has_checksum)
        return end_frame(w);
    pass_over(w, IN_CHECKSUM, 4);
    return HR__WALK_MORE;
}

/* All bytes of the current state are in. */
static enum hr__walk_result advance(struct hr__walk *w)
{
    switch ((enum state)w->state) {
    case AT_MAGIC:
        return take_magic(w);
    case AT_DESCRIPTOR:
        return take_descriptor(w);
    case AT_HEADER:
        return take_header(w);
    case AT_BLOCK:
        return take_block(w);
    case IN_BODY:
        return after_body(w);
    case AT_SKIP_LENGTH:
        return take_skip_length(w);
    case IN_CHECKSUM:
    case IN_SKIP_BODY:
        return end_frame(w);
    }
    return HR__WALK_ERROR;
}

/* Takes what the current state still wants, or all there is; returns how much. */
static size_t take(struct hr__walk *w, const uint8_t *p, size_t size)
{
    uint64_t want = w->skip ? w->skip : w->need - w->have;
    size_t n = want < size ? (size_t)want : size;
    if (w->skip) {
        w->skip -= n;
    } else if (n) {
        memcpy(w->field + w->have, p, n);
        w->have += (unsigned)n;
    }
    w->offset += n;
    return n;
}

void hr__walk_init(struct hr__walk *w, uint64_t max_window)
{
    *w = (struct hr__walk){.max_window = max_window};
}

enum hr__walk_result hr__walk_feed(struct hr__walk *w, const void *data, size_t size, size_t *used)
{
    const uint8_t *p = data;
    size_t n = 0;
    enum hr__walk_result result = w->error ? HR__WALK_ERROR : HR__WALK_MORE;
    while (result == HR__WALK_MORE && n < size) {
        if (w->state == AT_MAGIC && w->need == 0)
            begin_frame(w);
        n += take(w, p + n, size - n);
        /* More than once: an empty block, for one, is done as soon as its header is. */
        while (result == HR__WALK_MORE && !w->skip && w->have == w->need)
            result = advance(w);
    }
    *used = n;
    return result;
}

bool hr__walk_header_known(const struct hr__walk *w)
{
    return w->header_known;
}

/* Whether field[], shorter than a magic number, is the beginning of one. */
static bool may_be_magic(const struct hr__walk *w)
{
    uint32_t mask = (1u << 8 * w->have) - 1;
    uint32_t bits = (uint32_t)hr__load_le(w->field, w->have);
    return bits == (MAGIC & mask) ||
           (bits & SKIPPABLE_MASK) == (SKIPPABLE_MAGIC & SKIPPABLE_MASK & mask);
}

enum hr__walk_error hr__walk_finish(struct hr__walk *w)
{
    bool between = w->state == AT_MAGIC && w->have == 0;
    if (w->error || (between && w->n_frames))
        return w->error;
    if (w->state == AT_MAGIC && !w->n_frames)
        fail(w, HR__WALK_NO_FRAME, 0);
    else if (w->state == AT_MAGIC && !may_be_magic(w))
        fail(w, HR__WALK_TRAILING, w->frame.in_offset);
    else
        fail(w, HR__WALK_TRUNCATED, w->offset);
    return w->error;
}
