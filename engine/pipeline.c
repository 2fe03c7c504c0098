// SPDX-License-Identifier: Apache-2.0
/* The life of a pipeline, and its public face. What it does once it runs is the scheduler's. */
#include "pipeline.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device_ends.h"
#include "endpoints.h"
#include "pipeline_plan.h"
#include "sched.h"
#include "status.h"
#include "wake.h"

static const struct hr__where nowhere;

_Static_assert(sizeof(struct hr_source) == 80, "a public struct changed its size");
_Static_assert(sizeof(struct hr_sink) == 64, "a public struct changed its size");
_Static_assert(sizeof(struct hr_kernel) == 80, "a public struct changed its size");
_Static_assert(sizeof(struct hr_pipeline_config) == 192, "a public struct changed its size");
_Static_assert(sizeof(struct hr_chunk) == 80, "a public struct changed its size");
_Static_assert(sizeof(struct hr_stats) == 592, "a public struct changed its size");

/* ---- what others ask ---- */

void *hr__pipeline_crc(const hr_pipeline *p)
{
    return p->crc_states;
}

uint64_t hr__pipeline_leased(const hr_pipeline *p)
{
    return p->blocks.leased_bytes + p->spans.leased_bytes + p->chunks.leased_bytes +
           p->frames.leased_bytes;
}

uint64_t hr__pipeline_unpinned(const hr_pipeline *p)
{
    return p->blocks.unpinned_bytes + p->spans.unpinned_bytes + p->chunks.unpinned_bytes;
}

/* ---- the end ---- */

void hr__pipeline_let_go(hr_pipeline *p)
{
    p->leased_bytes = hr__pipeline_leased(p);
    p->unpinned_bytes = hr__pipeline_unpinned(p);
    hr__ends_close(p, p->finished && p->status == HR_OK);
    if (p->n_loaned)
        return; /* chunks on loan keep their memory until the pipeline is freed */
    hr__lane_let_go(&p->blocks);
    hr__lane_let_go(&p->spans);
    hr__lane_let_go(&p->chunks);
    hr__lane_let_go(&p->frames);
}

static void destroy_codecs(hr_pipeline *p)
{
#if HR_HAVE_ZSTD
    if (p->decode.streaming)
        hr__decoder_reset(p->decode.streaming->decoder);
    if (p->loop)
        hr__codecs_return(&p->loop->context->codecs, p->decode.streaming);
    if (p->dict && p->loop)
        hr__codecs_forget(&p->loop->context->codecs, p->dict);
    hr__seek_table_free(&p->encode.table);
    for (unsigned i = 0; i < p->n_inputs; i++)
        hr__seek_index_free(&p->inputs[i].seek);
#endif
    free(p->dict);
}

static void destroy(hr_pipeline *p)
{
    p->n_loaned = 0;
    hr__pipeline_let_go(p);
    destroy_codecs(p);
    for (unsigned i = 0; i < p->n_inputs; i++)
        free(p->inputs[i].path);
    free(p->inputs);
    hr__device_ends_free(p);
    hr__chain_free(p->chain);
    hr__lane_destroy(&p->blocks);
    hr__lane_destroy(&p->spans);
    hr__lane_destroy(&p->chunks);
    hr__lane_destroy(&p->frames);
    free(p->cut.carry);
    free(p->crc_states);
    free(p->sink_path);
    hr__trace_abandon(p->trace);
    hr__target_abandon(&p->target, 0);
    if (p->owns_loop)
        hr_loop_free(p->loop);
    free(p);
}

/* ---- creation ---- */

static hr_status bad(hr_error *error, const char *what)
{
    return hr__fail(error, HR_EINVAL, nowhere, "pipeline: %s", what);
}

hr_status hr_pipeline_create(hr_loop *loop, const struct hr_pipeline_config *user_config,
                             hr_pipeline **out, hr_error *error)
{
    struct hr_pipeline_config config;
    if (!out || !user_config)
        return bad(error, "out or config is NULL");
    if (!hr__copy_struct(&config, sizeof config, user_config))
        return bad(error, "struct_size is not set, or the config has fields that are not known");
    hr_status status = loop ? hr__check_process(loop->pid, "loop", error) : HR_OK;
    if (status < 0)
        return status;
    hr_pipeline *p = calloc(1, sizeof *p);
    if (!p)
        return hr__fail(error, HR_ENOMEM, nowhere, "pipeline: out of memory");
    p->loop = loop;
    p->status = HR_PENDING;
    p->marked = true;
    p->gap.number = p->gap.offset = UINT64_MAX;
    p->target.file.fd = p->target.replaced_fd = p->target.timer_fd = -1;
    atomic_init(&p->cancelled, false);
    if (!hr__copy_struct(&p->sink, sizeof p->sink, &config.sink)) {
        p->sink = (struct hr_sink){0};
        status = bad(error, "the sink's struct_size is not set, or it has fields that are not "
                            "known");
    } else {
        status = hr__pipeline_plan(p, &config, error);
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
        const bool waits = p->sink.kind == HR_PULL && hr__sched_next_piece(p);
        const hr_status status = hr_loop_poll(p->loop, waits ? 0 : -1, error);
        if (status < 0)
            return status;
        if (waits)
            return hr__fail(error, HR_EINVAL, nowhere,
                            "run: a chunk waits to be fetched by hr_pipeline_next: the sink is of "
                            "kind HR_PULL");
    }
    return hr_pipeline_state(p, error);
}

bool hr__pipeline_is_cancelled(const hr_pipeline *p)
{
    return atomic_load_explicit(&p->cancelled, memory_order_relaxed);
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
    hr__inbox_drain(&p->loop->inbox); /* chunks that were released since */
    hr__loop_remove(p->loop, p);
    destroy(p);
}
