// SPDX-License-Identifier: Apache-2.0
/* What the two sides of a stream share: who enqueues (host_stream.c), and the workers that do what
 * was enqueued (host_workers.c).
 *
 *     idle ──enqueue──▶ ready ──a worker──▶ in its turn ──nothing left──▶ idle
 *                         ▲                      │
 *                         ├──────more to do──────┤
 *                         └──event done── parked ◀──an event to wait for
 *
 * Ready streams are in a list of the device, parked ones in a list of the event. A stream that is
 * not idle is in one list or in one worker's turn, never in two. */
#ifndef HR_HOST_STREAM_H
#define HR_HOST_STREAM_H

#include "host_device.h"

/* What some dozens of chunks on a stream have under way. */
enum { HR__HOST_QUEUE_LENGTH = 256 };

enum hr__host_op_kind { OP_COPY, OP_LAUNCH, OP_CALL, OP_RECORD, OP_WAIT, OP_REFUSE };

struct hr__host_op {
    enum hr__host_op_kind kind;
    union {
        struct {
            void *to;
            const void *from;
            size_t size;
        } copy;
        struct { /* launch; call: what a launch function enqueued, with its own launch */
            const struct hr__kernel *kernel;
            struct hr__launch launch;
            int32_t (*function)(void *argument);
            void *argument;
        } run;
        struct { /* record, wait */
            struct hr__event *event;
            uint64_t record;
        } order;
    } u;
};

struct hr__stream {
    struct hr__device base;
    struct hr__host_device *device;

    /* The worker's whose turn it is. */
    /* The first, after which copies, launches and calls are passed over. Waits are not: who sees a
     * record behind them failed may rely on what they wait for being over. */
    hr_error failure;
    uint64_t served_ns; /* by all work so far, on whichever threads: hr__stint_ns */

    /* The enqueueing thread's: the launch whose function runs; and how one of them failed. A
     * worker reads the refusal at its place in the queue, behind which it does not change. */
    const struct hr__host_op *launching;
    hr_error refusal;

    struct hr__stream *next; /* under the device's lock: in the list of ready or parked streams */

    /* Guards what follows, and the wake-ups of events recorded here. The device's lock may be
     * taken while it is held. */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* for the enqueueing thread: there is room, or the stream is idle */
    bool is_idle;
    uint64_t n_enqueued;                             /* the counters only grow */
    uint64_t n_taken;                                /* set at the end of a turn */
    struct hr__host_op queue[HR__HOST_QUEUE_LENGTH]; /* what is between them does not change */
};

/* ---- Workers, host_workers.c ---- */

/* 0 or an errno. */
int hr__host_workers_start(struct hr__host_device *device, unsigned n_workers);
/* No stream is left. */
void hr__host_workers_stop(struct hr__host_device *device);
/* Gives an idle stream that has got work to the workers. */
void hr__host_stream_ready(struct hr__stream *stream);

/* Lists of streams, under the device's lock. */
void hr__host_list_append(struct hr__host_list *list, struct hr__stream *stream);
/* Moves all of `from` to the end of `to`. */
void hr__host_list_move(struct hr__host_list *to, struct hr__host_list *from);

/* ---- Events, host_event.c ---- */

/* Records are numbered from 1; a number stays done when the event is recorded anew. */
uint64_t hr__host_event_next_record(struct hr__event *event, struct hr__stream *stream);
uint64_t hr__host_event_last_record(const struct hr__event *event);
/* In a turn of the stream that it was recorded on: the record is done. */
void hr__host_event_done(struct hr__event *event, uint64_t record, struct hr__stream *stream);
/* Is the record done? If it failed, that is the failure, unless there is one already. */
bool hr__host_event_passed(struct hr__event *event, uint64_t record, hr_error *failure);
/* Parks the stream until the record is done; false: it is. */
bool hr__host_event_park(struct hr__event *event, uint64_t record, struct hr__stream *stream);

#endif
