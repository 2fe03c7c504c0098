// SPDX-License-Identifier: Apache-2.0
/* What HIP's libraries of ROCm 5, 6 and 7 do differently, for those of our own that stand in for
 * them: the fake one, and the one over CUDA. See backends/hip/hip_calls.h. */
#ifndef HIP_ABI_H
#define HIP_ABI_H

#include "hip_calls.h"

enum { HIP_ABI_OLD_BYTES = 792, HIP_ABI_NEW_BYTES = 1472 }; /* of properties */

/* hip_version.h: x.2.21153. */
static inline int hip_abi_version(int rocm)
{
    return rocm * 10000000 + 2 * 100000 + 21153;
}

/* A thread's last error: the status of its last call, and from 7 on the last one that was a
 * failure. Returns the status. */
static inline int hip_abi_note(int rocm, int *last_error, int status)
{
    const int is_error = status != HR__HIP_SUCCESS && status != HR__HIP_NOT_READY;
    if (rocm < 7 || is_error)
        *last_error = status;
    return status;
}

/* hipMemoryType of memory that CUDA says is unknown (0), the host's (1) or a device's (2), or of
 * managed memory (3). Negative: the version has no word for it. */
static inline int hip_abi_memory_type(int rocm, unsigned home)
{
    static const int types_of_5[] = {-1, HR__HIP_5_TYPE_HOST, HR__HIP_5_TYPE_DEVICE, 4};
    static const int types_of_6[] = {HR__HIP_6_TYPE_UNREGISTERED, HR__HIP_6_TYPE_HOST,
                                     HR__HIP_6_TYPE_DEVICE, 3};
    if (home >= sizeof types_of_5 / sizeof types_of_5[0])
        return -1;
    return rocm < 6 ? types_of_5[home] : types_of_6[home];
}

#endif
