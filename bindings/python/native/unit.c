// SPDX-License-Identifier: Apache-2.0
/* A kernel that does nothing. What a stage states is used alone: its unit, that never straddles two
 * chunks. In C, because then no thread of the library waits for the interpreter. */
#include "headrace_python.h"

int32_t hrp_no_work(void *user, const struct hr_kernel_call *call)
{
    (void)user;
    (void)call;
    return 0;
}
