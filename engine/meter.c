// SPDX-License-Identifier: Apache-2.0
/* Each moment of a stage is busy, starved or blocked. settle() books the time since the last call
 * to the one that has applied since then; whatever changes which one applies calls it first. */
#include "meter.h"

#include <assert.h>

static void settle(struct hr__meter *meter, uint64_t now_ns)
{
    if (!meter->started) {
        meter->started = true;
        meter->since_ns = now_ns;
    }
    if (now_ns <= meter->since_ns)
        return;
    const uint64_t elapsed_ns = now_ns - meter->since_ns;
    meter->since_ns = now_ns;
    if (meter->n_running > 0)
        meter->busy_ns += elapsed_ns;
    else if (meter->idle == HR__IDLE_BLOCKED)
        meter->blocked_ns += elapsed_ns;
    else
        meter->starved_ns += elapsed_ns;
    if (meter->n_running == 0 && meter->idle == HR__IDLE_SILENT)
        meter->notes.silent_ns += elapsed_ns;
}

void hr__meter_begin(struct hr__meter *meter, uint64_t now_ns)
{
    settle(meter, now_ns);
    meter->n_running++;
    if (meter->n_running > meter->notes.most_at_once)
        meter->notes.most_at_once = meter->n_running;
}

void hr__meter_end(struct hr__meter *meter, uint64_t now_ns)
{
    assert(meter->n_running > 0);
    settle(meter, now_ns);
    meter->n_running--;
}

void hr__meter_idle(struct hr__meter *meter, uint64_t now_ns, enum hr__idle idle)
{
    settle(meter, now_ns);
    meter->idle = idle;
}

void hr__meter_serve(struct hr__meter *meter, uint64_t service_ns)
{
    assert(!meter->is_io);
    meter->served_ns += service_ns;
}

void hr__meter_bytes(struct hr__meter *meter, uint64_t bytes_in, uint64_t bytes_out)
{
    meter->bytes_in += bytes_in;
    meter->bytes_out += bytes_out;
}

void hr__meter_chunk(struct hr__meter *meter)
{
    meter->chunks++;
}

void hr__meter_settle(struct hr__meter *m, uint64_t chunks, uint64_t bytes)
{
    m->chunks = m->chunks < chunks ? m->chunks : chunks;
    m->bytes_in = m->bytes_out = bytes;
}

void hr__meter_read(const struct hr__meter *meter, uint64_t now_ns, struct hr_stage_stats *out,
                    struct hr__meter_notes *notes)
{
    struct hr__meter settled = *meter;
    settle(&settled, now_ns);
    *out = (struct hr_stage_stats){
        .chunks = settled.chunks,
        .bytes_in = settled.bytes_in,
        .bytes_out = settled.bytes_out,
        .service_ns = settled.is_io ? settled.busy_ns : settled.served_ns,
        .starved_ns = settled.starved_ns,
        .blocked_ns = settled.blocked_ns,
        .capacity = settled.capacity,
        .resource = settled.resource,
    };
    if (notes)
        *notes = settled.notes;
}

/* How long the resource of a stage was at work. Stages that a pipeline does not have are all zeros:
 * they add nothing, whatever resource 0 is. */
static double resource_ns(const struct hr_stage_stats *stages, uint32_t resource)
{
    double service_ns = 0;
    uint32_t capacity = 1;
    for (int i = HR_STAGE_NONE + 1; i < HR_STAGE_COUNT; i++) {
        if (stages[i].resource != resource)
            continue;
        service_ns += (double)stages[i].service_ns;
        if (stages[i].capacity > capacity)
            capacity = stages[i].capacity;
    }
    return service_ns / capacity;
}

static bool is_first_of_resource(const struct hr_stage_stats *stages, int stage)
{
    for (int i = HR_STAGE_NONE + 1; i < stage; i++)
        if (stages[i].resource == stages[stage].resource)
            return false;
    return true;
}

static bool is_busiest_of_resource(const struct hr_stage_stats *stages, int stage)
{
    for (int i = HR_STAGE_NONE + 1; i < HR_STAGE_COUNT; i++)
        if (stages[i].resource == stages[stage].resource &&
            (stages[i].service_ns > stages[stage].service_ns ||
             (stages[i].service_ns == stages[stage].service_ns && i < stage)))
            return false;
    return true;
}

/* For how long the pipeline could go no faster for this stage. */
static double held_up_ns(const struct hr_stage_stats *stages, const struct hr__meter_notes *notes,
                         int stage)
{
    const struct hr_stage_stats *s = &stages[stage];
    const uint32_t most = notes[stage].most_at_once;
    const uint32_t at_once = most && most < s->capacity ? most : s->capacity;
    const double alone_ns =
        (double)s->service_ns / (at_once ? at_once : 1) + (double)notes[stage].silent_ns;
    const double shared_ns =
        is_busiest_of_resource(stages, stage) ? resource_ns(stages, s->resource) : 0;
    return alone_ns > shared_ns ? alone_ns : shared_ns;
}

struct hr__summary hr__meters_summary(const struct hr_stage_stats stages[HR_STAGE_COUNT],
                                      const struct hr__meter_notes notes[HR_STAGE_COUNT],
                                      uint64_t wall_ns)
{
    struct hr__summary summary = {0, 0, HR_STAGE_NONE};
    double longest_ns = 0;
    for (int i = HR_STAGE_NONE + 1; i < HR_STAGE_COUNT && wall_ns > 0; i++) {
        const double held_ns = held_up_ns(stages, notes, i);
        if (held_ns > longest_ns) {
            longest_ns = held_ns;
            summary.bottleneck = (uint32_t)i;
        }
        if (!is_first_of_resource(stages, i))
            continue;
        const double use = resource_ns(stages, stages[i].resource) / (double)wall_ns;
        summary.gain += use;
        if (use > summary.overlap)
            summary.overlap = use;
    }
    return summary;
}
