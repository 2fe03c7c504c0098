// SPDX-License-Identifier: Apache-2.0
/* Kernels and how they are launched.
 *
 * Built-in entries take their arguments by value. Compiled kernels of the user have the parameters
 * of Kernel ABI 1, whose `in` is an array in device memory. It has one element and belongs to the
 * stream: an address is written there by a fill on the stream itself, so it is in order with the
 * kernels that read it, and nothing has to be kept until they have. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu_builtin.h"
#include "gpu_device.h"
#include "status.h"

enum {
    USER_THREADS = 256,       /* of a block, if the kernel allows */
    BLOCKS_OF_PROCESSOR = 16, /* enough to fill it; the rest is the kernel's grid stride */
};

struct hr__kernel {
    struct hr__device base;
    struct hr__gpu_device *device;
    struct hr__kernel_info info;
    enum hr_kernel_kind kind;
    char name[HR__DEVICE_TEXT]; /* for messages */

    hr_kernel_fn function; /* of a launch function */
    void *user;

    void *entry;                    /* of all others */
    struct hr__gpu_builtin builtin; /* of built-in kernels */

    uint32_t n_threads; /* of compiled ones */
    uint32_t max_blocks;
    uint64_t args_memory; /* on the device; 0: none */
};

static const struct hr__where here = {.stage = HR_STAGE_KERNEL};

static struct hr__where native_here(const hr_error *cause)
{
    return (struct hr__where){.stage = HR_STAGE_KERNEL, .native = cause->native};
}

/* ---- making ---- */

/* Fails: HR_EUNSUPPORTED without an image for the device, or with one that the driver refuses. */
static hr_status load_builtin(struct hr__kernel *made, hr_error *error)
{
    struct hr__gpu_device *device = made->device;
    struct hr__gpu_image image = {0};
    if (!device->driver->builtin_image(device->shape.arch, made->builtin.entry, &image))
        return hr__fail(error, HR_EUNSUPPORTED, here, "this build has no code for %s",
                        device->shape.arch);
    const struct hr__gpu_code code = {
        .bytes = image.bytes,
        .size = image.size,
        .exact = true,
        .entry = made->builtin.entry,
    };
    const hr_status status = hr__gpu_module_entry(device, &code, &made->entry, error);
    free(image.owned);
    return status;
}

static hr_status compile_builtin(struct hr__kernel *made, hr_error *error)
{
    char define[sizeof made->builtin.only + sizeof "HR_ONLY="];
    snprintf(define, sizeof define, "HR_ONLY=%s", made->builtin.only);
    const struct hr__gpu_code code = {
        .bytes = hr__gpu_builtin_source,
        .size = strlen(hr__gpu_builtin_source) + 1,
        .is_source = true,
        .exact = true,
        .define = define,
        .entry = made->builtin.entry,
    };
    return hr__gpu_module_entry(made->device, &code, &made->entry, error);
}

/* Devices that this build does not know need the compiler; who lacks it is told why it is needed. */
static hr_status load_or_compile(struct hr__kernel *made, hr_error *error)
{
    hr_error unloaded;
    hr_error uncompiled;
    hr_status status = load_builtin(made, &unloaded);
    if (status == HR_OK)
        return HR_OK;
    if (status != HR_EUNSUPPORTED)
        return hr__fail(error, status, native_here(&unloaded), "%s", unloaded.text);
    status = compile_builtin(made, &uncompiled);
    if (status == HR_OK)
        return HR_OK;
    return hr__fail(error, status, native_here(&uncompiled), "%.250s; %.250s", uncompiled.text,
                    unloaded.text);
}

static hr_status make_builtin(struct hr__kernel *made, hr_error *error)
{
    const hr_status status = hr__gpu_builtin(&made->info.spec, &made->builtin);
    const bool fits = !made->info.is_counted || made->builtin.state_bytes <= HR__GPU_SCRATCH_BYTES;
    if (status == HR_OK && fits)
        return load_or_compile(made, error);
    return hr__fail(error, HR_EUNSUPPORTED, here,
                    "kernel \"%s\": this build has no version of it for %s; device \"host\" has",
                    made->name, made->device->info.name);
}

/* On a stream of its own: a copy of the default stream from ordinary memory may still be under way
 * when the call returns, and other streams would not wait for it. */
static int upload(const struct hr__gpu_driver *driver, uint64_t to, const void *from, size_t size)
{
    void *stream = NULL;
    int native = driver->stream_create(&stream);
    if (native != 0)
        return native;
    native = driver->copy_h2d(to, from, size, stream);
    const int waited = driver->stream_synchronize(stream);
    driver->stream_destroy(stream);
    return native != 0 ? native : waited;
}

