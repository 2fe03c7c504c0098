// SPDX-License-Identifier: Apache-2.0
/* user_kernels [DEVICE]: what a GPU makes of kernels of the user (default "cuda"): an image, which is
 * PTX and so not for HIP, a source, a source that is wrong, and one with a fault, which must end the
 * device and not the process. Skipped with 77 where the device is not there, unless HR_REQUIRE names
 * its backend, as in HR_REQUIRE=cuda. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "device_tools.h"

enum { SKIPPED = 77, N = 100001 };

static struct hr__device *device;
static const struct hr__device_ops *ops;
static hr_error error;
static unsigned n_passed;
static unsigned n_failed;

/* Kernel ABI 1: out[i] = 3 * in[0][i], a grid stride apart. */
static const char triple_image[] =
    ".version 6.0\n.target sm_60\n.address_size 64\n"
    ".visible .entry triple(.param .u64 in, .param .u32 n_in, .param .u64 out,\n"
    "    .param .u64 n_units, .param .u64 first_unit, .param .u64 args)\n"
    "{\n"
    "    .reg .pred %p;\n    .reg .b16 %h;\n    .reg .b32 %r<4>;\n    .reg .b64 %d<8>;\n"
    "    ld.param.u64 %d0, [in];\n    ld.u64 %d0, [%d0];\n"
    "    ld.param.u64 %d1, [out];\n    ld.param.u64 %d2, [n_units];\n"
    "    mov.u32 %r0, %ctaid.x;\n    mov.u32 %r1, %ntid.x;\n    mov.u32 %r2, %tid.x;\n"
    "    mov.u32 %r3, %nctaid.x;\n"
    "    mul.wide.u32 %d3, %r0, %r1;\n    cvt.u64.u32 %d4, %r2;\n    add.u64 %d3, %d3, %d4;\n"
    "    mul.wide.u32 %d5, %r3, %r1;\n"
    "next:\n"
    "    setp.ge.u64 %p, %d3, %d2;\n    @%p bra done;\n"
    "    add.u64 %d6, %d0, %d3;\n    ld.u8 %h, [%d6];\n    mul.lo.u16 %h, %h, 3;\n"
    "    add.u64 %d7, %d1, %d3;\n    st.u8 [%d7], %h;\n"
    "    add.u64 %d3, %d3, %d5;\n    bra next;\n"
    "done:\n    ret;\n}\n";

static const char sources[] =
    "typedef unsigned char u8;\ntypedef unsigned long long u64;\n"
    "extern \"C\" __global__ void add(const u8 *const *in, unsigned n_in, u8 *out, u64 n,\n"
    "                               u64 first, const u8 *args)\n"
    "{\n"
    "    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < n;\n"
    "         i += gridDim.x * (u64)blockDim.x)\n"
    "        out[i] = in[0][i] + args[n_in];\n"
    "}\n"
    "extern \"C\" __global__ void triple(const u8 *const *in, unsigned n_in, u8 *out, u64 n)\n"
    "{\n"
    "    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < n;\n"
    "         i += gridDim.x * (u64)blockDim.x)\n"
    "        out[i] = in[0][i] * 3;\n"
    "}\n"
    "extern \"C\" __global__ void fault(const u8 *const *in, unsigned n_in, u8 *out)\n"
    "{\n"
    "    *(volatile u64 *)(n_in * 8ull) = 1;\n"
    "}\n";

static void expect(bool passed, const char *what)
{
    printf("%s %s%s%s\n", passed ? "ok" : "not ok", what, passed ? "" : ": ",
           passed ? "" : error.text);
    *(passed ? &n_passed : &n_failed) += 1;
}

