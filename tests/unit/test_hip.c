// SPDX-License-Identifier: Apache-2.0
/* HIP where there is none: what is told of a library that is not there or is another one. And over
 * a fake one of three versions, which differ: devices, memory, errors, kernels. Each test is a
 * process, and so may load its own. */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hip_driver.h"
#include "hip_rig.h"

TestSuite(hip, .timeout = 60);

enum { BYTES = 4096 };

static void expect_absent(const char *text)
{
    char why[HR_ERROR_TEXT];
    struct hr__device *device = NULL;
    cr_expect_eq(hr__device_open("hip", &device, why, sizeof why, &error), HR_EUNSUPPORTED);
    cr_expect(strstr(error.text, "device \"hip\" is not there"), "%s", error.text);
    cr_expect(strstr(error.text, text), "%s", error.text);
    cr_expect_null(device);
}

Test(hip, a_library_that_is_not_there_is_told_by_name)
{
    use_library("/nowhere/libamdhip64.so.7");
    expect_absent("library not found: tried /nowhere/libamdhip64.so.7");
    expect_absent("library not found: tried /nowhere/libamdhip64.so.7");
}

Test(hip, a_library_without_a_call_is_too_old)
{
    use_library("libm.so.6");
    expect_absent("too old: libamdhip64 has no hipGetDeviceCount, ROCm 5.0 has");
}

Test(hip, libraries_of_all_versions_are_tried_the_newest_first)
{
    char why[HR_ERROR_TEXT] = "";
    unsetenv("HR_LIBAMDHIP64");
    if (hr__hip_backend.count(why, sizeof why) > 0 || !strstr(why, "library not found"))
        cr_skip_test("HIP is installed: %s", why);
    expect_absent("tried libamdhip64.so.10, libamdhip64.so.7, libamdhip64.so.6, libamdhip64.so.5, "
                  "libamdhip64.so, /opt/rocm/lib/libamdhip64.so");
}

Test(hip, without_hip_the_compiler_says_why)
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

Test(hip, where_it_is_installed_without_a_device_the_reason_is_told)
{
    char why[HR_ERROR_TEXT] = "";
    if (hr__hip_backend.count(why, sizeof why) > 0 || strstr(why, "library not found"))
        cr_skip_test("HIP is not installed, or has devices");
    cr_expect(strstr(why, "no device") || strstr(why, "devices hidden"), "%s", why);
    setenv("HIP_VISIBLE_DEVICES", "", 1);
    expect_absent("devices hidden: HIP_VISIBLE_DEVICES is \"\"");
}

/* ---- over the fake one ---- */

static const struct hr__hip_calls *hip;
static struct hr__device *device;
static const struct hr__device_ops *ops;

static void open_hip(unsigned rocm)
{
    load_fake_hiprtc(rocm);
    use_fake_hip(rocm);
    device = open_device("hip:0");
    ops = device->ops;
    hip = hr__hip_load(NULL, 0);
    cr_assert_eq(hip->get_properties_6 != NULL, rocm >= 6);
}

static void close_hip(void)
{
    ops->close(device);
    expect_nothing_left();
}

