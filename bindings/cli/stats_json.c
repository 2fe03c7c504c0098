// SPDX-License-Identifier: Apache-2.0
/* The statistics as one line of JSON: exact numbers, with the unit in the key. */
#include "cli.h"

static void number(FILE *out, const char *key, uint64_t value)
{
    fprintf(out, "\"%s\": %llu, ", key, (unsigned long long)value);
}

static void text(FILE *out, const char *key, const char *value)
{
    fprintf(out, "\"%s\": ", key);
    json_text(out, value);
    fputs(", ", out);
}

/* Every stage is there, whether it did something or not, so that a reader need not ask. */
static void print_stage(const struct report *r, enum hr_stage i, FILE *out)
{
    const struct hr_stage_stats *stage = &r->stats.stages[i];
    fprintf(out, "\"%s\": {", hr_stage_name(i));
    number(out, "chunks", stage->chunks);
    number(out, "bytes_in", stage->bytes_in);
    number(out, "bytes_out", stage->bytes_out);
    number(out, "service_ns", stage->service_ns);
    number(out, "starved_ns", stage->starved_ns);
    number(out, "blocked_ns", stage->blocked_ns);
    number(out, "capacity", stage->capacity);
    number(out, "resource", stage->resource);
    fprintf(out, "\"resource_utilisation\": %.6g}%s", stage_utilisation(&r->stats, i),
            i + 1 < HR_STAGE_COUNT ? ", " : "}, ");
}

static void print_notes(FILE *out)
{
    fputs("\"notes\": [", out);
    for (unsigned i = 0; i < n_notes(); i++) {
        fputs(i ? ", " : "", out);
        json_text(out, note(i));
    }
    fputs("]", out);
}

static void print_error(const hr_error *error, FILE *out)
{
    fputs("\"error\": ", out);
    if (!error) {
        fputs("null, ", out);
        return;
    }
    fputc('{', out);
    text(out, "code", hr_status_name((hr_status)error->code));
    text(out, "stage", hr_stage_name((enum hr_stage)error->stage));
    number(out, "chunk", error->chunk);
    number(out, "offset", error->offset);
    fprintf(out, "\"native\": %d, \"text\": ", error->native);
    json_text(out, error->text);
    fputs("}, ", out);
}

static void print_report(const struct report *r, FILE *out)
{
    const struct hr_stats *s = &r->stats;
    number(out, "wall_ns", s->wall_ns);
    number(out, "chunk_bytes", s->chunk_size);
    number(out, "slots", s->depth);
    number(out, "leased_bytes", s->leased_bytes);
    number(out, "max_memory_bytes", r->max_memory);
    number(out, "total_bytes_in", s->total_bytes_in);
    number(out, "dropped_bytes", s->dropped_bytes);
    number(out, "direct_bytes", s->direct_bytes);
    number(out, "frames_in", s->n_frames_in);
    number(out, "streams", s->n_streams);
    number(out, "device_bytes", s->device_bytes);
    number(out, "unpinned_bytes", s->unpinned_bytes);
    text(out, "device", s->device);
    text(out, "io", r->io);
    text(out, "io_why", r->why);
    if (s->bottleneck > HR_STAGE_NONE && s->bottleneck < HR_STAGE_COUNT) {
        const enum hr_stage stage = (enum hr_stage)s->bottleneck;
        text(out, "bottleneck", hr_stage_name(stage));
        text(out, "bottleneck_resource", resource_word(r, stage));
    }
    fprintf(out, "\"overlap\": %.6g, \"gain\": %.6g, ", s->overlap, s->gain);
    if (r->null_sink) {
        number(out, "crc32", s->crc32);
        fprintf(out, "\"crc32_hex\": \"%08x\", ", s->crc32);
    }
    fputs("\"stages\": {", out);
    for (unsigned i = HR_STAGE_READ; i < HR_STAGE_COUNT; i++)
        print_stage(r, (enum hr_stage)i, out);
}

void print_report_json(const struct report *r, const hr_error *error, hr_pipeline *pipeline,
                       const struct options *options, FILE *out)
{
    fputc('{', out);
    if (r)
        print_report(r, out);
    print_error(error, out);
    if (!error) {
        fputs("\"results\": ", out);
        print_results(out, ", ", pipeline, options);
        fputs(", ", out);
    }
    print_notes(out);
    fputs("}\n", out);
}
