// SPDX-License-Identifier: Apache-2.0
/* What the statistics say about a transfer, in words and as a table. */
#include <string.h>

#include "cli.h"

bool make_report(const hr_pipeline *pipeline, const hr_loop *loop, const struct options *options,
                 struct report *report)
{
    *report = (struct report){.stats.struct_size = sizeof report->stats};
    report->io = hr_loop_io(loop, &report->why);
    report->null_sink = options->config.sink.kind == HR_NULL;
    report->max_memory = options->context.max_memory ? options->context.max_memory : 1u << 30;
    return hr_pipeline_stats(pipeline, &report->stats) == HR_OK;
}

static bool did_something(const struct hr_stage_stats *stage)
{
    return stage->chunks || stage->bytes_in || stage->bytes_out || stage->service_ns;
}

/* service_ns of the wall time of everything that could have worked. */
static double part_of_wall(const struct hr_stats *s, uint64_t service_ns, uint32_t capacity)
{
    const double room = seconds(s->wall_ns) * (capacity ? capacity : 1);
    return room > 0 ? seconds(service_ns) / room : 0;
}

double stage_utilisation(const struct hr_stats *s, enum hr_stage stage)
{
    uint64_t service_ns = 0;
    for (unsigned i = HR_STAGE_READ; i < HR_STAGE_COUNT; i++)
        if (s->stages[i].resource == s->stages[stage].resource)
            service_ns += s->stages[i].service_ns;
    return part_of_wall(s, service_ns, s->stages[stage].capacity);
}

const char *resource_word(const struct report *r, enum hr_stage stage)
{
    const bool many = r->stats.stages[stage].capacity > 1;
    const bool on_host = strcmp(r->stats.device, "host") == 0;
    const bool checks = stage == HR_STAGE_WRITE && r->null_sink; /* a CRC-32: workers' work */
    if (stage == HR_STAGE_H2D || stage == HR_STAGE_D2H)
        return on_host ? "memory copy" : "copy engine";
    if (stage == HR_STAGE_KERNEL && !on_host)
        return many ? "streams" : "stream";
    if ((stage == HR_STAGE_READ || stage == HR_STAGE_WRITE) && !checks)
        return "I/O";
    return many ? "CPU workers" : "CPU worker";
}

/* How many stages that did something share the stage's resource. */
static unsigned n_sharing(const struct hr_stats *s, enum hr_stage stage)
{
    unsigned n = 0;
    for (unsigned i = HR_STAGE_READ; i < HR_STAGE_COUNT; i++)
        n += s->stages[i].service_ns && s->stages[i].resource == s->stages[stage].resource;
    return n;
}

void print_bottleneck(const struct report *r, FILE *out)
{
    const enum hr_stage stage = (enum hr_stage)r->stats.bottleneck;
    const struct hr_stage_stats *one = &r->stats.stages[stage];
    const uint32_t capacity = one->capacity;
    fprintf(out, "%s (", hr_stage_name(stage));
    if (capacity > 1)
        fprintf(out, "%u ", capacity);
    fprintf(out, "%s%s %.0f %% busy", resource_word(r, stage), capacity > 1 ? " together" : ",",
            100 * stage_utilisation(&r->stats, stage));
    if (n_sharing(&r->stats, stage) > 1)
        fprintf(out, ", of it %s %.0f %%", hr_stage_name(stage),
                100 * part_of_wall(&r->stats, one->service_ns, capacity));
    fputc(')', out);
}

static bool has_bottleneck(const struct hr_stats *s)
{
    return s->bottleneck > HR_STAGE_NONE && s->bottleneck < HR_STAGE_COUNT;
}

static void print_stage(const struct hr_stats *s, enum hr_stage i, FILE *out)
{
    const struct hr_stage_stats *stage = &s->stages[i];
    char in[HUMAN_SIZE];
    char gone[HUMAN_SIZE];
    fprintf(out, "%-6s %9llu %9s %9s %10.3f %4.0f %% %10.3f %10.3f\n", hr_stage_name(i),
            (unsigned long long)stage->chunks, human_bytes((double)stage->bytes_in, in),
            human_bytes((double)stage->bytes_out, gone), seconds(stage->service_ns),
            100 * part_of_wall(s, stage->service_ns, stage->capacity), seconds(stage->starved_ns),
            seconds(stage->blocked_ns));
}

