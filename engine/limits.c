// SPDX-License-Identifier: Apache-2.0
/* Time limits: for connecting, for a socket or pipe that moves no byte, for a chunk that waits to
 * be filled. The loop wakes the pipeline at the earliest of them. */
#include <stdio.h>

#include "clock.h"
#include "pipeline.h"
#include "sched.h"
#include "status.h"

static void fail_connect(hr_pipeline *p)
{
    const struct hr__opening *opening = &p->sink_opening;
    for (unsigned i = 0; i < p->n_inputs && !opening->pending; i++)
        opening = &p->inputs[i].opening;
    char doing[HR__STREAM_TEXT];
    hr_error error;
    if (opening == &p->sink_opening && p->sink.kind == HR_FILE)
        snprintf(doing, sizeof doing, "waiting for a reader of %s", p->sink_path);
    else
        hr__stream_describe(&opening->opener, doing, sizeof doing);
    hr__fail(
        &error, HR_ETIMEDOUT,
        (struct hr__where){.stage = opening == &p->sink_opening ? HR_STAGE_WRITE : HR_STAGE_READ},
        "no connection within %llu ms (connect_ms, --connect-timeout): %s",
        (unsigned long long)(p->connect_ns / 1000000u), doing);
    hr__sched_fail(p, 0, &error);
}

static bool writes_to_peer(const hr_pipeline *p)
{
    return p->writing && p->target.file.fd >= 0 && !p->target.file.positional;
}

/* The piece at the sink does not count as delivered: it is given up with what follows. */
static void fail_idle(hr_pipeline *p)
{
    hr_error error;
    const bool writing = writes_to_peer(p);
    const struct hr__slot *piece = writing ? hr__lane_at(p->out, p->out->head - 1) : NULL;
    const uint64_t number = piece ? piece->number : p->out->head;
    const uint64_t moved = piece ? p->written_bytes + piece->moved : p->read_index;
    hr__fail(&error, HR_ETIMEDOUT,
             (struct hr__where){.stage = writing ? HR_STAGE_WRITE : HR_STAGE_READ,
                                .chunk = number,
                                .offset = moved},
             "%s moved no byte for %llu ms (idle_ms, --idle-timeout), after %llu bytes",
             writing ? "the sink" : "the source", (unsigned long long)(p->idle_ns / 1000000u),
             (unsigned long long)moved);
    hr__sched_fail(p, number, &error);
}

static void at_earliest(hr_pipeline *p, uint64_t when_ns)
{
    if (!p->deadline_ns || when_ns < p->deadline_ns)
        p->deadline_ns = when_ns;
}

/* A block of a pipe that has fewer than min_fill bytes leaves when it has waited for max_wait. If
 * it could not leave then, it goes with what is done next, and no limit is to come. */
static void check_fill(hr_pipeline *p, uint64_t now)
{
    const struct hr__slot *block = hr__lane_last(&p->blocks);
    if (p->max_wait_ns && block && block->state == HR__SLOT_FILLING && block->moved < p->min_fill &&
        (now < block->placed_ns + p->max_wait_ns || hr__sched_idle(p)))
        at_earliest(p, block->placed_ns + p->max_wait_ns);
}

/* Else it is this side that works, or has not asked. */
static bool waits_for_peer(const hr_pipeline *p)
{
    return writes_to_peer(p) || (p->n_polling && hr__sched_quiet(p));
}

void hr__sched_check_limits(hr_pipeline *p)
{
    p->deadline_ns = 0;
    if (p->failed || p->finished)
        return;
    const uint64_t now = hr__now_ns();
    if (p->connect_ns && !p->connected) {
        at_earliest(p, p->start_ns + p->connect_ns);
        if (now >= p->deadline_ns)
            fail_connect(p);
        return;
    }
    check_fill(p, now);
    if (!p->idle_ns || !p->connected)
        return;
    if (!waits_for_peer(p)) {
        p->last_io_ns = 0;
        return;
    }
    if (!p->last_io_ns)
        p->last_io_ns = now;
    at_earliest(p, p->last_io_ns + p->idle_ns);
    if (now >= p->last_io_ns + p->idle_ns)
        fail_idle(p);
}
