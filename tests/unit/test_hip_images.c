// SPDX-License-Identifier: Apache-2.0
/* Images on HIP's devices: which code object of the build a device gets, and when the compiler is
 * called. In the fake ROCm 7 the compiler is a library of its own: what works without it was not
 * compiled. The fake takes code for its own processor alone, and sees at a module's end that its
 * image has stayed. */
#include "hip_bundle.h"
#include "hip_rig.h"

TestSuite(hip_images, .timeout = 60);

enum { WITHOUT_COMPILER = 7, WITH_COMPILER = 6 };

static const char *const archs[] = {"gfx906",  "gfx908",  "gfx90a",  "gfx942",  "gfx1030",
                                    "gfx1100", "gfx1101", "gfx1151", "gfx1200", "gfx1201"};

static void need_bundle(void)
{
    if (hr__hip_bundle_size == 0)
        cr_skip_test("built without code objects");
}

static hr_status create(struct hr__device *on, const struct hr_kernel *kernel)
{
    struct hr__kernel *made = NULL;
    const hr_status status = on->ops->kernel_create(on, kernel, &made, &error);
    if (status == HR_OK)
        on->ops->kernel_destroy(made);
    return status;
}

static hr_status create_builtin(struct hr__device *on)
{
    const struct hr_kernel kernel = {
        .struct_size = sizeof kernel, .kind = HR_KERNEL_BUILTIN, .text = "bswap:2"};
    return create(on, &kernel);
}

/* On a device of the architecture. */
static hr_status builtin_on(const char *arch)
{
    setenv("FAKE_HIP_ARCH", arch, 1);
    device = open_device("hip:0");
    const hr_status status = create_builtin(device);
    device->ops->close(device);
    expect_nothing_left();
    return status;
}

Test(hip_images, every_architecture_of_the_build_gets_its_own_code)
{
    need_bundle();
    use_fake_hip(WITHOUT_COMPILER);
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++)
        cr_expect_eq(builtin_on(archs[i]), HR_OK, "%s: %s", archs[i], error.text);
}

Test(hip_images, code_without_features_serves_devices_with_any)
{
    static const char *const devices[] = {"gfx906:sramecc+:xnack-", "gfx906:sramecc-:xnack+",
                                          "gfx908:sramecc+:xnack-", "gfx90a:sramecc+:xnack+",
                                          "gfx90a:xnack-",          "gfx942:sramecc+:xnack-"};
    need_bundle();
    use_fake_hip(WITHOUT_COMPILER);
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++)
        cr_expect_eq(builtin_on(devices[i]), HR_OK, "%s: %s", devices[i], error.text);
}

Test(hip_images, for_other_architectures_the_source_is_compiled)
{
    use_fake_hip(WITH_COMPILER);
    cr_expect_eq(builtin_on("gfx1103"), HR_OK, "%s", error.text);
    cr_expect_eq(builtin_on("gfx90c:xnack-"), HR_OK, "%s", error.text);
}

Test(hip_images, without_a_compiler_the_error_names_it_and_the_architecture)
{
    use_fake_hip(WITHOUT_COMPILER);
    cr_expect_eq(builtin_on("gfx1103"), HR_EUNSUPPORTED);
    cr_expect(strstr(error.text, "hipRTC, which cannot be used: library not found: tried "
                                 "libhiprtc.so.7"),
              "%s", error.text);
    cr_expect(strstr(error.text, "this build has no code for gfx1103"), "%s", error.text);
}

/* Which of the three a missing architecture is differs by version. */
static const char *const refusals[] = {"200", "209", "218"};

Test(hip_images, what_the_driver_refuses_is_compiled)
{
    need_bundle();
    use_fake_hip(WITH_COMPILER);
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        setenv("FAKE_HIP_LOAD_STATUS", refusals[i], 1);
        cr_expect_eq(builtin_on("gfx1100"), HR_OK, "%s: %s", refusals[i], error.text);
    }
}

Test(hip_images, what_is_refused_and_cannot_be_compiled_is_told)
{
    need_bundle();
    use_fake_hip(WITHOUT_COMPILER);
    setenv("FAKE_HIP_LOAD_STATUS", "209", 1);
    cr_expect_eq(builtin_on("gfx90a:sramecc+:xnack-"), HR_EUNSUPPORTED);
    cr_expect(strstr(error.text, "hipRTC, which cannot be used"), "%s", error.text);
    cr_expect(strstr(error.text, "loading its image for gfx90a:sramecc+:xnack-"), "%s", error.text);
    cr_expect(strstr(error.text, "(209)"), "%s", error.text);
}

Test(hip_images, other_failures_of_loading_are_reported_as_they_are)
{
    need_bundle();
    use_fake_hip(WITH_COMPILER);
    setenv("FAKE_HIP_LOAD_STATUS", "2", 1);
    cr_expect_eq(builtin_on("gfx1030"), HR_ENOMEM);
    cr_expect_eq(error.native, HR__HIP_OUT_OF_MEMORY);
    cr_expect(strstr(error.text, "loading its image for gfx1030"), "%s", error.text);
    cr_expect_eq(create_builtin(open_device("hip:1")), HR_ENOMEM, "without an error to fill");
}

Test(hip_images, each_device_has_one_module_for_all_its_kernels)
{
    need_bundle();
    use_fake_hip(WITHOUT_COMPILER);
    struct hr__device *devices[] = {open_device("hip:0"), open_device("hip:1")};
    for (int i = 0; i < 6; i++)
        cr_expect_eq(create_builtin(devices[i % 2]), HR_OK, "%s", error.text);
    cr_expect_eq(fake_cuda_live().modules, 2);
    devices[0]->ops->close(devices[0]);
    cr_expect_eq(fake_cuda_live().modules, 1);
    devices[1]->ops->close(devices[1]);
    expect_nothing_left();
}

/* From memory that the user takes back at once. */
static hr_status create_from(const void *image, size_t size)
{
    unsigned char *copy = malloc(size);
    memcpy(copy, image, size);
    const struct hr_kernel kernel = {.struct_size = sizeof kernel,
                                     .kind = HR_KERNEL_IMAGE,
                                     .entry = "fake_builtin",
                                     .image = copy,
                                     .image_size = size};
    device = open_device("hip:0");
    const hr_status status = create(device, &kernel);
    memset(copy, 0, size);
    free(copy);
    device->ops->close(device);
    expect_nothing_left();
    return status;
}

Test(hip_images, kernels_of_the_user_come_as_code_objects_and_as_bundles)
{
    const void *code = NULL;
    size_t size = 0;
    need_bundle();
    use_fake_hip(WITHOUT_COMPILER);
    setenv("FAKE_HIP_ARCH", "gfx942:sramecc+:xnack-", 1);
    cr_assert(hr__hip_bundle_find(hr__hip_bundle, hr__hip_bundle_size, "gfx942", &code, &size));
    cr_expect_eq(create_from(code, size), HR_OK, "%s", error.text);
    cr_expect_eq(create_from(hr__hip_bundle, hr__hip_bundle_size), HR_OK, "%s", error.text);
    cr_assert(hr__hip_bundle_find(hr__hip_bundle, hr__hip_bundle_size, "gfx90a", &code, &size));
    cr_expect_eq(create_from(code, size), HR_EUNSUPPORTED);
    cr_expect(strstr(error.text, "(209)"), "%s", error.text);
}
