// SPDX-License-Identifier: Apache-2.0
#include "device_ends.h"

#include <string.h>

#include "sched.h"
#include "status.h"

static const struct hr__where nowhere;

static const struct hr__device_ops *ops_of(const hr_pipeline *p)
{
    return p->store->device->ops;
}

/* ---- creation ---- */

static bool has_device_end(const hr_pipeline *p)
{
    bool any = p->sink.kind == HR_DEVICE;
    for (unsigned i = 0; i < p->n_inputs; i++)
        any |= p->inputs[i].config.kind == HR_DEVICE;
    return any;
}

bool hr__device_ends_copy(const hr_pipeline *p)
{
    return p->store && !ops_of(p)->info(p->store->device)->host_memory;
}

static enum hr__memory_kind kind_of(const hr_pipeline *p, const void *data, uint64_t size,
                                    hr_error *error)
{
    const struct hr__device_ops *ops = ops_of(p);
    return size ? ops->memory_kind(p->store->device, data, (size_t)size, error) : HR__MEMORY_DEVICE;
}

/* An end of kind HR_DEVICE. Where the driver failed to tell, *why has the reason. */
static hr_status check_device_end(const hr_pipeline *p, const char *which,
                                  enum hr__memory_kind kind, const hr_error *why, hr_error *error)
{
    if (kind == HR__MEMORY_DEVICE)
        return HR_OK;
    if (kind == HR__MEMORY_UNKNOWN) {
        if (error)
            *error = *why;
        return (hr_status)why->code;
    }
    return hr__fail(error, HR_EINVAL, nowhere,
                    "pipeline: %s of kind HR_DEVICE: its data are no memory of %s", which,
                    ops_of(p)->info(p->store->device)->name);
}

static hr_status check_source(hr_pipeline *p, struct hr__input *in, hr_error *error)
{
    const struct hr_source *source = &in->config;
    hr_error why;
    if (source->kind != HR_MEMORY && source->kind != HR_DEVICE)
        return HR_OK;
    const enum hr__memory_kind kind = kind_of(p, source->data, source->size, &why);
    in->staged = kind == HR__MEMORY_PLAIN || kind == HR__MEMORY_UNKNOWN;
    if (source->kind == HR_MEMORY)
        return HR_OK;
    if (in->codec != HR_CODEC_NONE)
        return hr__fail(error, HR_EUNSUPPORTED, nowhere,
                        "pipeline: a source of kind HR_DEVICE cannot be decoded; copy it to the "
                        "host first");
    return check_device_end(p, "a source", kind, &why, error);
}

static bool keeps_on_device(const hr_pipeline *p)
{
    const struct hr_sink *sink = &p->sink;
    return sink->kind == HR_DEVICE || (sink->kind == HR_PULL && (sink->flags & HR_LEND_DEVICE));
}

/* Where a device's memory is the host's, its ends are memory like any other. */
static void take_as_memory(hr_pipeline *p)
{
    for (unsigned i = 0; i < p->n_inputs; i++)
        if (p->inputs[i].config.kind == HR_DEVICE)
            p->inputs[i].config.kind = HR_MEMORY;
}

/* No byte passes through memory that is leased. */
static bool are_direct(const hr_pipeline *p)
{
    bool direct = !p->decoding && !p->encoding && (p->sink_is_pinned || keeps_on_device(p));
    for (unsigned i = 0; i < p->n_inputs; i++) {
        const struct hr__input *in = &p->inputs[i];
        direct &= in->config.kind == HR_DEVICE || (in->config.kind == HR_MEMORY && !in->staged);
    }
    return direct;
}

/* On the host, too, so that a program that runs there runs on a GPU. */
static hr_status check_alignment(const hr_pipeline *p, hr_error *error)
{
    enum { ALIGNMENT = 16 };
    for (unsigned i = 0; i < p->n_inputs; i++) {
        const struct hr_source *source = &p->inputs[i].config;
        if (source->kind == HR_DEVICE && (uintptr_t)source->data % ALIGNMENT != 0)
            return hr__fail(error, HR_EINVAL, nowhere,
                            "pipeline: source %u of kind HR_DEVICE: its data at %p are not aligned "
                            "to 16 bytes",
                            i, source->data);
    }
    return HR_OK;
}

static hr_status check_ends(hr_pipeline *p, hr_error *error)
{
    hr_status status = check_alignment(p, error);
    if (status != HR_OK)
        return status;
    if (!hr__device_ends_copy(p)) {
        take_as_memory(p);
        return HR_OK;
    }
    for (unsigned i = 0; i < p->n_inputs && status == HR_OK; i++)
        status = check_source(p, &p->inputs[i], error);
    const struct hr_sink *sink = &p->sink;
    const bool given = sink->data && (sink->kind == HR_DEVICE || sink->kind == HR_MEMORY);
    hr_error why;
    const enum hr__memory_kind kind =
        given ? kind_of(p, sink->data, sink->size, &why) : HR__MEMORY_DEVICE;
    if (status == HR_OK && sink->kind == HR_DEVICE)
        status = check_device_end(p, "the sink", kind, &why, error);
    p->sink_is_pinned = sink->kind == HR_MEMORY && kind == HR__MEMORY_PINNED;
    p->is_direct = are_direct(p);
    return status;
}

