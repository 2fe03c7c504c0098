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

/* The two stages, each in its file. Both return whether they started anything. */
bool hr__read_stage_start(hr_pipeline *pipeline);
bool hr__write_stage_start(hr_pipeline *pipeline);

/* Ends the stream with an error at its position: the lowest position wins. */
void hr__sched_fail(hr_pipeline *pipeline, const hr_error *error);
/* A free slot, with memory of its own if asked for; NULL: none is free, or the context has no more
 * memory (the slots that have some go on: one was leased at creation). */
struct hr__slot *hr__sched_take(hr_pipeline *pipeline, bool with_memory);
/* Gives a slot back to nobody. */
void hr__sched_release(struct hr__slot *slot);

/* Give the slot's request or job away, as an operation of the stage, and take it back: the first
 * thing that done() does. What is given is in flight, keeps the pipeline from ending, and marks it
 * for the next pump when it comes back. */
void hr__sched_submit(struct hr__slot *slot, enum hr_stage stage, struct hr__io_request request);
void hr__sched_submitted(struct hr__slot *slot, enum hr_stage stage);
void hr__sched_run(struct hr__slot *slot, void (*work)(struct hr__job *),
                   void (*done)(struct hr__job *));
void hr__sched_ran(struct hr__slot *slot, enum hr_stage stage);

/* Asks when a pipe has something to read. */
void hr__sched_poll(struct hr__input *input);

/* The errno in the result of a callback: EIO if it is none. */
int hr__sched_native(int64_t result);

#endif
