// SPDX-License-Identifier: Apache-2.0
/* The few calls of NVIDIA's driver that the test of built-in kernels makes, found at run time. */
#ifndef HR_CUDA_CALLS_H
#define HR_CUDA_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t cuda_memory; /* CUdeviceptr */

/* X(field, symbol, parameters); each returns a CUresult. */
#define CUDA_CALLS(X)                                                                              \
    X(init, "cuInit", (unsigned))                                                                  \
    X(device_get, "cuDeviceGet", (int *, int))                                                     \
    X(device_name, "cuDeviceGetName", (char *, int, int))                                          \
    X(device_attribute, "cuDeviceGetAttribute", (int *, int, int))                                 \
    X(driver_version, "cuDriverGetVersion", (int *))                                               \
    X(context_retain, "cuDevicePrimaryCtxRetain", (void **, int))                                  \
    X(context_set, "cuCtxSetCurrent", (void *))                                                    \
    X(synchronize, "cuCtxSynchronize", (void))                                                     \
    X(module_load, "cuModuleLoadDataEx", (void **, const void *, unsigned, int *, void **))        \
    X(module_function, "cuModuleGetFunction", (void **, void *, const char *))                     \
    X(module_unload, "cuModuleUnload", (void *))                                                   \
    X(function_attribute, "cuFuncGetAttribute", (int *, int, void *))                              \
    X(alloc, "cuMemAlloc_v2", (cuda_memory *, size_t))                                             \
    X(to_device, "cuMemcpyHtoD_v2", (cuda_memory, const void *, size_t))                           \
    X(to_host, "cuMemcpyDtoH_v2", (void *, cuda_memory, size_t))                                   \
    X(on_device, "cuMemcpyDtoDAsync_v2", (cuda_memory, cuda_memory, size_t, void *))               \
    X(set, "cuMemsetD8_v2", (cuda_memory, unsigned char, size_t))                                  \
    X(event_create, "cuEventCreate", (void **, unsigned))                                          \
    X(event_record, "cuEventRecord", (void *, void *))                                             \
    X(event_synchronize, "cuEventSynchronize", (void *))                                           \
    X(elapsed, "cuEventElapsedTime", (float *, void *, void *))                                    \
    X(error_text, "cuGetErrorString", (int, const char **))                                        \
    X(launch, "cuLaunchKernel",                                                                    \
      (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,       \
       void **, void **))

#define CUDA_FIELD(field, symbol, parameters) int(*field) parameters;
struct driver_calls {
    CUDA_CALLS(CUDA_FIELD)
};
#undef CUDA_FIELD

extern struct driver_calls cuda;

/* Finds the driver and makes the first device's context current. False, with a line on stdout: there
 * is none. */
bool cuda_open(void);

/* Prints and remembers a failure; true if result is none. */
bool cuda_ok(int result, const char *what);

#endif
