// SPDX-License-Identifier: Apache-2.0
/* Prototypes and numbers of the CUDA driver, as of cuda.h, which is not needed to build. The types
 * have its names, so that a test can compare both where it is installed. */
#ifndef HR_CUDA_CALLS_H
#define HR_CUDA_CALLS_H

enum hr__cuda_result { /* CUresult */
                       HR__CUDA_SUCCESS = 0,
                       HR__CUDA_OUT_OF_MEMORY = 2,
                       HR__CUDA_NOT_INITIALIZED = 3,
                       HR__CUDA_STUB_LIBRARY = 34,
                       HR__CUDA_DEVICE_UNAVAILABLE = 46,
                       HR__CUDA_NO_DEVICE = 100,
                       HR__CUDA_INVALID_IMAGE = 200,
                       HR__CUDA_NO_BINARY_FOR_GPU = 209,
                       HR__CUDA_ECC_UNCORRECTABLE = 214,
                       HR__CUDA_INVALID_PTX = 218,
                       HR__CUDA_NVLINK_UNCORRECTABLE = 220,
                       HR__CUDA_UNSUPPORTED_PTX_VERSION = 222,
                       HR__CUDA_CONTAINED = 226,
                       HR__CUDA_NOT_FOUND = 500,
                       HR__CUDA_NOT_READY = 600,
                       HR__CUDA_ILLEGAL_ADDRESS = 700,
                       HR__CUDA_LAUNCH_TIMEOUT = 702,
                       HR__CUDA_CONTEXT_IS_DESTROYED = 709,
                       HR__CUDA_ASSERT = 710,
                       HR__CUDA_ALREADY_REGISTERED = 712,
                       HR__CUDA_HARDWARE_STACK_ERROR = 714,
                       HR__CUDA_ILLEGAL_INSTRUCTION = 715,
                       HR__CUDA_MISALIGNED_ADDRESS = 716,
                       HR__CUDA_INVALID_ADDRESS_SPACE = 717,
                       HR__CUDA_INVALID_PC = 718,
                       HR__CUDA_LAUNCH_FAILED = 719,
                       HR__CUDA_TENSOR_MEMORY_LEAK = 721,
                       HR__CUDA_SYSTEM_DRIVER_MISMATCH = 803,
                       HR__CUDA_COMPAT_NOT_SUPPORTED = 804,
                       HR__CUDA_EXTERNAL_DEVICE = 911,
};

enum { /* CUdevice_attribute, CUpointer_attribute, CUmemorytype, CUfunction_attribute, CUjit_option,
        * flags of calls */
       HR__CUDA_PROCESSOR_COUNT = 16,
       HR__CUDA_PCI_BUS = 33,
       HR__CUDA_PCI_DEVICE = 34,
       HR__CUDA_PCI_DOMAIN = 50,
       HR__CUDA_ARCH_MAJOR = 75,
       HR__CUDA_ARCH_MINOR = 76,
       HR__CUDA_MEMORY_TYPE = 2,
       HR__CUDA_IS_MANAGED = 8,
       HR__CUDA_DEVICE_ORDINAL = 9,
       HR__CUDA_RANGE_START = 11,
       HR__CUDA_TYPE_HOST = 1,
       HR__CUDA_TYPE_DEVICE = 2,
       HR__CUDA_MAX_THREADS_PER_BLOCK = 0,
       HR__CUDA_JIT_ERROR_LOG = 5,
       HR__CUDA_JIT_ERROR_LOG_SIZE = 6,
       HR__CUDA_STREAM_NON_BLOCKING = 1,
       HR__CUDA_EVENT_DEFAULT = 0,
       HR__CUDA_REGISTER_PORTABLE = 1,
};

/* Name in the library, name of its field, parameters. _v2 are the names behind the header's macros.
 */
