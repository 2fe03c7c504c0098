// SPDX-License-Identifier: Apache-2.0
/* A device as the engine sees it: memory, streams, events, kernels. One contract for the host, CUDA
 * and HIP; the engine knows nothing else of them.
 *
 *     copy H2D on its stream ─▶ record ─▶ wait on the kernel stream ─▶ launch … ─▶ record ─▶
 *     wait on the copy-back stream ─▶ copy D2H ─▶ record ─▶ query, or notify an eventfd and sleep
 *
 * Work on one stream runs in the order it was enqueued; between streams only events order it.
 * Enqueueing never waits for the work. A device is opened once in a context and is thread-safe, but
 * a stream, and the events recorded on it, are used by one thread at a time.
 *
 * Where `host_memory` is true, device memory is host memory: the engine passes host pointers to
 * launches and copies nothing.
 *
 * An error of enqueued work is found by query() of an event behind it. It is final for the stream:
 * what follows on it is passed over (but waits, so that an event behind them still says that what
 * they waited for is over), and every later event of it reports the same error. */
#ifndef HR_BACKEND_H
#define HR_BACKEND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headrace.h"
#include "host_kernels.h" /* what a built-in kernel is, and its reductions: the same for all */

struct hr__device;
struct hr__stream;
struct hr__event;
struct hr__kernel;

enum { HR__DEVICE_TEXT = 128 };

struct hr__device_info {
    char name[HR__DEVICE_TEXT];    /* as asked for: "host", "cuda:0" */
    char title[HR__DEVICE_TEXT];   /* as its maker calls it */
    char version[HR__DEVICE_TEXT]; /* of driver and runtime; "" if there is none */
    char uuid[HR__DEVICE_TEXT];    /* as its maker's tools print it; "": the device has none */
    char pci[HR__DEVICE_TEXT];     /* "0000:17:00.0"; "": it is on no such bus */
    uint64_t memory_bytes;
    bool host_memory;          /* host pointers are device pointers: no copies */
    uint32_t kernel_alignment; /* bytes that launches want of in and out; 1: any */
    uint32_t n_streams;        /* a sensible number of kernel streams */
    uint32_t n_at_once;        /* streams whose kernels have it to themselves: threads; a GPU: 1 */
};

enum hr__stream_use { HR__STREAM_H2D, HR__STREAM_KERNELS, HR__STREAM_D2H };
enum hr__copy_kind { HR__COPY_H2D, HR__COPY_D2H, HR__COPY_D2D };

enum hr__memory_kind {
    HR__MEMORY_PLAIN,  /* of the host; or of somebody else */
    HR__MEMORY_PINNED, /* of the host, and the driver knows it: one registration has it all */
    HR__MEMORY_DEVICE, /* of this device */
    HR__MEMORY_UNKNOWN /* the driver fails to tell */
};

/* What the engine must know of a kernel to plan with it. */
struct hr__kernel_info {
    uint32_t unit_in_bytes;
    uint32_t unit_out_bytes;     /* per unit; 0: no output, the input passes on unchanged */
    bool is_reduction;           /* a built-in one, with a state */
    bool is_counted;             /* writes how many units it gave, at most as many as it got */
    size_t state_bytes;          /* of a reduction */
    struct hr__kernel_spec spec; /* of a built-in one: merge and finish reductions with it */
};

struct hr__launch {
    const void *in;
    void *out; /* NULL for reductions */
    uint64_t n_units;
    uint64_t first_unit; /* in the stream of what the kernel reads */
    uint64_t *count;     /* counted kernels: device memory for how many units were written; a copy
                            behind the launch brings it back */
    void *state;         /* reductions: device memory, one for each stream. It begins as a copy of
                            what hr__reduce_init made, and is copied back for hr__reduce_merge and
                            hr__reduce_finish: its format is the host's everywhere */
    uint64_t chunk;      /* index in the stream, for functions of the user and for errors */
    /* Set: nobody wants it any more. Where launches wait in a queue of our own, those that have not
     * begun are passed over, as if done. NULL: it is always wanted. */
    const atomic_bool *cancelled;
};

struct hr__device_ops {
    void (*close)(struct hr__device *device); /* no stream, event, kernel or memory left */
    const struct hr__device_info *(*info)(const struct hr__device *device);

    /* Device memory, aligned to 256 bytes. On a host_memory device the engine does not call it for
     * chunks, only for small things. */
    hr_status (*alloc)(struct hr__device *device, size_t size, void **out, hr_error *error);
    void (*free)(struct hr__device *device, void *memory);
    /* Makes host memory known to the driver, for copies that overlap. False: refused; copies still
     * work, slower. Not called on a host_memory device. */
    bool (*pin)(struct hr__device *device, void *memory, size_t size);
    void (*unpin)(struct hr__device *device, void *memory);
    /* Whose memory it is, as the driver knows it: of all size bytes, or HR__MEMORY_PLAIN. With
     * HR__MEMORY_UNKNOWN, *error says why. Not called on a host_memory device. Thread: any. */
    enum hr__memory_kind (*memory_kind)(struct hr__device *device, const void *memory, size_t size,
                                        hr_error *error);

