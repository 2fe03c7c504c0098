// SPDX-License-Identifier: Apache-2.0
/* Cuts the chunks' bytes into frames of one size and has workers encode them, side by side. A frame
 * that lies within a chunk is encoded from there; one that lies in several is gathered first:
 *
 *     chunks   |...........................|...........................|
 *     frames   |.........|.........|......///......|.........|.........|
 *                                   gathered
 *
 * Memory of a frame's slot: what is gathered, then what the encoder writes. A seek table is the
 * last frame. */
#include <stdio.h>
#include <string.h>

#include "codecs.h"
#include "pipeline.h"
#include "sched.h"
#include "status.h"

static hr_pipeline *pipeline_of(const struct hr__slot *frame)
{
    return frame->lane->pipeline;
}

/* ---- one frame ---- */

static void encode(struct hr__job *job)
{
    struct hr__slot *frame = job->owner;
    hr_pipeline *p = pipeline_of(frame);
    const struct hr__codec_kind kind = {
        .encoder = true, .level = p->encode_level, .dict = p->dict, .dict_size = p->dict_size};
    char *out = frame->memory + p->encode.frame_size;
    struct hr__encode_work *work = &frame->encode;
    size_t written = 0;
    if (hr__pipeline_is_cancelled(p))
        return; /* nobody wants it any more, and it may take long */
    struct hr__codec_entry *entry = hr__codecs_take(&p->loop->context->codecs, kind, &work->why);
    work->code = entry ? hr__encoder_frame(entry->encoder, frame->data, frame->size, out,
                                           hr__encode_bound(frame->size), &written, &work->why)
                       : work->why.code;
    hr__codecs_return(&p->loop->context->codecs, entry);
    work->decoded = frame->size;
    frame->data = out;
    frame->size = written;
}

static void fail_frame(struct hr__slot *frame)
{
    const struct hr__encode_work *work = &frame->encode;
    hr__fail(&frame->error, work->code == HR__CODEC_MEMORY ? HR_ENOMEM : HR_ECORRUPT,
             (struct hr__where){.stage = HR_STAGE_ENCODE, .chunk = frame->index}, "encode: %s",
             work->why.text);
    frame->size = 0;
}

static void encode_done(struct hr__job *job)
{
    struct hr__slot *frame = job->owner;
    hr__sched_ran(frame, HR_STAGE_ENCODE);
    if (frame->encode.code != HR__CODEC_OK)
        fail_frame(frame);
    else
        hr__sched_count(pipeline_of(frame), HR_STAGE_ENCODE, frame->encode.decoded, frame->size);
    if (frame->holds) { /* the chunk's bytes are not needed any more */
        hr__slot_drop(frame->holds);
        frame->holds = NULL;
    }
    frame->state = HR__SLOT_READY;
}

static struct hr__slot *place_frame(hr_pipeline *p)
{
    struct hr__slot *frame = hr__lane_take(&p->frames, true);
    if (!frame)
        return NULL;
    hr__lane_place(frame);
    p->encode.n_frames++;
    return frame;
}

static void close_open(hr_pipeline *p)
{
    struct hr__slot *frame = p->encode.open;
    p->encode.open = NULL;
    hr__sched_run(frame, HR_STAGE_ENCODE, encode, encode_done);
}

/* ---- chunks into frames ---- */

static bool gather(hr_pipeline *p, struct hr__slot *chunk)
{
    struct hr__encode_stage *e = &p->encode;
    if (!e->open && !(e->open = place_frame(p)))
        return false;
    const size_t here = chunk->size - chunk->taken;
    const size_t room = e->frame_size - e->open->size;
    const size_t n = here < room ? here : room;
    memcpy(e->open->memory + e->open->size, chunk->data + chunk->taken, n);
    e->open->size += n;
    chunk->taken += n;
    if (e->open->size == e->frame_size || (chunk->early && chunk->taken == chunk->size))
        close_open(p);
    return true;
}

static bool take_whole(hr_pipeline *p, struct hr__slot *chunk)
{
    struct hr__slot *frame = place_frame(p);
    if (!frame)
        return false;
    hr__slot_hold(chunk);
    frame->holds = chunk;
    frame->data = chunk->data + chunk->taken;
    frame->size = p->encode.frame_size;
    chunk->taken += frame->size;
    hr__sched_run(frame, HR_STAGE_ENCODE, encode, encode_done);
    return true;
}

static bool place_error(hr_pipeline *p, const hr_error *error)
{
    p->encode.ended = hr__lane_place_error(&p->frames, error) != NULL;
    return p->encode.ended;
}

/* ---- the end ---- */

static bool fail_table(hr_pipeline *p, const char *what)
{
    hr_error error;
    hr__fail(&error, HR_ENOMEM,
             (struct hr__where){.stage = HR_STAGE_ENCODE, .chunk = p->frames.tail},
             "encode: seek table: %s", what);
    return place_error(p, &error);
}

/* When all frames are with the sink, the table is complete. A frame on loan has memory that will
 * serve: it is waited for. */
static bool place_table(hr_pipeline *p)
{
    if (!hr__lane_is_empty(&p->frames))
        return false;
    struct hr__slot *frame = hr__lane_take(&p->frames, false);
    const size_t size = hr__seek_table_size(&p->encode.table);
    if (!frame)
        return false;
    if (!hr__slot_lease(frame, size)) {
        hr__lane_untake(frame);
        return !p->in_flight && !p->n_loaned && fail_table(p, "no memory for it");
    }
    hr__lane_place(frame);
    hr__seek_table_write(&p->encode.table, frame->memory);
    frame->size = size;
    frame->encode = (struct hr__encode_work){0};
    frame->state = HR__SLOT_READY;
    p->encode.ended = true;
    return true;
}

/* No bytes at all are one frame of none. */
static bool end_frames(hr_pipeline *p)
{
    struct hr__encode_stage *e = &p->encode;
    if (!e->open && e->n_frames == 0 && !(e->open = place_frame(p)))
        return false;
    if (e->open) {
        close_open(p);
        return true;
    }
    return place_table(p);
}

/* The table lists frames in their order, so it is written as they go to the sink. */
bool hr__encode_note(hr_pipeline *p, const struct hr__slot *frame)
{
    if (frame->encode.decoded == 0 && frame->index > 0)
        return true; /* the table itself */
    return hr__seek_table_add(&p->encode.table, frame->size, frame->encode.decoded) == HR__SEEK_OK;
}

/* A pipe is silent and all that it sent has come here: its sender may wait for the answer. */
static bool sender_pauses(const hr_pipeline *p)
{
    return p->n_polling && hr__sched_quiet(p) && hr__lane_is_empty(&p->spans);
}

bool hr__encode_stage(hr_pipeline *p)
{
    struct hr__encode_stage *e = &p->encode;
    if (e->ended)
        return false;
    struct hr__slot *chunk = hr__lane_head(&p->chunks);
    if (!chunk && e->open && sender_pauses(p)) {
        close_open(p);
        return true;
    }
    if (!chunk)
        return hr__sched_chunks_ended(p) && end_frames(p);
    if (chunk->state != HR__SLOT_READY)
        return false;
    if (chunk->taken < chunk->size) {
        const bool whole = !e->open && chunk->size - chunk->taken >= e->frame_size;
        return whole ? take_whole(p, chunk) : gather(p, chunk);
    }
    if (chunk->error.code) {
        if (e->open) {
            close_open(p);
            return true;
        }
        if (!place_error(p, &chunk->error))
            return false;
    }
    hr__lane_pass(&p->chunks);
    hr__slot_drop(chunk);
    return true;
}
