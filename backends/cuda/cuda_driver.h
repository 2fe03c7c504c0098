// SPDX-License-Identifier: Apache-2.0
/* The CUDA driver without its headers: the types that its prototypes need, and its library. */
#ifndef HR_CUDA_DRIVER_H
#define HR_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include "backend.h"
#include "cuda_calls.h"
#include "gpu_driver.h"

/* cuda.h: handles are pointers. */
typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef int CUdevice_attribute;
typedef int CUpointer_attribute;
typedef int CUfunction_attribute;
typedef int CUjit_option;
typedef void *CUcontext;
typedef void *CUstream;
typedef void *CUevent;
typedef void *CUmodule;
typedef void *CUfunction;
typedef struct {
    char bytes[16];
} CUuuid;

/* a declarator takes no parentheses: NOLINTNEXTLINE(bugprone-macro-parentheses) */
#define HR__CUDA_FIELD(symbol, field, params) CUresult(*field) params;
struct hr__cuda_calls {
    HR__CUDA_CALLS(HR__CUDA_FIELD)
};
#undef HR__CUDA_FIELD

extern const struct hr__backend hr__cuda_backend;
extern const struct hr__gpu_compiler hr__cuda_compiler;

/* Opens the driver's library, once in a process. NULL: it cannot be used, and why says it. */
const struct hr__cuda_calls *hr__cuda_load(char *why, size_t why_size);

extern const struct hr__gpu_driver hr__cuda_table;

#endif
