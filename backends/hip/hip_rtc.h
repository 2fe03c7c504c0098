// SPDX-License-Identifier: Apache-2.0
/* hipRTC's calls, as of hiprtc.h; see hip_calls.h. Arrays of strings lost a const up to ROCm 6. */
#ifndef HR_HIP_RTC_H
#define HR_HIP_RTC_H

#include "gpu_rtc.h"

#define HR__HIPRTC_CALLS(CALL, STRINGS)                                                            \
    HR__GPU_RTC_CALLS(CALL, hiprtc, Code, hiprtcResult, hiprtcProgram, STRINGS)

#endif
