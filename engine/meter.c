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
    else if (meter->idle == HR__IDLE_STARVED)
        meter->starved_ns += elapsed_ns;
    else
        meter->blocked_ns += elapsed_ns;
}

void hr__meter_begin(struct hr__meter *meter, uint64_t now_ns)
{
    settle(meter, now_ns);
    meter->n_running++;
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

void hr__meter_read(const struct hr__meter *meter, uint64_t now_ns, struct hr_stage_stats *out)
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

/* The stage that takes most of a resource which stage first is the first to use. */
static int busiest_of_resource(const struct hr_stage_stats *stages, int first)
{
    int busiest = first;
    for (int i = first + 1; i < HR_STAGE_COUNT; i++)
        if (stages[i].resource == stages[first].resource &&
            stages[i].service_ns > stages[busiest].service_ns)
            busiest = i;
    return busiest;
}

void hr__meters_summary(const struct hr_stage_stats stages[HR_STAGE_COUNT], uint64_t wall_ns,
                        double *overlap, double *gain, uint32_t *bottleneck)
{
    double serial_ns = 0;
    double most_ns = 0;
    int slowest = HR_STAGE_NONE;
    for (int i = HR_STAGE_NONE + 1; i < HR_STAGE_COUNT && wall_ns > 0; i++) {
        if (!is_first_of_resource(stages, i))
            continue;
        const double used_ns = resource_ns(stages, stages[i].resource);
        serial_ns += used_ns;
        if (used_ns > most_ns) {
            most_ns = used_ns;
            slowest = busiest_of_resource(stages, i);
        }
    }
    *overlap = wall_ns > 0 ? most_ns / (double)wall_ns : 0;
    *gain = wall_ns > 0 ? serial_ns / (double)wall_ns : 0;
    *bottleneck = (uint32_t)slowest;
}
