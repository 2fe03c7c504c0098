// SPDX-License-Identifier: Apache-2.0
#include "driver_calls.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

struct driver_calls cuda;

static bool find_calls(void *library)
{
    void *found = NULL;
#define CUDA_FIND(field, symbol, parameters)                                                       \
    found = dlsym(library, symbol);                                                                \
    if (!found) {                                                                                  \
        printf("# the driver has no %s\n", symbol);                                                \
        return false;                                                                              \
    }                                                                                              \
    memcpy(&cuda.field, &found, sizeof found);
    CUDA_CALLS(CUDA_FIND)
#undef CUDA_FIND
    return true;
}

bool cuda_ok(int result, const char *what)
{
    const char *text = NULL;
    if (result == 0)
        return true;
    if (cuda.error_text(result, &text) != 0 || !text)
        text = "unknown";
    printf("not ok # %s: error %d, %s\n", what, result, text);
    return false;
}

static void print_device(int device)
{
    enum { MAJOR = 75, MINOR = 76, PROCESSORS = 16 }; /* CUdevice_attribute */
    char name[128] = "";
    int version = 0;
    int major = 0;
    int minor = 0;
    int n = 0;
    cuda.device_name(name, sizeof name, device);
    cuda.driver_version(&version);
    cuda.device_attribute(&major, MAJOR, device);
    cuda.device_attribute(&minor, MINOR, device);
    cuda.device_attribute(&n, PROCESSORS, device);
    printf("# %s, compute capability %d.%d, %d multiprocessors, driver API %d\n", name, major,
           minor, n, version);
}

bool cuda_open(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *context = NULL;
    int device = 0;
    if (!library) {
        printf("# %s\n", dlerror());
        return false;
    }
    if (!find_calls(library) || !cuda_ok(cuda.init(0), "cuInit") ||
        !cuda_ok(cuda.device_get(&device, 0), "cuDeviceGet") ||
        !cuda_ok(cuda.context_retain(&context, device), "cuDevicePrimaryCtxRetain") ||
        !cuda_ok(cuda.context_set(context), "cuCtxSetCurrent"))
        return false;
    print_device(device);
    return true;
}
