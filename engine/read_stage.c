// SPDX-License-Identifier: Apache-2.0
/* Fills slots from the sources, in stream order: files with several reads at once, pipes and
 * callbacks one read at a time, memory without any. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "pipeline.h"
#include "sched.h"
#include "status.h"

static const char *name_of(const struct hr__input *in, char *buffer, size_t size)
{
    const unsigned index = (unsigned)(in - in->pipeline->inputs);
    if (in->path)
        snprintf(buffer, size, "%s", in->path);
    else if (in->config.kind == HR_FD)
        snprintf(buffer, size, "descriptor %d", in->config.fd);
    else
        snprintf(buffer, size, "source %u", index);
    return buffer;
}

/* The slot keeps its place in the order, so what precedes it is delivered first. Nothing is read
 * beyond it. */
static void fail_slot(struct hr__slot *slot, hr_status code, int native, const char *what)
{
    char name[256];
    const struct hr__where where = {.stage = HR_STAGE_READ,
                                    .native = native,
                                    .chunk = slot->chunk,
                                    .offset = slot->stream_offset + slot->moved};
    hr__fail(&slot->error, code, where, "read %s at byte %llu: %s",
             name_of(slot->input, name, sizeof name),
             (unsigned long long)(slot->input->origin + slot->input_offset + slot->moved), what);
    slot->state = HR__SLOT_FAILED;
    slot->pipeline->input_ended = true;
}

static void fail_system(struct hr__slot *slot, int native)
{
    fail_slot(slot, native == ECANCELED ? HR_ECANCELED : HR_EIO, native, strerror(native));
}

static void place_slot(struct hr__slot *slot, struct hr__input *in, size_t wanted)
{
    hr_pipeline *p = slot->pipeline;
    slot->input = in;
    slot->chunk = p->next_read++;
    slot->stream_offset = p->read_offset;
    slot->input_offset = in->position;
    slot->wanted = wanted;
    slot->size = 0;
    slot->moved = 0;
    slot->data = slot->region ? slot->region->memory : NULL;
    p->order[slot->chunk % p->depth] = slot;
}

static void chunk_arrived(struct hr__slot *slot, size_t size)
{
    hr_pipeline *p = slot->pipeline;
    slot->size = size;
    slot->state = HR__SLOT_READY;
    p->stages[HR_STAGE_READ].chunks++;
    p->stages[HR_STAGE_READ].bytes += size;
}

/* The last slot placed turned out to be empty. */
static void unplace_slot(struct hr__slot *slot)
{
    slot->pipeline->next_read--;
    hr__sched_release(slot);
}

static void end_input(struct hr__input *in)
{
    in->end = in->position;
    in->skip = 0;
}

/* Also an empty range is taken from a pipe up to its offset: what follows is the next reader's. */
static bool at_end(const struct hr__input *in)
{
    return in->position == in->end && in->skip == 0;
}

/* ---- files: reads at offsets, several at once ---- */

static void submit_file_read(struct hr__slot *slot);

static void file_read_done(struct hr__io_request *request)
{
    struct hr__slot *slot = request->owner;
    hr_pipeline *p = slot->pipeline;
    hr__sched_submitted(slot, HR_STAGE_READ);
    if (request->result > 0)
        slot->moved += (size_t)request->result;
    if (request->result < 0)
        fail_system(slot, (int)-request->result);
    else if (request->result == 0)
        fail_slot(slot, HR_ETRUNCATED, 0, "the file became shorter while it was read");
    else if (slot->moved < slot->wanted && !p->failed)
        submit_file_read(slot); /* a short read says nothing about the end */
    else
        chunk_arrived(slot, slot->moved);
}

static void submit_file_read(struct hr__slot *slot)
{
    const struct hr__input *in = slot->input;
    const struct hr__io_request request = {
        .op = HR__IO_READ,
        .fd = in->file.fd,
        .buffer = (char *)slot->region->memory + slot->moved,
        .size = slot->wanted - slot->moved,
        .offset = in->file.start + slot->input_offset + slot->moved,
        .region = hr__loop_region(slot->pipeline->loop, slot->region),
        .done = file_read_done,
    };
    hr__sched_submit(slot, HR_STAGE_READ, request);
}

static size_t next_size(const hr_pipeline *p, const struct hr__input *in)
{
    const uint64_t left = in->end - in->position;
    return left < p->chunk_size ? (size_t)left : p->chunk_size;
}

static bool start_file(hr_pipeline *p, struct hr__input *in)
{
    struct hr__slot *slot = hr__sched_take(p, true);
    if (!slot)
        return false;
    const size_t size = next_size(p, in);
    place_slot(slot, in, size);
    slot->state = HR__SLOT_READING;
    in->position += size;
    p->read_offset += size;
    submit_file_read(slot);
    return true;
}

/* ---- memory: the slot refers to the user's bytes ---- */

static bool start_memory(hr_pipeline *p, struct hr__input *in)
{
    struct hr__slot *slot = hr__sched_take(p, false);
    if (!slot)
        return false;
    const size_t size = next_size(p, in);
    place_slot(slot, in, size);
    slot->data = (const char *)in->config.data + in->position;
    in->position += size;
    p->read_offset += size;
    chunk_arrived(slot, size);
    return true;
}

/* ---- pipes, and all else that has no offsets: one read at a time, leased when readable ---- */

static bool readable_now(int fd)
{
    struct pollfd event = {.fd = fd, .events = POLLIN};
    return poll(&event, 1, 0) > 0;
}

/* What the last read brought, n bytes, becomes part of the chunk; bytes before a range are dropped.
 */
