// SPDX-License-Identifier: Apache-2.0
/* Everything is enqueued at once, without waiting for what it follows:
 *
 *     H2D stream       [copy 0][copy 1][copy 2]
 *     kernel streams           [seg 0 ][seg 1 ] …      waits for IN_DONE
 *     D2H stream                       [copy 0] …      waits for RUN_DONE
 *
 * A failure goes the same way: an event behind it carries it, and who waits for the event has it
 * too. So errors of enqueueing need no care here: the event that ends the leg tells them. */
#include "transit.h"

#include <string.h>

#include "device_ends.h"
#include "device_legs.h"
#include "sched.h"

static hr_pipeline *pipeline_of(const struct hr__slot *chunk)
{
    return chunk->lane->pipeline;
}

static struct hr__chain *chain_of(const struct hr__slot *chunk)
{
    return pipeline_of(chunk)->chain;
}

/* ---- in ---- */

static char *direct_place(const struct hr__slot *chunk)
{
    const hr_pipeline *p = pipeline_of(chunk);
    return p->keeps_on_device && !p->chain->n_links ? hr__sink_place(p, chunk, chunk->size) : NULL;
}

/* Where the bytes are on the device: the user's own memory where they lie there already (kernels want
 * them aligned); their place in the sink, if nothing changes them; else the first buffer. */
static char *choose_place(const struct hr__slot *chunk)
{
    const struct hr__chain *chain = chain_of(chunk);
    const union {
        const char *from;
        char *at; /* kernels do not write to it */
    } data = {.from = chunk->data};
    const uint32_t alignment = chain->device->ops->info(chain->device)->kernel_alignment;
    if (chain->host_memory ||
        (chunk->on_device && (!chain->n_links || (uintptr_t)data.at % alignment == 0)))
        return data.at;
    char *place = direct_place(chunk);
    return place ? place : chunk->device.buffers;
}

static void copy_in(struct hr__slot *chunk)
{
    struct hr__chain *chain = chain_of(chunk);
    struct hr__device_work *work = &chunk->device;
    hr_error error;
    struct hr__stream *stream = hr__leg_queue(chunk, HR__LEG_IN)->stream;
    hr__leg_begin(chunk, HR__LEG_IN, work->marks[HR__GIVEN_BACK], &error);
    const enum hr__copy_kind kind = chunk->on_device ? HR__COPY_D2D : HR__COPY_H2D;
    if (error.code == HR_OK)
        chain->device->ops->copy(stream, work->at, chunk->data, work->size, kind, &error);
    hr__leg_end(chunk, HR__LEG_IN, &error);
    work->copied_in = true;
}

/* Bytes that are lent where their producer puts them are there when the streams have waited for him.
 */
static void mark_arrival(struct hr__slot *chunk)
{
    struct hr__stream *stream = hr__leg_queue(chunk, HR__LEG_IN)->stream;
    chain_of(chunk)->device->ops->record(stream, chunk->device.marks[HR__IN_DONE], NULL);
}

void hr__transit_begin(struct hr__slot *chunk)
{
    const struct hr__chain *chain = chain_of(chunk);
    const size_t slot = (size_t)(chunk - chunk->lane->slots);
    chunk->device = (struct hr__device_work){
        .size = chunk->size,
        .buffers =
            chain->host_memory ? chunk->memory : chain->buffers + slot * chain->buffers_stride,
        .marks = chain->events + slot * HR__N_MARKS,
        .stream = (unsigned)(chunk->index % chain->n_streams),
        .bytes_in = chunk->size,
    };
    chunk->device.at = choose_place(chunk);
    chunk->device.passes = hr__sink_takes_input(pipeline_of(chunk), chunk);
    if (chain->host_memory)
        return;
    const bool copies = chunk->device.at != chunk->data;
    const enum hr__leg first = copies ? HR__LEG_IN : chain->n_links ? HR__LEG_RUN : HR__LEG_OUT;
    chunk->device.epoch = hr__device_clock_epoch(&pipeline_of(chunk)->chain->clock,
                                                 hr__leg_queue(chunk, first)->stream);
    if (copies)
        copy_in(chunk);
    else if (first == HR__LEG_OUT && chunk->input && chunk->input->config.stream)
        mark_arrival(chunk);
}

/* ---- kernels ---- */

/* The buffer that the bytes do not lie in. */
static char *other_buffer(const struct hr__chain *chain, const struct hr__device_work *work)
{
    char *first = work->buffers + chain->headroom;
    const bool in_first =
        work->at >= work->buffers && work->at < work->buffers + chain->buffer_bytes;
    return in_first ? first + chain->buffer_bytes : first;
}

uint64_t *hr__transit_count(const struct hr__slot *chunk)
{
    return &chain_of(chunk)->counts[chunk - chunk->lane->slots];
}

/* Where a counted kernel leaves its count. */
static uint64_t *count_cell(const struct hr__slot *chunk)
{
    const struct hr__chain *chain = chain_of(chunk);
    void *behind = chunk->device.buffers + chain->n_buffers * chain->buffer_bytes;
    return chain->host_memory ? hr__transit_count(chunk) : behind;
}

/* Of the stream that the link reads. */
static uint64_t first_unit(const struct hr__slot *chunk, const struct hr__link *link,
                           uint64_t n_units)
{
    const size_t unit = hr__chain_unit(chain_of(chunk));
    return pipeline_of(chunk)->unordered
               ? chunk->stream_offset / unit * (n_units / (chunk->device.bytes_in / unit))
               : link->n_units;
}

