// SPDX-License-Identifier: Apache-2.0
/* Finds the driver's library and its calls. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "cuda_driver.h"
#include "gpu_library.h"

enum { WHY_BYTES = 256 };

/* Set once. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct hr__cuda_calls calls;
static bool is_loaded;
static char reason[WHY_BYTES];

static bool find(void *library, const char *symbol, void *field)
{
    const bool found = hr__gpu_library_find(library, symbol, field);
    if (!found)
        snprintf(reason, sizeof reason, "the driver is too old: libcuda has no %s, CUDA 11.0 has",
                 symbol);
    return found;
}

/* HR_LIBCUDA is for tests: another library in the place of the driver's. */
static void load(void)
{
    const char *given = getenv("HR_LIBCUDA");
    const char *const names[] = {given ? given : "libcuda.so.1", given ? NULL : "libcuda.so", NULL};
    void *library = hr__gpu_library_open(names, reason, sizeof reason);
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
