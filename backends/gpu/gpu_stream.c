// SPDX-License-Identifier: Apache-2.0
/* Streams: copies and order. A call that the driver refuses is the stream's last word: what follows
 * is passed over here, before the driver sees it, and events recorded behind it carry the failure.
 * What fails while it runs is found by queries, and is the whole device's failure: drivers end the
 * context then. */
#include <stdlib.h>

#include "gpu_device.h"
#include "status.h"

enum { INPUTS_BYTES = 256 };

/* ---- failures ---- */

hr_status hr__gpu_stream_failure(struct hr__stream *stream, hr_error *error)
{
    if (stream->failure.code == HR_OK)
        hr__gpu_device_failure(stream->device, &stream->failure);
    if (stream->failure.code != HR_OK && error)
        *error = stream->failure;
    return (hr_status)stream->failure.code;
}

hr_status hr__gpu_stream_fail(struct hr__stream *stream, const hr_error *failure, hr_error *error)
{
    if (stream->failure.code == HR_OK)
        stream->failure = *failure;
    if (error)
        *error = stream->failure;
    return (hr_status)stream->failure.code;
}

/* ---- lifecycle ---- */

static int make(struct hr__stream *stream, enum hr__stream_use use)
{
    enum { BYTES = HR__GPU_SCRATCH_BYTES + INPUTS_BYTES };
    const struct hr__gpu_driver *driver = stream->device->driver;
    int native = driver->stream_create(&stream->handle);
    if (native != 0 || use != HR__STREAM_KERNELS)
        return native;
    native = driver->alloc(&stream->scratch, BYTES);
    if (native == 0)
        native = driver->fill(stream->scratch, 0, BYTES / sizeof(uint32_t), stream->handle);
    stream->inputs = stream->scratch + HR__GPU_SCRATCH_BYTES;
    if (native == 0)
        return 0;
    if (stream->scratch)
        driver->free(stream->scratch);
    driver->stream_destroy(stream->handle);
    return native;
}

hr_status hr__gpu_stream_create(struct hr__device *base, enum hr__stream_use use,
                                struct hr__stream **out, hr_error *error)
{
    struct hr__gpu_visit visit;
    struct hr__stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return hr__fail(error, HR_ENOMEM, (struct hr__where){0}, "no memory for a stream");
    stream->base = *base;
    stream->device = (struct hr__gpu_device *)base;
    hr_status status = hr__gpu_enter(stream->device, &visit, error);
    if (status == HR_OK) {
        const int native = make(stream, use);
        hr__gpu_leave(stream->device, &visit);
        if (native != 0)
            status = hr__gpu_fail(stream->device, HR_STAGE_NONE, native, error, "making a stream");
    }
    if (status == HR_OK)
        *out = stream;
    else
        free(stream);
    return status;
}

void hr__gpu_stream_destroy(struct hr__stream *stream)
{
    struct hr__gpu_visit visit;
    if (!stream)
        return;
    if (hr__gpu_enter_to_free(stream->device, &visit)) {
        const struct hr__gpu_driver *driver = stream->device->driver;
        driver->stream_synchronize(stream->handle);
        if (stream->scratch)
            driver->free(stream->scratch);
        driver->stream_destroy(stream->handle);
        hr__gpu_leave(stream->device, &visit);
    }
    free(stream);
}

void *hr__gpu_stream_handle(struct hr__stream *stream)
{
    return stream->handle;
}

/* ---- enqueueing ---- */

static int copy(struct hr__stream *stream, void *to, const void *from, size_t size,
                enum hr__copy_kind kind)
{
    const struct hr__gpu_driver *driver = stream->device->driver;
    const uint64_t device_to = (uint64_t)(uintptr_t)to;
    const uint64_t device_from = (uint64_t)(uintptr_t)from;
    if (kind == HR__COPY_H2D)
        return driver->copy_h2d(device_to, from, size, stream->handle);
    if (kind == HR__COPY_D2H)
        return driver->copy_d2h(to, device_from, size, stream->handle);
    return driver->copy_d2d(device_to, device_from, size, stream->handle);
}

