// SPDX-License-Identifier: Apache-2.0
/* What tests tell the fake HIP: by the environment, since it is the backend that opens it.
 *
 *     FAKE_HIP_ARCH          the architecture of all devices
 *     FAKE_HIP_LOAD_STATUS   what loading a code object or a bundle of them returns */
#ifndef FAKE_HIP_H
#define FAKE_HIP_H

#include <stddef.h>
#include <stdlib.h>

static inline const char *fake_hip_arch(void)
{
    const char *arch = getenv("FAKE_HIP_ARCH");
    return arch ? arch : "gfx90a:sramecc+:xnack-";
}

/* The status of loading the image, of whose bytes HIP will go on reading *size. */
int fake_hip_judge_image(const unsigned char *image, size_t *size);

#endif
