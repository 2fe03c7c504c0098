// SPDX-License-Identifier: Apache-2.0
/* Slots, and the lanes in which they stand in stream order.
 *
 *     sources ─▶ [blocks] ─▶ decode ─▶ [spans] ─▶ cut ─▶ [chunks] ─▶ encode ─▶ [frames] ─▶ sink
 *
 * A stage takes a free slot of the lane behind it, places it at the lane's tail, and has it filled.
 * The next stage takes ready slots from the head, in order; where each has its place in the stream
 * and nobody sees the order, a ready one does not wait for those before it. A slot refers to its
 * bytes: in memory of its own, in a user's memory, or in the slot that it holds, which lives until the
 * holder is gone:
 *
 *            place              filled            head of the lane          last holder gone
 *     FREE ────────▶ BUSY ────────────────▶ READY ────────────────▶ TAKEN ────────────────▶ FREE
 *                      └─▶ FILLING (a pipe: some bytes, waits for more) ─▶ READY
 *
 * An error stands in the order too: a ready slot whose error is set ends the stream there, after
 * its bytes. All of this is the loop's thread's; what is BUSY belongs to the one it was given to.
 */
#ifndef HR_LANE_H
#define HR_LANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "chain.h"
#include "codec.h"
#include "headrace.h"
#include "io.h"
#include "lease.h"
#include "queue.h"

struct hr__input;

enum hr__slot_state {
    HR__SLOT_FREE,
    HR__SLOT_FILLING, /* scheduler: holds some bytes of a pipe, waits for more */
    HR__SLOT_BUSY,    /* the I/O engine, a worker, a device */
    HR__SLOT_READY,   /* scheduler: waits for its turn at the next stage */
    HR__SLOT_TAKEN    /* the next stage, and whoever holds it */
};

/* Bytes of the blocks lane: a part of the encoded input. */
struct hr__extent {
    uint64_t block; /* index of the block that it begins in */
    size_t at;      /* bytes of that block before it */
    uint64_t size;
};

/* A job of the decode stage, in a slot of the spans lane. */
struct hr__decode_work {
    struct hr__extent from;
    uint64_t in_offset; /* of from, in the encoded source */
    uint64_t expected;  /* decoded bytes by the seek table; UINT64_MAX: not known */
    uint32_t dict_id;   /* that its frames name */
    bool streamed;      /* a part of a frame */

    uint64_t consumed; /* encoded bytes taken */
    bool frame_done;   /* streamed: the frame has ended */
    bool full;         /* streamed: there may be more, though all input is taken */
    struct hr__codec_error why;
    uint64_t bad_offset; /* of the frame that failed, in the encoded source */
};

/* A frame that is encoded. */
struct hr__encode_work {
    size_t decoded; /* bytes that it stands for */
    enum hr__codec_code code;
    struct hr__codec_error why;
};

/* A chunk on the device. */
struct hr__device_work {
    char *at; /* its bytes, as the device addresses them */
    size_t size;
    char *buffers;                   /* the first of the chain's buffers that are the chunk's */
    struct hr__event **marks;        /* by enum hr__mark */
    unsigned segment;                /* of the chain, that runs or ran last */
    unsigned stream;                 /* of those of the segment */
    bool pending[HR__N_LEGS];        /* under way: not landed yet */
    unsigned epoch;                  /* of the device's clock */
    uint64_t passed_ns[HR__N_MARKS]; /* by it; 0: nobody has asked yet */
    bool passes;                     /* what leaves are the bytes that came, where they came from */
    bool counted;           /* the segment is done; the next waits for its turn in the stream */
    bool copied;            /* to host memory: a leg out was enqueued */
    bool all_given;         /* no more legs follow those that are under way */
    bool storing;           /* the leg out goes to the sink, not to host memory */
    bool asked[HR__N_LEGS]; /* the loop will be woken */
    uint64_t begun_ns[HR__N_LEGS]; /* by the host: enqueued */
    bool follows[HR__N_LEGS];      /* another leg of the stream was under way then */
    bool copied_in;                /* a leg in was enqueued, */
    bool ran;                      /* and one of kernels */
    size_t bytes_in;
    struct hr__slot *next[HR__N_LEGS]; /* on the same stream */
};

struct hr__slot {
    enum hr__slot_state state;
    struct hr__lane *lane;
    struct hr__slot *next_free;
    struct hr__region *region; /* memory of its own; NULL: none */
    char *memory;              /* its first byte, behind the headroom */
    struct hr__slot *holds;    /* the slot that data lies in */
    unsigned refs;             /* of the lane or the stage that took it, and of holders */

