// SPDX-License-Identifier: Apache-2.0
/* What the fake run-time compiler exports, as the real one does. */
#ifndef FAKE_NVRTC_H
#define FAKE_NVRTC_H

#include <stddef.h>

int nvrtcCreateProgram(void **out, const char *source, const char *name, int n_headers,
                       const char *const *headers, const char *const *header_names);
int nvrtcDestroyProgram(void **program);
int nvrtcCompileProgram(void *program, int n_options, const char *const *options);
int nvrtcGetCUBINSize(void *program, size_t *size);
int nvrtcGetCUBIN(void *program, char *image);
int nvrtcGetProgramLogSize(void *program, size_t *size);
int nvrtcGetProgramLog(void *program, char *log);
const char *nvrtcGetErrorString(int result);

#endif
