// SPDX-License-Identifier: Apache-2.0
/* The order of the stages, and the end of a pipeline. A pump starts from the sink's side, so that
 * what a later stage gives back is used by an earlier one in the same round. */
#include "sched.h"

#include <errno.h>
#include <stdio.h>

#include "clock.h"
#include "endpoints.h"
#include "order.h"
#include "pipeline.h"
#include "status.h"
#include "wake.h"

/* ---- operations under way ---- */

static void came_back(hr_pipeline *p)
{
    p->in_flight--;
    p->marked = true;
}

static hr_pipeline *pipeline_of(const struct hr__slot *slot)
{
    return slot->lane->pipeline;
}

static void begin(struct hr__slot *slot, enum hr_stage stage)
{
    hr_pipeline *p = pipeline_of(slot);
    p->in_flight++;
    slot->begun_ns = hr__now_ns();
    hr__meter_begin(&p->meters[stage], slot->begun_ns);
}

static void trace(struct hr__slot *slot, enum hr_stage stage, uint64_t from_ns, uint64_t until_ns,
                  uint64_t bytes)
{
    struct hr__trace *t = pipeline_of(slot)->trace;
    if (t)
        hr__trace_span(t, hr__trace_lane(t, stage, from_ns, until_ns), hr_stage_name(stage),
                       from_ns, until_ns, slot->number, bytes);
}

static void end(hr_pipeline *p, enum hr_stage stage)
{
    hr__meter_end(&p->meters[stage], p->loop->done_ns ? p->loop->done_ns : hr__now_ns());
    came_back(p);
}

void hr__sched_submit(struct hr__slot *slot, enum hr_stage stage, struct hr__io_request request)
{
    hr_pipeline *p = pipeline_of(slot);
    struct hr__io *io = p->loop->io;
    slot->request = request;
    slot->request.owner = slot;
    begin(slot, stage);
    io->ops->submit(io, &slot->request);
}

void hr__sched_submitted(struct hr__slot *slot, enum hr_stage stage)
{
    hr_pipeline *p = pipeline_of(slot);
    const int64_t result = slot->request.result;
    slot->request.owner = NULL;
    end(p, stage);
    trace(slot, stage, slot->begun_ns, hr__now_ns(), result > 0 ? (uint64_t)result : 0);
    if (p->idle_ns && result > 0)
        p->last_io_ns = hr__now_ns();
}

void hr__sched_run(struct hr__slot *slot, enum hr_stage stage, void (*work)(struct hr__job *),
                   void (*done)(struct hr__job *))
{
    hr_pipeline *p = pipeline_of(slot);
    slot->job = (struct hr__job){.work = work,
                                 .done = done,
                                 .owner = slot,
                                 .inbox = &p->loop->inbox,
                                 .late = stage > HR_STAGE_DECODE,
                                 .is_call = p->meters[stage].is_call};
    begin(slot, stage);
    hr__pool_submit(p->loop->context->pool, &slot->job);
}

void hr__sched_ran(struct hr__slot *slot, enum hr_stage stage)
{
    hr_pipeline *p = pipeline_of(slot);
    if (!p->meters[stage].is_io)
        hr__meter_serve(&p->meters[stage], slot->job.service_ns);
    end(p, stage);
    trace(slot, stage, slot->begun_ns, hr__now_ns(), slot->size);
}

void hr__sched_launched(struct hr__slot *slot, enum hr_stage stage)
{
    begin(slot, stage);
}

void hr__sched_landed(struct hr__slot *slot, enum hr_stage stage, const struct hr__served *served)
{
    hr_pipeline *p = pipeline_of(slot);
    hr__meter_serve(&p->meters[stage], served->service_ns);
    end(p, stage);
    trace(slot, stage, served->from_ns, served->until_ns, slot->device.size);
}

void hr__sched_count(hr_pipeline *p, enum hr_stage stage, uint64_t in, uint64_t out)
{
    hr__meter_chunk(&p->meters[stage]);
    hr__meter_bytes(&p->meters[stage], in, out);
}

static void poll_done(struct hr__io_request *request)
{
    struct hr__input *in = request->owner;
    in->polling = false;
    in->readable = request->result != -ECANCELED; /* another error shows in the read */
    in->pipeline->n_polling--;
    came_back(in->pipeline);
}

