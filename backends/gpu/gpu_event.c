// SPDX-License-Identifier: Apache-2.0
/* Events, and the thread of the device that tells of them.
 *
 *     notify ─▶ ring of events asked for ─▶ thread: asks the driver, sleeps ─▶ eventfd
 *                        ▲
 *     record, destroy, query that finds it done: take out
 *
 * While nobody asks, the thread sleeps on a condition. While somebody does, it asks the driver about
 * every event in the ring and then sleeps for an eighth of the time since the last request or the
 * last event that was done, within limits: a wake-up comes at most that much late, and a kernel of
 * seconds costs no CPU time worth naming. Loops look at events themselves while they have work; they
 * ask only before they sleep.
 *
 * What was not chosen: a host function on the stream costs tens of microseconds for each chunk and
 * may hold up other streams; the driver's own blocking wait is for one event, so that a long kernel
 * would hold back the news of all other streams, or need a thread for each.
 *
 * The thread writes the eventfd under the lock. So a write is over when query(), which takes the
 * event out of the ring, says that it is done. */
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "clock.h"
#include "gpu_device.h"
#include "status.h"
#include "wake.h"

enum {
    SECOND_NS = 1000000000,
    SHORTEST_SLEEP_NS = 50000, /* a copy of 2 MiB */
    LONGEST_SLEEP_NS = 500000,
    PART_OF_WAIT = 8,
    TIMER_SLACK_NS = 1000 /* of the thread: the default of 50000 would be most of a sleep */
};

/* ---- the ring of events asked for, under the lock ---- */

static void append(struct hr__gpu_notifier *ring, struct hr__event *event)
{
    struct hr__event *oldest = ring->oldest;
    event->next = oldest ? oldest : event;
    event->previous = oldest ? oldest->previous : event;
    event->next->previous = event;
    event->previous->next = event;
    if (!oldest)
        ring->oldest = event;
    ring->n_asked++;
    ring->since_ns = hr__now_ns();
}

static void take_out(struct hr__gpu_notifier *ring, struct hr__event *event)
{
    if (event->notify_fd < 0)
        return;
    event->notify_fd = -1;
    event->next->previous = event->previous;
    event->previous->next = event->next;
    if (ring->oldest == event)
        ring->oldest = event->next == event ? NULL : event->next;
    ring->n_asked--;
}

static void tell(struct hr__gpu_notifier *ring, struct hr__event *event)
{
    if (event->notify_fd >= 0)
        hr__wake(event->notify_fd);
    take_out(ring, event);
    ring->since_ns = hr__now_ns();
}

/* ---- looking ---- */

/* Of a call that looks, or one that waits. A failure becomes the device's. FORKED: nothing is
 * looked at, or locked, in a child. */
static enum hr__gpu_class answer_of(int (*call)(void *event), struct hr__event *event)
{
    struct hr__gpu_device *device = event->device;
    struct hr__gpu_visit visit;
    hr_error failure;
    const hr_status entered = hr__gpu_enter(device, &visit, &failure);
    if (entered == HR_EFORK)
        return HR__GPU_FORKED;
    if (entered != HR_OK) {
        failure.stage = HR_STAGE_KERNEL;
        hr__gpu_device_fail(device, &failure);
        return HR__GPU_FAILED;
    }
    const int native = call(event->handle);
    hr__gpu_leave(device, &visit);
    const enum hr__gpu_class class = device->driver->classify(native);
    if (class == HR__GPU_DONE || class == HR__GPU_NOT_READY)
        return class;
    hr__gpu_fail(device, HR_STAGE_KERNEL, native, &failure, "work on the device failed");
    hr__gpu_device_fail(device, &failure);
    return HR__GPU_FAILED;
}

/* ---- the thread ---- */

/* Asks the driver about the oldest, which then is the youngest. The lock is given up meanwhile; an
 * event is not destroyed while it is looked at, but may be recorded anew and asked for again. */
static void look_at_oldest(struct hr__gpu_notifier *ring)
{
    struct hr__event *event = ring->oldest;
    const uint64_t request = event->n_asked;
    ring->oldest = event->next;
    ring->looking = event;
    pthread_mutex_unlock(&ring->lock);
    const enum hr__gpu_class class = answer_of(event->device->driver->event_query, event);
    pthread_mutex_lock(&ring->lock);
    ring->looking = NULL;
    pthread_cond_broadcast(&ring->changed);
    if (event->n_asked == request && class != HR__GPU_NOT_READY)
        tell(ring, event);
}