/* The memory is the context's: whoever gets it needs the context to free it. */
static hr_status check_gathering(const hr_pipeline *p, hr_error *error)
{
    if (p->sink.kind != HR_DEVICE || p->sink.data || !p->owns_loop)
        return HR_OK;
    return hr__fail(
        error, HR_EINVAL, nowhere,
        "pipeline: a sink of kind HR_DEVICE without data gathers in memory of the "
        "context, and a pipeline without a loop has a private one; make a context and a "
        "loop");
}

hr_status hr__device_ends_open(hr_pipeline *p, const struct hr_pipeline_config *c, hr_error *error)
{
    if (!c->device && !c->n_kernels && !has_device_end(p))
        return HR_OK;
    const char *name = c->device ? c->device : "auto";
    const hr_status status = hr__context_device(p->loop->context, name, &p->store, error);
    if (status < 0)
        return status;
    if ((p->flags & HR_STRICT) && strcmp(name, "auto") == 0 && !hr__device_ends_copy(p))
        return hr__fail(error, HR_EUNSUPPORTED, nowhere,
                        "device \"auto\" is the host, which is an error here (HR_STRICT, "
                        "--strict): there is no GPU; name \"host\" if it may be");
    const hr_status gathering = check_gathering(p, error);
    return gathering == HR_OK ? check_ends(p, error) : gathering;
}

/* ---- planning ---- */

static hr_status follow_users(hr_pipeline *p, hr_error *error)
{
    hr_status status = HR_OK;
    for (unsigned i = 0; i < p->n_inputs && status == HR_OK; i++)
        status = hr__chain_follow(p->chain, p->inputs[i].config.stream, error);
    return status == HR_OK ? hr__chain_follow(p->chain, p->sink.stream, error) : status;
}

/* All that the stream will hold, if that is known; else 0. */
static uint64_t known_size(const hr_pipeline *p)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < p->n_inputs; i++) {
        const struct hr__input *in = &p->inputs[i];
        if (in->total == UINT64_MAX || in->codec != HR_CODEC_NONE)
            return 0;
        total += in->total;
    }
    if (p->chain && hr__chain_is_counted(p->chain))
        return 0;
    const uint64_t size = hr__chain_place(p->chain, total);
    return p->sink.size && p->sink.size < size ? p->sink.size : size;
}

hr_status hr__device_ends_plan(hr_pipeline *p, hr_error *error)
{
    const bool device_sink = p->sink.kind == HR_DEVICE;
    const uint64_t size = device_sink && !p->sink.data ? known_size(p) : 0;
    hr_error why;
    if (size && !hr__gather_room(p, size, &why)) {
        if (error)
            *error = why;
        return (hr_status)why.code;
    }
    if (hr__device_ends_copy(p)) {
        const hr_status status = follow_users(p, error);
        if (status != HR_OK)
            return status;
    }
    if (!hr__device_ends_copy(p) || p->encoding)
        return HR_OK;
    p->keeps_on_device = keeps_on_device(p);
    /* Memory that grows moves once what has passed the sink is there; without an order, what has a
     * place in it may still be on its way. */
    const bool moves = device_sink && !p->sink.data && !size && p->unordered;
    p->places = (device_sink || p->sink_is_pinned) && !moves && !hr__chain_is_counted(p->chain);
    return HR_OK;
}

void hr__device_ends_free(hr_pipeline *p)
{
    if (p->gather.memory)
        ops_of(p)->free(p->store->device, p->gather.memory);
    p->gather.memory = NULL;
}

/* ---- source and sink in one memory ---- */

static bool is_memory(uint32_t kind)
{
    return kind == HR_MEMORY || kind == HR_DEVICE;
}

/* Bytes that are read, and their place. */
static bool overlaps(const struct hr__input *in, const struct hr_sink *sink)
{
    if (!is_memory(in->config.kind))
        return false;
    const uintptr_t data = (uintptr_t)in->config.data;
    const uintptr_t to = (uintptr_t)sink->data;
    return data + in->position < to + sink->size && to < data + in->end;
}

