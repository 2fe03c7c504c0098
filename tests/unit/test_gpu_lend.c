// SPDX-License-Identifier: Apache-2.0
/* Events and streams that are not the engine's: a user of the fake driver makes them himself. What
 * has to come first is held up by a kernel, so that a wrong order shows in the bytes. */
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "fake_calls.h"
#include "gpu_gate.h"
#include "gpu_rig.h"

TestSuite(gpu_lend, .timeout = 60);

enum { BYTES = 4096, FAULT = 700, UNKNOWN = 999, HELD_US = 3000 };

/* What the engine has, and a stream of the user's. */
static struct hr__stream *stream;
static struct hr__event *event;
static struct hr__event *held; /* behind the gate */
static struct hr__kernel *gate;
static void *memory; /* of the device */
static void *context;
static void *foreign;
static char in[BYTES];
static char out[BYTES];

static void setup(void)
{
    fake_cuda_set_delay(200);
    open_gpu();
    stream = new_stream();
    event = new_event();
    held = new_event();
    gate = new_gate();
    memory = new_memory(BYTES);
    memset(in, 'x', BYTES);
    cr_assert_eq(cuDevicePrimaryCtxRetain(&context, 0), 0);
    cr_assert_eq(cuCtxPushCurrent_v2(context), 0);
    cr_assert_eq(cuStreamCreate(&foreign, 1), 0);
}

/* The user's context is still the current one. */
static void teardown(void)
{
    cr_expect_eq(fake_cuda_current(), context);
    cuStreamDestroy_v2(foreign);
    cuCtxPopCurrent_v2(&context);
    cuDevicePrimaryCtxRelease_v2(0);
    ops->stream_destroy(stream);
    ops->event_destroy(event);
    ops->event_destroy(held);
    ops->kernel_destroy(gate);
    ops->free(device, memory);
    close_gpu();
}

static unsigned long long address(void)
{
    return (unsigned long long)(uintptr_t)memory;
}

static void copy_out_by_user(void)
{
    cr_assert_eq(cuMemcpyDtoHAsync_v2(out, address(), BYTES, foreign), 0);
}

/* The engine's stream: the gate, then a copy to the device, then the event. */
static void enqueue_held(struct hr__event *behind)
{
    cr_assert_eq(ops->launch(stream, gate, &one_unit, &error), HR_OK);
    cr_assert_eq(ops->copy(stream, memory, in, BYTES, HR__COPY_H2D, &error), HR_OK);
    cr_assert_eq(ops->record(stream, behind, &error), HR_OK);
}

Test(gpu_lend, a_users_stream_waits_for_what_is_lent)
{
    setup();
    enqueue_held(event);
    cr_expect_eq(ops->lend(event, foreign, &error), HR_OK);
    copy_out_by_user();
    usleep(HELD_US);
    cr_expect_eq(out[0], 0, "it did not wait");
    open_gate(0);
    cr_expect_eq(cuStreamSynchronize(foreign), 0);
    cr_expect_arr_eq(out, in, BYTES);
    teardown();
}

Test(gpu_lend, a_user_orders_his_work_by_the_events_handle)
{
    setup();
    enqueue_held(event);
    cr_expect_eq(cuStreamWaitEvent(foreign, ops->event_handle(event), 0), 0);
    copy_out_by_user();
    usleep(HELD_US);
    cr_expect_eq(out[0], 0, "it did not wait");
    open_gate(0);
    cr_expect_eq(cuStreamSynchronize(foreign), 0);
    cr_expect_arr_eq(out, in, BYTES);
    teardown();
}

