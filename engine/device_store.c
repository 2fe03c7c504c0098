// SPDX-License-Identifier: Apache-2.0
#include "device_store.h"

#include <stdlib.h>

enum { MOST_KEPT_BYTES = 512 << 20 }; /* more than the buffers of a usual pipeline */

/* Something that waits for its next user. */
struct hr__kept {
    void *thing;
    size_t size; /* of memory */
    struct hr__kept *next;
};

struct hr__store *hr__store_create(struct hr__device *device)
{
    struct hr__store *store = calloc(1, sizeof *store);
    if (!store)
        return NULL;
    store->device = device;
    pthread_mutex_init(&store->lock, NULL);
    return store;
}

/* NULL: nothing of this size is kept. */
static void *take(struct hr__store *store, struct hr__kept **list, size_t size)
{
    void *thing = NULL;
    pthread_mutex_lock(&store->lock);
    while (*list && (*list)->size != size)
        list = &(*list)->next;
    struct hr__kept *kept = *list;
    if (kept) {
        *list = kept->next;
        store->kept_bytes -= kept->size;
        thing = kept->thing;
    }
    pthread_mutex_unlock(&store->lock);
    free(kept);
    return thing;
}

/* False: there is no memory to note it. */
static bool keep(struct hr__store *store, struct hr__kept **list, void *thing, size_t size)
{
    struct hr__kept *kept = malloc(sizeof *kept);
    if (!kept)
        return false;
    pthread_mutex_lock(&store->lock);
    *kept = (struct hr__kept){.thing = thing, .size = size, .next = *list};
    *list = kept;
    store->kept_bytes += size;
    pthread_mutex_unlock(&store->lock);
    return true;
}

/* Any one of the list; NULL: it is empty. */
static void *take_any(struct hr__store *store, struct hr__kept **list)
{
    pthread_mutex_lock(&store->lock);
    const size_t size = *list ? (*list)->size : 0;
    pthread_mutex_unlock(&store->lock);
    return take(store, list, size);
}

static void free_blocks(struct hr__store *store)
{
    for (void *block; (block = take_any(store, &store->blocks));)
        store->device->ops->free(store->device, block);
}

void hr__store_free(struct hr__store *store)
{
    const struct hr__device_ops *ops = store->device->ops;
    void *thing;
    for (unsigned use = 0; use < HR__N_STREAM_USES; use++)
        while ((thing = take_any(store, &store->streams[use])))
            ops->stream_destroy(thing);
    while ((thing = take_any(store, &store->events)))
        ops->event_destroy(thing);
    free_blocks(store);
    ops->close(store->device);
    pthread_mutex_destroy(&store->lock);
    free(store);
}

hr_status hr__store_stream(struct hr__store *store, enum hr__stream_use use,
                           struct hr__stream **out, hr_error *error)
{
    const struct hr__device_ops *ops = store->device->ops;
    *out = take(store, &store->streams[use], 0);
    if (*out)
        return HR_OK;
    hr_status status = ops->stream_create(store->device, use, out, error);
    if (status == HR_ENOMEM) {
        free_blocks(store);
        status = ops->stream_create(store->device, use, out, error);
    }
    return status;
}

void hr__store_return_stream(struct hr__store *store, enum hr__stream_use use,
                             struct hr__stream *stream, bool failed)
{
    if (stream && (failed || !keep(store, &store->streams[use], stream, 0)))
        store->device->ops->stream_destroy(stream);
}

hr_status hr__store_event(struct hr__store *store, struct hr__event **out, hr_error *error)
{
    *out = take(store, &store->events, 0);
    return *out ? HR_OK : store->device->ops->event_create(store->device, out, error);
}

void hr__store_return_event(struct hr__store *store, struct hr__event *event, bool failed)
{
    if (event && (failed || !keep(store, &store->events, event, 0)))
        store->device->ops->event_destroy(event);
}

hr_status hr__store_alloc(struct hr__store *store, size_t size, void **out, hr_error *error)
{
    *out = take(store, &store->blocks, size);
    if (*out)
        return HR_OK;
    hr_status status = store->device->ops->alloc(store->device, size, out, error);
    if (status == HR_ENOMEM) {
        free_blocks(store);
        status = store->device->ops->alloc(store->device, size, out, error);
    }
    return status;
}

/* The one that has waited longest, if there is too much; NULL: there is not. */
static void *take_excess(struct hr__store *store)
{
    void *block = NULL;
    pthread_mutex_lock(&store->lock);
    struct hr__kept **last = &store->blocks;
    while (*last && (*last)->next)
        last = &(*last)->next;
    struct hr__kept *oldest = store->kept_bytes > MOST_KEPT_BYTES ? *last : NULL;
    if (oldest) {
        *last = NULL;
        store->kept_bytes -= oldest->size;
        block = oldest->thing;
    }
    pthread_mutex_unlock(&store->lock);
    free(oldest);
    return block;
}

void hr__store_return(struct hr__store *store, void *memory, size_t size)
{
    if (memory && !keep(store, &store->blocks, memory, size))
        store->device->ops->free(store->device, memory);
    for (void *block; (block = take_excess(store));)
        store->device->ops->free(store->device, block);
}
