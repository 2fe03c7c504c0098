// SPDX-License-Identifier: Apache-2.0
/* Runs the chain over the chunks. First segments are started as chunks come, one stream after the
 * other; behind a counted kernel the next segment of a chunk waits until those of all chunks before
 * it have been started, because where its units begin depends on their counts. */
#include <string.h>

#include "pipeline.h"
#include "sched.h"
#include "status.h"

static hr_pipeline *pipeline_of(const struct hr__slot *chunk)
{
    return chunk->lane->pipeline;
}

/* Where the chunk's segment runs. */
static struct hr__device_queue *queue_of(const struct hr__slot *chunk)
{
    const struct hr__chain *chain = pipeline_of(chunk)->chain;
    const struct hr__device_work *work = &chunk->device;
    return &chain->queues[work->segment * chain->n_streams + work->stream];
}

/* ---- launching ---- */

/* The buffer that the bytes do not lie in. */
static char *other_buffer(const struct hr__chain *chain, const struct hr__slot *chunk)
{
    char *first = chunk->memory + chain->headroom;
    const bool in_first =
        chunk->data >= chunk->memory && chunk->data < chunk->memory + chain->buffer_bytes;
    return in_first ? first + chain->buffer_bytes : first;
}

static hr_status launch_link(struct hr__slot *chunk, struct hr__link *link, hr_error *error)
{
    struct hr__chain *chain = pipeline_of(chunk)->chain;
    struct hr__device_work *work = &chunk->device;
    const struct hr__kernel_info *info = &link->info;
    const uint64_t n_units = chunk->size / info->unit_in_bytes;
    const struct hr__launch launch = {
        .in = chunk->data,
        .out = info->unit_out_bytes ? other_buffer(chain, chunk) : NULL,
        .n_units = n_units,
        .first_unit = link->n_units,
        .count = &work->count,
        .state = link->states[work->stream],
        .chunk = chunk->number,
    };
    link->n_units += n_units;
    if (launch.out) {
        chunk->data = launch.out;
        chunk->size = (size_t)n_units * info->unit_out_bytes;
    }
    return chain->device->ops->launch(queue_of(chunk)->stream, link->kernel, &launch, error);
}

static void enqueue(struct hr__device_queue *queue, struct hr__slot *chunk)
{
    chunk->device.next = NULL;
    if (queue->youngest)
        queue->youngest->device.next = chunk;
    else
        queue->oldest = chunk;
    queue->youngest = chunk;
}

static struct hr__slot *dequeue(struct hr__device_queue *queue)
{
    struct hr__slot *chunk = queue->oldest;
    queue->oldest = chunk->device.next;
    if (!queue->oldest)
        queue->youngest = NULL;
    return chunk;
}

/* A launch that fails is reported by the event behind it too, so the chunk comes back either way.
 */
static void launch_segment(struct hr__slot *chunk, unsigned index)
{
    struct hr__chain *chain = pipeline_of(chunk)->chain;
    const struct hr__device_ops *ops = chain->device->ops;
    const struct hr__segment *segment = &chain->segments[index];
    hr_error error = {0};
    chunk->device.segment = index;
    chunk->device.notified = chunk->device.counted = false;
    chunk->device.count = 0; /* a function may store none */
    struct hr__device_queue *queue = queue_of(chunk);
    hr_status status = ops->record(queue->stream, chunk->device.begun, &error);
    for (unsigned i = segment->first; i < segment->end && status == HR_OK; i++)
        status = launch_link(chunk, &chain->links[i], &error);
    if (status == HR_OK)
        status = ops->record(queue->stream, chunk->device.done, &error);
    else if (ops->record(queue->stream, chunk->device.done, NULL) < 0)
        status = error.code;
    if (status < 0)
        chunk->error = error;
    enqueue(queue, chunk);
    hr__sched_launched(chunk);
}

/* ---- completion ---- */

/* The count is what a kernel says: it is believed as far as there is room. */
static void take_count(struct hr__slot *chunk, unsigned index)
{
    const struct hr__link *link = &pipeline_of(chunk)->chain->links[index];
    const uint64_t count = chunk->device.count;
    const uint64_t most = chunk->size / link->info.unit_out_bytes;
    if (count > most && !chunk->error.code)
        hr__fail(&chunk->error, HR_EDEVICE, (struct hr__where){0},
                 "kernel %u says that it wrote %llu units: there is room for %llu, as many as it "
                 "was given",
                 index, (unsigned long long)count, (unsigned long long)most);
    else
        chunk->size = (size_t)count * link->info.unit_out_bytes;
}

/* The input is not needed once a kernel has written its bytes elsewhere. */
static void let_input_go(struct hr__slot *chunk)
{
    const bool own = chunk->memory && chunk->data >= chunk->memory &&
                     chunk->data < chunk->memory + pipeline_of(chunk)->chain->chunk_bytes;
    if (own && chunk->holds) {
        hr__slot_drop(chunk->holds);
        chunk->holds = NULL;
    }
}

