// SPDX-License-Identifier: Apache-2.0
/* The logic of GPUs over a fake driver: devices and their names, contexts, memory, streams, events,
 * failures. Kernels have a file of their own. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "gpu_device.h"
#include "gpu_gate.h"
#include "gpu_rig.h"
#include "quiet_fork.h"

TestSuite(gpu_device, .timeout = 60);

enum { FAULT = 700, BYTES = 4096 };

/* ---- names and absence ---- */

Test(gpu_device, names_open_the_device_that_they_mean)
{
    static const struct {
        const char *name;
        const char *opened; /* NULL: not there */
    } cases[] = {
        {"auto", "cuda:0"},          {"cuda", "cuda:0"},
        {"cuda:1", "cuda:1"},        {"cuda:2", NULL},
        {"cuda:GPU-b0", "cuda:1"},   {"cuda:GPU-A0A1A2A3-a4a5-a6a7-a8a9-aaabacadaeaf", "cuda:0"},
        {"cuda:GPU-c0", NULL},       {"cuda:0000:18:00.0", "cuda:1"},
        {"cuda:0000:19:00.0", NULL},
    };
    char why[HR_ERROR_TEXT];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const hr_status status = hr__device_open(cases[i].name, &device, why, sizeof why, &error);
        cr_assert_eq(status, cases[i].opened ? HR_OK : HR_EUNSUPPORTED, "%s", cases[i].name);
        if (status != HR_OK) {
            cr_expect(strstr(error.text, "is not there"), "%s", error.text);
            continue;
        }
        cr_expect_str_eq(device->ops->info(device)->name, cases[i].opened, "%s", cases[i].name);
        device->ops->close(device);
    }
    expect_nothing_left("opened and closed");
}

Test(gpu_device, it_tells_what_it_is)
{
    open_gpu();
    const struct hr__device_info *info = ops->info(device);
    cr_expect_str_eq(info->title, "Fake GPU 0");
    cr_expect_str_eq(info->version, "CUDA 13.0");
    cr_expect_eq(info->memory_bytes, 1 << 30);
    cr_expect_eq(info->host_memory, false);
    cr_expect_eq(info->kernel_alignment, 16);
    cr_expect_eq(info->n_streams, 4);
    close_gpu();
}

static void expect_absent(const char *variable, const char *value, const char *text)
{
    char why[HR_ERROR_TEXT];
    setenv(variable, value, 1);
    cr_expect_eq(hr__device_open("cuda", &device, why, sizeof why, &error), HR_EUNSUPPORTED);
    cr_expect(strstr(error.text, text), "%s", error.text);
    cr_expect_eq(hr__device_open("auto", &device, why, sizeof why, &error), HR_OK);
    cr_expect_str_eq(device->ops->info(device)->name, "host");
    cr_expect(strstr(why, text), "%s", why);
    device->ops->close(device);
}

Test(gpu_device, devices_hidden_by_nothing_are_told)
{
    expect_absent("CUDA_VISIBLE_DEVICES", "", "devices hidden: CUDA_VISIBLE_DEVICES is \"\"");
}

Test(gpu_device, devices_hidden_by_minus_one_are_told)
{
    expect_absent("CUDA_VISIBLE_DEVICES", "-1", "devices hidden: CUDA_VISIBLE_DEVICES is \"-1\"");
}

Test(gpu_device, a_library_that_is_not_there_is_told_by_name)
{
    expect_absent("HR_LIBCUDA", "/nowhere/libcuda.so", "not found: tried /nowhere/libcuda.so");
}

Test(gpu_device, a_library_without_a_call_is_too_old)
{
    expect_absent("HR_LIBCUDA", "libm.so.6", "too old: libcuda has no cuInit");
}

/* ---- threads and processes ---- */

Test(gpu_device, the_context_of_the_users_thread_stays_current)
{
    char why[HR_ERROR_TEXT];
    struct hr__device *other = NULL;
    cr_assert_eq(hr__device_open("cuda:1", &other, why, sizeof why, &error), HR_OK);
    struct hr__stream *stream_of_other = NULL;
    void *memory = NULL;
    open_gpu();
    struct hr__stream *stream = new_stream();
    cr_expect_null(fake_cuda_current());
    cr_expect_eq(other->ops->stream_create(other, HR__STREAM_H2D, &stream_of_other, &error), HR_OK);
    cr_expect_eq(ops->alloc(device, (size_t)1 << 40, &memory, &error), HR_ENOMEM);
    cr_expect(strstr(error.text, "1099511627776 bytes"), "%s", error.text);
    cr_expect(strstr(error.text, "of 1073741824 free"), "%s", error.text);
    cr_expect_eq(ops->copy(stream, NULL, why, 1, HR__COPY_H2D, &error), HR_EDEVICE);
    cr_expect_null(fake_cuda_current());
    ops->stream_destroy(stream);
    other->ops->stream_destroy(stream_of_other);
    other->ops->close(other);
    close_gpu();
}

