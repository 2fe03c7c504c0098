// SPDX-License-Identifier: Apache-2.0
/* The pull form: finished chunks are lent to the user, and come back from any thread through the
 * loop's inbox. A chunk on loan keeps its slot, so too many loans stop the pipeline: next says so
 * instead of waiting for what cannot come. */
#include <assert.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "pipeline.h"
#include "sched.h"
#include "status.h"
#include "wake.h"

static void came_back(struct hr__job *job)
{
    struct hr__slot *slot = job->owner;
    hr_pipeline *p = slot->lane->pipeline;
    p->n_loaned--;
    p->marked = true;
    hr__slot_drop(slot);
}

/* Chunks of which a kernel kept nothing are not lent: the first one has no byte before it. */
static bool is_first(const hr_pipeline *p, const struct hr__slot *slot)
{
    return p->unordered ? slot->number == 0 : p->write_offset == 0;
}

static uint32_t flags_of(const hr_pipeline *p, const struct hr__slot *slot)
{
    return (is_first(p, slot) ? HR_CHUNK_FIRST : 0u) |
           (hr__sched_chunks_ended(p) ||
                    (p->encoding && p->encode.ended && hr__lane_is_empty(p->out))
                ? HR_CHUNK_LAST
                : 0u) |
           (slot->verified ? HR_CHUNK_VERIFIED : 0u) | (slot->on_device ? HR_CHUNK_DEVICE : 0u);
}

/* Of a chunk in device memory: all of its steps are done, so any of its events will do. */
static struct hr__event *ready_of(const struct hr__slot *slot)
{
    const hr_pipeline *p = slot->lane->pipeline;
    return slot->device.marks[p->chain->n_links ? HR__RUN_DONE : HR__IN_DONE];
}

static void *ready_handle(const struct hr__slot *slot)
{
    const struct hr__store *store = slot->lane->pipeline->store;
    assert(!slot->on_device || store);
    return slot->on_device ? store->device->ops->event_handle(ready_of(slot)) : NULL;
}

/* What happens here, on the user's call, may let the pipeline go on or end. */
static void mark(hr_pipeline *p)
{
    p->marked = true;
    hr__wake(p->loop->event_fd);
}

/* ---- the user's time ---- */

/* What he does between two calls of next is the work of the sink, as a callback's would be. */
static void give_turn(hr_pipeline *p)
{
    p->is_with_user = true;
    p->user = hr__stint_begin();
    hr__meter_begin(&p->meters[HR_STAGE_WRITE], p->user.begun_ns);
}

static void take_turn(hr_pipeline *p)
{
    if (!p->is_with_user)
        return;
    p->is_with_user = false;
    hr__meter_serve(&p->meters[HR_STAGE_WRITE], hr__stint_ns(&p->user));
    hr__meter_end(&p->meters[HR_STAGE_WRITE], hr__now_ns());
}

/* ---- loans ---- */

static void lend(hr_pipeline *p, struct hr__slot *slot, struct hr_chunk *chunk)
{
    const size_t unit = p->encoding || !p->chain ? 1 : p->chain->unit_out;
    hr__lane_pass(p->out);
    p->n_loaned++;
    hr__sched_count(p, HR_STAGE_WRITE, slot->size, slot->size);
    slot->job = (struct hr__job){.done = came_back, .owner = slot, .inbox = &p->loop->inbox};
    const struct hr_chunk all = {
        .struct_size = chunk->struct_size < sizeof all ? chunk->struct_size : sizeof all,
        .flags = flags_of(p, slot),
        .data = slot->data,
        .size = slot->size,
        .index = slot->number,
        .stream_offset = slot->stream_offset,
        .source_offset = slot->input_offset,
        .n_units = slot->size / unit,
        .source = slot->input ? (uint32_t)(slot->input - p->inputs) : 0,
        .ready = ready_handle(slot),
        .loan = slot,
    };
    memcpy(chunk, &all, all.struct_size);
    p->write_offset += slot->size;
    p->written_bytes += slot->size;
}

