// SPDX-License-Identifier: Apache-2.0
/* The allocating functions. strdup and its like are written out, as those of the C library or of a
 * sanitizer need not call the malloc that stands here. What frees is left alone. */
#undef _FORTIFY_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "faults.h"

static bool fails(void)
{
    if (!hr_faults_strike(HR_FAULT_ALLOC))
        return false;
    errno = ENOMEM;
    return true;
}

/* dlsym does not allocate when it finds the name, so that the first malloc may come here. */
static void *next_malloc(size_t size)
{
    static void *(*next)(size_t);
    if (!next)
        hr_faults_find(&next, "malloc");
    return next(size);
}

void *malloc(size_t size)
{
    return fails() ? NULL : next_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    static void *(*next)(size_t, size_t);
    if (!next)
        hr_faults_find(&next, "calloc");
    return fails() ? NULL : next(count, size);
}

void *realloc(void *old, size_t size)
{
    static void *(*next)(void *, size_t);
    if (!next)
        hr_faults_find(&next, "realloc");
    return fails() ? NULL : next(old, size);
}

void *reallocarray(void *old, size_t count, size_t size)
{
    static void *(*next)(void *, size_t, size_t);
    if (!next)
        hr_faults_find(&next, "reallocarray");
    return fails() ? NULL : next(old, count, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    static void *(*next)(size_t, size_t);
    if (!next)
        hr_faults_find(&next, "aligned_alloc");
    return fails() ? NULL : next(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    static int (*next)(void **, size_t, size_t);
    if (!next)
        hr_faults_find(&next, "posix_memalign");
    return hr_faults_strike(HR_FAULT_ALLOC) ? ENOMEM : next(out, alignment, size);
}

#undef strndup
char *strndup(const char *text, size_t most)
{
    const size_t size = strnlen(text, most);
    char *copy = fails() ? NULL : next_malloc(size + 1);
    if (copy) {
        memcpy(copy, text, size);
        copy[size] = 0;
    }
    return copy;
}

#undef strdup
char *strdup(const char *text)
{
    return strndup(text, SIZE_MAX);
}

/* Files that are mapped (libraries, when they are loaded) are none of ours. */
void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
    static void *(*next)(void *, size_t, int, int, int, off_t);
    if (!next)
        hr_faults_find(&next, "mmap");
    if ((flags & MAP_ANONYMOUS) && fails())
        return MAP_FAILED;
    return next(address, size, protection, flags, fd, offset);
}

struct start {
    void *(*function)(void *);
    void *argument;
};

/* What the C library or a sanitizer does in a new thread before and after is not counted. */
static void *start_thread(void *argument)
{
    const struct start start = *(struct start *)argument;
    free(argument);
    hr_faults_exempt(false);
    void *const result = start.function(start.argument);
    hr_faults_exempt(true);
    return result;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *),
                   void *argument)
{
    static int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!next)
        hr_faults_find(&next, "pthread_create");
    struct start *start = hr_faults_strike(HR_FAULT_ALLOC) ? NULL : next_malloc(sizeof *start);
    if (!start)
        return EAGAIN;
    *start = (struct start){.function = function, .argument = argument};
    const bool before = hr_faults_exempt(true); /* one failure, wherever it is in there */
    const int error = next(thread, attributes, start_thread, start);
    hr_faults_exempt(before);
    if (error)
        free(start);
    return error;
}
