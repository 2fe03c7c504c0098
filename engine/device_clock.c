// SPDX-License-Identifier: Apache-2.0
#include "device_clock.h"

#include "clock.h"

static const uint64_t long_ago = 4000000000u; /* a float tells half a microsecond there */

/* Every event begins with its device. */
static const struct hr__device_ops *ops_of(const struct hr__event *event)
{
    return ((const struct hr__device *)(const void *)event)->ops;
}

/* The first is recorded on a stream where nothing runs: its moment is now. */
unsigned hr__device_clock_epoch(struct hr__device_clock *clock, struct hr__stream *stream)
{
    const uint64_t now = hr__now_ns();
    if (clock->set_ns && (now - clock->set_ns < long_ago || !clock->epoch_ns[clock->epoch]))
        return clock->epoch;
    clock->epoch ^= 1;
    struct hr__event *event = clock->epochs[clock->epoch];
    ops_of(event)->record(stream, event, NULL);
    clock->epoch_ns[clock->epoch] = clock->set_ns ? 0 : now;
    clock->set_ns = now;
    return clock->epoch;
}

/* On another stream than the event's the epoch may still be ahead; then the one before serves. */
uint64_t hr__device_clock_time(struct hr__device_clock *clock, unsigned epoch,
                               const struct hr__event *event)
{
    const struct hr__device_ops *ops = ops_of(event);
    const unsigned before = epoch ^ 1;
    if (!clock->epoch_ns[epoch]) {
        const uint64_t ns = ops->elapsed_ns(clock->epochs[before], clock->epochs[epoch]);
        if (ns == 0)
            return clock->epoch_ns[before] + ops->elapsed_ns(clock->epochs[before], event);
        clock->epoch_ns[epoch] = clock->epoch_ns[before] + ns;
    }
    return clock->epoch_ns[epoch] + ops->elapsed_ns(clock->epochs[epoch], event);
}
