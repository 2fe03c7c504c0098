// SPDX-License-Identifier: Apache-2.0
/* HIP over a fake library of three versions, which differ: devices, memory, errors, kernels. */
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hip_rig.h"
#include "quiet_fork.h"

TestSuite(hip, .timeout = 60);

/* By their names this program finds the fake 7. */
static void expect_version(const char *version)
{
    unsetenv("HR_LIBAMDHIP64");
    device = open_device("hip:1");
    ops = device->ops;
    cr_expect_str_eq(ops->info(device)->title, "Fake GPU 1");
    cr_expect_str_eq(ops->info(device)->version, version);
    close_hip();
}

Test(hip, the_newest_library_is_found)
{
    expect_version("HIP 7.2");
}

Test(hip, a_library_that_is_loaded_is_taken_before_a_newer_one)
{
    cr_assert(dlopen(fake_library("libamdhip64", 5), RTLD_NOW | RTLD_LOCAL));
    expect_version("HIP 5.2");
}

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
    const pid_t child = fork_when_quiet();
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

/* ROCm 5.6 said so of allocations, though of others than are made here. */
TEST_ON_ALL(success_without_memory_is_no_success)
{
    void *memory = NULL;
    fake_cuda_fail_call("hipMalloc", 1, FAKE_CUDA_SILENT);
    cr_expect_eq(ops->alloc(device, BYTES, &memory, &error), HR_ENOMEM);
    cr_expect(strstr(error.text, "4096 bytes of device memory asked for"), "%s", error.text);
    cr_expect_eq(error.native, HR__HIP_OUT_OF_MEMORY);
    cr_expect_null(memory);
}

/* Which status a missing architecture is differs by version. */
TEST_ON_ALL(an_image_for_other_devices_is_told)
{
    static const int statuses[] = {HR__HIP_INVALID_IMAGE, HR__HIP_NO_BINARY_FOR_GPU,
                                   HR__HIP_INVALID_KERNEL_FILE};
    struct hr__kernel *made = NULL;
    const struct hr_kernel kernel = {.struct_size = sizeof kernel,
                                     .kind = HR_KERNEL_IMAGE,
                                     .entry = "nothing",
                                     .image = "fake",
                                     .image_size = sizeof "fake"};
    for (size_t i = 0; i < 3; i++) {
        fake_cuda_fail_call("hipModuleLoadData", 1, statuses[i]);
        cr_expect_eq(ops->kernel_create(device, &kernel, &made, &error), HR_EUNSUPPORTED);
        cr_expect_eq(error.native, statuses[i]);
        cr_expect(strstr(error.text, "loading its image for gfx90a"), "%s", error.text);
    }
}

/* The library compares what it was given whenever it looks at it, and takes none that is mapped from
 * a file, as this program's own constants are. */
TEST_ON_ALL(an_image_is_copied_and_kept)
{
    static const size_t sizes[] = {8, 4, 8, 8, 8, 8, 0};
    static const char constant[2 * BYTES] = "fake";
    char *image = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct hr__kernel *made[2] = {NULL, NULL};
    void *module;
    cr_expect_eq(hip->module_load_data(&module, constant), HR__HIP_INVALID_VALUE);
    memcpy(image, "fake", sizeof "fake");
    fake_cuda_kernel("nothing", run_nothing, sizes);
    struct hr_kernel kernel = {.struct_size = sizeof kernel,
                               .kind = HR_KERNEL_IMAGE,
                               .entry = "nothing",
                               .image = image,
                               .image_size = BYTES};
    cr_assert_eq(ops->kernel_create(device, &kernel, &made[0], &error), HR_OK, "%s", error.text);
    munmap(image, BYTES);
    kernel.image = constant;
    kernel.image_size = sizeof constant;
    cr_assert_eq(ops->kernel_create(device, &kernel, &made[1], &error), HR_OK, "%s", error.text);
    ops->kernel_destroy(made[0]);
    ops->kernel_destroy(made[1]);
}

static unsigned long long n_threads_seen;

static int count_threads(const struct fake_cuda_launch *launch)
{
    n_threads_seen = (unsigned long long)launch->n_blocks * launch->n_threads;
    return 0;
}

/* A grid of 2^32 threads is refused. */
TEST_ON_ALL(grids_are_small)
{
    static const size_t sizes[] = {8, 4, 8, 8, 8, 8, 0};
    struct hr__kernel *made = NULL;
    struct hr__stream *stream = NULL;
    const struct hr_kernel kernel = {.struct_size = sizeof kernel,
                                     .kind = HR_KERNEL_SOURCE,
                                     .unit_out = 1,
                                     .entry = "count",
                                     .text = "void count();"};
    const struct hr__launch launch = {.n_units = (uint64_t)1 << 40};
    fake_cuda_kernel("count", count_threads, sizes);
    cr_assert_eq(ops->stream_create(device, HR__STREAM_KERNELS, &stream, &error), HR_OK);
    cr_assert_eq(ops->kernel_create(device, &kernel, &made, &error), HR_OK, "%s", error.text);
    cr_expect_eq(ops->launch(stream, made, &launch, &error), HR_OK, "%s", error.text);
    ops->stream_destroy(stream);
    ops->kernel_destroy(made);
    cr_expect_gt(n_threads_seen, 0);
    cr_expect_leq(n_threads_seen, 4 * 16 * 256);
}

/* What no test may have come to: such a stream, such copies, such a handle. */
TEST_ON_ALL(the_library_refuses_what_is_not_done)
{
    enum { BLOCKING = 0, FLAGS = HR__HIP_REGISTER_PORTABLE | HR__HIP_REGISTER_MAPPED };
    static char memory[2 * BYTES];
    static char other[2 * BYTES];
    void *stream = NULL;
    void *there = NULL;
    cr_expect_neq(hip->stream_create(&stream, BLOCKING), 0, "it waits for the default stream");
    cr_assert_eq(hip->stream_create(&stream, HR__HIP_STREAM_NON_BLOCKING), 0);
    cr_assert_eq(hip->mem_alloc(&there, 2 * BYTES), 0);
    for (int kind = HR__HIP_COPY_H2D; kind <= HR__HIP_COPY_D2D; kind++)
        cr_expect_neq(hip->memcpy_async(memory, other, BYTES, kind, stream), 0,
                      "both ends are the host's");
    cr_assert_eq(hip->host_register(memory, BYTES, FLAGS), 0);
    cr_expect_neq(hip->memcpy_async(there, memory, 2 * BYTES, HR__HIP_COPY_H2D, stream), 0,
                  "it ends behind what is registered");
    cr_assert_eq(hip->host_unregister(memory), 0);
    cr_assert_eq(hip->mem_free(there), 0);
    cr_assert_eq(hip->stream_destroy(stream), 0);
    hip->get_last_error();
}

Test(hip, a_stream_that_is_no_more_ends_the_process, .signal = SIGABRT)
{
    void *stream = NULL;
    open_hip(7);
    cr_assert_eq(hip->stream_create(&stream, HR__HIP_STREAM_NON_BLOCKING), 0);
    cr_assert_eq(hip->stream_destroy(stream), 0);
    hip->stream_destroy(stream);
}