void hr__sched_poll(struct hr__input *in)
{
    hr_pipeline *p = in->pipeline;
    struct hr__io *io = p->loop->io;
    in->poll = (struct hr__io_request){
        .op = HR__IO_POLL, .fd = in->file.fd, .region = -1, .done = poll_done, .owner = in};
    in->polling = true;
    p->in_flight++;
    p->n_polling++;
    io->ops->submit(io, &in->poll);
}

void hr__sched_stop_input(struct hr__input *in)
{
    struct hr__io *io = in->pipeline->loop->io;
    in->end = in->position;
    in->skip = 0;
    if (in->polling)
        io->ops->cancel(io, &in->poll);
}

bool hr__sched_quiet(const hr_pipeline *p)
{
    return p->in_flight == p->n_polling;
}

bool hr__sched_idle(const hr_pipeline *p)
{
    return hr__sched_quiet(p) && p->blocks.tail - p->blocks.head <= 1 &&
           hr__lane_is_empty(&p->spans) && hr__lane_is_empty(&p->chunks) &&
           hr__lane_is_empty(&p->frames);
}

int hr__sched_native(int64_t result)
{
    enum { MAX_ERRNO = 4095 }; /* the kernel's own bound of error numbers */
    return result < -MAX_ERRNO ? EIO : (int)-result;
}

const char *hr__sched_name(const struct hr__input *in, char *buffer, size_t size)
{
    if (in->path)
        snprintf(buffer, size, "%s", in->path);
    else if (in->config.kind == HR_FD)
        snprintf(buffer, size, "descriptor %d", in->config.fd);
    else
        snprintf(buffer, size, "source %u", (unsigned)(in - in->pipeline->inputs));
    return buffer;
}

/* ---- the end ---- */

/* Where chunks overtake each other, a read that fails inside of one has the number of the next one,
 * which may have failed before. */
static bool precedes_failure(const hr_pipeline *p, uint64_t number, const hr_error *error)
{
    return number < p->fail_number ||
           (p->cuts_any && number == p->fail_number && error->stage < p->error.stage);
}

static void fail(hr_pipeline *p, uint64_t number, const hr_error *error)
{
    if (!p->failed || precedes_failure(p, number, error)) {
        p->error = *error;
        p->fail_number = number;
    }
    p->failed = true;
}

/* Once the output is being made whole it is too late: it may have its name already. A failure stays
 * the reason, unless what stands before it was to be delivered and is not now. */
static void take_cancel(hr_pipeline *p)
{
    const struct hr__gap left = hr__order_first_left(p);
    hr_error error;
    if (p->committing || (p->failed && (!p->sink_has_places || left.number >= p->fail_number)))
        return;
    hr__fail(&error, HR_ECANCELED, (struct hr__where){.chunk = left.number, .offset = left.offset},
             "cancelled after %llu bytes were given to the sink", (unsigned long long)left.offset);
    fail(p, left.number, &error);
}

/* The user cancelled, or it has failed: nothing more begins, and nothing more is delivered. */
static bool is_ending(hr_pipeline *p)
{
    if (hr__pipeline_is_cancelled(p))
        take_cancel(p);
    return p->failed;
}

/* A failure behind a cancel may be its consequence: work that was passed over. */
void hr__sched_fail(hr_pipeline *p, uint64_t number, const hr_error *error)
{
    if (p->failed || p->committing || !is_ending(p))
        fail(p, number, error);
}

static void cancel_blocks(hr_pipeline *p)
{
    struct hr__io *io = p->loop->io;
    for (unsigned i = 0; i < p->blocks.depth; i++) {
        struct hr__slot *block = &p->blocks.slots[i];
        if (block->request.owner && hr__order_passes_over(p, hr__order_number(block)))
            io->ops->cancel(io, &block->request);
    }
}

static void cancel_pieces(hr_pipeline *p, uint64_t first)
{
    struct hr__io *io = p->loop->io;
    for (unsigned i = 0; i < p->out->depth; i++)
        if (p->out->slots[i].request.owner && p->out->slots[i].number >= first)
            io->ops->cancel(io, &p->out->slots[i].request);
}