/* Passes bytes through the kernel; HR_OK if each is a * byte + b. */
static hr_status pass(const struct hr_kernel *description, unsigned a, unsigned b)
{
    static unsigned char bytes[2][N];
    struct hr__stream *stream = NULL;
    struct hr__kernel *kernel = NULL;
    void *memory[2] = {0};
    hr_status status = ops->kernel_create(device, description, &kernel, &error);
    if (status != HR_OK)
        return status;
    ops->pin(device, bytes, sizeof bytes);
    for (size_t i = 0; i < N; i++)
        bytes[0][i] = (unsigned char)(i * 7);
    status = ops->stream_create(device, HR__STREAM_KERNELS, &stream, &error);
    for (int i = 0; i < 2 && status == HR_OK; i++)
        status = ops->alloc(device, N, &memory[i], &error);
    const struct hr__launch launch = {.in = memory[0], .out = memory[1], .n_units = N};
    if (status == HR_OK)
        status = ops->copy(stream, memory[0], bytes[0], N, HR__COPY_H2D, &error);
    if (status == HR_OK)
        status = ops->launch(stream, kernel, &launch, &error);
    if (status == HR_OK)
        status = ops->copy(stream, bytes[1], memory[1], N, HR__COPY_D2H, &error);
    if (status == HR_OK)
        status = device_drain(device, stream, &error);
    for (size_t i = 0; i < N && status == HR_OK; i++) {
        if (bytes[1][i] != (unsigned char)(a * bytes[0][i] + b)) {
            snprintf(error.text, sizeof error.text, "byte %zu is %u", i, bytes[1][i]);
            status = HR_EDEVICE;
        }
    }
    ops->stream_destroy(stream);
    for (int i = 0; i < 2; i++) {
        if (memory[i])
            ops->free(device, memory[i]);
    }
    ops->unpin(device, bytes);
    ops->kernel_destroy(kernel);
    return status;
}

static void run_image(void)
{
    const struct hr_kernel kernel = {.struct_size = sizeof kernel,
                                     .kind = HR_KERNEL_IMAGE,
                                     .unit_out = 1,
                                     .entry = "triple",
                                     .image = triple_image,
                                     .image_size =
                                         sizeof triple_image - 1}; /* its 0 is not needed */
    expect(pass(&kernel, 3, 0) == HR_OK, "a kernel of an image");
}

static void run_sources(void)
{
    static const unsigned char args[] = {9, 5};
    struct hr_kernel kernel = {.struct_size = sizeof kernel,
                               .kind = HR_KERNEL_SOURCE,
                               .unit_out = 1,
                               .entry = "triple",
                               .text = sources};
    expect(pass(&kernel, 3, 0) == HR_OK, "a kernel of a source");
    kernel.args = args;
    kernel.args_size = sizeof args;
    kernel.entry = "add";
    expect(pass(&kernel, 1, 5) == HR_OK, "a kernel of a source, with arguments");
    kernel.entry = "subtract";
    expect(pass(&kernel, 1, 5) == HR_EINVAL && strstr(error.text, "\"subtract\""),
           "an entry that is not there");
    kernel.entry = "add";
    kernel.text = "\n\nthis is no source\n";
    expect(pass(&kernel, 1, 5) == HR_EINVAL && strstr(error.text, "add(3)"),
           "a source that is wrong, with the line");
    kernel.text = sources;
    kernel.entry = "fault";
    expect(pass(&kernel, 1, 0) == HR_EDEVICE && strstr(error.text, "only a new process"),
           "a fault, told as what it is");
    kernel.entry = "add";
    expect(pass(&kernel, 1, 5) == HR_EDEVICE, "nothing runs after a fault");
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "cuda";
    char why[HR_ERROR_TEXT];
    const hr_status status = hr__device_open(name, &device, why, sizeof why, &error);
    if (status == HR_EUNSUPPORTED && !device_is_required(name)) {
        printf("skip: %s\n", error.text);
        return SKIPPED;
    }
    if (status == HR_OK) {
        ops = device->ops;
        if (strncmp(name, "cuda", strlen("cuda")) == 0)
            run_image();
        run_sources();
        ops->close(device);
    } else {
        expect(false, "open");
    }
    printf("%u passed, %u failed, 0 skipped\n", n_passed, n_failed);
    return n_failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
