// SPDX-License-Identifier: Apache-2.0
/* HIP over CUDA: streams, events, copies, modules. Handles are CUDA's, and so are flags. */
#include "over_core.h"

static CUdeviceptr address(const void *memory)
{
    return (uintptr_t)memory;
}

/* ---- streams and events ---- */

hipError_t hipStreamCreateWithFlags(hipStream_t *out, unsigned flags)
{
    OVER(over_cuda->stream_create(out, flags));
}

hipError_t hipStreamDestroy(hipStream_t stream)
{
    return over_end(over_cuda->stream_destroy(stream));
}

hipError_t hipStreamSynchronize(hipStream_t stream)
{
    OVER(over_cuda->stream_synchronize(stream));
}

hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags)
{
    OVER(over_cuda->stream_wait_event(stream, event, flags));
}

hipError_t hipEventCreateWithFlags(hipEvent_t *out, unsigned flags)
{
    OVER(over_cuda->event_create(out, flags));
}

hipError_t hipEventDestroy(hipEvent_t event)
{
    return over_end(over_cuda->event_destroy(event));
}

hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream)
{
    OVER(over_cuda->event_record(event, stream));
}

hipError_t hipEventQuery(hipEvent_t event)
{
    OVER(over_cuda->event_query(event));
}

hipError_t hipEventSynchronize(hipEvent_t event)
{
    OVER(over_cuda->event_synchronize(event));
}

hipError_t hipEventElapsedTime(float *ms, hipEvent_t from, hipEvent_t to)
{
    OVER(over_cuda->event_elapsed_time(ms, from, to));
}

/* ---- copies ---- */

static int copy(void *to, const void *from, size_t size, hipMemcpyKind kind, hipStream_t stream)
{
    switch (kind) {
    case HR__HIP_COPY_H2D:
        return over_cuda->memcpy_h2d(address(to), from, size, stream);
    case HR__HIP_COPY_D2H:
        return over_cuda->memcpy_d2h(to, address(from), size, stream);
    case HR__HIP_COPY_D2D:
        return over_cuda->memcpy_d2d(address(to), address(from), size, stream);
    default:
        return HR__HIP_INVALID_VALUE;
    }
}

hipError_t hipMemcpyAsync(void *to, const void *from, size_t size, hipMemcpyKind kind,
                          hipStream_t stream)
{
    OVER(copy(to, from, size, kind, stream));
}

hipError_t hipMemsetD32Async(hipDeviceptr_t to, int word, size_t n, hipStream_t stream)
{
    OVER(over_cuda->memset_d32(address(to), (unsigned)word, n, stream));
}

/* ---- modules ---- */

hipError_t hipModuleLoadData(hipModule_t *out, const void *image)
{
    OVER(over_cuda->module_load_data(out, image, 0, NULL, NULL));
}

hipError_t hipModuleUnload(hipModule_t module)
{
    OVER(over_cuda->module_unload(module));
}

hipError_t hipModuleGetFunction(hipFunction_t *out, hipModule_t module, const char *name)
{
    OVER(over_cuda->module_get_function(out, module, name));
}

/* The one attribute that is asked for has the same number. */
hipError_t hipFuncGetAttribute(int *value, hipFunction_attribute attribute, hipFunction_t function)
{
    if (attribute != HR__HIP_MAX_THREADS_PER_BLOCK)
        return over_end(HR__HIP_INVALID_VALUE);
    OVER(over_cuda->func_get_attribute(value, attribute, function));
}

hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned grid_x, unsigned grid_y,
                                 unsigned grid_z, unsigned block_x, unsigned block_y,
                                 unsigned block_z, unsigned shared_bytes, hipStream_t stream,
                                 void **params, void **extra)
{
    if ((uint64_t)grid_x * block_x > UINT32_MAX || (uint64_t)grid_y * block_y > UINT32_MAX ||
        (uint64_t)grid_z * block_z > UINT32_MAX)
        return over_end(HR__HIP_INVALID_VALUE);
    OVER(over_cuda->launch_kernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                                  shared_bytes, stream, params, extra));
}
