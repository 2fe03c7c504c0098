// SPDX-License-Identifier: Apache-2.0
/* What tests over the fake HIP share. The library is loaded once in a process, which is a test's. */
#ifndef HIP_RIG_H
#define HIP_RIG_H

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend.h"
#include "fake_cuda.h"

static hr_error error;

static inline void use_library(const char *name)
{
    setenv("HR_LIBAMDHIP64", name, 1);
}

static inline void use_fake_hip(unsigned rocm)
{
    char name[512];
    snprintf(name, sizeof name, "%s%u/libamdhip64.so.%u", HR_FAKE_HIP, rocm, rocm);
    use_library(name);
}

/* The backend finds its compiler, too, as one that is loaded already. */
static inline void load_fake_hiprtc(unsigned rocm)
{
    char name[512];
    snprintf(name, sizeof name, "%s%u/libhiprtc.so.%u", HR_FAKE_HIP, rocm, rocm);
    dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

static inline struct hr__device *open_device(const char *name)
{
    char why[HR_ERROR_TEXT];
    struct hr__device *opened = NULL;
    cr_assert_eq(hr__device_open(name, &opened, why, sizeof why, &error), HR_OK, "%s", error.text);
    return opened;
}

static inline void expect_nothing_left(void)
{
    const struct fake_cuda_live live = fake_cuda_live();
    cr_expect_eq(live.streams, 0);
    cr_expect_eq(live.events, 0);
    cr_expect_eq(live.allocations, 0);
    cr_expect_eq(live.pins, 0);
    cr_expect_eq(live.modules, 0);
}

#endif