/* What stands before the error in the stream is still delivered, unless the user cancelled; what is
 * read from now on is not. */
static void cancel_requests(hr_pipeline *p)
{
    struct hr__io *io = p->loop->io;
    for (unsigned i = 0; i < p->n_inputs; i++)
        if (p->inputs[i].polling)
            io->ops->cancel(io, &p->inputs[i].poll);
    cancel_blocks(p);
    cancel_pieces(p, p->error.code == HR_ECANCELED ? 0 : p->fail_number);
}

static void finish(hr_pipeline *p, hr_status status)
{
    p->finished = true;
    p->status = status;
    p->end_ns = hr__now_ns();
    p->deadline_ns = 0;
    hr__pipeline_let_go(p);
    hr_error error;
    if (hr__trace_finish(p->trace, &error) < 0 && status == HR_OK) {
        p->status = HR_EIO;
        p->error = error;
    }
    p->trace = NULL;
}

static void commit(struct hr__job *job)
{
    hr_pipeline *p = job->owner;
    if (hr__target_commit(&p->target, p->write_offset, &p->commit_error) < 0) {
        p->commit_error.chunk = p->out->head;
        p->commit_error.offset = p->write_offset;
    }
}

static void commit_done(struct hr__job *job)
{
    hr_pipeline *p = job->owner;
    if (p->sink.flags & HR_FSYNC)
        hr__meter_end(&p->meters[HR_STAGE_WRITE], hr__now_ns());
    came_back(p);
    if (p->commit_error.code < 0)
        hr__sched_fail(p, p->out->head, &p->commit_error);
    finish(p, p->failed ? (hr_status)p->error.code : HR_OK);
}

/* fsync, rename and close may block for long: a worker does them. */
static void start_commit(hr_pipeline *p)
{
    p->committing = true;
    p->in_flight++;
    if (p->sink.flags & HR_FSYNC) /* bytes are on their way to the disk */
        hr__meter_begin(&p->meters[HR_STAGE_WRITE], hr__now_ns());
    p->commit_job =
        (struct hr__job){.work = commit, .done = commit_done, .owner = p, .inbox = &p->loop->inbox};
    hr__pool_submit(p->loop->context->pool, &p->commit_job);
}

static void make_room(struct hr__job *job)
{
    hr_pipeline *p = job->owner;
    hr__target_make_room(&p->target);
}

static void made_room(struct hr__job *job)
{
    came_back(job->owner);
}

/* At the start, while the first chunks are read. */
static void start_room(hr_pipeline *p)
{
    if (p->target.replaced_fd < 0)
        return;
    p->in_flight++;
    p->room_job = (struct hr__job){
        .work = make_room, .done = made_room, .owner = p, .inbox = &p->loop->inbox};
    hr__pool_submit(p->loop->context->pool, &p->room_job);
}

static bool has_file_sink(const hr_pipeline *p)
{
    return p->sink.kind == HR_FILE || p->sink.kind == HR_FD;
}

bool hr__sched_chunks_ended(const hr_pipeline *p)
{
    return p->cut.ended && (!p->chain || p->chain->ended) && hr__lane_is_empty(&p->chunks);
}

static bool all_delivered(const hr_pipeline *p)
{
    return p->encoding ? p->encode.ended && hr__lane_is_empty(&p->frames)
                       : hr__sched_chunks_ended(p);
}

static void end_if_drained(hr_pipeline *p)
{
    if (p->in_flight || p->committing)
        return;
    if (p->failed) {
        const uint64_t arrived = hr__order_settle(p);
        if (has_file_sink(p))
            hr__target_abandon(&p->target, arrived);
        finish(p, (hr_status)p->error.code);
    } else if (all_delivered(p)) {
        if (has_file_sink(p))
            start_commit(p);
        else
            finish(p, HR_OK);
    }
}

/* ---- the order ---- */

/* Of depth 1, one chunk at a time is on its way: nothing new is begun before all that can be done with
 * it is, and is over. */
static bool may_begin(const hr_pipeline *p, bool changed)
{
    return p->depth > 1 || (!changed && hr__sched_quiet(p));
}

