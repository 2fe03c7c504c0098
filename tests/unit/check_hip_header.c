// SPDX-License-Identifier: Apache-2.0
/* Compiled only where HIP's headers are: our prototypes, numbers and offsets against theirs, of
 * whichever ROCm they are. There is nothing to run. */
#include <hip/hip_runtime_api.h>
#include <hip/hip_version.h>
#include <hip/hiprtc.h>
#include <stddef.h>

#include "hip_calls.h"
#include "hip_rtc.h"

#define SAME_CALL(type, symbol, field, params)                                                     \
    _Static_assert(_Generic(&symbol, type(*) params : 1, default : 0), #symbol);
HR__HIP_CALLS(SAME_CALL)

#define SAME_RTC_CALL(type, symbol, field, params)                                                 \
    SAME_##symbol = _Generic(&symbol, type(*) params : 1, default : 0),
#define SAME_CONST_RTC_CALL(type, symbol, field, params)                                           \
    SAME_CONST_##symbol = _Generic(&symbol, type(*) params : 1, default : 0),
enum { HR__HIPRTC_CALLS(SAME_RTC_CALL, const char **) };
enum { HR__HIPRTC_CALLS(SAME_CONST_RTC_CALL, const char *const *) };
#define SAME_EITHER(type, symbol, field, params)                                                   \
    _Static_assert(SAME_##symbol || SAME_CONST_##symbol, #symbol);
HR__HIPRTC_CALLS(SAME_EITHER, const char **)

#define SAME_NUMBER(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
SAME_NUMBER(HR__HIP_SUCCESS, hipSuccess);
SAME_NUMBER(HR__HIP_INVALID_VALUE, hipErrorInvalidValue);
SAME_NUMBER(HR__HIP_OUT_OF_MEMORY, hipErrorOutOfMemory);
SAME_NUMBER(HR__HIP_NO_DEVICE, hipErrorNoDevice);
SAME_NUMBER(HR__HIP_INVALID_DEVICE, hipErrorInvalidDevice);
SAME_NUMBER(HR__HIP_INVALID_IMAGE, hipErrorInvalidImage);
SAME_NUMBER(HR__HIP_NO_BINARY_FOR_GPU, hipErrorNoBinaryForGpu);
SAME_NUMBER(HR__HIP_ECC_NOT_CORRECTABLE, hipErrorECCNotCorrectable);
SAME_NUMBER(HR__HIP_INVALID_KERNEL_FILE, hipErrorInvalidKernelFile);
SAME_NUMBER(HR__HIP_NOT_FOUND, hipErrorNotFound);
SAME_NUMBER(HR__HIP_NOT_READY, hipErrorNotReady);
SAME_NUMBER(HR__HIP_ILLEGAL_ADDRESS, hipErrorIllegalAddress);
SAME_NUMBER(HR__HIP_LAUNCH_TIMEOUT, hipErrorLaunchTimeOut);
SAME_NUMBER(HR__HIP_CONTEXT_IS_DESTROYED, hipErrorContextIsDestroyed);
SAME_NUMBER(HR__HIP_ASSERT, hipErrorAssert);
SAME_NUMBER(HR__HIP_ALREADY_REGISTERED, hipErrorHostMemoryAlreadyRegistered);
SAME_NUMBER(HR__HIP_LAUNCH_FAILURE, hipErrorLaunchFailure);
SAME_NUMBER(HR__HIP_NOT_SUPPORTED, hipErrorNotSupported);
SAME_NUMBER(HR__HIP_PROCESSOR_COUNT, hipDeviceAttributeMultiprocessorCount);
SAME_NUMBER(HR__HIP_RANGE_START, HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR);
SAME_NUMBER(HR__HIP_MAX_THREADS_PER_BLOCK, HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME_NUMBER(HR__HIP_COPY_H2D, hipMemcpyHostToDevice);
SAME_NUMBER(HR__HIP_COPY_D2H, hipMemcpyDeviceToHost);
SAME_NUMBER(HR__HIP_COPY_D2D, hipMemcpyDeviceToDevice);
SAME_NUMBER(HR__HIP_STREAM_NON_BLOCKING, hipStreamNonBlocking);
SAME_NUMBER(HR__HIP_EVENT_DEFAULT, hipEventDefault);
SAME_NUMBER(HR__HIP_REGISTER_PORTABLE, hipHostRegisterPortable);
SAME_NUMBER(HR__HIP_REGISTER_MAPPED, hipHostRegisterMapped);
SAME_NUMBER(HR__GPU_RTC_OUT_OF_MEMORY, HIPRTC_ERROR_OUT_OF_MEMORY);
SAME_NUMBER(HR__GPU_RTC_INVALID_OPTION, HIPRTC_ERROR_INVALID_OPTION);
SAME_NUMBER(HR__GPU_RTC_COMPILATION, HIPRTC_ERROR_COMPILATION);

#define SAME_PLACE(ours, theirs)                                                                   \
    SAME_NUMBER(offsetof(struct hr__hip_home, ours), offsetof(hipPointerAttribute_t, theirs))
SAME_NUMBER(sizeof(struct hr__hip_home), sizeof(hipPointerAttribute_t));
SAME_PLACE(device, device);
SAME_PLACE(device_pointer, devicePointer);
SAME_PLACE(host_pointer, hostPointer);
SAME_PLACE(is_managed, isManaged);
SAME_PLACE(flags, allocationFlags);
_Static_assert(sizeof(hipDeviceProp_t) <= HR__HIP_PROPERTIES_BYTES, "hipDeviceProp_t");
SAME_NUMBER(sizeof((hipDeviceProp_t *)0)->gcnArchName, HR__HIP_ARCH_BYTES);

#if HIP_VERSION >= 50200000
HR__HIP_5_2_CALLS(SAME_CALL)
SAME_NUMBER(sizeof((hipUUID *)0)->bytes, 16);
#endif
#if HIP_VERSION_MAJOR >= 6
HR__HIP_6_CALLS(SAME_CALL)
SAME_NUMBER(HR__HIP_6_TYPE_UNREGISTERED, hipMemoryTypeUnregistered);
SAME_NUMBER(HR__HIP_6_TYPE_HOST, hipMemoryTypeHost);
SAME_NUMBER(HR__HIP_6_TYPE_DEVICE, hipMemoryTypeDevice);
SAME_NUMBER(HR__HIP_6_ARCH_AT, offsetof(hipDeviceProp_t, gcnArchName));
#else
SAME_NUMBER(HR__HIP_5_TYPE_HOST, hipMemoryTypeHost);
SAME_NUMBER(HR__HIP_5_TYPE_DEVICE, hipMemoryTypeDevice);
SAME_NUMBER(HR__HIP_5_ARCH_AT, offsetof(hipDeviceProp_t, gcnArchName));
#endif
