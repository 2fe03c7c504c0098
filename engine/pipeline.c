// SPDX-License-Identifier: Apache-2.0
/* Creation and the public face of a pipeline. What it does once it runs is the scheduler's. */
#include "pipeline.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "sched.h"
#include "status.h"
#include "wake.h"

static const struct hr__where nowhere;

enum { DEFAULT_CHUNK = 4 << 20, DEFAULT_DEPTH = 8, MAX_DEPTH = 65536 };

_Static_assert(sizeof(struct hr_source) == 72, "a public struct changed its size");
_Static_assert(sizeof(struct hr_sink) == 56, "a public struct changed its size");
_Static_assert(sizeof(struct hr_pipeline_config) == 88, "a public struct changed its size");
_Static_assert(sizeof(struct hr_stats) == 112, "a public struct changed its size");

/* ---- creation ---- */

static hr_status bad(hr_error *error, const char *what)
{
    return hr__fail(error, HR_EINVAL, nowhere, "pipeline: %s", what);
}

static hr_status open_source_file(struct hr__input *in, hr_error *error)
{
    if (in->config.kind == HR_FD)
        return hr__file_from_fd(in->config.fd, HR_STAGE_READ, &in->file, error);
    if (!in->config.path)
        return bad(error, "a source of kind HR_FILE has no path");
    in->path = strdup(in->config.path);
    if (!in->path)
        return hr__fail(error, HR_ENOMEM, nowhere, "pipeline: out of memory");
    return hr__file_open(in->path, &in->file, error);
}

/* Where the source begins and ends: the range cut to what is there. */
static void set_range(struct hr__input *in, uint64_t size)
{
    const bool range = in->config.flags & HR_RANGE;
    const uint64_t offset = range ? in->config.offset : 0;
    const uint64_t length = range ? in->config.length : UINT64_MAX;
    if (in->in_order) { /* where it ends is not known: counted from the range's start */
        in->origin = offset;
        in->skip = in->config.kind == HR_CALLBACK ? 0 : offset;
        in->end = length;
        return;
    }
    in->position = offset < size ? offset : size;
    in->end = length < size - in->position ? in->position + length : size;
}

static hr_status open_input(struct hr__input *in, const void *user_source, hr_error *error)
{
    in->file.fd = -1;
    if (!hr__copy_struct(&in->config, sizeof in->config, user_source))
        return bad(error, "a source's struct_size is not set, or it has fields that are not known");
    if (in->config.flags & ~(uint32_t)HR_RANGE)
        return bad(error, "a source has flags other than HR_RANGE");
    uint64_t size = in->config.size;
    hr_status status = HR_OK;
    switch (in->config.kind) {
    case HR_FILE:
    case HR_FD:
        status = open_source_file(in, error);
        size = in->file.size;
        in->in_order = !in->file.positional;
        break;
    case HR_MEMORY:
        if (size && !in->config.data)
            return bad(error, "a source of kind HR_MEMORY has no data");
        break;
    case HR_CALLBACK:
        if (!in->config.read)
            return bad(error, "a source of kind HR_CALLBACK has no read function");
        in->in_order = true;
        break;
    default:
        return bad(error, "a source's kind is none that can be read");
    }
    if (status == HR_OK)
        set_range(in, size);
    return status;
}

static hr_status open_inputs(hr_pipeline *p, const struct hr_pipeline_config *config,
                             hr_error *error)
{
    if (!config->n_sources || !config->sources)
        return bad(error, "there is no source");
    p->inputs = calloc(config->n_sources, sizeof *p->inputs);
    if (!p->inputs)
        return hr__fail(error, HR_ENOMEM, nowhere, "pipeline: out of memory");
    const size_t stride = config->sources[0].struct_size;
    const char *at = (const char *)config->sources;
    for (uint32_t i = 0; i < config->n_sources; i++, at += stride) {
        p->inputs[i].pipeline = p;
        p->n_inputs = i + 1;
        const hr_status status = open_input(&p->inputs[i], at, error);
        if (status < 0)
            return status;
    }
    return HR_OK;
}

