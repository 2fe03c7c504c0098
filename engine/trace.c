// SPDX-License-Identifier: Apache-2.0
/* The timeline's file: one event on a line, written through a buffer of fixed size.
 *
 * Format: "Trace Event Format", Google, 2016: sections "JSON Object Format", "Complete Events" (ph
 * X) and "Metadata Events" (ph M). */
#include "trace.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "file_io.h"
#include "status.h"

enum { BUFFER = 64 << 10, LINE = 256 };

struct lanes {
    uint32_t n_used;
    uint64_t end_ns[HR__TRACE_LANES]; /* of the last span of each */
};

struct hr__trace {
    struct hr__target target;
    uint64_t origin_ns;
    int native; /* errno of the first write that failed: nothing is written after it */
    size_t used;
    struct lanes stages[HR_STAGE_COUNT];
    char buffer[BUFFER];
};

/* ---- The buffer ---------------------------------------------------------------------------- */

static void flush(struct hr__trace *trace)
{
    size_t done = 0;
    while (done < trace->used && !trace->native) {
        const ssize_t n = write(trace->target.file.fd, trace->buffer + done, trace->used - done);
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            trace->native = n == 0 ? EIO : errno;
    }
    trace->used = 0;
}

static void put(struct hr__trace *trace, const char *text, size_t size)
{
    while (size > 0) {
        const size_t room = BUFFER - trace->used;
        const size_t n = size < room ? size : room;
        memcpy(trace->buffer + trace->used, text, n);
        trace->used += n;
        text += n;
        size -= n;
        if (trace->used == BUFFER)
            flush(trace);
    }
}

/* For numbers and words of known length: LINE holds any of them. */
__attribute__((format(printf, 2, 3))) static void print(struct hr__trace *trace, const char *format,
                                                        ...)
{
    char line[LINE];
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    assert(n >= 0 && n < LINE);
    put(trace, line, (size_t)n);
}

/* A JSON string (RFC 8259, section 7). */
static void put_string(struct hr__trace *trace, const char *text)
{
    put(trace, "\"", 1);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            put(trace, "\\", 1);
        if ((unsigned char)*text < 0x20)
            print(trace, "\\u%04x", (unsigned)*text);
        else
            put(trace, text, 1);
    }
    put(trace, "\"", 1);
}

/* ---- The file ------------------------------------------------------------------------------ */

hr_status hr__trace_create(const char *path, struct hr__trace **out, hr_error *error)
{
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) /* a rename would replace a device */
        return hr__fail(error, HR_EINVAL, (struct hr__where){0},
                        "the trace goes to a regular file, and %s is none", path);
    struct hr__target target;
    const hr_status status = hr__target_open(path, false, HR_DIRECT_OFF, &target, error);
    if (status < 0)
        return status;
    struct hr__trace *trace = calloc(1, sizeof *trace);
    if (!trace) {
        hr__target_abandon(&target, 0);
        return hr__fail(error, HR_ENOMEM, (struct hr__where){0}, "no memory for the trace %s",
                        path);
    }
    trace->target = target;
    trace->origin_ns = hr__now_ns();
    /* The first event: each that follows brings the comma before it. */
    print(trace, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"
                 "{\"ph\":\"M\",\"pid\":1,\"tid\":0,\"name\":\"process_name\","
                 "\"args\":{\"name\":\"headrace\"}}");
    *out = trace;
    return HR_OK;
}

const struct hr__target *hr__trace_target(const struct hr__trace *trace)
{
    return &trace->target;
}

hr_status hr__trace_finish(struct hr__trace *trace, hr_error *error)
{
    if (!trace)
        return HR_OK;
    print(trace, "\n]}\n");
    flush(trace);
    hr_status status;
    if (trace->native) {
        status = hr__fail(error, HR_EIO, (struct hr__where){.native = trace->native},
                          "write the trace %s: %s", trace->target.target, strerror(trace->native));
        hr__target_abandon(&trace->target, 0);
    } else {
        status = hr__target_commit(&trace->target, 0, error);
    }
    free(trace);
    return status;
}

void hr__trace_abandon(struct hr__trace *trace)
{
    if (!trace)
        return;
    hr__target_abandon(&trace->target, 0);
    free(trace);
}

/* ---- Events -------------------------------------------------------------------------------- */

static void name_track(struct hr__trace *trace, uint32_t track, const char *name)
{
    print(trace,
          ",\n{\"ph\":\"M\",\"pid\":1,\"tid\":%" PRIu32 ",\"name\":\"thread_name\","
          "\"args\":{\"name\":",
          track);
    put_string(trace, name);
    print(trace,
          "}},\n{\"ph\":\"M\",\"pid\":1,\"tid\":%" PRIu32 ",\"name\":\"thread_sort_index\","
          "\"args\":{\"sort_index\":%" PRIu32 "}}",
          track, track);
}

void hr__trace_track(struct hr__trace *trace, uint32_t track, const char *name)
{
    assert(track >= HR__TRACE_TRACKS);
    if (trace)
        name_track(trace, track, name);
}

/* Of the lanes that are free at start_ns, the one that was busy last: for spans in order of their
 * ends this colours the interval graph with the fewest lanes. n_used if none is free. */
static uint32_t best_lane(const struct lanes *lanes, uint64_t start_ns)
{
    uint32_t best = lanes->n_used;
    for (uint32_t i = 0; i < lanes->n_used; i++) {
        if (lanes->end_ns[i] > start_ns)
            continue;
        if (best == lanes->n_used || lanes->end_ns[i] > lanes->end_ns[best])
            best = i;
    }
    return best;
}

uint32_t hr__trace_lane(struct hr__trace *trace, enum hr_stage stage, uint64_t start_ns,
                        uint64_t end_ns)
{
    if (!trace)
        return 0;
    struct lanes *lanes = &trace->stages[stage];
    uint32_t lane = best_lane(lanes, start_ns);
    if (lane == HR__TRACE_LANES)
        lane--;
    const uint32_t track = (uint32_t)stage * HR__TRACE_LANES + lane;
    if (lane == lanes->n_used) {
        char name[32];
        snprintf(name, sizeof name, "%s %" PRIu32, hr_stage_name(stage), lane);
        name_track(trace, track, name);
        lanes->n_used++;
    }
    if (lanes->end_ns[lane] < end_ns)
        lanes->end_ns[lane] = end_ns;
    return track;
}

void hr__trace_span(struct hr__trace *trace, uint32_t track, const char *name, uint64_t start_ns,
                    uint64_t end_ns, uint64_t chunk, uint64_t bytes)
{
    if (!trace)
        return;
    /* Time stamps of a device may be a little off, and viewers drop negative times. */
    const uint64_t start = start_ns > trace->origin_ns ? start_ns - trace->origin_ns : 0;
    const uint64_t end = end_ns > trace->origin_ns ? end_ns - trace->origin_ns : 0;
    const uint64_t duration = end > start ? end - start : 0;
    print(trace, ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":%" PRIu32 ",\"name\":", track);
    put_string(trace, name);
    print(trace,
          ",\"ts\":%" PRIu64 ".%03" PRIu64 ",\"dur\":%" PRIu64 ".%03" PRIu64
          ",\"args\":{\"chunk\":%" PRIu64 ",\"bytes\":%" PRIu64 "}}",
          start / 1000, start % 1000, duration / 1000, duration % 1000, chunk, bytes);
}
