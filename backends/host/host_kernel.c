// SPDX-License-Identifier: Apache-2.0
/* What the host's streams run: the built-in kernels of this directory, and functions of the user.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "host_device.h"
#include "status.h"

/* What messages call it: the text is the specification of a built-in kernel, and of a function the
 * name that its user gave it, if any. */
static void name_kernel(struct hr__kernel *made, const struct hr_kernel *kernel)
{
    const char *otherwise =
        kernel->kind == HR_KERNEL_LAUNCH ? "a launch function" : "a host function";
    snprintf(made->name, sizeof made->name, "%s", kernel->text ? kernel->text : otherwise);
}

hr_status hr__host_kernel_create(struct hr__device *device, const struct hr_kernel *kernel,
                                 struct hr__kernel **out, hr_error *error)
{
    const struct hr__where where = {.stage = HR_STAGE_KERNEL};
    struct hr__kernel_info info = {0};
    const hr_status status = hr__kernel_describe(kernel, &info, error);
    if (status != HR_OK)
        return status;
    if (kernel->kind == HR_KERNEL_SOURCE || kernel->kind == HR_KERNEL_IMAGE)
        return hr__fail(error, HR_EUNSUPPORTED, where,
                        "kernel \"%s\": the host device runs built-in kernels and host functions "
                        "only; compiled kernels need a GPU",
                        kernel->entry);
    struct hr__kernel *made = calloc(1, sizeof *made);
    if (!made)
        return hr__fail(error, HR_ENOMEM, where, "no memory for a kernel");
    made->base = *device;
    made->info = info;
    made->kind = (enum hr_kernel_kind)kernel->kind;
    made->function = kernel->function;
    made->user = kernel->user;
    name_kernel(made, kernel);
    *out = made;
    return HR_OK;
}

void hr__host_kernel_destroy(struct hr__kernel *kernel)
{
    free(kernel);
}

const struct hr__kernel_info *hr__host_kernel_info(const struct hr__kernel *kernel)
{
    return &kernel->info;
}

int32_t hr__host_kernel_call(const struct hr__kernel *kernel, const struct hr__launch *launch,
                             void *stream)
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
        .stream = stream,
        .chunk = launch->chunk,
    };
    return kernel->function(kernel->user, &call);
}

hr_status hr__host_kernel_fail(const struct hr__kernel *kernel, const struct hr__launch *launch,
                               int32_t value, hr_error *error)
{
    const struct hr__where where = {
        .stage = HR_STAGE_KERNEL,
        .native = value,
        .chunk = launch->chunk,
        .offset = launch->first_unit * kernel->info.unit_in_bytes,
    };
    return hr__fail(error, HR_EDEVICE, where,
                    "kernel \"%s\" returned %d for %llu units from unit %llu", kernel->name,
                    (int)value, (unsigned long long)launch->n_units,
                    (unsigned long long)launch->first_unit);
}

static void run_builtin(const struct hr__kernel_spec *spec, const struct hr__launch *launch)
{
    const size_t n = (size_t)launch->n_units;
    if (spec->is_reduction)
        hr__reduce_fold(spec, launch->state, launch->in, n, launch->first_unit);
    else if (spec->is_counted)
        *launch->count = hr__kernel_filter(spec, launch->in, launch->out, n);
    else
        hr__kernel_map(spec, launch->in, launch->out, n);
}

hr_status hr__host_kernel_run(const struct hr__kernel *kernel, const struct hr__launch *launch,
                              hr_error *error)
{
    assert(!kernel->info.is_counted || launch->count);
    if (launch->n_units == 0) {
        if (kernel->info.is_counted)
            *launch->count = 0;
        return HR_OK;
    }
    if (!kernel->function) {
        run_builtin(&kernel->info.spec, launch);
        return HR_OK;
    }
    const int32_t value = hr__host_kernel_call(kernel, launch, NULL);
    return value == 0 ? HR_OK : hr__host_kernel_fail(kernel, launch, value, error);
}
