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

#include <string.h>

#include "clock.h"
#include "pipeline.h"
#include "status.h"

void hr__stage_begin(hr_pipeline *p, enum hr_stage stage)
{
    if (p->busy[stage].n++ == 0)
        p->busy[stage].since_ns = hr__now_ns();
}

void hr__stage_end(hr_pipeline *p, enum hr_stage stage)
{
    if (--p->busy[stage].n == 0)
        p->stages[stage].service_ns += hr__now_ns() - p->busy[stage].since_ns;
}

void hr__sched_fail(hr_pipeline *p, const hr_error *error)
{
    if (!p->failed || error->chunk < p->error.chunk)
        p->error = *error;
    p->failed = true;
}

void hr__sched_release(struct hr__slot *slot)
{
    slot->state = HR__SLOT_FREE;
    slot->data = NULL;
    slot->size = 0;
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
    if (p->failed || !atomic_load_explicit(&p->cancelled, memory_order_relaxed))
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
    p->in_flight--;
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
    if (p->finished)
        return false;
    if (!p->start_ns)
        p->start_ns = hr__now_ns();
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