/* HR_PENDING: none is ready. Behind a failure none is any more, though slots may be left. */
static hr_status lend_next(hr_pipeline *p, struct hr_chunk *chunk)
{
    for (struct hr__slot *slot; !p->failed && (slot = hr__sched_next_piece(p));) {
        mark(p);
        if (slot->size) {
            lend(p, slot, chunk);
            return HR_OK;
        }
        if (slot->error.code) {
            hr__sched_fail(p, slot->number, &slot->error);
            return HR_PENDING;
        }
        hr__lane_pass(p->out);
        hr__slot_drop(slot);
    }
    return HR_PENDING;
}

/* A source that waits to be readable has no slot either. */
static bool all_is_loaned(const hr_pipeline *p)
{
    return p->n_loaned && hr__sched_quiet(p) && (!p->n_polling || p->n_loaned == p->out->depth);
}

static int time_left(int timeout_ms, uint64_t start_ns)
{
    if (timeout_ms <= 0)
        return timeout_ms;
    const uint64_t gone = (hr__now_ns() - start_ns) / 1000000u;
    return gone < (uint64_t)timeout_ms ? timeout_ms - (int)gone : 0;
}

static hr_status check_call(const hr_pipeline *p, const struct hr_chunk *chunk, hr_error *error)
{
    if (p->sink.kind != HR_PULL)
        return hr__fail(error, HR_EINVAL, (struct hr__where){0},
                        "next: the pipeline's sink is not of kind HR_PULL");
    if (!chunk)
        return hr__fail(error, HR_EINVAL, (struct hr__where){0}, "next: chunk is NULL");
    if (chunk->struct_size < sizeof(struct hr_chunk))
        return hr__fail(error, HR_EINVAL, (struct hr__where){0},
                        "next: the chunk's struct_size is %u; set it to sizeof(struct hr_chunk)",
                        (unsigned)chunk->struct_size);
    return HR_OK;
}

hr_status hr_pipeline_next(hr_pipeline *p, int timeout_ms, struct hr_chunk *chunk, hr_error *error)
{
    hr_status status = check_call(p, chunk, error);
    if (status == HR_OK)
        take_turn(p);
    const uint64_t start_ns = hr__now_ns();
    int left = 0; /* the first step only looks */
    while (status >= 0) {
        status = hr_loop_poll(p->loop, left, error);
        if (status < 0)
            return status;
        if (lend_next(p, chunk) == HR_OK) {
            give_turn(p);
            return HR_OK;
        }
        if (p->finished)
            return p->status == HR_OK ? HR_END : hr_pipeline_state(p, error);
        if (p->marked)
            continue;
        if (all_is_loaned(p))
            return hr__fail(error, HR_ELOANED, (struct hr__where){.stage = HR_STAGE_WRITE},
                            "next: all that could hold a chunk is on loan (%u chunks); release one "
                            "first, or set more (depth, --depth)",
                            p->n_loaned);
        if (left == 0 && timeout_ms >= 0 && time_left(timeout_ms, start_ns) == 0)
            return HR_PENDING;
        left = time_left(timeout_ms, start_ns);
    }
    return status;
}

hr_status hr_chunk_wait(const struct hr_chunk *chunk, void *stream, hr_error *error)
{
    if (!chunk || !chunk->loan)
        return hr__fail(error, HR_EINVAL, (struct hr__where){0}, "wait: the chunk is not on loan");
    const struct hr__slot *slot = chunk->loan;
    if (!slot->on_device)
        return HR_OK;
    const struct hr__store *store = slot->lane->pipeline->store;
    return store->device->ops->lend(ready_of(slot), stream, error);
}

/* One mark stands for all streams: each waits for the mark before it becomes its own. A device that
 * cannot tell when the stream is done has failed, and then nothing runs on it. */
void hr_chunk_used(struct hr_chunk *chunk, void *stream)
{
    struct hr__slot *slot = chunk ? chunk->loan : NULL;
    if (!slot || !stream || !slot->on_device)
        return;
    const struct hr__device_ops *ops = slot->lane->pipeline->store->device->ops;
    struct hr__event *mark = slot->device.marks[HR__GIVEN_BACK];
    ops->lend(mark, stream, NULL);
    ops->take_back(mark, stream, NULL);
}

void hr_chunk_release(struct hr_chunk *chunk, void *stream)
{
    if (!chunk || !chunk->loan)
        return;
    struct hr__slot *slot = chunk->loan;
    hr_chunk_used(chunk, stream);
    chunk->loan = NULL;
    chunk->data = NULL;
    hr__inbox_post(slot->job.inbox, &slot->job);
}
