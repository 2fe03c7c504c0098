// SPDX-License-Identifier: Apache-2.0
/* A GPU behind backend.h, whoever made it.
 *
 *     backend.h ─▶ gpu_device  names, the context, errors      ─▶ struct hr__gpu_driver ─▶ driver
 *                  gpu_memory  of the device, and pinned of the host
 *                  gpu_stream  copies, launches, order
 *                  gpu_event   events, and the thread that tells of them
 *                  gpu_kernel  launches of every kind of kernel
 *                  gpu_module  images, loaded once for each device
 *                  gpu_measure what copies reach
 *
 * Every call of the driver stands between hr__gpu_enter and hr__gpu_leave, so that it finds the
 * device's context, and the user's thread finds its own again. */
#ifndef HR_GPU_DEVICE_H
#define HR_GPU_DEVICE_H

#include <pthread.h>
#include <sys/types.h>

#include "backend.h"
#include "gpu_driver.h"

struct hr__gpu_module;
struct hr__gpu_pin;

/* Events whose end somebody wants to be told of: a ring, the oldest first. See gpu_event.c. */
struct hr__gpu_notifier {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* something is asked for, or closing, or looking has ended */
    struct hr__event *oldest;
    struct hr__event *looking; /* the thread asks the driver about it, without the lock */
    unsigned n_asked;
    uint64_t since_ns; /* the last request, or the last event that was done */
    uint64_t until_ns; /* the thread sleeps at most until then; 0: it does not, or for long */
    bool closing;
};

struct hr__gpu_device {
    struct hr__device base;

    /* constant after open */
    const struct hr__gpu_driver *driver;
    const struct hr__gpu_compiler *compiler;
    unsigned index;
    pid_t pid;
    void *context;
    struct hr__device_info info;
    struct hr__gpu_shape shape;

    struct hr__gpu_notifier notifier; /* locks itself */

    pthread_mutex_t modules_lock; /* held while one is compiled: the second user waits for it */
    struct hr__gpu_module *modules;

    pthread_mutex_t lock; /* the rest */
    struct hr__gpu_pin *pins;
    hr_error failure; /* of work that was under way: final for the device. code HR_OK: none */
};

struct hr__stream {
    struct hr__device base;
    struct hr__gpu_device *device;
    void *handle;
    uint64_t scratch;   /* device memory for counted built-in kernels; 0: no kernels here */
    uint64_t inputs;    /* behind it: the array `in` of compiled kernels */
    uint64_t inputs_at; /* the address that stands in it */
    hr_error failure;   /* code HR_OK: none */
};

struct hr__event {
    struct hr__device base;
    struct hr__gpu_device *device;
    void *handle;

    /* the thread that uses the stream */
    bool recorded;
    hr_error failure; /* of the stream, when it was recorded */

    /* under the notifier's lock; notify_fd -1: nobody asked */
    int notify_fd;
    uint64_t n_asked; /* how often, to tell requests apart */
    struct hr__event *next;
    struct hr__event *previous;
};

/* The calling thread inside of a device's context. */
struct hr__gpu_visit {
    bool entered;
    void *before;
};

/* For a vendor's struct hr__backend. */
void hr__gpu_describe(const struct hr__gpu_driver *driver, unsigned index,
                      struct hr__device_info *out);
hr_status hr__gpu_open(const struct hr__gpu_driver *driver, const struct hr__gpu_compiler *compiler,
                       unsigned index, struct hr__device **out, hr_error *error);
/* The device among n whose UUID begins with identity, or whose PCI address it is. */
bool hr__gpu_find(const struct hr__gpu_driver *driver, unsigned n, const char *identity,
                  unsigned *index);

/* In a child of the process that opened the device. No lock is taken there: a thread of the parent
 * may have held it when it was forked. */
bool hr__gpu_is_forked(const struct hr__gpu_device *device);
/* Fails: HR_EFORK in a child of the process that opened it, HR_EDEVICE. */
hr_status hr__gpu_enter(struct hr__gpu_device *device, struct hr__gpu_visit *visit,
                        hr_error *error);
/* To give things back: whatever the driver says they are given back, but not in a forked child,
 * where they are the parent's and this is false. */
bool hr__gpu_enter_to_free(struct hr__gpu_device *device, struct hr__gpu_visit *visit);
void hr__gpu_leave(struct hr__gpu_device *device, const struct hr__gpu_visit *visit);

/* Fills the error of a call that returned native. what: what was tried, in words. */
hr_status hr__gpu_fail(const struct hr__gpu_device *device, enum hr_stage stage, int native,
                       hr_error *error, const char *what, ...)
    __attribute__((format(printf, 5, 6)));