static int use_in_child(struct hr__stream *stream, struct hr__event *event, char *pinned)
{
    char why[HR_ERROR_TEXT];
    struct hr__device *opened = NULL;
    void *memory = NULL;
    int n_wrong = 0;
    n_wrong += ops->alloc(device, 1, &memory, &error) != HR_EFORK;
    n_wrong += !strstr(error.text, "spawn");
    n_wrong += ops->lend(event, NULL, &error) != HR_EFORK;
    n_wrong += ops->lend(event, ops->stream_handle(stream), &error) != HR_EFORK;
    n_wrong += ops->take_back(event, ops->stream_handle(stream), &error) != HR_EFORK;
    n_wrong += !strstr(error.text, "spawn");
    n_wrong += ops->memory_kind(device, pinned, BYTES, &error) != HR__MEMORY_UNKNOWN;
    n_wrong += ops->record(stream, event, &error) != HR_EFORK;
    n_wrong += ops->query(event, &error) != HR_EFORK;
    n_wrong += hr__device_open("cuda", &opened, why, sizeof why, &error) != HR_EUNSUPPORTED;
    n_wrong += !strstr(error.text, "fork");
    n_wrong += ops->pin(device, why, sizeof why);
    ops->event_destroy(event);
    ops->stream_destroy(stream);
    ops->close(device);
    return n_wrong;
}

Test(gpu_device, a_forked_child_is_refused_and_the_parent_goes_on)
{
    static char pinned[BYTES];
    open_gpu();
    struct hr__stream *stream = new_stream();
    struct hr__event *event = new_event();
    int state = 0;
    cr_assert(ops->pin(device, pinned, BYTES));
    cr_assert_eq(ops->record(stream, event, &error), HR_OK);
    const pid_t child = fork_when_quiet();
    if (child == 0)
        _exit(use_in_child(stream, event, pinned));
    waitpid(child, &state, 0);
    cr_expect(WIFEXITED(state));
    cr_expect_eq(WEXITSTATUS(state), 0);
    cr_expect_eq(device_finish(device, event, &error), HR_OK);
    cr_expect_eq(ops->memory_kind(device, pinned, BYTES, &error), HR__MEMORY_PINNED);
    ops->unpin(device, pinned);
    ops->event_destroy(event);
    ops->stream_destroy(stream);
    close_gpu();
}

static int go_on_in_child(struct hr__stream *stream, struct hr__event *event, char *pinned)
{
    const int fd = eventfd(0, EFD_NONBLOCK);
    void *handle = ops->stream_handle(stream);
    int n_wrong = 0;
    alarm(10); /* a lock that is held for ever */
    ops->unpin(device, pinned);
    ops->notify(event, fd);
    n_wrong += ops->query(event, &error) != HR_EFORK;
    n_wrong += ops->lend(event, handle, &error) != HR_EFORK;
    n_wrong += ops->copy(stream, NULL, pinned, 1, HR__COPY_H2D, &error) != HR_EFORK;
    n_wrong += ops->record(stream, event, &error) != HR_EFORK;
    n_wrong += ops->lend(event, handle, &error) != HR_EFORK;
    n_wrong += ops->take_back(event, handle, &error) != HR_EFORK;
    return n_wrong;
}

Test(gpu_device, a_child_is_not_held_up_by_a_thread_of_its_parent)
{
    static char pinned[BYTES];
    open_gpu();
    struct hr__gpu_device *gpu = (struct hr__gpu_device *)device;
    struct hr__stream *stream = new_stream();
    struct hr__event *event = new_event();
    int state = 0;
    cr_assert(ops->pin(device, pinned, BYTES));
    cr_assert_eq(ops->record(stream, event, &error), HR_OK);
    pthread_mutex_lock(&gpu->lock);
    pthread_mutex_lock(&gpu->notifier.lock);
    const pid_t child = fork_when_quiet();
    if (child == 0)
        _exit(go_on_in_child(stream, event, pinned));
    pthread_mutex_unlock(&gpu->notifier.lock);
    pthread_mutex_unlock(&gpu->lock);
    waitpid(child, &state, 0);
    cr_expect(WIFEXITED(state), "it hangs");
    cr_expect_eq(WEXITSTATUS(state), 0, "%d wrong", WEXITSTATUS(state));
    ops->unpin(device, pinned);
    ops->event_destroy(event);
    ops->stream_destroy(stream);
    close_gpu();
}

/* ---- memory ---- */

Test(gpu_device, memory_of_no_bytes_is_memory)
{
    open_gpu();
    void *memory = new_memory(0);
    cr_expect_not_null(memory);
    ops->free(device, memory);
    ops->free(device, NULL);
    close_gpu();
}

