// SPDX-License-Identifier: Apache-2.0
/* Finds the frames in what was read and gives them to workers: consecutive whole frames, as many as
 * one span holds, are one job; a frame that is larger gets a larger span, and one that is too large
 * for that is streamed, part by part. Spans are placed in stream order and decoded side by side.
 *
 *     blocks  |...........|...........|......            read so far
 *                ^run  ^frame     ^cursor                walked so far
 *     a run   = whole frames that wait until one more would not fit
 *     a frame = the one under way; when it is whole it joins the run
 *
 * A job leases what its frames can give at most before it starts, and jobs start in order, so the
 * oldest never waits for a younger one. The walk also looks at a block that is still filling:
 * frames of a pipe are decoded as soon as they are whole, and when a pipe is silent inside of a
 * frame, what is there of it is streamed. */
#include <assert.h>
#include <string.h>

#include "decode.h"
#include "sched.h"

static size_t available(const struct hr__slot *block)
{
    return block->state == HR__SLOT_READY ? block->size : block->moved;
}

static uint64_t max_span(const hr_pipeline *p)
{
    const uint64_t half = p->decode.budget / 2;
    return half > p->spans.slot_size ? half : p->spans.slot_size;
}

/* ---- spans ---- */

/* A span with room for `bound` bytes, placed. NULL: not now. */
static struct hr__slot *place_span(hr_pipeline *p, uint64_t bound)
{
    struct hr__slot *span = hr__lane_take(&p->spans, false);
    if (!span)
        return NULL;
    if (!hr__slot_lease_within(span, (size_t)bound, p->decode.budget)) {
        hr__lane_untake(span);
        return NULL;
    }
    hr__lane_place(span);
    span->input = p->decode.input;
    return span;
}

/* Bytes of a block that are not decoded, or only an error. False: no slot is free. Where a unit may
 * begin in the block before, the bytes move to memory of the span's own: see start_memory. */
static bool place_reference(hr_pipeline *p, struct hr__slot *block, const hr_error *error)
{
    struct hr__slot *span = hr__lane_take(&p->spans, block && hr__chain_unit(p->chain) > 1);
    if (!span)
        return false;
    hr__lane_place(span);
    span->input = p->decode.input;
    span->state = HR__SLOT_READY;
    if (block) {
        hr__slot_hold(block);
        span->holds = block;
        span->data = block->data;
        span->size = block->size;
        span->early = block->early;
    }
    if (error)
        span->error = *error;
    return true;
}

/* ---- the seek table ---- */

/* What it says of the frame under way; UINT64_MAX: it is not used. */
static uint64_t decoded_by_table(const struct hr__input *in)
{
    const struct hr__seek_index *seek = &in->seek;
    const size_t i = in->seek_frame;
    if (!seek->n_frames)
        return UINT64_MAX;
    return i < seek->n_frames ? seek->out_offset[i + 1] - seek->out_offset[i] : 0;
}

/* The table, if it is used, says how long the frame is. */
static bool fits_table(const struct hr__decode_stage *d)
{
    assert(d->input);
    const struct hr__seek_index *seek = &d->input->seek;
    const size_t i = d->input->seek_frame;
    if (!seek->n_frames)
        return true;
    return i < seek->n_frames &&
           seek->in_offset[i + 1] - seek->in_offset[i] == d->walk.frame.in_size;
}

static void pass_entry(struct hr__input *in)
{
    in->seek_frame += in->seek_frame < in->seek.n_frames ? 1 : 0;
}

/* ---- runs of whole frames ---- */

static bool submit_run(hr_pipeline *p)
{
    struct hr__decode_stage *d = &p->decode;
    struct hr__slot *span = place_span(p, d->run_bound);
    if (!span)
        return false;
    span->verified = d->run_verified;
    span->decode = (struct hr__decode_work){
        .from = d->run,
        .in_offset = d->run_offset,
        .expected = d->run_expected,
        .dict_id = d->run_dict_id,
    };
    hr__decode_run_job(span);
    d->run.size = 0;
    return true;
}

static void begin_run(struct hr__decode_stage *d)
{
    d->run = (struct hr__extent){.block = d->frame.block, .at = d->frame.at};
    d->run_offset = d->origin + d->walk.frame.in_offset;
    d->run_bound = 0;
    d->run_expected = d->input->seek.n_frames ? 0 : UINT64_MAX;
    d->run_dict_id = d->walk.frame.dict_id;
    d->run_verified = true;
}

static void join_run(struct hr__decode_stage *d)
{
    assert(d->input);
    const struct hr__frame *frame = &d->walk.frame;
    if (d->run.size == 0)
        begin_run(d);
    d->run.size += d->frame.size;
    d->run_bound += frame->bound;
    d->run_verified &= frame->skippable || frame->has_checksum;
    if (d->input->seek.n_frames && !frame->skippable) {
        d->run_expected += decoded_by_table(d->input);
        pass_entry(d->input);
    }
}

