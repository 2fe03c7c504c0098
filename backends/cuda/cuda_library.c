// SPDX-License-Identifier: Apache-2.0
/* Finds the driver's library and its calls. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_driver.h"

enum { WHY_BYTES = 256 };

/* Set once. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct hr__cuda_calls calls;
static bool is_loaded;
static char reason[WHY_BYTES];

static void append(char *text, size_t size, const char *more)
{
    const size_t n = strlen(text);
    if (n + 1 < size)
        snprintf(text + n, size - n, "%s", more);
}

void *hr__cuda_open_library(const char *const *names, char *why, size_t why_size)
{
    void *library = NULL;
    for (size_t i = 0; names[i] && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD | RTLD_NODELETE);
    for (size_t i = 0; names[i] && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library || why_size == 0)
        return library;
    snprintf(why, why_size, "library not found: tried %s", names[0]);
    for (size_t i = 1; names[i]; i++) {
        append(why, why_size, ", ");
        append(why, why_size, names[i]);
    }
    return NULL;
}

/* POSIX: what dlsym returns may be read as a pointer to a function, which ISO C cannot cast to. */
static bool find(void *library, const char *symbol, void *field)
{
    void *address = dlsym(library, symbol);
    memcpy(field, &address, sizeof address);
    if (!address)
        snprintf(reason, sizeof reason, "the driver is too old: libcuda has no %s, CUDA 11.0 has",
                 symbol);
    return address;
}

/* HR_LIBCUDA is for tests: another library in the place of the driver's. */
static void load(void)
{
    const char *given = getenv("HR_LIBCUDA");
    const char *const names[] = {given ? given : "libcuda.so.1", given ? NULL : "libcuda.so", NULL};
    void *library = hr__cuda_open_library(names, reason, sizeof reason);
    if (!library)
        return;
#define FIND(symbol, field, params)                                                                \
    if (!find(library, #symbol, &calls.field))                                                     \
        return;
    HR__CUDA_CALLS(FIND)
#undef FIND
    is_loaded = true;
}

const struct hr__cuda_calls *hr__cuda_load(char *why, size_t why_size)
{
    pthread_once(&once, load);
    if (!is_loaded && why_size > 0)
        snprintf(why, why_size, "%s", reason);
    return is_loaded ? &calls : NULL;
}
