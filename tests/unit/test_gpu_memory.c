// SPDX-License-Identifier: Apache-2.0
/* Whose memory it is, and what is told when there is none, over the fake driver. */
#include <string.h>

#include "gpu_rig.h"

TestSuite(gpu_memory, .timeout = 60);

enum { BYTES = 4096, MIB = 1 << 20 };

static enum hr__memory_kind kind_of(const void *memory, size_t size)
{
    return ops->memory_kind(device, memory, size, &error);
}

Test(gpu_memory, plain_memory_is_nobodys)
{
    static const char bytes[BYTES];
    open_gpu();
    cr_expect_eq(kind_of(NULL, 0), HR__MEMORY_PLAIN);
    cr_expect_eq(kind_of(bytes, 0), HR__MEMORY_PLAIN);
    cr_expect_eq(kind_of(bytes, 1), HR__MEMORY_PLAIN);
    cr_expect_eq(kind_of(bytes, BYTES), HR__MEMORY_PLAIN);
    cr_expect_null(fake_cuda_current());
    close_gpu();
}

Test(gpu_memory, pinned_memory_is_what_one_registration_has_all_of)
{
    static char bytes[3 * BYTES];
    char *pinned = bytes + BYTES / 2;
    open_gpu();
    cr_assert(ops->pin(device, pinned, BYTES));
    cr_assert(ops->pin(device, pinned + BYTES, BYTES));
    cr_expect_eq(kind_of(pinned, BYTES), HR__MEMORY_PINNED);
    cr_expect_eq(kind_of(pinned, 0), HR__MEMORY_PINNED);
    cr_expect_eq(kind_of(pinned + BYTES - 1, 1), HR__MEMORY_PINNED);
    cr_expect_eq(kind_of(pinned + BYTES, BYTES), HR__MEMORY_PINNED);
    cr_expect_eq(kind_of(pinned - 1, 2), HR__MEMORY_PLAIN, "begins before");
    cr_expect_eq(kind_of(pinned + BYTES, BYTES + 1), HR__MEMORY_PLAIN, "ends behind");
    cr_expect_eq(kind_of(pinned, BYTES + 1), HR__MEMORY_PLAIN, "across two");
    ops->unpin(device, pinned);
    cr_expect_eq(kind_of(pinned, BYTES), HR__MEMORY_PLAIN, "not any more");
    ops->unpin(device, pinned + BYTES);
    close_gpu();
}

Test(gpu_memory, device_memory_is_of_one_device)
{
    char why[HR_ERROR_TEXT];
    struct hr__device *other = NULL;
    open_gpu();
    cr_assert_eq(hr__device_open("cuda:1", &other, why, sizeof why, &error), HR_OK);
    char *memory = new_memory(BYTES);
    cr_expect_eq(kind_of(memory, BYTES), HR__MEMORY_DEVICE);
    cr_expect_eq(kind_of(memory + BYTES - 1, 1), HR__MEMORY_DEVICE);
    cr_expect_eq(kind_of(memory + 1, BYTES), HR__MEMORY_PLAIN, "ends behind");
    cr_expect_eq(other->ops->memory_kind(other, memory, BYTES, &error), HR__MEMORY_PLAIN,
                 "of another");
    ops->free(device, memory);
    cr_expect_eq(kind_of(memory, BYTES), HR__MEMORY_PLAIN, "not any more");
    other->ops->close(other);
    close_gpu();
}

Test(gpu_memory, what_others_pinned_is_pinned)
{
    static char bytes[BYTES];
    char why[HR_ERROR_TEXT];
    struct hr__device *other = NULL;
    open_gpu();
    cr_assert_eq(hr__device_open("cuda:1", &other, why, sizeof why, &error), HR_OK);
    cr_assert(other->ops->pin(other, bytes, BYTES));
    cr_expect_eq(kind_of(bytes, BYTES), HR__MEMORY_PINNED);
    other->ops->unpin(other, bytes);
    other->ops->close(other);
    close_gpu();
}

Test(gpu_memory, what_the_driver_does_not_tell_is_unknown)
{
    static char bytes[BYTES];
    open_gpu();
    cr_assert(ops->pin(device, bytes, BYTES));
    for (unsigned nth = 1; nth <= 3; nth++) { /* the context, both ends */
        fake_cuda_fail(nth, 999);
        cr_expect_eq(kind_of(bytes, BYTES), HR__MEMORY_UNKNOWN, "%s", fake_cuda_failed_call());
        cr_expect(strstr(error.text, "a fake failure"), "%s", error.text);
        cr_expect_eq(fake_cuda_depth(), 0);
    }
    ops->unpin(device, bytes);
    close_gpu();
}

