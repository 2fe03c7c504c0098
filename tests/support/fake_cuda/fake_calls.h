// SPDX-License-Identifier: Apache-2.0
/* What the fake driver exports, as the real one does. */
#ifndef FAKE_CALLS_H
#define FAKE_CALLS_H

#include <stddef.h>

struct fake_uuid {
    char bytes[16];
};

int cuInit(unsigned flags);
int cuDriverGetVersion(int *version);
int cuGetErrorName(int result, const char **text);
int cuGetErrorString(int result, const char **text);
int cuDeviceGetCount(int *n);
int cuDeviceGet(int *device, int index);
int cuDeviceGetName(char *name, int size, int device);
int cuDeviceGetUuid(struct fake_uuid *uuid, int device);
int cuDeviceGetAttribute(int *value, int attribute, int device);
int cuDeviceTotalMem_v2(size_t *bytes, int device);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuDevicePrimaryCtxRelease_v2(int device);
int cuCtxPushCurrent_v2(void *context);
int cuCtxPopCurrent_v2(void **context);
int cuCtxSynchronize(void);
int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes);
int cuMemAlloc_v2(unsigned long long *out, size_t size);
int cuMemFree_v2(unsigned long long address);
int cuMemHostRegister_v2(void *memory, size_t size, unsigned flags);
int cuMemHostUnregister(void *memory);
int cuPointerGetAttributes(unsigned n, int *attributes, void **values, unsigned long long address);
int cuStreamCreate(void **out, unsigned flags);
int cuStreamDestroy_v2(void *handle);
int cuStreamSynchronize(void *handle);
int cuStreamWaitEvent(void *handle, void *event, unsigned flags);
int cuEventCreate(void **out, unsigned flags);
int cuEventDestroy_v2(void *handle);
int cuEventRecord(void *handle, void *stream);
int cuEventQuery(void *handle);
int cuEventSynchronize(void *handle);
int cuEventElapsedTime(float *ms, void *from, void *to);
int cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t size, void *stream);
int cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t size, void *stream);
int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t size, void *stream);
int cuMemsetD32Async(unsigned long long to, unsigned word, size_t n, void *stream);
int cuModuleLoadDataEx(void **out, const void *image, unsigned n, int *options, void **values);
int cuModuleUnload(void *module);
int cuModuleGetFunction(void **out, void *module, const char *name);
int cuFuncGetAttribute(int *value, int attribute, void *function);
int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                   void *stream, void **params, void **extra);

#endif
