// SPDX-License-Identifier: Apache-2.0
/* The order of the stages, and what a slot may become:
 *
 *            lease         read done            turn at the sink         write done
 *     FREE ────────▶ READING ────────▶ READY ───────────────────▶ WRITING ────────▶ FREE
 *                      ▲  │ pipe: not full yet, sink busy
 *                      └─ FILLING ──▶ READY when full, at the end, or when the sink is idle
 *
 * Chunks begin to be written in stream order; an error stands in the order as a slot of its own
 * (FAILED), so all before it is delivered and it alone is reported. */
#include "sched.h"

#include <errno.h>

#include "clock.h"
#include "pipeline.h"
#include "status.h"

/* ---- operations under way ---- */

static void came_back(hr_pipeline *p)
{
    p->in_flight--;
    p->marked = true;
}

void hr__sched_submit(struct hr__slot *slot, enum hr_stage stage, struct hr__io_request request)
{
    hr_pipeline *p = slot->pipeline;
    struct hr__busy *busy = &p->busy[stage];
    struct hr__io *io = p->loop->io;
    slot->request = request;
    slot->request.owner = slot;
    p->in_flight++;
    if (busy->n++ == 0)
        busy->since_ns = hr__now_ns();
    io->ops->submit(io, &slot->request);
}

void hr__sched_submitted(struct hr__slot *slot, enum hr_stage stage)
{
    hr_pipeline *p = slot->pipeline;
    struct hr__busy *busy = &p->busy[stage];
    slot->request.owner = NULL;
    if (--busy->n == 0)
        p->stages[stage].service_ns += hr__now_ns() - busy->since_ns;
    came_back(p);
}

void hr__sched_run(struct hr__slot *slot, void (*work)(struct hr__job *),
                   void (*done)(struct hr__job *))
{
    hr_pipeline *p = slot->pipeline;
    slot->job =
        (struct hr__job){.work = work, .done = done, .owner = slot, .inbox = &p->loop->inbox};
    p->in_flight++;
    hr__pool_submit(p->loop->context->pool, &slot->job);
}

void hr__sched_ran(struct hr__slot *slot, enum hr_stage stage)
{
    slot->pipeline->stages[stage].service_ns += slot->job.service_ns;
    came_back(slot->pipeline);
}

static void poll_done(struct hr__io_request *request)
{
    struct hr__input *in = request->owner;
    in->polling = false;
    in->readable = true; /* an error shows in the read */
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
    io->ops->submit(io, &in->poll);
}

int hr__sched_native(int64_t result)
{
    enum { MAX_ERRNO = 4095 }; /* the kernel's own bound of error numbers */
    return result < -MAX_ERRNO ? EIO : (int)-result;
}

/* ---- slots ---- */

static struct hr__slot *pop(struct hr__slot **list)
{
    struct hr__slot *slot = *list;
    if (slot)
        *list = slot->next_free;
    return slot;
}

struct hr__slot *hr__sched_take(hr_pipeline *p, bool with_memory)
{
    struct hr__slot *slot = pop(&p->free_leased);
    if (slot || !p->free_empty)
        return slot;
    if (with_memory) {
        if (hr__memory_lease(&p->loop->context->memory, p->chunk_size, &p->free_empty->region) !=
            HR_OK)
            return NULL;
        p->n_leased++;
    }
    return pop(&p->free_empty);
}

void hr__sched_release(struct hr__slot *slot)
{
    hr_pipeline *p = slot->pipeline;
    struct hr__slot **list = slot->region ? &p->free_leased : &p->free_empty;
    slot->state = HR__SLOT_FREE;
    slot->data = NULL;
    slot->size = 0;
    slot->next_free = *list; /* the last one used comes first: it is still in the cache */
    *list = slot;
}

/* ---- the end ---- */

void hr__sched_fail(hr_pipeline *p, const hr_error *error)
{
    if (!p->failed || error->chunk < p->error.chunk)
        p->error = *error;
    p->failed = true;
}

/* What stands before the error in the stream is still delivered, unless the user cancelled. */
static void cancel_requests(hr_pipeline *p)
{
    struct hr__io *io = p->loop->io;
    const uint64_t first = p->error.code == HR_ECANCELED ? 0 : p->error.chunk;
    for (unsigned i = 0; i < p->n_inputs; i++)
        if (p->inputs[i].polling)
            io->ops->cancel(io, &p->inputs[i].poll);
    for (unsigned i = 0; i < p->depth; i++)
        if (p->slots[i].request.owner && p->slots[i].chunk >= first)
            io->ops->cancel(io, &p->slots[i].request);
}

static void take_cancel(hr_pipeline *p)
{
    if (p->failed)
        return;
    hr_error error;
    hr__fail(
        &error, HR_ECANCELED, (struct hr__where){.chunk = p->next_write, .offset = p->write_offset},
        "cancelled after %llu bytes were given to the sink", (unsigned long long)p->write_offset);
    hr__sched_fail(p, &error);
}

static void finish(hr_pipeline *p, hr_status status)
{
    p->finished = true;
    p->status = status;
    p->end_ns = hr__now_ns();
    hr__pipeline_let_go(p);
}

static void commit(struct hr__job *job)
{
    hr_pipeline *p = job->owner;
    if (hr__target_commit(&p->target, p->write_offset, &p->commit_error) < 0) {
        p->commit_error.chunk = p->next_write;
        p->commit_error.offset = p->write_offset;
    }
}

static void commit_done(struct hr__job *job)
{
    hr_pipeline *p = job->owner;
    came_back(p);
    if (p->commit_error.code < 0)
        hr__sched_fail(p, &p->commit_error);
    finish(p, p->failed ? (hr_status)p->error.code : HR_OK);
}

/* fsync, rename and close may block for long: a worker does them. */
static void start_commit(hr_pipeline *p)
{
    p->committing = true;
    p->in_flight++;
    p->commit_job =
        (struct hr__job){.work = commit, .done = commit_done, .owner = p, .inbox = &p->loop->inbox};
    hr__pool_submit(p->loop->context->pool, &p->commit_job);
}

static bool has_file_sink(const hr_pipeline *p)
{
    return p->sink.kind == HR_FILE || p->sink.kind == HR_FD;
}

static void end_if_drained(hr_pipeline *p)
{
    if (p->in_flight || p->committing)
        return;
    if (p->failed) {
        if (has_file_sink(p))
            hr__target_abandon(&p->target, p->stages[HR_STAGE_WRITE].bytes);
        finish(p, (hr_status)p->error.code);
    } else if (p->input_ended && p->next_write == p->next_read) {
        if (has_file_sink(p))
            start_commit(p);
        else
            finish(p, HR_OK);
    }
}

bool hr__sched_pump(hr_pipeline *p)
{
    const bool cancelled = atomic_load_explicit(&p->cancelled, memory_order_relaxed);
    if (p->finished || !(p->marked || cancelled))
        return !p->finished;
    p->marked = false;
    if (!p->start_ns)
        p->start_ns = hr__now_ns();
    if (cancelled)
        take_cancel(p);
    bool started = !p->failed;
    while (started && !p->failed) {
        started = hr__read_stage_start(p);
        started |= hr__write_stage_start(p);
    }
    if (p->failed)
        cancel_requests(p);
    end_if_drained(p);
    return !p->finished;
}
