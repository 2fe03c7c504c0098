// SPDX-License-Identifier: Apache-2.0
/* HIP over CUDA: the driver's start, a thread's device and last error, and statuses. */
#include "over_core.h"

#include <pthread.h>

#include "gpu_library.h"

enum { NO_DEVICE_YET = -1, MAX_DEVICES = 64 };

/* Set once. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
const struct hr__cuda_calls *over_cuda;
static int (*ctx_synchronize)(void); /* which the backend's table has not */
static int start_status;
static int n_devices;

/* Under the lock, and kept for good: contexts that HIP keeps are nobody's to release. */
static pthread_mutex_t contexts_lock = PTHREAD_MUTEX_INITIALIZER;
static CUcontext contexts[MAX_DEVICES];

static __thread int current;                 /* what HIP says */
static __thread int entered = NO_DEVICE_YET; /* whose context is current in the driver */
static __thread int last_error;

/* ---- start ---- */

/* In the driver's library, which is loaded already. */
static bool find_synchronize(void)
{
    static const char *const names[] = {"libcuda.so.1", NULL};
    void *library = hr__gpu_library_open(names, NULL, 0);
    return library && hr__gpu_library_find(library, "cuCtxSynchronize", &ctx_synchronize);
}

static void start(void)
{
    over_cuda = hr__cuda_load(NULL, 0);
    if (!over_cuda || !find_synchronize()) {
        start_status = HR__CUDA_NO_DEVICE;
        return;
    }
    start_status = over_cuda->init(0);
    if (start_status == 0)
        start_status = over_cuda->device_get_count(&n_devices);
    if (n_devices > MAX_DEVICES)
        n_devices = MAX_DEVICES;
}

int over_start(void)
{
    pthread_once(&once, start);
    return start_status;
}

bool over_has_device(int device)
{
    return over_start() == 0 && device >= 0 && device < n_devices;
}

/* ---- the current device ---- */

static int context_of(int device, CUcontext *context)
{
    int status = 0;
    pthread_mutex_lock(&contexts_lock);
    if (!contexts[device])
        status = over_cuda->primary_ctx_retain(&contexts[device], device);
    *context = contexts[device];
    pthread_mutex_unlock(&contexts_lock);
    return status;
}

static int change_context(void)
{
    CUcontext context;
    int status = over_start();
    if (status == 0)
        status = context_of(current, &context);
    if (status != 0)
        return status;
    CUcontext before;
    if (entered != NO_DEVICE_YET)
        over_cuda->ctx_pop_current(&before);
    status = over_cuda->ctx_push_current(context);
    entered = status == 0 ? current : NO_DEVICE_YET;
    return status;
}

int over_enter(void)
{
    return entered == current ? 0 : change_context();
}

int over_wait_for_device(void)
{
    const int status = over_enter();
    return status != 0 ? status : ctx_synchronize();
}

/* ---- statuses ---- */

/* hipError_t has CUDA's numbers, but not for all that CUDA tells. */
static int in_hip(int status)
{
    static const short same[] = {1,   2,   3,   4,   9,   12,  13,  17,  21,  35,  52,  53,  98,
                                 100, 101, 200, 201, 202, 205, 206, 207, 208, 209, 210, 211, 212,
                                 213, 214, 215, 216, 217, 218, 219, 300, 301, 302, 303, 304, 400,
                                 401, 500, 700, 701, 702, 704, 705, 708, 709, 710, 712, 713, 719,
                                 720, 801, 900, 901, 902, 903, 904, 905, 906, 907, 908, 910, 999};
    static const short other[][2] = {
        {HR__CUDA_UNSUPPORTED_PTX_VERSION, HR__HIP_NO_BINARY_FOR_GPU},
        {HR__CUDA_CONTAINED, HR__HIP_LAUNCH_FAILURE},
        {HR__CUDA_HARDWARE_STACK_ERROR, HR__HIP_LAUNCH_FAILURE},
        {HR__CUDA_ILLEGAL_INSTRUCTION, HR__HIP_LAUNCH_FAILURE},
        {HR__CUDA_MISALIGNED_ADDRESS, HR__HIP_LAUNCH_FAILURE},
        {HR__CUDA_INVALID_ADDRESS_SPACE, HR__HIP_LAUNCH_FAILURE},
        {HR__CUDA_INVALID_PC, HR__HIP_LAUNCH_FAILURE},
        {HR__CUDA_TENSOR_MEMORY_LEAK, HR__HIP_LAUNCH_FAILURE},
    };
    enum { UNKNOWN = 999 };
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
        if (same[i] == status)
            return status;
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++)
        if (other[i][0] == status)
            return other[i][1];
    return UNKNOWN;
}

int over_end(int status)
{
    const bool is_usual = status == HR__CUDA_SUCCESS || status == HR__CUDA_NOT_READY;
    return hip_abi_note(HIP_OVER_CUDA_ROCM, &last_error, is_usual ? status : in_hip(status));
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

const char *hipGetErrorString(hipError_t error)
{
    const char *text = NULL;
    if (over_cuda)
        over_cuda->get_error_string(error, &text);
    return text;
}

/* ---- devices: their numbers here, which the context follows ---- */

hipError_t hipGetDeviceCount(int *n)
{
    const int status = over_start();
    *n = status == 0 ? n_devices : 0;
    return over_end(status == 0 && n_devices == 0 ? HR__CUDA_NO_DEVICE : status);
}

hipError_t hipSetDevice(int device)
{
    if (!over_has_device(device))
        return over_end(HR__HIP_INVALID_DEVICE);
    current = device;
    return over_end(0);
}

hipError_t hipGetDevice(int *device)
{
    *device = current;
    return over_end(over_start());
}