#define TEST_ON_ALL(behaviour)                                                                     \
    static void behaviour(void);                                                                   \
    Test(hip, behaviour##_on_rocm_5)                                                               \
    {                                                                                              \
        open_hip(5);                                                                               \
        behaviour();                                                                               \
        close_hip();                                                                               \
    }                                                                                              \
    Test(hip, behaviour##_on_rocm_6)                                                               \
    {                                                                                              \
        open_hip(6);                                                                               \
        behaviour();                                                                               \
        close_hip();                                                                               \
    }                                                                                              \
    Test(hip, behaviour##_on_rocm_7)                                                               \
    {                                                                                              \
        open_hip(7);                                                                               \
        behaviour();                                                                               \
        close_hip();                                                                               \
    }                                                                                              \
    static void behaviour(void)

TEST_ON_ALL(it_tells_what_it_is)
{
    const struct hr__device_info *info = ops->info(device);
    int major;
    int minor;
    char version[32];
    hr__hip_version(hip, &major, &minor);
    snprintf(version, sizeof version, "HIP %d.2", major);
    cr_expect_str_eq(info->name, "hip:0");
    cr_expect_str_eq(info->title, "Fake GPU 0");
    cr_expect_str_eq(info->version, version);
    cr_expect_str_eq(info->uuid, "GPU-a0a1a2a3a4a5a6a7");
    cr_expect_str_eq(info->pci, "0000:17:00.0");
    cr_expect_eq(info->memory_bytes, 1 << 30);
    struct hr__device *other = open_device("hip:GPU-b0b1");
    cr_expect_str_eq(other->ops->info(other)->name, "hip:1");
    ops->close(other);
}

TEST_ON_ALL(the_architecture_is_the_devices)
{
    struct hr__gpu_shape shape = {0};
    cr_expect_eq(hr__hip_table.device_shape(1, &shape), 0);
    cr_expect_str_eq(shape.arch, "gfx90a:sramecc+:xnack-");
    cr_expect_eq(shape.n_processors, 4);
}

TEST_ON_ALL(the_users_thread_keeps_its_device)
{
    void *memory = NULL;
    void *too_much = NULL;
    int now = -1;
    hip->set_device(1);
    cr_expect_eq(ops->alloc(device, BYTES, &memory, &error), HR_OK);
    cr_expect_eq(ops->alloc(device, (size_t)1 << 40, &too_much, &error), HR_ENOMEM);
    hip->get_device(&now);
    cr_expect_eq(now, 1);
    cr_expect_eq(ops->memory_kind(device, memory, BYTES, &error), HR__MEMORY_DEVICE);
    ops->free(device, memory);
    hip->get_device(&now);
    cr_expect_eq(now, 1);
}

TEST_ON_ALL(memory_is_told_apart)
{
    static char two[2 * BYTES];
    char plain = 0;
    void *here = NULL;
    void *there = NULL;
    struct hr__gpu_home nowhere = {.kind = HR__MEMORY_DEVICE};
    struct hr__device *other = open_device("hip:1");
    cr_assert_eq(ops->alloc(device, BYTES, &here, &error), HR_OK);
    cr_assert_eq(ops->alloc(other, BYTES, &there, &error), HR_OK);
    cr_assert(ops->pin(other, two, BYTES));
    cr_expect_eq(ops->memory_kind(device, &plain, 1, &error), HR__MEMORY_PLAIN);
    cr_expect_eq(hr__hip_table.memory_home(0, NULL, &nowhere), 0);
    cr_expect_eq(nowhere.kind, HR__MEMORY_PLAIN);
    cr_expect_eq(ops->memory_kind(device, here, BYTES, &error), HR__MEMORY_DEVICE);
    cr_expect_eq(ops->memory_kind(device, there, BYTES, &error), HR__MEMORY_PLAIN);
    cr_expect_eq(ops->memory_kind(device, two, BYTES, &error), HR__MEMORY_PINNED);
    cr_expect_eq(ops->memory_kind(device, two, BYTES + 1, &error), HR__MEMORY_PLAIN);
    cr_assert(ops->pin(device, two + BYTES, BYTES));
    cr_expect_eq(ops->memory_kind(device, two + BYTES - 1, 2, &error), HR__MEMORY_PLAIN);
    ops->unpin(other, two);
    ops->unpin(device, two + BYTES);
    ops->free(device, here);
    ops->free(other, there);
    ops->close(other);
}

/* The library would take it twice, and give it up at once. */
TEST_ON_ALL(what_somebody_else_registered_stays_theirs)
{
    enum { FLAGS = HR__HIP_REGISTER_PORTABLE | HR__HIP_REGISTER_MAPPED };
    static char memory[2 * BYTES];
    cr_assert_eq(hip->host_register(memory, BYTES, FLAGS), 0);
    cr_expect(ops->pin(device, memory, BYTES));
    cr_expect(ops->pin(device, memory, BYTES));
    cr_expect_not(ops->pin(device, memory, 2 * BYTES), "a part of it is registered");
    cr_expect_not(ops->pin(device, memory + BYTES - 1, 2), "or its begin");
    ops->unpin(device, memory);
    ops->unpin(device, memory);
    cr_expect_eq(fake_cuda_live().pins, 1);
    cr_expect_eq(hip->host_unregister(memory), 0);
}

TEST_ON_ALL(no_error_is_left_for_the_user_to_find)
{
    static char memory[BYTES];
    fake_cuda_refuse_pins(true);
    cr_expect_not(ops->pin(device, memory, BYTES));
    cr_expect_eq(hip->peek_at_last_error(), 0, "a refusal");
    cr_expect_eq(ops->memory_kind(device, memory, BYTES, &error), HR__MEMORY_PLAIN);
    cr_expect_eq(hip->peek_at_last_error(), 0, "unknown memory");
    hip->set_device(99);
    const int of_user = hip->peek_at_last_error();
    cr_expect_eq(of_user, HR__HIP_INVALID_DEVICE);
    cr_expect_not(ops->pin(device, memory, BYTES));
    int major;
    int minor;
    hr__hip_version(hip, &major, &minor);
    if (major >= 7)
        cr_expect_neq(hip->peek_at_last_error(), 0, "the user's own is not taken");
    fake_cuda_refuse_pins(false);
}

static int run_nothing(const struct fake_cuda_launch *launch)
{
    (void)launch;
    return 0;
}

/* What is read behind the short one is seen by AddressSanitizer. */
TEST_ON_ALL(a_short_image_and_a_source_are_loaded)
{
    static const size_t sizes[] = {8, 4, 8, 8, 8, 8, 0};
    struct hr__kernel *made = NULL;
    char *image = strdup("fake");
    fake_cuda_kernel("nothing", run_nothing, sizes);
    struct hr_kernel kernel = {.struct_size = sizeof kernel,
                               .kind = HR_KERNEL_IMAGE,
                               .entry = "nothing",
                               .image = image,
                               .image_size = sizeof "fake"};
    cr_assert_eq(ops->kernel_create(device, &kernel, &made, &error), HR_OK, "%s", error.text);
    ops->kernel_destroy(made);
    kernel = (struct hr_kernel){.struct_size = sizeof kernel,
                                .kind = HR_KERNEL_SOURCE,
                                .entry = "nothing",
                                .text = "void nothing();"};
    cr_assert_eq(ops->kernel_create(device, &kernel, &made, &error), HR_OK, "%s", error.text);
    ops->kernel_destroy(made);
    kernel.text = "\n#error";
    cr_expect_eq(ops->kernel_create(device, &kernel, &made, &error), HR_EINVAL);
    cr_expect(strstr(error.text, "hipRTC for gfx90a:sramecc+:xnack-"), "%s", error.text);
    cr_expect(strstr(error.text, "nothing(2): error"), "%s", error.text);
    free(image);
}

TEST_ON_ALL(a_forked_child_is_refused)
{
    int state = 0;
    const pid_t child = fork();
    if (child == 0) {
        char why[HR_ERROR_TEXT] = "";
        void *memory = NULL;
        const bool refused = ops->alloc(device, 1, &memory, &error) == HR_EFORK;
        _exit(refused && hr__hip_backend.count(why, sizeof why) == 0 && strstr(why, "fork") ? 0
                                                                                            : 1);
    }
    waitpid(child, &state, 0);
    cr_expect(WIFEXITED(state) && WEXITSTATUS(state) == 0);
}
