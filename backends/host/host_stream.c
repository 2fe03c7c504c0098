// SPDX-License-Identifier: Apache-2.0
/* Streams of the host device, as who enqueues sees them: bounded queues.
 *
 * A full queue makes the enqueueing thread wait for room, which backend.h does not foresee; that
 * thread is then far ahead of the workers. It cannot wait for ever: an operation waits only for
 * records that were enqueued before it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_stream.h"
#include "status.h"

/* ---- Streams ---- */

/* The queue is not cleared: its pages are touched when they are needed. */
hr_status hr__host_stream_create(struct hr__device *device, enum hr__stream_use use,
                                 struct hr__stream **out, hr_error *error)
{
    (void)use; /* here all are alike */
    struct hr__stream *stream = malloc(sizeof *stream);
    if (!stream)
        return hr__fail(error, HR_ENOMEM, (struct hr__where){0}, "no memory for a stream");
    memset(stream, 0, offsetof(struct hr__stream, queue));
    stream->base = *device;
    stream->device = (struct hr__host_device *)device;
    stream->is_idle = true;
    pthread_mutex_init(&stream->lock, NULL);
    pthread_cond_init(&stream->changed, NULL);
    *out = stream;
    return HR_OK;
}

void hr__host_stream_destroy(struct hr__stream *stream)
{
    if (!stream)
        return;
    pthread_mutex_lock(&stream->lock);
    while (!stream->is_idle)
        pthread_cond_wait(&stream->changed, &stream->lock);
    pthread_mutex_unlock(&stream->lock);
    pthread_cond_destroy(&stream->changed);
    pthread_mutex_destroy(&stream->lock);
    free(stream);
}

void *hr__host_stream_handle(struct hr__stream *stream)
{
    return stream;
}

/* ---- Enqueueing ---- */

static void enqueue(struct hr__stream *stream, const struct hr__host_op *op)
{
    pthread_mutex_lock(&stream->lock);
    while (stream->n_enqueued - stream->n_taken == HR__HOST_QUEUE_LENGTH)
        pthread_cond_wait(&stream->changed, &stream->lock);
    stream->queue[stream->n_enqueued++ % HR__HOST_QUEUE_LENGTH] = *op;
    const bool was_idle = stream->is_idle;
    stream->is_idle = false;
    pthread_mutex_unlock(&stream->lock);
    if (was_idle)
        hr__host_stream_ready(stream);
}

/* What copies and launches return: HR_OK, or the failure of an earlier launch function. */
static hr_status pass_refusal(const struct hr__stream *stream, hr_error *error)
{
    if (stream->refusal.code != HR_OK && error)
        *error = stream->refusal;
    return (hr_status)stream->refusal.code;
}

hr_status hr__host_stream_copy(struct hr__stream *stream, void *to, const void *from, size_t size,
                               enum hr__copy_kind kind, hr_error *error)
{
    (void)kind; /* one memory */
    const struct hr__host_op op = {.kind = OP_COPY,
                                   .u.copy = {.to = to, .from = from, .size = size}};
    if (size > 0)
        enqueue(stream, &op);
    return pass_refusal(stream, error);
}

/* The function enqueues what it likes through hr_host_stream_call. */
static void call_launch_function(struct hr__stream *stream, const struct hr__host_op *op)
{
    const struct hr__host_op refuse = {.kind = OP_REFUSE};
    stream->launching = op;
    const int32_t value = hr__host_kernel_call(op->u.run.kernel, &op->u.run.launch, stream);
    stream->launching = NULL;
    if (value == 0)
        return;
    hr__host_kernel_fail(op->u.run.kernel, &op->u.run.launch, value, &stream->refusal);
    enqueue(stream, &refuse);
}

hr_status hr__host_stream_launch(struct hr__stream *stream, struct hr__kernel *kernel,
                                 const struct hr__launch *launch, hr_error *error)
{
    const struct hr__host_op op = {.kind = OP_LAUNCH,
                                   .u.run = {.kernel = kernel, .launch = *launch}};
    if (kernel->kind != HR_KERNEL_LAUNCH || launch->n_units == 0)
        enqueue(stream, &op);
    else if (stream->refusal.code == HR_OK)
        call_launch_function(stream, &op);
    return pass_refusal(stream, error);
}

int32_t hr_host_stream_call(hr_host_stream *handle, int32_t (*function)(void *argument),
                            void *argument)
{
    struct hr__stream *stream = (struct hr__stream *)handle;
    if (!stream || !function || !stream->launching)
        return EINVAL;
    struct hr__host_op op = *stream->launching;
    op.kind = OP_CALL;
    op.u.run.function = function;
    op.u.run.argument = argument;
    enqueue(stream, &op);
    return 0;
}

/* Records and waits are enqueued whatever happened: an event behind a failure reports it. */
hr_status hr__host_stream_record(struct hr__stream *stream, struct hr__event *event,
                                 hr_error *error)
{
    (void)error;
    const struct hr__host_op op = {
        .kind = OP_RECORD,
        .u.order = {.event = event, .record = hr__host_event_next_record(event, stream)},
    };
    enqueue(stream, &op);
    return HR_OK;
}

hr_status hr__host_stream_wait(struct hr__stream *stream, struct hr__event *event, hr_error *error)
{
    (void)error;
    const struct hr__host_op op = {
        .kind = OP_WAIT,
        .u.order = {.event = event, .record = hr__host_event_last_record(event)},
    };
    enqueue(stream, &op);
    return HR_OK;
}