static hr_status open_target(hr_pipeline *p, hr_error *error)
{
    struct hr_sink *sink = &p->sink;
    const bool sync = sink->flags & HR_FSYNC;
    if (sink->flags & ~(uint32_t)HR_FSYNC)
        return bad(error, "the sink has flags other than HR_FSYNC");
    switch (sink->kind) {
    case HR_NULL:
        return HR_OK;
    case HR_FILE:
        if (!sink->path)
            return bad(error, "the sink is of kind HR_FILE and has no path");
        p->sink_path = strdup(sink->path);
        if (!p->sink_path)
            return hr__fail(error, HR_ENOMEM, nowhere, "pipeline: out of memory");
        return hr__target_open(sink->path, sync, &p->target, error);
    case HR_FD:
        p->target.fsync = sync;
        return hr__file_from_fd(sink->fd, HR_STAGE_WRITE, &p->target.file, error);
    case HR_MEMORY:
        return sink->data || !sink->size ? HR_OK : bad(error, "the memory sink has no data");
    case HR_CALLBACK:
        return sink->write ? HR_OK : bad(error, "the callback sink has no write function");
    default:
        return bad(error, "the sink's kind is none that can be written");
    }
}

static hr_status refuse_same_file(const hr_pipeline *p, hr_error *error)
{
    for (unsigned i = 0; i < p->n_inputs; i++)
        if (hr__file_same(&p->inputs[i].file, &p->target.file))
            return hr__fail(error, HR_EINVAL, (struct hr__where){.stage = HR_STAGE_WRITE},
                            "pipeline: source %u and the sink are the same file (%s); write to "
                            "another name",
                            i, p->inputs[i].path ? p->inputs[i].path : "a descriptor");
    return HR_OK;
}

/* No larger than the longest source, if all lengths are known. */
static uint64_t default_chunk(const hr_pipeline *p)
{
    uint64_t longest = 1;
    for (unsigned i = 0; i < p->n_inputs; i++) {
        const struct hr__input *in = &p->inputs[i];
        const uint64_t left = in->end - in->position;
        if (left > longest)
            longest = left;
    }
    return longest < DEFAULT_CHUNK ? longest : DEFAULT_CHUNK;
}

static hr_status make_slots(hr_pipeline *p, const struct hr_pipeline_config *config,
                            hr_error *error)
{
    const uint64_t chunk = config->chunk_size ? config->chunk_size : default_chunk(p);
    if (chunk > 1u << 30) /* what io_uring registers at most as one buffer */
        return bad(error, "chunk_size is over 1 GiB");
    if (config->depth > MAX_DEPTH)
        return bad(error, "depth is over 65536");
    p->chunk_size = (size_t)chunk;
    p->depth = config->depth ? config->depth : DEFAULT_DEPTH;
    p->slots = calloc(p->depth, sizeof *p->slots);
    p->order = calloc(p->depth, sizeof *p->order);
    if (!p->slots || !p->order)
        return hr__fail(error, HR_ENOMEM, nowhere, "pipeline: out of memory");
    const hr_status status =
        hr__memory_lease(&p->loop->context->memory, p->chunk_size, &p->slots[0].region);
    for (unsigned i = p->depth; i-- > 0;) {
        p->slots[i].pipeline = p;
        hr__sched_release(&p->slots[i]);
    }
    p->n_leased = 1;
    if (status != HR_OK)
        hr__fail(error, status, nowhere, "pipeline: no memory for one chunk of %zu bytes: %s",
                 p->chunk_size,
                 status == HR_AGAIN ? "the context's max_memory is all leased"
                                    : "the system has no more; set chunk_size lower");
    return status;
}

static hr_status make_checks(hr_pipeline *p, hr_error *error)
{
    char why[128];
    if (p->sink.kind != HR_NULL)
        return HR_OK;
    if (hr__kernel_parse("crc32", &p->crc_spec, why, sizeof why) != 0)
        return hr__fail(error, HR_EINVAL, nowhere, "pipeline: crc32: %s", why);
    p->reductions = calloc((size_t)p->depth + 1, p->crc_spec.state_bytes);
    if (!p->reductions)
        return hr__fail(error, HR_ENOMEM, nowhere, "pipeline: out of memory");
    for (unsigned i = 0; i < p->depth; i++)
        p->slots[i].reduction = p->reductions + i * p->crc_spec.state_bytes;
    hr__reduce_init(&p->crc_spec, hr__pipeline_crc(p));
    return HR_OK;
}

void *hr__pipeline_crc(const hr_pipeline *p)
{
    return p->reductions + p->depth * p->crc_spec.state_bytes;
}

void hr__pipeline_let_go(hr_pipeline *p)
{
    for (unsigned i = 0; i < p->n_inputs; i++)
        hr__file_close(&p->inputs[i].file, p->inputs[i].position);
    for (unsigned i = 0; p->slots && i < p->depth; i++) {
        hr__memory_return(&p->loop->context->memory, p->slots[i].region);
        p->slots[i].region = NULL;
    }
}

