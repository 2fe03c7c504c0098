// SPDX-License-Identifier: Apache-2.0
/* HIP's library for tests without a GPU, over the fake driver of ../fake_cuda, which has the same
 * numbers: libamdhip64.so.FAKE_HIP_ROCM, which is 5, 6 or 7, with what these do differently. 4 is
 * one that lacks a call. Its prototypes are the backend's, and these are compared with HIP's
 * headers. Faults and watchers of the driver see HIP's calls, by their names.
 *
 * What it does as the real one was seen or read to: a current device for each thread; the first
 * call without devices fails in other words than the next ones; memory that is registered twice is
 * no error; images are judged and read as fake_image.c tells; a stream or event that is no more ends
 * the process; from 7 on, the last error of a thread stays until it is asked for. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_calls.h"
#include "fake_core.h"
#include "fake_hip.h"
#include "hip_abi.h"
#include "hip_driver.h"

#define DECLARE(type, symbol, field, params) type symbol params;
HR__HIP_CALLS(DECLARE)
HR__HIP_5_2_CALLS(DECLARE)
HR__HIP_6_CALLS(DECLARE)

enum { N_DEVICES = FAKE_N_DEVICES };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void *contexts[N_DEVICES];
static __thread int current;
static __thread int last_error;

/* ---- the begin and end of every call ---- */

static int tell(int status)
{
    return hip_abi_note(FAKE_HIP_ROCM, &last_error, status);
}

/* For good: contexts that HIP keeps are nobody's to release. */
static void retain(void)
{
    if (cuInit(0) != 0)
        return;
    for (int i = 0; i < N_DEVICES; i++)
        cuDevicePrimaryCtxRetain(&contexts[i], i);
    pthread_mutex_lock(&fake_lock);
    fake_live.contexts -= N_DEVICES;
    pthread_mutex_unlock(&fake_lock);
}

/* Inside of the current device's context. What the call is to fail with, or 0. */
static int begin(const char *call)
{
    fake_hide_calls(true);
    pthread_once(&once, retain);
    int status = contexts[current] ? cuCtxPushCurrent_v2(contexts[current]) : HR__HIP_NO_DEVICE;
    fake_hide_calls(false);
    if (status == 0)
        status = fake_begin(call, false);
    fake_hide_calls(true);
    return status;
}

static int end(int status)
{
    void *context;
    cuCtxPopCurrent_v2(&context);
    fake_hide_calls(false);
    return tell(status);
}

#define DO(call)                                                                                   \
    int status = begin(__func__);                                                                  \
    if (status == 0)                                                                               \
        status = call;                                                                             \
    return end(status)

/* A call that gives something back does so whatever it says. */
#define GIVE_BACK(call)                                                                            \
    const int failure = begin(__func__);                                                           \
    const int status = call;                                                                       \
    return end(failure != 0 ? failure : status)

/* ---- start, errors ---- */

static bool is_hidden(const char *variable)
{
    const char *visible = getenv(variable);
    return visible && (visible[0] == '\0' || visible[0] == '-');
}

static int count_devices(int *n)
{
    static bool was_asked;
    static const int first = FAKE_HIP_ROCM == 6 ? HR__HIP_INVALID_DEVICE : HR__HIP_NO_DEVICE;
    const bool is_first = !__atomic_exchange_n(&was_asked, true, __ATOMIC_RELAXED);
    if (is_hidden("HIP_VISIBLE_DEVICES") || is_hidden("ROCR_VISIBLE_DEVICES"))
        return is_first ? first : HR__HIP_NO_DEVICE;
    return cuDeviceGetCount(n);
}

hipError_t hipGetDeviceCount(int *n)
{
    *n = 0;
    DO(count_devices(n));
}

hipError_t hipRuntimeGetVersion(int *version)
{
    *version = hip_abi_version(FAKE_HIP_ROCM);
    DO(0);
}

const char *hipGetErrorString(hipError_t error)
{
    const char *text = NULL;
    cuGetErrorString(error, &text);
    return text;
}

hipError_t hipGetLastError(void)
{
    const int error = last_error;
    last_error = HR__HIP_SUCCESS;
    return error;
}

hipError_t hipPeekAtLastError(void)
{
    return last_error;
}

/* ---- devices ---- */

hipError_t hipDeviceGetName(char *name, int size, hipDevice_t device)
{
    DO(cuDeviceGetName(name, size, device));
}

/* 16 digits, without an end. */
hipError_t hipDeviceGetUuid(hipUUID *uuid, hipDevice_t device)
{
    memcpy(uuid->bytes, device == 0 ? "a0a1a2a3a4a5a6a7" : "b0b1b2b3b4b5b6b7", sizeof uuid->bytes);
    DO(0);
}

