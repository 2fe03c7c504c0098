// SPDX-License-Identifier: Apache-2.0
/* Makes and frees what a chain needs, and tells what its reductions found. */
#include "chain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "status.h"

static const struct hr__where here = {.stage = HR_STAGE_KERNEL};

enum { ALIGNMENT = 256, COUNT_BYTES = 256 };

static hr_status no_memory(hr_error *error)
{
    return hr__fail(error, HR_ENOMEM, here, "kernels: out of memory");
}

static size_t round_up(size_t size)
{
    return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* ---- kernels ---- */

static hr_status make_links(struct hr__chain *chain, const struct hr_pipeline_config *config,
                            hr_error *error)
{
    const struct hr__device_ops *ops = chain->device->ops;
    chain->links = calloc((size_t)config->n_kernels + 1, sizeof *chain->links);
    if (!chain->links)
        return no_memory(error);
    const char *at = (const char *)config->kernels;
    const size_t stride = config->n_kernels ? config->kernels[0].struct_size : 0;
    for (uint32_t i = 0; i < config->n_kernels; i++, at += stride) {
        struct hr_kernel kernel;
        struct hr__link *link = &chain->links[i];
        if (!hr__copy_struct(&kernel, sizeof kernel, at))
            return hr__fail(
                error, HR_EINVAL, here,
                "kernel %u: struct_size is not set, or it has fields that are not known", i);
        const hr_status status = ops->kernel_create(chain->device, &kernel, &link->kernel, error);
        if (status < 0)
            return status;
        chain->n_links = i + 1;
        link->info = *ops->kernel_info(link->kernel);
    }
    return HR_OK;
}

/* ---- streams and events ---- */

static hr_status add_queue(struct hr__chain *chain, enum hr__stream_use use, enum hr__leg leg,
                           hr_error *error)
{
    struct hr__device_queue *queue = &chain->queues[chain->n_queues];
    const hr_status status = hr__store_stream(chain->store, use, &queue->stream, error);
    queue->leg = leg;
    if (status == HR_OK)
        chain->n_queues++;
    return status;
}

static hr_status make_queues(struct hr__chain *chain, hr_error *error)
{
    const struct hr__segment *last = &chain->segments[chain->n_segments - 1];
    const unsigned n = last->first_queue + last->n_queues;
    hr_status status = HR_OK;
    chain->queues = calloc((size_t)n + 2, sizeof *chain->queues);
    if (!chain->queues)
        return no_memory(error);
    while (chain->n_queues < n && status == HR_OK)
        status = add_queue(chain, HR__STREAM_KERNELS, HR__LEG_RUN, error);
    if (status == HR_OK && !chain->host_memory)
        status = add_queue(chain, HR__STREAM_H2D, HR__LEG_IN, error);
    if (status == HR_OK && !chain->host_memory)
        status = add_queue(chain, HR__STREAM_D2H, HR__LEG_OUT, error);
    return status;
}

static hr_status make_events(struct hr__chain *chain, hr_error *error)
{
    hr_status status = HR_OK;
    chain->events = calloc((size_t)chain->depth * HR__N_MARKS, sizeof(struct hr__event *));
    if (!chain->events)
        return no_memory(error);
    for (size_t i = 0; i < (size_t)chain->depth * HR__N_MARKS && status == HR_OK; i++) {
        const enum hr__mark mark = i % HR__N_MARKS;
        if (!chain->host_memory || mark == HR__RUN_BEGUN || mark == HR__RUN_DONE)
            status = hr__store_event(chain->store, &chain->events[i], error);
    }
    for (unsigned i = 0; i < 2 && status == HR_OK && !chain->host_memory; i++)
        status = hr__store_event(chain->store, &chain->clock.epochs[i], error);
    if (status == HR_OK && !chain->host_memory)
        status = hr__store_event(chain->store, &chain->fetched, error);
    return status;
}

/* An event for each stream, until the chain is freed: it is not recorded again while it is pending.
 */
static hr_status mark(struct hr__chain *chain, void *stream, struct hr__event **out,
                      hr_error *error)
{
    struct hr__event **all =
        realloc(chain->followed, (chain->n_followed + 1) * sizeof(struct hr__event *));
    if (!all)
        return no_memory(error);
    chain->followed = all;
    const hr_status status = hr__store_event(chain->store, out, error);
    if (status != HR_OK)
        return status;
    all[chain->n_followed++] = *out;
    return chain->device->ops->take_back(*out, stream, error);
}

/* The clock's first moment is to be now, so it is taken before the streams wait. */
hr_status hr__chain_follow(struct hr__chain *chain, void *stream, hr_error *error)
{
    const struct hr__device_ops *ops = chain->device->ops;
    struct hr__event *event = NULL;
    if (!stream)
        return HR_OK;
    hr__device_clock_epoch(&chain->clock, chain->queues[chain->n_queues - 1].stream);
    hr_status status = mark(chain, stream, &event, error);
    for (unsigned i = 0; i < chain->n_queues && status == HR_OK; i++)
        status = ops->wait(chain->queues[i].stream, event, error);
    if (status != HR_OK)
        chain->failed = true;
    return status;
}

/* ---- memory ---- */

static hr_status make_carries(struct hr__chain *chain, hr_error *error)
{
    hr_status status = HR_OK;
    for (unsigned i = 1; i < chain->n_segments && status == HR_OK; i++) {
        void *memory = NULL;
        status = hr__store_alloc(chain->store, round_up(chain->segments[i].unit), &memory, error);
        chain->segments[i].carry = memory;
    }
    return status;
}

static void tell_what_helps(hr_error *error)
{
    const size_t n = error ? strlen(error->text) : 0;
    if (error)
        snprintf(error->text + n, sizeof error->text - n,
                 "; set chunk_size or depth lower (--chunk, --depth)");
}

static hr_status make_buffers(struct hr__chain *chain, hr_error *error)
{
    void *memory = NULL;
    if (chain->host_memory)
        return HR_OK;
    const size_t stride = chain->n_buffers * chain->buffer_bytes + COUNT_BYTES;
    const hr_status status = hr__store_alloc(chain->store, chain->depth * stride, &memory, error);
    if (status == HR_ENOMEM)
        tell_what_helps(error);
    chain->buffers = memory;
    chain->buffers_stride = stride;
    return status;
}

static size_t states_bytes(const struct hr__chain *chain)
{
    size_t bytes = 0;
    for (unsigned i = 0; i < chain->n_links; i++)
        bytes += chain->links[i].state_stride * chain->n_streams;
    return bytes;
}

/* Pinned where there are copies: a copy from ordinary memory would be waited for. */
static hr_status lease_cells(struct hr__chain *chain, size_t size, hr_error *error)
{
    void *memory = NULL;
    if (chain->host_memory) {
        const hr_status status = hr__store_alloc(chain->store, size, &memory, error);
        chain->cells = memory;
        chain->cells_bytes = size;
        return status;
    }
    const hr_status status =
        hr__memory_lease(chain->memory, size, chain->device, &chain->cells_region);
    if (status != HR_OK)
        return hr__fail(
            error, status, here, "kernels: no memory for %zu bytes of their results: %s", size,
            status == HR_AGAIN ? "the context's memory is all leased (max_memory, --memory)"
                               : "the system has no more");
    chain->cells = chain->cells_region->memory;
    return HR_OK;
}

static hr_status make_cells(struct hr__chain *chain, hr_error *error)
{
    for (unsigned i = 0; i < chain->n_links; i++)
        if (chain->links[i].info.is_reduction)
            chain->links[i].state_stride = round_up(chain->links[i].info.state_bytes);
    const size_t states = states_bytes(chain);
    const size_t counts = hr__chain_is_counted(chain) ? chain->depth * sizeof *chain->counts : 0;
    if (states + counts == 0)
        return HR_OK;
    const hr_status status = lease_cells(chain, states + counts, error);
    if (status != HR_OK)
        return status;
    char *at = chain->cells;
    for (unsigned i = 0; i < chain->n_links; i++) {
        chain->links[i].found = at;
        at += chain->links[i].state_stride * chain->n_streams;
    }
    chain->counts = counts ? (uint64_t *)(void *)at : NULL;
    return HR_OK;
}

/* The copy to the device is in order with the kernels of its stream. */
static hr_status make_states(struct hr__chain *chain, const struct hr__segment *segment,
                             struct hr__link *link, hr_error *error)
{
    const struct hr__device_ops *ops = chain->device->ops;
    const size_t size = link->state_stride;
    void *memory = link->found;
    hr_status status = HR_OK;
    if (!chain->host_memory)
        status = hr__store_alloc(chain->store, size * chain->n_streams, &memory, error);
    link->states = memory;
    for (unsigned k = 0; k < segment->n_queues && status == HR_OK; k++) {
        char *found = link->found + k * size;
        hr__reduce_init(&link->info.spec, found);
        if (!chain->host_memory)
            status = ops->copy(chain->queues[segment->first_queue + k].stream,
                               link->states + k * size, found, size, HR__COPY_H2D, error);
    }
    return status;
}

static hr_status make_all_states(struct hr__chain *chain, hr_error *error)
{
    hr_status status = make_cells(chain, error);
    for (unsigned s = 0; s < chain->n_segments; s++) {
        const struct hr__segment *segment = &chain->segments[s];
        for (unsigned i = segment->first; i < segment->end && status == HR_OK; i++)
            if (chain->links[i].info.is_reduction)
                status = make_states(chain, segment, &chain->links[i], error);
    }
    return status;
}

/* ---- life ---- */

static hr_status build(struct hr__chain *chain, const struct hr_pipeline_config *config,
                       size_t *chunk_size, hr_error *error)
{
    hr_status status = make_links(chain, config, error);
    if (status == HR_OK)
        status = hr__chain_plan(chain, chunk_size, !config->chunk_size, error);
    if (status == HR_OK)
        status = make_queues(chain, error);
    if (status == HR_OK)
        status = make_events(chain, error);
    if (status == HR_OK)
        status = make_carries(chain, error);
    if (status == HR_OK)
        status = make_buffers(chain, error);
    return status == HR_OK ? make_all_states(chain, error) : status;
}

hr_status hr__chain_create(hr_context *context, struct hr__store *store,
                           const struct hr_pipeline_config *config, unsigned depth,
                           size_t *chunk_size, struct hr__chain **out, hr_error *error)
{
    struct hr__chain *chain = calloc(1, sizeof *chain);
    if (!chain)
        return no_memory(error);
    const struct hr__device_info *info = store->device->ops->info(store->device);
    chain->store = store;
    chain->device = store->device;
    chain->memory = &context->memory;
    chain->host_memory = info->host_memory;
    chain->depth = depth;
    const unsigned wanted = config->n_streams ? config->n_streams : info->n_streams;
    const unsigned most = depth < HR__MAX_STREAMS ? depth : HR__MAX_STREAMS;
    chain->n_streams = wanted < most ? wanted : most;
    const hr_status status = build(chain, config, chunk_size, error);
    if (status != HR_OK)
        hr__chain_free(chain);
    else
        *out = chain;
    return status;
}

/* What was created may not have run yet, copies of states, say; and users may still read what was
 * lent to them. */
static void wait_for_all(struct hr__chain *chain)
{
    const struct hr__device_ops *ops = chain->device->ops;
    if (chain->host_memory || !chain->events)
        return;
    for (unsigned i = 0; i < chain->n_queues && chain->fetched; i++)
        if (ops->record(chain->queues[i].stream, chain->fetched, NULL) < 0 ||
            ops->lend(chain->fetched, NULL, NULL) < 0)
            chain->failed = true;
    for (unsigned i = 0; i < chain->depth; i++) {
        struct hr__event *back = chain->events[i * HR__N_MARKS + HR__GIVEN_BACK];
        if (back && ops->lend(back, NULL, NULL) < 0)
            chain->failed = true;
    }
}

static void free_links(struct hr__chain *chain)
{
    for (unsigned i = 0; i < chain->n_links; i++) {
        struct hr__link *link = &chain->links[i];
        if (link->states && !chain->host_memory)
            hr__store_return(chain->store, link->states, link->state_stride * chain->n_streams);
        chain->device->ops->kernel_destroy(link->kernel);
    }
    free(chain->links);
}

void hr__chain_free(struct hr__chain *chain)
{
    static const enum hr__stream_use uses[] = {[HR__LEG_IN] = HR__STREAM_H2D,
                                               [HR__LEG_RUN] = HR__STREAM_KERNELS,
                                               [HR__LEG_OUT] = HR__STREAM_D2H};
    if (!chain)
        return;
    struct hr__store *store = chain->store;
    wait_for_all(chain);
    for (unsigned i = 0; i < chain->n_queues; i++)
        hr__store_return_stream(store, uses[chain->queues[i].leg], chain->queues[i].stream,
                                chain->failed);
    for (size_t i = 0; chain->events && i < (size_t)chain->depth * HR__N_MARKS; i++)
        hr__store_return_event(store, chain->events[i], chain->failed);
    for (unsigned i = 0; i < chain->n_followed; i++)
        hr__store_return_event(store, chain->followed[i], chain->failed);
    for (unsigned i = 0; i < 2; i++)
        hr__store_return_event(store, chain->clock.epochs[i], chain->failed);
    hr__store_return_event(store, chain->fetched, chain->failed);
    for (unsigned i = 0; i < chain->n_segments; i++)
        hr__store_return(store, chain->segments[i].carry, round_up(chain->segments[i].unit));
    hr__store_return(store, chain->buffers, chain->depth * chain->buffers_stride);
    free_links(chain);
    if (chain->host_memory)
        hr__store_return(store, chain->cells, chain->cells_bytes);
    hr__memory_return(chain->memory, chain->cells_region);
    free(chain->followed);
    free(chain->segments);
    free(chain->queues);
    free(chain->events);
    free(chain);
}

/* ---- results ---- */

static const struct hr__segment *segment_of(const struct hr__chain *chain, unsigned link)
{
    const struct hr__segment *segment = chain->segments;
    while (link >= segment->end)
        segment++;
    return segment;
}

/* How many of them kernels may have changed. The others are still on the host as they were made, and
 * may be on their way to the device. */
static unsigned n_used_states(const struct hr__chain *chain, unsigned link)
{
    const struct hr__segment *segment = segment_of(chain, link);
    return segment->next < segment->n_queues ? (unsigned)segment->next : segment->n_queues;
}

/* Of a stream without a chunk the first state is the result, and is written to: not before it has
 * come to the device. */
static void follow_first_state(struct hr__chain *chain, unsigned link, struct hr__stream *stream)
{
    const struct hr__device_ops *ops = chain->device->ops;
    const unsigned queue = segment_of(chain, link)->first_queue;
    if (ops->record(chain->queues[queue].stream, chain->fetched, NULL) == HR_OK)
        ops->wait(stream, chain->fetched, NULL);
}

/* All kernels are done. On the stream for copies, which is idle then or ends with them. */
bool hr__chain_fetch(struct hr__chain *chain)
{
    const struct hr__device_ops *ops = chain->device->ops;
    bool any = false;
    if (chain->host_memory)
        return false;
    struct hr__stream *stream = chain->queues[chain->n_queues - 1].stream;
    for (unsigned i = 0; i < chain->n_links; i++) {
        struct hr__link *link = &chain->links[i];
        if (!link->info.is_reduction)
            continue;
        any = true; /* a failure is told by the event behind it */
        const size_t size = link->state_stride * n_used_states(chain, i);
        if (size > 0)
            ops->copy(stream, link->found, link->states, size, HR__COPY_D2H, NULL);
        else
            follow_first_state(chain, i, stream);
    }
    if (any)
        ops->record(stream, chain->fetched, NULL);
    return any;
}

void hr__chain_result(struct hr__chain *chain, unsigned index, struct hr__reduce_result *result)
{
    for (unsigned i = 0; i < chain->n_links && !chain->merged; i++) {
        struct hr__link *link = &chain->links[i];
        for (unsigned k = 1; link->info.is_reduction && k < n_used_states(chain, i); k++)
            hr__reduce_merge(&link->info.spec, link->found, link->found + k * link->state_stride);
    }
    chain->merged = true;
    struct hr__link *link = &chain->links[index];
    hr__reduce_finish(&link->info.spec, link->found, result);
}
