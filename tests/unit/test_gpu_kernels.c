// SPDX-License-Identifier: Apache-2.0
/* Kernels of every kind on a GPU, over the fake driver: what they are called with, where they come
 * from, and what is wrong with them. */
#include <string.h>

#include "gpu_rig.h"

TestSuite(gpu_kernels, .init = open_gpu, .timeout = 60);

/* A kernel of ABI 1: each byte plus the first of its arguments and the index of its unit. */
static struct fake_cuda_launch seen;

static uint64_t number(const struct fake_cuda_launch *launch, unsigned param)
{
    uint64_t value;
    memcpy(&value, launch->params[param], sizeof value);
    return value;
}

static int add(const struct fake_cuda_launch *launch)
{
    const uint64_t n = number(launch, 3);
    uint64_t in_at;
    memcpy(&in_at, fake_cuda_host(number(launch, 0), sizeof in_at), sizeof in_at);
    const unsigned char *in = fake_cuda_host(in_at, (size_t)n);
    unsigned char *out = fake_cuda_host(number(launch, 2), (size_t)n);
    const uint64_t args = number(launch, 5);
    const unsigned char *more = args ? fake_cuda_host(args, 1) : NULL;
    for (uint64_t i = 0; i < n; i++)
        out[i] = (unsigned char)(in[i] + number(launch, 4) + i + (more ? *more : 0));
    seen = *launch;
    return 0;
}

static void register_add(void)
{
    static const size_t sizes[] = {8, 4, 8, 8, 8, 8, 0};
    fake_cuda_kernel("add", add, sizes);
}

static const char image[] = "fake image";
static const struct hr_kernel of_image = {.struct_size = sizeof of_image,
                                          .kind = HR_KERNEL_IMAGE,
                                          .unit_out = 1,
                                          .entry = "add",
                                          .image = image,
                                          .image_size = sizeof image};
static const struct hr_kernel of_source = {.struct_size = sizeof of_source,
                                           .kind = HR_KERNEL_SOURCE,
                                           .unit_out = 1,
                                           .text = "void add() {}\n",
                                           .entry = "add"};

static hr_status refuse(struct hr_kernel kernel)
{
    struct hr__kernel *made = NULL;
    const hr_status status = ops->kernel_create(device, &kernel, &made, &error);
    cr_expect_null(made);
    return status;
}

Test(gpu_kernels, a_compiled_kernel_gets_the_parameters_of_the_abi)
{
    enum { N = 100, TIMES = 5 };
    unsigned char args[] = {7, 8, 9};
    unsigned char bytes[N];
    register_add();
    struct hr_kernel with_args = of_image;
    with_args.args = args;
    with_args.args_size = sizeof args;
    struct hr__kernel *kernel = new_kernel(with_args);
    struct hr__stream *stream = new_stream();
    unsigned char *buffers[] = {new_memory(N), new_memory(N)};
    memset(args, 0, sizeof args); /* it was copied */
    memset(bytes, 0, N);
    ops->copy(stream, buffers[0], bytes, N, HR__COPY_H2D, &error);
    for (unsigned i = 0; i < TIMES; i++) { /* to and fro, without waiting */
        const struct hr__launch launch = {
            .in = buffers[i % 2], .out = buffers[(i + 1) % 2], .n_units = N, .first_unit = 3};
        cr_assert_eq(ops->launch(stream, kernel, &launch, &error), HR_OK, "%s", error.text);
    }
    ops->copy(stream, bytes, buffers[TIMES % 2], N, HR__COPY_D2H, &error);
    cr_assert_eq(device_drain(device, stream, &error), HR_OK, "%s", error.text);
    for (unsigned i = 0; i < N; i++)
        cr_expect_eq(bytes[i], (unsigned char)(TIMES * (i + 3 + 7)), "%u", i);
    cr_expect_eq(seen.params[1][0], 1, "n_in");
    ops->free(device, buffers[0]);
    ops->free(device, buffers[1]);
    ops->stream_destroy(stream);
    ops->kernel_destroy(kernel);
    close_gpu();
}

Test(gpu_kernels, the_grid_covers_the_units_and_has_a_limit)
{
    static const struct {
        uint64_t n_units;
        unsigned n_blocks;
    } cases[] = {{1, 1}, {192, 1}, {193, 2}, {192 * 64, 64}, {192 * 64 + 1, 64}};
    register_add();
    struct hr__kernel *kernel = new_kernel(of_source);
    struct hr__stream *stream = new_stream();
    void *memory = new_memory(192 * 65);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct hr__launch launch = {.in = memory, .out = memory, .n_units = cases[i].n_units};
        cr_assert_eq(ops->launch(stream, kernel, &launch, &error), HR_OK, "%s", error.text);
        cr_assert_eq(device_drain(device, stream, &error), HR_OK, "%s", error.text);
        cr_expect_eq(seen.n_threads, 192, "as many as the kernel takes");
        cr_expect_eq(seen.n_blocks, cases[i].n_blocks, "%llu units: %u blocks",
                     (unsigned long long)cases[i].n_units, seen.n_blocks);
    }
    ops->free(device, memory);
    ops->stream_destroy(stream);
    ops->kernel_destroy(kernel);
    close_gpu();
}

