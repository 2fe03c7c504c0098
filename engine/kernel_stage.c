// SPDX-License-Identifier: Apache-2.0
/* Runs the chain over the chunks. First segments are started as chunks come, one stream after the
 * other; behind a counted kernel the next segment of a chunk waits until those of all chunks before
 * it have been started, because where its units begin depends on their counts. */
#include "device_legs.h"
#include "order.h"
#include "pipeline.h"
#include "sched.h"
#include "status.h"
#include "transit.h"

static hr_pipeline *pipeline_of(const struct hr__slot *chunk)
{
    return chunk->lane->pipeline;
}

/* ---- completion ---- */

/* The count is what a kernel says: it is believed as far as there is room. */
static void take_count(struct hr__slot *chunk, unsigned index)
{
    const struct hr__link *link = &pipeline_of(chunk)->chain->links[index];
    const uint64_t count = *hr__transit_count(chunk);
    const uint64_t most = chunk->device.size / link->info.unit_out_bytes;
    if (count > most && !chunk->error.code)
        hr__fail(&chunk->error, HR_EDEVICE, (struct hr__where){0},
                 "kernel %u says that it wrote %llu units: there is room for %llu, as many as it "
                 "was given",
                 index, (unsigned long long)count, (unsigned long long)most);
    else
        chunk->device.size = (size_t)count * link->info.unit_out_bytes;
}

/* The slot of the input is not needed once its bytes are elsewhere. */
static void let_input_go(struct hr__slot *chunk)
{
    hr__slot_drop(chunk->holds);
    chunk->holds = NULL;
}

/* Whether a kernel on the host has written the bytes to the chunk's own memory. */
static bool is_own(const struct hr__slot *chunk)
{
    const struct hr__chain *chain = pipeline_of(chunk)->chain;
    const struct hr__device_work *work = &chunk->device;
    return work->buffers && work->at >= work->buffers &&
           work->at < work->buffers + chain->n_buffers * chain->buffer_bytes;
}

static void fail_chunk(struct hr__slot *chunk)
{
    hr_error *error = &chunk->error;
    chunk->size = 0;
    if (error->stage != HR_STAGE_H2D && error->stage != HR_STAGE_D2H)
        error->stage = HR_STAGE_KERNEL;
    error->chunk = chunk->number;
    error->offset = chunk->stream_offset;
    pipeline_of(chunk)->input_ended = true;
}

/* All that was enqueued for it is done. */
static void leave_device(struct hr__slot *chunk)
{
    hr_pipeline *p = pipeline_of(chunk);
    const struct hr__device_work *work = &chunk->device;
    chunk->state = HR__SLOT_READY;
    if (chunk->error.code) {
        fail_chunk(chunk);
        return;
    }
    if (p->chain->n_links)
        hr__sched_count(p, HR_STAGE_KERNEL, work->bytes_in, work->size);
    chunk->size = work->size;
    if (p->chain->host_memory) {
        chunk->data = work->at;
    } else if (!work->passes && !work->copied) {
        chunk->data = work->at;
        chunk->on_device = true;
    }
}

/* The segment is done: another one waits for its turn, or what the last one gave leaves. */
static void end_segment(struct hr__slot *chunk)
{
    const struct hr__chain *chain = pipeline_of(chunk)->chain;
    struct hr__device_work *work = &chunk->device;
    const unsigned last = chain->segments[work->segment].end - 1;
    const bool is_counted = chain->links[last].info.is_counted;
    if (is_counted && !chunk->error.code)
        take_count(chunk, last);
    if (chain->host_memory && chunk->holds && is_own(chunk))
        let_input_go(chunk);
    work->counted = work->segment + 1 < chain->n_segments;
    if (!work->counted && is_counted && !chunk->error.code)
        hr__transit_out(chunk);
    work->all_given = !work->counted;
}

static void land(struct hr__slot *chunk, enum hr__leg leg)
{
    struct hr__device_work *work = &chunk->device;
    if (work->storing) {
        hr__write_stored(chunk);
        return;
    }
    if (leg == HR__LEG_IN && !chunk->error.code)
        hr__sched_count(pipeline_of(chunk), HR_STAGE_H2D, work->bytes_in, work->bytes_in);
    if (leg == HR__LEG_IN && !work->passes && chunk->holds)
        let_input_go(chunk);
    if (leg == HR__LEG_RUN)
        end_segment(chunk);
    if (leg == HR__LEG_OUT && !chunk->error.code)
        hr__sched_count(pipeline_of(chunk), HR_STAGE_D2H, work->size, work->size);
    if (chunk->error.code) {
        work->counted = false;
        work->all_given = true;
    }
    if (work->all_given && !hr__leg_any_pending(chunk))
        leave_device(chunk);
}

/* The states of the reductions are back. */
static bool take_states(hr_pipeline *p)
{
    struct hr__chain *chain = p->chain;
    hr_error error;
    if (!chain->fetching)
        return false;
    const hr_status status = chain->device->ops->query(chain->fetched, &error);
    if (status == HR_PENDING)
        return false;
    chain->fetching = false;
    p->in_flight--;
    if (status == HR_OK) {
        chain->ended = true;
    } else {
        chain->failed = true;
        chain->fetch_error = error;
    }
    return true;
}

