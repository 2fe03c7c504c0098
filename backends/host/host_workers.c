// SPDX-License-Identifier: Apache-2.0
/* The workers of the host device: threads that take the ready streams in turn. A worker never
 * sleeps inside of a turn: a stream that has to wait is parked with the event, so any number of
 * streams may wait for each other's events, whatever the number of workers. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "host_stream.h"

/* The operations of a turn: some chunks, so that handing over costs little of them. */
enum { TURN_LENGTH = 16 };

/* ---- Lists ---- */

void hr__host_list_append(struct hr__host_list *list, struct hr__stream *stream)
{
    stream->next = NULL;
    if (list->last)
        list->last->next = stream;
    else
        list->first = stream;
    list->last = stream;
}

void hr__host_list_move(struct hr__host_list *to, struct hr__host_list *from)
{
    if (!from->first)
        return;
    if (to->last)
        to->last->next = from->first;
    else
        to->first = from->first;
    to->last = from->last;
    *from = (struct hr__host_list){0};
}

static struct hr__stream *pop(struct hr__host_list *list)
{
    struct hr__stream *stream = list->first;
    list->first = stream->next;
    if (!list->first)
        list->last = NULL;
    return stream;
}

/* ---- Operations ---- */

/* Time is asked for around stretches of work only, for asking is a system call. */
struct watch {
    bool is_running;
    struct hr__stint stint;
};

static void start_watch(struct watch *watch)
{
    if (!watch->is_running)
        *watch = (struct watch){.is_running = true, .stint = hr__stint_begin()};
}

static void stop_watch(struct watch *watch, struct hr__stream *stream)
{
    if (watch->is_running)
        stream->served_ns += hr__stint_ns(&watch->stint);
    watch->is_running = false;
}

static void work(struct hr__stream *stream, const struct hr__host_op *op)
{
    if (op->kind == OP_COPY) {
        memcpy(op->u.copy.to, op->u.copy.from, op->u.copy.size);
    } else if (op->kind == OP_LAUNCH) {
        hr__host_kernel_run(op->u.run.kernel, &op->u.run.launch, &stream->failure);
    } else if (op->kind == OP_CALL) {
        const int32_t value = op->u.run.function(op->u.run.argument);
        if (value != 0)
            hr__host_kernel_fail(op->u.run.kernel, &op->u.run.launch, value, &stream->failure);
    } else {
        stream->failure = stream->refusal;
    }
}

/* It may run for long, and be a function of the user, who has been told that it is over. */
static bool is_unwanted(const struct hr__host_op *op)
{
    const atomic_bool *cancelled =
        op->kind == OP_LAUNCH || op->kind == OP_CALL ? op->u.run.launch.cancelled : NULL;
    return cancelled && atomic_load_explicit(cancelled, memory_order_relaxed);
}

/* False: it is a wait for what is not done. */
static bool run(struct hr__stream *stream, const struct hr__host_op *op, struct watch *watch)
{
    if (op->kind == OP_RECORD) {
        stop_watch(watch, stream);
        hr__host_event_done(op->u.order.event, op->u.order.record, stream);
        return true;
    }
    if (op->kind == OP_WAIT)
        return hr__host_event_passed(op->u.order.event, op->u.order.record, &stream->failure);
    if (stream->failure.code != HR_OK || is_unwanted(op))
        return true;
    start_watch(watch);
    work(stream, op);
    return true;
}

/* ---- Turns ---- */

/* Returns how many operations are over with. */
static uint64_t run_some(struct hr__stream *stream)
{
    struct watch watch = {0};
    uint64_t n = 0;
    pthread_mutex_lock(&stream->lock);
    const uint64_t n_there = stream->n_enqueued - stream->n_taken;
    pthread_mutex_unlock(&stream->lock);
    while (n < n_there && n < TURN_LENGTH &&
           run(stream, &stream->queue[(stream->n_taken + n) % HR__HOST_QUEUE_LENGTH], &watch))
        n++;
    stop_watch(&watch, stream);
    return n;
}

/* The stream may be gone once it is idle, and in another worker's turn once it is handed over: it
 * is not touched afterwards. */
static void take_turn(struct hr__stream *stream)
{
    struct hr__host_device *device = stream->device;
    const uint64_t n = run_some(stream);
    pthread_mutex_lock(&stream->lock);
    stream->n_taken += n;
    stream->is_idle = stream->n_taken == stream->n_enqueued;
    const bool is_idle = stream->is_idle;
    pthread_cond_signal(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    if (is_idle)
        return;
    const struct hr__host_op *op = &stream->queue[stream->n_taken % HR__HOST_QUEUE_LENGTH];
    if (op->kind == OP_WAIT && hr__host_event_park(op->u.order.event, op->u.order.record, stream))
        return;
    pthread_mutex_lock(&device->lock); /* nobody is woken: this worker itself takes the next */
    hr__host_list_append(&device->ready, stream);
    pthread_mutex_unlock(&device->lock);
}

void hr__host_stream_ready(struct hr__stream *stream)
{
    struct hr__host_device *device = stream->device;
    pthread_mutex_lock(&device->lock);
    hr__host_list_append(&device->ready, stream);
    pthread_mutex_unlock(&device->lock);
    pthread_cond_signal(&device->work);
}

/* ---- Threads ---- */

/* The next ready stream, sleeping while there is none. NULL: the device is closed. Where there are
 * more, one more worker is woken; so who makes streams ready wakes one, however many they are. */
static struct hr__stream *next_stream(struct hr__host_device *device)
{
    pthread_mutex_lock(&device->lock);
    while (!device->ready.first && !device->closing)
        pthread_cond_wait(&device->work, &device->lock);
    struct hr__stream *stream = device->ready.first ? pop(&device->ready) : NULL;
    const bool is_more = device->ready.first;
    pthread_mutex_unlock(&device->lock);
    if (is_more)
        pthread_cond_signal(&device->work);
    return stream;
}

static void *worker(void *argument)
{
    struct hr__host_device *device = argument;
    struct hr__stream *stream;
    while ((stream = next_stream(device)))
        take_turn(stream);
    return NULL;
}

/* With every signal blocked: handlers run on the user's threads. */
int hr__host_workers_start(struct hr__host_device *device, unsigned n_workers)
{
    sigset_t all;
    sigset_t before;
    int rc = 0;
    device->workers = calloc(n_workers, sizeof *device->workers);
    if (!device->workers)
        return ENOMEM;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (rc == 0 && device->n_workers < n_workers) {
        rc = pthread_create(&device->workers[device->n_workers], NULL, worker, device);
        device->n_workers += rc == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0)
        hr__host_workers_stop(device);
    return rc;
}

void hr__host_workers_stop(struct hr__host_device *device)
{
    pthread_mutex_lock(&device->lock);
    device->closing = true;
    pthread_mutex_unlock(&device->lock);
    pthread_cond_broadcast(&device->work);
    for (unsigned i = 0; i < device->n_workers; i++)
        pthread_join(device->workers[i], NULL);
    free(device->workers);
}
