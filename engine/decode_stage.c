// SPDX-License-Identifier: Apache-2.0
/* The stage: which source is walked, decoded or passed on, and the next step of that. */
#include "decode.h"
#include "sched.h"

/* ---- inputs ---- */

static bool begin_input(hr_pipeline *p, struct hr__slot *block)
{
    struct hr__decode_stage *d = &p->decode;
    d->input = block->input;
    d->origin = block->input->origin + block->input_offset;
    d->skipping = false;
    hr__decode_forget_frame(d);
    hr__walk_init(&d->walk, 1ull << p->window_log);
    return true;
}

static bool end_input(hr_pipeline *p)
{
    struct hr__decode_stage *d = &p->decode;
    bool changed = false;
    if (!hr__decode_drain(p, &changed))
        return changed;
    if (d->input->codec == HR_CODEC_ZSTD && !d->skipping && hr__walk_finish(&d->walk))
        return hr__decode_stop_walk(p);
    d->input = NULL;
    d->cursor.block++;
    d->cursor.at = 0;
    return true;
}

static bool pass_on(hr_pipeline *p, struct hr__slot *block)
{
    if (block->state != HR__SLOT_READY)
        return false;
    if (!hr__decode_place_block(p, block))
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
    hr__decode_forget_frame(d);
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
        return hr__decode_find_codec(p);
    case HR_CODEC_NONE:
        return pass_on(p, block);
    case HR_CODEC_ZSTD:
        break;
    }
    return hr__decode_walk(p, block);
}

static bool step(hr_pipeline *p)
{
    struct hr__decode_stage *d = &p->decode;
    if (d->input)
        drop_rest(p);
    if (d->streaming && hr__decode_stream_part(p))
        return true;
    if (d->frame_streamed) {
        hr__decode_forget_frame(d);
        return true;
    }
    if (d->frame_whole)
        return d->streaming ? hr__decode_check_stream(p) : hr__decode_admit_frame(p);
    if (d->cursor.block == p->blocks.tail) {
        d->ended = p->input_ended && !d->input;
        return d->ended || (d->input && hr__decode_wait(p));
    }
    struct hr__slot *block = hr__lane_at(&p->blocks, d->cursor.block);
    return d->input ? step_input(p, block) : begin_input(p, block);
}

bool hr__decode_stage(hr_pipeline *p)
{
    bool changed = hr__decode_release_blocks(p); /* a stream went on since */
    while (!p->decode.ended && step(p)) {
        changed = true;
        hr__decode_release_blocks(p);
    }
    return changed;
}
