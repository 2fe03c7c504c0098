// SPDX-License-Identifier: Apache-2.0
/* What tests tell the fake HIP: by the environment, since it is the backend that opens it.
 *
 *     FAKE_HIP_ARCH          the architecture of all devices
 *     FAKE_HIP_LOAD_STATUS   what loading a code object or a bundle of them returns */
#ifndef FAKE_HIP_H
#define FAKE_HIP_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

static inline const char *fake_hip_arch(void)
{
    const char *arch = getenv("FAKE_HIP_ARCH");
    return arch ? arch : "gfx90a:sramecc+:xnack-";
}

/* Of a module. The bytes are the caller's, and HIP may read all of them until it is unloaded. */
struct fake_hip_image {
    const unsigned char *bytes;
    size_t size;
    uint64_t sum;
};

/* The status of loading it; *out is set if that is 0. */
int fake_hip_take_image(struct fake_hip_image *out, const unsigned char *bytes);
/* Ends the process if the image is no longer what was taken. */
void fake_hip_check_image(const struct fake_hip_image *image);

#endif