static void take_bytes(struct hr__slot *slot, size_t n)
{
    struct hr__input *in = slot->input;
    const size_t dropped = in->skip < n ? (size_t)in->skip : n;
    in->skip -= dropped;
    if (dropped && dropped < n) {
        char *at = (char *)slot->region->memory + slot->moved;
        memmove(at, at + dropped, n - dropped);
    }
    slot->moved += n - dropped;
    in->position += n - dropped;
    slot->pipeline->read_offset += n - dropped;
}

static void leave(struct hr__slot *slot)
{
    if (slot->moved)
        chunk_arrived(slot, slot->moved);
    else
        unplace_slot(slot);
}

static void in_order_read_done(struct hr__slot *slot, int64_t result)
{
    struct hr__input *in = slot->input;
    if (result < 0) {
        fail_system(slot, hr__sched_native(result));
    } else if (result == 0) {
        end_input(in);
        leave(slot);
    } else {
        take_bytes(slot, (size_t)result);
        if (slot->moved == slot->wanted || at_end(in))
            leave(slot);
        else
            slot->state = HR__SLOT_FILLING;
    }
}

static void pipe_read_done(struct hr__io_request *request)
{
    struct hr__slot *slot = request->owner;
    hr__sched_submitted(slot, HR_STAGE_READ);
    in_order_read_done(slot, request->result);
    slot->input->readable = request->result > 0 && readable_now(slot->input->file.fd);
}

static void submit_pipe_read(struct hr__slot *slot)
{
    const struct hr__input *in = slot->input;
    const uint64_t left = in->end - in->position; /* of the range: no byte beyond it is taken */
    const size_t room = slot->wanted - slot->moved;
    const uint64_t most = left < UINT64_MAX - in->skip ? left + in->skip : UINT64_MAX;
    slot->state = HR__SLOT_READING;
    const struct hr__io_request request = {
        .op = HR__IO_RECV,
        .fd = in->file.fd,
        .buffer = (char *)slot->region->memory + slot->moved,
        .size = most < room ? (size_t)most : room,
        .region = -1,
        .done = pipe_read_done,
    };
    hr__sched_submit(slot, HR_STAGE_READ, request);
}

/* The newest slot, if it is being filled. */
static struct hr__slot *filling_slot(hr_pipeline *p)
{
    if (p->next_read == p->next_write)
        return NULL;
    struct hr__slot *slot = p->order[(p->next_read - 1) % p->depth];
    return slot->state == HR__SLOT_FILLING ? slot : NULL;
}

/* A peer may wait for an answer to the little that it sent: a chunk that is not full leaves as soon
 * as nothing more is waiting and the sink has nothing else to do. */
static bool sink_idle(const hr_pipeline *p)
{
    return p->writing == 0 && p->next_read - p->next_write <= 1;
}

static bool start_pipe(hr_pipeline *p, struct hr__input *in)
{
    struct hr__slot *slot = filling_slot(p);
    if (slot && !in->readable && sink_idle(p)) {
        leave(slot);
        return true;
    }
    if (!in->readable) {
        if (!in->polling)
            hr__sched_poll(in);
        return false;
    }
    if (!slot) {
        if (!(slot = hr__sched_take(p, true)))
            return false;
        place_slot(slot, in, p->chunk_size);
    }
    submit_pipe_read(slot);
    return true;
}

/* ---- callbacks: one call at a time, on a worker ---- */

static void call_read(struct hr__job *job)
{
    struct hr__slot *slot = job->owner;
    const struct hr__input *in = slot->input;
    slot->job_result = in->config.read(in->config.user, slot->region->memory, slot->wanted,
                                       in->origin + in->position);
}

static void call_read_done(struct hr__job *job)
{
    struct hr__slot *slot = job->owner;
    hr__sched_ran(slot, HR_STAGE_READ);
    if (slot->job_result > (int64_t)slot->wanted) {
        fail_slot(slot, HR_EINVAL, 0, "the callback returned more bytes than it was asked for");
        return;
    }
    in_order_read_done(slot, slot->job_result);
    if (slot->state == HR__SLOT_FILLING)
        leave(slot);
}

static bool start_callback(hr_pipeline *p, struct hr__input *in)
{
    struct hr__slot *slot = hr__sched_take(p, true);
    if (!slot)
        return false;
    place_slot(slot, in, next_size(p, in));
    slot->state = HR__SLOT_READING;
    hr__sched_run(slot, call_read, call_read_done);
    return true;
}

static bool reading_in_order(const hr_pipeline *p)
{
    if (p->next_read == p->next_write)
        return false;
    const struct hr__slot *slot = p->order[(p->next_read - 1) % p->depth];
    return slot->state == HR__SLOT_READING && slot->input->in_order;
}

bool hr__read_stage_start(hr_pipeline *p)
{
    if (p->input_ended || reading_in_order(p))
        return false;
    struct hr__input *in = &p->inputs[p->current];
    if (at_end(in)) {
        struct hr__slot *slot = filling_slot(p);
        if (slot)
            leave(slot);
        p->current++;
        p->input_ended = p->current == p->n_inputs;
        return true;
    }
    switch ((enum hr_end_kind)in->config.kind) {
    case HR_MEMORY:
        return start_memory(p, in);
    case HR_CALLBACK:
        return start_callback(p, in);
    case HR_FILE:
    case HR_FD:
        return in->file.positional ? start_file(p, in) : start_pipe(p, in);
    case HR_NULL:
        break; /* no source: refused at creation */
    }
    return false;
}