static hr_status launch_link(struct hr__slot *chunk, struct hr__stream *stream,
                             struct hr__link *link, hr_error *error)
{
    struct hr__chain *chain = chain_of(chunk);
    struct hr__device_work *work = &chunk->device;
    const struct hr__kernel_info *info = &link->info;
    const struct hr__segment *segment = &chain->segments[work->segment];
    const uint64_t n_units = work->size / info->unit_in_bytes;
    const size_t state = work->stream % segment->n_queues * link->state_stride;
    const struct hr__launch launch = {
        .in = work->at,
        .out = info->unit_out_bytes ? other_buffer(chain, work) : NULL,
        .n_units = n_units,
        .first_unit = first_unit(chunk, link, n_units),
        .count = info->is_counted ? count_cell(chunk) : NULL,
        .state = info->is_reduction ? link->states + state : NULL,
        .chunk = chunk->number,
        .cancelled = &pipeline_of(chunk)->cancelled,
    };
    link->n_units += n_units;
    if (launch.out) {
        work->at = launch.out;
        work->size = (size_t)n_units * info->unit_out_bytes;
    }
    return chain->device->ops->launch(stream, link->kernel, &launch, error);
}

static hr_status bring_count(struct hr__slot *chunk, struct hr__stream *stream, hr_error *error)
{
    const struct hr__chain *chain = chain_of(chunk);
    const struct hr__segment *segment = &chain->segments[chunk->device.segment];
    if (chain->host_memory || segment->end == 0 || !chain->links[segment->end - 1].info.is_counted)
        return HR_OK;
    return chain->device->ops->copy(stream, hr__transit_count(chunk), count_cell(chunk),
                                    sizeof(uint64_t), HR__COPY_D2H, error);
}

void hr__transit_run(struct hr__slot *chunk, unsigned index)
{
    struct hr__chain *chain = chain_of(chunk);
    const struct hr__segment *segment = &chain->segments[index];
    struct hr__device_work *work = &chunk->device;
    struct hr__event *before =
        work->marks[hr__leg_any_pending(chunk) ? HR__IN_DONE : HR__GIVEN_BACK];
    hr_error error;
    work->segment = index;
    work->counted = false;
    work->ran = true;
    if (chain->counts)
        *hr__transit_count(chunk) = 0; /* a function may store none */
    struct hr__stream *stream =
        hr__leg_begin(chunk, HR__LEG_RUN, index == 0 ? before : NULL, &error);
    for (unsigned i = segment->first; i < segment->end && error.code == HR_OK; i++)
        if (!hr__pipeline_is_cancelled(pipeline_of(chunk))) /* a launch function may take long */
            launch_link(chunk, stream, &chain->links[i], &error);
    if (error.code == HR_OK)
        bring_count(chunk, stream, &error);
    hr__leg_end(chunk, HR__LEG_RUN, &error);
}

/* ---- out ---- */

void hr__transit_out(struct hr__slot *chunk)
{
    const hr_pipeline *p = pipeline_of(chunk);
    const struct hr__chain *chain = p->chain;
    struct hr__device_work *work = &chunk->device;
    hr_error error;
    if (!hr__sink_wants_copy(p, chunk))
        return;
    char *place = hr__sink_place(p, chunk, work->size);
    if (!place)
        place = chunk->memory;
    struct hr__event *after = work->marks[chain->n_links ? HR__RUN_DONE : HR__IN_DONE];
    struct hr__stream *stream =
        hr__leg_begin(chunk, HR__LEG_OUT, hr__leg_any_pending(chunk) ? after : NULL, &error);
    if (error.code == HR_OK)
        chain->device->ops->copy(stream, place, work->at, work->size, HR__COPY_D2H, &error);
    hr__leg_end(chunk, HR__LEG_OUT, &error);
    chunk->data = place;
    chunk->on_device = false;
    work->copied = true;
}

void hr__transit_store(struct hr__slot *chunk, char *place)
{
    hr_error error;
    chunk->device.storing = true;
    struct hr__stream *stream = hr__leg_begin(chunk, HR__LEG_OUT, NULL, &error);
    if (error.code == HR_OK)
        chain_of(chunk)->device->ops->copy(stream, place, chunk->data, chunk->size, HR__COPY_D2D,
                                           &error);
    hr__leg_end(chunk, HR__LEG_OUT, &error);
}

/* ---- units behind counted kernels ---- */

/* In the headroom before the bytes. */
static void join_on_host(struct hr__slot *chunk, struct hr__segment *segment)
{
    struct hr__device_work *work = &chunk->device;
    char *data = work->at - segment->carried;
    memcpy(data, segment->carry, segment->carried);
    const size_t size = segment->carried + work->size;
    const size_t rest = size % segment->unit;
    memcpy(segment->carry, data + size - rest, rest);
    segment->carried = rest;
    work->at = data;
    work->size = size - rest;
}

/* Kernels want their input aligned, so where something was carried all moves to the other buffer.
 * It is in order with the kernels: later segments have one stream. A failure is told by the event
 * behind them. */
void hr__transit_join(struct hr__slot *chunk, struct hr__segment *segment)
{
    const struct hr__chain *chain = chain_of(chunk);
    const struct hr__device_ops *ops = chain->device->ops;
    struct hr__device_work *work = &chunk->device;
    if (chain->host_memory) {
        join_on_host(chunk, segment);
        return;
    }
    struct hr__stream *stream = chain->queues[segment->first_queue].stream;
    const size_t size = segment->carried + work->size;
    const size_t rest = size % segment->unit;
    if (segment->carried) {
        char *to = other_buffer(chain, work);
        ops->copy(stream, to, segment->carry, segment->carried, HR__COPY_D2D, NULL);
        ops->copy(stream, to + segment->carried, work->at, work->size, HR__COPY_D2D, NULL);
        work->at = to;
    }
    if (rest)
        ops->copy(stream, segment->carry, work->at + size - rest, rest, HR__COPY_D2D, NULL);
    segment->carried = rest;
    work->size = size - rest;
}