static void sleep_a_little(struct hr__gpu_notifier *ring)
{
    const uint64_t now = hr__now_ns();
    uint64_t ns = (now - ring->since_ns) / PART_OF_WAIT;
    if (ns < SHORTEST_SLEEP_NS)
        ns = SHORTEST_SLEEP_NS;
    if (ns > LONGEST_SLEEP_NS)
        ns = LONGEST_SLEEP_NS;
    ring->until_ns = now + ns;
    const struct timespec until = {.tv_sec = (time_t)(ring->until_ns / SECOND_NS),
                                   .tv_nsec = (long)(ring->until_ns % SECOND_NS)};
    pthread_cond_timedwait(&ring->changed, &ring->lock, &until);
    ring->until_ns = 0;
}

/* Of a sleep that ends soon by itself nobody is woken: that would cost more than it saves. */
static void end_sleep(struct hr__gpu_notifier *ring)
{
    if (ring->until_ns == 0 || ring->until_ns > ring->since_ns + SHORTEST_SLEEP_NS)
        pthread_cond_broadcast(&ring->changed);
}

static void watch(struct hr__gpu_notifier *ring)
{
    while (!ring->closing) {
        for (unsigned n = ring->n_asked; n > 0 && ring->oldest; n--)
            look_at_oldest(ring);
        if (ring->closing)
            return;
        if (ring->oldest)
            sleep_a_little(ring);
        else
            pthread_cond_wait(&ring->changed, &ring->lock);
    }
}

static void *run(void *argument)
{
    struct hr__gpu_notifier *ring = argument;
    prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0);
    pthread_mutex_lock(&ring->lock);
    watch(ring);
    pthread_mutex_unlock(&ring->lock);
    return NULL;
}

/* With every signal blocked: handlers run on the user's threads. */
int hr__gpu_notifier_start(struct hr__gpu_device *device)
{
    struct hr__gpu_notifier *ring = &device->notifier;
    sigset_t all;
    sigset_t before;
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&ring->lock, NULL);
    pthread_cond_init(&ring->changed, &clock);
    pthread_condattr_destroy(&clock);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int rc = pthread_create(&ring->thread, NULL, run, ring);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) {
        pthread_cond_destroy(&ring->changed);
        pthread_mutex_destroy(&ring->lock);
    }
    return rc;
}

void hr__gpu_notifier_stop(struct hr__gpu_device *device)
{
    struct hr__gpu_notifier *ring = &device->notifier;
    pthread_mutex_lock(&ring->lock);
    ring->closing = true;
    pthread_cond_broadcast(&ring->changed);
    pthread_mutex_unlock(&ring->lock);
    pthread_join(ring->thread, NULL);
    pthread_cond_destroy(&ring->changed);
    pthread_mutex_destroy(&ring->lock);
}

/* ---- events ---- */

hr_status hr__gpu_event_create(struct hr__device *base, struct hr__event **out, hr_error *error)
{
    struct hr__gpu_visit visit;
    struct hr__event *event = calloc(1, sizeof *event);
    if (!event)
        return hr__fail(error, HR_ENOMEM, (struct hr__where){0}, "no memory for an event");
    event->base = *base;
    event->device = (struct hr__gpu_device *)base;
    event->notify_fd = -1;
    hr_status status = hr__gpu_enter(event->device, &visit, error);
    if (status == HR_OK) {
        const int native = event->device->driver->event_create(&event->handle);
        hr__gpu_leave(event->device, &visit);
        if (native != 0)
            status = hr__gpu_fail(event->device, HR_STAGE_NONE, native, error, "making an event");
    }
    if (status == HR_OK)
        *out = event;
    else
        free(event);
    return status;
}

void hr__gpu_event_forget(struct hr__event *event)
{
    struct hr__gpu_notifier *ring = &event->device->notifier;
    if (hr__gpu_is_forked(event->device))
        return;
    pthread_mutex_lock(&ring->lock);
    take_out(ring, event);
    event->n_asked++;
    pthread_mutex_unlock(&ring->lock);
}

