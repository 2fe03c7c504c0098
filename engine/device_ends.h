// SPDX-License-Identifier: Apache-2.0
/* Sources and sinks that are memory, seen from a device: what it can read and write directly, and
 * where. */
#ifndef HR_DEVICE_ENDS_H
#define HR_DEVICE_ENDS_H

#include "pipeline.h"

/* Opens the device, if one is asked for; before sizes are chosen. Fails: HR_EINVAL for ends that do
 * not go with it, and as hr__device_open. */
hr_status hr__device_ends_open(hr_pipeline *p, const struct hr_pipeline_config *config,
                               hr_error *error) HR_MUST_CHECK;
/* Whether chunks go through memory of a device that is not the host's. */
bool hr__device_ends_copy(const hr_pipeline *p);
/* Decides, once the chain is there, how its bytes reach the sink. */
hr_status hr__device_ends_plan(hr_pipeline *p, hr_error *error) HR_MUST_CHECK;
void hr__device_ends_free(hr_pipeline *p);
/* A sink in memory may be a source only where each chunk is written to where it was read, or before
 * that. Fails: HR_EINVAL. */
hr_status hr__device_ends_refuse_overlap(const hr_pipeline *p, hr_error *error) HR_MUST_CHECK;

/* Whether what leaves the chain are the very bytes that came, where they came from. */
bool hr__sink_takes_input(const hr_pipeline *p, const struct hr__slot *chunk);
/* Whether they are copied from the device to the host. */
bool hr__sink_wants_copy(const hr_pipeline *p, const struct hr__slot *chunk);
/* Where the chunk's bytes go, if the device is to put them there; NULL: to memory of the chunk. */
char *hr__sink_place(const hr_pipeline *p, const struct hr__slot *chunk, size_t size);

/* Room for the stream's bytes up to end in the sink's memory, which may move: nothing is on its way
 * there. False: there is none; *error is filled. */
bool hr__gather_room(hr_pipeline *p, uint64_t end, hr_error *error);
/* The sink's memory and its size now. */
char *hr__sink_memory(const hr_pipeline *p, uint64_t *size);

#endif
