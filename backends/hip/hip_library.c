// SPDX-License-Identifier: Apache-2.0
/* Finds HIP's library and its calls. Its number is HIP's major version, and several of them may be
 * installed: one that the process has loaded already, for PyTorch say, is taken whatever it is,
 * since two of them crash each other. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "gpu_library.h"
#include "hip_driver.h"

enum { WHY_BYTES = 256 };

/* Set once. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct hr__hip_calls calls;
static bool is_loaded;
static char reason[WHY_BYTES];

static bool find(void *library, const char *symbol, void *field)
{
    const bool found = hr__gpu_library_find(library, symbol, field);
    if (!found)
        snprintf(reason, sizeof reason,
                 "the driver is too old: libamdhip64 has no %s, ROCm 5.0 has", symbol);
    return found;
}

/* HR_LIBAMDHIP64 is for tests: another library in the place of HIP's. */
static void *open_library(void)
{
    static const char *const names[] = {"libamdhip64.so.10",
                                        "libamdhip64.so.7",
                                        "libamdhip64.so.6",
                                        "libamdhip64.so.5",
                                        "libamdhip64.so",
                                        "/opt/rocm/lib/libamdhip64.so",
                                        NULL};
    const char *const given[] = {getenv("HR_LIBAMDHIP64"), NULL};
    return hr__gpu_library_open(given[0] ? given : names, reason, sizeof reason);
}

static void load(void)
{
    calls.library = open_library();
    if (!calls.library)
        return;
#define FIND(type, symbol, field, params)                                                          \
    if (!find(calls.library, #symbol, &calls.field))                                               \
        return;
    HR__HIP_CALLS(FIND)
#undef FIND
#define LOOK_FOR(type, symbol, field, params)                                                      \
    hr__gpu_library_find(calls.library, #symbol, &calls.field);
    HR__HIP_5_2_CALLS(LOOK_FOR)
    HR__HIP_6_CALLS(LOOK_FOR)
#undef LOOK_FOR
    is_loaded = true;
}

const struct hr__hip_calls *hr__hip_load(char *why, size_t why_size)
{
    pthread_once(&once, load);
    if (!is_loaded && why_size > 0)
        snprintf(why, why_size, "%s", reason);
    return is_loaded ? &calls : NULL;
}

/* hip_version.h: 10000000 * major + 100000 * minor + patch. */
void hr__hip_version(const struct hr__hip_calls *hip, int *major, int *minor)
{
    int number = 0;
    if (hip->runtime_get_version(&number) != 0)
        number = 0;
    *major = number / 10000000;
    *minor = number / 100000 % 100;
}