static bool start_stages(hr_pipeline *p)
{
    bool changed = hr__write_stage(p);
#if HR_HAVE_ZSTD
    if (p->encoding)
        changed |= hr__encode_stage(p);
#endif
    if (p->chain)
        changed |= hr__kernel_stage(p);
    changed |= hr__cut_stage(p);
#if HR_HAVE_ZSTD
    if (p->decoding && may_begin(p, changed))
        changed |= hr__decode_stage(p);
#endif
    return may_begin(p, changed) ? changed | hr__read_stage(p) : changed;
}

/* A driver takes a millisecond to pin a slot. So before another one is leased, what was begun goes to
 * the kernel and what has come goes on: that is a step of the loop, and the next one follows. */
static bool goes_on(hr_pipeline *p)
{
    if (!p->pinned_now)
        return true;
    p->pinned_now = false;
    p->marked = true;
    hr__wake(p->loop->event_fd);
    return false;
}

/* What stands before the failing piece goes on; what stands behind it is dropped. */
static void deliver_owed(hr_pipeline *p)
{
    bool changed = true;
    while (changed && hr__order_owes(p)) {
        changed = hr__write_stage(p);
        if (p->chain)
            changed |= hr__kernel_stage(p);
        changed |= hr__cut_stage(p);
    }
}

static enum hr__idle why_not_reading(const hr_pipeline *p)
{
    if (p->input_ended || !p->connected)
        return HR__IDLE_STARVED;
    return p->n_polling ? HR__IDLE_SILENT : HR__IDLE_BLOCKED;
}

static enum hr__idle blocked_by(const struct hr__lane *made)
{
    return hr__lane_is_empty(made) ? HR__IDLE_STARVED : HR__IDLE_BLOCKED;
}

/* Why a stage that does nothing does nothing: nothing has come, or nothing can go. */
static enum hr__idle why_idle(const hr_pipeline *p, enum hr_stage stage)
{
    switch (stage) {
    case HR_STAGE_READ:
        return why_not_reading(p);
    case HR_STAGE_DECODE:
        return blocked_by(&p->spans);
    case HR_STAGE_H2D:
    case HR_STAGE_KERNEL:
    case HR_STAGE_D2H:
        return blocked_by(&p->chunks);
    case HR_STAGE_ENCODE:
        return blocked_by(&p->frames);
    case HR_STAGE_NONE:
    case HR_STAGE_WRITE:
    case HR_STAGE_COUNT:
        break;
    }
    return HR__IDLE_STARVED;
}

static void note_idle(hr_pipeline *p)
{
    const uint64_t now = hr__now_ns();
    for (unsigned stage = HR_STAGE_READ; stage < HR_STAGE_COUNT; stage++)
        hr__meter_idle(&p->meters[stage], now, why_idle(p, (enum hr_stage)stage));
}

/* A pipeline that only waits for its source leaves the memory to others, but one lease. */
static void leave_memory(hr_pipeline *p)
{
    if (!p->n_polling || !hr__sched_quiet(p))
        return;
    hr__lane_trim(&p->blocks);
    hr__lane_trim(&p->spans);
    hr__lane_trim(&p->chunks);
    hr__lane_trim(&p->frames);
}

static bool has_cause(const hr_pipeline *p)
{
    return p->marked || hr__pipeline_is_cancelled(p) || (p->chain && p->in_flight) ||
           (p->deadline_ns && hr__now_ns() >= p->deadline_ns);
}

bool hr__sched_pump(hr_pipeline *p)
{
    if (p->finished || !has_cause(p))
        return !p->finished;
    p->marked = false;
    p->n_pumps++;
    if (!p->start_ns) {
        p->start_ns = hr__now_ns();
        note_idle(p); /* every stage's time begins with the wall's */
        start_room(p);
    }
    if (!is_ending(p) && !p->connected)
        p->connected = hr__ends_connect(p);
    while (!is_ending(p) && p->connected && start_stages(p) && goes_on(p))
        ;
    hr__sched_check_limits(p);
    if (p->failed) {
        hr__ends_cancel(p);
        if (p->chain)
            hr__kernel_stage(p); /* what runs on the device comes back */
        deliver_owed(p);
        cancel_requests(p);
    }
    note_idle(p);
    leave_memory(p);
    end_if_drained(p);
    return !p->finished;
}
