// SPDX-License-Identifier: Apache-2.0
/* What a pipeline does on its device: the kernels, and the copies around them where the device has
 * memory of its own.
 *
 * A chain is cut into segments behind each counted kernel: how many bytes it gives, and so where
 * the next segment's units begin, is known only once it is done. The first segment of chunks is
 * started in stream order as they come, later ones in stream order as the counts come:
 *
 *     cast ─▶ sum ─▶ filter ║ scale ─▶ filter ║ crc32
 *
 * Within a segment sizes are in fixed ratios, so one unit (in bytes of the segment's input) is
 * whole for every kernel in it. Bytes behind the last whole unit are carried to the next chunk.
 *
 * Memory of a chunk: two buffers, from one to the other of which each kernel writes. Where device
 * memory is the host's they are the chunk's own, and the first kernel reads the input where it is.
 * Else they are on the device, the input is copied into the first, and what leaves is copied to
 * the chunk's own memory, or at once to where the sink has its place:
 *
 *     host     input ──H2D──┐                            ┌──D2H──▶ chunk, or the sink's memory
 *     device                └▶ buffer 0 ─▶ buffer 1 ─▶ …─┘
 */
#ifndef HR_CHAIN_H
#define HR_CHAIN_H

#include "backend.h"
#include "cover.h"
#include "device_clock.h"
#include "device_store.h"
#include "headrace.h"
#include "lease.h"

struct hr__slot;

enum { HR__MAX_STREAMS = 64 };

/* What is done for a chunk on a device, each on streams of its own. */
enum hr__leg { HR__LEG_IN, HR__LEG_RUN, HR__LEG_OUT, HR__N_LEGS };

/* Events of a chunk: around each leg; and what a user queued on what was lent. */
enum hr__mark {
    HR__IN_BEGUN,
    HR__IN_DONE,
    HR__RUN_BEGUN,
    HR__RUN_DONE,
    HR__OUT_BEGUN,
    HR__OUT_DONE,
    HR__GIVEN_BACK,
    HR__N_MARKS
};

struct hr__link {
    struct hr__kernel *kernel;
    struct hr__kernel_info info;
    char *states; /* reductions: on the device, one for each stream of the segment, */
    char *found;  /* and on the host, state_stride apart; the first becomes the whole */
    size_t state_stride;
    uint64_t n_units; /* seen so far: first_unit of the next chunk */
};

struct hr__segment {
    unsigned first; /* link */
    unsigned end;
    unsigned first_queue;
    unsigned n_queues;
    size_t unit;    /* bytes that are whole for every kernel */
    uint64_t next;  /* chunk that is started next */
    char *carry;    /* of segments behind the first: device memory for the begin of a unit, */
    size_t carried; /* and how much of it is there */
};

/* Chunks of one stream, in the order they were started. */
struct hr__device_queue {
    struct hr__stream *stream;
    enum hr__leg leg;
    struct hr__slot *oldest;
    struct hr__slot *youngest;
    uint64_t until_ns;   /* when the last leg that has landed was done, by the device's clock */
    uint64_t pending_in; /* the pump in which the oldest one's was found under way; 0: none yet */
};

struct hr__chain {
    /* constant after create */
    struct hr__store *store;
    struct hr__device *device;
    struct hr__memory *memory; /* of the context */
    bool host_memory;          /* of the device: nothing is copied */
    unsigned depth;
    struct hr__link *links;
    unsigned n_links;
    struct hr__segment *segments;
    unsigned n_segments;
    /* Segments share no queue: a failure is a stream's last word, and behind it a chunk's next
     * segment would be lost with what failed in a later chunk's first. Behind those of all segments
     * stand the two for copies, if there are copies. */
    struct hr__device_queue *queues;
    unsigned n_queues;
    unsigned n_streams;
    struct hr__event **events;   /* HR__N_MARKS for each chunk; NULL: not used */
    struct hr__event **followed; /* behind what users had queued */
    unsigned n_followed;
    size_t buffer_bytes; /* each of the buffers between kernels, with the headroom before it */
    unsigned n_buffers;  /* 0 to 2 */
    size_t headroom;
    bool maps;                  /* some kernel writes */
    size_t last_bytes;          /* of a chunk behind the last kernel, at most */
    size_t unit_out;            /* bytes of a unit that leaves */
    uint64_t bytes_out_of_unit; /* of the first segment; without counted kernels */
    char *buffers;              /* on the device: n_buffers and a count for each chunk */
    size_t buffers_stride;      /* from one chunk's to the next one's; 0: in chunks' own memory */
    char *cells;                /* host side of what comes back by itself: states, counts */
    size_t cells_bytes;         /* from the store, or */
    struct hr__region *cells_region; /* leased */
    uint64_t *counts;                /* one for each chunk */

    /* owner thread */
    struct hr__device_clock clock;
    struct hr__cover kernels;  /* device time, as the host's: when any ran */
    bool failed;               /* some work did: the streams are of no use to others */
    struct hr__event *fetched; /* behind the states' way back */
    bool fetching;             /* they are on it */
    hr_error fetch_error;      /* why they did not come */
    bool ended;
    bool merged;
};

/* Makes the kernels, streams and events for depth chunks of at most *chunk_size bytes, which is
 * rounded down to whole units (and chosen smaller for kernels that write more than they read, where
 * the config leaves it open). The store's device stays the context's. Without kernels there is one
 * segment of none. */
hr_status hr__chain_create(hr_context *context, struct hr__store *store,
                           const struct hr_pipeline_config *config, unsigned depth,
                           size_t *chunk_size, struct hr__chain **out, hr_error *error)
    __attribute__((warn_unused_result));
/* Nothing runs; what users queued on lent chunks is waited for. NULL is allowed. */
void hr__chain_free(struct hr__chain *chain);

/* What is done from now on comes after what is queued on a user's stream by now, by its vendor's
 * handle; NULL: nothing is. Not on a host_memory device. */
hr_status hr__chain_follow(struct hr__chain *chain, void *stream, hr_error *error)
    __attribute__((warn_unused_result));

/* Segments, units and sizes: what create() does first, once the links are there. */
hr_status hr__chain_plan(struct hr__chain *chain, size_t *chunk_size, bool may_shrink,
                         hr_error *error) __attribute__((warn_unused_result));

/* The unit of what enters the chain; 1 without a chain. */
size_t hr__chain_unit(const struct hr__chain *chain);

/* Whether a kernel's output is known only when it is done. */
bool hr__chain_is_counted(const struct hr__chain *chain);

/* Where bytes of the stream at offset, whole units, are behind the kernels. Not of counted ones. */
uint64_t hr__chain_place(const struct hr__chain *chain, uint64_t offset);

/* Begins to bring the states of reductions back; false: there is nothing to bring. */
bool hr__chain_fetch(struct hr__chain *chain);

/* What the reduction found over all chunks, which are done. The link is one. */
void hr__chain_result(struct hr__chain *chain, unsigned link, struct hr__reduce_result *result);

#endif
