// SPDX-License-Identifier: Apache-2.0
/* Plans a chain: segments, units, and the memory that chunks need between kernels. */
#include "chain.h"

#include <assert.h>
#include <stdlib.h>

#include "context.h"
#include "status.h"

static const struct hr__where here = {.stage = HR_STAGE_KERNEL};

enum { ALIGNMENT = 64 }; /* of buffers between kernels: a cache line */

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static size_t round_up(size_t size)
{
    return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* ---- segments and units ---- */

static bool maps(const struct hr__link *link)
{
    return link->info.unit_out_bytes != 0;
}

/* Finds the smallest number of bytes that is whole units for every kernel of the segment. At a
 * kernel there are unit * a / b bytes, a / b being the ratio of what precedes it; that must be a
 * multiple of its own unit u, so `unit` must be one of u * b / gcd(u * b, a). */
static hr_status find_unit(const struct hr__chain *chain, struct hr__segment *segment,
                           hr_error *error)
{
    uint64_t unit = 1;
    uint64_t a = 1;
    uint64_t b = 1;
    for (unsigned i = segment->first; i < segment->end; i++) {
        const struct hr__link *link = &chain->links[i];
        const uint64_t in = link->info.unit_in_bytes;
        const uint64_t wanted = in * b / gcd(in * b, a);
        unit = unit / gcd(unit, wanted) * wanted;
        if (unit > 1u << 30)
            return hr__fail(error, HR_EINVAL, here,
                            "kernels: the units of kernels 0 to %u have no common multiple under 1 "
                            "GiB",
                            i);
        if (!maps(link))
            continue;
        const uint64_t common = gcd(a * link->info.unit_out_bytes, b * in);
        a = a * link->info.unit_out_bytes / common;
        b = b * in / common;
    }
    segment->unit = (size_t)unit;
    return HR_OK;
}

static hr_status cut_segments(struct hr__chain *chain, hr_error *error)
{
    assert(chain->n_links > 0);
    chain->segments = calloc(chain->n_links, sizeof *chain->segments);
    if (!chain->segments)
        return hr__fail(error, HR_ENOMEM, here, "kernels: out of memory");
    unsigned first = 0;
    for (unsigned i = 0; i < chain->n_links; i++) {
        if (!chain->links[i].info.is_counted && i + 1 < chain->n_links)
            continue;
        struct hr__segment *segment = &chain->segments[chain->n_segments++];
        segment->first = first;
        segment->end = first = i + 1;
        const hr_status status = find_unit(chain, segment, error);
        if (status < 0)
            return status;
        assert(segment->unit > 0);
        if (!(segment->carry = malloc(segment->unit)))
            return hr__fail(error, HR_ENOMEM, here, "kernels: out of memory");
    }
    return HR_OK;
}

/* ---- memory ---- */

/* Follows the largest chunk through the chain. */
static hr_status size_buffers(struct hr__chain *chain, size_t chunk_size, hr_error *error)
{
    uint64_t size = chunk_size;
    uint64_t of_unit = hr__chain_unit(chain);
    uint64_t largest = 0;
    unsigned n_maps = 0;
    chain->unit_out = 1;
    for (unsigned s = 0; s < chain->n_segments; s++) {
        const struct hr__segment *segment = &chain->segments[s];
        if (s > 0) { /* with what was carried */
            size += segment->unit - 1;
            if (segment->unit - 1 > chain->headroom)
                chain->headroom = round_up(segment->unit - 1);
        }
        for (unsigned i = segment->first; i < segment->end; i++) {
            const struct hr__kernel_info *info = &chain->links[i].info;
            if (!info->unit_out_bytes)
                continue;
            n_maps++;
            size = size / info->unit_in_bytes * info->unit_out_bytes;
            of_unit = of_unit / info->unit_in_bytes * info->unit_out_bytes;
            largest = size > largest ? size : largest;
            chain->unit_out = info->unit_out_bytes;
            if (size > 1ull << 32)
                return hr__fail(error, HR_EINVAL, here,
                                "kernels: kernel %u gives over 4 GiB for a chunk; set chunk_size "
                                "lower",
                                i);
        }
    }
    chain->bytes_out_of_unit = of_unit;
    chain->buffer_bytes = chain->headroom + round_up((size_t)largest);
    chain->chunk_bytes = chain->buffer_bytes * (n_maps > 2 ? 2 : n_maps);
    return HR_OK;
}

/* ---- what the device makes ---- */

static hr_status make_states(struct hr__chain *chain, struct hr__link *link, hr_error *error)
{
    struct hr__device *device = chain->device;
    for (unsigned i = 0; i < chain->n_streams; i++) {
        const hr_status status =
            device->ops->alloc(device, link->info.state_bytes, &link->states[i], error);
        if (status < 0)
            return status;
        hr__reduce_init(&link->info.spec, link->states[i]);
    }
    return HR_OK;
}

static hr_status make_links(struct hr__chain *chain, const struct hr_pipeline_config *config,
                            hr_error *error)
{
    const struct hr__device_ops *ops = chain->device->ops;
    chain->links = calloc(config->n_kernels, sizeof *chain->links);
    if (!chain->links)
        return hr__fail(error, HR_ENOMEM, here, "kernels: out of memory");
    const char *at = (const char *)config->kernels;
    const size_t stride = config->kernels[0].struct_size;
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

static hr_status make_streams(struct hr__chain *chain, unsigned depth, hr_error *error)
{
    struct hr__device *device = chain->device;
    const unsigned n_queues = chain->n_segments * chain->n_streams;
    chain->queues = calloc(n_queues, sizeof *chain->queues);
    chain->events = calloc(2 * (size_t)depth, sizeof(struct hr__event *));
    if (!chain->queues || !chain->events)
        return hr__fail(error, HR_ENOMEM, here, "kernels: out of memory");
    for (; chain->n_queues < n_queues; chain->n_queues++) {
        const hr_status status = device->ops->stream_create(
            device, HR__STREAM_KERNELS, &chain->queues[chain->n_queues].stream, error);
        if (status < 0)
            return status;
    }
    for (; chain->n_events < 2 * depth; chain->n_events++) {
        const hr_status status =
            device->ops->event_create(device, &chain->events[chain->n_events], error);
        if (status < 0)
            return status;
    }
    return HR_OK;
}

static hr_status build(struct hr__chain *chain, const struct hr_pipeline_config *config,
                       unsigned depth, size_t *chunk_size, hr_error *error)
{
    hr_status status = make_links(chain, config, error);
    if (status == HR_OK)
        status = cut_segments(chain, error);
    if (status < 0)
        return status;
    const size_t unit = hr__chain_unit(chain);
    if (*chunk_size < unit)
        *chunk_size = unit;
    *chunk_size = *chunk_size / unit * unit;
    status = size_buffers(chain, *chunk_size, error);
    if (status == HR_OK)
        status = make_streams(chain, depth, error);
    for (unsigned i = 0; status == HR_OK && i < chain->n_links; i++)
        if (chain->links[i].info.is_reduction)
            status = make_states(chain, &chain->links[i], error);
    return status;
}

hr_status hr__chain_create(struct hr__device *device, const struct hr_pipeline_config *config,
                           unsigned depth, size_t *chunk_size, struct hr__chain **out,
                           hr_error *error)
{
    struct hr__chain *chain = calloc(1, sizeof *chain);
    if (!chain)
        return hr__fail(error, HR_ENOMEM, here, "kernels: out of memory");
    chain->device = device;
    const unsigned wanted =
        config->n_streams ? config->n_streams : device->ops->info(device)->n_streams;
    const unsigned most = depth < HR__MAX_STREAMS ? depth : HR__MAX_STREAMS;
    chain->n_streams = wanted < most ? wanted : most;
    const hr_status status = build(chain, config, depth, chunk_size, error);
    if (status < 0)
        hr__chain_free(chain);
    else
        *out = chain;
    return status;
}

void hr__chain_free(struct hr__chain *chain)
{
    if (!chain)
        return;
    struct hr__device *device = chain->device;
    for (unsigned i = 0; i < chain->n_queues; i++)
        device->ops->stream_destroy(chain->queues[i].stream);
    for (unsigned i = 0; i < chain->n_events; i++)
        device->ops->event_destroy(chain->events[i]);
    for (unsigned i = 0; i < chain->n_links; i++) {
        for (unsigned k = 0; k < chain->n_streams; k++)
            if (chain->links[i].states[k])
                device->ops->free(device, chain->links[i].states[k]);
        device->ops->kernel_destroy(chain->links[i].kernel);
    }
    for (unsigned i = 0; i < chain->n_segments; i++)
        free(chain->segments[i].carry);
    free(chain->segments);
    free(chain->queues);
    free(chain->events);
    free(chain->links);
    free(chain);
}

size_t hr__chain_unit(const struct hr__chain *chain)
{
    assert(!chain || chain->segments);
    return chain ? chain->segments[0].unit : 1;
}

bool hr__chain_is_counted(const struct hr__chain *chain)
{
    for (unsigned i = 0; i < chain->n_links; i++)
        if (chain->links[i].info.is_counted)
            return true;
    return false;
}

void hr__chain_result(struct hr__chain *chain, unsigned index, struct hr__reduce_result *result)
{
    for (unsigned i = 0; i < chain->n_links && !chain->merged; i++) {
        struct hr__link *link = &chain->links[i];
        for (unsigned k = 1; link->info.is_reduction && k < chain->n_streams; k++)
            hr__reduce_merge(&link->info.spec, link->states[0], link->states[k]);
    }
    chain->merged = true;
    struct hr__link *link = &chain->links[index];
    hr__reduce_finish(&link->info.spec, link->states[0], result);
}
