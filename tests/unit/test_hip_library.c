// SPDX-License-Identifier: Apache-2.0
/* HIP's library: which one is found, what is told of one that cannot be used or has no devices, and
 * where its compiler is. */
#include <sys/wait.h>
#include <unistd.h>

#include "hip_rig.h"
#include "quiet_fork.h"

TestSuite(hip_library, .timeout = 60);

static void expect_absent(const char *text)
{
    char why[HR_ERROR_TEXT];
    cr_expect_eq(hr__device_open("hip", &device, why, sizeof why, &error), HR_EUNSUPPORTED);
    cr_expect(strstr(error.text, "device \"hip\" is not there"), "%s", error.text);
    cr_expect(strstr(error.text, text), "%s", error.text);
    cr_expect_null(device);
}

Test(hip_library, a_library_that_is_not_there_is_told_by_name)
{
    use_library("/nowhere/libamdhip64.so.7");
    expect_absent("library not found: tried /nowhere/libamdhip64.so.7");
    expect_absent("library not found: tried /nowhere/libamdhip64.so.7");
}

Test(hip_library, a_library_without_a_call_is_too_old)
{
    use_library("libm.so.6");
    expect_absent("too old: libamdhip64 has no hipGetDeviceCount, ROCm 5.0 has");
}

Test(hip_library, libraries_of_all_versions_are_tried_the_newest_first)
{
    char why[HR_ERROR_TEXT] = "";
    unsetenv("HR_LIBAMDHIP64");
    if (hr__hip_backend.count(why, sizeof why) > 0 || !strstr(why, "library not found"))
        cr_skip_test("HIP is installed: %s", why);
    expect_absent("tried libamdhip64.so.10, libamdhip64.so.7, libamdhip64.so.6, libamdhip64.so.5, "
                  "libamdhip64.so, /opt/rocm/lib/libamdhip64.so");
}

Test(hip_library, without_hip_the_compiler_says_why)
{
    void *image = NULL;
    size_t size = 0;
    const struct hr__gpu_source source = {.text = "", .name = "k", .arch = "gfx906"};
    use_library("/nowhere/libamdhip64.so.7");
    cr_expect_eq(hr__hip_compiler.compile(&source, &image, &size, &error), HR_EUNSUPPORTED);
    cr_expect(strstr(error.text, "hipRTC, which cannot be used: library not found: tried /nowhere"),
              "%s", error.text);
    cr_expect_null(image);
}

Test(hip_library, where_it_is_installed_without_a_device_the_reason_is_told)
{
    char why[HR_ERROR_TEXT] = "";
    if (hr__hip_backend.count(why, sizeof why) > 0 || strstr(why, "library not found"))
        cr_skip_test("HIP is not installed, or has devices");
    cr_expect(strstr(why, "no device") || strstr(why, "devices hidden"), "%s", why);
    setenv("HIP_VISIBLE_DEVICES", "", 1);
    expect_absent("devices hidden: HIP_VISIBLE_DEVICES is \"\"");
    int state = -1;
    const pid_t child = fork_when_quiet();
    if (child == 0)
        _exit(hr__hip_backend.count(why, sizeof why) != 0 || !strstr(why, "devices hidden"));
    waitpid(child, &state, 0);
    cr_expect_eq(state, 0, "a child is told the same");
}

Test(hip_library, the_call_that_is_missing_is_told)
{
    use_fake_hip(4);
    expect_absent("too old: libamdhip64 has no hipPointerGetAttribute, ROCm 5.0 has");
}

Test(hip_library, it_is_never_unloaded)
{
    const char *path = fake_library("libamdhip64", 6);
    cr_expect_null(dlopen(path, RTLD_NOW | RTLD_NOLOAD));
    open_hip(6);
    close_hip();
    path = fake_library("libamdhip64", 6);
    for (int i = 0; i < 3; i++)
        dlclose(hr__hip_load(NULL, 0)->library);
    cr_expect_not_null(dlopen(path, RTLD_NOW | RTLD_NOLOAD));
}

/* The first call of 6 says "invalid device", the others "no device". */
Test(hip_library, hidden_devices_are_told)
{
    static const char *const variables[] = {"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"};
    char text[100];
    use_fake_hip(6);
    for (size_t i = 0; i < 4; i++) {
        setenv(variables[i % 2], "-1", 1);
        snprintf(text, sizeof text, "devices hidden: %s is \"-1\"", variables[i % 2]);
        expect_absent(text);
        unsetenv(variables[i % 2]);
    }
    device = open_device("hip:1");
    ops = device->ops;
    close_hip();
}

Test(hip_library, the_first_call_without_devices_differs)
{
    int n = -1;
    use_fake_hip(6);
    setenv("HIP_VISIBLE_DEVICES", "", 1);
    hip = hr__hip_load(NULL, 0);
    cr_assert_not_null(hip);
    cr_expect_eq(hip->get_device_count(&n), HR__HIP_INVALID_DEVICE);
    cr_expect_eq(hip->get_device_count(&n), HR__HIP_NO_DEVICE);
    cr_expect_eq(n, 0);
}

Test(hip_library, a_driver_that_does_not_start_is_told)
{
    use_fake_hip(7);
    fake_cuda_fail_call("hipGetDeviceCount", 1, 999);
    expect_absent("the driver does not start: a fake failure (999)");
}

static int number;

static int tell_number(int *version)
{
    *version = number;
    return number < 0;
}

Test(hip_library, versions_are_read_from_their_number)
{
    static const struct {
        int number;
        int major;
        int minor;
    } versions[] = {{50221153, 5, 2},   {50631061, 5, 6},    {60342134, 6, 3}, {70226015, 7, 2},
                    {100026306, 10, 0}, {101200001, 10, 12}, {-1, 0, 0}};
    const struct hr__hip_calls calls = {.runtime_get_version = tell_number};
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        int major = -1;
        int minor = -1;
        number = versions[i].number;
        hr__hip_version(&calls, &major, &minor);
        cr_expect_eq(major, versions[i].major, "%d", number);
        cr_expect_eq(minor, versions[i].minor, "%d", number);
    }
}

static hr_status compile(void)
{
    void *image = NULL;
    size_t size = 0;
    const struct hr__gpu_source source = {
        .text = "void k();", .name = "k", .arch = "gfx90a:sramecc+:xnack-"};
    const hr_status status = hr__hip_compiler.compile(&source, &image, &size, &error);
    free(image);
    return status;
}

/* 5 and 6 have it in HIP's library, too; which one of another number must not be. */
Test(hip_library, the_compiler_is_in_it_or_beside_it_with_the_same_number)
{
    use_fake_hip(6);
    cr_assert(dlopen(fake_library("libhiprtc", 7), RTLD_NOW | RTLD_LOCAL));
    cr_expect_eq(compile(), HR_OK, "%s", error.text);
}

Test(hip_library, a_compiler_that_is_not_there_is_told)
{
    use_fake_hip(7);
    if (dlopen("libhiprtc.so.7", RTLD_NOW) || dlopen("/opt/rocm/lib/libhiprtc.so.7", RTLD_NOW))
        cr_skip_test("hipRTC 7 is installed");
    cr_expect_eq(compile(), HR_EUNSUPPORTED);
    cr_expect(strstr(error.text, "hipRTC, which cannot be used: library not found: tried "
                                 "libhiprtc.so.7, /opt/rocm/lib/libhiprtc.so.7"),
              "%s", error.text);
}
