// SPDX-License-Identifier: Apache-2.0
/* hipRTC for the fake driver, over its NVRTC. As the real one it does not survive an architecture
 * that it does not know. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_hip.h"
#include "fake_nvrtc.h"
#include "hip_rtc.h"

typedef int hiprtcResult;
typedef void *hiprtcProgram;

#define DECLARE(type, symbol, field, params) type symbol params;
HR__HIPRTC_CALLS(DECLARE, const char *const *)

hiprtcResult hiprtcCreateProgram(hiprtcProgram *out, const char *source, const char *name,
                                 int n_headers, const char *const *headers,
                                 const char *const *header_names)
{
    return nvrtcCreateProgram(out, source, name, n_headers, headers, header_names);
}

hiprtcResult hiprtcDestroyProgram(hiprtcProgram *program)
{
    return nvrtcDestroyProgram(program);
}

hiprtcResult hiprtcCompileProgram(hiprtcProgram program, int n_options, const char *const *options)
{
    char wanted[128];
    bool knows_arch = false;
    snprintf(wanted, sizeof wanted, "--offload-arch=%s", fake_hip_arch());
    for (int i = 0; i < n_options; i++)
        knows_arch = knows_arch || strcmp(options[i], wanted) == 0;
    if (!knows_arch)
        abort();
    return nvrtcCompileProgram(program, n_options, options);
}

hiprtcResult hiprtcGetCodeSize(hiprtcProgram program, size_t *size)
{
    return nvrtcGetCUBINSize(program, size);
}

hiprtcResult hiprtcGetCode(hiprtcProgram program, char *image)
{
    return nvrtcGetCUBIN(program, image);
}

hiprtcResult hiprtcGetProgramLogSize(hiprtcProgram program, size_t *size)
{
    return nvrtcGetProgramLogSize(program, size);
}

hiprtcResult hiprtcGetProgramLog(hiprtcProgram program, char *log)
{
    return nvrtcGetProgramLog(program, log);
}

const char *hiprtcGetErrorString(hiprtcResult result)
{
    return result == HR__GPU_RTC_COMPILATION ? "HIPRTC_ERROR_COMPILATION" : "HIPRTC_ERROR";
}
