// SPDX-License-Identifier: Apache-2.0
/* Moments of a device's work, told by its own clock as nanoseconds of the host's. Drivers tell the
 * time between two events as milliseconds in a float, so moments are counted from an event that is
 * not long ago, and that one from the one before it. Owner: the pipeline's thread. */
#ifndef HR_DEVICE_CLOCK_H
#define HR_DEVICE_CLOCK_H

#include "backend.h"

struct hr__device_clock {
    struct hr__event *epochs[2]; /* the caller's, recorded here */
    uint64_t epoch_ns[2];        /* 0: not known yet, though the other is */
    unsigned epoch;              /* the younger */
    uint64_t set_ns;             /* when it was recorded, by the host's clock; 0: none was */
};

/* The epoch for what is enqueued from now on; a new one, recorded on the stream, if that is due. */
unsigned hr__device_clock_epoch(struct hr__device_clock *clock, struct hr__stream *stream);
/* When the event, which is done, was passed. The epoch is that of its leg. */
uint64_t hr__device_clock_time(struct hr__device_clock *clock, unsigned epoch,
                               const struct hr__event *event);

#endif
