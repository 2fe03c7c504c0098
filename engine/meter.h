// SPDX-License-Identifier: Apache-2.0
/* What a stage did over time, for hr_stage_stats. Times are nanoseconds of one monotonic clock that
 * the caller hands in; a time before the last one counts as the last one. Loop's thread only. */
#ifndef HR_METER_H
#define HR_METER_H

#include <stdbool.h>

#include "headrace.h"

/* Why a stage does nothing. */
enum hr__idle {
    HR__IDLE_STARVED, /* nothing is there to work on, */
    HR__IDLE_SILENT,  /* and that is for a peer to send */
    HR__IDLE_BLOCKED  /* what it made cannot go on */
};

/* What is told beside hr_stage_stats, to name the bottleneck by. */
struct hr__meter_notes {
    uint32_t most_at_once; /* operations that were under way */
    uint64_t silent_ns;
};

/* Made with the first three fields set and zero in all others. The time of the first call is where
 * its count begins. */
struct hr__meter {
    /* constant */
    uint32_t capacity; /* as in hr_stage_stats */
    uint32_t resource;
    bool is_io;   /* service is the time with any operation under way; else what serve() adds up */
    bool is_call; /* that is the time of a user's code, one call at a time */

    /* owner: meter.c */
    bool started;
    enum hr__idle idle;
    uint32_t n_running; /* operations under way */
    struct hr__meter_notes notes;
    uint64_t since_ns; /* time is accounted for up to here */
    uint64_t busy_ns;  /* n_running > 0 */
    uint64_t starved_ns;
    uint64_t blocked_ns;
    uint64_t served_ns;
    uint64_t chunks;
    uint64_t bytes_in;
    uint64_t bytes_out;
};

/* Around each operation; several may be under way. */
void hr__meter_begin(struct hr__meter *meter, uint64_t now_ns);
void hr__meter_end(struct hr__meter *meter, uint64_t now_ns);

/* Tells how time counts, from now on, while no operation is under way: as starved until told. */
void hr__meter_idle(struct hr__meter *meter, uint64_t now_ns, enum hr__idle idle);

/* Adds to the service time of a stage that is not I/O: time of a worker, on a device, of the user. */
void hr__meter_serve(struct hr__meter *meter, uint64_t service_ns);
void hr__meter_bytes(struct hr__meter *meter, uint64_t bytes_in, uint64_t bytes_out);
/* Counts a chunk that is finished. */
void hr__meter_chunk(struct hr__meter *meter);
/* Of what was counted, only the first so many chunks and bytes are to count. */
void hr__meter_settle(struct hr__meter *meter, uint64_t chunks, uint64_t bytes);

/* What it counted up to now; it counts on. notes may be NULL. */
void hr__meter_read(const struct hr__meter *meter, uint64_t now_ns, struct hr_stage_stats *out,
                    struct hr__meter_notes *notes);

/* The three figures of hr_stats. A resource is all stages with one number; it is used by the sum of
 * their service / (capacity * wall).
 *   overlap     the use of the most used resource
 *   gain        sum over resources of service / capacity, divided by wall
 *   bottleneck  the stage that all waited for most; HR_STAGE_NONE: nothing ran. That is the one
 *               that takes most of the most used resource, but for two cases: a stage that can
 *               work on few operations at once, because there are no more (one long frame, say, and
 *               16 workers), waits for nothing when it uses as many; and a peer that sends nothing
 *               is waited for though no resource is used */
struct hr__summary {
    double overlap;
    double gain;
    uint32_t bottleneck;
};
struct hr__summary hr__meters_summary(const struct hr_stage_stats stages[HR_STAGE_COUNT],
                                      const struct hr__meter_notes notes[HR_STAGE_COUNT],
                                      uint64_t wall_ns);

#endif