hipError_t hipDeviceGetPCIBusId(char *id, int size, int device)
{
    snprintf(id, (size_t)size, "0000:%02x:00.0", 0x17 + device);
    DO(0);
}

hipError_t hipDeviceGetAttribute(int *value, hipDeviceAttribute_t attribute, int device)
{
    enum { PROCESSORS = 16 };
    if (attribute != HR__HIP_PROCESSOR_COUNT)
        return tell(HR__HIP_INVALID_VALUE);
    DO(cuDeviceGetAttribute(value, PROCESSORS, device));
}

hipError_t hipDeviceTotalMem(size_t *bytes, hipDevice_t device)
{
    DO(cuDeviceTotalMem_v2(bytes, device));
}

/* All but the name of the architecture is what no program should read. */
static int set_properties(hipDeviceProp_t *properties, size_t size, size_t arch_at)
{
    memset(properties->bytes, 'x', size);
    snprintf(properties->bytes + arch_at, HR__HIP_ARCH_BYTES, "%s", fake_hip_arch());
    return 0;
}

hipError_t hipGetDeviceProperties(hipDeviceProp_t *properties, int device)
{
    (void)device;
    DO(set_properties(properties, HIP_ABI_OLD_BYTES, HR__HIP_5_ARCH_AT));
}

#if FAKE_HIP_ROCM >= 6
hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_t *properties, int device)
{
    (void)device;
    DO(set_properties(properties, HIP_ABI_NEW_BYTES, HR__HIP_6_ARCH_AT));
}
#endif

static int set_device(int device)
{
    if (device < 0 || device >= N_DEVICES)
        return HR__HIP_INVALID_DEVICE;
    current = device;
    return 0;
}

hipError_t hipSetDevice(int device)
{
    DO(set_device(device));
}

hipError_t hipGetDevice(int *device)
{
    *device = current;
    DO(0);
}

/* ---- memory ---- */

hipError_t hipMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    DO(cuMemGetInfo_v2(free_bytes, total_bytes));
}

static int alloc(void **out, size_t size)
{
    unsigned long long memory = 0;
    const int status = cuMemAlloc_v2(&memory, size);
    *out = (void *)(uintptr_t)memory;
    return status;
}

hipError_t hipMalloc(void **out, size_t size)
{
    int status = begin(__func__);
    *out = NULL;
    if (status == 0)
        status = alloc(out, size);
    return end(status == FAKE_SILENT ? 0 : status);
}

hipError_t hipFree(void *memory)
{
    GIVE_BACK(cuMemFree_v2((uintptr_t)memory));
}

static int register_memory(void *memory, size_t size, unsigned flags)
{
    const int status = cuMemHostRegister_v2(memory, size, flags);
    return status == HR__HIP_ALREADY_REGISTERED ? 0 : status;
}

hipError_t hipHostRegister(void *memory, size_t size, unsigned flags)
{
    if (size == 0 || flags != (HR__HIP_REGISTER_PORTABLE | HR__HIP_REGISTER_MAPPED))
        return tell(HR__HIP_INVALID_VALUE);
    DO(register_memory(memory, size, flags));
}

hipError_t hipHostUnregister(void *memory)
{
    GIVE_BACK(cuMemHostUnregister(memory));
}

/* What the driver says: no memory of its own, the host's, or a device's. */
static int ask(const void *memory, unsigned *type, int *device, void **begin)
{
    enum { MEMORY_TYPE = 2, DEVICE_ORDINAL = 9, RANGE_START = 11 };
    int attributes[] = {MEMORY_TYPE, DEVICE_ORDINAL, RANGE_START};
    unsigned long long address = 0;
    void *values[] = {type, device, &address};
    const int status = cuPointerGetAttributes(3, attributes, values, (uintptr_t)memory);
    *begin = (void *)(uintptr_t)address;
    return status;
}

static int tell_home(hipPointerAttribute_t *out, const void *memory)
{
    unsigned type = 0;
    int device = 0;
    void *begin;
    const int status = ask(memory, &type, &device, &begin);
    const int type_here = hip_abi_memory_type(FAKE_HIP_ROCM, type);
    if (status != 0 || type_here < 0)
        return status != 0 ? status : HR__HIP_INVALID_VALUE;
    *out = (hipPointerAttribute_t){.type = type_here, .device = device};
    return 0;
}

hipError_t hipPointerGetAttributes(hipPointerAttribute_t *out, const void *memory)
{
    DO(tell_home(out, memory));
}

#if FAKE_HIP_ROCM >= 5
static int tell_begin(void **out, const void *memory)
{
    unsigned type = 0;
    int device = 0;
    const int status = ask(memory, &type, &device, out);
    return status == 0 && type == 0 ? HR__HIP_INVALID_VALUE : status;
}

