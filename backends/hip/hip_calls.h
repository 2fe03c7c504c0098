// SPDX-License-Identifier: Apache-2.0
/* Prototypes and numbers of HIP, as of hip_runtime_api.h, which is not needed to build. The types
 * have its names, so that a test can compare both where it is installed.
 *
 * One table serves ROCm 5, 6, 7 and 10, whose libraries differ in number and agree in all of this
 * but for two things, which changed with 6:
 *
 *                                    5                          6 and later
 *     hipGetDeviceProperties         of 792 bytes               the same; headers say ...R0600,
 *                                                               of 1472 bytes
 *     memory's type: host, device    0, 1; unknown memory is    1, 2; unknown memory is 0
 *                                    an error
 *
 * Whether the library has hipGetDevicePropertiesR0600 tells which one it is. */
#ifndef HR_HIP_CALLS_H
#define HR_HIP_CALLS_H

enum hr__hip_error { /* hipError_t */
                     HR__HIP_SUCCESS = 0,
                     HR__HIP_INVALID_VALUE = 1,
                     HR__HIP_OUT_OF_MEMORY = 2,
                     HR__HIP_NO_DEVICE = 100,
                     HR__HIP_INVALID_DEVICE = 101,
                     HR__HIP_INVALID_IMAGE = 200,
                     HR__HIP_NO_BINARY_FOR_GPU = 209,
                     HR__HIP_ECC_NOT_CORRECTABLE = 214,
                     HR__HIP_INVALID_KERNEL_FILE = 218,
                     HR__HIP_NOT_FOUND = 500,
                     HR__HIP_NOT_READY = 600,
                     HR__HIP_ILLEGAL_ADDRESS = 700,
                     HR__HIP_LAUNCH_TIMEOUT = 702,
                     HR__HIP_CONTEXT_IS_DESTROYED = 709,
                     HR__HIP_ASSERT = 710,
                     HR__HIP_ALREADY_REGISTERED = 712,
                     HR__HIP_LAUNCH_FAILURE = 719,
                     HR__HIP_NOT_SUPPORTED = 801,
};

enum { /* hipDeviceAttribute_t, hipPointer_attribute, hipFunction_attribute, hipMemcpyKind, flags of
        * calls */
       HR__HIP_PROCESSOR_COUNT = 63,
       HR__HIP_RANGE_START = 11,
       HR__HIP_MAX_THREADS_PER_BLOCK = 0,
       HR__HIP_COPY_H2D = 1,
       HR__HIP_COPY_D2H = 2,
       HR__HIP_COPY_D2D = 3,
       HR__HIP_STREAM_NON_BLOCKING = 1,
       HR__HIP_EVENT_DEFAULT = 0,
       HR__HIP_REGISTER_PORTABLE = 1,
       HR__HIP_REGISTER_MAPPED = 2,
};

enum { /* hipMemoryType, and where hipDeviceProp_t has the name of the architecture */
       HR__HIP_5_TYPE_HOST = 0,
       HR__HIP_5_TYPE_DEVICE = 1,
       HR__HIP_6_TYPE_UNREGISTERED = 0,
       HR__HIP_6_TYPE_HOST = 1,
       HR__HIP_6_TYPE_DEVICE = 2,
       HR__HIP_5_ARCH_AT = 396,
       HR__HIP_6_ARCH_AT = 1160,
       HR__HIP_ARCH_BYTES = 256,
       HR__HIP_PROPERTIES_BYTES = 8192, /* with room for whatever is appended */
};

/* hipPointerAttribute_t: the same in all, though the first field has two names. */
struct hr__hip_home {
    int type;
    int device;
    void *device_pointer;
    void *host_pointer;
    int is_managed;
    unsigned flags;
};

