// SPDX-License-Identifier: Apache-2.0
/* The host device behind backend.h: order within and between streams, events and wake-ups, sticky
 * failures, every sort of kernel it runs. What built-in kernels compute is checked elsewhere. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backend.h"
#include "device_tools.h"
#include "quiet_fork.h"

static struct hr__device *device;
static const struct hr__device_ops *ops;
static hr_error error;

static void open_host(void)
{
    char why[256];
    cr_assert_eq(hr__device_open("host", &device, why, sizeof why, &error), HR_OK);
    ops = device->ops;
}

static void close_host(void)
{
    ops->close(device);
}

TestSuite(host_device, .init = open_host, .fini = close_host, .timeout = 60);

/* ---- Short forms ---- */

static struct hr__stream *new_stream(void)
{
    struct hr__stream *stream = NULL;
    cr_assert_eq(ops->stream_create(device, HR__STREAM_KERNELS, &stream, &error), HR_OK);
    return stream;
}

static struct hr__event *new_event(void)
{
    struct hr__event *event = NULL;
    cr_assert_eq(ops->event_create(device, &event, &error), HR_OK);
    return event;
}

static struct hr__kernel *new_kernel(struct hr_kernel kernel)
{
    struct hr__kernel *made = NULL;
    kernel.struct_size = sizeof kernel;
    cr_assert_eq(ops->kernel_create(device, &kernel, &made, &error), HR_OK, "%s", error.text);
    return made;
}

static struct hr__kernel *new_function(hr_kernel_fn function, void *user)
{
    return new_kernel((struct hr_kernel){
        .kind = HR_KERNEL_FUNCTION, .function = function, .user = user, .text = "tested"});
}

static struct hr__kernel *new_builtin(const char *text)
{
    return new_kernel((struct hr_kernel){.kind = HR_KERNEL_BUILTIN, .text = text});
}

static void launch(struct hr__stream *stream, struct hr__kernel *kernel, struct hr__launch what)
{
    cr_assert_eq(ops->launch(stream, kernel, &what, &error), HR_OK, "%s", error.text);
}

static void record(struct hr__stream *stream, struct hr__event *event)
{
    cr_assert_eq(ops->record(stream, event, &error), HR_OK);
}

static void wait_for(struct hr__stream *stream, struct hr__event *event)
{
    cr_assert_eq(ops->wait(stream, event, &error), HR_OK);
}

static void drain(struct hr__stream *stream)
{
    cr_assert_eq(device_drain(device, stream, &error), HR_OK, "%s", error.text);
}

/* A kernel that blocks its stream, and a worker, until the test opens the gate. */
struct gate {
    pthread_mutex_t lock;
    pthread_cond_t opened;
    bool is_open;
};

#define GATE                                                                                       \
    {                                                                                              \
        .lock = PTHREAD_MUTEX_INITIALIZER, .opened = PTHREAD_COND_INITIALIZER                      \
    }