hipError_t hipPointerGetAttribute(void *value, hipPointer_attribute attribute,
                                  hipDeviceptr_t memory)
{
    if (attribute != HR__HIP_RANGE_START)
        return tell(HR__HIP_INVALID_VALUE);
    DO(tell_begin(value, memory));
}
#endif

/* ---- streams, events, copies ---- */

hipError_t hipStreamCreateWithFlags(hipStream_t *out, unsigned flags)
{
    DO(cuStreamCreate(out, flags));
}

hipError_t hipStreamDestroy(hipStream_t stream)
{
    GIVE_BACK(cuStreamDestroy_v2(stream));
}

hipError_t hipStreamSynchronize(hipStream_t stream)
{
    DO(cuStreamSynchronize(stream));
}

hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags)
{
    DO(cuStreamWaitEvent(stream, event, flags));
}

hipError_t hipEventCreateWithFlags(hipEvent_t *out, unsigned flags)
{
    DO(cuEventCreate(out, flags));
}

hipError_t hipEventDestroy(hipEvent_t event)
{
    GIVE_BACK(cuEventDestroy_v2(event));
}

hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream)
{
    DO(cuEventRecord(event, stream));
}

hipError_t hipEventQuery(hipEvent_t event)
{
    DO(cuEventQuery(event));
}

hipError_t hipEventSynchronize(hipEvent_t event)
{
    DO(cuEventSynchronize(event));
}

hipError_t hipEventElapsedTime(float *ms, hipEvent_t from, hipEvent_t to)
{
    DO(cuEventElapsedTime(ms, from, to));
}

static int copy(void *to, const void *from, size_t size, hipMemcpyKind kind, hipStream_t stream)
{
    const uintptr_t to_address = (uintptr_t)to;
    const uintptr_t from_address = (uintptr_t)from;
    if (kind == HR__HIP_COPY_H2D)
        return cuMemcpyHtoDAsync_v2(to_address, from, size, stream);
    if (kind == HR__HIP_COPY_D2H)
        return cuMemcpyDtoHAsync_v2(to, from_address, size, stream);
    return kind == HR__HIP_COPY_D2D ? cuMemcpyDtoDAsync_v2(to_address, from_address, size, stream)
                                    : HR__HIP_INVALID_VALUE;
}

hipError_t hipMemcpyAsync(void *to, const void *from, size_t size, hipMemcpyKind kind,
                          hipStream_t stream)
{
    DO(copy(to, from, size, kind, stream));
}

hipError_t hipMemsetD32Async(hipDeviceptr_t to, int word, size_t n, hipStream_t stream)
{
    DO(cuMemsetD32Async((uintptr_t)to, (unsigned)word, n, stream));
}

/* ---- modules ---- */

struct module {
    void *of_driver;
    struct fake_hip_image image;
};

static int load(void **out, const void *image)
{
    struct module loaded;
    int status = fake_hip_take_image(&loaded.image, image);
    if (status == 0)
        status = cuModuleLoadDataEx(&loaded.of_driver, "fake", 0, NULL, NULL);
    if (status != 0)
        return status;
    struct module *module = malloc(sizeof *module);
    *module = loaded;
    *out = module;
    return 0;
}

hipError_t hipModuleLoadData(hipModule_t *out, const void *image)
{
    DO(load(out, image));
}

static int unload(struct module *module)
{
    void *of_driver = module->of_driver;
    fake_hip_check_image(&module->image);
    free(module);
    return cuModuleUnload(of_driver);
}

hipError_t hipModuleUnload(hipModule_t module)
{
    GIVE_BACK(unload(module));
}

static int get_function(hipFunction_t *out, const struct module *module, const char *name)
{
    fake_hip_check_image(&module->image);
    return cuModuleGetFunction(out, module->of_driver, name);
}

hipError_t hipModuleGetFunction(hipFunction_t *out, hipModule_t module, const char *name)
{
    DO(get_function(out, module, name));
}

hipError_t hipFuncGetAttribute(int *value, hipFunction_attribute attribute, hipFunction_t function)
{
    DO(cuFuncGetAttribute(value, attribute, function));
}

hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned grid_x, unsigned grid_y,
                                 unsigned grid_z, unsigned block_x, unsigned block_y,
                                 unsigned block_z, unsigned shared_bytes, hipStream_t stream,
                                 void **params, void **extra)
{
    if ((unsigned long long)grid_x * block_x > UINT32_MAX)
        return tell(HR__HIP_INVALID_VALUE);
    DO(cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes,
                      stream, params, extra));
}
