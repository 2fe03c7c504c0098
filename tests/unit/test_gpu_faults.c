// SPDX-License-Identifier: Apache-2.0
/* Every call of the driver fails once, in a short use of all that a device offers. Either the use
 * fails, in words, or it gives the right bytes; nothing is left behind, and nothing hangs. */
#include <stdio.h>
#include <string.h>

#include "gpu_rig.h"

TestSuite(gpu_faults, .timeout = 300);

enum { N = 64, OUT_OF_MEMORY = 2, UNKNOWN = 999, MOST_CALLS = 2000 };

struct use {
    struct hr__device *device;
    void *memory[2];
    struct hr__stream *streams[2];
    struct hr__event *events[2];
    struct hr__kernel *kernels[3];
    bool pinned;
    unsigned char in[N];
    unsigned char out[N];
};

static int copy_bytes(const struct fake_cuda_launch *launch)
{
    uint64_t params[6];
    uint64_t in;
    for (size_t i = 0; i < 6; i++)
        memcpy(&params[i], launch->params[i], sizeof params[i]);
    memcpy(&in, fake_cuda_host(params[0], sizeof in), sizeof in);
    memcpy(fake_cuda_host(params[2], N), fake_cuda_host(in, N), N);
    return 0;
}

static hr_status make(struct use *use)
{
    static const char bytes[] = "fake";
    const struct hr_kernel kernels[] = {
        {.struct_size = sizeof kernels[0], .text = "scale:u8,1,1"},
        {.struct_size = sizeof kernels[0],
         .kind = HR_KERNEL_SOURCE,
         .unit_out = 1,
         .text = "source",
         .entry = "copy"},
        {.struct_size = sizeof kernels[0],
         .kind = HR_KERNEL_IMAGE,
         .unit_out = 1,
         .entry = "copy",
         .image = bytes,
         .image_size = sizeof bytes,
         .args = bytes,
         .args_size = sizeof bytes},
    };
    char why[HR_ERROR_TEXT];
    hr_status status = hr__device_open("cuda", &use->device, why, sizeof why, &error);
    if (status != HR_OK)
        return status;
    ops = use->device->ops;
    use->pinned = ops->pin(use->device, use->in, N);
    const enum hr__memory_kind kind = ops->memory_kind(use->device, use->in, N, &error);
    cr_expect(kind == HR__MEMORY_PLAIN || kind == HR__MEMORY_UNKNOWN ||
              (use->pinned && kind == HR__MEMORY_PINNED));
    for (int i = 0; i < 2 && status == HR_OK; i++)
        status = ops->alloc(use->device, N, &use->memory[i], &error);
    for (int i = 0; i < 2 && status == HR_OK; i++)
        status = ops->stream_create(use->device, HR__STREAM_KERNELS, &use->streams[i], &error);
    for (int i = 0; i < 2 && status == HR_OK; i++)
        status = ops->event_create(use->device, &use->events[i], &error);
    for (int i = 0; i < 3 && status == HR_OK; i++)
        status = ops->kernel_create(use->device, &kernels[i], &use->kernels[i], &error);
    return status;
}

/* An own stream's handle is as good as that of a user's stream. */
static hr_status lend_and_take_back(struct use *use)
{
    void *handle = ops->stream_handle(use->streams[1]);
    hr_status status = ops->lend(use->events[1], handle, &error);
    if (status == HR_OK)
        status = ops->take_back(use->events[0], handle, &error);
    if (status == HR_OK)
        status = ops->lend(use->events[0], NULL, &error);
    return status;
}

static hr_status work(struct use *use)
{
    hr_status status = ops->record(use->streams[0], use->events[0], &error);
    if (status == HR_OK)
        status = ops->copy(use->streams[0], use->memory[0], use->in, N, HR__COPY_H2D, &error);
    for (int i = 0; i < 3 && status == HR_OK; i++) {
        const struct hr__launch launch = {
            .in = use->memory[i % 2], .out = use->memory[(i + 1) % 2], .n_units = N};
        status = ops->launch(use->streams[0], use->kernels[i], &launch, &error);
    }
    /* the engine records behind failures, too: the event tells when memory is free again */
    hr_error of_record;
    const hr_status recorded = ops->record(use->streams[0], use->events[1], &of_record);
    hr_error of_event;
    const hr_status done = device_finish(use->device, use->events[1], &of_event);
    cr_assert_neq(done, HR_PENDING, "hangs");
    if (status != HR_OK)
        cr_expect_eq(done, status, "an event behind a failure tells it");
    else
        error = recorded != HR_OK ? of_record : of_event;
    if (status == HR_OK)
        status = recorded != HR_OK ? recorded : done;
    if (status == HR_OK)
        status = ops->wait(use->streams[1], use->events[1], &error);
    if (status == HR_OK)
        status = lend_and_take_back(use);
    if (status == HR_OK)
        status = ops->copy(use->streams[1], use->out, use->memory[1], N, HR__COPY_D2H, &error);
    if (status == HR_OK)
        status = device_drain(use->device, use->streams[1], &error);
    ops->elapsed_ns(use->events[0], use->events[1]);
    return status;
}

