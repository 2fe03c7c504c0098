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

#include "clock.h"
#include "device_ends.h"
#include "sched.h"
#include "status.h"

static hr_pipeline *pipeline_of(const struct hr__slot *chunk)
{
    return chunk->lane->pipeline;
}

static struct hr__chain *chain_of(const struct hr__slot *chunk)
{
    return pipeline_of(chunk)->chain;
}

static const enum hr_stage stages[] = {
    [HR__LEG_IN] = HR_STAGE_H2D, [HR__LEG_RUN] = HR_STAGE_KERNEL, [HR__LEG_OUT] = HR_STAGE_D2H};

static const struct {
    enum hr__mark begun;
    enum hr__mark done;
} marks[] = {[HR__LEG_IN] = {HR__IN_BEGUN, HR__IN_DONE},
             [HR__LEG_RUN] = {HR__RUN_BEGUN, HR__RUN_DONE},
             [HR__LEG_OUT] = {HR__OUT_BEGUN, HR__OUT_DONE}};

static enum hr_stage stage_of(const struct hr__slot *chunk, enum hr__leg leg)
{
    return leg == HR__LEG_OUT && chunk->device.storing ? HR_STAGE_WRITE : stages[leg];
}

/* ---- queues ---- */

static struct hr__device_queue *queue_of(const struct hr__slot *chunk, enum hr__leg leg)
{
    const struct hr__chain *chain = chain_of(chunk);
    const struct hr__device_work *work = &chunk->device;
    if (leg == HR__LEG_IN)
        return &chain->queues[chain->n_queues - 2];
    if (leg == HR__LEG_OUT)
        return &chain->queues[chain->n_queues - 1];
    const struct hr__segment *segment = &chain->segments[work->segment];
    return &chain->queues[segment->first_queue + work->stream % segment->n_queues];
}

static void enqueue(struct hr__device_queue *queue, struct hr__slot *chunk)
{
    chunk->device.next[queue->leg] = NULL;
    if (queue->youngest)
        queue->youngest->device.next[queue->leg] = chunk;
    else
        queue->oldest = chunk;
    queue->youngest = chunk;
}

static void dequeue(struct hr__device_queue *queue)
{
    queue->oldest = queue->oldest->device.next[queue->leg];
    if (!queue->oldest)
        queue->youngest = NULL;
}

/* ---- the begin and the end of a leg ---- */

/* Whether the stream has something to do that is not done yet. */
static bool is_busy(const struct hr__device_queue *queue)
{
    if (!queue->youngest)
        return false;
    const struct hr__device_work *work = &queue->youngest->device;
    struct hr__event *done = work->marks[marks[queue->leg].done];
    return chain_of(queue->youngest)->device->ops->query(done, NULL) == HR_PENDING;
}

/* What fails between them is in *error. On a device that copies, what follows on a busy stream
 * begins when the leg before it is done: an event would only make a gap between the two. */
static struct hr__stream *begin_leg(struct hr__slot *chunk, enum hr__leg leg,
                                    struct hr__event *after, hr_error *error)
{
    const struct hr__device_ops *ops = chain_of(chunk)->device->ops;
    const struct hr__device_queue *queue = queue_of(chunk, leg);
    struct hr__device_work *work = &chunk->device;
    work->begun_ns[leg] = hr__now_ns();
    work->asked[leg] = false;
    work->follows[leg] = !chain_of(chunk)->host_memory && is_busy(queue);
    error->code = HR_OK;
    if (after)
        ops->wait(queue->stream, after, error);
    if (!work->follows[leg])
        ops->record(queue->stream, work->marks[marks[leg].begun], error);
    return queue->stream;
}

/* The event carries a failure, so the chunk comes back either way; but what refused to be enqueued
 * knows more of the cause. */
static void end_leg(struct hr__slot *chunk, enum hr__leg leg, const hr_error *error)
{
    const struct hr__device_ops *ops = chain_of(chunk)->device->ops;
    struct hr__device_queue *queue = queue_of(chunk, leg);
    ops->record(queue->stream, chunk->device.marks[marks[leg].done], NULL);
    if (error->code < 0 && !chunk->error.code)
        chunk->error = *error;
    enqueue(queue, chunk);
    chunk->device.n_pending++;
    hr__sched_launched(chunk, stage_of(chunk, leg));
}

/* ---- time ---- */

static uint64_t time_of(const struct hr__slot *chunk, enum hr__mark mark)
{
    const struct hr__device_work *work = &chunk->device;
    return hr__device_clock_time(&chain_of(chunk)->clock, work->epoch, work->marks[mark]);
}

/* When the device began: behind the leg before it on the stream, and the chunk's leg before it. */
static uint64_t begin_of(const struct hr__slot *chunk, const struct hr__device_queue *queue)
{
    const struct hr__device_work *work = &chunk->device;
    if (!work->follows[queue->leg])
        return time_of(chunk, marks[queue->leg].begun);
    uint64_t after = 0;
    if (queue->leg == HR__LEG_RUN && work->segment == 0 && work->copied_in)
        after = time_of(chunk, HR__IN_DONE);
    if (queue->leg == HR__LEG_OUT && !work->storing && (work->ran || work->copied_in))
        after = time_of(chunk, work->ran ? HR__RUN_DONE : HR__IN_DONE);
    return queue->until_ns > after ? queue->until_ns : after;
}

