// SPDX-License-Identifier: Apache-2.0
/* NVRTC's calls, as of nvrtc.h; see cuda_calls.h. */
#ifndef HR_CUDA_NVRTC_H
#define HR_CUDA_NVRTC_H

#include "gpu_rtc.h"

#define HR__NVRTC_CALLS(CALL)                                                                      \
    HR__GPU_RTC_CALLS(CALL, nvrtc, CUBIN, nvrtcResult, nvrtcProgram, const char *const *)

#endif
