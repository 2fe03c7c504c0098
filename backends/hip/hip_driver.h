// SPDX-License-Identifier: Apache-2.0
/* HIP without its headers: the types that its prototypes need, and its library. */
#ifndef HR_HIP_DRIVER_H
#define HR_HIP_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include "backend.h"
#include "gpu_driver.h"
#include "hip_calls.h"

/* hip_runtime_api.h: handles are pointers. */
typedef int hipError_t;
typedef int hipDevice_t;
typedef void *hipDeviceptr_t;
typedef int hipDeviceAttribute_t;
typedef int hipPointer_attribute;
typedef int hipFunction_attribute;
typedef int hipMemcpyKind;
typedef void *hipStream_t;
typedef void *hipEvent_t;
typedef void *hipModule_t;
typedef void *hipFunction_t;
typedef struct {
    char bytes[16];
} hipUUID;
typedef struct {
    char bytes[HR__HIP_PROPERTIES_BYTES];
} hipDeviceProp_t;
typedef struct hr__hip_home hipPointerAttribute_t;

/* a declarator takes no parentheses: NOLINTNEXTLINE(bugprone-macro-parentheses) */
#define HR__HIP_FIELD(type, symbol, field, params) type(*field) params;
struct hr__hip_calls {
    HR__HIP_CALLS(HR__HIP_FIELD)
    HR__HIP_5_2_CALLS(HR__HIP_FIELD)
    HR__HIP_6_CALLS(HR__HIP_FIELD)
    void *library; /* up to ROCm 6, the compiler's calls are in it, too */
};
#undef HR__HIP_FIELD

extern const struct hr__backend hr__hip_backend;
extern const struct hr__gpu_compiler hr__hip_compiler;
extern const struct hr__gpu_driver hr__hip_table;

/* Opens HIP's library, once in a process. NULL: it cannot be used, and why says it. */
const struct hr__hip_calls *hr__hip_load(char *why, size_t why_size);

/* HIP's version; 0.0 if the library does not tell. */
void hr__hip_version(const struct hr__hip_calls *hip, int *major, int *minor);

#endif
