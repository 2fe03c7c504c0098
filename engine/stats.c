// SPDX-License-Identifier: Apache-2.0
/* What a pipeline tells of itself: statistics, while it runs too, and the results of reductions. */
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "loop.h"
#include "pipeline.h"
#include "status.h"

static uint32_t stream_crc(const hr_pipeline *p)
{
    if (!p->crc_states)
        return 0;
    struct hr__reduce_result result;
    uint32_t crc;
    hr__reduce_finish(&p->crc_spec, hr__pipeline_crc(p), &result);
    memcpy(&crc, result.data, sizeof crc);
    return crc;
}

static uint64_t total_bytes(const hr_pipeline *p)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < p->n_inputs; i++) {
        const struct hr__input *in = &p->inputs[i];
        if (in->total == UINT64_MAX)
            return 0;
        total += in->total;
    }
    return total;
}

hr_status hr_pipeline_stats(const hr_pipeline *p, struct hr_stats *stats)
{
    uint32_t size = stats ? stats->struct_size : 0;
    if (size < sizeof size)
        return HR_EINVAL;
    const uint64_t now = p->finished ? p->end_ns : hr__now_ns();
    const uint64_t seen = p->finished ? now : hr__loop_seen_ns(p->loop, now);
    struct hr__meter_notes notes[HR_STAGE_COUNT];
    const uint64_t leased = hr__pipeline_leased(p);
    struct hr_stats all = {
        .depth = p->depth,
        .wall_ns = p->start_ns ? now - p->start_ns : 0,
        .chunk_size = p->chunk_size,
        .leased_bytes = leased > p->leased_bytes ? leased : p->leased_bytes,
        .crc32 = stream_crc(p),
        .n_streams = p->chain && p->chain->n_links ? p->chain->n_streams : 0,
        .n_frames_in = p->n_frames_in,
        .dropped_bytes = p->dropped_bytes,
        .direct_bytes = p->direct_bytes,
        .total_bytes_in = total_bytes(p),
        .unpinned_bytes = p->unpinned_bytes,
    };
    for (unsigned i = 0; i < HR_STAGE_COUNT; i++)
        hr__meter_read(&p->meters[i], seen, &all.stages[i], &notes[i]);
    const struct hr__summary summary = hr__meters_summary(all.stages, notes, all.wall_ns);
    all.overlap = summary.overlap;
    all.gain = summary.gain;
    all.bottleneck = summary.bottleneck;
    if (p->store)
        snprintf(all.device, sizeof all.device, "%.31s",
                 p->store->device->ops->info(p->store->device)->name);
    if (p->chain)
        all.device_bytes = p->chain->buffers_stride * p->chain->depth;
    if (size > sizeof all)
        size = sizeof all;
    all.struct_size = size;
    memcpy(stats, &all, size);
    return HR_OK;
}

/* ---- results ---- */

static enum hr_type public_type(enum hr__type type)
{
    static const enum hr_type types[] = {
        [HR__TYPE_U8] = HR_TYPE_U8,   [HR__TYPE_I8] = HR_TYPE_I8,     [HR__TYPE_U16] = HR_TYPE_U16,
        [HR__TYPE_I16] = HR_TYPE_I16, [HR__TYPE_I32] = HR_TYPE_I32,   [HR__TYPE_I64] = HR_TYPE_I64,
        [HR__TYPE_F16] = HR_TYPE_F16, [HR__TYPE_BF16] = HR_TYPE_BF16, [HR__TYPE_F32] = HR_TYPE_F32,
        [HR__TYPE_F64] = HR_TYPE_F64, [HR__TYPE_U32] = HR_TYPE_U32,   [HR__TYPE_U64] = HR_TYPE_U64,
    };
    return types[type];
}

hr_status hr_pipeline_result(hr_pipeline *p, uint32_t kernel, struct hr_result *result,
                             hr_error *error)
{
    uint32_t size = result ? result->struct_size : 0;
    if (size < sizeof size)
        return hr__fail(error, HR_EINVAL, (struct hr__where){0}, "result: %s",
                        result ? "struct_size is not set" : "result is NULL");
    if (!p->chain || kernel >= p->chain->n_links || !p->chain->links[kernel].info.is_reduction)
        return hr__fail(error, HR_EINVAL, (struct hr__where){0},
                        "result: kernel %u is none, or no reduction", kernel);
    const hr_status status = hr_pipeline_state(p, error);
    if (status != HR_OK)
        return status;
    struct hr__reduce_result found;
    hr__chain_result(p->chain, kernel, &found);
    const struct hr_result all = {
        .struct_size = size < sizeof all ? size : (uint32_t)sizeof all,
        .type = public_type(found.type),
        .n_values = found.n_values,
        .n_units = found.n_units,
        .data = found.data,
    };
    memcpy(result, &all, all.struct_size);
    return HR_OK;
}