static void print_bytes(const char *what, uint64_t bytes, FILE *out)
{
    char text[HUMAN_SIZE];
    if (bytes)
        fprintf(out, "%s %s\n", what, human_bytes((double)bytes, text));
}

/* The rate of what was read, and of what was written if that is another number of bytes. */
static void print_wall(const struct hr_stats *s, FILE *out)
{
    const uint64_t in = s->stages[HR_STAGE_READ].bytes_in;
    const uint64_t gone = s->stages[HR_STAGE_WRITE].bytes_out;
    const double wall = seconds(s->wall_ns);
    char rate[HUMAN_SIZE];
    fprintf(out, "wall %.3f s", wall);
    if (wall > 0)
        fprintf(out, ", %s/s", human_bytes((double)in / wall, rate));
    if (wall > 0 && gone != in)
        fprintf(out, " in, %s/s out", human_bytes((double)gone / wall, rate));
    fputc('\n', out);
}

static const char *why_nobody_was_busy(const struct hr_stats *s)
{
    if (s->bottleneck == HR_STAGE_READ && s->stages[HR_STAGE_READ].starved_ns > s->wall_ns / 2)
        return "\nmost of the time the source sent nothing";
    return "\nno stage was busy half of the time: waiting for CPUs that others use, for each "
           "other, "
           "or for one worker that has all there is";
}

static void print_overlap(const struct report *r, FILE *out)
{
    const struct hr_stats *s = &r->stats;
    fputs("bottleneck: ", out);
    print_bottleneck(r, out);
    if (stage_utilisation(s, (enum hr_stage)s->bottleneck) < 0.5)
        fputs(why_nobody_was_busy(s), out);
    fprintf(out, "\noverlap efficiency %.2f, where at 1.00 the slowest never waited; ", s->overlap);
    if (s->gain >= 1)
        fprintf(out, "gain %.2f over one after the other\n", s->gain);
    else
        fputs("gain below 1: the machine was busy with other work\n", out);
}

static void print_device(const struct hr_stats *s, FILE *out)
{
    char text[HUMAN_SIZE];
    fprintf(out, "device: %s", s->device);
    if (s->n_streams)
        fprintf(out, ", %u stream%s", s->n_streams, s->n_streams == 1 ? "" : "s");
    if (s->device_bytes)
        fprintf(out, ", %s of its memory", human_bytes((double)s->device_bytes, text));
    if (s->unpinned_bytes)
        fprintf(out, "; %s of the slots not pinned: slow",
                human_bytes((double)s->unpinned_bytes, text));
    fputc('\n', out);
}

void print_report_text(const struct report *r, FILE *out)
{
    const struct hr_stats *s = &r->stats;
    char text[HUMAN_SIZE];
    fprintf(out, "%-6s %9s %9s %9s %10s %6s %10s %10s\n", "stage", "chunks", "in", "out",
            "service s", "busy", "starved s", "blocked s");
    for (unsigned i = HR_STAGE_READ; i < HR_STAGE_COUNT; i++)
        if (did_something(&s->stages[i]))
            print_stage(s, (enum hr_stage)i, out);
    print_wall(s, out);
    if (has_bottleneck(s))
        print_overlap(r, out);
    fprintf(out, "%u slots of %s", s->depth, human_bytes((double)s->chunk_size, text));
    fprintf(out, ", %s leased", human_bytes((double)s->leased_bytes, text));
    fprintf(out, " of at most %s\n", human_bytes((double)r->max_memory, text));
    if (s->device[0])
        print_device(s, out);
    fprintf(out, "io: %s%s%s\n", r->io, *r->why ? ", because " : "", r->why);
    if (s->n_frames_in)
        fprintf(out, "zstd frames decoded: %llu\n", (unsigned long long)s->n_frames_in);
    print_bytes("dropped on the way to the range:", s->dropped_bytes, out);
    print_bytes("past the page cache:", s->direct_bytes, out);
    if (r->null_sink)
        fprintf(out, "crc32 %08x\n", s->crc32);
}

void print_report_line(const struct report *r, FILE *out)
{
    char bytes[HUMAN_SIZE];
    fprintf(out, "headrace: %s, ",
            human_bytes((double)r->stats.stages[HR_STAGE_READ].bytes_in, bytes));
    if (has_bottleneck(&r->stats)) {
        fputs("bottleneck: ", out);
        print_bottleneck(r, out);
        fputs(", ", out);
    }
    print_wall(&r->stats, out);
}