Test(gpu_lend, what_is_taken_back_comes_after_the_users_work)
{
    struct hr__stream *other = NULL;
    setup();
    other = new_stream();
    cr_assert_eq(ops->launch(stream, gate, &one_unit, &error), HR_OK);
    cr_assert_eq(ops->record(stream, held, &error), HR_OK);
    cr_assert_eq(ops->lend(held, foreign, &error), HR_OK);
    cr_assert_eq(cuMemcpyHtoDAsync_v2(address(), in, BYTES, foreign), 0);
    cr_expect_eq(ops->take_back(event, foreign, &error), HR_OK);
    cr_expect_eq(ops->wait(other, event, &error), HR_OK);
    ops->copy(other, out, memory, BYTES, HR__COPY_D2H, &error);
    usleep(HELD_US);
    cr_expect_eq(ops->query(event, &error), HR_PENDING);
    open_gate(0);
    cr_expect_eq(device_drain(device, other, &error), HR_OK);
    cr_expect_arr_eq(out, in, BYTES);
    cr_expect_eq(ops->query(event, &error), HR_OK);
    ops->stream_destroy(other);
    teardown();
}

Test(gpu_lend, what_is_taken_back_is_told_of_and_may_be_recorded_anew)
{
    setup();
    cr_assert_eq(ops->lend(event, foreign, &error), HR_OK);
    for (int i = 0; i < 20; i++) {
        cr_assert_eq(cuMemcpyHtoDAsync_v2(address(), in, BYTES, foreign), 0);
        cr_expect_eq(ops->take_back(event, foreign, &error), HR_OK);
        cr_expect_eq(device_finish(device, event, &error), HR_OK);
        cr_expect_eq(ops->record(stream, event, &error), HR_OK);
        cr_expect_eq(ops->lend(event, foreign, &error), HR_OK);
    }
    cr_expect_eq(device_finish(device, event, &error), HR_OK);
    teardown();
}

/* ---- without a stream ---- */

static atomic_int waiter_status;
static char seen_by_waiter;

static void *wait_in_thread(void *unused)
{
    hr_error of_waiter;
    (void)unused;
    const hr_status status = ops->lend(event, NULL, &of_waiter);
    seen_by_waiter = *(char *)fake_cuda_host(address(), BYTES);
    waiter_status = status;
    return NULL;
}

Test(gpu_lend, another_thread_waits_while_the_device_goes_on)
{
    pthread_t waiter;
    setup();
    struct hr__stream *other = new_stream();
    void *more = new_memory(BYTES);
    waiter_status = HR_PENDING;
    enqueue_held(event);
    pthread_create(&waiter, NULL, wait_in_thread, NULL);
    for (int i = 0; i < 10; i++) {
        ops->copy(other, more, in, BYTES, HR__COPY_H2D, &error);
        cr_expect_eq(device_drain(device, other, &error), HR_OK);
    }
    cr_expect_eq(waiter_status, HR_PENDING, "it did not wait");
    open_gate(0);
    pthread_join(waiter, NULL);
    cr_expect_eq(waiter_status, HR_OK);
    cr_expect_eq(seen_by_waiter, 'x');
    ops->free(device, more);
    ops->stream_destroy(other);
    teardown();
}

Test(gpu_lend, an_event_never_recorded_is_waited_for_by_nobody)
{
    setup();
    cr_expect_eq(ops->lend(event, NULL, &error), HR_OK);
    cr_expect_eq(ops->lend(event, foreign, &error), HR_OK);
    cr_expect_eq(cuStreamSynchronize(foreign), 0);
    teardown();
}

/* ---- failures ---- */

Test(gpu_lend, a_failure_of_the_stream_is_told_until_the_event_is_taken_back)
{
    setup();
    cr_assert_eq(ops->copy(stream, in, in, 1, HR__COPY_H2D, &error), HR_EDEVICE);
    cr_assert_eq(ops->record(stream, event, &error), HR_OK);
    cr_expect_eq(ops->lend(event, foreign, &error), HR_EDEVICE);
    cr_expect(strstr(error.text, "copying 1 bytes to the device"), "%s", error.text);
    error = (hr_error){0};
    cr_expect_eq(ops->lend(event, NULL, &error), HR_EDEVICE);
    cr_expect(strstr(error.text, "copying 1 bytes to the device"), "%s", error.text);
    cr_expect_eq(ops->lend(event, foreign, NULL), HR_EDEVICE);
    cr_expect_eq(ops->take_back(event, foreign, &error), HR_OK);
    cr_expect_eq(ops->lend(event, NULL, &error), HR_OK);
    cr_expect_eq(ops->lend(event, foreign, &error), HR_OK);
    cr_expect_eq(device_finish(device, event, &error), HR_OK);
    teardown();
}

