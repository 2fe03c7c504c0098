// SPDX-License-Identifier: Apache-2.0
/* The one place that knows the order of the stages. */
#ifndef HR_SCHED_H
#define HR_SCHED_H

#include <stdbool.h>

#include "headrace.h"
#include "io.h"
#include "queue.h"

struct hr__input;
struct hr__slot;

/* Starts all that can start; true while the pipeline is unfinished. */
bool hr__sched_pump(hr_pipeline *pipeline);

/* The stages, each in its file. Each starts what can start and tells whether it changed anything.
 */
bool hr__read_stage(hr_pipeline *pipeline);
bool hr__decode_stage(hr_pipeline *pipeline);
bool hr__cut_stage(hr_pipeline *pipeline);
bool hr__kernel_stage(hr_pipeline *pipeline);
bool hr__encode_stage(hr_pipeline *pipeline);
bool hr__write_stage(hr_pipeline *pipeline);

/* Ends the stream with an error at a piece of the last lane: the lowest in the stream wins. */
void hr__sched_fail(hr_pipeline *pipeline, uint64_t number, const hr_error *error);

/* Give the slot's request or job away, as an operation of the stage, and take it back: the first
 * thing that done() does. What is given is in flight, keeps the pipeline from ending, and marks it
 * for the next pump when it comes back. */
void hr__sched_submit(struct hr__slot *slot, enum hr_stage stage, struct hr__io_request request);
void hr__sched_submitted(struct hr__slot *slot, enum hr_stage stage);
void hr__sched_run(struct hr__slot *slot, enum hr_stage stage, void (*work)(struct hr__job *),
                   void (*done)(struct hr__job *));
void hr__sched_ran(struct hr__slot *slot, enum hr_stage stage);
/* The same for a step of a chunk on the device. */
struct hr__served {
    uint64_t from_ns; /* for the timeline */
    uint64_t until_ns;
    uint64_t service_ns;
};
void hr__sched_launched(struct hr__slot *slot, enum hr_stage stage);
void hr__sched_landed(struct hr__slot *slot, enum hr_stage stage, const struct hr__served *served);

/* Counts a finished piece of a stage. */
void hr__sched_count(hr_pipeline *pipeline, enum hr_stage stage, uint64_t in, uint64_t out);

/* Asks when a pipe has something to read. */
void hr__sched_poll(struct hr__input *input);

/* Nothing more is wanted of the source: it ends where it has been read to. */
void hr__sched_stop_input(struct hr__input *input);

/* Nothing is under way but waits for a source. */
bool hr__sched_quiet(const hr_pipeline *pipeline);
/* And nothing is on its way behind the blocks: whoever waits for an answer waits for what is there.
 */
bool hr__sched_idle(const hr_pipeline *pipeline);

/* Decides whether a source that has offsets is encoded, and which part of it a range needs; size is
 * what it holds. */
hr_status hr__probe_input(struct hr__input *input, uint64_t size, hr_error *error) HR_MUST_CHECK;

/* The piece that is delivered next, if it is ready: the oldest, or, where order is not kept, any.
 */
struct hr__slot *hr__sched_next_piece(hr_pipeline *pipeline);

/* Fails a pipeline whose time limit is reached, and notes when the next one will be. */
void hr__sched_check_limits(hr_pipeline *pipeline);

/* The write stage: a piece that went to its place on the device is there, or its error is set. */
void hr__write_stored(struct hr__slot *piece);

/* No chunk follows those that were taken. */
bool hr__sched_chunks_ended(const hr_pipeline *pipeline);

/* Notes a frame that goes to the sink in the seek table; false: it cannot be noted. */
bool hr__encode_note(hr_pipeline *pipeline, const struct hr__slot *frame);

/* The errno in the result of a callback: EIO if it is none. */
int hr__sched_native(int64_t result);

/* "path", "descriptor 3" or "source 2". Returns buffer. */
const char *hr__sched_name(const struct hr__input *input, char *buffer, size_t size);

#endif
