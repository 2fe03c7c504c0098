// SPDX-License-Identifier: Apache-2.0
/* The pipelines that gpu_transfers measures, and the proof that each moved the right bytes. */
#ifndef GPU_WAYS_H
#define GPU_WAYS_H

#include <stdbool.h>

#include "gpu_ceilings.h"

enum place { FROM_FILE, FROM_FRAMES, PINNED, PAGEABLE, ON_DEVICE };

/* What the kernels make of the bytes. */
enum law {
    SAME,    /* no kernel */
    TURNED,  /* floats: -2 x + 1 */
    RAISED,  /* floats: x + 1, as many times as there are kernels */
    COUNTED, /* floats: all pass, how many are negative is the result */
    HALVED,  /* u16 to u8, saturated: half of the bytes come back */
    DOUBLED  /* u8 to u16: half of the area goes in, twice that comes back */
};

struct way {
    const char *name;
    const struct ceiling *beside; /* what it is measured beside in each round; NULL: nothing */
    enum place from;
    enum place to;
    enum law law;
    uint32_t n_kernels;
    uint32_t depth;
    uint32_t n_streams;
    uint64_t chunk_size;
    bool tuned;  /* n_kernels is found by measuring, for kernels twice as long as the copies */
    bool traced; /* once more, for a timeline */
};

enum { N_WAYS = 14 };
extern struct way ways[N_WAYS];

struct sample {
    uint64_t wall_ns; /* to create, run and free */
    uint64_t cpu_ns;  /* of all threads, in user and system mode */
    uint64_t n_negative;
    struct hr_stats stats;
};

/* Its bytes are those of the file. */
bool way_is_of_file(const struct way *way);
uint64_t way_bytes_in(const struct way *way, const struct areas *areas);
uint64_t way_bytes_out(const struct way *way, const struct areas *areas);
/* Both directions. */
uint64_t way_bytes_of_link(const struct way *way, const struct areas *areas);

/* In turn; only way_run belongs inside of the clock. */
void way_prepare(const struct way *way, const struct areas *areas);
void way_run(const struct way *way, const struct areas *areas, hr_loop *loop, const char *device,
             const char *trace_path, struct sample *sample);
void way_verify(const struct way *way, const struct areas *areas, const struct sample *sample);

/* Sets n_kernels so that the kernels take about twice as long as the copies; on the host, where
 * nothing is copied, it stays. */
void way_tune(struct way *way, const struct areas *areas, hr_loop *loop, const char *device);

#endif
