// SPDX-License-Identifier: Apache-2.0
/* Many more streams on a host device than it has workers. Steps are enqueued on random streams,
 * each behind the last step of another stream, so that chains of waits run through all of them; a
 * gate keeps everything parked until all is enqueued. Each step adds up what it depends on, some
 * fail, and the sums and failures must be those of a model. A worker that slept in a wait, a lost
 * stream, or one in two turns at once shows as a hang or a wrong sum. */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "backend.h"
#include "device_tools.h"

enum { N_STREAMS = 500, N_STEPS = 15000, N_ROUNDS = 8, LIMIT_MS = 60000 };

struct step {
    const struct step *before; /* the one before on its stream; NULL: the first */
    const struct step *other;  /* the one that it waits for; NULL: none */
    bool fails;
    uint64_t sum;          /* by the stream */
    uint64_t expected_sum; /* by the model */
    bool expected_failure;
};

static struct hr__device *device;
static const struct hr__device_ops *ops;
static struct hr__kernel *adding;
static struct hr__kernel *gated;
static struct hr__stream *streams[N_STREAMS];
static struct hr__event *events[N_STREAMS];
static struct step *last[N_STREAMS];
static struct step steps[N_STEPS];
static uint64_t random_state = 1;
static unsigned n_failed;

static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_moved = PTHREAD_COND_INITIALIZER;
static bool gate_is_open;

static void must(hr_status status)
{
    n_failed += status != HR_OK;
}

static void check(bool holds, const char *what, size_t index)
{
    if (!holds && n_failed++ < 10)
        printf("not ok %s, %zu\n", what, index);
}

static uint64_t add_up(const struct step *step, uint64_t before, uint64_t other)
{
    return 3 * before + 5 * other + (uint64_t)(step - steps) + 1;
}

static int32_t add(void *user, const struct hr_kernel_call *call)
{
    struct step *step = call->out;
    (void)user;
    if (step->fails)
        return 4;
    step->sum =
        add_up(step, step->before ? step->before->sum : 0, step->other ? step->other->sum : 0);
    return 0;
}

static int32_t pass_gate(void *user, const struct hr_kernel_call *call)
{
    (void)user;
    (void)call;
    pthread_mutex_lock(&gate_lock);
    while (!gate_is_open)
        pthread_cond_wait(&gate_moved, &gate_lock);
    pthread_mutex_unlock(&gate_lock);
    return 0;
}

static void move_gate(bool open)
{
    pthread_mutex_lock(&gate_lock);
    gate_is_open = open;
    pthread_cond_broadcast(&gate_moved);
    pthread_mutex_unlock(&gate_lock);
}

static void predict(struct step *step)
{
    const struct step *before = step->before;
    const struct step *other = step->other;
    step->expected_failure =
        step->fails || (before && before->expected_failure) || (other && other->expected_failure);
    if (!step->expected_failure)
        step->expected_sum =
            add_up(step, before ? before->expected_sum : 0, other ? other->expected_sum : 0);
}

/* A step of stream s behind the last one of stream `other`. */
static void enqueue(struct step *step, unsigned s, unsigned other, bool fails)
{
    const struct hr__launch launch = {.out = step, .n_units = 1};
    *step = (struct step){.before = last[s], .other = last[other], .fails = fails};
    predict(step);
    must(ops->wait(streams[s], events[other], NULL));
    must(ops->launch(streams[s], adding, &launch, NULL));
    must(ops->record(streams[s], events[s], NULL));
    last[s] = step;
}

/* The gate holds the first stream up, and most steps go on where the step before them was. */
static void enqueue_all(void)
{
    const struct hr__launch gate = {.n_units = 1};
    unsigned other = 0;
    must(ops->launch(streams[0], gated, &gate, NULL));
    must(ops->record(streams[0], events[0], NULL));
    for (size_t i = 0; i < N_STEPS; i++) {
        const unsigned s = (unsigned)(device_random(&random_state) % N_STREAMS);
        if (device_random(&random_state) % 8 == 0)
            other = (unsigned)(device_random(&random_state) % N_STREAMS);
        enqueue(&steps[i], s, other, i % (N_STEPS / 3) == N_STEPS / 3 - 500);
        other = s;
    }
}

static hr_status sleep_until_done(struct hr__event *event, int event_fd)
{
    struct pollfd sleeper = {.fd = event_fd, .events = POLLIN};
    eventfd_t value;
    ops->notify(event, event_fd);
    poll(&sleeper, 1, LIMIT_MS);
    const hr_status status = ops->query(event, NULL);
    must((hr_status)eventfd_read(event_fd, &value));
    return status;
}

static void run_round(int event_fd)
{
    for (unsigned i = 0; i < N_STREAMS; i++) {
        must(ops->stream_create(device, HR__STREAM_KERNELS, &streams[i], NULL));
        must(ops->event_create(device, &events[i], NULL));
        last[i] = NULL;
    }
    move_gate(false);
    enqueue_all();
    move_gate(true);
    for (unsigned i = 0; i < N_STREAMS; i++) {
        const hr_status status = sleep_until_done(events[i], event_fd);
        const bool fails = last[i] && last[i]->expected_failure;
        check(status == (fails ? HR_EDEVICE : HR_OK), "how a stream ends", i);
    }
    for (size_t i = 0; i < N_STEPS; i++)
        check(steps[i].sum == steps[i].expected_sum, "sum of a step", i);
    for (unsigned i = 0; i < N_STREAMS; i++)
        ops->stream_destroy(streams[i]);
    for (unsigned i = 0; i < N_STREAMS; i++)
        ops->event_destroy(events[i]);
}

static void set_up(void)
{
    const struct hr_kernel add_kernel = {.struct_size = sizeof add_kernel,
                                         .kind = HR_KERNEL_FUNCTION,
                                         .function = add,
                                         .unit_out = 1};
    struct hr_kernel gate_kernel = add_kernel;
    gate_kernel.function = pass_gate;
    must(ops->kernel_create(device, &add_kernel, &adding, NULL));
    must(ops->kernel_create(device, &gate_kernel, &gated, NULL));
}

static void tear_down(void)
{
    ops->kernel_destroy(adding);
    ops->kernel_destroy(gated);
    ops->close(device);
}

int main(void)
{
    char why[HR_ERROR_TEXT];
    const int event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    unsigned n_rounds = 0;
    if (hr__device_open("host", &device, why, sizeof why, NULL) != HR_OK)
        return EXIT_FAILURE;
    ops = device->ops;
    set_up();
    for (; n_rounds < N_ROUNDS && n_failed == 0; n_rounds++)
        run_round(event_fd);
    tear_down();
    close(event_fd);
    printf("%u failures in %u rounds of %d streams\n", n_failed, n_rounds, N_STREAMS);
    return n_failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