static void unmake(struct use *use)
{
    if (!use->device)
        return;
    for (int i = 0; i < 2; i++)
        ops->stream_destroy(use->streams[i]);
    for (int i = 0; i < 2; i++) {
        ops->event_destroy(use->events[i]);
        ops->free(use->device, use->memory[i]);
    }
    for (int i = 0; i < 3; i++)
        ops->kernel_destroy(use->kernels[i]);
    if (use->pinned)
        ops->unpin(use->device, use->in);
    ops->close(use->device);
}

/* Calls whose failure has to reach the user. */
static bool must_be_told(const char *call)
{
    static const char *const calls[] = {
        "cuInit",
        "cuDevicePrimaryCtxRetain",
        "cuMemAlloc",
        "cuStreamCreate",
        "cuEventCreate",
        "cuModuleLoadDataEx",
        "cuModuleGetFunction",
        "cuFuncGetAttribute",
        "cuEventRecord",
        "cuStreamWaitEvent",
        "cuEventSynchronize",
        "cuMemcpyHtoDAsync",
        "cuMemcpyDtoHAsync",
        "cuMemsetD32Async",
        "cuLaunchKernel",
    };
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if (strcmp(calls[i], call) == 0)
            return true;
    }
    return false;
}

/* Of the attributes those by which kernels are compiled and launched have to reach him, too: a bus
 * address is only a name. */
enum { N_ATTRIBUTES_THAT_COUNT = 3 };
static unsigned n_attributes_told;

/* Returns the name of the call that failed; NULL: there were fewer. */
static const char *fail_nth(unsigned nth, int native)
{
    struct use use = {0};
    char after[128];
    for (unsigned i = 0; i < N; i++)
        use.in[i] = (unsigned char)i;
    error = (hr_error){0};
    fake_cuda_fail(nth, native);
    hr_status status = make(&use);
    if (status == HR_OK)
        status = work(&use);
    unmake(&use);
    const char *call = fake_cuda_failed_call();
    snprintf(after, sizeof after, "call %u, %s, %d", nth, call ? call : "none", native);
    fake_cuda_fail(0, 0);
    expect_nothing_left(after);
    if (status == HR_OK) {
        cr_expect_not(call && must_be_told(call), "%s: not told", after);
        for (unsigned i = 0; i < N; i++)
            cr_expect_eq(use.out[i], i + 1, "%s: byte %u", after, i);
    } else {
        cr_expect_eq(error.code, status, "%s", after);
        cr_expect(strstr(error.text, native == OUT_OF_MEMORY ? "out of memory" : "a fake failure"),
                  "%s: %s", after, error.text);
        n_attributes_told += call && strcmp(call, "cuDeviceGetAttribute") == 0;
    }
    return call;
}

Test(gpu_faults, every_call_may_fail_once)
{
    static const size_t sizes[] = {8, 4, 8, 8, 8, 8, 0};
    static const int natives[] = {OUT_OF_MEMORY, UNKNOWN};
    fake_cuda_kernel("copy", copy_bytes, sizes);
    fake_cuda_set_delay(0);
    for (size_t i = 0; i < 2; i++) {
        unsigned nth = 1;
        n_attributes_told = 0;
        while (nth < MOST_CALLS && fail_nth(nth, natives[i]))
            nth++;
        cr_expect_gt(nth, 50, "%u calls", nth);
        cr_expect_lt(nth, MOST_CALLS);
        cr_expect_eq(n_attributes_told, N_ATTRIBUTES_THAT_COUNT, "%u", n_attributes_told);
    }
}
