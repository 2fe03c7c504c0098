// SPDX-License-Identifier: Apache-2.0
/* What a kernel is said to be, and what its caller hears when the fields do not fit together. */
#include <criterion/criterion.h>
#include <string.h>

#include "backend.h"

static const unsigned char image[] = {1, 2, 3};

static int32_t nothing(void *user, const struct hr_kernel_call *call)
{
    (void)user;
    (void)call;
    return 0;
}

Test(kernel_describe, built_in_kernels_know_their_units)
{
    const struct hr_kernel kernel = {.text = "cast:f64,f16"};
    const struct hr_kernel repeated = {
        .text = "filter:f32,lt,0", .unit_in = 4, .unit_out = 4, .flags = HR_KERNEL_COUNTED};
    const struct hr_kernel sum = {.text = "sum:f32"};
    struct hr__kernel_info info;
    hr_error error;
    cr_assert_eq(hr__kernel_describe(&kernel, &info, &error), HR_OK);
    cr_expect_eq(info.unit_in_bytes, 8);
    cr_expect_eq(info.unit_out_bytes, 2);
    cr_expect_eq(info.spec.kind, HR__KERNEL_CAST);
    cr_assert_eq(hr__kernel_describe(&repeated, &info, &error), HR_OK, "%s", error.text);
    cr_expect(info.is_counted);
    cr_assert_eq(hr__kernel_describe(&sum, &info, &error), HR_OK);
    cr_expect(info.is_reduction && info.state_bytes >= 8 && info.unit_out_bytes == 0);
}

Test(kernel_describe, other_kernels_have_the_units_that_their_caller_says)
{
    const struct hr_kernel kernels[] = {
        {.kind = HR_KERNEL_FUNCTION, .function = nothing, .unit_in = 12, .unit_out = 3},
        {.kind = HR_KERNEL_LAUNCH, .function = nothing, .unit_in = 12, .unit_out = 3},
        {.kind = HR_KERNEL_SOURCE, .text = "...", .entry = "f", .unit_in = 12, .unit_out = 3},
        {.kind = HR_KERNEL_IMAGE,
         .image = image,
         .image_size = sizeof image,
         .entry = "f",
         .args = image,
         .args_size = 3,
         .unit_in = 12,
         .unit_out = 3},
    };
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        struct hr_kernel kernel = kernels[i];
        struct hr__kernel_info info;
        hr_error error;
        cr_assert_eq(hr__kernel_describe(&kernel, &info, &error), HR_OK, "%s", error.text);
        cr_expect_eq(info.unit_in_bytes, 12);
        cr_expect_eq(info.unit_out_bytes, 3);
        cr_expect(!info.is_counted && !info.is_reduction && info.state_bytes == 0);
        kernel.unit_in = 0;
        kernel.unit_out = 0;
        cr_assert_eq(hr__kernel_describe(&kernel, &info, NULL), HR_OK);
        cr_expect_eq(info.unit_in_bytes, 1);
        cr_expect_eq(info.unit_out_bytes, 0, "the input passes on");
    }
}

Test(kernel_describe, what_does_not_fit_is_named)
{
    const struct {
        struct hr_kernel kernel;
        const char *text;
    } cases[] = {
        {{.kind = 5, .text = "crc32"}, "kind 5 is not known"},
        {{.kind = HR_KERNEL_BUILTIN}, "a built-in kernel needs text"},
        {{.text = "crc32", .function = nothing}, "a built-in kernel takes no function"},
        {{.text = "crc32", .entry = "f"}, "takes no entry"},
        {{.text = "crc32", .args = image, .args_size = 3}, "takes no args"},
        {{.text = "crc33"}, "\"crc33\" is not accepted"},
        {{.text = "cast:f64,f16", .unit_in = 4}, "reads units of 8 bytes and writes 2"},
        {{.text = "sum:f32", .unit_out = 4}, "writes 0 for each"},
        {{.text = "cast:u8,i8", .flags = HR_KERNEL_COUNTED}, "is not counted"},
        {{.text = "crc32", .flags = 6}, "flags 0x6 are not known"},
        {{.kind = HR_KERNEL_FUNCTION}, "a host function needs function"},
        {{.kind = HR_KERNEL_LAUNCH}, "a launch function needs function"},
        {{.kind = HR_KERNEL_FUNCTION, .function = nothing, .flags = HR_KERNEL_COUNTED},
         "HR_KERNEL_COUNTED needs unit_out"},
        {{.kind = HR_KERNEL_LAUNCH, .function = nothing, .image_size = 1}, "takes no image"},
        {{.kind = HR_KERNEL_SOURCE, .entry = "f"}, "a kernel in source needs text"},
        {{.kind = HR_KERNEL_SOURCE, .text = "..."}, "a kernel in source needs entry"},
        {{.kind = HR_KERNEL_SOURCE, .text = "...", .entry = "f", .args_size = 2},
         "args and args_size (2) go together"},
        {{.kind = HR_KERNEL_SOURCE, .text = "...", .entry = "f", .args = image},
         "args and args_size (0) go together"},
        {{.kind = HR_KERNEL_SOURCE, .text = "...", .entry = "f", .unit_out = 1, .flags = 1},
         "is for functions"},
        {{.kind = HR_KERNEL_IMAGE, .entry = "f"}, "a compiled kernel needs image"},
        {{.kind = HR_KERNEL_IMAGE, .image = image, .image_size = 3}, "needs entry"},
        {{.kind = HR_KERNEL_IMAGE, .image = image, .entry = "f"}, "image_size (0) go together"},
        {{.kind = HR_KERNEL_IMAGE, .image = image, .image_size = 3, .entry = "f", .text = "x"},
         "a compiled kernel takes no text"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hr__kernel_info info = {.unit_in_bytes = 77};
        hr_error error = {0};
        cr_expect_eq(hr__kernel_describe(&cases[i].kernel, &info, &error), HR_EINVAL, "%s",
                     cases[i].text);
        cr_expect_eq(error.code, HR_EINVAL);
        cr_expect_eq(error.stage, HR_STAGE_KERNEL);
        cr_expect(strstr(error.text, cases[i].text), "\"%s\", not \"%s\"", error.text,
                  cases[i].text);
        cr_expect_eq(info.unit_in_bytes, 77, "untouched");
    }
}
