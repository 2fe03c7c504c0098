// SPDX-License-Identifier: Apache-2.0
/* What loops share: workers and memory. Counted: the last holder frees it. */
#ifndef HR_CONTEXT_H
#define HR_CONTEXT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "headrace.h"
#include "lease.h"
#include "pool.h"

struct hr_context {
    struct hr__pool *pool;    /* constant after create */
    struct hr__memory memory; /* locks itself */
    pid_t pid;                /* constant after create */
    atomic_uint holders;
};

void hr__context_hold(hr_context *context);

/* Copies a caller's struct whose first field is struct_size: a shorter one is filled up with zeros,
 * a longer one is taken if what is beyond is zero. */
bool hr__copy_struct(void *to, size_t size, const void *from);

#endif
