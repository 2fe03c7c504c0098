// SPDX-License-Identifier: Apache-2.0
/* Backends that this build has not. With no device there is nothing to describe or to open. */
#include "absent.h"

#include <stdio.h>

static unsigned count_hip(char *why, size_t why_size)
{
    snprintf(why, why_size, "this build has no HIP backend");
    return 0;
}

const struct hr__backend hr__hip_absent = {.name = "hip", .count = count_hip};
