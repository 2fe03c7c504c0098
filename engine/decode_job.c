// SPDX-License-Identifier: Apache-2.0
/* Decoding on workers. Blocks lie one behind the other in a ring, so what a job reads is one piece
 * of memory, or two where it goes over the ring's end. One piece is decoded at once, two are
 * streamed into the same place. */
#include "codecs.h"
#include "decode.h"
#include "sched.h"
#include "status.h"

static hr_pipeline *pipeline_of(const struct hr__slot *span)
{
    return span->lane->pipeline;
}

struct hr__codec_entry *hr__decode_take_decoder(hr_pipeline *p, bool streams,
                                                struct hr__codec_error *error)
{
    const struct hr__codec_kind kind = {.window_log = p->window_log,
                                        .streams = streams,
                                        .dict = p->dict,
                                        .dict_size = p->dict_size};
    return hr__codecs_take(&p->loop->context->codecs, kind, error);
}

/* The next consecutive bytes of the extent. */
static size_t next_piece(const struct hr__lane *blocks, const struct hr__extent *from,
                         const char **data)
{
    const size_t ring = blocks->depth * blocks->slot_size;
    const size_t at = (size_t)(from->block % blocks->depth) * blocks->slot_size + from->at;
    *data = (const char *)blocks->ring->memory + at;
    return from->size < ring - at ? (size_t)from->size : ring - at;
}

static void advance(const struct hr__lane *blocks, struct hr__extent *from, size_t n)
{
    const uint64_t at = from->at + n;
    from->size -= n;
    from->block += at / blocks->slot_size;
    from->at = (size_t)(at % blocks->slot_size);
}

/* How far a span has come. */
struct progress {
    struct hr__extent rest;
    size_t produced;
    uint64_t consumed;
    size_t good_produced; /* up to the last whole frame */
    uint64_t good_consumed;
};

static enum hr__step step(struct hr__slot *span, struct hr__decoder *decoder, size_t cap,
                          struct progress *at, struct hr__codec_error *error)
{
    const struct hr__lane *blocks = &pipeline_of(span)->blocks;
    struct hr__step_io io = {.dst = span->memory + at->produced, .cap = cap - at->produced};
    const char *data;
    io.size = next_piece(blocks, &at->rest, &data);
    io.src = data;
    const enum hr__step result = hr__decoder_step(decoder, &io, error);
    at->produced += io.produced;
    at->consumed += io.used;
    advance(blocks, &at->rest, io.used);
    if (result == HR__STEP_FRAME_DONE) {
        at->good_produced = at->produced;
        at->good_consumed = at->consumed;
    }
    return result;
}

/* Frame by frame: for two pieces, and to find which of several frames is the bad one. */
static enum hr__codec_code decode_by_steps(struct hr__slot *span, struct hr__decoder *decoder,
                                           struct progress *at, struct hr__codec_error *error)
{
    const size_t cap = span->region->size - span->lane->headroom;
    hr__decoder_reset(decoder);
    unsigned n_full = 0; /* a full span may still want a step for the frame's checksum */
    while (at->rest.size && n_full < 2) {
        const enum hr__step result = step(span, decoder, cap, at, error);
        if (result == HR__STEP_ERROR)
            return error->code;
        n_full = result == HR__STEP_OUTPUT_FULL ? n_full + 1 : 0;
    }
    if (at->good_produced == at->produced && at->rest.size == 0)
        return HR__CODEC_OK;
    *error = (struct hr__codec_error){.code = HR__CODEC_SIZE_MISMATCH,
                                      .text = "it gives more than its blocks can hold"};
    return error->code;
}

static enum hr__codec_code decode_at_once(struct hr__slot *span, struct hr__decoder *decoder,
                                          struct progress *at, struct hr__codec_error *error)
{
    const char *data;
    const struct hr__extent *from = &span->decode.from;
    next_piece(&pipeline_of(span)->blocks, from, &data);
    return hr__decoder_frame(decoder, data, (size_t)from->size, span->memory,
                             span->region->size - span->lane->headroom, &at->produced, error);
}

/* ---- whole frames ---- */

