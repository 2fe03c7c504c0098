// SPDX-License-Identifier: Apache-2.0
/* Prototypes and numbers of NVRTC, as of nvrtc.h; see cuda_calls.h. */
#ifndef HR_CUDA_NVRTC_H
#define HR_CUDA_NVRTC_H

enum { HR__NVRTC_OUT_OF_MEMORY = 1, HR__NVRTC_INVALID_OPTION = 5, HR__NVRTC_COMPILATION = 6 };

#define HR__NVRTC_CALLS(CALL)                                                                      \
    CALL(nvrtcResult, nvrtcCreateProgram, create_program,                                          \
         (nvrtcProgram * out, const char *source, const char *name, int n_headers,                 \
          const char *const *headers, const char *const *header_names))                            \
    CALL(nvrtcResult, nvrtcDestroyProgram, destroy_program, (nvrtcProgram * program))              \
    CALL(nvrtcResult, nvrtcCompileProgram, compile_program,                                        \
         (nvrtcProgram program, int n_options, const char *const *options))                        \
    CALL(nvrtcResult, nvrtcGetCUBINSize, get_cubin_size, (nvrtcProgram program, size_t * size))    \
    CALL(nvrtcResult, nvrtcGetCUBIN, get_cubin, (nvrtcProgram program, char *image))               \
    CALL(nvrtcResult, nvrtcGetProgramLogSize, get_program_log_size,                                \
         (nvrtcProgram program, size_t * size))                                                    \
    CALL(nvrtcResult, nvrtcGetProgramLog, get_program_log, (nvrtcProgram program, char *log))      \
    CALL(const char *, nvrtcGetErrorString, get_error_string, (nvrtcResult result))

#endif
