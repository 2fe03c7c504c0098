// SPDX-License-Identifier: Apache-2.0
/* A timeline in the Trace Event Format (JSON object form): opens in Perfetto, chrome://tracing.
 *
 * Memory is bounded: nothing is allocated after creation; what was recorded goes to the file 64 KiB
 * at a time, by a write(2) that may block the loop's thread for that long. Loop's thread only.
 * Every function but hr__trace_target takes NULL, a trace that nobody asked for: it does nothing,
 * and succeeds. */
#ifndef HR_TRACE_H
#define HR_TRACE_H

#include "headrace.h"

struct hr__target;
struct hr__trace;

enum {
    HR__TRACE_LANES = 256, /* of each stage; 72 reads at once were seen */
    /* Tracks below are the stages' lanes; those from here on are the caller's to number. */
    HR__TRACE_TRACKS = HR_STAGE_COUNT * HR__TRACE_LANES
};

/* Begins the file beside its target, as ".NAME.partial-XXXXXX". Zero of the timeline is now.
 * Fails: HR_EINVAL (there is something at path that is no regular file: renaming would replace a
 * device or a FIFO), HR_EIO, HR_ENOMEM. */
hr_status hr__trace_create(const char *path, struct hr__trace **out, hr_error *error) HR_MUST_CHECK;

/* The file that it will become. */
const struct hr__target *hr__trace_target(const struct hr__trace *trace);

/* Names a track of the caller's; viewers sort tracks by number. name is UTF-8. */
void hr__trace_track(struct hr__trace *trace, uint32_t track, const char *name);

/* The track, "read 0", "read 1", ..., on which this span of a stage overlaps no other one: viewers
 * drop spans that do. Told in order of their ends, spans use no more lanes than ever ran at once;
 * in any other order they do not overlap either. Only what does not fit into HR__TRACE_LANES lanes
 * shares the last one. */
uint32_t hr__trace_lane(struct hr__trace *trace, enum hr_stage stage, uint64_t start_ns,
                        uint64_t end_ns);

/* Records what took place on a track between two times of hr__now_ns(). name is UTF-8. */
void hr__trace_span(struct hr__trace *trace, uint32_t track, const char *name, uint64_t start_ns,
                    uint64_t end_ns, uint64_t chunk, uint64_t bytes);

/* Ends the file and gives it its name. The trace is freed, and on failure no file is left.
 * Fails: HR_EIO, for any write so far: writing ends with the first one that fails. */
hr_status hr__trace_finish(struct hr__trace *trace, hr_error *error) HR_MUST_CHECK;

/* Frees the trace and leaves no file. */
void hr__trace_abandon(struct hr__trace *trace);

#endif