static hr_status make_args(struct hr__kernel *made, const struct hr_kernel *kernel, hr_error *error)
{
    const struct hr__gpu_driver *driver = made->device->driver;
    if (kernel->args_size == 0)
        return HR_OK;
    int native = driver->alloc(&made->args_memory, kernel->args_size);
    if (native == 0)
        native = upload(driver, made->args_memory, kernel->args, kernel->args_size);
    if (native == 0)
        return HR_OK;
    if (made->args_memory)
        driver->free(made->args_memory);
    return hr__gpu_fail(made->device, HR_STAGE_KERNEL, native, error,
                        "kernel \"%.60s\": placing its %u bytes of arguments", made->name,
                        (unsigned)kernel->args_size);
}

static hr_status make_compiled(struct hr__kernel *made, const struct hr_kernel *kernel,
                               hr_error *error)
{
    const bool is_source = kernel->kind == HR_KERNEL_SOURCE;
    const struct hr__gpu_code code = {
        .bytes = is_source ? (const void *)kernel->text : kernel->image,
        .size = is_source ? strlen(kernel->text) + 1 : (size_t)kernel->image_size,
        .is_source = is_source,
        .entry = kernel->entry,
    };
    const hr_status status = hr__gpu_module_entry(made->device, &code, &made->entry, error);
    if (status != HR_OK)
        return status;
    const int native = made->device->driver->entry_max_threads(&made->n_threads, made->entry);
    if (native != 0)
        return hr__gpu_fail(made->device, HR_STAGE_KERNEL, native, error,
                            "kernel \"%.60s\": asking how many threads it takes", made->name);
    if (made->n_threads > USER_THREADS)
        made->n_threads = USER_THREADS;
    made->max_blocks = made->device->shape.n_processors * BLOCKS_OF_PROCESSOR;
    return make_args(made, kernel, error);
}

static hr_status make(struct hr__kernel *made, const struct hr_kernel *kernel, hr_error *error)
{
    struct hr__gpu_visit visit;
    if (made->kind == HR_KERNEL_FUNCTION)
        return hr__fail(error, HR_EUNSUPPORTED, here,
                        "kernel \"%s\": host functions run on device \"host\" only; on %s use a "
                        "launch function, a source or an image",
                        made->name, made->device->info.name);
    made->function = kernel->function;
    made->user = kernel->user;
    if (made->kind == HR_KERNEL_LAUNCH)
        return HR_OK;
    hr_status status = hr__gpu_enter(made->device, &visit, error);
    if (status != HR_OK)
        return status;
    status = made->kind == HR_KERNEL_BUILTIN ? make_builtin(made, error)
                                             : make_compiled(made, kernel, error);
    hr__gpu_leave(made->device, &visit);
    return status;
}

static void name_kernel(struct hr__kernel *made, const struct hr_kernel *kernel)
{
    const bool is_function = made->kind == HR_KERNEL_FUNCTION || made->kind == HR_KERNEL_LAUNCH;
    const char *name = kernel->entry ? kernel->entry : kernel->text;
    if (!name)
        name = is_function ? "a function" : "";
    snprintf(made->name, sizeof made->name, "%s", name);
}

hr_status hr__gpu_kernel_create(struct hr__device *base, const struct hr_kernel *kernel,
                                struct hr__kernel **out, hr_error *error)
{
    struct hr__kernel_info info = {0};
    hr_status status = hr__kernel_describe(kernel, &info, error);
    if (status != HR_OK)
        return status;
    struct hr__kernel *made = calloc(1, sizeof *made);
    if (!made)
        return hr__fail(error, HR_ENOMEM, here, "no memory for a kernel");
    made->base = *base;
    made->device = (struct hr__gpu_device *)base;
    made->info = info;
    made->kind = (enum hr_kernel_kind)kernel->kind;
    name_kernel(made, kernel);
    status = make(made, kernel, error);
    if (status == HR_OK)
        *out = made;
    else
        free(made);
    return status;
}

void hr__gpu_kernel_destroy(struct hr__kernel *kernel)
{
    struct hr__gpu_visit visit;
    if (kernel && kernel->args_memory && hr__gpu_enter_to_free(kernel->device, &visit)) {
        kernel->device->driver->free(kernel->args_memory);
        hr__gpu_leave(kernel->device, &visit);
    }
    free(kernel);
}

const struct hr__kernel_info *hr__gpu_kernel_info(const struct hr__kernel *kernel)
{
    return &kernel->info;
}

/* ---- launching, inside of the context ---- */

