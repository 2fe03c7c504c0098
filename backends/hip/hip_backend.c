// SPDX-License-Identifier: Apache-2.0
/* HIP as a backend: whether there are devices, and why not. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gpu_device.h"
#include "gpu_library.h"
#include "hip_driver.h"

static struct hr__gpu_starter starter;

/* The kernel's side of the driver. Whoever is not in the device's group ("render", "video") may not
 * open it, and HIP then says no more than that there is no device. */
static bool tell_closed(char *why, size_t why_size)
{
    static const char kfd[] = "/dev/kfd";
    if (access(kfd, R_OK | W_OK) == 0)
        return false;
    snprintf(why, why_size, "no device: %s: %s", kfd, strerror(errno));
    return true;
}

/* HIP obeys CUDA's variable, too, which is set for other reasons where there are no GPUs of AMD. */
static void tell_no_device(char *why, size_t why_size)
{
    static const char *const own[] = {"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
                                      "GPU_DEVICE_ORDINAL", NULL};
    static const char *const shared[] = {"CUDA_VISIBLE_DEVICES", NULL};
    if (!hr__gpu_tell_hidden(own, why, why_size) && !tell_closed(why, why_size) &&
        !hr__gpu_tell_hidden(shared, why, why_size))
        snprintf(why, why_size, "no device");
}

/* This call alone tells whether there are devices, and starts HIP. Without any it says "no device",
 * and ROCm 5.6 to 6.3 "invalid device" the first time. */
static unsigned count(char *why, size_t why_size)
{
    int n = 0;
    if (why_size > 0)
        why[0] = '\0';
    const struct hr__hip_calls *hip = hr__hip_load(why, why_size);
    if (!hip || hr__gpu_started_before_fork(&starter, why, why_size))
        return 0;
    const int status = hip->get_device_count(&n);
    if (status == 0 && n > 0) {
        hr__gpu_note_start(&starter);
        return (unsigned)n;
    }
    if (status == 0 || status == HR__HIP_NO_DEVICE || status == HR__HIP_INVALID_DEVICE)
        tell_no_device(why, why_size);
    else
        snprintf(why, why_size, "the driver does not start: %s (%d)", hr__hip_table.text(status),
                 status);
    return 0;
}

static void describe(unsigned index, struct hr__device_info *out)
{
    hr__gpu_describe(&hr__hip_table, index, out);
}

static bool find(unsigned n_devices, const char *identity, unsigned *index)
{
    return hr__gpu_find(&hr__hip_table, n_devices, identity, index);
}

static hr_status open_device(unsigned index, struct hr__device **out, hr_error *error)
{
    return hr__gpu_open(&hr__hip_table, &hr__hip_compiler, index, out, error);
}

const struct hr__backend hr__hip_backend = {
    .name = "hip",
    .count = count,
    .describe = describe,
    .find = find,
    .open = open_device,
};
