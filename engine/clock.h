// SPDX-License-Identifier: Apache-2.0
/* The two clocks of the statistics, in nanoseconds. */
#ifndef HR_CLOCK_H
#define HR_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t hr__clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t hr__now_ns(void)
{
    return hr__clock_ns(CLOCK_MONOTONIC);
}

/* CPU time of the calling thread: the service time of a CPU stage, which waiting does not lengthen.
 */
static inline uint64_t hr__thread_cpu_ns(void)
{
    return hr__clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

#endif
