// SPDX-License-Identifier: Apache-2.0
#include "gpu_samples.h"

#include <stdio.h>

void print_number(const char *key, uint64_t value)
{
    printf("\"%s\": %llu, ", key, (unsigned long long)value);
}

static void print_stages(const struct hr_stats *stats)
{
    const char *comma = "";
    printf("\"stages\": {");
    for (unsigned i = HR_STAGE_READ; i < HR_STAGE_COUNT; i++) {
        const struct hr_stage_stats *s = &stats->stages[i];
        if (s->chunks == 0 && s->service_ns == 0)
            continue;
        printf("%s\"%s\": {", comma, hr_stage_name((enum hr_stage)i));
        print_number("chunks", s->chunks);
        print_number("service_ns", s->service_ns);
        print_number("starved_ns", s->starved_ns);
        print_number("blocked_ns", s->blocked_ns);
        print_number("resource", s->resource);
        printf("\"capacity\": %u}", s->capacity);
        comma = ", ";
    }
    printf("}");
}

static void print_stats(const struct hr_stats *s)
{
    print_number("reported_wall_ns", s->wall_ns);
    print_number("depth", s->depth);
    print_number("chunk_bytes", s->chunk_size);
    print_number("streams", s->n_streams);
    print_number("leased_bytes", s->leased_bytes);
    print_number("device_bytes", s->device_bytes);
    print_number("unpinned_bytes", s->unpinned_bytes);
    print_number("direct_bytes", s->direct_bytes);
    printf("\"overlap\": %.6g, \"gain\": %.6g, \"bottleneck\": \"%s\", ", s->overlap, s->gain,
           hr_stage_name((enum hr_stage)s->bottleneck));
    print_stages(s);
}

void print_samples(const struct sample *samples, unsigned n_samples, bool has_stats)
{
    printf("\"samples\": [");
    for (unsigned i = 0; i < n_samples; i++) {
        printf("%s{", i > 0 ? ",\n  " : "\n  ");
        print_number("wall_ns", samples[i].wall_ns);
        printf("\"cpu_ns\": %llu", (unsigned long long)samples[i].cpu_ns);
        if (has_stats) {
            printf(", ");
            print_stats(&samples[i].stats);
        }
        printf("}");
    }
    printf("]");
}