static void await_no_look(struct hr__event *event)
{
    struct hr__gpu_notifier *ring = &event->device->notifier;
    pthread_mutex_lock(&ring->lock);
    while (ring->looking == event)
        pthread_cond_wait(&ring->changed, &ring->lock);
    pthread_mutex_unlock(&ring->lock);
}

void hr__gpu_event_destroy(struct hr__event *event)
{
    struct hr__gpu_visit visit;
    if (!event)
        return;
    if (hr__gpu_enter_to_free(event->device, &visit)) {
        hr__gpu_event_forget(event);
        await_no_look(event);
        event->device->driver->event_destroy(event->handle);
        hr__gpu_leave(event->device, &visit);
    }
    free(event);
}

/* Whether the last record is behind. Once a look has failed, here or in the thread, so has the
 * device. Its context is dead then, and nothing runs; but should the driver have meant something
 * else, the work is waited for, because its memory is used again after this. */
static hr_status ask_driver(int (*call)(void *event), struct hr__event *event, hr_error *error)
{
    struct hr__gpu_device *device = event->device;
    struct hr__gpu_visit visit;
    if (!event->recorded)
        return HR_OK;
    const enum hr__gpu_class class = answer_of(call, event);
    if (class == HR__GPU_DONE)
        return HR_OK;
    if (class == HR__GPU_FORKED)
        return hr__gpu_enter(device, &visit, error);
    const hr_status failure = hr__gpu_device_failure(device, error);
    if (failure == HR_OK)
        return HR_PENDING;
    if (hr__gpu_enter(device, &visit, NULL) == HR_OK) {
        device->driver->event_synchronize(event->handle);
        hr__gpu_leave(device, &visit);
    }
    return failure;
}

hr_status hr__gpu_event_failure(const struct hr__event *event, hr_error *error)
{
    if (event->failure.code != HR_OK && error)
        *error = event->failure;
    return (hr_status)event->failure.code;
}

hr_status hr__gpu_event_query(struct hr__event *event, hr_error *error)
{
    struct hr__gpu_notifier *ring = &event->device->notifier;
    const hr_status status = ask_driver(event->device->driver->event_query, event, error);
    if (status == HR_PENDING || status == HR_EFORK)
        return status;
    pthread_mutex_lock(&ring->lock);
    take_out(ring, event);
    pthread_mutex_unlock(&ring->lock);
    const hr_status failure = hr__gpu_event_failure(event, error); /* it came first */
    return failure != HR_OK ? failure : status;
}

/* Who asked to be told still is: by the device's thread, or by query(). */
hr_status hr__gpu_event_await(struct hr__event *event, hr_error *error)
{
    const hr_status status = ask_driver(event->device->driver->event_synchronize, event, error);
    const hr_status failure = status != HR_EFORK ? hr__gpu_event_failure(event, error) : HR_OK;
    return failure != HR_OK ? failure : status;
}

void *hr__gpu_event_handle(struct hr__event *event)
{
    return event->handle;
}

void hr__gpu_event_notify(struct hr__event *event, int event_fd)
{
    struct hr__gpu_notifier *ring = &event->device->notifier;
    if (!event->recorded || hr__gpu_is_forked(event->device)) {
        hr__wake(event_fd);
        return;
    }
    pthread_mutex_lock(&ring->lock);
    take_out(ring, event);
    event->notify_fd = event_fd;
    event->n_asked++;
    append(ring, event);
    end_sleep(ring);
    pthread_mutex_unlock(&ring->lock);
}

uint64_t hr__gpu_event_elapsed_ns(const struct hr__event *from, const struct hr__event *to)
{
    struct hr__gpu_device *device = to->device;
    struct hr__gpu_visit visit;
    float ms = 0;
    if (!from->recorded || !to->recorded || hr__gpu_enter(device, &visit, NULL) != HR_OK)
        return 0;
    const int native = device->driver->event_elapsed(&ms, from->handle, to->handle);
    hr__gpu_leave(device, &visit);
    return native == 0 && ms > 0 ? (uint64_t)((double)ms * 1e6) : 0;
}
