// SPDX-License-Identifier: Apache-2.0
/* What a copy on the host reaches: memcpy by one thread, which is what a stream is. */
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "host_stream.h"
#include "status.h"

enum { N_RUNS = 3, PAINT = 0x5a };

hr_status hr__host_measure(struct hr__device *device, size_t size, struct hr_device_rates *out,
                           hr_error *error)
{
    unsigned char *from = malloc(size);
    unsigned char *to = malloc(size);
    (void)device;
    *out = (struct hr_device_rates){0};
    if (!from || !to) {
        free(from);
        free(to);
        return hr__fail(error, HR_ENOMEM, (struct hr__where){0},
                        "no memory to measure copies of %zu bytes on the host", size);
    }
    memset(from, PAINT, size); /* touched, as what a stream goes through is */
    memset(to, 0, size);
    for (int run = 0; run < N_RUNS; run++) {
        const uint64_t start = hr__now_ns();
        memcpy(to, from, size);
        const uint64_t took = hr__now_ns() - start;
        const double rate = (double)size * 1e9 / (double)(took ? took : 1);
        out->d2d = rate > out->d2d ? rate : out->d2d;
    }
    const bool same = memcmp(to, from, size) == 0; /* so that no copy is left out, either */
    free(from);
    free(to);
    if (!same)
        return hr__fail(error, HR_EDEVICE, (struct hr__where){0},
                        "host: copies of %zu bytes gave other bytes", size);
    return HR_OK;
}
