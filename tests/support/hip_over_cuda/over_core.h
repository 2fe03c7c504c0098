// SPDX-License-Identifier: Apache-2.0
/* HIP's library over NVIDIA's driver: libamdhip64.so.HIP_OVER_CUDA_ROCM, which is 5, 6 or 7, so
 * that the HIP backend runs on a real GPU where there is none of AMD's. The calls are those that the
 * backend needs and no more; their prototypes are the backend's, which are compared with HIP's
 * headers.
 *
 *     headrace -- HIP backend -- libamdhip64.so.N (this) -- libcuda.so.1 -- GPU
 *                            `-- hipRTC (over_rtc.c) ----- libnvrtc.so
 *
 * It is thin, since copies are measured through it: a call is the driver's and two comparisons. A
 * thread's device is a number here and a context there; the context is changed by the first call
 * that needs it, and stays. */
#ifndef OVER_CORE_H
#define OVER_CORE_H

#include "cuda_driver.h"
#include "hip_abi.h"
#include "hip_driver.h"

#define OVER_EXPORT(type, symbol, field, params)                                                   \
    __attribute__((visibility("default"))) type symbol params;
HR__HIP_CALLS(OVER_EXPORT)
HR__HIP_5_2_CALLS(OVER_EXPORT)
HR__HIP_6_CALLS(OVER_EXPORT)

/* The driver; there once over_start() has succeeded. */
extern const struct hr__cuda_calls *over_cuda;

/* Starts the driver, once in a process. All statuses are the driver's until over_end(). */
int over_start(void);
/* Makes the context of the thread's device current. */
int over_enter(void);
/* Whether there is such a device. */
bool over_has_device(int device);
/* Waits for all that the device has to do, as HIP does before memory goes. */
int over_wait_for_device(void);
/* The status in HIP's numbers, noted as the thread's last one: what every call returns. */
int over_end(int status);

/* The call inside of the device's context; those that give something back need none. */
#define OVER(call)                                                                                 \
    int status = over_enter();                                                                     \
    if (status == 0)                                                                               \
        status = call;                                                                             \
    return over_end(status)

#endif