Test(gpu_device, pinned_memory_stays_until_its_last_user_and_as_it_was_found)
{
    static char ours[BYTES];
    static char theirs[BYTES];
    char why[HR_ERROR_TEXT];
    struct hr__device *other = NULL;
    cr_assert_eq(hr__device_open("cuda:1", &other, why, sizeof why, &error), HR_OK);
    open_gpu();
    cr_assert(other->ops->pin(other, theirs, BYTES)); /* to this device, somebody else */
    cr_expect(ops->pin(device, ours, BYTES));
    cr_expect(ops->pin(device, ours, BYTES));
    cr_expect(ops->pin(device, theirs, BYTES));
    cr_expect_eq(fake_cuda_live().pins, 2);
    ops->unpin(device, theirs);
    ops->unpin(device, ours);
    cr_expect_eq(fake_cuda_live().pins, 2);
    ops->unpin(device, ours);
    cr_expect_eq(fake_cuda_live().pins, 1);
    fake_cuda_fail(2, 2); /* the call between the context's push and pop */
    cr_expect_not(ops->pin(device, ours, BYTES));
    cr_expect_str_eq(fake_cuda_failed_call(), "cuMemHostRegister");
    other->ops->unpin(other, theirs);
    other->ops->close(other);
    close_gpu();
}

/* ---- streams and events ---- */

Test(gpu_device, copies_of_all_sizes_arrive)
{
    static const size_t sizes[] = {0, 1, 4095, 4096, 4097};
    unsigned char from[BYTES + 1];
    unsigned char to[BYTES + 1];
    open_gpu();
    unsigned char *memory = new_memory(sizeof from);
    struct hr__stream *stream = new_stream();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        memset(from, (int)i + 1, sizeof from);
        memset(to, 0, sizeof to);
        ops->copy(stream, memory, from, sizes[i], HR__COPY_H2D, &error);
        ops->copy(stream, to, memory, sizes[i], HR__COPY_D2H, &error);
        cr_expect_eq(device_drain(device, stream, &error), HR_OK);
        cr_expect_arr_eq(to, from, sizes[i]);
        cr_expect_eq(sizes[i] == sizeof to || to[sizes[i]] == 0, 1);
    }
    ops->stream_destroy(stream);
    ops->free(device, memory);
    close_gpu();
}

Test(gpu_device, a_refused_call_is_the_streams_last_word_and_passes_to_who_waits)
{
    char byte = 0;
    open_gpu();
    struct hr__stream *bad = new_stream();
    struct hr__stream *waiting = new_stream();
    struct hr__stream *good = new_stream();
    struct hr__event *event = new_event();
    void *memory = new_memory(1);
    cr_expect_eq(ops->copy(bad, &byte, &byte, 1, HR__COPY_H2D, &error), HR_EDEVICE);
    cr_expect(strstr(error.text, "cuda:0: copying 1 bytes to the device"), "%s", error.text);
    cr_expect_eq(error.stage, HR_STAGE_H2D);
    cr_expect_eq(ops->copy(bad, memory, &byte, 1, HR__COPY_H2D, &error), HR_EDEVICE);
    cr_expect_eq(ops->record(bad, event, &error), HR_OK);
    cr_expect_eq(device_finish(device, event, &error), HR_EDEVICE);
    cr_expect(strstr(error.text, "copying 1 bytes"), "%s", error.text);
    cr_expect_eq(ops->wait(waiting, event, &error), HR_OK);
    cr_expect_eq(device_drain(device, waiting, &error), HR_EDEVICE);
    cr_expect_eq(device_drain(device, good, &error), HR_OK);
    ops->stream_destroy(bad);
    ops->stream_destroy(waiting);
    ops->stream_destroy(good);
    ops->event_destroy(event);
    ops->free(device, memory);
    close_gpu();
}

Test(gpu_device, an_event_never_recorded_is_done)
{
    eventfd_t value = 0;
    const int fd = eventfd(0, EFD_NONBLOCK);
    open_gpu();
    struct hr__event *event = new_event();
    cr_expect_eq(ops->query(event, &error), HR_OK);
    ops->notify(event, fd);
    cr_expect_eq(eventfd_read(fd, &value), 0);
    ops->event_destroy(event);
    ops->event_destroy(NULL);
    close(fd);
    close_gpu();
}

/* ---- kernels that the test holds up ---- */

