// SPDX-License-Identifier: Apache-2.0
/* What the driver alone reaches with the memory that the pipelines use: asynchronous copies in
 * pieces, all enqueued at once, on non-blocking streams in the primary context. */
#ifndef GPU_CEILINGS_H
#define GPU_CEILINGS_H

#include <stdbool.h>

#include "gpu_transfers.h"

enum ceiling_way { CEILING_H2D, CEILING_D2H, CEILING_BOTH, CEILING_D2D };

struct ceiling {
    const char *name;
    enum ceiling_way way;
    uint64_t piece_size;
};

/* Small pieces, and large ones. */
enum {
    H2D_SMALL,
    H2D_LARGE,
    D2H_SMALL,
    D2H_LARGE,
    BOTH_SMALL,
    BOTH_LARGE,
    D2D_SMALL,
    D2D_LARGE,
    N_CEILINGS
};
extern const struct ceiling ceilings[N_CEILINGS];

/* The driver of a device "cuda:N". Without it the device is the host, and the three functions below
 * touch plain memory. */
void driver_open(const char *device);
void driver_close(void);
bool driver_is_open(void);

void there_clear(unsigned char *there, uint64_t size);
void there_put(unsigned char *there, const unsigned char *from, uint64_t size);
void there_get(unsigned char *to, const unsigned char *there, uint64_t size);

/* Bytes that one run moves: both directions; read and written. */
uint64_t ceiling_bytes(const struct ceiling *one, const struct areas *areas);
/* In turn; only ceiling_run belongs inside of the clock. */
void ceiling_prepare(const struct ceiling *one, const struct areas *areas);
void ceiling_run(const struct ceiling *one, const struct areas *areas);
void ceiling_verify(const struct ceiling *one, const struct areas *areas);

#endif