static void forget_frame(struct hr__decode_stage *d)
{
    d->frame.size = 0;
    d->frame_whole = false;
    d->frame_streamed = false;
}

/* ---- a frame that is streamed ---- */

static bool begin_stream(hr_pipeline *p)
{
    struct hr__decode_stage *d = &p->decode;
    struct hr__codec_error why;
    d->streaming = hr__decode_take_decoder(p, true, &why);
    if (!d->streaming) {
        hr_error error;
        const struct hr__decode_work work = {.why = why,
                                             .bad_offset = d->origin + d->walk.frame.in_offset};
        hr__decode_fail(d->input, &work, &error);
        d->skipping = place_reference(p, NULL, &error);
        return d->skipping;
    }
    hr__decoder_reset(d->streaming->decoder);
    d->stream = d->frame;
    d->stream_full = false;
    d->stream_given = 0;
    d->stream_expected = decoded_by_table(d->input);
    pass_entry(d->input);
    p->n_frames_in++;
    return true;
}

static bool stream_part(hr_pipeline *p)
{
    struct hr__decode_stage *d = &p->decode;
    if (d->stream_busy || !(d->stream.size || d->stream_full))
        return false;
    struct hr__slot *span = place_span(p, p->spans.slot_size);
    if (!span)
        return false;
    span->verified = false; /* its checksum comes at the end of the frame */
    span->decode = (struct hr__decode_work){
        .from = d->stream,
        .in_offset = d->origin + d->walk.frame.in_offset,
        .expected = UINT64_MAX,
        .dict_id = d->walk.frame.dict_id,
        .streamed = true,
    };
    hr__decode_stream_job(span);
    return true;
}

/* The walk says that the frame is whole: then the decoder must come to its end too. */
static bool check_stream(hr_pipeline *p)
{
    struct hr__decode_stage *d = &p->decode;
    if (d->stream_busy || d->stream.size || d->stream_full)
        return false;
    const struct hr__decode_work work = {
        .why = {.code = HR__CODEC_CORRUPT, .text = "it does not end where its blocks do"},
        .bad_offset = d->origin + d->walk.frame.in_offset};
    hr_error error;
    hr__decode_fail(d->input, &work, &error);
    if (!place_reference(p, NULL, &error))
        return false;
    hr__decode_end_stream(p, true);
    return true;
}

/* What was walked before this point is with the workers, and a stream is done as far as it goes. */
static bool is_drained(hr_pipeline *p, bool *changed)
{
    struct hr__decode_stage *d = &p->decode;
    if (d->run.size) {
        *changed = submit_run(p);
        return false;
    }
    if (!d->streaming)
        return true;
    if (d->stream_busy || d->stream.size || d->stream_full)
        return false; /* stream_part goes on */
    hr__decode_end_stream(p, false);
    forget_frame(d);
    return true;
}

/* ---- the walk ---- */

/* Ends this input with an error, behind all that precedes it. */
static bool fail_input(hr_pipeline *p, const hr_error *error)
{
    bool changed = false;
    if (!is_drained(p, &changed) || !place_reference(p, NULL, error))
        return changed;
    p->decode.skipping = true;
    forget_frame(&p->decode);
    return true;
}

static bool fail_walk(hr_pipeline *p)
{
    const struct hr__decode_stage *d = &p->decode;
    const enum hr__walk_error why = d->walk.error;
    hr_error error;
    /* where the walk began and ended is the table's word */
    if (d->input->seek.n_frames && why != HR__WALK_WINDOW && why != HR__WALK_RESERVED)
        hr__decode_fail_table(d->input, d->origin + d->walk.frame.in_offset, &error);
    else
        hr__decode_fail_walk(d->input, &d->walk, d->origin, &error);
    return fail_input(p, &error);
}

/* A skippable frame gives nothing: a short one may lie within a run, a long one must not hold
 * blocks.
 */
static bool admit_skippable(hr_pipeline *p)
{
    enum { SHORT = 64 << 10 };
    struct hr__decode_stage *d = &p->decode;
    if (d->run.size && d->frame.size > SHORT && !submit_run(p))
        return false;
    if (d->run.size)
        join_run(d);
    if (fits_table(d) && decoded_by_table(d->input) == 0)
        pass_entry(d->input); /* some tables list them */
    forget_frame(d);
    return true;
}

/* A frame larger than a usual span has one for itself. Without memory for it, and with nothing
 * under way that would give some back, it is streamed. */
