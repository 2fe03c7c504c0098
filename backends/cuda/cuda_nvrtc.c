// SPDX-License-Identifier: Apache-2.0
/* CUDA C++ to code for the device, by NVRTC: opened when the first source is compiled. It makes the
 * machine's code, not PTX: drivers refuse PTX that is newer than they are. */
#include "cuda_nvrtc.h"

#include <pthread.h>
#include <stdio.h>

#include "cuda_driver.h"
#include "gpu_library.h"

/* Set once. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct hr__gpu_rtc nvrtc = {
    .name = "NVRTC",
    .arch_option = "--gpu-architecture=",
    .exact_option = "--fmad=false",
};

static bool find(void *library, const char *symbol, void *field)
{
    const bool found = hr__gpu_library_find(library, symbol, field);
    if (!found)
        snprintf(nvrtc.why_not, sizeof nvrtc.why_not,
                 "it is too old: it has no %s, that of CUDA 11.1 has", symbol);
    return found;
}

/* The name's number is CUDA's major version; that of 11 stayed at 11.2. */
static void load(void)
{
    static const char *const names[] = {"libnvrtc.so.13",
                                        "libnvrtc.so.12",
                                        "libnvrtc.so.11.2",
                                        "libnvrtc.so.11.1",
                                        "libnvrtc.so",
                                        "/usr/local/cuda/lib64/libnvrtc.so",
                                        NULL};
    void *library = hr__gpu_library_open(names, nvrtc.why_not, sizeof nvrtc.why_not);
    if (!library)
        return;
#define FIND(type, symbol, field, params)                                                          \
    if (!find(library, #symbol, &nvrtc.field))                                                     \
        return;
    HR__NVRTC_CALLS(FIND)
#undef FIND
    nvrtc.is_loaded = true;
}

static hr_status compile(const struct hr__gpu_source *source, void **image, size_t *size,
                         hr_error *error)
{
    pthread_once(&once, load);
    return hr__gpu_rtc_compile(&nvrtc, source, image, size, error);
}

const struct hr__gpu_compiler hr__cuda_compiler = {.compile = compile};
