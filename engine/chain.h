// SPDX-License-Identifier: Apache-2.0
/* The kernels of a pipeline on its device.
 *
 * A chain is cut into segments behind each counted kernel: how many bytes it gives, and so where
 * the next segment's units begin, is known only once it is done. The first segment of chunks is
 * started in stream order as they come, later ones in stream order as the counts come:
 *
 *     cast ─▶ sum ─▶ filter ║ scale ─▶ filter ║ crc32
 *
 * Within a segment sizes are in fixed ratios, so one unit (in bytes of the segment's input) is
 * whole for every kernel in it. Bytes behind the last whole unit are carried to the next chunk. */
#ifndef HR_CHAIN_H
#define HR_CHAIN_H

#include "backend.h"
#include "headrace.h"

struct hr__slot;

enum { HR__MAX_STREAMS = 64 };

struct hr__link {
    struct hr__kernel *kernel;
    struct hr__kernel_info info;
    void *states[HR__MAX_STREAMS]; /* reductions: one for each stream of the segment; the first
                                      becomes the whole */
    uint64_t n_units;              /* seen so far: first_unit of the next chunk */
};

struct hr__segment {
    unsigned first; /* link */
    unsigned end;
    size_t unit;    /* bytes that are whole for every kernel */
    uint64_t next;  /* chunk that is started next */
    char *carry;    /* of segments behind the first: the begin of a unit, */
    size_t carried; /* and how much of it is there */
};

/* Chunks of one stream, in the order they were started. */
struct hr__device_queue {
    struct hr__stream *stream;
    struct hr__slot *oldest;
    struct hr__slot *youngest;
};

struct hr__chain {
    /* constant after create */
    struct hr__device *device;
    struct hr__link *links;
    unsigned n_links;
    struct hr__segment *segments;
    unsigned n_segments;
    /* n_streams for each segment. They share none: a failure is a stream's last word, and behind it
     * a chunk's next segment would be lost with what failed in a later chunk's first. */
    struct hr__device_queue *queues;
    unsigned n_queues;
    unsigned n_streams;
    struct hr__event **events; /* two for each chunk */
    unsigned n_events;
    size_t buffer_bytes; /* each of the buffers between kernels, with the headroom before it */
    size_t headroom;
    size_t chunk_bytes;         /* of memory for each chunk; 0: kernels write nothing */
    size_t unit_out;            /* bytes of a unit that leaves */
    uint64_t bytes_out_of_unit; /* of the first segment; without counted kernels */

    /* owner thread */
    bool ended;
    bool merged;
};

/* Makes the kernels, streams and events for depth chunks of at most *chunk_size bytes, which is
 * rounded down to whole units. The device stays the caller's. */
hr_status hr__chain_create(struct hr__device *device, const struct hr_pipeline_config *config,
                           unsigned depth, size_t *chunk_size, struct hr__chain **out,
                           hr_error *error) __attribute__((warn_unused_result));
/* Nothing runs. NULL is allowed. */
void hr__chain_free(struct hr__chain *chain);

/* The unit of what enters the chain; 1 without a chain. */
size_t hr__chain_unit(const struct hr__chain *chain);

/* Whether a kernel's output is known only when it is done. */
bool hr__chain_is_counted(const struct hr__chain *chain);

/* What the reduction found over all chunks, which are done. The link is one. */
void hr__chain_result(struct hr__chain *chain, unsigned link, struct hr__reduce_result *result);

#endif