static bool admit_large(hr_pipeline *p)
{
    struct hr__decode_stage *d = &p->decode;
    if (d->walk.frame.bound > max_span(p))
        return begin_stream(p);
    struct hr__decode_stage before = *d;
    join_run(d);
    if (submit_run(p)) {
        p->n_frames_in++;
        forget_frame(d);
        return true;
    }
    d->input->seek_frame -= d->input->seek.n_frames ? 1 : 0;
    *d = before;
    return p->in_flight == p->n_polling && hr__lane_is_empty(&p->spans) &&
           hr__lane_is_empty(&p->chunks) && begin_stream(p);
}

static bool admit_frame(hr_pipeline *p)
{
    struct hr__decode_stage *d = &p->decode;
    const struct hr__frame *frame = &d->walk.frame;
    if (frame->skippable)
        return admit_skippable(p);
    if (!fits_table(d)) {
        hr_error error;
        hr__decode_fail_table(d->input, d->origin + frame->in_offset, &error);
        return fail_input(p, &error);
    }
    const size_t usual = p->spans.slot_size;
    const bool joins = d->run_bound + frame->bound <= usual && d->run_dict_id == frame->dict_id;
    if (d->run.size && !joins && !submit_run(p))
        return false;
    if (frame->bound > usual)
        return admit_large(p);
    p->n_frames_in++;
    join_run(d);
    forget_frame(d);
    return true;
}

static bool is_skippable(const struct hr__decode_stage *d)
{
    return hr__walk_header_known(&d->walk) && d->walk.frame.skippable;
}

/* The frame under way need not be waited for: it is too large, or it fills all blocks, or its
 * sender pauses inside of it. */
static bool must_stream(const hr_pipeline *p)
{
    const struct hr__decode_stage *d = &p->decode;
    if (!d->frame.size || d->streaming || !hr__walk_header_known(&d->walk) || is_skippable(d))
        return false;
    const bool all_blocks = p->blocks.tail - d->frame.block >= p->blocks.depth;
    const bool silent = d->input->in_order && !d->input->readable && hr__sched_quiet(p);
    return d->walk.frame.bound > max_span(p) || all_blocks || silent;
}

/* Nothing more can be walked at present. */
static bool wait_for_bytes(hr_pipeline *p)
{
    struct hr__decode_stage *d = &p->decode;
    const bool full = p->blocks.tail - p->blocks.head >= p->blocks.depth;
    if (d->run.size && (full || hr__sched_quiet(p) || must_stream(p)))
        return submit_run(p);
    return must_stream(p) && begin_stream(p);
}

static bool walk(hr_pipeline *p, struct hr__slot *block)
{
    struct hr__decode_stage *d = &p->decode;
    const size_t size = available(block);
    if (d->walk.error)
        return fail_walk(p);
    if (d->cursor.at == size) {
        if (block->state != HR__SLOT_READY)
            return wait_for_bytes(p);
        if (block->error.code)
            return fail_input(p, &block->error);
        d->cursor.block++;
        d->cursor.at = 0;
        return true;
    }
    if (d->frame.size == 0)
        d->frame = d->cursor;
    size_t used = 0;
    const enum hr__walk_result result =
        hr__walk_feed(&d->walk, block->data + d->cursor.at, size - d->cursor.at, &used);
    if (result == HR__WALK_ERROR)
        return true;
    d->cursor.at += used;
    d->frame.size += used;
    if (d->streaming)
        d->stream.size += used;
    d->frame_whole = result == HR__WALK_FRAME;
    return true;
}

/* ---- inputs ---- */

/* The first bytes of the input that are there, over blocks; all: no more of them will come. */
static size_t peek(const hr_pipeline *p, uint8_t first[4], bool *all)
{
    size_t n = 0;
    *all = false;
    for (uint64_t i = p->decode.cursor.block; i < p->blocks.tail && n < 4; i++) {
        const struct hr__slot *block = hr__lane_at(&p->blocks, i);
        const size_t here = available(block) < 4 - n ? available(block) : 4 - n;
        memcpy(first + n, block->data ? block->data : "", here);
        n += here;
        *all = block->ends_input || block->error.code;
        if (block->state != HR__SLOT_READY)
            break;
    }
    return n;
}

/* Whether n bytes can be the begin of a frame (RFC 8878, 3.1.1 and 3.1.2). */
bool hr__decode_may_be_frame(const uint8_t *first, size_t n)
{
    static const uint8_t frame[4] = {0x28, 0xb5, 0x2f, 0xfd};
    static const uint8_t skippable[4] = {0x50, 0x2a, 0x4d, 0x18};
    bool is_frame = true;
    bool is_skippable_frame = true;
    for (size_t i = 0; i < n; i++) {
        is_frame &= first[i] == frame[i];
        is_skippable_frame &= (i == 0 ? first[i] & 0xf0 : first[i]) == skippable[i];
    }
    return is_frame || is_skippable_frame;
}

