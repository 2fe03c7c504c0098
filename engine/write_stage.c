// SPDX-License-Identifier: Apache-2.0
/* Gives the pieces of the last lane to the sink, in stream order where that can be seen: files,
 * memory and null with several at once, pipes and callbacks one after the other. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "device_ends.h"
#include "order.h"
#include "pipeline.h"
#include "sched.h"
#include "status.h"
#include "transit.h"

static hr_pipeline *pipeline_of(const struct hr__slot *piece)
{
    return piece->lane->pipeline;
}

static void fail_write(struct hr__slot *piece, hr_status code, int native, const char *what)
{
    hr_pipeline *p = pipeline_of(piece);
    hr_error error;
    const struct hr__where where = {.stage = HR_STAGE_WRITE,
                                    .native = native,
                                    .chunk = piece->number,
                                    .offset = piece->out_offset + piece->moved};
    char name[256] = "the sink";
    if (p->sink_path)
        snprintf(name, sizeof name, "%s", p->sink_path);
    else if (p->sink.kind == HR_FD)
        snprintf(name, sizeof name, "descriptor %d", p->sink.fd);
    hr__fail(&error, code, where, "write %s at byte %llu: %s", name,
             (unsigned long long)(piece->out_offset + piece->moved), what);
    hr__sched_fail(p, piece->number, &error);
}

static void fail_system(struct hr__slot *piece, int64_t result)
{
    const int native = hr__sched_native(result);
    fail_write(piece, native == ECANCELED ? HR_ECANCELED : HR_EIO, native, strerror(native));
}

static void note_gap(hr_pipeline *p, const struct hr__slot *piece)
{
    if (piece->out_offset < p->gap.offset)
        p->gap = (struct hr__gap){piece->number, piece->out_offset, piece->moved};
}

static void leave_sink(struct hr__slot *piece)
{
    hr_pipeline *p = pipeline_of(piece);
    p->writing--;
    p->written_bytes += piece->moved;
    if (piece->moved == piece->size)
        hr__sched_count(p, HR_STAGE_WRITE, piece->size, piece->size);
    else
        note_gap(p, piece);
    hr__slot_drop(piece);
}

/* ---- files and pipes ---- */

static void submit_write(struct hr__slot *piece);

static void write_done(struct hr__io_request *request)
{
    struct hr__slot *piece = request->owner;
    hr_pipeline *p = pipeline_of(piece);
    hr__sched_submitted(piece, HR_STAGE_WRITE);
    if (hr__direct_refused(&p->target.file, request)) {
        submit_write(piece);
        return;
    }
    if (request->result > 0)
        piece->moved += (size_t)request->result;
    if (request->result > 0 && (request->flags & HR__IO_DIRECT))
        p->direct_bytes += (uint64_t)request->result;
    if (request->result < 0)
        fail_system(piece, request->result);
    else if (request->result == 0)
        fail_write(piece, HR_EIO, 0, "the system took no bytes");
    const bool counts = !p->failed || piece->number < p->fail_number;
    if (piece->moved < piece->size && counts)
        submit_write(piece); /* the rest of a short write */
    else
        leave_sink(piece);
}

/* The registered region that the piece's bytes lie in; -1: none. */
static int region_of(const struct hr__slot *piece)
{
    while (piece->holds)
        piece = piece->holds;
    const struct hr__region *region = piece->lane->ring ? piece->lane->ring : piece->region;
    if (!region || piece->data < (const char *)region->memory ||
        piece->data >= (const char *)region->memory + region->size)
        return -1; /* a user's memory */
    return hr__loop_region(pipeline_of(piece)->loop, region);
}

static void submit_write(struct hr__slot *piece)
{
    hr_pipeline *p = pipeline_of(piece);
    const struct hr__file *file = &p->target.file;
    /* The engine's buffer field serves both directions; a write does not change the bytes. */
    const union {
        const char *from;
        void *buffer;
    } bytes = {.from = piece->data + piece->moved};
    const uint64_t offset = file->start + piece->out_offset + piece->moved;
    const size_t size = piece->size - piece->moved;
    struct hr__io_part part = {.fd = file->fd, .flags = file->io_flags, .size = size};
    if (file->positional)
        part = hr__direct_plan_write(file, bytes.buffer, offset, size);
    const struct hr__io_request request = {
        .op = file->positional ? HR__IO_WRITE : HR__IO_SEND,
        .fd = part.fd,
        .flags = part.flags,
        .buffer = bytes.buffer,
        .size = part.size,
        .offset = offset,
        .region = region_of(piece),
        .done = write_done,
    };
    hr__sched_submit(piece, HR_STAGE_WRITE, request);
}

