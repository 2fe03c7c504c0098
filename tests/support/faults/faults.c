// SPDX-License-Identifier: Apache-2.0
/* What is to fail, and what happened so far. All threads come here; nothing here allocates. */
#include "faults.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { DIRECT_UNIT = 4096 };

static struct {
    _Atomic uint64_t n_seen;
    _Atomic uint64_t first; /* 0: none fails */
    _Atomic uint64_t times;
    _Atomic int error;
    _Atomic bool struck;
} plans[HR_FAULT_COUNT];

static _Atomic size_t cap;
static _Atomic uint32_t random_state;
static _Atomic uint64_t n_allocated;
static _Atomic uint64_t n_shortened;
static _Thread_local bool counts; /* false while a thread is being made */

void hr_faults_fail(enum hr_fault kind, uint64_t nth, uint64_t times, int error)
{
    plans[kind].first = 0;
    plans[kind].n_seen = 0;
    plans[kind].struck = false;
    plans[kind].times = times;
    plans[kind].error = error;
    plans[kind].first = nth;
}

bool hr_faults_struck(enum hr_fault kind)
{
    return plans[kind].struck;
}

uint64_t hr_faults_cap(size_t most, uint32_t seed)
{
    random_state = seed;
    cap = most;
    return atomic_exchange(&n_shortened, 0);
}

uint64_t hr_faults_mark(void)
{
    return atomic_exchange(&n_allocated, 0);
}

bool hr_faults_exempt(bool exempt)
{
    const bool before = !counts;
    counts = !exempt;
    return before;
}

__attribute__((constructor)) static void count_main_thread(void)
{
    counts = true;
}

int hr_faults_strike(enum hr_fault kind)
{
    if (!counts)
        return 0;
    if (kind == HR_FAULT_ALLOC)
        n_allocated++;
    const uint64_t first = plans[kind].first;
    if (first == 0)
        return 0;
    const uint64_t n = ++plans[kind].n_seen;
    if (n < first || n - first >= plans[kind].times)
        return 0;
    plans[kind].struck = true;
    return plans[kind].error;
}

/* An eventfd and its like have no file type: a fault there would be the test's, not the system's.
 */
static bool is_data(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 && (status.st_mode & S_IFMT) != 0;
}

static size_t random_size(void)
{
    const uint32_t x = random_state * 1664525u + 1013904223u;
    random_state = x; /* threads that meet here draw the same number, which does no harm */
    return 1 + (x >> 8) % cap;
}

int hr_faults_strike_io(enum hr_fault kind, int fd, size_t *size)
{
    if (!counts || *size == 0 || !is_data(fd))
        return 0;
    const int error = hr_faults_strike(kind);
    if (error || cap == 0)
        return error;
    size_t most = random_size();
    if (fcntl(fd, F_GETFL) & O_DIRECT) /* whose short results are whole blocks */
        most = (most + DIRECT_UNIT - 1) / DIRECT_UNIT * DIRECT_UNIT;
    if (*size > most) {
        *size = most;
        n_shortened++;
    }
    return 0;
}

void hr_faults_find(void *function, const char *name)
{
    void *const found = dlsym(RTLD_NEXT, name);
    if (!found)
        abort();
    memcpy(function, &found, sizeof found);
}
