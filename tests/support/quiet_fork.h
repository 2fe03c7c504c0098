// SPDX-License-Identifier: Apache-2.0
/* A child of a process that has threads. */
#ifndef HR_TEST_QUIET_FORK_H
#define HR_TEST_QUIET_FORK_H

#include <sys/types.h>

/* fork(2) as soon as every other thread sleeps. One that has just been started may hold a lock of
 * the sanitizer's allocator, which, unlike the C library, does not let go of it in the child: that
 * one would hang at its next allocation. */
pid_t fork_when_quiet(void);

#endif