static bool in_place(const hr_pipeline *p, const struct hr__input *in)
{
    const char *from = (const char *)in->config.data + in->position;
    const size_t unit = hr__chain_unit(p->chain);
    const uint64_t out = p->chain ? p->chain->bytes_out_of_unit : unit;
    /* where chunks shrink, each is written over ones before it, which order has read */
    const bool grows = p->unordered ? out != unit : out > unit;
    return p->n_inputs == 1 && from == (const char *)p->sink.data && !grows && !p->decoding &&
           !p->encoding && (!p->chain || p->chain->n_segments == 1);
}

hr_status hr__device_ends_refuse_overlap(const hr_pipeline *p, hr_error *error)
{
    if (!is_memory(p->sink.kind) || !p->sink.data)
        return HR_OK;
    for (unsigned i = 0; i < p->n_inputs; i++)
        if (overlaps(&p->inputs[i], &p->sink) && !in_place(p, &p->inputs[i]))
            return hr__fail(
                error, HR_EINVAL, (struct hr__where){.stage = HR_STAGE_WRITE},
                "pipeline: source %u and the sink overlap in memory, and bytes would be "
                "written before they are read; in place is possible where both begin "
                "at one address and no chunk grows",
                i);
    return HR_OK;
}

/* ---- the sink's memory ---- */

char *hr__sink_memory(const hr_pipeline *p, uint64_t *size)
{
    const bool gathers = p->sink.kind == HR_DEVICE && !p->sink.data;
    *size = gathers ? p->gather.capacity : p->sink.size;
    return gathers ? p->gather.memory : p->sink.data;
}

char *hr__sink_place(const hr_pipeline *p, const struct hr__slot *chunk, size_t size)
{
    uint64_t room;
    char *memory = hr__sink_memory(p, &room);
    const uint64_t at = hr__chain_place(p->chain, chunk->stream_offset);
    return p->places && at <= room && size <= room - at ? memory + at : NULL;
}

/* Copies what is there, and waits for that. */
static hr_status move(hr_pipeline *p, char *to, hr_error *error)
{
    const struct hr__device_ops *ops = ops_of(p);
    const struct hr__chain *chain = p->chain;
    if (!hr__device_ends_copy(p)) {
        memcpy(to, p->gather.memory, (size_t)p->gather.size);
        return HR_OK;
    }
    struct hr__stream *stream = chain->queues[chain->n_queues - 1].stream;
    hr_status status =
        ops->copy(stream, to, p->gather.memory, (size_t)p->gather.size, HR__COPY_D2D, error);
    if (status == HR_OK)
        status = ops->record(stream, chain->fetched, error);
    return status == HR_OK ? ops->lend(chain->fetched, NULL, error) : status;
}

/* Twice as much each time, so that bytes move once on average. */
bool hr__gather_room(hr_pipeline *p, uint64_t end, hr_error *error)
{
    struct hr__gather *gather = &p->gather;
    if (end <= gather->capacity)
        return true;
    uint64_t capacity = end > 2 * gather->capacity ? end : 2 * gather->capacity;
    if (p->sink.size && p->sink.size < capacity)
        capacity = p->sink.size; /* end is not beyond it */
    void *memory = NULL;
    hr_status status = hr__store_alloc(p->store, (size_t)capacity, &memory, error);
    if (status == HR_OK && gather->size)
        status = move(p, memory, error);
    if (status != HR_OK) {
        if (memory)
            ops_of(p)->free(p->store->device, memory);
        return false;
    }
    hr__device_ends_free(p);
    gather->memory = memory;
    gather->capacity = capacity;
    return true;
}

hr_status hr_pipeline_gathered(hr_pipeline *p, void **memory, uint64_t *size, hr_error *error)
{
    if (!memory || !size)
        return hr__fail(error, HR_EINVAL, nowhere, "gathered: memory or size is NULL");
    if (p->sink.kind != HR_DEVICE || p->sink.data)
        return hr__fail(error, HR_EINVAL, nowhere,
                        "gathered: the pipeline's sink is not of kind HR_DEVICE without data");
    const hr_status status = hr_pipeline_state(p, error);
    if (status != HR_OK)
        return status;
    *memory = p->gather.memory;
    *size = p->gather.memory ? p->written_bytes : 0;
    p->gather.memory = NULL;
    return HR_OK;
}

/* ---- what becomes of a chunk ---- */

bool hr__sink_takes_input(const hr_pipeline *p, const struct hr__slot *chunk)
{
    const struct hr__chain *chain = p->chain;
    return !chain->host_memory && !p->keeps_on_device && chain->n_links && !chain->maps &&
           !chunk->on_device && !p->places;
}

/* What has no place in the sink's memory stays where it is: the write stage says that it is too
 * long. */
bool hr__sink_wants_copy(const hr_pipeline *p, const struct hr__slot *chunk)
{
    return !p->chain->host_memory && !p->keeps_on_device && !chunk->device.passes &&
           (!p->places || hr__sink_place(p, chunk, chunk->device.size));
}
