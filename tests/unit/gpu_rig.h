// SPDX-License-Identifier: Apache-2.0
/* What tests of the GPU logic over the fake driver share. */
#ifndef GPU_RIG_H
#define GPU_RIG_H

#include <criterion/criterion.h>

#include "backend.h"
#include "device_tools.h"
#include "fake_cuda.h"

static struct hr__device *device;
static const struct hr__device_ops *ops;
static hr_error error;

static inline void open_gpu(void)
{
    char why[HR_ERROR_TEXT];
    cr_assert_eq(hr__device_open("cuda", &device, why, sizeof why, &error), HR_OK, "%s",
                 error.text);
    ops = device->ops;
}

static inline void expect_nothing_left(const char *after)
{
    const struct fake_cuda_live live = fake_cuda_live();
    cr_expect_eq(live.contexts, 0, "%s: %d contexts", after, live.contexts);
    cr_expect_eq(live.streams, 0, "%s: %d streams", after, live.streams);
    cr_expect_eq(live.events, 0, "%s: %d events", after, live.events);
    cr_expect_eq(live.allocations, 0, "%s: %d allocations", after, live.allocations);
    cr_expect_eq(live.pins, 0, "%s: %d pins", after, live.pins);
    cr_expect_eq(live.modules, 0, "%s: %d modules", after, live.modules);
    cr_expect_eq(fake_cuda_depth(), 0, "%s: %u contexts on the stack", after, fake_cuda_depth());
}

static inline void close_gpu(void)
{
    ops->close(device);
    expect_nothing_left("closed");
}

static inline struct hr__stream *new_stream(void)
{
    struct hr__stream *stream = NULL;
    cr_assert_eq(ops->stream_create(device, HR__STREAM_KERNELS, &stream, &error), HR_OK);
    return stream;
}

static inline struct hr__event *new_event(void)
{
    struct hr__event *event = NULL;
    cr_assert_eq(ops->event_create(device, &event, &error), HR_OK);
    return event;
}

static inline void *new_memory(size_t size)
{
    void *memory = NULL;
    cr_assert_eq(ops->alloc(device, size, &memory, &error), HR_OK, "%s", error.text);
    return memory;
}

static inline struct hr__kernel *new_kernel(struct hr_kernel kernel)
{
    struct hr__kernel *made = NULL;
    kernel.struct_size = sizeof kernel;
    cr_assert_eq(ops->kernel_create(device, &kernel, &made, &error), HR_OK, "%s", error.text);
    return made;
}

#endif