static int32_t pass_gate(void *user, const struct hr_kernel_call *call)
{
    struct gate *gate = user;
    (void)call;
    pthread_mutex_lock(&gate->lock);
    while (!gate->is_open)
        pthread_cond_wait(&gate->opened, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
    return 0;
}

static void open_gate(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->is_open = true;
    pthread_cond_broadcast(&gate->opened);
    pthread_mutex_unlock(&gate->lock);
}

/* A kernel that notes which units it was called with. */
struct notes {
    size_t n;
    uint64_t first_unit[128];
};

static int32_t note(void *user, const struct hr_kernel_call *call)
{
    struct notes *notes = user;
    notes->first_unit[notes->n++ % 128] = call->first_unit;
    return 0;
}

static int32_t fail_with_5(void *user, const struct hr_kernel_call *call)
{
    (void)user;
    (void)call;
    return 5;
}

/* ---- Order ---- */

Test(host_device, work_on_a_stream_runs_in_order)
{
    struct notes notes = {0};
    struct hr__stream *stream = new_stream();
    struct hr__kernel *kernel = new_function(note, &notes);
    for (uint64_t i = 0; i < 100; i++)
        launch(stream, kernel, (struct hr__launch){.n_units = 1, .first_unit = i});
    drain(stream);
    cr_assert_eq(notes.n, 100);
    for (uint64_t i = 0; i < 100; i++)
        cr_expect_eq(notes.first_unit[i], i);
    ops->stream_destroy(stream);
    ops->kernel_destroy(kernel);
}

Test(host_device, a_wait_holds_up_what_is_behind_it_and_no_other_stream)
{
    struct gate gate = GATE;
    struct notes notes = {0};
    struct hr__stream *held = new_stream();
    struct hr__stream *waiting = new_stream();
    struct hr__stream *other = new_stream();
    struct hr__event *passed = new_event();
    struct hr__event *done = new_event();
    struct hr__kernel *wait_at_gate = new_function(pass_gate, &gate);
    struct hr__kernel *noting = new_function(note, &notes);

    launch(held, wait_at_gate, (struct hr__launch){.n_units = 1});
    launch(held, noting, (struct hr__launch){.n_units = 1, .first_unit = 1});
    record(held, passed);
    wait_for(waiting, passed);
    launch(waiting, noting, (struct hr__launch){.n_units = 1, .first_unit = 2});
    record(waiting, done);
    drain(other);
    cr_expect_eq(ops->query(passed, &error), HR_PENDING);
    cr_expect_eq(ops->query(done, &error), HR_PENDING);
    cr_expect_eq(notes.n, 0);

    open_gate(&gate);
    cr_expect_eq(device_finish(device, done, &error), HR_OK);
    cr_expect_eq(ops->query(passed, &error), HR_OK);
    cr_expect_eq(notes.n, 2);
    cr_expect_eq(notes.first_unit[0], 1);
    cr_expect_eq(notes.first_unit[1], 2);
    ops->stream_destroy(held);
    ops->stream_destroy(waiting);
    ops->stream_destroy(other);
    ops->event_destroy(passed);
    ops->event_destroy(done);
    ops->kernel_destroy(wait_at_gate);
    ops->kernel_destroy(noting);
}

Test(host_device, an_event_never_recorded_is_done)
{
    struct hr__stream *stream = new_stream();
    struct hr__event *event = new_event();
    cr_expect_eq(ops->query(event, &error), HR_OK);
    wait_for(stream, event);
    drain(stream);
    ops->stream_destroy(stream);
    ops->event_destroy(event);
}

Test(host_device, a_wait_is_for_the_last_record_before_it)
{
    struct gate first = GATE;
    struct gate second = GATE;
    struct hr__stream *held = new_stream();
    struct hr__stream *waiting = new_stream();
    struct hr__event *event = new_event();
    struct hr__kernel *first_gate = new_function(pass_gate, &first);
    struct hr__kernel *second_gate = new_function(pass_gate, &second);

    launch(held, first_gate, (struct hr__launch){.n_units = 1});
    record(held, event);
    wait_for(waiting, event);
    launch(held, second_gate, (struct hr__launch){.n_units = 1});
    record(held, event);
    open_gate(&first);
    drain(waiting);
    cr_expect_eq(ops->query(event, &error), HR_PENDING, "the last record counts");
    open_gate(&second);
    cr_expect_eq(device_finish(device, event, &error), HR_OK);
    ops->stream_destroy(held);
    ops->stream_destroy(waiting);
    ops->event_destroy(event);
    ops->kernel_destroy(first_gate);
    ops->kernel_destroy(second_gate);
}

Test(host_device, more_streams_may_wait_than_there_are_workers)
{
    enum { N = 200 };
    struct gate gate = GATE;
    struct notes notes = {0};
    struct hr__stream *streams[N];
    struct hr__event *events[N];
    struct hr__kernel *wait_at_gate = new_function(pass_gate, &gate);
    struct hr__kernel *noting = new_function(note, &notes);
    for (int i = 0; i < N; i++) {
        streams[i] = new_stream();
        events[i] = new_event();
    }
    launch(streams[0], wait_at_gate, (struct hr__launch){.n_units = 1});
    record(streams[0], events[0]);
    for (int i = 1; i < N; i++) {
        wait_for(streams[i], events[i - 1]);
        launch(streams[i], noting, (struct hr__launch){.n_units = 1, .first_unit = (uint64_t)i});
        record(streams[i], events[i]);
    }
    cr_expect_eq(ops->query(events[N - 1], &error), HR_PENDING);
    open_gate(&gate);
    cr_expect_eq(device_finish(device, events[N - 1], &error), HR_OK);
    cr_expect_eq(notes.n, N - 1);
    for (size_t i = notes.n - 100; i < notes.n; i++)
        cr_expect_eq(notes.first_unit[i % 128], i + 1);
    for (int i = 0; i < N; i++) {
        ops->event_destroy(events[i]);
        ops->stream_destroy(streams[i]);
    }
    ops->kernel_destroy(wait_at_gate);
    ops->kernel_destroy(noting);
}

/* More streams than workers with more to do than a turn, and one behind them with little. */
enum { N_LONG = 200 };
struct turns {
    long n_streams;
    atomic_uint n_ran[CPU_SETSIZE + 1];
    unsigned most_ran; /* of one stream, when the short one had its turn */
};

static int32_t run_long(void *user, const struct hr_kernel_call *call)
{
    struct turns *turns = user;
    atomic_fetch_add(&turns->n_ran[call->chunk], 1);
    usleep(100);
    return 0;
}

static int32_t run_short(void *user, const struct hr_kernel_call *call)
{
    struct turns *turns = user;
    (void)call;
    for (long i = 0; i < turns->n_streams; i++) {
        const unsigned n = atomic_load(&turns->n_ran[i]);
        turns->most_ran = n > turns->most_ran ? n : turns->most_ran;
    }
    return 0;
}

Test(host_device, long_queues_do_not_keep_others_from_their_turn)
{
    static struct turns turns;
    static struct hr__stream *streams[CPU_SETSIZE + 1];
    static struct hr__stream *held[CPU_SETSIZE + 1]; /* they keep all workers until all is there */
    struct gate gate = GATE;
    struct hr__stream *last = new_stream();
    struct hr__kernel *wait_at_gate = new_function(pass_gate, &gate);
    struct hr__kernel *is_long = new_function(run_long, &turns);
    struct hr__kernel *is_short = new_function(run_short, &turns);
    turns.n_streams = sysconf(_SC_NPROCESSORS_ONLN) + 1;
    for (long i = 0; i < turns.n_streams; i++) {
        held[i] = new_stream();
        launch(held[i], wait_at_gate, (struct hr__launch){.n_units = 1});
    }
    for (long i = 0; i < turns.n_streams; i++) {
        streams[i] = new_stream();
        for (int k = 0; k < N_LONG; k++)
            launch(streams[i], is_long, (struct hr__launch){.n_units = 1, .chunk = (uint64_t)i});
    }
    launch(last, is_short, (struct hr__launch){.n_units = 1});
    open_gate(&gate);
    drain(last);
    cr_expect_lt(turns.most_ran, N_LONG);
    for (long i = 0; i < turns.n_streams; i++) {
        ops->stream_destroy(streams[i]);
        ops->stream_destroy(held[i]);
    }
    ops->stream_destroy(last);
    ops->kernel_destroy(wait_at_gate);
    ops->kernel_destroy(is_long);
    ops->kernel_destroy(is_short);
}

Test(host_device, destroying_a_stream_waits_for_its_work)
{
    struct notes notes = {0};
    struct hr__stream *stream = new_stream();
    struct hr__kernel *kernel = new_function(note, &notes);
    for (int i = 0; i < 1000; i++)
        launch(stream, kernel, (struct hr__launch){.n_units = 1});
    ops->stream_destroy(stream);
    cr_expect_eq(notes.n, 1000);
    ops->stream_destroy(NULL);
    ops->event_destroy(NULL);
    ops->kernel_destroy(kernel);
    ops->kernel_destroy(NULL);
}

Test(host_device, ten_thousand_launches_pass_through_the_bounded_queue)
{
    enum { N = 10000 };
    static unsigned char in[N];
    static unsigned char out[N];
    struct hr__stream *stream = new_stream();
    struct hr__kernel *kernel = new_builtin("scale:u8,1,1");
    for (int i = 0; i < N; i++)
        in[i] = (unsigned char)(i % 251);
    for (uint64_t i = 0; i < N; i++)
        launch(stream, kernel,
               (struct hr__launch){.in = in + i, .out = out + i, .n_units = 1, .first_unit = i});
    drain(stream);
    for (int i = 0; i < N; i++)
        cr_assert_eq(out[i], in[i] + 1, "unit %d", i);
    ops->stream_destroy(stream);
    ops->kernel_destroy(kernel);
}

/* ---- Wake-ups and time ---- */

static bool is_written(int event_fd)
{
    eventfd_t value = 0;
    return eventfd_read(event_fd, &value) == 0;
}

Test(host_device, a_notification_comes_before_and_after_the_event)
{
    struct gate gate = GATE;
    const int asked_before = eventfd(0, EFD_NONBLOCK);
    const int asked_after = eventfd(0, EFD_NONBLOCK);
    struct hr__stream *stream = new_stream();
    struct hr__event *event = new_event();
    struct hr__kernel *kernel = new_function(pass_gate, &gate);
    launch(stream, kernel, (struct hr__launch){.n_units = 1});
    record(stream, event);
    ops->notify(event, asked_before);
    cr_expect(!is_written(asked_before), "it is not done yet");
    open_gate(&gate);
    drain(stream);
    cr_expect_eq(ops->query(event, &error), HR_OK);
    cr_expect(is_written(asked_before));
    cr_expect(!is_written(asked_before), "once is enough");
    ops->notify(event, asked_after);
    cr_expect(is_written(asked_after), "at once");
    cr_expect(!is_written(asked_before), "asked of another descriptor");
    ops->stream_destroy(stream);
    ops->event_destroy(event);
    ops->kernel_destroy(kernel);
    close(asked_before);
    close(asked_after);
}

Test(host_device, the_next_record_takes_a_notification_back)
{
    struct gate gate = GATE;
    const int event_fd = eventfd(0, EFD_NONBLOCK);
    struct hr__stream *stream = new_stream();
    struct hr__event *event = new_event();
    struct hr__kernel *kernel = new_function(pass_gate, &gate);
    launch(stream, kernel, (struct hr__launch){.n_units = 1});
    record(stream, event);
    ops->notify(event, event_fd);
    record(stream, event);
    open_gate(&gate);
    drain(stream);
    cr_expect(!is_written(event_fd));
    ops->stream_destroy(stream);
    ops->event_destroy(event);
    ops->kernel_destroy(kernel);
    close(event_fd);
}

Test(host_device, a_failure_notifies_too)
{
    const int event_fd = eventfd(0, EFD_NONBLOCK);
    struct gate gate = GATE;
    struct hr__stream *stream = new_stream();
    struct hr__event *event = new_event();
    struct hr__kernel *held = new_function(pass_gate, &gate);
    struct hr__kernel *failing = new_function(fail_with_5, NULL);
    launch(stream, held, (struct hr__launch){.n_units = 1});
    launch(stream, failing, (struct hr__launch){.n_units = 1});
    record(stream, event);
    ops->notify(event, event_fd);
    open_gate(&gate);
    cr_expect_eq(device_drain(device, stream, &error), HR_EDEVICE);
    cr_expect(is_written(event_fd));
    ops->stream_destroy(stream);
    ops->event_destroy(event);
    ops->kernel_destroy(held);
    ops->kernel_destroy(failing);
    close(event_fd);
}

static uint64_t thread_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int32_t sleep_40_ms(void *user, const struct hr_kernel_call *call)
{
    (void)user;
    (void)call;
    usleep(40000);
    return 0;
}

static int32_t compute_20_ms(void *user, const struct hr_kernel_call *call)
{
    const uint64_t end = thread_cpu_ns() + 20000000;
    (void)user;
    (void)call;
    while (thread_cpu_ns() < end)
        ;
    return 0;
}

/* A function may wait for threads of its own, or a server: then its sleep is the work's. */
Test(host_device, elapsed_time_is_that_of_the_call)
{
    struct hr__stream *stream = new_stream();
    struct hr__event *events[] = {new_event(), new_event(), new_event()};
    struct hr__kernel *sleeping = new_function(sleep_40_ms, NULL);
    struct hr__kernel *computing = new_function(compute_20_ms, NULL);
    record(stream, events[0]);
    launch(stream, sleeping, (struct hr__launch){.n_units = 1});
    record(stream, events[1]);
    launch(stream, computing, (struct hr__launch){.n_units = 1});
    record(stream, events[2]);
    drain(stream);
    cr_expect_geq(ops->elapsed_ns(events[0], events[1]), 40000000);
    cr_expect_geq(ops->elapsed_ns(events[1], events[2]), 20000000);
    ops->stream_destroy(stream);
    for (int i = 0; i < 3; i++)
        ops->event_destroy(events[i]);
    ops->kernel_destroy(sleeping);
    ops->kernel_destroy(computing);
}

static int32_t look_at_signals(void *user, const struct hr_kernel_call *call)
{
    sigset_t blocked;
    (void)call;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    *(int *)user = sigismember(&blocked, SIGINT) && sigismember(&blocked, SIGUSR1);
    return 0;
}

Test(host_device, signals_are_not_taken_by_the_workers)
{
    int are_blocked = 0;
    struct hr__stream *stream = new_stream();
    struct hr__kernel *kernel = new_function(look_at_signals, &are_blocked);
    launch(stream, kernel, (struct hr__launch){.n_units = 1});
    drain(stream);
    cr_expect(are_blocked);
    ops->stream_destroy(stream);
    ops->kernel_destroy(kernel);
}

/* ---- Failures ---- */

Test(host_device, a_failure_is_final_for_its_stream_and_for_those_that_wait_for_it)
{
    struct hr__stream *stream = new_stream();
    struct hr__stream *waiting = new_stream();
    struct hr__stream *other = new_stream();
    struct hr__event *before = new_event();
    struct hr__event *after = new_event();
    struct hr__kernel *kernel = new_kernel((struct hr_kernel){
        .kind = HR_KERNEL_FUNCTION, .function = fail_with_5, .text = "blur", .unit_in = 4});
    const char from = 1;
    char to = 0;
    record(stream, before);
    launch(stream, kernel, (struct hr__launch){.n_units = 3, .first_unit = 10, .chunk = 2});
    record(stream, after);
    wait_for(waiting, after);
    cr_assert_eq(ops->copy(stream, &to, &from, 1, HR__COPY_D2D, &error), HR_OK);
    cr_assert_eq(ops->copy(waiting, &to, &from, 1, HR__COPY_D2D, &error), HR_OK);

    cr_expect_eq(device_drain(device, stream, &error), HR_EDEVICE);
    cr_expect_eq(error.native, 5);
    cr_expect_eq(error.stage, HR_STAGE_KERNEL);
    cr_expect_eq(error.chunk, 2);
    cr_expect_eq(error.offset, 40);
    cr_expect_str_eq(error.text, "kernel \"blur\" returned 5 for 3 units from unit 10");
    memset(&error, 0, sizeof error);
    cr_expect_eq(device_drain(device, waiting, &error), HR_EDEVICE);
    cr_expect_eq(error.native, 5);
    cr_expect_eq(to, 0, "passed over");
    cr_expect_eq(ops->query(before, &error), HR_OK);
    cr_expect_eq(ops->query(after, NULL), HR_EDEVICE);
    drain(other);

    record(other, after);
    cr_expect_eq(device_finish(device, after, &error), HR_OK, "recorded anew, all is well");
    ops->stream_destroy(stream);
    ops->stream_destroy(waiting);
    ops->stream_destroy(other);
    ops->event_destroy(before);
    ops->event_destroy(after);
    ops->kernel_destroy(kernel);
}

Test(host_device, a_wait_takes_the_failure_of_its_own_record)
{
    struct gate gate = GATE;
    struct hr__stream *failed = new_stream();
    struct hr__stream *healthy = new_stream();
    struct hr__stream *waiting = new_stream();
    struct hr__event *event = new_event();
    struct hr__kernel *failing = new_function(fail_with_5, NULL);
    struct hr__kernel *wait_at_gate = new_function(pass_gate, &gate);
    launch(waiting, wait_at_gate, (struct hr__launch){.n_units = 1});
    launch(failed, failing, (struct hr__launch){.n_units = 1});
    record(failed, event);
    wait_for(waiting, event);
    cr_expect_eq(device_finish(device, event, &error), HR_EDEVICE);
    record(healthy, event);
    cr_expect_eq(device_finish(device, event, &error), HR_OK);
    open_gate(&gate);
    cr_expect_eq(device_drain(device, waiting, &error), HR_EDEVICE);
    ops->stream_destroy(failed);
    ops->stream_destroy(healthy);
    ops->stream_destroy(waiting);
    ops->event_destroy(event);
    ops->kernel_destroy(failing);
    ops->kernel_destroy(wait_at_gate);
}

Test(host_device, a_stream_that_has_failed_waits_all_the_same)
{
    struct gate gate = GATE;
    struct hr__stream *held = new_stream();
    struct hr__stream *failed = new_stream();
    struct hr__event *passed = new_event();
    struct hr__event *behind = new_event();
    struct hr__kernel *failing = new_function(fail_with_5, NULL);
    struct hr__kernel *wait_at_gate = new_function(pass_gate, &gate);
    launch(held, wait_at_gate, (struct hr__launch){.n_units = 1});
    record(held, passed);
    launch(failed, failing, (struct hr__launch){.n_units = 1});
    cr_expect_eq(device_drain(device, failed, &error), HR_EDEVICE);
    wait_for(failed, passed);
    record(failed, behind);
    usleep(10000);
    cr_expect_eq(ops->query(behind, &error), HR_PENDING);
    open_gate(&gate);
    cr_expect_eq(device_finish(device, behind, &error), HR_EDEVICE);
    cr_expect_eq(ops->query(passed, &error), HR_OK);
    ops->stream_destroy(held);
    ops->stream_destroy(failed);
    ops->event_destroy(passed);
    ops->event_destroy(behind);
    ops->kernel_destroy(failing);
    ops->kernel_destroy(wait_at_gate);
}

/* ---- Kernels ---- */

Test(host_device, functions_get_what_the_launch_says)
{
    struct hr__launch what = {.n_units = 2, .first_unit = 7, .chunk = 3};
    const unsigned char in[] = {1, 2};
    struct notes notes = {0};
    struct hr__stream *stream = new_stream();
    struct hr__kernel *kernel = new_function(note, &notes);
    what.in = in;
    launch(stream, kernel, what);
    drain(stream);
    cr_expect_eq(notes.first_unit[0], 7);
    const struct hr__kernel_info *info = ops->kernel_info(kernel);
    cr_expect_eq(info->unit_in_bytes, 1);
    cr_expect_eq(info->unit_out_bytes, 0);
    cr_expect(!info->is_reduction && !info->is_counted);
    ops->stream_destroy(stream);
    ops->kernel_destroy(kernel);
}

static int32_t keep_odd_bytes(void *user, const struct hr_kernel_call *call)
{
    const unsigned char *in = call->in[0];
    unsigned char *out = call->out;
    (void)user;
    *call->count = 0;
    for (uint64_t i = 0; i < call->n_units; i++) {
        if (in[i] % 2)
            out[(*call->count)++] = in[i];
    }
    return call->n_in == 1 && call->struct_size == sizeof *call ? 0 : 1;
}

Test(host_device, counted_kernels_tell_how_many_units_they_wrote)
{
    const unsigned char in[] = {1, 2, 3, 4, 5, 250};
    unsigned char out[6] = {0};
    uint64_t counts[3] = {99, 99, 99};
    struct hr__stream *stream = new_stream();
    struct hr__kernel *function = new_kernel((struct hr_kernel){.kind = HR_KERNEL_FUNCTION,
                                                                .function = keep_odd_bytes,
                                                                .unit_out = 1,
                                                                .flags = HR_KERNEL_COUNTED});
    struct hr__kernel *filter = new_builtin("filter:u8,lt,3");
    struct hr__launch what = {.in = in, .out = out, .n_units = 6, .count = &counts[0]};
    launch(stream, function, what);
    what.out = out + 3;
    what.count = &counts[1];
    what.n_units = 3;
    launch(stream, filter, what);
    what.count = &counts[2];
    what.n_units = 0;
    launch(stream, function, what);
    drain(stream);
    cr_expect_eq(counts[0], 3);
    cr_expect_eq(counts[1], 2);
    cr_expect_eq(counts[2], 0, "of no units");
    cr_expect_eq(memcmp(out, ((unsigned char[]){1, 3, 5, 1, 2}), 5), 0);
    ops->stream_destroy(stream);
    ops->kernel_destroy(function);
    ops->kernel_destroy(filter);
}

/* What a launch function enqueues: the argument's digit is put behind those that are there. */
struct digits {
    int value;
    int32_t next;
    pthread_t caller;
    int32_t fails;
};

static int32_t append(void *argument)
{
    struct digits *digits = argument;
    digits->value = digits->value * 10 + ++digits->next;
    return 0;
}

static int32_t append_and_fail(void *argument)
{
    append(argument);
    return 7;
}

static int32_t enqueue_three(void *user, const struct hr_kernel_call *call)
{
    struct digits *digits = user;
    hr_host_stream *stream = call->stream;
    digits->caller = pthread_self();
    int32_t rc = hr_host_stream_call(stream, append, digits);
    rc |= hr_host_stream_call(stream, digits->fails == 7 ? append_and_fail : append, digits);
    rc |= hr_host_stream_call(stream, append, digits);
    return rc ? rc : digits->fails == 7 ? 0 : digits->fails;
}

static struct hr__kernel *new_launch_function(struct digits *digits)
{
    return new_kernel((struct hr_kernel){
        .kind = HR_KERNEL_LAUNCH, .function = enqueue_three, .user = digits, .text = "three"});
}

Test(host_device, launch_functions_enqueue_and_return)
{
    struct gate gate = GATE;
    struct digits digits = {0};
    struct hr__stream *stream = new_stream();
    struct hr__kernel *held = new_function(pass_gate, &gate);
    struct hr__kernel *kernel = new_launch_function(&digits);
    launch(stream, held, (struct hr__launch){.n_units = 1});
    launch(stream, kernel, (struct hr__launch){.n_units = 1});
    launch(stream, kernel, (struct hr__launch){.n_units = 0});
    cr_expect(pthread_equal(digits.caller, pthread_self()));
    cr_expect_eq(digits.value, 0);
    open_gate(&gate);
    drain(stream);
    cr_expect_eq(digits.value, 123);
    hr_host_stream *handle = ops->stream_handle(stream);
    cr_expect_neq(hr_host_stream_call(handle, append, &digits), 0, "no launch function runs");
    cr_expect_neq(hr_host_stream_call(NULL, append, &digits), 0);
    ops->stream_destroy(stream);
    ops->kernel_destroy(held);
    ops->kernel_destroy(kernel);
}

Test(host_device, a_call_of_a_launch_function_that_fails_is_work_that_failed)
{
    struct digits digits = {.fails = 7};
    struct hr__stream *stream = new_stream();
    struct hr__kernel *kernel = new_launch_function(&digits);
    launch(stream, kernel, (struct hr__launch){.n_units = 1});
    cr_expect_eq(device_drain(device, stream, &error), HR_EDEVICE);
    cr_expect_eq(error.native, 7);
    cr_expect(strstr(error.text, "\"three\" returned 7"), "%s", error.text);
    cr_expect_eq(digits.value, 12, "the third is passed over");
    ops->stream_destroy(stream);
    ops->kernel_destroy(kernel);
}

Test(host_device, a_launch_function_that_fails_is_the_last_word_of_its_stream)
{
    struct digits digits = {.fails = 9};
    struct notes notes = {0};
    struct hr__stream *stream = new_stream();
    struct hr__event *before = new_event();
    struct hr__kernel *kernel = new_launch_function(&digits);
    struct hr__kernel *noting = new_function(note, &notes);
    const struct hr__launch what = {.n_units = 1};
    record(stream, before);
    cr_expect_eq(ops->launch(stream, kernel, &what, &error), HR_EDEVICE);
    cr_expect_eq(error.native, 9);
    cr_expect_eq(ops->launch(stream, kernel, &what, NULL), HR_EDEVICE);
    cr_expect_eq(ops->launch(stream, noting, &what, &error), HR_EDEVICE);
    cr_expect_eq(ops->copy(stream, &notes, &digits, 1, HR__COPY_D2D, &error), HR_EDEVICE);
    error.native = 0;
    cr_expect_eq(device_drain(device, stream, &error), HR_EDEVICE);
    cr_expect_eq(error.native, 9);
    cr_expect_eq(ops->query(before, &error), HR_OK);
    cr_expect_eq(notes.n, 0);
    cr_expect_eq(digits.value, 123, "what it had enqueued before it failed; and it ran once");
    ops->stream_destroy(stream);
    ops->event_destroy(before);
    ops->kernel_destroy(kernel);
    ops->kernel_destroy(noting);
}

/* Through a launch and by the host function itself. */
static void check_map(struct hr__stream *stream, const char *text)
{
    static unsigned char in[4096];
    unsigned char got[8192] = {0};
    unsigned char expected[8192] = {0};
    uint64_t count = 0;
    struct hr__kernel *kernel = new_builtin(text);
    const struct hr__kernel_info *info = ops->kernel_info(kernel);
    const uint64_t n = sizeof in / info->unit_in_bytes;
    for (size_t i = 0; i < sizeof in; i++)
        in[i] = (unsigned char)(i * 7 >> 2);
    launch(stream, kernel,
           (struct hr__launch){.in = in, .out = got, .n_units = n, .count = &count});
    drain(stream);
    if (info->is_counted)
        cr_expect_eq(count, hr__kernel_filter(&info->spec, in, expected, n), "%s", text);
    else
        hr__kernel_map(&info->spec, in, expected, n);
    const size_t n_bytes = (info->is_counted ? count : n) * info->unit_out_bytes;
    cr_expect_eq(memcmp(got, expected, n_bytes), 0, "%s", text);
    ops->kernel_destroy(kernel);
}

static void check_reduction(struct hr__stream *stream, const char *text)
{
    static unsigned char in[4096];
    void *state = NULL;
    struct hr__kernel *kernel = new_builtin(text);
    const struct hr__kernel_info *info = ops->kernel_info(kernel);
    const uint64_t n = sizeof in / info->unit_in_bytes;
    for (size_t i = 0; i < sizeof in; i++)
        in[i] = (unsigned char)(i * 5 >> 1);
    void *expected = malloc(info->state_bytes);
    cr_assert_eq(ops->alloc(device, info->state_bytes, &state, &error), HR_OK);
    hr__reduce_init(&info->spec, state);
    hr__reduce_init(&info->spec, expected);
    launch(stream, kernel,
           (struct hr__launch){.in = in, .n_units = n - 3, .first_unit = 3, .state = state});
    drain(stream);
    hr__reduce_fold(&info->spec, expected, in, n - 3, 3);
    cr_expect(info->is_reduction);
    cr_expect_eq(memcmp(state, expected, info->state_bytes), 0, "%s", text);
    ops->free(device, state);
    free(expected);
    ops->kernel_destroy(kernel);
}

Test(host_device, all_thirteen_kinds_of_built_in_kernels_run)
{
    const char *const maps[] = {"cast:u8,u16",    "scale:i16,2,1",    "bswap:4",
                                "shuffle:4,4096", "unshuffle:4,4096", "filter:u8,gt,100"};
    const char *const reductions[] = {"sum:f32",   "min:i32",       "max:f64", "mean:u8",
                                      "histogram", "count:u8,eq,5", "crc32"};
    struct hr__stream *stream = new_stream();
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++)
        check_map(stream, maps[i]);
    for (size_t i = 0; i < sizeof reductions / sizeof reductions[0]; i++)
        check_reduction(stream, reductions[i]);
    ops->stream_destroy(stream);
}