/* Work that was under way failed; the first such failure is the device's. */
void hr__gpu_device_fail(struct hr__gpu_device *device, const hr_error *failure);
/* That failure, or HR_OK. */
hr_status hr__gpu_device_failure(struct hr__gpu_device *device, hr_error *error);

/* The thread of the device; returns 0 or an errno. */
int hr__gpu_notifier_start(struct hr__gpu_device *device);
void hr__gpu_notifier_stop(struct hr__gpu_device *device);

/* Memory: see backend.h. */
hr_status hr__gpu_alloc(struct hr__device *device, size_t size, void **out, hr_error *error);
void hr__gpu_free(struct hr__device *device, void *memory);
bool hr__gpu_pin(struct hr__device *device, void *memory, size_t size);
void hr__gpu_unpin(struct hr__device *device, void *memory);
enum hr__memory_kind hr__gpu_memory_kind(struct hr__device *device, const void *memory, size_t size,
                                         hr_error *error);
/* At the end of the device, inside of its context: what was not unpinned. */
void hr__gpu_pins_free(struct hr__gpu_device *device);

/* Rates of copies: see backend.h. */
hr_status hr__gpu_measure(struct hr__device *device, size_t size, struct hr_device_rates *out,
                          hr_error *error);

enum { HR__GPU_SCRATCH_BYTES = 16384 };

/* Streams: see backend.h. */
hr_status hr__gpu_stream_create(struct hr__device *device, enum hr__stream_use use,
                                struct hr__stream **out, hr_error *error);
void hr__gpu_stream_destroy(struct hr__stream *stream);
void *hr__gpu_stream_handle(struct hr__stream *stream);
hr_status hr__gpu_stream_copy(struct hr__stream *stream, void *to, const void *from, size_t size,
                              enum hr__copy_kind kind, hr_error *error);
hr_status hr__gpu_stream_record(struct hr__stream *stream, struct hr__event *event,
                                hr_error *error);
hr_status hr__gpu_stream_wait(struct hr__stream *stream, struct hr__event *event, hr_error *error);
hr_status hr__gpu_stream_lend(struct hr__event *event, void *stream, hr_error *error);
hr_status hr__gpu_stream_take_back(struct hr__event *event, void *stream, hr_error *error);
/* The stream's failure so far, that of the device included. */
hr_status hr__gpu_stream_failure(struct hr__stream *stream, hr_error *error);
/* An enqueueing failed with *failure; hands it on. */
hr_status hr__gpu_stream_fail(struct hr__stream *stream, const hr_error *failure, hr_error *error);

/* Events: see backend.h. */
hr_status hr__gpu_event_create(struct hr__device *device, struct hr__event **out, hr_error *error);
void hr__gpu_event_destroy(struct hr__event *event);
hr_status hr__gpu_event_query(struct hr__event *event, hr_error *error);
void hr__gpu_event_notify(struct hr__event *event, int event_fd);
uint64_t hr__gpu_event_elapsed_ns(const struct hr__event *from, const struct hr__event *to);
void *hr__gpu_event_handle(struct hr__event *event);
/* Like query(), but the thread waits. */
hr_status hr__gpu_event_await(struct hr__event *event, hr_error *error);
/* What its stream had failed with when it was recorded. */
hr_status hr__gpu_event_failure(const struct hr__event *event, hr_error *error);
/* Nobody is told of its last record any more. */
void hr__gpu_event_forget(struct hr__event *event);

/* Kernels: see backend.h. */
hr_status hr__gpu_kernel_create(struct hr__device *device, const struct hr_kernel *kernel,
                                struct hr__kernel **out, hr_error *error);
void hr__gpu_kernel_destroy(struct hr__kernel *kernel);
const struct hr__kernel_info *hr__gpu_kernel_info(const struct hr__kernel *kernel);
hr_status hr__gpu_kernel_launch(struct hr__stream *stream, struct hr__kernel *kernel,
                                const struct hr__launch *launch, hr_error *error);

/* An image or a source, and the name of a function in it. */
struct hr__gpu_code {
    const void *bytes;
    size_t size;
    bool is_source;     /* bytes end with a 0 then */
    bool exact;         /* see struct hr__gpu_source */
    const char *define; /* see struct hr__gpu_source */
    const char *entry;
};
/* Finds or makes the device's module of this content. The entry lives as long as the device. */
hr_status hr__gpu_module_entry(struct hr__gpu_device *device, const struct hr__gpu_code *code,
                               void **entry, hr_error *error);
/* At the end of the device, inside of its context. */
void hr__gpu_modules_free(struct hr__gpu_device *device);

#endif