/* A counted kernel uses the stream's scratch memory, one launch after the other. */
static int launch_builtin(struct hr__stream *stream, struct hr__kernel *kernel,
                          const struct hr__launch *launch)
{
    struct hr__launch what = *launch;
    struct hr__gpu_builtin *builtin = &kernel->builtin;
    const uint32_t n_blocks =
        hr__gpu_builtin_blocks(builtin, what.n_units * kernel->info.unit_in_bytes);
    void *const state = kernel->info.is_counted ? (void *)&stream->scratch : (void *)&what.state;
    void *params[] = {&what.in,    &what.out, &what.n_units, &what.first_unit,
                      &what.count, state,     builtin->args};
    assert(stream->scratch); /* it was made for kernels */
    return kernel->device->driver->launch(kernel->entry, n_blocks, builtin->block, stream->handle,
                                          params);
}

/* Two words, the lower one first: every GPU is little-endian. */
static int place_input(struct hr__stream *stream, uint64_t address)
{
    const struct hr__gpu_driver *driver = stream->device->driver;
    if (stream->inputs_at == address)
        return 0;
    stream->inputs_at = address;
    const int native = driver->fill(stream->inputs, (uint32_t)address, 1, stream->handle);
    if (native != 0)
        return native;
    return driver->fill(stream->inputs + sizeof(uint32_t), (uint32_t)(address >> 32), 1,
                        stream->handle);
}

static int launch_compiled(struct hr__stream *stream, struct hr__kernel *kernel,
                           const struct hr__launch *launch)
{
    uint32_t n_in = 1;
    struct hr__launch what = *launch;
    void *params[] = {&stream->inputs,     &n_in, &what.out, &what.n_units, &what.first_unit,
                      &kernel->args_memory};
    const uint64_t wanted =
        what.n_units / kernel->n_threads + (what.n_units % kernel->n_threads != 0);
    const uint32_t n_blocks = wanted < kernel->max_blocks ? (uint32_t)wanted : kernel->max_blocks;
    const int native = place_input(stream, (uint64_t)(uintptr_t)launch->in);
    return native != 0 ? native
                       : kernel->device->driver->launch(kernel->entry, n_blocks, kernel->n_threads,
                                                        stream->handle, params);
}

static int32_t call_function(struct hr__stream *stream, struct hr__kernel *kernel,
                             const struct hr__launch *launch)
{
    const void *const inputs[] = {launch->in};
    const struct hr_kernel_call call = {
        .struct_size = sizeof call,
        .n_in = 1,
        .in = inputs,
        .out = launch->out,
        .n_units = launch->n_units,
        .first_unit = launch->first_unit,
        .count = launch->count,
        .stream = stream->handle,
        .chunk = launch->chunk,
    };
    return kernel->function(kernel->user, &call);
}

static int zero_count(struct hr__stream *stream, const struct hr__kernel *kernel,
                      const struct hr__launch *launch)
{
    enum { WORDS = sizeof *launch->count / sizeof(uint32_t) };
    if (!kernel->info.is_counted)
        return 0;
    assert(launch->count);
    return kernel->device->driver->fill((uint64_t)(uintptr_t)launch->count, 0, WORDS,
                                        stream->handle);
}

static hr_status enqueue(struct hr__stream *stream, struct hr__kernel *kernel,
                         const struct hr__launch *launch, hr_error *failure)
{
    int native = zero_count(stream, kernel, launch);
    if (native == 0 && launch->n_units > 0) {
        if (kernel->kind == HR_KERNEL_LAUNCH) {
            const int32_t value = call_function(stream, kernel, launch);
            const struct hr__where where = {.stage = HR_STAGE_KERNEL, .native = value};
            return value == 0
                       ? HR_OK
                       : hr__fail(failure, HR_EDEVICE, where,
                                  "kernel \"%s\" returned %d for %llu units from unit %llu",
                                  kernel->name, (int)value, (unsigned long long)launch->n_units,
                                  (unsigned long long)launch->first_unit);
        }
        native = kernel->kind == HR_KERNEL_BUILTIN ? launch_builtin(stream, kernel, launch)
                                                   : launch_compiled(stream, kernel, launch);
    }
    return native == 0 ? HR_OK
                       : hr__gpu_fail(kernel->device, HR_STAGE_KERNEL, native, failure,
                                      "launching kernel \"%.60s\"", kernel->name);
}

hr_status hr__gpu_kernel_launch(struct hr__stream *stream, struct hr__kernel *kernel,
                                const struct hr__launch *launch, hr_error *error)
{
    struct hr__gpu_visit visit;
    hr_error failure;
    hr_status status = hr__gpu_stream_failure(stream, error);
    if (status != HR_OK)
        return status;
    status = hr__gpu_enter(kernel->device, &visit, &failure);
    if (status == HR_OK) {
        status = enqueue(stream, kernel, launch, &failure);
        hr__gpu_leave(kernel->device, &visit);
    }
    if (status == HR_OK)
        return HR_OK;
    failure.chunk = launch->chunk;
    failure.offset = launch->first_unit * kernel->info.unit_in_bytes;
    return hr__gpu_stream_fail(stream, &failure, error);
}