Test(host_device, compiled_kernels_are_refused)
{
    struct hr__kernel *made = NULL;
    const struct hr_kernel kernel = {.struct_size = sizeof kernel,
                                     .kind = HR_KERNEL_SOURCE,
                                     .text = "extern \"C\" __global__ void f() {}",
                                     .entry = "f"};
    cr_expect_eq(ops->kernel_create(device, &kernel, &made, &error), HR_EUNSUPPORTED);
    cr_expect_null(made);
    cr_expect(strstr(error.text, "built-in kernels and host functions"), "%s", error.text);
}

/* ---- Opening and closing, memory and title ---- */

/* The child has none of the device's threads. */
Test(host_device, closing_in_a_forked_child_returns)
{
    enum { LIMIT_S = 10 };
    int status = 0;
    const pid_t child = fork_when_quiet();
    cr_assert_geq(child, 0);
    if (child == 0) {
        alarm(LIMIT_S);
        ops->close(device);
        _exit(0);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

Test(host_device, memory_is_aligned_whatever_its_size)
{
    const size_t sizes[] = {0, 1, 255, 256, 257, 4095, 4096, 4097};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        void *memory = NULL;
        cr_assert_eq(ops->alloc(device, sizes[i], &memory, &error), HR_OK);
        cr_assert_not_null(memory);
        cr_expect_eq((uintptr_t)memory % 256, 0);
        memset(memory, 1, sizes[i]);
        ops->free(device, memory);
    }
#ifndef __SANITIZE_ADDRESS__ /* which ends the program instead */
    void *memory = NULL;
    cr_expect_eq(ops->alloc(device, SIZE_MAX / 2, &memory, &error), HR_ENOMEM);
    cr_expect(strstr(error.text, "host device"), "%s", error.text);
#endif
}

Test(host_device, it_tells_what_it_is)
{
    const struct hr__device_info *info = ops->info(device);
    cr_expect_str_eq(info->name, "host");
    cr_expect_gt(strlen(info->title), 0);
    cr_expect(info->host_memory);
    cr_expect_eq(info->kernel_alignment, 1);
    cr_expect_gt(info->memory_bytes, 1u << 20);
    cr_expect(info->n_streams >= 2 && info->n_streams <= 4);
}
