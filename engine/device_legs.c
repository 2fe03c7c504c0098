// SPDX-License-Identifier: Apache-2.0
#include "device_legs.h"

#include "clock.h"
#include "sched.h"

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

struct hr__device_queue *hr__leg_queue(const struct hr__slot *chunk, enum hr__leg leg)
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

bool hr__leg_any_pending(const struct hr__slot *chunk)
{
    const bool *pending = chunk->device.pending;
    return pending[HR__LEG_IN] || pending[HR__LEG_RUN] || pending[HR__LEG_OUT];
}

/* The chunk's leg before, on another stream, behind which this one runs. HR__N_LEGS: none. */
static enum hr__leg awaited(const struct hr__slot *chunk, enum hr__leg leg)
{
    const struct hr__device_work *work = &chunk->device;
    if (leg == HR__LEG_RUN && work->segment == 0 && work->copied_in)
        return HR__LEG_IN;
    if (leg == HR__LEG_OUT && !work->storing && (work->ran || work->copied_in))
        return work->ran ? HR__LEG_RUN : HR__LEG_IN;
    return HR__N_LEGS;
}

/* Whether the leg was not done a moment ago; one that is done lands in this very pump: the driver
 * tells of it no more. */
static bool is_pending(const struct hr__slot *chunk, enum hr__leg leg)
{
    struct hr__event *event = chunk->device.marks[marks[leg].done];
    if (!chunk->device.pending[leg])
        return false;
    if (chain_of(chunk)->device->ops->query(event, NULL) == HR_PENDING)
        return true;
    hr__leg_queue(chunk, leg)->pending_in = 0;
    return false;
}

/* Whether the stream works on something, and does not wait with all that it has for another one. */
static bool is_at_work(const struct hr__device_queue *queue)
{
    if (!queue->youngest || !is_pending(queue->youngest, queue->leg))
        return false;
    const enum hr__leg leg = awaited(queue->oldest, queue->leg);
    return leg == HR__N_LEGS || !is_pending(queue->oldest, leg);
}

/* What follows on a stream of a device that copies, while that is at work, begins when the leg
 * before it is done: an event would only make a gap between the two. Not where the stream waits: it
 * has time for an event, and what passes until it knows of the wait's end is no service. Nor where
 * a user's stream may have to be waited for: that time is the user's. */
static bool follows(const struct hr__slot *chunk, const struct hr__device_queue *queue,
                    const struct hr__event *after)
{
    const hr_pipeline *p = pipeline_of(chunk);
    const bool lends = p->keeps_on_device && p->sink.kind == HR_PULL;
    const bool is_users = lends && after == chunk->device.marks[HR__GIVEN_BACK];
    return !p->chain->host_memory && !is_users && is_at_work(queue);
}

struct hr__stream *hr__leg_begin(struct hr__slot *chunk, enum hr__leg leg, struct hr__event *after,
                                 hr_error *error)
{
    const struct hr__device_ops *ops = chain_of(chunk)->device->ops;
    const struct hr__device_queue *queue = hr__leg_queue(chunk, leg);
    struct hr__device_work *work = &chunk->device;
    work->begun_ns[leg] = hr__now_ns();
    work->passed_ns[marks[leg].begun] = work->passed_ns[marks[leg].done] = 0;
    work->asked[leg] = false;
    work->follows[leg] = follows(chunk, queue, after);
    error->code = HR_OK;
    if (after)
        ops->wait(queue->stream, after, error);
    if (!work->follows[leg])
        ops->record(queue->stream, work->marks[marks[leg].begun], error);
    return queue->stream;
}

/* The event carries a failure, so the chunk comes back either way; but what refused to be enqueued
 * knows more of the cause. */
void hr__leg_end(struct hr__slot *chunk, enum hr__leg leg, const hr_error *error)
{
    const struct hr__device_ops *ops = chain_of(chunk)->device->ops;
    struct hr__device_queue *queue = hr__leg_queue(chunk, leg);
    ops->record(queue->stream, chunk->device.marks[marks[leg].done], NULL);
    if (error->code < 0 && !chunk->error.code)
        chunk->error = *error;
    enqueue(queue, chunk);
    chunk->device.pending[leg] = true;
    hr__sched_launched(chunk, stage_of(chunk, leg));
}

/* ---- time ---- */

static uint64_t time_of(struct hr__slot *chunk, enum hr__mark mark)
{
    struct hr__device_work *work = &chunk->device;
    uint64_t *ns = &work->passed_ns[mark];
    if (*ns == 0)
        *ns = hr__device_clock_time(&chain_of(chunk)->clock, work->epoch, work->marks[mark]);
    return *ns;
}

/* When the device began: behind the leg before it on the stream, and the chunk's leg before it. */
static uint64_t begin_of(struct hr__slot *chunk, const struct hr__device_queue *queue)
{
    if (!chunk->device.follows[queue->leg])
        return time_of(chunk, marks[queue->leg].begun);
    const enum hr__leg before = awaited(chunk, queue->leg);
    const uint64_t after = before == HR__N_LEGS ? 0 : time_of(chunk, marks[before].done);
    return queue->until_ns > after ? queue->until_ns : after;
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
    /* kernels of several streams share the device: time with any of them on it counts once */
    served.service_ns = leg == HR__LEG_RUN
                            ? hr__cover_add(&chain->kernels, served.from_ns, served.until_ns)
                            : served.until_ns - served.from_ns;
    return served;
}

/* ---- what is done ---- */

/* Each question costs a call of the driver, and its lock. So none is asked twice in one pump, nor of
 * a leg that waits for another one that has not landed. A device whose memory is the host's is asked
 * by a load or two, and may be done in between. */
static bool is_worth_a_look(const hr_pipeline *p, const struct hr__device_queue *queue)
{
    if (!queue->oldest)
        return false;
    if (p->chain->host_memory)
        return true;
    const enum hr__leg before = awaited(queue->oldest, queue->leg);
    return queue->pending_in != p->n_pumps &&
           (before == HR__N_LEGS || !queue->oldest->device.pending[before]);
}

struct hr__slot *hr__leg_landed(hr_pipeline *p, struct hr__device_queue *queue)
{
    const struct hr__device_ops *ops = p->chain->device->ops;
    struct hr__slot *chunk = queue->oldest;
    hr_error error;
    if (!is_worth_a_look(p, queue))
        return NULL;
    const enum hr__leg leg = queue->leg;
    struct hr__device_work *work = &chunk->device;
    struct hr__event *event = work->marks[marks[leg].done];
    const hr_status status = ops->query(event, &error);
    if (status == HR_PENDING) {
        queue->pending_in = p->n_pumps;
        if (!work->asked[leg])
            ops->notify(event, p->loop->event_fd);
        work->asked[leg] = true;
        return NULL;
    }
    dequeue(queue);
    work->pending[leg] = false;
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
