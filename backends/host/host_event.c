// SPDX-License-Identifier: Apache-2.0
/* Events of the host device. Each record has a number; streams and callers look whether the highest
 * one that is done has come up to theirs. A record becomes done in three steps:
 *
 *   1. n_done       streams that are parked here may go on
 *   2. the eventfd  is written, if somebody asked
 *   3. n_settled    the worker has let go of the event, which its user may now destroy
 *
 * Whoever is woken by step 2 must find the event done, and whoever finds it done may close the
 * descriptor. So the steps are under the lock of the event's stream, and query(), where it looks
 * between them, passes through that lock. All other queries are one or two atomic loads. */
#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "host_stream.h"
#include "status.h"
#include "wake.h"

struct hr__event {
    struct hr__device base;
    struct hr__host_device *device; /* constant */

    /* The enqueueing thread's; changed under the stream's lock. */
    struct hr__stream *stream; /* of the last record */
    uint64_t n_recorded;
    int notify_fd; /* under the stream's lock; -1: nobody asked */

    /* Under the device's lock, which `passed` and `park` look under. query() reads n_done without:
     * release and acquire, the results of the work before the record come with it. */
    atomic_uint_least64_t n_done;
    uint64_t served_ns; /* of the stream, when the last record was done */
    struct hr__host_list parked;
    hr_error failure; /* of the records failed_first <= record < failed_end, the last that failed */
    uint64_t failed_first;
    uint64_t failed_end;

    atomic_uint_least64_t n_settled; /* release and acquire: as n_done */
};

hr_status hr__host_event_create(struct hr__device *device, struct hr__event **out, hr_error *error)
{
    struct hr__event *event = calloc(1, sizeof *event);
    if (!event)
        return hr__fail(error, HR_ENOMEM, (struct hr__where){0}, "no memory for an event");
    event->base = *device;
    event->device = (struct hr__host_device *)device;
    event->notify_fd = -1;
    *out = event;
    return HR_OK;
}

/* ---- For the enqueueing thread ---- */

static bool is_settled(const struct hr__event *event)
{
    return atomic_load_explicit(&event->n_settled, memory_order_acquire) == event->n_recorded;
}

/* Is the last record done, and the worker's hand off the event? The stream is there while it is
 * not: destroying it waits for that. */
static bool is_done(const struct hr__event *event)
{
    if (is_settled(event))
        return true;
    if (atomic_load_explicit(&event->n_done, memory_order_acquire) != event->n_recorded)
        return false;
    pthread_mutex_lock(&event->stream->lock);
    pthread_mutex_unlock(&event->stream->lock);
    return true;
}

/* The event's user may know that it is done from work behind it, and the worker still be at it. */
static void let_go(const struct hr__event *event)
{
    const bool done = is_done(event);
    assert(done);
    (void)done;
}

static bool has_failed(const struct hr__event *event, uint64_t record)
{
    return record >= event->failed_first && record < event->failed_end;
}

void hr__host_event_destroy(struct hr__event *event)
{
    if (event)
        let_go(event);
    free(event);
}

uint64_t hr__host_event_next_record(struct hr__event *event, struct hr__stream *stream)
{
    if (event->stream != stream)
        let_go(event);
    pthread_mutex_lock(&stream->lock);
    event->stream = stream;
    event->notify_fd = -1;
    const uint64_t record = ++event->n_recorded;
    pthread_mutex_unlock(&stream->lock);
    return record;
}

uint64_t hr__host_event_last_record(const struct hr__event *event)
{
    return event->n_recorded;
}

hr_status hr__host_event_query(struct hr__event *event, hr_error *error)
{
    if (!is_done(event))
        return HR_PENDING;
    if (!has_failed(event, event->n_recorded))
        return HR_OK;
    if (error)
        *error = event->failure;
    return (hr_status)event->failure.code;
}

void hr__host_event_notify(struct hr__event *event, int event_fd)
{
    bool done = is_settled(event);
    if (!done) {
        pthread_mutex_lock(&event->stream->lock);
        done = is_settled(event);
        event->notify_fd = done ? -1 : event_fd;
        pthread_mutex_unlock(&event->stream->lock);
    }
    if (done)
        hr__wake(event_fd);
}

uint64_t hr__host_event_elapsed_ns(const struct hr__event *from, const struct hr__event *to)
{
    assert(from->stream == to->stream);
    return to->served_ns - from->served_ns;
}

/* ---- For the workers ---- */

/* Step 1. Parked streams look again, each for its own record. */
static void set_done(struct hr__event *event, uint64_t record, const struct hr__stream *stream)
{
    struct hr__host_device *device = event->device;
    pthread_mutex_lock(&device->lock);
    event->served_ns = stream->served_ns;
    if (stream->failure.code != HR_OK) {
        if (event->failed_end != record)
            event->failed_first = record;
        event->failed_end = record + 1;
        event->failure = stream->failure;
    }
    atomic_store_explicit(&event->n_done, record, memory_order_release);
    const bool wakes = event->parked.first;
    hr__host_list_move(&device->ready, &event->parked);
    pthread_mutex_unlock(&device->lock);
    if (wakes)
        pthread_cond_signal(&device->work);
}

/* The eventfd is written under the stream's lock, although that is a system call: it is short, and
 * who waits for the lock meanwhile is the thread that asked. */
void hr__host_event_done(struct hr__event *event, uint64_t record, struct hr__stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    set_done(event, record, stream);
    if (event->notify_fd >= 0 && record == event->n_recorded) {
        hr__wake(event->notify_fd);
        event->notify_fd = -1;
    }
    atomic_store_explicit(&event->n_settled, record, memory_order_release);
    pthread_mutex_unlock(&stream->lock);
}

bool hr__host_event_passed(struct hr__event *event, uint64_t record, hr_error *failure)
{
    pthread_mutex_lock(&event->device->lock);
    const bool is_past = atomic_load_explicit(&event->n_done, memory_order_relaxed) >= record;
    if (is_past && has_failed(event, record) && failure->code == HR_OK)
        *failure = event->failure;
    pthread_mutex_unlock(&event->device->lock);
    return is_past;
}

bool hr__host_event_park(struct hr__event *event, uint64_t record, struct hr__stream *stream)
{
    pthread_mutex_lock(&event->device->lock);
    const bool is_pending = atomic_load_explicit(&event->n_done, memory_order_relaxed) < record;
    if (is_pending)
        hr__host_list_append(&event->parked, stream);
    pthread_mutex_unlock(&event->device->lock);
    return is_pending;
}