/* ---- null, memory and callbacks: on a worker ---- */

/* The slot that has the piece's CRC-32: where blocks are checked as they are read, the block. */
static struct hr__slot *checked_slot(struct hr__slot *piece)
{
    return pipeline_of(piece)->checks_blocks ? piece->holds : piece;
}

static void check_piece(struct hr__job *job)
{
    struct hr__slot *piece = job->owner;
    hr_pipeline *p = pipeline_of(piece);
    struct hr__slot *slot = checked_slot(piece);
    if (slot->checked == 0)
        hr__reduce_init(&p->crc_spec, slot->crc);
    hr__reduce_fold(&p->crc_spec, slot->crc, piece->data + slot->checked,
                    piece->size - slot->checked, piece->out_offset + slot->checked);
    slot->checked = piece->size;
    piece->moved = piece->size;
    piece->job_result = 1;
}

static void merge_check(struct hr__slot *piece)
{
    hr_pipeline *p = pipeline_of(piece);
    hr__reduce_merge(&p->crc_spec, hr__pipeline_crc(p), checked_slot(piece)->crc);
}

static char *place_in_memory(const struct hr__slot *piece)
{
    uint64_t size;
    return hr__sink_memory(pipeline_of(piece), &size) + piece->out_offset;
}

static void copy_piece(struct hr__job *job)
{
    struct hr__slot *piece = job->owner;
    memcpy(place_in_memory(piece), piece->data, piece->size);
    piece->moved = piece->size;
    piece->job_result = 1;
}

static void call_write(struct hr__job *job)
{
    struct hr__slot *piece = job->owner;
    const struct hr_sink *sink = &pipeline_of(piece)->sink;
    size_t moved = 0;
    int64_t n = 1;
    while (moved < piece->size && n > 0) {
        if (hr__pipeline_is_cancelled(pipeline_of(piece))) {
            n = -ECANCELED;
            break;
        }
        n = sink->write(sink->user, piece->data + moved, piece->size - moved,
                        piece->out_offset + moved);
        if (n > (int64_t)(piece->size - moved))
            break;
        if (n > 0)
            moved += (size_t)n;
    }
    piece->moved = moved;
    piece->job_result = n;
}

static void job_done(struct hr__job *job)
{
    struct hr__slot *piece = job->owner;
    hr_pipeline *p = pipeline_of(piece);
    hr__sched_ran(piece, HR_STAGE_WRITE);
    if (piece->job_result < 0)
        fail_system(piece, piece->job_result);
    else if (piece->job_result == 0)
        fail_write(piece, HR_EIO, 0, "the callback took no bytes");
    else if (piece->moved < piece->size)
        fail_write(piece, HR_EINVAL, 0, "the callback returned more bytes than it was given");
    if (p->sink.kind == HR_NULL)
        merge_check(piece);
    leave_sink(piece);
}

/* ---- memory ---- */

void hr__write_stored(struct hr__slot *piece)
{
    if (piece->error.code)
        fail_write(piece, (hr_status)piece->error.code, piece->error.native, piece->error.text);
    else
        piece->moved = piece->size;
    leave_sink(piece);
}

/* A device may have put the bytes there already. */
static void write_memory(struct hr__slot *piece)
{
    char *place = place_in_memory(piece);
    if (piece->data == place) {
        piece->moved = piece->size;
        leave_sink(piece);
    } else if (piece->on_device) {
        hr__transit_store(piece, place);
    } else {
        hr__sched_run(piece, HR_STAGE_WRITE, copy_piece, job_done);
    }
}

/* ---- the stage ---- */

