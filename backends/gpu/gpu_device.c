// SPDX-License-Identifier: Apache-2.0
/* The device: what is told of it, its context, errors, and the table that the engine calls. */
#include "gpu_device.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "status.h"

enum {
    KERNEL_ALIGNMENT = 16, /* the widest load of a thread */
    N_STREAMS = 4,         /* enough for kernels of one chunk to hide the gaps of another's */
    NATIVE_TEXT = 256
};

bool hr__gpu_is_forked(const struct hr__gpu_device *device)
{
    return getpid() != device->pid;
}

/* ---- errors ---- */

static hr_status status_of(enum hr__gpu_class class)
{
    switch (class) {
    case HR__GPU_DONE:
        return HR_OK;
    case HR__GPU_NOT_READY:
        return HR_PENDING;
    case HR__GPU_NO_MEMORY:
        return HR_ENOMEM;
    case HR__GPU_NO_CODE:
        return HR_EUNSUPPORTED;
    case HR__GPU_NO_ENTRY:
        return HR_EINVAL;
    case HR__GPU_FORKED:
        return HR_EFORK;
    case HR__GPU_ALREADY_PINNED:
    case HR__GPU_DEAD:
    case HR__GPU_LOST:
    case HR__GPU_FAILED:
        break;
    }
    return HR_EDEVICE;
}

static const char *advice_for(enum hr__gpu_class class)
{
    if (class == HR__GPU_DEAD)
        return "; a kernel's fault ended all work of this process on the device, only a new "
               "process can use it again";
    if (class == HR__GPU_LOST)
        return "; the device is lost to this process";
    if (class == HR__GPU_FORKED)
        return "; it was started before a fork: start children by \"spawn\"";
    return "";
}

hr_status hr__gpu_fail(const struct hr__gpu_device *device, enum hr_stage stage, int native,
                       hr_error *error, const char *what, ...)
{
    char tried[NATIVE_TEXT];
    va_list args;
    const struct hr__where where = {.stage = stage, .native = native};
    const enum hr__gpu_class class = device->driver->classify(native);
    va_start(args, what);
    vsnprintf(tried, sizeof tried, what, args);
    va_end(args);
    return hr__fail(error, status_of(class), where, "%s: %s: %s (%d)%s", device->info.name, tried,
                    device->driver->text(native), native, advice_for(class));
}

/* Whatever the driver calls it, out of memory, say: it is not one call that was refused. */
void hr__gpu_device_fail(struct hr__gpu_device *device, const hr_error *failure)
{
    pthread_mutex_lock(&device->lock);
    if (device->failure.code == HR_OK) {
        device->failure = *failure;
        device->failure.code = HR_EDEVICE;
    }
    pthread_mutex_unlock(&device->lock);
}

hr_status hr__gpu_device_failure(struct hr__gpu_device *device, hr_error *error)
{
    if (hr__gpu_is_forked(device))
        return HR_OK; /* that is told by whoever enters */
    pthread_mutex_lock(&device->lock);
    const hr_status status = (hr_status)device->failure.code;
    if (status != HR_OK && error)
        *error = device->failure;
    pthread_mutex_unlock(&device->lock);
    return status;
}

/* ---- the context ---- */

hr_status hr__gpu_enter(struct hr__gpu_device *device, struct hr__gpu_visit *visit, hr_error *error)
{
    *visit = (struct hr__gpu_visit){0};
    if (hr__gpu_is_forked(device))
        return hr__fail(error, HR_EFORK, (struct hr__where){0},
                        "%s was opened by process %ld, a parent of this one: start children by "
                        "\"spawn\"",
                        device->info.name, (long)device->pid);
    const int native = device->driver->enter(device->context, &visit->before);
    if (native != 0)
        return hr__gpu_fail(device, HR_STAGE_NONE, native, error, "using the device's context");
    visit->entered = true;
    return HR_OK;
}

bool hr__gpu_enter_to_free(struct hr__gpu_device *device, struct hr__gpu_visit *visit)
{
    return hr__gpu_enter(device, visit, NULL) != HR_EFORK;
}

void hr__gpu_leave(struct hr__gpu_device *device, const struct hr__gpu_visit *visit)
{
    if (visit->entered)
        device->driver->leave(visit->before);
}

/* ---- what is told ---- */

void hr__gpu_describe(const struct hr__gpu_driver *driver, unsigned index,
                      struct hr__device_info *out)
{
    *out = (struct hr__device_info){
        .kernel_alignment = KERNEL_ALIGNMENT,
        .n_streams = N_STREAMS,
        .n_at_once = 1,
    };
    snprintf(out->name, sizeof out->name, "%s:%u", driver->name, index);
    if (driver->device_title(index, out->title, sizeof out->title) != 0)
        snprintf(out->title, sizeof out->title, "GPU");
    if (driver->version(out->version, sizeof out->version) != 0)
        out->version[0] = '\0';
    if (driver->device_memory(index, &out->memory_bytes) != 0)
        out->memory_bytes = 0;
    if (driver->device_uuid(index, out->uuid, sizeof out->uuid) != 0)
        out->uuid[0] = '\0';
    if (driver->device_pci(index, out->pci, sizeof out->pci) != 0)
        out->pci[0] = '\0';
}

