// SPDX-License-Identifier: Apache-2.0
/* Events of the host device. Each record has a number; streams and callers look whether the highest
 * one that is done has come up to theirs. All fields are under the device's lock. */
#include <assert.h>
#include <stdlib.h>

#include "clock.h"
#include "host_device.h"
#include "status.h"
#include "wake.h"

struct hr__event {
    struct hr__device base;
    struct hr__host_device *device;  /* constant */
    const struct hr__stream *stream; /* of the last record */
    uint64_t n_recorded;
    uint64_t n_done;
    uint64_t cpu_ns;  /* of the stream's thread, when the last record was done */
    int notify_fd;    /* -1: nobody asked */
    hr_error failure; /* code HR_OK: none */
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

void hr__host_event_destroy(struct hr__event *event)
{
    assert(!event || event->n_done == event->n_recorded);
    free(event);
}

uint64_t hr__host_event_record(struct hr__event *event, const struct hr__stream *stream)
{
    pthread_mutex_lock(&event->device->lock);
    assert(event->stream == stream || event->n_done == event->n_recorded);
    event->stream = stream;
    event->notify_fd = -1;
    const uint64_t record = ++event->n_recorded;
    pthread_mutex_unlock(&event->device->lock);
    return record;
}

uint64_t hr__host_event_last_record(struct hr__event *event)
{
    pthread_mutex_lock(&event->device->lock);
    const uint64_t record = event->n_recorded;
    pthread_mutex_unlock(&event->device->lock);
    return record;
}

/* The eventfd is written under the lock, although that is a system call: who then sees the event
 * done may close the descriptor. The write of an eventfd that does not block is short. */
void hr__host_event_done(struct hr__event *event, uint64_t record, const hr_error *failure)
{
    struct hr__host_device *device = event->device;
    const uint64_t cpu_ns = hr__thread_cpu_ns();
    pthread_mutex_lock(&device->lock);
    event->n_done = record;
    event->cpu_ns = cpu_ns;
    event->failure.code = HR_OK;
    if (failure->code != HR_OK)
        event->failure = *failure;
    if (event->notify_fd >= 0 && record == event->n_recorded) {
        hr__wake(event->notify_fd);
        event->notify_fd = -1;
    }
    pthread_cond_broadcast(&device->event_done);
    pthread_mutex_unlock(&device->lock);
}

void hr__host_event_await(struct hr__event *event, uint64_t record, hr_error *failure)
{
    struct hr__host_device *device = event->device;
    pthread_mutex_lock(&device->lock);
    while (event->n_done < record)
        pthread_cond_wait(&device->event_done, &device->lock);
    if (event->failure.code != HR_OK)
        *failure = event->failure;
    pthread_mutex_unlock(&device->lock);
}

hr_status hr__host_event_query(struct hr__event *event, hr_error *error)
{
    hr_status status = HR_PENDING;
    pthread_mutex_lock(&event->device->lock);
    if (event->n_done == event->n_recorded) {
        status = (hr_status)event->failure.code;
        if (status != HR_OK && error)
            *error = event->failure;
    }
    pthread_mutex_unlock(&event->device->lock);
    return status;
}

void hr__host_event_notify(struct hr__event *event, int event_fd)
{
    pthread_mutex_lock(&event->device->lock);
    const bool is_done = event->n_done == event->n_recorded;
    event->notify_fd = is_done ? -1 : event_fd;
    pthread_mutex_unlock(&event->device->lock);
    if (is_done)
        hr__wake(event_fd);
}

uint64_t hr__host_event_elapsed_ns(const struct hr__event *from, const struct hr__event *to)
{
    pthread_mutex_lock(&to->device->lock);
    assert(from->stream == to->stream);
    const uint64_t ns = to->cpu_ns - from->cpu_ns;
    pthread_mutex_unlock(&to->device->lock);
    return ns;
}