hr_status hr__gpu_stream_copy(struct hr__stream *stream, void *to, const void *from, size_t size,
                              enum hr__copy_kind kind, hr_error *error)
{
    static const char *const words[] = {[HR__COPY_H2D] = "to the device",
                                        [HR__COPY_D2H] = "from the device",
                                        [HR__COPY_D2D] = "on it"};
    const enum hr_stage stage = kind == HR__COPY_D2H ? HR_STAGE_D2H : HR_STAGE_H2D;
    struct hr__gpu_device *device = stream->device;
    struct hr__gpu_visit visit;
    hr_error failure;
    const hr_status status = hr__gpu_stream_failure(stream, error);
    if (status != HR_OK || size == 0)
        return status;
    if (hr__gpu_enter(device, &visit, &failure) != HR_OK)
        return hr__gpu_stream_fail(stream, &failure, error);
    const int native = copy(stream, to, from, size, kind);
    hr__gpu_leave(device, &visit);
    if (native == 0)
        return HR_OK;
    hr__gpu_fail(device, stage, native, &failure, "copying %zu bytes %s", size, words[kind]);
    return hr__gpu_stream_fail(stream, &failure, error);
}

/* ---- order: streams are ours, or by their handles those of users ---- */

static void wait_for_all(struct hr__gpu_device *device, void *stream)
{
    struct hr__gpu_visit visit;
    if (hr__gpu_enter(device, &visit, NULL) != HR_OK)
        return;
    device->driver->stream_synchronize(stream);
    hr__gpu_leave(device, &visit);
}

/* Behind an event that could not be recorded nobody can wait, so the work before it is waited for
 * here: memory must not be used again while the device may touch it. */
static hr_status record_on(void *stream, struct hr__event *event, hr_error *failure)
{
    struct hr__gpu_device *device = event->device;
    struct hr__gpu_visit visit;
    hr__gpu_event_forget(event);
    event->recorded = false;
    hr_status status = hr__gpu_enter(device, &visit, failure);
    if (status == HR_OK) {
        const int native = device->driver->event_record(event->handle, stream);
        hr__gpu_leave(device, &visit);
        event->recorded = native == 0;
        if (native != 0)
            status = hr__gpu_fail(device, HR_STAGE_KERNEL, native, failure, "recording an event");
    }
    if (status != HR_OK)
        wait_for_all(device, stream);
    return status;
}

hr_status hr__gpu_stream_record(struct hr__stream *stream, struct hr__event *event, hr_error *error)
{
    hr_error failure;
    hr_status status = record_on(stream->handle, event, &failure);
    if (status != HR_OK)
        status = hr__gpu_stream_fail(stream, &failure, error);
    event->failure = stream->failure;
    return status;
}

/* Of the user's own stream only this is known. */
hr_status hr__gpu_stream_take_back(struct hr__event *event, void *stream, hr_error *error)
{
    event->failure = (hr_error){0};
    record_on(stream, event, &event->failure);
    return hr__gpu_event_failure(event, error);
}

static hr_status wait_on(void *stream, struct hr__event *event, hr_error *failure)
{
    struct hr__gpu_device *device = event->device;
    struct hr__gpu_visit visit;
    if (!event->recorded)
        return HR_OK;
    const hr_status status = hr__gpu_enter(device, &visit, failure);
    if (status != HR_OK) {
        if (failure)
            failure->stage = HR_STAGE_KERNEL;
        return status;
    }
    const int native = device->driver->stream_wait(stream, event->handle);
    hr__gpu_leave(device, &visit);
    if (native == 0)
        return HR_OK;
    return hr__gpu_fail(device, HR_STAGE_KERNEL, native, failure, "waiting for an event");
}

hr_status hr__gpu_stream_wait(struct hr__stream *stream, struct hr__event *event, hr_error *error)
{
    hr_error failure;
    if (event->failure.code != HR_OK)
        hr__gpu_stream_fail(stream, &event->failure, NULL);
    if (wait_on(stream->handle, event, &failure) == HR_OK)
        return HR_OK;
    return hr__gpu_stream_fail(stream, &failure, error);
}

/* A device that has failed tells it here, because its streams do not fail by it. */
hr_status hr__gpu_stream_lend(struct hr__event *event, void *stream, hr_error *error)
{
    if (!stream)
        return hr__gpu_event_await(event, error);
    hr_status status = hr__gpu_event_failure(event, error);
    if (status == HR_OK)
        status = wait_on(stream, event, error);
    if (status == HR_OK)
        status = hr__gpu_device_failure(event->device, error);
    return status;
}
