// SPDX-License-Identifier: Apache-2.0
/* Gives ready chunks to the sink in stream order: files, memory and null with several at once,
 * pipes and callbacks one after the other. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pipeline.h"
#include "sched.h"
#include "status.h"

static void fail_write(struct hr__slot *slot, hr_status code, int native, const char *what)
{
    hr_pipeline *p = slot->pipeline;
    hr_error error;
    const struct hr__where where = {.stage = HR_STAGE_WRITE,
                                    .native = native,
                                    .chunk = slot->chunk,
                                    .offset = slot->stream_offset + slot->moved};
    char name[256] = "the sink";
    if (p->sink_path)
        snprintf(name, sizeof name, "%s", p->sink_path);
    else if (p->sink.kind == HR_FD)
        snprintf(name, sizeof name, "descriptor %d", p->sink.fd);
    hr__fail(&error, code, where, "write %s at byte %llu: %s", name,
             (unsigned long long)(slot->stream_offset + slot->moved), what);
    hr__sched_fail(p, &error);
}

static void fail_system(struct hr__slot *slot, int64_t result)
{
    const int native = hr__sched_native(result);
    fail_write(slot, native == ECANCELED ? HR_ECANCELED : HR_EIO, native, strerror(native));
}

static void leave_sink(struct hr__slot *slot)
{
    hr_pipeline *p = slot->pipeline;
    p->writing--;
    p->stages[HR_STAGE_WRITE].bytes += slot->moved;
    if (slot->moved == slot->size)
        p->stages[HR_STAGE_WRITE].chunks++;
    hr__sched_release(slot);
}

/* ---- files and pipes ---- */

static void submit_write(struct hr__slot *slot);

static void write_done(struct hr__io_request *request)
{
    struct hr__slot *slot = request->owner;
    hr_pipeline *p = slot->pipeline;
    hr__sched_submitted(slot, HR_STAGE_WRITE);
    if (request->result > 0)
        slot->moved += (size_t)request->result;
    if (request->result < 0)
        fail_system(slot, request->result);
    else if (request->result == 0)
        fail_write(slot, HR_EIO, 0, "the system took no bytes");
    const bool counts = !p->failed || slot->chunk < p->error.chunk;
    if (slot->moved < slot->size && counts)
        submit_write(slot); /* the rest of a short write */
    else
        leave_sink(slot);
}

static void submit_write(struct hr__slot *slot)
{
    hr_pipeline *p = slot->pipeline;
    const struct hr__file *file = &p->target.file;
    /* The engine's buffer field serves both directions; a write does not change the bytes. */
    const union {
        const char *from;
        void *buffer;
    } chunk = {.from = slot->data + slot->moved};
    const struct hr__io_request request = {
        .op = file->positional ? HR__IO_WRITE : HR__IO_SEND,
        .fd = file->fd,
        .buffer = chunk.buffer,
        .size = slot->size - slot->moved,
        .offset = file->start + slot->stream_offset + slot->moved,
        .region =
            slot->input->config.kind == HR_MEMORY ? -1 : hr__loop_region(p->loop, slot->region),
        .done = write_done,
    };
    hr__sched_submit(slot, HR_STAGE_WRITE, request);
}

/* ---- null, memory and callbacks: on a worker ---- */

static void check_chunk(struct hr__job *job)
{
    struct hr__slot *slot = job->owner;
    hr_pipeline *p = slot->pipeline;
    hr__reduce_init(&p->crc_spec, slot->reduction);
    hr__reduce_fold(&p->crc_spec, slot->reduction, slot->data, slot->size, slot->stream_offset);
    slot->moved = slot->size;
    slot->job_result = (int64_t)slot->size;
}

static void copy_chunk(struct hr__job *job)
{
    struct hr__slot *slot = job->owner;
    memcpy((char *)slot->pipeline->sink.data + slot->stream_offset, slot->data, slot->size);
    slot->moved = slot->size;
    slot->job_result = (int64_t)slot->size;
}

static void call_write(struct hr__job *job)
{
    struct hr__slot *slot = job->owner;
    const struct hr_sink *sink = &slot->pipeline->sink;
    size_t moved = 0;
    int64_t n = 1;
    while (moved < slot->size && n > 0) {
        n = sink->write(sink->user, slot->data + moved, slot->size - moved,
                        slot->stream_offset + moved);
        if (n > (int64_t)(slot->size - moved))
            break;
        if (n > 0)
            moved += (size_t)n;
    }
    slot->moved = moved;
    slot->job_result = n;
}

static void job_done(struct hr__job *job)
{
    struct hr__slot *slot = job->owner;
    hr_pipeline *p = slot->pipeline;
    hr__sched_ran(slot, HR_STAGE_WRITE);
    if (slot->job_result < 0)
        fail_system(slot, slot->job_result);
    else if (slot->job_result == 0)
        fail_write(slot, HR_EIO, 0, "the callback took no bytes");
    else if (slot->moved < slot->size)
        fail_write(slot, HR_EINVAL, 0, "the callback returned more bytes than it was given");
    if (p->sink.kind == HR_NULL)
        hr__reduce_merge(&p->crc_spec, hr__pipeline_crc(p), slot->reduction);
    leave_sink(slot);
}

static void start_chunk(struct hr__slot *slot)
{
    hr_pipeline *p = slot->pipeline;
    slot->state = HR__SLOT_WRITING;
    slot->moved = 0;
    p->next_write++;
    p->write_offset += slot->size;
    p->writing++;
    switch ((enum hr_end_kind)p->sink.kind) {
    case HR_NULL:
        hr__sched_run(slot, check_chunk, job_done);
        break;
    case HR_MEMORY:
        hr__sched_run(slot, copy_chunk, job_done);
        break;
    case HR_CALLBACK:
        hr__sched_run(slot, call_write, job_done);
        break;
    case HR_FILE:
    case HR_FD:
        submit_write(slot);
        break;
    }
}

static bool one_at_a_time(const hr_pipeline *p)
{
    const bool file = p->sink.kind == HR_FILE || p->sink.kind == HR_FD;
    return p->sink.kind == HR_CALLBACK || (file && !p->target.file.positional);
}

static bool fits(struct hr__slot *slot)
{
    const hr_pipeline *p = slot->pipeline;
    if (p->sink.kind != HR_MEMORY || slot->size <= p->sink.size - slot->stream_offset)
        return true;
    slot->moved = 0;
    fail_write(slot, HR_ESPACE, 0, "the stream is longer than the memory given for it");
    return false;
}

bool hr__write_stage_start(hr_pipeline *p)
{
    if (p->next_write == p->next_read || (p->writing && one_at_a_time(p)))
        return false;
    struct hr__slot *slot = p->order[p->next_write % p->depth];
    if (slot->state == HR__SLOT_FAILED) {
        /* An earlier chunk may still fail at the sink; then that error wins. */
        hr__sched_fail(p, &slot->error);
        return false;
    }
    if (slot->state != HR__SLOT_READY || !fits(slot))
        return false;
    start_chunk(slot);
    return true;
}