static void destroy(hr_pipeline *p)
{
    hr__pipeline_let_go(p);
    for (unsigned i = 0; i < p->n_inputs; i++)
        free(p->inputs[i].path);
    free(p->inputs);
    free(p->slots);
    free(p->order);
    free(p->reductions);
    free(p->sink_path);
    hr__target_abandon(&p->target, 0);
    if (p->owns_loop)
        hr_loop_free(p->loop);
    free(p);
}

static hr_status build(hr_pipeline *p, const struct hr_pipeline_config *config, hr_error *error)
{
    hr_status status = HR_OK;
    if (!p->loop) {
        p->owns_loop = true;
        status = hr_loop_create(NULL, NULL, &p->loop, error);
    }
    if (status == HR_OK)
        status = open_inputs(p, config, error);
    if (status == HR_OK)
        status = open_target(p, error);
    if (status == HR_OK)
        status = refuse_same_file(p, error);
    if (status == HR_OK)
        status = make_slots(p, config, error);
    if (status == HR_OK)
        status = make_checks(p, error);
    return status;
}

hr_status hr_pipeline_create(hr_loop *loop, const struct hr_pipeline_config *user_config,
                             hr_pipeline **out, hr_error *error)
{
    struct hr_pipeline_config config;
    if (!out || !user_config)
        return bad(error, "out or config is NULL");
    if (!hr__copy_struct(&config, sizeof config, user_config))
        return bad(error, "struct_size is not set, or the config has fields that are not known");
    hr_pipeline *p = calloc(1, sizeof *p);
    if (!p)
        return hr__fail(error, HR_ENOMEM, nowhere, "pipeline: out of memory");
    p->loop = loop;
    p->status = HR_PENDING;
    p->marked = true;
    p->target.file.fd = -1;
    atomic_init(&p->cancelled, false);
    hr_status status;
    if (!hr__copy_struct(&p->sink, sizeof p->sink, &config.sink)) {
        p->sink = (struct hr_sink){0};
        status = bad(error, "the sink's struct_size is not set, or it has fields that are not "
                            "known");
    } else {
        status = build(p, &config, error);
    }
    if (status != HR_OK) {
        destroy(p);
        return status;
    }
    hr__loop_add(p->loop, p);
    *out = p;
    return HR_OK;
}

/* ---- running ---- */

hr_status hr_pipeline_state(const hr_pipeline *p, hr_error *error)
{
    if (p->status < 0 && error)
        *error = p->error;
    return p->status;
}

hr_status hr_pipeline_run(hr_pipeline *p, hr_error *error)
{
    while (!p->finished) {
        const hr_status status = hr_loop_poll(p->loop, -1, error);
        if (status < 0)
            return status;
    }
    return hr_pipeline_state(p, error);
}

void hr_pipeline_cancel(hr_pipeline *p)
{
    atomic_store_explicit(&p->cancelled, true, memory_order_relaxed);
    hr__wake(p->loop->event_fd);
}

/* In a forked child nothing of the parent's may be touched or waited for: the memory is left. */
void hr_pipeline_free(hr_pipeline *p)
{
    if (!p || getpid() != p->loop->pid)
        return;
    if (!p->finished && p->start_ns) {
        hr_pipeline_cancel(p);
        while (!p->finished && hr_loop_poll(p->loop, -1, NULL) >= 0)
            ;
        if (!p->finished) /* another thread's loop: what is in flight would be freed under it */
            return;
    }
    hr__loop_remove(p->loop, p);
    destroy(p);
}

/* ---- statistics ---- */

static uint32_t stream_crc(const hr_pipeline *p)
{
    if (!p->reductions)
        return 0;
    struct hr__reduce_result result;
    uint32_t crc;
    hr__reduce_finish(&p->crc_spec, hr__pipeline_crc(p), &result);
    memcpy(&crc, result.data, sizeof crc);
    return crc;
}

hr_status hr_pipeline_stats(const hr_pipeline *p, struct hr_stats *stats)
{
    uint32_t size = stats ? stats->struct_size : 0;
    if (size < sizeof size)
        return HR_EINVAL;
    struct hr_stats all = {
        .depth = p->n_leased,
        .wall_ns = p->start_ns ? (p->finished ? p->end_ns : hr__now_ns()) - p->start_ns : 0,
        .chunk_size = p->chunk_size,
        .leased_bytes = (uint64_t)p->n_leased * p->chunk_size,
        .crc32 = stream_crc(p),
    };
    memcpy(all.stages, p->stages, sizeof all.stages);
    if (size > sizeof all)
        size = sizeof all;
    all.struct_size = size;
    memcpy(stats, &all, size);
    return HR_OK;
}