Test(gpu_kernels, what_has_the_same_content_is_compiled_once)
{
    register_add();
    struct hr_kernel source_of_same_bytes = of_source;
    source_of_same_bytes.text = image;
    struct hr__kernel *first = new_kernel(of_image);
    struct hr__kernel *second = new_kernel(of_image);
    cr_expect_eq(fake_cuda_live().modules, 1);
    struct hr__kernel *third = new_kernel(source_of_same_bytes);
    cr_expect_eq(fake_cuda_live().modules, 2);
    struct hr__kernel *fourth = new_kernel(of_source);
    cr_expect_eq(fake_cuda_live().modules, 3);
    ops->kernel_destroy(first);
    ops->kernel_destroy(second);
    ops->kernel_destroy(third);
    ops->kernel_destroy(fourth);
    ops->kernel_destroy(NULL);
    close_gpu();
}

static int32_t ignore(void *user, const struct hr_kernel_call *call)
{
    (void)user;
    (void)call;
    return 0;
}

Test(gpu_kernels, what_cannot_run_is_refused_with_the_reason)
{
    const struct hr_kernel function = {
        .struct_size = sizeof function, .kind = HR_KERNEL_FUNCTION, .function = ignore};
    struct hr_kernel kernel = of_image;
    register_add();
    cr_expect_eq(refuse(function), HR_EUNSUPPORTED);
    cr_expect(strstr(error.text, "run on device \"host\" only"), "%s", error.text);
    kernel.entry = "subtract";
    cr_expect_eq(refuse(kernel), HR_EINVAL);
    cr_expect(strstr(error.text, "\"subtract\""), "%s", error.text);
    kernel = of_image;
    kernel.image = "junk";
    kernel.image_size = 4;
    cr_expect_eq(refuse(kernel), HR_EUNSUPPORTED);
    cr_expect(strstr(error.text, "line 7: what is this? no idea"), "%s", error.text);
    cr_expect(strstr(error.text, "sm_90"), "%s", error.text);
    kernel = of_source;
    kernel.text = "one\ntwo\n#error\n";
    cr_expect_eq(refuse(kernel), HR_EINVAL);
    cr_expect(strstr(error.text, "add(3): error: as asked for"), "%s", error.text);
    close_gpu();
}

static int32_t fill_with_its_stream(void *user, const struct hr_kernel_call *call)
{
    int32_t *result = user;
    if (call->stream != (void *)(uintptr_t)call->first_unit || call->n_in != 1 ||
        !fake_cuda_current())
        return 99;
    return *result;
}

Test(gpu_kernels, a_launch_function_gets_the_drivers_stream_and_may_fail)
{
    int32_t result = 0;
    struct hr__kernel *kernel = new_kernel((struct hr_kernel){.kind = HR_KERNEL_LAUNCH,
                                                              .function = fill_with_its_stream,
                                                              .user = &result,
                                                              .text = "mine"});
    struct hr__stream *stream = new_stream();
    const struct hr__launch launch = {
        .n_units = 1, .first_unit = (uintptr_t)ops->stream_handle(stream), .chunk = 5};
    cr_expect_eq(ops->launch(stream, kernel, &launch, &error), HR_OK, "%s", error.text);
    result = 3;
    cr_expect_eq(ops->launch(stream, kernel, &launch, &error), HR_EDEVICE);
    cr_expect(strstr(error.text, "\"mine\" returned 3"), "%s", error.text);
    cr_expect_eq(error.chunk, 5);
    cr_expect_eq(device_drain(device, stream, &error), HR_EDEVICE);
    ops->stream_destroy(stream);
    ops->kernel_destroy(kernel);
    close_gpu();
}

Test(gpu_kernels, of_no_units_the_count_is_0)
{
    uint64_t count = 77;
    struct hr__kernel *kernel = new_kernel((struct hr_kernel){.text = "filter:u8,lt,3"});
    struct hr__stream *stream = new_stream();
    uint64_t *device_count = new_memory(sizeof count);
    const struct hr__launch launch = {.count = device_count};
    cr_expect_eq(ops->launch(stream, kernel, &launch, &error), HR_OK, "%s", error.text);
    ops->copy(stream, &count, device_count, sizeof count, HR__COPY_D2H, &error);
    cr_expect_eq(device_drain(device, stream, &error), HR_OK);
    cr_expect_eq(count, 0);
    ops->free(device, device_count);
    ops->stream_destroy(stream);
    ops->kernel_destroy(kernel);
    close_gpu();
}