Test(gpu_lend, a_failure_of_the_device_is_told_to_who_waits)
{
    setup();
    enqueue_held(event);
    open_gate(FAULT);
    cr_expect_eq(ops->lend(event, NULL, &error), HR_EDEVICE);
    cr_expect(strstr(error.text, "an illegal memory access"), "%s", error.text);
    error = (hr_error){0};
    cr_expect_eq(ops->lend(event, foreign, &error), HR_EDEVICE);
    cr_expect(strstr(error.text, "an illegal memory access"), "%s", error.text);
    cr_expect_eq(ops->take_back(event, foreign, &error), HR_EDEVICE);
    cr_expect_eq(ops->query(event, &error), HR_EDEVICE);
    teardown();
}

Test(gpu_lend, a_failure_that_another_stream_found_is_told_too)
{
    setup();
    cr_assert_eq(ops->record(stream, event, &error), HR_OK);
    fake_cuda_fail(2, FAULT); /* the call between the context's push and pop */
    cr_expect_eq(ops->query(event, &error), HR_EDEVICE);
    cr_expect_str_eq(fake_cuda_failed_call(), "cuEventQuery");
    cr_expect_eq(ops->lend(event, foreign, &error), HR_EDEVICE);
    cr_expect(strstr(error.text, "an illegal memory access"), "%s", error.text);
    teardown();
}

/* Behind an event that was not recorded nobody waits: so the users' work is over by then. */
Test(gpu_lend, an_event_that_is_not_taken_back_leaves_no_work_behind)
{
    setup();
    cr_assert_eq(cuMemcpyDtoHAsync_v2(out, address(), BYTES, foreign), 0);
    cr_assert_eq(cuMemcpyHtoDAsync_v2(address(), in, BYTES, foreign), 0);
    fake_cuda_fail(2, UNKNOWN);
    cr_expect_eq(ops->take_back(event, foreign, &error), HR_EDEVICE);
    cr_expect_str_eq(fake_cuda_failed_call(), "cuEventRecord");
    cr_expect(strstr(error.text, "cuda:0: recording an event: a fake failure (999)"), "%s",
              error.text);
    cr_expect_eq(*(char *)fake_cuda_host(address(), BYTES), 'x', "still under way");
    error = (hr_error){0};
    cr_expect_eq(ops->query(event, &error), HR_EDEVICE);
    cr_expect(strstr(error.text, "recording an event"), "%s", error.text);
    cr_expect_eq(ops->wait(stream, event, &error), HR_OK);
    cr_expect_eq(device_drain(device, stream, &error), HR_EDEVICE, "it passes to who waits");
    teardown();
}

Test(gpu_lend, a_refused_wait_is_told_and_nothing_else_fails)
{
    for (unsigned nth = 1; nth <= 2; nth++) { /* the context, the wait */
        setup();
        cr_assert_eq(ops->record(stream, event, &error), HR_OK);
        fake_cuda_fail(nth, UNKNOWN);
        cr_expect_eq(ops->lend(event, foreign, &error), HR_EDEVICE);
        cr_expect(strstr(error.text, "a fake failure (999)"), "%s", error.text);
        cr_expect_eq(device_finish(device, event, &error), HR_OK);
        cr_expect_eq(device_drain(device, stream, &error), HR_OK);
        cr_expect_eq(ops->lend(event, foreign, &error), HR_OK);
        teardown();
    }
}