Test(gpu_device, who_asked_is_woken_though_another_stream_is_held_up)
{
    eventfd_t value = 0;
    struct pollfd first = {.fd = eventfd(0, EFD_NONBLOCK), .events = POLLIN};
    struct pollfd second = {.fd = eventfd(0, EFD_NONBLOCK), .events = POLLIN};
    open_gpu();
    struct hr__stream *held = new_stream();
    struct hr__stream *other = new_stream();
    struct hr__event *late = new_event();
    struct hr__event *early = new_event();
    struct hr__kernel *gate = new_gate();
    ops->launch(held, gate, &one_unit, &error);
    ops->record(held, late, &error);
    ops->notify(late, first.fd);
    ops->record(other, early, &error);
    ops->notify(early, second.fd);
    cr_expect_eq(poll(&second, 1, 10000), 1);
    cr_expect_eq(ops->query(early, &error), HR_OK);
    cr_expect_eq(ops->query(late, &error), HR_PENDING);
    cr_expect_eq(poll(&first, 1, 0), 0);
    open_gate(0);
    cr_expect_eq(poll(&first, 1, 10000), 1);
    cr_expect_eq(ops->query(late, &error), HR_OK);
    cr_expect_eq(eventfd_read(first.fd, &value), 0);
    cr_expect_eq(value, 1, "once");
    close(first.fd);
    close(second.fd);
    ops->stream_destroy(held);
    ops->stream_destroy(other);
    ops->event_destroy(early);
    ops->event_destroy(late);
    ops->kernel_destroy(gate);
    close_gpu();
}

static uint64_t cpu_ns_of(unsigned ms)
{
    const uint64_t before = hr__clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    usleep(ms * 1000);
    return hr__clock_ns(CLOCK_PROCESS_CPUTIME_ID) - before;
}

Test(gpu_device, waiting_costs_little_cpu_time_and_idling_none)
{
    enum { MS = 400, NS_PER_MS = 1000000 };
    struct pollfd woken = {.fd = eventfd(0, EFD_NONBLOCK), .events = POLLIN};
    open_gpu();
    struct hr__stream *stream = new_stream();
    struct hr__event *event = new_event();
    struct hr__kernel *gate = new_gate();
    ops->launch(stream, gate, &one_unit, &error);
    ops->record(stream, event, &error);
    const uint64_t idle_ns = cpu_ns_of(MS);
    cr_expect_lt(idle_ns, MS / 50 * NS_PER_MS, "%llu ns", (unsigned long long)idle_ns);
    ops->notify(event, woken.fd);
    const uint64_t waiting_ns = cpu_ns_of(MS);
    cr_expect_lt(waiting_ns, MS / 8 * NS_PER_MS, "%llu ns", (unsigned long long)waiting_ns);
    open_gate(0);
    cr_expect_eq(poll(&woken, 1, 10000), 1);
    close(woken.fd);
    ops->stream_destroy(stream);
    ops->event_destroy(event);
    ops->kernel_destroy(gate);
    close_gpu();
}

Test(gpu_device, a_new_record_ends_the_request_of_the_one_before)
{
    struct pollfd woken = {.fd = eventfd(0, EFD_NONBLOCK), .events = POLLIN};
    open_gpu();
    struct hr__stream *stream = new_stream();
    struct hr__event *event = new_event();
    struct hr__kernel *gate = new_gate();
    ops->launch(stream, gate, &one_unit, &error);
    ops->record(stream, event, &error);
    ops->notify(event, woken.fd);
    ops->record(stream, event, &error);
    open_gate(0);
    cr_expect_eq(device_finish(device, event, &error), HR_OK);
    cr_expect_eq(poll(&woken, 1, 20), 0);
    close(woken.fd);
    ops->stream_destroy(stream);
    ops->event_destroy(event);
    ops->kernel_destroy(gate);
    close_gpu();
}

Test(gpu_device, a_kernels_fault_is_named_and_ends_the_device_not_the_process)
{
    char byte = 0;
    void *none = NULL;
    open_gpu();
    struct hr__stream *stream = new_stream();
    struct hr__stream *other = new_stream();
    struct hr__event *event = new_event();
    struct hr__kernel *gate = new_gate();
    void *memory = new_memory(1);
    ops->launch(stream, gate, &one_unit, &error);
    ops->record(stream, event, &error);
    open_gate(FAULT);
    cr_expect_eq(device_finish(device, event, &error), HR_EDEVICE);
    cr_expect(strstr(error.text, "an illegal memory access"), "%s", error.text);
    cr_expect(strstr(error.text, "only a new process"), "%s", error.text);
    cr_expect_eq(error.native, FAULT);
    cr_expect_eq(ops->copy(other, memory, &byte, 1, HR__COPY_H2D, &error), HR_EDEVICE);
    cr_expect(strstr(error.text, "an illegal memory access"), "%s", error.text);
    cr_expect_eq(ops->alloc(device, 1, &none, &error), HR_EDEVICE);
    cr_expect_eq(ops->query(event, &error), HR_EDEVICE);
    ops->free(device, memory);
    ops->stream_destroy(stream);
    ops->stream_destroy(other);
    ops->event_destroy(event);
    ops->kernel_destroy(gate);
    close_gpu();
}
