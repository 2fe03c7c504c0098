// SPDX-License-Identifier: Apache-2.0
/* One leg of a chunk's way over the device: what is enqueued on a stream between its begin and its
 * end, and when it is done and how long it took. */
#ifndef HR_DEVICE_LEGS_H
#define HR_DEVICE_LEGS_H

#include "pipeline.h"

/* The queue on which the chunk's leg runs. */
struct hr__device_queue *hr__leg_queue(const struct hr__slot *chunk, enum hr__leg leg);

/* Whether the device still has something to do for the chunk, as far as that was looked at. */
bool hr__leg_any_pending(const struct hr__slot *chunk);

/* The leg begins behind the event, if there is one. Returns its stream; what fails before the end is
 * the caller's to put in *error, which is empty or has a failure then. */
struct hr__stream *hr__leg_begin(struct hr__slot *chunk, enum hr__leg leg, struct hr__event *after,
                                 hr_error *error);
void hr__leg_end(struct hr__slot *chunk, enum hr__leg leg, const hr_error *error);

/* The oldest chunk of the queue, if its leg is done or failed: taken out, its service counted.
 * NULL: none is; then the loop will be woken when one may be. */
struct hr__slot *hr__leg_landed(hr_pipeline *pipeline, struct hr__device_queue *queue);

#endif