#define HR__CUDA_CALLS(CALL)                                                                       \
    CALL(cuInit, init, (unsigned flags))                                                           \
    CALL(cuDriverGetVersion, driver_get_version, (int *version))                                   \
    CALL(cuGetErrorName, get_error_name, (CUresult result, const char **text))                     \
    CALL(cuGetErrorString, get_error_string, (CUresult result, const char **text))                 \
    CALL(cuDeviceGetCount, device_get_count, (int *n))                                             \
    CALL(cuDeviceGet, device_get, (CUdevice * device, int index))                                  \
    CALL(cuDeviceGetName, device_get_name, (char *name, int size, CUdevice device))                \
    CALL(cuDeviceGetUuid, device_get_uuid, (CUuuid * uuid, CUdevice device))                       \
    CALL(cuDeviceGetAttribute, device_get_attribute,                                               \
         (int *value, CUdevice_attribute attribute, CUdevice device))                              \
    CALL(cuDeviceTotalMem_v2, device_total_mem, (size_t * bytes, CUdevice device))                 \
    CALL(cuDevicePrimaryCtxRetain, primary_ctx_retain, (CUcontext * context, CUdevice device))     \
    CALL(cuDevicePrimaryCtxRelease_v2, primary_ctx_release, (CUdevice device))                     \
    CALL(cuCtxPushCurrent_v2, ctx_push_current, (CUcontext context))                               \
    CALL(cuCtxPopCurrent_v2, ctx_pop_current, (CUcontext * context))                               \
    CALL(cuMemGetInfo_v2, mem_get_info, (size_t * free_bytes, size_t * total_bytes))               \
    CALL(cuMemAlloc_v2, mem_alloc, (CUdeviceptr * out, size_t size))                               \
    CALL(cuMemFree_v2, mem_free, (CUdeviceptr memory))                                             \
    CALL(cuMemHostRegister_v2, mem_host_register, (void *memory, size_t size, unsigned flags))     \
    CALL(cuMemHostUnregister, mem_host_unregister, (void *memory))                                 \
    CALL(cuPointerGetAttributes, pointer_get_attributes,                                           \
         (unsigned n, CUpointer_attribute *attributes, void **values, CUdeviceptr memory))         \
    CALL(cuStreamCreate, stream_create, (CUstream * out, unsigned flags))                          \
    CALL(cuStreamDestroy_v2, stream_destroy, (CUstream stream))                                    \
    CALL(cuStreamSynchronize, stream_synchronize, (CUstream stream))                               \
    CALL(cuStreamWaitEvent, stream_wait_event, (CUstream stream, CUevent event, unsigned flags))   \
    CALL(cuEventCreate, event_create, (CUevent * out, unsigned flags))                             \
    CALL(cuEventDestroy_v2, event_destroy, (CUevent event))                                        \
    CALL(cuEventRecord, event_record, (CUevent event, CUstream stream))                            \
    CALL(cuEventQuery, event_query, (CUevent event))                                               \
    CALL(cuEventSynchronize, event_synchronize, (CUevent event))                                   \
    CALL(cuEventElapsedTime, event_elapsed_time, (float *ms, CUevent from, CUevent to))            \
    CALL(cuMemcpyHtoDAsync_v2, memcpy_h2d,                                                         \
         (CUdeviceptr to, const void *from, size_t size, CUstream stream))                         \
    CALL(cuMemcpyDtoHAsync_v2, memcpy_d2h,                                                         \
         (void *to, CUdeviceptr from, size_t size, CUstream stream))                               \
    CALL(cuMemcpyDtoDAsync_v2, memcpy_d2d,                                                         \
         (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream))                         \
    CALL(cuMemsetD32Async, memset_d32, (CUdeviceptr to, unsigned word, size_t n, CUstream stream)) \
    CALL(cuModuleLoadDataEx, module_load_data,                                                     \
         (CUmodule * out, const void *image, unsigned n, CUjit_option *options, void **values))    \
    CALL(cuModuleUnload, module_unload, (CUmodule module))                                         \
    CALL(cuModuleGetFunction, module_get_function,                                                 \
         (CUfunction * out, CUmodule module, const char *name))                                    \
    CALL(cuFuncGetAttribute, func_get_attribute,                                                   \
         (int *value, CUfunction_attribute attribute, CUfunction function))                        \
    CALL(cuLaunchKernel, launch_kernel,                                                            \
         (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,                  \
          unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,             \
          CUstream stream, void **params, void **extra))

#endif
