// SPDX-License-Identifier: Apache-2.0
/* Copies by the driver alone, between pinned memory and a device: what a copy of that size takes. */
#ifndef OVERLAP_BARE_H
#define OVERLAP_BARE_H

#include <stdbool.h>
#include <stddef.h>

struct bare_lengths {
    double to_device_ns;
    double from_device_ns;
};

/* Of one copy of so many bytes, of n one behind the other, each from another place: both memories
 * hold n of them. A direction that is not wanted is 0. On "cuda:N" or "hip:N", which the library has
 * opened. */
struct bare_lengths measure_bare(const char *device, void *host, void *there, size_t bytes,
                                 unsigned n, bool to_device, bool from_device);

#endif
