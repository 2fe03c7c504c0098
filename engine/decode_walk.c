// SPDX-License-Identifier: Apache-2.0
/* The walk over frames, in what was read so far, and what becomes of each: it joins the run, is
 * streamed, or gives nothing. */
#include "decode.h"
#include "sched.h"

size_t hr__decode_available(const struct hr__slot *block)
{
    return block->state == HR__SLOT_READY ? block->size : block->moved;
}

static uint64_t max_span(const hr_pipeline *p)
{
    const uint64_t half = (uint64_t)p->depth * p->spans.slot_size / 2;
    return half > p->spans.slot_size ? half : p->spans.slot_size;
}

static bool is_skippable(const struct hr__decode_stage *d)
{
    return hr__walk_header_known(&d->walk) && d->walk.frame.skippable;
}

void hr__decode_forget_frame(struct hr__decode_stage *d)
{
    d->frame.size = 0;
    d->frame_whole = false;
    d->frame_streamed = false;
}

/* ---- errors ---- */

/* Ends this input with an error, behind all that precedes it. */
static bool fail_input(hr_pipeline *p, const hr_error *error)
{
    bool changed = false;
    if (!hr__decode_drain(p, &changed) || !hr__decode_place_error(p, error))
        return changed;
    p->decode.skipping = true;
    hr__decode_forget_frame(&p->decode);
    return true;
}

bool hr__decode_stop_walk(hr_pipeline *p)
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

/* ---- frames ---- */

/* A skippable frame gives nothing: a short one may lie within a run, a long one must not hold
 * blocks.
 */
static bool admit_skippable(hr_pipeline *p)
{
    enum { SHORT = 64 << 10 };
    struct hr__decode_stage *d = &p->decode;
    if (d->run.size && d->frame.size > SHORT && !hr__decode_submit_run(p))
        return false;
    if (d->run.size)
        hr__decode_join_run(d);
    if (hr__decode_table_fits(d) && hr__decode_table_gives(d->input) == 0)
        hr__decode_table_pass(d->input); /* some tables list them */
    hr__decode_forget_frame(d);
    return true;
}

/* A frame larger than a usual span has one for itself. Without memory for it, and with nothing
 * under way that would give some back, it is streamed. */
static bool admit_large(hr_pipeline *p)
{
    struct hr__decode_stage *d = &p->decode;
    if (d->walk.frame.bound > max_span(p))
        return hr__decode_begin_stream(p);
    struct hr__decode_stage before = *d;
    hr__decode_join_run(d);
    if (hr__decode_submit_run(p)) {
        p->n_frames_in++;
        hr__decode_forget_frame(d);
        return true;
    }
    d->input->seek_frame -= d->input->seek.n_frames ? 1 : 0;
    *d = before;
    return p->in_flight == p->n_polling && hr__lane_is_empty(&p->spans) &&
           hr__lane_is_empty(&p->chunks) && hr__decode_begin_stream(p);
}

bool hr__decode_admit_frame(hr_pipeline *p)
{
    struct hr__decode_stage *d = &p->decode;
    const struct hr__frame *frame = &d->walk.frame;
    if (frame->skippable)
        return admit_skippable(p);
    if (!hr__decode_table_fits(d)) {
        hr_error error;
        hr__decode_fail_table(d->input, d->origin + frame->in_offset, &error);
        return fail_input(p, &error);
    }
    const size_t usual = p->spans.slot_size;
    const bool joins = d->run_bound + frame->bound <= usual && d->run_dict_id == frame->dict_id;
    if (d->run.size && !joins && !hr__decode_submit_run(p))
        return false;
    if (frame->bound > usual)
        return admit_large(p);
    p->n_frames_in++;
    hr__decode_join_run(d);
    hr__decode_forget_frame(d);
    return true;
}

/* ---- bytes ---- */

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

bool hr__decode_wait(hr_pipeline *p)
{
    struct hr__decode_stage *d = &p->decode;
    const bool full = p->blocks.tail - p->blocks.head >= p->blocks.depth;
    if (d->run.size && (full || hr__sched_quiet(p) || must_stream(p)))
        return hr__decode_submit_run(p);
    return must_stream(p) && hr__decode_begin_stream(p);
}

bool hr__decode_walk(hr_pipeline *p, struct hr__slot *block)
{
    struct hr__decode_stage *d = &p->decode;
    const size_t size = hr__decode_available(block);
    if (d->walk.error)
        return hr__decode_stop_walk(p);
    if (d->cursor.at == size) {
        if (block->state != HR__SLOT_READY)
            return hr__decode_wait(p);
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

/* Jobs hold theirs themselves. */
bool hr__decode_release_blocks(hr_pipeline *p)
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