static void start_piece(struct hr__slot *piece)
{
    hr_pipeline *p = pipeline_of(piece);
    p->writing++;
    switch ((enum hr_end_kind)p->sink.kind) {
    case HR_NULL:
        if (checked_slot(piece)->checked == piece->size) {
            merge_check(piece);
            piece->moved = piece->size;
            leave_sink(piece);
        } else {
            hr__sched_run(piece, HR_STAGE_WRITE, check_piece, job_done);
        }
        break;
    case HR_MEMORY:
    case HR_DEVICE:
        write_memory(piece);
        break;
    case HR_CALLBACK:
        hr__sched_run(piece, HR_STAGE_WRITE, call_write, job_done);
        break;
    case HR_FILE:
    case HR_FD:
    case HR_SOCKET:
        submit_write(piece);
        break;
    case HR_PULL:
        break; /* fetched by the user: see pull.c */
    }
}

static bool one_at_a_time(const hr_pipeline *p)
{
    const bool file = p->sink.kind == HR_FILE || p->sink.kind == HR_FD || p->sink.kind == HR_SOCKET;
    return p->sink.kind == HR_CALLBACK || (file && !p->target.file.positional);
}

static void too_long(struct hr__slot *piece)
{
    char what[128];
    snprintf(what, sizeof what, "the memory given for it, %llu bytes, ends inside of the stream",
             (unsigned long long)pipeline_of(piece)->sink.size);
    fail_write(piece, HR_ESPACE, 0, what);
}

/* Memory that grows may move, so nothing may be on its way there. */
static bool gathers(struct hr__slot *piece)
{
    hr_pipeline *p = pipeline_of(piece);
    const uint64_t end = piece->out_offset + piece->size;
    hr_error error;
    if (p->sink.size && end > p->sink.size) {
        too_long(piece);
        return false;
    }
    if (end > p->gather.capacity) {
        if (p->writing)
            return false;
        if (!hr__gather_room(p, end, &error)) {
            fail_write(piece, (hr_status)error.code, error.native, error.text);
            return false;
        }
    }
    if (end > p->gather.size)
        p->gather.size = end;
    return true;
}

static bool fits(struct hr__slot *piece)
{
    const hr_pipeline *p = pipeline_of(piece);
    const uint64_t at = piece->out_offset;
    if (p->sink.kind != HR_MEMORY && p->sink.kind != HR_DEVICE)
        return true;
    if (p->sink.kind == HR_DEVICE && !p->sink.data)
        return gathers(piece);
    if (at <= p->sink.size && piece->size <= p->sink.size - at)
        return true;
    too_long(piece);
    return false;
}

/* The seek table must list every frame. */
static bool noted(struct hr__slot *piece)
{
#if HR_HAVE_ZSTD
    hr_pipeline *p = pipeline_of(piece);
    if (p->encoding && !hr__encode_note(p, piece)) {
        fail_write(piece, HR_ELIMIT, 0, "more frames than a seek table can list, or no memory");
        return false;
    }
#endif
    (void)piece;
    return true;
}

/* Where order is not kept, places are: the chunk's place in the stream is known beforehand, as the
 * sizes are in a fixed ratio. */
static uint64_t place_of(const hr_pipeline *p, const struct hr__slot *piece)
{
    if (!p->unordered)
        return p->write_offset;
    return hr__chain_place(p->chain, piece->stream_offset);
}

struct hr__slot *hr__sched_next_piece(hr_pipeline *p)
{
    return hr__lane_next(p->out, p->unordered);
}

static bool give(struct hr__slot *piece)
{
    hr_pipeline *p = pipeline_of(piece);
    if (!fits(piece) || !noted(piece))
        return false;
    hr__lane_pass(p->out);
    p->write_offset += piece->size;
    if (piece->size)
        start_piece(piece);
    else
        hr__slot_drop(piece);
    return true;
}

bool hr__write_stage(hr_pipeline *p)
{
    if (p->sink.kind == HR_PULL || (p->writing && one_at_a_time(p)))
        return false;
    struct hr__slot *piece = hr__sched_next_piece(p);
    if (!piece)
        return false;
    piece->moved = 0;
    piece->out_offset = place_of(p, piece);
    if (piece->size == 0 && piece->error.code)
        hr__sched_fail(p, piece->number, &piece->error); /* an earlier one may fail yet, and wins */
    else if (!hr__order_passes_over(p, piece->number) && give(piece))
        return true;
    if (!hr__order_passes_over(p, piece->number))
        return false; /* it waits */
    note_gap(p, piece);
    hr__lane_pass(p->out);
    hr__slot_drop(piece);
    return true;
}