    hr_status (*stream_create)(struct hr__device *device, enum hr__stream_use use,
                               struct hr__stream **out, hr_error *error);
    /* Waits for what is enqueued. NULL is allowed. */
    void (*stream_destroy)(struct hr__stream *stream);
    /* The vendor's handle, for launch functions of the user; the host's is an hr_host_stream. */
    void *(*stream_handle)(struct hr__stream *stream);

    hr_status (*event_create)(struct hr__device *device, struct hr__event **out, hr_error *error);
    /* Nothing that was enqueued still refers to it. NULL is allowed. */
    void (*event_destroy)(struct hr__event *event);

    hr_status (*kernel_create)(struct hr__device *device, const struct hr_kernel *kernel,
                               struct hr__kernel **out, hr_error *error);
    void (*kernel_destroy)(struct hr__kernel *kernel); /* no launch of it pending; NULL allowed */
    const struct hr__kernel_info *(*kernel_info)(const struct hr__kernel *kernel);

    /* Enqueue. A failure is the stream's last word, like one of enqueued work. */
    hr_status (*copy)(struct hr__stream *stream, void *to, const void *from, size_t size,
                      enum hr__copy_kind kind, hr_error *error);
    /* Of no units: nothing runs, a count is 0. */
    hr_status (*launch)(struct hr__stream *stream, struct hr__kernel *kernel,
                        const struct hr__launch *launch, hr_error *error);
    /* While its last record is pending, an event is recorded again on the same stream only. */
    hr_status (*record)(struct hr__stream *stream, struct hr__event *event, hr_error *error);
    /* For the last record so far; at once if there is none. A failure of the event becomes that of
     * the stream that waits. */
    hr_status (*wait)(struct hr__stream *stream, struct hr__event *event, hr_error *error);

    /* HR_OK: all before the last record() of the event is done, and its results are visible to the
     * caller; or it was never recorded. HR_PENDING: not yet. Else why it failed. Never waits. */
    hr_status (*query)(struct hr__event *event, hr_error *error);
    /* Asks that event_fd (an eventfd) be written once the event is done or failed, also if it already
     * is. Holds until that write, the next record(), or until query() says that the event is done:
     * who asked knows it then. Behind these no write comes: the descriptor may be closed. */
    void (*notify)(struct hr__event *event, int event_fd);
    /* For streams that are not the engine's, by the vendor's handle. Not called on a host_memory
     * device. Thread: any, for one event at a time. */
    /* The vendor's handle of the event, for users that order their own work behind it. */
    void *(*event_handle)(struct hr__event *event);
    /* What is enqueued on the stream from now on waits for the event's last record; without a
     * stream (NULL) the calling thread waits. */
    hr_status (*lend)(struct hr__event *event, void *stream, hr_error *error);
    /* Records the event behind what is enqueued on the stream by now. */
    hr_status (*take_back)(struct hr__event *event, void *stream, hr_error *error);

    /* Work done on the stream between two events recorded on it, both done: device time; on the host
     * CPU time, and what functions of the user waited. */
    uint64_t (*elapsed_ns)(const struct hr__event *from, const struct hr__event *to);

    /* See hr_device_measure; fills all of *out but its size. Thread: any. */
    hr_status (*measure)(struct hr__device *device, size_t size, struct hr_device_rates *out,
                         hr_error *error);
};

/* Every device, stream, event and kernel of a backend begins with this. */
struct hr__device {
    const struct hr__device_ops *ops;
};

/* A vendor. */
struct hr__backend {
    const char *name; /* "host", "cuda", "hip" */
    /* How many devices it has; 0 with the reason in why: library not found (which names were
     * tried), driver too old, no device, devices hidden, fork. Does not start a driver's context.
     */
    unsigned (*count)(char *why, size_t why_size);
    /* What can be told of a device, index < count(), without starting a driver's context. */
    void (*describe)(unsigned index, struct hr__device_info *out);
    /* The index of the device with this UUID (or the begin of it) or PCI address; false: no one of
     * the n_devices that count() told of. NULL: the backend's devices have none. */
    bool (*find)(unsigned n_devices, const char *identity, unsigned *index);
    hr_status (*open)(unsigned index, struct hr__device **out, hr_error *error);
};

/* The backends of this build, GPUs first, the host last; ends with NULL. */
extern const struct hr__backend *const hr__backends[];

/* Opens "auto" (the first GPU, else the host), "host", "cuda[:WHICH]", "hip[:WHICH]". WHICH is a
 * number, a UUID "GPU-..." or its begin, or a PCI address "0000:17:00.0". When auto fell to the
 * host, why tells the reason for each GPU backend; else it is "".
 * Fails: HR_EINVAL for other words; HR_EUNSUPPORTED where the device is not there, with the reason;
 * HR_EFORK, HR_ENOMEM, HR_EDEVICE. */
hr_status hr__device_open(const char *name, struct hr__device **out, char *why, size_t why_size,
                          hr_error *error) __attribute__((warn_unused_result));

/* What a kernel is, checked, without a device: used by every kernel_create. Fails: HR_EINVAL with
 * the wrong word and what is accepted. */
hr_status hr__kernel_describe(const struct hr_kernel *kernel, struct hr__kernel_info *out,
                              hr_error *error) __attribute__((warn_unused_result));

#endif
