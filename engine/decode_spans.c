// SPDX-License-Identifier: Apache-2.0
/* What is decoded takes its place in stream order here: runs of whole frames, the parts of a frame
 * that is streamed, bytes that are passed on as they are, and errors. */
#include <assert.h>

#include "decode.h"

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

/* Where a unit may begin in the block before, the bytes move to memory of the span's own: see
 * may_be_joined in read_stage.c. */
bool hr__decode_place_block(hr_pipeline *p, struct hr__slot *block)
{
    struct hr__slot *span = hr__lane_take(&p->spans, hr__chain_unit(p->chain) > 1);
    if (!span)
        return false;
    hr__lane_place(span);
    span->input = p->decode.input;
    hr__slot_hold(block);
    span->holds = block;
    span->data = block->data;
    span->size = block->size;
    span->early = block->early;
    if (block->error.code)
        span->error = block->error;
    span->state = HR__SLOT_READY;
    return true;
}

bool hr__decode_place_error(hr_pipeline *p, const hr_error *error)
{
    struct hr__slot *span = hr__lane_place_error(&p->spans, error);
    if (span)
        span->input = p->decode.input;
    return span != NULL;
}

/* ---- runs of whole frames ---- */

bool hr__decode_submit_run(hr_pipeline *p)
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

void hr__decode_join_run(struct hr__decode_stage *d)
{
    assert(d->input);
    const struct hr__frame *frame = &d->walk.frame;
    if (d->run.size == 0)
        begin_run(d);
    d->run.size += d->frame.size;
    d->run_bound += frame->bound;
    d->run_verified &= frame->skippable || frame->has_checksum;
    if (d->input->seek.n_frames && !frame->skippable) {
        d->run_expected += hr__decode_table_gives(d->input);
        hr__decode_table_pass(d->input);
    }
}

/* ---- a frame that is streamed ---- */

bool hr__decode_begin_stream(hr_pipeline *p)
{
    struct hr__decode_stage *d = &p->decode;
    struct hr__codec_error why;
    d->streaming = hr__decode_take_decoder(p, true, &why);
    if (!d->streaming) {
        hr_error error;
        const struct hr__decode_work work = {.why = why,
                                             .bad_offset = d->origin + d->walk.frame.in_offset};
        hr__decode_fail(d->input, &work, &error);
        d->skipping = hr__decode_place_error(p, &error);
        return d->skipping;
    }
    hr__decoder_reset(d->streaming->decoder);
    d->stream = d->frame;
    d->stream_full = false;
    d->stream_given = 0;
    d->stream_expected = hr__decode_table_gives(d->input);
    hr__decode_table_pass(d->input);
    p->n_frames_in++;
    return true;
}

bool hr__decode_stream_part(hr_pipeline *p)
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

bool hr__decode_check_stream(hr_pipeline *p)
{
    struct hr__decode_stage *d = &p->decode;
    if (d->stream_busy || d->stream.size || d->stream_full)
        return false;
    const struct hr__decode_work work = {
        .why = {.code = HR__CODEC_CORRUPT, .text = "it does not end where its blocks do"},
        .bad_offset = d->origin + d->walk.frame.in_offset};
    hr_error error;
    hr__decode_fail(d->input, &work, &error);
    if (!hr__decode_place_error(p, &error))
        return false;
    hr__decode_end_stream(p, true);
    return true;
}

/* ---- both ---- */

bool hr__decode_drain(hr_pipeline *p, bool *changed)
{
    struct hr__decode_stage *d = &p->decode;
    if (d->run.size) {
        *changed = hr__decode_submit_run(p);
        return false;
    }
    if (!d->streaming)
        return true;
    if (d->stream_busy || d->stream.size || d->stream_full)
        return false; /* stream_part goes on */
    hr__decode_end_stream(p, false);
    hr__decode_forget_frame(d);
    return true;
}
