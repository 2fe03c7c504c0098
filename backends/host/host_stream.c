// SPDX-License-Identifier: Apache-2.0
/* Streams of the host device: a bounded queue of operations and the thread that does them.
 *
 * A full queue makes the enqueueing thread wait for room, which backend.h does not foresee; its
 * length is far above what the chunks of a context have under way. It cannot wait for ever: an
 * operation waits only for records that were enqueued before it. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "host_device.h"
#include "status.h"

enum { QUEUE_LENGTH = 1024 };

enum op_kind { OP_COPY, OP_LAUNCH, OP_CALL, OP_RECORD, OP_WAIT, OP_REFUSE };

struct op {
    enum op_kind kind;
    union {
        struct {
            void *to;
            const void *from;
            size_t size;
        } copy;
        struct { /* launch; call: what a launch function enqueued, with its own launch */
            const struct hr__kernel *kernel;
            struct hr__launch launch;
            int32_t (*function)(void *argument);
            void *argument;
        } run;
        struct { /* record, wait */
            struct hr__event *event;
            uint64_t record;
        } order;
    } u;
};

struct hr__stream {
    struct hr__device base;
    struct hr__host_device *device;
    pthread_t thread;

    /* The thread's: the first failure, after which everything but records is passed over. */
    hr_error failure;

    /* The enqueueing thread's: the launch whose function runs; and how one of them failed. The
     * thread reads the refusal at its place in the queue, behind which it does not change. */
    const struct op *launching;
    hr_error refusal;

    /* Under the device's lock; the counters only grow. */
    pthread_cond_t more;
    pthread_cond_t room;
    bool closing;
    uint64_t n_enqueued;
    uint64_t n_taken;
    struct op queue[QUEUE_LENGTH];
};

/* ---- The thread ---- */

static void run(struct hr__stream *stream, const struct op *op)
{
    if (op->kind == OP_RECORD) {
        hr__host_event_done(op->u.order.event, op->u.order.record, &stream->failure);
        return;
    }
    if (stream->failure.code != HR_OK)
        return;
    if (op->kind == OP_COPY) {
        memcpy(op->u.copy.to, op->u.copy.from, op->u.copy.size);
    } else if (op->kind == OP_LAUNCH) {
        hr__host_kernel_run(op->u.run.kernel, &op->u.run.launch, &stream->failure);
    } else if (op->kind == OP_CALL) {
        const int32_t value = op->u.run.function(op->u.run.argument);
        if (value != 0)
            hr__host_kernel_fail(op->u.run.kernel, &op->u.run.launch, value, &stream->failure);
    } else if (op->kind == OP_WAIT) {
        hr__host_event_await(op->u.order.event, op->u.order.record, &stream->failure);
    } else {
        stream->failure = stream->refusal;
    }
}

/* Takes the next operation, sleeping while there is none. False: closed, and all is done. */
static bool take(struct hr__stream *stream, struct op *out)
{
    pthread_mutex_lock(&stream->device->lock);
    while (stream->n_taken == stream->n_enqueued && !stream->closing)
        pthread_cond_wait(&stream->more, &stream->device->lock);
    const bool taken = stream->n_taken < stream->n_enqueued;
    if (taken) {
        *out = stream->queue[stream->n_taken++ % QUEUE_LENGTH];
        pthread_cond_signal(&stream->room);
    }
    pthread_mutex_unlock(&stream->device->lock);
    return taken;
}

static void *work(void *argument)
{
    struct hr__stream *stream = argument;
    struct op op;
    while (take(stream, &op))
        run(stream, &op);
    return NULL;
}

/* With every signal blocked: handlers run on the user's threads. Returns 0 or an errno. */
static int start_thread(struct hr__stream *stream)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int rc = pthread_create(&stream->thread, NULL, work, stream);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

/* ---- Streams ---- */

hr_status hr__host_stream_create(struct hr__device *device, enum hr__stream_use use,
                                 struct hr__stream **out, hr_error *error)
{
    (void)use; /* here all are alike */
    struct hr__stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return hr__fail(error, HR_ENOMEM, (struct hr__where){0}, "no memory for a stream");
    stream->base = *device;
    stream->device = (struct hr__host_device *)device;
    pthread_cond_init(&stream->more, NULL);
    pthread_cond_init(&stream->room, NULL);
    const int rc = start_thread(stream);
    if (rc != 0) {
        pthread_cond_destroy(&stream->room);
        pthread_cond_destroy(&stream->more);
        free(stream);
        return hr__fail(error, HR_ENOMEM, (struct hr__where){.native = rc},
                        "no thread for a stream of the host device: %s", strerror(rc));
    }
    *out = stream;
    return HR_OK;
}

void hr__host_stream_destroy(struct hr__stream *stream)
{
    if (!stream)
        return;
    pthread_mutex_lock(&stream->device->lock);
    stream->closing = true;
    pthread_cond_signal(&stream->more);
    pthread_mutex_unlock(&stream->device->lock);
    pthread_join(stream->thread, NULL);
    pthread_cond_destroy(&stream->room);
    pthread_cond_destroy(&stream->more);
    free(stream);
}

void *hr__host_stream_handle(struct hr__stream *stream)
{
    return stream;
}

/* ---- Enqueueing ---- */

static void enqueue(struct hr__stream *stream, const struct op *op)
{
    pthread_mutex_lock(&stream->device->lock);
    while (stream->n_enqueued - stream->n_taken == QUEUE_LENGTH)
        pthread_cond_wait(&stream->room, &stream->device->lock);
    stream->queue[stream->n_enqueued++ % QUEUE_LENGTH] = *op;
    pthread_cond_signal(&stream->more);
    pthread_mutex_unlock(&stream->device->lock);
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
    const struct op op = {.kind = OP_COPY, .u.copy = {.to = to, .from = from, .size = size}};
    if (size > 0)
        enqueue(stream, &op);
    return pass_refusal(stream, error);
}

/* The function enqueues what it likes through hr_host_stream_call. */
static void call_launch_function(struct hr__stream *stream, const struct op *op)
{
    const struct op refuse = {.kind = OP_REFUSE};
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
    const struct op op = {.kind = OP_LAUNCH, .u.run = {.kernel = kernel, .launch = *launch}};
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
    struct op op = *stream->launching;
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
    const struct op op = {
        .kind = OP_RECORD,
        .u.order = {.event = event, .record = hr__host_event_record(event, stream)},
    };
    enqueue(stream, &op);
    return HR_OK;
}

hr_status hr__host_stream_wait(struct hr__stream *stream, struct hr__event *event, hr_error *error)
{
    (void)error;
    const struct op op = {
        .kind = OP_WAIT,
        .u.order = {.event = event, .record = hr__host_event_last_record(event)},
    };
    enqueue(stream, &op);
    return HR_OK;
}