/* Kernels of several streams share the device: time with any of them on it counts once. */
static uint64_t count_kernels(struct hr__chain *chain, uint64_t from, uint64_t ns)
{
    const uint64_t until = chain->kernels_until;
    if (from >= until) {
        chain->kernels_until = from + ns;
        return ns;
    }
    if (from + ns <= until)
        return 0;
    chain->kernels_until = from + ns;
    return from + ns - until;
}

static struct hr__served serve(struct hr__slot *chunk, struct hr__device_queue *queue)
{
    struct hr__chain *chain = chain_of(chunk);
    const struct hr__device_work *work = &chunk->device;
    const enum hr__leg leg = queue->leg;
    struct hr__served served = {work->begun_ns[leg], hr__now_ns(), 0};
    if (chain->host_memory) {
        served.service_ns = chain->device->ops->elapsed_ns(work->marks[marks[leg].begun],
                                                           work->marks[marks[leg].done]);
        return served;
    }
    served.from_ns = begin_of(chunk, queue);
    served.until_ns = queue->until_ns = time_of(chunk, marks[leg].done);
    if (served.from_ns > served.until_ns)
        served.from_ns = served.until_ns; /* clocks are told to a part of a microsecond */
    const uint64_t ns = served.until_ns - served.from_ns;
    served.service_ns = leg == HR__LEG_RUN ? count_kernels(chain, served.from_ns, ns) : ns;
    return served;
}

/* ---- what is done ---- */

struct hr__slot *hr__transit_landed(hr_pipeline *p, struct hr__device_queue *queue)
{
    const struct hr__device_ops *ops = p->chain->device->ops;
    struct hr__slot *chunk = queue->oldest;
    hr_error error;
    if (!chunk)
        return NULL;
    const enum hr__leg leg = queue->leg;
    struct hr__device_work *work = &chunk->device;
    struct hr__event *event = work->marks[marks[leg].done];
    const hr_status status = ops->query(event, &error);
    if (status == HR_PENDING) {
        if (!work->asked[leg])
            ops->notify(event, p->loop->event_fd);
        work->asked[leg] = true;
        return NULL;
    }
    dequeue(queue);
    work->n_pending--;
    struct hr__served served = {work->begun_ns[leg], hr__now_ns(), 0};
    if (status == HR_OK)
        served = serve(chunk, queue);
    else if (!chunk->error.code)
        chunk->error = error;
    if (chunk->error.code)
        p->chain->failed = true;
    hr__sched_landed(chunk, stage_of(chunk, leg), &served);
    return chunk;
}

/* ---- in ---- */

/* Where the bytes are on the device: the user's own memory where they lie there already (kernels want
 * them aligned); their place in the sink, if nothing changes them; else the first buffer. */
static char *direct_place(const struct hr__slot *chunk)
{
    const hr_pipeline *p = pipeline_of(chunk);
    return p->keeps_on_device && !p->chain->n_links ? hr__sink_place(p, chunk, chunk->size) : NULL;
}

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
    struct hr__stream *stream = queue_of(chunk, HR__LEG_IN)->stream;
    begin_leg(chunk, HR__LEG_IN, work->marks[HR__GIVEN_BACK], &error);
    const enum hr__copy_kind kind = chunk->on_device ? HR__COPY_D2D : HR__COPY_H2D;
    if (error.code == HR_OK)
        chain->device->ops->copy(stream, work->at, chunk->data, work->size, kind, &error);
    end_leg(chunk, HR__LEG_IN, &error);
    work->copied_in = true;
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
    chunk->device.epoch =
        hr__device_clock_epoch(&pipeline_of(chunk)->chain->clock, queue_of(chunk, first)->stream);
    if (copies)
        copy_in(chunk);
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
        .first_unit = link->n_units,
        .count = info->is_counted ? count_cell(chunk) : NULL,
        .state = info->is_reduction ? link->states + state : NULL,
        .chunk = chunk->number,
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
    struct hr__event *before = work->marks[work->n_pending ? HR__IN_DONE : HR__GIVEN_BACK];
    hr_error error;
    work->segment = index;
    work->counted = false;
    work->ran = true;
    if (chain->counts)
        *hr__transit_count(chunk) = 0; /* a function may store none */
    struct hr__stream *stream = begin_leg(chunk, HR__LEG_RUN, index == 0 ? before : NULL, &error);
    for (unsigned i = segment->first; i < segment->end && error.code == HR_OK; i++)
        launch_link(chunk, stream, &chain->links[i], &error);
    if (error.code == HR_OK)
        bring_count(chunk, stream, &error);
    end_leg(chunk, HR__LEG_RUN, &error);
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
        begin_leg(chunk, HR__LEG_OUT, work->n_pending ? after : NULL, &error);
    if (error.code == HR_OK)
        chain->device->ops->copy(stream, place, work->at, work->size, HR__COPY_D2H, &error);
    end_leg(chunk, HR__LEG_OUT, &error);
    chunk->data = place;
    chunk->on_device = false;
    work->copied = true;
}

void hr__transit_store(struct hr__slot *chunk, char *place)
{
    hr_error error;
    chunk->device.storing = true;
    struct hr__stream *stream = begin_leg(chunk, HR__LEG_OUT, NULL, &error);
    if (error.code == HR_OK)
        chain_of(chunk)->device->ops->copy(stream, place, chunk->data, chunk->size, HR__COPY_D2D,
                                           &error);
    end_leg(chunk, HR__LEG_OUT, &error);
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