static void leave_device(struct hr__slot *chunk)
{
    hr_pipeline *p = pipeline_of(chunk);
    if (chunk->error.code) {
        chunk->size = 0;
        chunk->error.stage = HR_STAGE_KERNEL;
        chunk->error.chunk = chunk->number;
        chunk->error.offset = chunk->stream_offset;
        p->input_ended = true;
    } else {
        hr__sched_count(p, HR_STAGE_KERNEL, chunk->device.bytes_in, chunk->size);
    }
    chunk->state = HR__SLOT_READY;
}

static void land(struct hr__slot *chunk, hr_status status, const hr_error *error)
{
    struct hr__chain *chain = pipeline_of(chunk)->chain;
    struct hr__device_work *work = &chunk->device;
    const struct hr__segment *segment = &chain->segments[work->segment];
    uint64_t service_ns = 0;
    if (status == HR_OK)
        service_ns = chain->device->ops->elapsed_ns(work->begun, work->done);
    else if (!chunk->error.code)
        chunk->error = *error;
    hr__sched_landed(chunk, service_ns);
    if (chain->links[segment->end - 1].info.is_counted)
        take_count(chunk, segment->end - 1);
    let_input_go(chunk);
    if (chunk->error.code || work->segment + 1 == chain->n_segments)
        leave_device(chunk);
    else
        work->counted = true;
}

static bool collect(hr_pipeline *p)
{
    struct hr__chain *chain = p->chain;
    const struct hr__device_ops *ops = chain->device->ops;
    bool changed = false;
    for (unsigned i = 0; i < chain->n_queues; i++) {
        struct hr__device_queue *queue = &chain->queues[i];
        while (queue->oldest) {
            hr_error error;
            const hr_status status = ops->query(queue->oldest->device.done, &error);
            if (status == HR_PENDING)
                break;
            land(dequeue(queue), status, &error);
            changed = true;
        }
        if (queue->oldest && !queue->oldest->device.notified) {
            queue->oldest->device.notified = true;
            ops->notify(queue->oldest->device.done, p->loop->event_fd);
        }
    }
    return changed;
}

/* ---- the order ---- */

static void start_chunk(struct hr__slot *chunk)
{
    struct hr__chain *chain = pipeline_of(chunk)->chain;
    const size_t slot = (size_t)(chunk - chunk->lane->slots);
    chunk->device = (struct hr__device_work){
        .stream = (unsigned)(chunk->index % chain->n_streams),
        .begun = chain->events[2 * slot],
        .done = chain->events[2 * slot + 1],
        .bytes_in = chunk->size,
    };
    launch_segment(chunk, 0);
}

/* Joins what was carried to the front of what the counted kernel gave, and carries the rest. */
static void shift_units(struct hr__segment *segment, struct hr__slot *chunk)
{
    char *data = chunk->memory + (chunk->data - chunk->memory) - segment->carried;
    memcpy(data, segment->carry, segment->carried);
    const size_t size = segment->carried + chunk->size;
    const size_t rest = size % segment->unit;
    memcpy(segment->carry, data + size - rest, rest);
    segment->carried = rest;
    chunk->data = data;
    chunk->size = size - rest;
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
        shift_units(segment, chunk);
        launch_segment(chunk, index);
    } else if (!chunk->error.code) {
        return false;
    }
    segment->next++;
    return true;
}

/* Behind the last chunk no unit may be unfinished. */
static bool end_chain(hr_pipeline *p)
{
    struct hr__chain *chain = p->chain;
    const struct hr__segment *bad = NULL;
    for (unsigned i = 0; i < chain->n_segments; i++) {
        if (chain->segments[i].next != p->chunks.tail)
            return false;
        if (chain->segments[i].carried && !bad)
            bad = &chain->segments[i];
    }
    if (bad && !p->cut.failed) {
        struct hr__slot *chunk = hr__lane_take(&p->chunks, false);
        if (!chunk)
            return false;
        hr__lane_place(chunk);
        hr__fail(&chunk->error, HR_ETRUNCATED,
                 (struct hr__where){.stage = HR_STAGE_KERNEL,
                                    .chunk = chunk->index,
                                    .offset = p->cut.stream_offset},
                 "kernel %u: its input ends inside of a unit: %zu of %zu bytes are there",
                 bad->first, bad->carried, bad->unit);
        chunk->state = HR__SLOT_READY;
    }
    chain->ended = true;
    return true;
}

bool hr__kernel_stage(hr_pipeline *p)
{
    bool changed = collect(p);
    if (p->failed)
        return changed;
    for (unsigned i = p->chain->n_segments; i-- > 0;)
        while (start_next(p, i))
            changed = true;
    if (p->cut.ended && !p->chain->ended)
        changed |= end_chain(p);
    return changed;
}
