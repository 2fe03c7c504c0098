// SPDX-License-Identifier: Apache-2.0
/* The one place that knows the order of the stages. */
#ifndef HR_SCHED_H
#define HR_SCHED_H

#include <stdbool.h>

#include "headrace.h"

struct hr__slot;

/* Starts all that can start; true while the pipeline is unfinished. */
bool hr__sched_pump(hr_pipeline *pipeline);

/* The two stages, each in its file. Both return whether they started anything. */
bool hr__read_stage_start(hr_pipeline *pipeline);
bool hr__write_stage_start(hr_pipeline *pipeline);

/* Ends the stream with an error at its position: the lowest position wins. */
void hr__sched_fail(hr_pipeline *pipeline, const hr_error *error);
/* Gives a slot back to nobody. */
void hr__sched_release(struct hr__slot *slot);

/* Bracket an operation of a stage, for its service time. */
void hr__stage_begin(hr_pipeline *pipeline, enum hr_stage stage);
void hr__stage_end(hr_pipeline *pipeline, enum hr_stage stage);

/* "source 2 (PATH)" or "sink (PATH)", for error texts. */
const char *hr__input_name(const struct hr__slot *slot, char *buffer, size_t size);

#endif
