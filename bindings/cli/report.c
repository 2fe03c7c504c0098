// SPDX-License-Identifier: Apache-2.0
/* The final table of stages, as text and as JSON, on stderr. */
#include <stdio.h>

#include "cli.h"

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

static void print_text(const struct hr_stats *s, const char *io, const char *why, bool crc)
{
    const double wall = seconds(s->wall_ns);
    fprintf(stderr, "%-6s %10s %16s %12s %10s\n", "stage", "chunks", "bytes", "service s",
            "of wall");
    for (int i = HR_STAGE_READ; i < HR_STAGE_COUNT; i++) {
        const struct hr_stage_stats *stage = &s->stages[i];
        fprintf(stderr, "%-6s %10llu %16llu %12.3f %9.0f%%\n", hr_stage_name((enum hr_stage)i),
                (unsigned long long)stage->chunks, (unsigned long long)stage->bytes_out,
                seconds(stage->service_ns), wall > 0 ? 100 * seconds(stage->service_ns) / wall : 0);
    }
    const double bytes = (double)s->stages[HR_STAGE_WRITE].bytes_out;
    fprintf(stderr, "wall %.3f s, %.2f GB/s; %u slots of %llu bytes; io: %s%s%s\n", wall,
            wall > 0 ? bytes / wall / 1e9 : 0, s->depth, (unsigned long long)s->chunk_size, io,
            *why ? ", because " : "", why);
    if (crc)
        fprintf(stderr, "crc32 %08x\n", s->crc32);
}

/* why is the library's own text: it holds no character that JSON must escape but quotes. */
static void print_json_text(const char *text)
{
    fputc('"', stderr);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', stderr);
        fputc((unsigned char)*text < ' ' ? ' ' : *text, stderr);
    }
    fputc('"', stderr);
}

static void print_json(const struct hr_stats *s, const char *io, const char *why, bool crc)
{
    fprintf(stderr, "{\"wall_ns\": %llu, \"chunk_bytes\": %llu, \"slots\": %u, \"io\": \"%s\", ",
            (unsigned long long)s->wall_ns, (unsigned long long)s->chunk_size, s->depth, io);
    fputs("\"io_why\": ", stderr);
    print_json_text(why);
    if (crc)
        fprintf(stderr, ", \"crc32\": %u", s->crc32);
    for (int i = HR_STAGE_READ; i < HR_STAGE_COUNT; i++) {
        const struct hr_stage_stats *stage = &s->stages[i];
        fprintf(stderr, ", \"%s\": {\"chunks\": %llu, \"bytes\": %llu, \"service_ns\": %llu}",
                hr_stage_name((enum hr_stage)i), (unsigned long long)stage->chunks,
                (unsigned long long)stage->bytes_out, (unsigned long long)stage->service_ns);
    }
    fputs("}\n", stderr);
}

void print_stats(const hr_pipeline *pipeline, const hr_loop *loop, const struct options *options)
{
    struct hr_stats stats = {.struct_size = sizeof stats};
    if (options->stats == STATS_NONE || hr_pipeline_stats(pipeline, &stats) != HR_OK)
        return;
    const char *why;
    const char *io = hr_loop_io(loop, &why);
    struct hr_sink sink;
    const char *ignored;
    const bool crc =
        parse_sink(options->ends[options->n_ends - 1], &sink, &ignored) && sink.kind == HR_NULL;
    if (options->stats == STATS_TEXT)
        print_text(&stats, io, why, crc);
    else
        print_json(&stats, io, why, crc);
}
