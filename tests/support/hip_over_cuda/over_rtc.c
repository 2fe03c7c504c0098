// SPDX-License-Identifier: Apache-2.0
/* hipRTC over NVRTC. The architecture is one of NVIDIA's, and so code is what its driver loads.
 * Texts of errors are NVRTC's own. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cuda_nvrtc.h"
#include "gpu_library.h"
#include "hip_rtc.h"

typedef int nvrtcResult;
typedef void *nvrtcProgram;
typedef int hiprtcResult;
typedef void *hiprtcProgram;

#define EXPORT(type, symbol, field, params)                                                        \
    __attribute__((visibility("default"))) type symbol params;
HR__HIPRTC_CALLS(EXPORT, const char *const *)

enum { INTERNAL_ERROR = 11, MAX_OPTIONS = 16, OPTION_BYTES = 96 }; /* hiprtc.h */

/* Set once. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
/* a declarator takes no parentheses: NOLINTNEXTLINE(bugprone-macro-parentheses) */
#define FIELD(type, symbol, field, params) type(*field) params;
static struct {
    HR__NVRTC_CALLS(FIELD)
} nvrtc;
#undef FIELD
static bool is_loaded;

static void load(void)
{
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so",
                                        "/usr/local/cuda/lib64/libnvrtc.so", NULL};
    void *library = hr__gpu_library_open(names, NULL, 0);
    if (!library)
        return;
#define FIND(type, symbol, field, params)                                                          \
    if (!hr__gpu_library_find(library, #symbol, &nvrtc.field))                                     \
        return;
    HR__NVRTC_CALLS(FIND)
#undef FIND
    is_loaded = true;
}

/* Whoever has a program has come through here. */
hiprtcResult hiprtcCreateProgram(hiprtcProgram *out, const char *source, const char *name,
                                 int n_headers, const char *const *headers,
                                 const char *const *header_names)
{
    pthread_once(&once, load);
    if (!is_loaded)
        return INTERNAL_ERROR;
    return nvrtc.create_program(out, source, name, n_headers, headers, header_names);
}

hiprtcResult hiprtcDestroyProgram(hiprtcProgram *program)
{
    return nvrtc.destroy_program(program);
}

/* The options whose words differ; others are both compilers'. */
static const char *translate(const char *option, char *room)
{
    static const char arch[] = "--offload-arch=";
    if (strcmp(option, "-ffp-contract=off") == 0)
        return "--fmad=false";
    if (strncmp(option, arch, sizeof arch - 1) != 0)
        return option;
    snprintf(room, OPTION_BYTES, "--gpu-architecture=%s", option + sizeof arch - 1);
    return room;
}

hiprtcResult hiprtcCompileProgram(hiprtcProgram program, int n_options, const char *const *options)
{
    const char *translated[MAX_OPTIONS];
    char room[MAX_OPTIONS][OPTION_BYTES];
    if (n_options < 0 || n_options > MAX_OPTIONS)
        return HR__GPU_RTC_INVALID_OPTION;
    for (int i = 0; i < n_options; i++)
        translated[i] = translate(options[i], room[i]);
    return nvrtc.compile_program(program, n_options, translated);
}

hiprtcResult hiprtcGetCodeSize(hiprtcProgram program, size_t *size)
{
    return nvrtc.get_code_size(program, size);
}

hiprtcResult hiprtcGetCode(hiprtcProgram program, char *image)
{
    return nvrtc.get_code(program, image);
}

hiprtcResult hiprtcGetProgramLogSize(hiprtcProgram program, size_t *size)
{
    return nvrtc.get_program_log_size(program, size);
}

hiprtcResult hiprtcGetProgramLog(hiprtcProgram program, char *log)
{
    return nvrtc.get_program_log(program, log);
}

const char *hiprtcGetErrorString(hiprtcResult result)
{
    return is_loaded ? nvrtc.get_error_string(result) : "there is no NVRTC under this hipRTC";
}