/* The vendors' tools print UUIDs in lower case, but people may not. */
bool hr__gpu_find(const struct hr__gpu_driver *driver, unsigned n, const char *identity,
                  unsigned *index)
{
    char text[HR__GPU_IDENTITY];
    const size_t length = strlen(identity);
    for (unsigned i = 0; i < n; i++) {
        const bool is_uuid = driver->device_uuid(i, text, sizeof text) == 0 &&
                             strncasecmp(text, identity, length) == 0;
        const bool is_pci =
            driver->device_pci(i, text, sizeof text) == 0 && strcasecmp(text, identity) == 0;
        if (!is_uuid && !is_pci)
            continue;
        *index = i;
        return true;
    }
    return false;
}

static const struct hr__device_info *info(const struct hr__device *device)
{
    return &((const struct hr__gpu_device *)device)->info;
}

/* ---- open and close ---- */

static const struct hr__device_ops gpu_ops;

static hr_status start(struct hr__gpu_device *device, hr_error *error)
{
    const struct hr__gpu_driver *driver = device->driver;
    int native = driver->device_shape(device->index, &device->shape);
    if (native != 0)
        return hr__gpu_fail(device, HR_STAGE_NONE, native, error, "asking what the device is");
    native = driver->context_retain(device->index, &device->context);
    if (native != 0)
        return hr__gpu_fail(device, HR_STAGE_NONE, native, error, "starting the device's context");
    const int rc = hr__gpu_notifier_start(device);
    if (rc == 0)
        return HR_OK;
    driver->context_release(device->index);
    return hr__fail(error, HR_ENOMEM, (struct hr__where){.native = rc},
                    "%s: no thread to wait for it: %s", device->info.name, strerror(rc));
}

static void free_device(struct hr__gpu_device *device)
{
    pthread_mutex_destroy(&device->lock);
    pthread_mutex_destroy(&device->modules_lock);
    free(device);
}

hr_status hr__gpu_open(const struct hr__gpu_driver *driver, const struct hr__gpu_compiler *compiler,
                       unsigned index, struct hr__device **out, hr_error *error)
{
    struct hr__gpu_device *device = calloc(1, sizeof *device);
    if (!device)
        return hr__fail(error, HR_ENOMEM, (struct hr__where){0}, "no memory for a device");
    device->base.ops = &gpu_ops;
    device->driver = driver;
    device->compiler = compiler;
    device->index = index;
    device->pid = getpid();
    pthread_mutex_init(&device->lock, NULL);
    pthread_mutex_init(&device->modules_lock, NULL);
    hr__gpu_describe(driver, index, &device->info);
    const hr_status status = start(device, error);
    if (status == HR_OK)
        *out = &device->base;
    else
        free_device(device);
    return status;
}

/* In a forked child neither the thread nor what the driver holds is there: both are the parent's.
 */
static void close_device(struct hr__device *base)
{
    struct hr__gpu_device *device = (struct hr__gpu_device *)base;
    struct hr__gpu_visit visit;
    const bool ours = !hr__gpu_is_forked(device);
    if (ours)
        hr__gpu_notifier_stop(device);
    if (hr__gpu_enter_to_free(device, &visit)) {
        hr__gpu_modules_free(device);
        hr__gpu_pins_free(device);
        hr__gpu_leave(device, &visit);
    }
    if (ours)
        device->driver->context_release(device->index);
    free_device(device);
}

static const struct hr__device_ops gpu_ops = {
    .close = close_device,
    .info = info,
    .alloc = hr__gpu_alloc,
    .free = hr__gpu_free,
    .pin = hr__gpu_pin,
    .unpin = hr__gpu_unpin,
    .memory_kind = hr__gpu_memory_kind,
    .stream_create = hr__gpu_stream_create,
    .stream_destroy = hr__gpu_stream_destroy,
    .stream_handle = hr__gpu_stream_handle,
    .event_create = hr__gpu_event_create,
    .event_destroy = hr__gpu_event_destroy,
    .kernel_create = hr__gpu_kernel_create,
    .kernel_destroy = hr__gpu_kernel_destroy,
    .kernel_info = hr__gpu_kernel_info,
    .copy = hr__gpu_stream_copy,
    .launch = hr__gpu_kernel_launch,
    .record = hr__gpu_stream_record,
    .wait = hr__gpu_stream_wait,
    .query = hr__gpu_event_query,
    .notify = hr__gpu_event_notify,
    .event_handle = hr__gpu_event_handle,
    .lend = hr__gpu_stream_lend,
    .take_back = hr__gpu_stream_take_back,
    .elapsed_ns = hr__gpu_event_elapsed_ns,
    .measure = hr__gpu_measure,
};
