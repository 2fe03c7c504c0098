// SPDX-License-Identifier: Apache-2.0
/* The clocks of the statistics, in nanoseconds. */
#ifndef HR_CLOCK_H
#define HR_CLOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
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

/* A stretch of a user's code, which may compute, or wait for what this process knows nothing of. */
struct hr__stint {
    pthread_t thread;
    uint64_t begun_ns;
    uint64_t cpu_ns;
    long n_sleeps;
};

/* Of the calling thread so far: how often it gave up the CPU of its own accord (getrusage(2)). */
static inline long hr__thread_sleeps(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nvcsw : 0;
}

static inline struct hr__stint hr__stint_begin(void)
{
    return (struct hr__stint){.thread = pthread_self(),
                              .n_sleeps = hr__thread_sleeps(),
                              .begun_ns = hr__now_ns(),
                              .cpu_ns = hr__thread_cpu_ns()};
}

/* The service time of a stretch that ends now: all of it, if it waited; else its CPU time, for then
 * what is more is time in which other threads had the CPU. */
static inline uint64_t hr__stint_ns(const struct hr__stint *stint)
{
    const uint64_t cpu_ns = hr__thread_cpu_ns();
    const uint64_t all_ns = hr__now_ns() - stint->begun_ns;
    const bool waited = hr__thread_sleeps() != stint->n_sleeps;
    return waited || !pthread_equal(stint->thread, pthread_self()) ? all_ns
                                                                   : cpu_ns - stint->cpu_ns;
}

#endif