static bool decide_codec(hr_pipeline *p)
{
    struct hr__input *in = p->decode.input;
    uint8_t first[4];
    bool all;
    const size_t n = peek(p, first, &all);
    if (n < 4 && !all && hr__decode_may_be_frame(first, n))
        return false;
    in->codec = n == 4 && hr__decode_may_be_frame(first, n) ? HR_CODEC_ZSTD : HR_CODEC_NONE;
    if (in->codec == HR_CODEC_NONE && in->decoded_left < UINT64_MAX - in->decoded_skip)
        in->end = in->decoded_skip + in->decoded_left; /* plain bytes: none beyond is taken */
    return true;
}

static bool begin_input(hr_pipeline *p, struct hr__slot *block)
{
    struct hr__decode_stage *d = &p->decode;
    d->input = block->input;
    d->origin = block->input->origin + block->input_offset;
    d->skipping = false;
    forget_frame(d);
    hr__walk_init(&d->walk, 1ull << p->window_log);
    return true;
}

static bool end_input(hr_pipeline *p)
{
    struct hr__decode_stage *d = &p->decode;
    bool changed = false;
    if (!is_drained(p, &changed))
        return changed;
    if (d->input->codec == HR_CODEC_ZSTD && !d->skipping && hr__walk_finish(&d->walk))
        return fail_walk(p);
    d->input = NULL;
    d->cursor.block++;
    d->cursor.at = 0;
    return true;
}

static bool pass_on(hr_pipeline *p, struct hr__slot *block)
{
    if (block->state != HR__SLOT_READY)
        return false;
    if (!place_reference(p, block, block->error.code ? &block->error : NULL))
        return false;
    p->decode.cursor.block++;
    return true;
}

/* Its requests must be done. An error behind the range does not count: the next source follows. */
static bool skip_block(hr_pipeline *p, const struct hr__slot *block)
{
    struct hr__decode_stage *d = &p->decode;
    if (block->state != HR__SLOT_READY)
        return false;
    if (block->error.code && d->input->decoded_left == 0)
        p->input_ended = p->current == p->n_inputs;
    d->cursor.block++;
    d->cursor.at = 0;
    return true;
}

/* The range is full: nothing that follows in this input is wanted. */
static void drop_rest(hr_pipeline *p)
{
    struct hr__decode_stage *d = &p->decode;
    if (d->skipping || d->stream_busy || d->input->decoded_left != 0 ||
        d->input->codec != HR_CODEC_ZSTD)
        return;
    if (d->streaming)
        hr__decode_end_stream(p, false);
    d->run.size = 0;
    forget_frame(d);
    d->skipping = true;
    hr__sched_stop_input(d->input); /* of an empty range, nobody has done it */
}

/* ---- the stage ---- */

static bool step_input(hr_pipeline *p, struct hr__slot *block)
{
    struct hr__decode_stage *d = &p->decode;
    if (block->ends_input)
        return end_input(p);
    if (d->skipping)
        return skip_block(p, block);
    switch (d->input->codec) {
    case HR_CODEC_AUTO:
        return decide_codec(p);
    case HR_CODEC_NONE:
        return pass_on(p, block);
    case HR_CODEC_ZSTD:
        break;
    }
    return walk(p, block);
}

static bool step(hr_pipeline *p)
{
    struct hr__decode_stage *d = &p->decode;
    if (d->input)
        drop_rest(p);
    if (d->streaming && stream_part(p))
        return true;
    if (d->frame_streamed) {
        forget_frame(d);
        return true;
    }
    if (d->frame_whole)
        return d->streaming ? check_stream(p) : admit_frame(p);
    if (d->cursor.block == p->blocks.tail) {
        d->ended = p->input_ended && !d->input;
        return d->ended || (d->input && wait_for_bytes(p));
    }
    struct hr__slot *block = hr__lane_at(&p->blocks, d->cursor.block);
    return d->input ? step_input(p, block) : begin_input(p, block);
}

/* Blocks that neither the walk nor a stream needs any more; jobs hold theirs themselves. */
static bool release_blocks(hr_pipeline *p)
{
    const struct hr__decode_stage *d = &p->decode;
    uint64_t oldest = d->cursor.block;
    if (d->frame.size && !d->streaming && !is_skippable(d))
        oldest = d->frame.block;
    if (d->streaming && d->stream.block < oldest)
        oldest = d->stream.block;
    if (d->run.size && d->run.block < oldest)
        oldest = d->run.block;
    const bool some = p->blocks.head < oldest;
    while (p->blocks.head < oldest) {
        struct hr__slot *block = hr__lane_head(&p->blocks);
        hr__lane_pass(&p->blocks);
        hr__slot_drop(block);
    }
    return some;
}

bool hr__decode_stage(hr_pipeline *p)
{
    bool changed = release_blocks(p); /* a stream went on since */
    while (!p->decode.ended && step(p)) {
        changed = true;
        release_blocks(p);
    }
    return changed;
}
