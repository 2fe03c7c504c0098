// SPDX-License-Identifier: Apache-2.0
#ifndef HR__REDUCE_STATE_H
#define HR__REDUCE_STATE_H

/* A reduction's state, as reduce_kernels.c and the kernels of GPUs keep it. Kernels of GPUs leave
 * carries in the limbs of exact sums; merging and finishing move them. */

#include "host_kernels.h"

struct hr__reduce_state {
    uint64_t n_units;
    uint64_t result; /* where finish leaves a single value */
    union {
        int64_t best;    /* min, max: as an ordered key, see reduce_kernels.c */
        uint64_t sum[2]; /* integer sum and mean: 128 bits, low word first */
        uint64_t count;
        uint32_t crc; /* see fold_crc() */
        struct hr__exact exact;
        uint64_t first_bin; /* histogram: n_bins counters from here on */
    } u;
};

#endif