static void decode_run(struct hr__job *job)
{
    struct hr__slot *span = job->owner;
    struct hr__decode_work *work = &span->decode;
    hr_pipeline *p = pipeline_of(span);
    struct progress at = {.rest = work->from};
    if (hr__pipeline_is_cancelled(p))
        return;
    const char *data;
    const bool pieces = next_piece(&p->blocks, &work->from, &data) < work->from.size;
    struct hr__codec_entry *entry = hr__decode_take_decoder(p, pieces, &work->why);
    enum hr__codec_code code = entry ? HR__CODEC_FAILED : work->why.code;
    if (entry && !pieces)
        code = decode_at_once(span, entry->decoder, &at, &work->why);
    if (entry && code != HR__CODEC_OK) {
        at = (struct progress){.rest = work->from};
        code = decode_by_steps(span, entry->decoder, &at, &work->why);
    }
    hr__codecs_return(&p->loop->context->codecs, entry);
    work->why.code = code;
    work->bad_offset = work->in_offset + at.good_consumed;
    span->size = code == HR__CODEC_OK ? at.produced : at.good_produced;
    work->consumed = work->from.size;
}

static void hold_blocks(struct hr__slot *span, bool hold)
{
    struct hr__lane *blocks = &pipeline_of(span)->blocks;
    const struct hr__extent *from = &span->decode.from;
    if (from->size == 0)
        return;
    const uint64_t last = from->block + (from->at + from->size - 1) / blocks->slot_size;
    for (uint64_t i = from->block; i <= last; i++)
        if (hold)
            hr__slot_hold(hr__lane_at(blocks, i));
        else
            hr__slot_drop(hr__lane_at(blocks, i));
}

static void span_done(struct hr__slot *span)
{
    const struct hr__decode_work *work = &span->decode;
    hr__sched_ran(span, HR_STAGE_DECODE);
    hold_blocks(span, false);
    if (work->why.code != HR__CODEC_OK) {
        hr__decode_fail(span->input, work, &span->error);
    } else if (work->expected != UINT64_MAX && work->expected != span->size) {
        hr__decode_fail_table(span->input, work->in_offset, &span->error);
        span->size = 0;
    }
    hr__sched_count(pipeline_of(span), HR_STAGE_DECODE, span->decode.consumed, span->size);
}

static void decode_run_done(struct hr__job *job)
{
    struct hr__slot *span = job->owner;
    span_done(span);
    span->state = HR__SLOT_READY;
}

void hr__decode_run_job(struct hr__slot *span)
{
    hold_blocks(span, true);
    hr__sched_run(span, HR_STAGE_DECODE, decode_run, decode_run_done);
}

/* ---- a frame that is streamed ---- */

void hr__decode_end_stream(hr_pipeline *p, bool failed)
{
    struct hr__decode_stage *d = &p->decode;
    hr__decoder_reset(d->streaming->decoder);
    hr__codecs_return(&p->loop->context->codecs, d->streaming);
    d->streaming = NULL;
    d->frame_streamed = true;
    d->skipping |= failed;
}

static void decode_part(struct hr__job *job)
{
    struct hr__slot *span = job->owner;
    struct hr__decode_work *work = &span->decode;
    struct hr__decoder *decoder = pipeline_of(span)->decode.streaming->decoder;
    struct progress at = {.rest = work->from};
    const size_t cap = span->lane->slot_size;
    enum hr__step result;
    do
        result = step(span, decoder, cap, &at, &work->why);
    while (at.rest.size && result == HR__STEP_NEED_INPUT);
    if (result != HR__STEP_ERROR)
        work->why.code = HR__CODEC_OK;
    span->size = at.produced;
    work->consumed = at.consumed;
    work->bad_offset = work->in_offset;
    work->frame_done = result == HR__STEP_FRAME_DONE;
    work->full = result == HR__STEP_OUTPUT_FULL;
}

static void decode_part_done(struct hr__job *job)
{
    struct hr__slot *span = job->owner;
    hr_pipeline *p = pipeline_of(span);
    struct hr__decode_stage *d = &p->decode;
    span_done(span);
    d->stream_given += span->size;
    if (span->decode.frame_done && d->stream_expected != UINT64_MAX &&
        d->stream_expected != d->stream_given)
        hr__decode_fail_table(span->input, span->decode.in_offset, &span->error);
    advance(&p->blocks, &d->stream, (size_t)span->decode.consumed);
    d->stream_busy = false;
    d->stream_full = span->decode.full;
    if (span->decode.frame_done || span->error.code)
        hr__decode_end_stream(p, span->error.code != HR_OK);
    if (span->size || span->error.code)
        span->state = HR__SLOT_READY;
    else
        hr__lane_unplace(span); /* the youngest: nothing is decoded beside */
}

void hr__decode_stream_job(struct hr__slot *span)
{
    pipeline_of(span)->decode.stream_busy = true;
    hold_blocks(span, true);
    hr__sched_run(span, HR_STAGE_DECODE, decode_part, decode_part_done);
}
