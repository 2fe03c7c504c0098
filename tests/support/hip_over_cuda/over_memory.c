// SPDX-License-Identifier: Apache-2.0
/* HIP over CUDA: memory of the device, and what is registered of the host's. */
#include "over_core.h"

static CUdeviceptr address(const void *memory)
{
    return (uintptr_t)memory;
}

hipError_t hipMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    OVER(over_cuda->mem_get_info(free_bytes, total_bytes));
}

static int alloc(void **out, size_t size)
{
    CUdeviceptr memory = 0;
    const int status = over_cuda->mem_alloc(&memory, size);
    *out = (void *)(uintptr_t)memory;
    return status;
}

hipError_t hipMalloc(void **out, size_t size)
{
    OVER(alloc(out, size));
}

/* What went wrong while waiting is told, but the memory goes all the same. */
hipError_t hipFree(void *memory)
{
    const int waiting = over_wait_for_device();
    const int status = memory && over_cuda ? over_cuda->mem_free(address(memory)) : 0;
    return over_end(status != 0 ? status : waiting);
}

/* Flags are CUDA's. HIP takes memory that it knows a second time and says nothing. */
static int register_memory(void *memory, size_t size, unsigned flags)
{
    const int status = over_cuda->mem_host_register(memory, size, flags);
    return status == HR__CUDA_ALREADY_REGISTERED ? 0 : status;
}

hipError_t hipHostRegister(void *memory, size_t size, unsigned flags)
{
    if (!memory || size == 0)
        return over_end(HR__HIP_INVALID_VALUE);
    OVER(register_memory(memory, size, flags));
}

hipError_t hipHostUnregister(void *memory)
{
    const int waiting = over_wait_for_device();
    const int status = over_cuda ? over_cuda->mem_host_unregister(memory) : 0;
    return over_end(status != 0 ? status : waiting);
}

struct home {
    unsigned type; /* CUDA's, 0: unknown */
    int device;
    unsigned is_managed;
    CUdeviceptr begin;
};

/* cuda.h: in memory that it does not know, values are 0 or left as they are. */
static int find_home(const void *memory, struct home *home)
{
    CUpointer_attribute attributes[] = {HR__CUDA_MEMORY_TYPE, HR__CUDA_DEVICE_ORDINAL,
                                        HR__CUDA_IS_MANAGED, HR__CUDA_RANGE_START};
    void *values[] = {&home->type, &home->device, &home->is_managed, &home->begin};
    return over_cuda->pointer_get_attributes(4, attributes, values, address(memory));
}

/* Addresses are the same on both sides. */
static int tell_home(hipPointerAttribute_t *out, const void *memory)
{
    enum { MANAGED = 3 };
    struct home home = {.device = -2}; /* hip_runtime_api.h: hipInvalidDeviceId */
    const int status = find_home(memory, &home);
    const int type = hip_abi_memory_type(HIP_OVER_CUDA_ROCM,
                                         home.type != 0 && home.is_managed ? MANAGED : home.type);
    if (status != 0 || type < 0)
        return status != 0 ? status : HR__HIP_INVALID_VALUE;
    void *same = (void *)(uintptr_t)address(memory);
    *out = (hipPointerAttribute_t){.type = type,
                                   .device = home.device,
                                   .device_pointer = home.type != 0 ? same : NULL,
                                   .host_pointer = home.type == HR__CUDA_TYPE_HOST ? same : NULL,
                                   .is_managed = home.is_managed != 0};
    return 0;
}

/* Of NULL, versions up to 6 say that it is an error. */
hipError_t hipPointerGetAttributes(hipPointerAttribute_t *out, const void *memory)
{
    if (!out || (!memory && HIP_OVER_CUDA_ROCM < 7))
        return over_end(HR__HIP_INVALID_VALUE);
    OVER(tell_home(out, memory));
}

static int tell_begin(void **out, const void *memory)
{
    struct home home = {0};
    const int status = find_home(memory, &home);
    if (status != 0 || home.type == 0)
        return status != 0 ? status : HR__HIP_INVALID_VALUE;
    *out = (void *)(uintptr_t)home.begin;
    return 0;
}

hipError_t hipPointerGetAttribute(void *value, hipPointer_attribute attribute,
                                  hipDeviceptr_t memory)
{
    if (attribute != HR__HIP_RANGE_START)
        return over_end(HR__HIP_INVALID_VALUE);
    OVER(tell_begin(value, memory));
}