    const char *data;
    size_t size;
    size_t taken;           /* bytes that the next stage has taken */
    uint64_t index;         /* place in the order */
    uint64_t number;        /* place in the stream; the index, but where order is not kept */
    uint64_t stream_offset; /* chunks: before kernels */
    uint64_t out_offset;    /* at the sink */
    struct hr__input *input;
    uint64_t input_offset; /* in its source: encoded bytes for blocks, else decoded ones */
    bool ends_input;       /* marks the end of its source, has no bytes */
    bool early;            /* left before it was full: somebody waits for it */
    bool verified;         /* decoded under a checksum */
    bool on_device;        /* data is memory of a device, which the host cannot read */
    hr_error error;        /* code 0: none */

    struct hr__io_request request;
    struct hr__job job;
    int64_t job_result;
    uint64_t begun_ns;  /* the operation */
    uint64_t placed_ns; /* a block of a pipe: when it had something to take */
    size_t wanted;      /* bytes that the operation is to move */
    size_t moved;       /* bytes that it has moved */
    void *crc;          /* the null sink's CRC-32 of the piece */
    size_t checked;     /* bytes of it that are in crc already */
    union {
        struct hr__decode_work decode;
        struct hr__device_work device;
        struct hr__encode_work encode;
    };
};

struct hr__lane {
    hr_pipeline *pipeline;     /* constant */
    struct hr__device *pinned; /* the device whose driver is to know the memory; NULL: none */
    unsigned depth;
    size_t headroom;  /* bytes before a slot's memory, for what is joined to its front */
    size_t slot_size; /* bytes of memory behind it; 0: slots have none */

    struct hr__region *ring; /* the slots' memory is consecutive here: slot i is at i * slot_size */

    struct hr__slot *slots;
    struct hr__slot **order;
    uint64_t head;
    uint64_t tail;
    unsigned n_leased;
    uint64_t leased_bytes;
    uint64_t unpinned_bytes; /* of them, that the driver refused */
    struct hr__slot *free_leased;
    struct hr__slot *free_empty;
};

/* One slot has memory from the start, so that the lane always advances. HR_AGAIN: the context has
 * no memory for it. A lane of depth 0 is not used. */
hr_status hr__lane_init(struct hr__lane *lane, hr_pipeline *pipeline, unsigned depth,
                        size_t headroom, size_t slot_size) __attribute__((warn_unused_result));
/* All memory at once, consecutive. */
hr_status hr__lane_init_ring(struct hr__lane *lane, hr_pipeline *pipeline, unsigned depth,
                             size_t slot_size) __attribute__((warn_unused_result));
/* Gives the memory back; nothing is in flight. */
void hr__lane_let_go(struct hr__lane *lane);
void hr__lane_destroy(struct hr__lane *lane);

/* A free slot, with memory if asked for; NULL: none is free, or there is no memory at present. It
 * is not yet in the order. */
struct hr__slot *hr__lane_take(struct hr__lane *lane, bool with_memory);
/* Memory for a slot that was taken without: size bytes behind the headroom, at least slot_size.
 * False: none at present. */
bool hr__slot_lease(struct hr__slot *slot, size_t size);
/* The same, while all memory of the lane stays within a budget (or it has none else); free slots
 * give theirs back first. */
bool hr__slot_lease_within(struct hr__slot *slot, size_t size, uint64_t budget);
/* Free slots give their memory back, but the last of it: the lane must always advance. */
void hr__lane_trim(struct hr__lane *lane);
/* Puts a slot that was taken back, unused. */
void hr__lane_untake(struct hr__slot *slot);
/* Puts it at the tail, BUSY, with one ref. */
void hr__lane_place(struct hr__slot *slot);
/* Takes a slot and places it as an error without bytes, READY. NULL: none is free. */
struct hr__slot *hr__lane_place_error(struct hr__lane *lane, const hr_error *error);
/* Takes the youngest slot out of the order again. */
void hr__lane_unplace(struct hr__slot *slot);

/* The oldest slot that the next stage has not taken; NULL: there is none. */
struct hr__slot *hr__lane_head(const struct hr__lane *lane);
/* The youngest slot; NULL if the lane is empty. */
struct hr__slot *hr__lane_last(const struct hr__lane *lane);
struct hr__slot *hr__lane_at(const struct hr__lane *lane, uint64_t index);
/* The head, if it is ready. Any: else the oldest that is, without an error, which becomes the head.
 */
struct hr__slot *hr__lane_next(struct hr__lane *lane, bool any);
/* The next stage has the head now, and the ref that the lane had. */
void hr__lane_pass(struct hr__lane *lane);
bool hr__lane_is_empty(const struct hr__lane *lane);

void hr__slot_hold(struct hr__slot *slot);
void hr__slot_drop(struct hr__slot *slot);

#endif
