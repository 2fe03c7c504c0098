// SPDX-License-Identifier: Apache-2.0
/* A device that is open in a context, and what pipelines leave behind on it for the next ones:
 * streams, events, memory. Making and freeing these is slow, and stalls a GPU for all its users.
 * Thread-safe. */
#ifndef HR_DEVICE_STORE_H
#define HR_DEVICE_STORE_H

#include <pthread.h>

#include "backend.h"

struct hr__kept;

enum { HR__N_STREAM_USES = HR__STREAM_D2H + 1 };

struct hr__store {
    struct hr__device *device;
    struct hr__store *next; /* in the context's list */

    pthread_mutex_t lock;
    struct hr__kept *streams[HR__N_STREAM_USES];
    struct hr__kept *events;
    struct hr__kept *blocks; /* the last returned first */
    size_t kept_bytes;       /* of them together */
};

/* Owns the device from now on. NULL: no memory. */
struct hr__store *hr__store_create(struct hr__device *device);
/* All that was taken is back. Closes the device. */
void hr__store_free(struct hr__store *store);

hr_status hr__store_stream(struct hr__store *store, enum hr__stream_use use,
                           struct hr__stream **out, hr_error *error)
    __attribute__((warn_unused_result));
/* Idle. Of a stream on which something failed it is the end. NULL is allowed. */
void hr__store_return_stream(struct hr__store *store, enum hr__stream_use use,
                             struct hr__stream *stream, bool failed);

hr_status hr__store_event(struct hr__store *store, struct hr__event **out, hr_error *error)
    __attribute__((warn_unused_result));
void hr__store_return_event(struct hr__store *store, struct hr__event *event, bool failed);

/* Device memory, aligned to 256 bytes; the device's free() takes it, too. When there is no more, for
 * this or for a stream, what is kept is freed first. */
hr_status hr__store_alloc(struct hr__store *store, size_t size, void **out, hr_error *error)
    __attribute__((warn_unused_result));
/* Nothing on the device touches it any more. What is kept is bounded, as other libraries of the process
 * want memory of the device, too. NULL is allowed. */
void hr__store_return(struct hr__store *store, void *memory, size_t size);

#endif