static bool collect_queues(hr_pipeline *p)
{
    struct hr__chain *chain = p->chain;
    bool changed = false;
    for (unsigned i = 0; i < chain->n_queues; i++) {
        struct hr__device_queue *queue = &chain->queues[i];
        for (struct hr__slot *chunk; (chunk = hr__leg_landed(p, queue)); changed = true)
            land(chunk, queue->leg);
    }
    return changed;
}

/* Until nothing lands: behind a leg that has, others are looked at for the first time. */
static bool collect(hr_pipeline *p)
{
    bool changed = take_states(p);
    while (collect_queues(p))
        changed = true;
    return changed;
}

/* ---- the order ---- */

static void start_chunk(struct hr__slot *chunk)
{
    const struct hr__chain *chain = pipeline_of(chunk)->chain;
    hr__transit_begin(chunk);
    if (chain->n_links)
        hr__transit_run(chunk, 0);
    if (hr__chain_is_counted(chain))
        return;
    hr__transit_out(chunk);
    chunk->device.all_given = true;
    if (!hr__leg_any_pending(chunk))
        leave_device(chunk);
}

/* Starts the segment for the chunk whose turn it is; false: there is none, or it is not there yet.
 */
static bool start_next(hr_pipeline *p, unsigned index)
{
    struct hr__segment *segment = &p->chain->segments[index];
    if (segment->next == p->chunks.tail)
        return false;
    struct hr__slot *chunk = hr__lane_at(&p->chunks, segment->next);
    if (chunk->state == HR__SLOT_BUSY && index == 0) {
        start_chunk(chunk);
    } else if (chunk->state == HR__SLOT_BUSY && chunk->device.counted &&
               chunk->device.segment + 1 == index) {
        hr__transit_join(chunk, segment);
        hr__transit_run(chunk, index);
        if (segment->end == p->chain->n_links && !p->chain->links[segment->end - 1].info.is_counted)
            hr__transit_out(chunk); /* its size is known already */
    } else if (!chunk->error.code) {
        return false;
    }
    segment->next++;
    return true;
}

/* Behind the last chunk no unit may be unfinished. False: there is no slot to say so. */
static bool check_carries(hr_pipeline *p)
{
    const struct hr__chain *chain = p->chain;
    const struct hr__segment *bad = NULL;
    for (unsigned i = 0; i < chain->n_segments && !bad; i++)
        if (chain->segments[i].carried)
            bad = &chain->segments[i];
    if (!bad || p->cut.failed)
        return true;
    struct hr__slot *chunk = hr__lane_take(&p->chunks, false);
    if (!chunk)
        return false;
    hr__lane_place(chunk);
    hr__fail(&chunk->error, HR_ETRUNCATED,
             (struct hr__where){
                 .stage = HR_STAGE_KERNEL, .chunk = chunk->index, .offset = p->cut.stream_offset},
             "kernel %u: its input ends inside of a unit: %zu of %zu bytes are there", bad->first,
             bad->carried, bad->unit);
    chunk->state = HR__SLOT_READY;
    return true;
}

static bool is_done(const hr_pipeline *p)
{
    const struct hr__chain *chain = p->chain;
    for (unsigned i = 0; i < chain->n_segments; i++)
        if (chain->segments[i].next != p->chunks.tail)
            return false;
    for (unsigned i = 0; i < chain->n_queues && !chain->host_memory; i++)
        if (chain->queues[i].leg == HR__LEG_RUN && chain->queues[i].oldest)
            return false;
    return true;
}

/* Behind all chunks, which are still delivered. False: there is no slot to say so. */
static bool place_fetch_error(hr_pipeline *p)
{
    hr_error *error = &p->chain->fetch_error;
    error->stage = HR_STAGE_KERNEL;
    error->chunk = p->chunks.tail;
    error->offset = p->cut.stream_offset;
    p->chain->ended = hr__lane_place_error(&p->chunks, error) != NULL;
    return p->chain->ended;
}

static bool end_chain(hr_pipeline *p)
{
    struct hr__chain *chain = p->chain;
    if (chain->fetch_error.code)
        return place_fetch_error(p);
    if (chain->fetching || !is_done(p) || !check_carries(p))
        return false;
    if (!hr__chain_fetch(chain)) {
        chain->ended = true;
        return true;
    }
    chain->fetching = true;
    p->in_flight++;
    chain->device->ops->notify(chain->fetched, p->loop->event_fd);
    return true;
}

bool hr__kernel_stage(hr_pipeline *p)
{
    bool changed = collect(p);
    if (p->failed && !hr__order_owes(p))
        return changed;
    for (unsigned i = p->chain->n_segments; i-- > 0;)
        while (!hr__pipeline_is_cancelled(p) && start_next(p, i))
            changed = true;
    if (p->cut.ended && !p->failed && !p->chain->ended)
        changed |= end_chain(p);
    return changed;
}
