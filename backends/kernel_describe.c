// SPDX-License-Identifier: Apache-2.0
/* What a kernel is, and whether what its caller filled in makes sense together. */

#include "backend.h"
#include "status.h"

/* The fields of struct hr_kernel that only some kinds have. */
enum field {
    FIELD_TEXT = 1,
    FIELD_ENTRY = 2,
    FIELD_IMAGE = 4,
    FIELD_ARGS = 8,
    FIELD_FUNCTION = 16,
};

struct shape {
    const char *name;
    unsigned needed;
    unsigned allowed; /* beside those needed */
};

/* By enum hr_kernel_kind. The text of a function is its name in messages. */
static const struct shape shapes[] = {
    [HR_KERNEL_BUILTIN] = {"a built-in kernel", FIELD_TEXT, 0},
    [HR_KERNEL_FUNCTION] = {"a host function", FIELD_FUNCTION, FIELD_TEXT},
    [HR_KERNEL_LAUNCH] = {"a launch function", FIELD_FUNCTION, FIELD_TEXT},
    [HR_KERNEL_SOURCE] = {"a kernel in source", FIELD_TEXT | FIELD_ENTRY, FIELD_ARGS},
    [HR_KERNEL_IMAGE] = {"a compiled kernel", FIELD_IMAGE | FIELD_ENTRY, FIELD_ARGS},
};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

static const struct hr__where where = {.stage = HR_STAGE_KERNEL};

static const char *first_field(unsigned fields)
{
    static const char *const names[] = {"text", "entry", "image and image_size",
                                        "args and args_size", "function"};
    size_t i = 0;
    while (!(fields >> i & 1))
        i++;
    return names[i];
}

static unsigned given_fields(const struct hr_kernel *kernel)
{
    unsigned given = 0;
    given |= kernel->text ? FIELD_TEXT : 0;
    given |= kernel->entry ? FIELD_ENTRY : 0;
    given |= kernel->image || kernel->image_size ? FIELD_IMAGE : 0;
    given |= kernel->args || kernel->args_size ? FIELD_ARGS : 0;
    given |= kernel->function ? FIELD_FUNCTION : 0;
    return given;
}

static hr_status check_fields(const struct hr_kernel *kernel, hr_error *error)
{
    if (kernel->kind >= N_SHAPES)
        return hr__fail(error, HR_EINVAL, where,
                        "kernel: kind %u is not known; it can be HR_KERNEL_BUILTIN (0), FUNCTION, "
                        "LAUNCH, SOURCE or IMAGE (4)",
                        (unsigned)kernel->kind);
    const struct shape *shape = &shapes[kernel->kind];
    const unsigned given = given_fields(kernel);
    const unsigned missing = shape->needed & ~given;
    const unsigned extra = given & ~(shape->needed | shape->allowed);
    if (missing)
        return hr__fail(error, HR_EINVAL, where, "kernel: %s needs %s", shape->name,
                        first_field(missing));
    if (extra)
        return hr__fail(error, HR_EINVAL, where, "kernel: %s takes no %s", shape->name,
                        first_field(extra));
    if (!kernel->image != !kernel->image_size)
        return hr__fail(error, HR_EINVAL, where, "kernel: image and image_size (%llu) go together",
                        (unsigned long long)kernel->image_size);
    if (!kernel->args != !kernel->args_size)
        return hr__fail(error, HR_EINVAL, where, "kernel: args and args_size (%u) go together",
                        (unsigned)kernel->args_size);
    return HR_OK;
}

static hr_status check_flags(const struct hr_kernel *kernel, hr_error *error)
{
    const unsigned flags = kernel->flags;
    if (flags & ~(unsigned)HR_KERNEL_COUNTED)
        return hr__fail(error, HR_EINVAL, where,
                        "kernel: flags 0x%x are not known; there is HR_KERNEL_COUNTED (1)", flags);
    if (!flags || kernel->kind == HR_KERNEL_BUILTIN)
        return HR_OK;
    if (kernel->kind == HR_KERNEL_SOURCE || kernel->kind == HR_KERNEL_IMAGE)
        return hr__fail(error, HR_EINVAL, where,
                        "kernel \"%s\": HR_KERNEL_COUNTED is for functions; a compiled kernel has "
                        "no parameter for its count",
                        kernel->entry);
    if (kernel->unit_out == 0)
        return hr__fail(error, HR_EINVAL, where,
                        "kernel: HR_KERNEL_COUNTED needs unit_out, the bytes of what is counted");
    return HR_OK;
}

/* A caller may repeat what the text says, but not contradict it. */
static hr_status check_builtin(const struct hr_kernel *kernel, const struct hr__kernel_spec *spec,
                               hr_error *error)
{
    if ((kernel->unit_in && kernel->unit_in != spec->unit_in_bytes) ||
        (kernel->unit_out && kernel->unit_out != spec->unit_out_bytes))
        return hr__fail(error, HR_EINVAL, where,
                        "kernel \"%s\" reads units of %u bytes and writes %u for each, not %u and "
                        "%u; 0 means what the text says",
                        kernel->text, (unsigned)spec->unit_in_bytes, (unsigned)spec->unit_out_bytes,
                        (unsigned)kernel->unit_in, (unsigned)kernel->unit_out);
    if (kernel->flags && !spec->is_counted)
        return hr__fail(error, HR_EINVAL, where, "kernel \"%s\" is not counted: flags must be 0",
                        kernel->text);
    return HR_OK;
}

static hr_status describe_builtin(const struct hr_kernel *kernel, struct hr__kernel_info *out,
                                  hr_error *error)
{
    char why[HR_ERROR_TEXT] = "";
    struct hr__kernel_spec spec;
    if (hr__kernel_parse(kernel->text, &spec, why, sizeof why) != 0)
        return hr__fail(error, HR_EINVAL, where, "%s", why);
    const hr_status status = check_builtin(kernel, &spec, error);
    if (status != HR_OK)
        return status;
    *out = (struct hr__kernel_info){
        .unit_in_bytes = spec.unit_in_bytes,
        .unit_out_bytes = spec.unit_out_bytes,
        .is_reduction = spec.is_reduction,
        .is_counted = spec.is_counted,
        .state_bytes = (size_t)spec.state_bytes,
        .spec = spec,
    };
    return HR_OK;
}

hr_status hr__kernel_describe(const struct hr_kernel *kernel, struct hr__kernel_info *out,
                              hr_error *error)
{
    hr_status status = check_fields(kernel, error);
    if (status == HR_OK)
        status = check_flags(kernel, error);
    if (status != HR_OK)
        return status;
    if (kernel->kind == HR_KERNEL_BUILTIN)
        return describe_builtin(kernel, out, error);
    *out = (struct hr__kernel_info){
        .unit_in_bytes = kernel->unit_in ? kernel->unit_in : 1,
        .unit_out_bytes = kernel->unit_out,
        .is_counted = kernel->flags & HR_KERNEL_COUNTED,
    };
    return HR_OK;
}