/* Result, name in the library, name of its field, parameters. ROCm 5.0 has all of these. */
#define HR__HIP_CALLS(CALL)                                                                        \
    CALL(hipError_t, hipGetDeviceCount, get_device_count, (int *n))                                \
    CALL(hipError_t, hipRuntimeGetVersion, runtime_get_version, (int *version))                    \
    CALL(const char *, hipGetErrorString, get_error_string, (hipError_t error))                    \
    CALL(hipError_t, hipGetLastError, get_last_error, (void))                                      \
    CALL(hipError_t, hipPeekAtLastError, peek_at_last_error, (void))                               \
    CALL(hipError_t, hipDeviceGetName, device_get_name,                                            \
         (char *name, int size, hipDevice_t device))                                               \
    CALL(hipError_t, hipDeviceGetPCIBusId, device_get_pci, (char *id, int size, int device))       \
    CALL(hipError_t, hipDeviceGetAttribute, device_get_attribute,                                  \
         (int *value, hipDeviceAttribute_t attribute, int device))                                 \
    CALL(hipError_t, hipDeviceTotalMem, device_total_mem, (size_t * bytes, hipDevice_t device))    \
    CALL(hipError_t, hipGetDeviceProperties, get_properties,                                       \
         (hipDeviceProp_t * properties, int device))                                               \
    CALL(hipError_t, hipSetDevice, set_device, (int device))                                       \
    CALL(hipError_t, hipGetDevice, get_device, (int *device))                                      \
    CALL(hipError_t, hipMemGetInfo, mem_get_info, (size_t * free_bytes, size_t * total_bytes))     \
    CALL(hipError_t, hipMalloc, mem_alloc, (void **out, size_t size))                              \
    CALL(hipError_t, hipFree, mem_free, (void *memory))                                            \
    CALL(hipError_t, hipHostRegister, host_register, (void *memory, size_t size, unsigned flags))  \
    CALL(hipError_t, hipHostUnregister, host_unregister, (void *memory))                           \
    CALL(hipError_t, hipPointerGetAttributes, pointer_get_attributes,                              \
         (hipPointerAttribute_t * out, const void *memory))                                        \
    CALL(hipError_t, hipPointerGetAttribute, pointer_get_attribute,                                \
         (void *value, hipPointer_attribute attribute, hipDeviceptr_t memory))                     \
    CALL(hipError_t, hipStreamCreateWithFlags, stream_create, (hipStream_t * out, unsigned flags)) \
    CALL(hipError_t, hipStreamDestroy, stream_destroy, (hipStream_t stream))                       \
    CALL(hipError_t, hipStreamSynchronize, stream_synchronize, (hipStream_t stream))               \
    CALL(hipError_t, hipStreamWaitEvent, stream_wait_event,                                        \
         (hipStream_t stream, hipEvent_t event, unsigned flags))                                   \
    CALL(hipError_t, hipEventCreateWithFlags, event_create, (hipEvent_t * out, unsigned flags))    \
    CALL(hipError_t, hipEventDestroy, event_destroy, (hipEvent_t event))                           \
    CALL(hipError_t, hipEventRecord, event_record, (hipEvent_t event, hipStream_t stream))         \
    CALL(hipError_t, hipEventQuery, event_query, (hipEvent_t event))                               \
    CALL(hipError_t, hipEventSynchronize, event_synchronize, (hipEvent_t event))                   \
    CALL(hipError_t, hipEventElapsedTime, event_elapsed_time,                                      \
         (float *ms, hipEvent_t from, hipEvent_t to))                                              \
    CALL(hipError_t, hipMemcpyAsync, memcpy_async,                                                 \
         (void *to, const void *from, size_t size, hipMemcpyKind kind, hipStream_t stream))        \
    CALL(hipError_t, hipMemsetD32Async, memset_d32,                                                \
         (hipDeviceptr_t to, int word, size_t n, hipStream_t stream))                              \
    CALL(hipError_t, hipModuleLoadData, module_load_data, (hipModule_t * out, const void *image))  \
    CALL(hipError_t, hipModuleUnload, module_unload, (hipModule_t module))                         \
    CALL(hipError_t, hipModuleGetFunction, module_get_function,                                    \
         (hipFunction_t * out, hipModule_t module, const char *name))                              \
    CALL(hipError_t, hipFuncGetAttribute, func_get_attribute,                                      \
         (int *value, hipFunction_attribute attribute, hipFunction_t function))                    \
    CALL(hipError_t, hipModuleLaunchKernel, launch_kernel,                                         \
         (hipFunction_t function, unsigned grid_x, unsigned grid_y, unsigned grid_z,               \
          unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,             \
          hipStream_t stream, void **params, void **extra))

/* Later: from 5.2 and from 6.0 on. NULL in libraries that are older. */
#define HR__HIP_5_2_CALLS(CALL)                                                                    \
    CALL(hipError_t, hipDeviceGetUuid, device_get_uuid, (hipUUID * uuid, hipDevice_t device))
#define HR__HIP_6_CALLS(CALL)                                                                      \
    CALL(hipError_t, hipGetDevicePropertiesR0600, get_properties_6,                                \
         (hipDeviceProp_t * properties, int device))

#endif
