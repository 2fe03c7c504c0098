// SPDX-License-Identifier: Apache-2.0
/* The host as a device: the reference, always there. A stream is a queue, and costs little; the
 * threads that do the work are the device's, one for each CPU.
 *
 *     launch, copy, record, wait ─▶ queue ─▶ ready streams ─▶ workers ─▶ event done ─▶ eventfd
 *                                                 ▲                          │
 *                                                 └──── streams parked there ◀┘
 *
 * host_device.c   the device, its memory and the tables     host_event.c   what streams order with
 * host_stream.c   queues; host_stream.h draws a stream      host_kernel.c  what streams run
 * host_workers.c  who runs it */
#ifndef HR_HOST_DEVICE_H
#define HR_HOST_DEVICE_H

#include <pthread.h>
#include <sys/types.h>

#include "backend.h"

struct hr__host_list {
    struct hr__stream *first;
    struct hr__stream *last;
};

struct hr__host_device {
    struct hr__device base;

    /* Constant after open. */
    struct hr__device_info info;
    pid_t pid; /* the process that has the workers */
    unsigned n_workers;
    pthread_t *workers;

    /* Guards what follows, and of each event what streams wait for. It is held for a few stores,
     * and no other lock is taken under it. */
    pthread_mutex_t lock;
    pthread_cond_t work; /* for the workers: there are ready streams, or it closes */
    struct hr__host_list ready;
    bool closing;
};

struct hr__kernel {
    struct hr__device base;
    struct hr__kernel_info info;
    enum hr_kernel_kind kind;
    hr_kernel_fn function; /* NULL: built in, see info.spec */
    void *user;
    char name[HR__DEVICE_TEXT]; /* for messages */
};

extern const struct hr__backend hr__host_backend;
extern const struct hr__device_ops hr__host_ops;

/* Streams: see backend.h. */
hr_status hr__host_stream_create(struct hr__device *device, enum hr__stream_use use,
                                 struct hr__stream **out, hr_error *error);
void hr__host_stream_destroy(struct hr__stream *stream);
void *hr__host_stream_handle(struct hr__stream *stream);
hr_status hr__host_stream_copy(struct hr__stream *stream, void *to, const void *from, size_t size,
                               enum hr__copy_kind kind, hr_error *error);
hr_status hr__host_stream_launch(struct hr__stream *stream, struct hr__kernel *kernel,
                                 const struct hr__launch *launch, hr_error *error);
hr_status hr__host_stream_record(struct hr__stream *stream, struct hr__event *event,
                                 hr_error *error);
hr_status hr__host_stream_wait(struct hr__stream *stream, struct hr__event *event, hr_error *error);

/* Events: see backend.h. */
hr_status hr__host_event_create(struct hr__device *device, struct hr__event **out, hr_error *error);
void hr__host_event_destroy(struct hr__event *event);
hr_status hr__host_event_query(struct hr__event *event, hr_error *error);
void hr__host_event_notify(struct hr__event *event, int event_fd);
uint64_t hr__host_event_elapsed_ns(const struct hr__event *from, const struct hr__event *to);

/* Rates of copies: see backend.h. */
hr_status hr__host_measure(struct hr__device *device, size_t size, struct hr_device_rates *out,
                           hr_error *error);

/* Kernels: see backend.h. */
hr_status hr__host_kernel_create(struct hr__device *device, const struct hr_kernel *kernel,
                                 struct hr__kernel **out, hr_error *error);
void hr__host_kernel_destroy(struct hr__kernel *kernel);
const struct hr__kernel_info *hr__host_kernel_info(const struct hr__kernel *kernel);

/* Does a launch of a built-in kernel or of a function. *error is set only if it fails. */
hr_status hr__host_kernel_run(const struct hr__kernel *kernel, const struct hr__launch *launch,
                              hr_error *error);
/* Calls the user's function. stream: of a launch function; else NULL. */
int32_t hr__host_kernel_call(const struct hr__kernel *kernel, const struct hr__launch *launch,
                             void *stream);
/* The failure of a function that returned value. */
hr_status hr__host_kernel_fail(const struct hr__kernel *kernel, const struct hr__launch *launch,
                               int32_t value, hr_error *error);

#endif