/* A real driver refuses copies that begin in what is registered and end behind it. */
Test(gpu_memory, memory_that_is_pinned_in_part_is_not_pinned)
{
    static char bytes[4 * BYTES];
    open_gpu();
    cr_assert(ops->pin(device, bytes + BYTES, 2 * BYTES));
    cr_expect_not(ops->pin(device, bytes, 2 * BYTES), "begins before");
    cr_expect_not(ops->pin(device, bytes + BYTES, 3 * BYTES), "ends behind");
    cr_expect_not(ops->pin(device, bytes, 4 * BYTES), "all around");
    cr_expect_eq(fake_cuda_live().pins, 1);
    cr_expect(ops->pin(device, bytes + 2 * BYTES, BYTES), "inside");
    ops->unpin(device, bytes + 2 * BYTES);
    cr_expect_eq(fake_cuda_live().pins, 1);
    ops->unpin(device, bytes + BYTES);
    close_gpu();
}

Test(gpu_memory, copies_work_where_pinning_is_refused)
{
    char in[BYTES];
    char out[BYTES] = "";
    memset(in, 'x', BYTES);
    open_gpu();
    void *memory = new_memory(BYTES);
    struct hr__stream *stream = new_stream();
    fake_cuda_refuse_pins(true);
    fake_cuda_fail(0, 0);
    cr_expect_not(ops->pin(device, in, BYTES));
    fake_cuda_refuse_pins(false);
    cr_expect(ops->pin(device, out, BYTES));
    ops->copy(stream, memory, in, BYTES, HR__COPY_H2D, &error);
    ops->copy(stream, out, memory, BYTES, HR__COPY_D2H, &error);
    cr_expect_eq(device_drain(device, stream, &error), HR_OK);
    cr_expect_arr_eq(in, out, BYTES);
    cr_expect_eq(fake_cuda_unpinned_copies(), 1, "%u", fake_cuda_unpinned_copies());
    ops->unpin(device, out);
    ops->stream_destroy(stream);
    ops->free(device, memory);
    close_gpu();
}

Test(gpu_memory, a_device_that_is_full_says_what_it_has)
{
    void *none = NULL;
    fake_cuda_set_memory(MIB);
    open_gpu();
    cr_expect_eq(ops->info(device)->memory_bytes, MIB);
    void *memory = new_memory(MIB - 1);
    void *last = new_memory(1);
    cr_expect_eq(ops->alloc(device, 2, &none, &error), HR_ENOMEM);
    cr_expect(strstr(error.text, "2 bytes of device memory asked for, 0 of 1048576 free"), "%s",
              error.text);
    cr_expect_null(none);
    ops->free(device, memory);
    cr_expect_eq(ops->alloc(device, MIB - 1, &none, &error), HR_OK);
    ops->free(device, none);
    ops->free(device, last);
    close_gpu();
}

static const size_t measured_bytes = 100000;

/* Of all four ways; a refusal to pin is told, and no failure. */
Test(gpu_memory, what_copies_reach_is_measured)
{
    struct hr_device_rates rates;
    open_gpu();
    for (int refuse = 0; refuse < 2; refuse++) {
        fake_cuda_refuse_pins(refuse);
        cr_assert_eq(ops->measure(device, measured_bytes, &rates, &error), HR_OK, "%s", error.text);
        cr_expect(rates.h2d > 0 && rates.d2h > 0 && rates.both > 0 && rates.d2d > 0);
        cr_expect_eq(rates.is_pinned, !refuse);
    }
    fake_cuda_refuse_pins(false);
    cr_expect_eq(ops->measure(device, (size_t)1 << 34, &rates, &error), HR_ENOMEM);
    close_gpu();
}

static unsigned n_seen;

static void count_seen(const char *call)
{
    (void)call;
    n_seen++;
}

/* Each call in turn, on a device of its own: told with the driver's number, nothing is left. */
Test(gpu_memory, each_call_of_a_measurement_may_fail)
{
    struct hr_device_rates rates;
    unsigned n_failed = 0;
    fake_cuda_set_delay(0);
    open_gpu();
    fake_cuda_watch(count_seen);
    cr_assert_eq(ops->measure(device, measured_bytes, &rates, &error), HR_OK, "%s", error.text);
    fake_cuda_watch(NULL);
    close_gpu();
    for (unsigned nth = 1; nth <= n_seen; nth++) {
        open_gpu();
        fake_cuda_fail(nth, 999);
        error = (hr_error){0};
        const hr_status status = ops->measure(device, measured_bytes, &rates, &error);
        const char *call = fake_cuda_failed_call();
        cr_assert(call, "call %u of %u is not made", nth, n_seen);
        fake_cuda_fail(0, 0);
        n_failed += status != HR_OK;
        if (status != HR_OK)
            cr_expect(status == HR_EDEVICE && error.native == 999, "%s at %u: %s", call, nth,
                      error.text);
        close_gpu();
    }
    cr_expect_gt(n_failed, n_seen / 3, "%u of %u", n_failed, n_seen);
}
