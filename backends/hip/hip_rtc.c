// SPDX-License-Identifier: Apache-2.0
/* HIP sources to code for the device, by hipRTC: opened when the first source is compiled.
 *
 * The architecture is always named, and only ever in the device's own words: without a name hipRTC
 * asks the current device, and with one that its compiler does not know that of ROCm 5.2 ends the
 * process (SIGABRT, seen). */
#include "hip_rtc.h"

#include <pthread.h>
#include <stdio.h>

#include "gpu_library.h"
#include "hip_driver.h"

enum { NAME_BYTES = 64 };

/* Set once. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct hr__gpu_rtc hiprtc = {
    .name = "hipRTC",
    .arch_option = "--offload-arch=",
    .exact_option = "-ffp-contract=off",
};

static bool find_all(void *library)
{
#define FIND(type, symbol, field, params)                                                          \
    if (!hr__gpu_library_find(library, #symbol, &hiprtc.field))                                    \
        return false;
    HR__HIPRTC_CALLS(FIND, const char *const *)
#undef FIND
    return true;
}

/* A library of its own, of HIP's number: another's would be another compiler's. Early versions 5
 * have the calls in HIP's library alone, and it lost them in 7. */
static void load(void)
{
    int major = 0;
    int minor = 0;
    char name[NAME_BYTES];
    char in_rocm[NAME_BYTES];
    const struct hr__hip_calls *hip = hr__hip_load(hiprtc.why_not, sizeof hiprtc.why_not);
    if (!hip)
        return;
    hr__hip_version(hip, &major, &minor);
    snprintf(name, sizeof name, "libhiprtc.so.%d", major);
    snprintf(in_rocm, sizeof in_rocm, "/opt/rocm/lib/libhiprtc.so.%d", major);
    const char *const names[] = {name, in_rocm, NULL};
    void *library = hr__gpu_library_open(names, hiprtc.why_not, sizeof hiprtc.why_not);
    hiprtc.is_loaded = (library && find_all(library)) || find_all(hip->library);
    if (library && !hiprtc.is_loaded)
        snprintf(hiprtc.why_not, sizeof hiprtc.why_not, "%s lacks calls of ROCm 5.0", name);
}

static hr_status compile(const struct hr__gpu_source *source, void **image, size_t *size,
                         hr_error *error)
{
    pthread_once(&once, load);
    return hr__gpu_rtc_compile(&hiprtc, source, image, size, error);
}

const struct hr__gpu_compiler hr__hip_compiler = {.compile = compile};
