// SPDX-License-Identifier: Apache-2.0
/* What tests of HIP over its fake library share. Each test is a process, and so may load its own. */
#ifndef HIP_RIG_H
#define HIP_RIG_H

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "fake_cuda.h"
#include "hip_driver.h"

enum { BYTES = 4096 };

static const struct hr__hip_calls *hip;
static struct hr__device *device;
static const struct hr__device_ops *ops;
static hr_error error;

static inline void use_library(const char *name)
{
    setenv("HR_LIBAMDHIP64", name, 1);
}

static inline const char *fake_library(const char *name, unsigned rocm)
{
    static char path[512];
    snprintf(path, sizeof path, "%s%u/%s.so.%u", HR_FAKE_HIP, rocm, name, rocm);
    return path;
}

static inline void use_fake_hip(unsigned rocm)
{
    use_library(fake_library("libamdhip64", rocm));
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

/* Its compiler is found as one that is loaded already. */
static inline void open_hip(unsigned rocm)
{
    dlopen(fake_library("libhiprtc", rocm), RTLD_NOW | RTLD_LOCAL);
    use_fake_hip(rocm);
    device = open_device("hip:0");
    ops = device->ops;
    hip = hr__hip_load(NULL, 0);
    cr_assert_eq(hip->get_properties_6 != NULL, rocm >= 6);
}

static inline void close_hip(void)
{
    ops->close(device);
    expect_nothing_left();
}

#define TEST_ON_ALL(behaviour)                                                                     \
    static void behaviour(void);                                                                   \
    Test(hip, behaviour##_on_rocm_5)                                                               \
    {                                                                                              \
        open_hip(5);                                                                               \
        behaviour();                                                                               \
        close_hip();                                                                               \
    }                                                                                              \
    Test(hip, behaviour##_on_rocm_6)                                                               \
    {                                                                                              \
        open_hip(6);                                                                               \
        behaviour();                                                                               \
        close_hip();                                                                               \
    }                                                                                              \
    Test(hip, behaviour##_on_rocm_7)                                                               \
    {                                                                                              \
        open_hip(7);                                                                               \
        behaviour();                                                                               \
        close_hip();                                                                               \
    }                                                                                              \
    static void behaviour(void)

#endif
