// SPDX-License-Identifier: Apache-2.0
/* CUDA as a backend: whether there are devices, and why not. */
#include <stdio.h>

#include "cuda_driver.h"
#include "gpu_device.h"
#include "gpu_library.h"

static struct hr__gpu_starter starter;

static void tell_no_device(char *why, size_t why_size)
{
    static const char *const variables[] = {"CUDA_VISIBLE_DEVICES", NULL};
    if (!hr__gpu_tell_hidden(variables, why, why_size))
        snprintf(why, why_size, "no device");
}

static void tell_failure(const struct hr__cuda_calls *cuda, int status, char *why, size_t why_size)
{
    const char *text = hr__cuda_table.text(status);
    int number = 0;
    if (status == HR__CUDA_NO_DEVICE) {
        tell_no_device(why, why_size);
    } else if (status == HR__CUDA_NOT_INITIALIZED) {
        hr__gpu_tell_fork(why, why_size);
    } else if (status == HR__CUDA_STUB_LIBRARY) {
        snprintf(why, why_size,
                 "library not found: libcuda.so.1 is the toolkit's stub, not the driver's");
    } else if (status == HR__CUDA_SYSTEM_DRIVER_MISMATCH ||
               status == HR__CUDA_COMPAT_NOT_SUPPORTED) {
        cuda->driver_get_version(&number);
        snprintf(why, why_size,
                 "driver too old: its kernel part does not fit its library, which is for CUDA "
                 "%d.%d: %s",
                 number / 1000, number % 1000 / 10, text);
    } else {
        snprintf(why, why_size, "the driver does not start: %s (%d)", text, status);
    }
}

static unsigned count(char *why, size_t why_size)
{
    int n = 0;
    if (why_size > 0)
        why[0] = '\0';
    const struct hr__cuda_calls *cuda = hr__cuda_load(why, why_size);
    if (!cuda || hr__gpu_started_before_fork(&starter, why, why_size))
        return 0;
    int status = cuda->init(0);
    if (status == 0) {
        hr__gpu_note_start(&starter);
        status = cuda->device_get_count(&n);
    }
    if (status != 0)
        tell_failure(cuda, status, why, why_size);
    else if (n <= 0)
        tell_no_device(why, why_size);
    return status == 0 && n > 0 ? (unsigned)n : 0;
}

static void describe(unsigned index, struct hr__device_info *out)
{
    hr__gpu_describe(&hr__cuda_table, index, out);
}

static bool find(unsigned n_devices, const char *identity, unsigned *index)
{
    return hr__gpu_find(&hr__cuda_table, n_devices, identity, index);
}

static hr_status open_device(unsigned index, struct hr__device **out, hr_error *error)
{
    return hr__gpu_open(&hr__cuda_table, &hr__cuda_compiler, index, out, error);
}

const struct hr__backend hr__cuda_backend = {
    .name = "cuda",
    .count = count,
    .describe = describe,
    .find = find,
    .open = open_device,
};
