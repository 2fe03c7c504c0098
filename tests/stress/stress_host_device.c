// SPDX-License-Identifier: Apache-2.0
/* Several threads on one host device, each with its own streams. In a round, bytes go from stream
 * to stream, ordered by events, sometimes behind those of the neighbour; then the thread asks to be
 * woken, at a moment that races with the end of the work, and sleeps. A wake-up that is lost shows
 * as a round that does not end in time. Streams are destroyed with work in their queues, and some
 * rounds fail. */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "backend.h"
#include "device_tools.h"

enum { N_THREADS = 4, N_ROUNDS = 1500, N_STREAMS = 3, BYTES = 600, LIMIT_MS = 20000 };

static struct hr__device *device;
static const struct hr__device_ops *ops;
static struct hr__kernel *add_one;
static struct hr__kernel *failing;

/* What neighbours wait for: an event is used by one thread at a time. */
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static struct hr__event *shared[N_THREADS];

struct thread {
    pthread_t id;
    unsigned index;
    uint64_t random;
    struct hr__stream *streams[N_STREAMS];
    struct hr__event *events[N_STREAMS];
    unsigned char bytes[N_STREAMS + 1][BYTES]; /* at the start, and after each stream */
    int event_fd;
    unsigned n_failed;
};

static void must(struct thread *thread, hr_status status)
{
    thread->n_failed += status != HR_OK;
}

static int32_t fail(void *user, const struct hr_kernel_call *call)
{
    (void)user;
    (void)call;
    return 3;
}

static void replace_stream(struct thread *thread, unsigned i)
{
    ops->stream_destroy(thread->streams[i]);
    must(thread, ops->stream_create(device, HR__STREAM_KERNELS, &thread->streams[i], NULL));
}

static void exchange_with_neighbour(struct thread *thread)
{
    struct hr__event *theirs = shared[(thread->index + 1) % N_THREADS];
    pthread_mutex_lock(&shared_lock);
    must(thread, ops->wait(thread->streams[0], theirs, NULL));
    must(thread, ops->record(thread->streams[0], shared[thread->index], NULL));
    pthread_mutex_unlock(&shared_lock);
}

/* Each stream adds one to what the stream before made. */
static void enqueue_round(struct thread *thread)
{
    for (unsigned i = 0; i < N_STREAMS; i++) {
        const struct hr__launch launch = {
            .in = thread->bytes[i], .out = thread->bytes[i + 1], .n_units = BYTES};
        if (i > 0)
            must(thread, ops->wait(thread->streams[i], thread->events[i - 1], NULL));
        must(thread, ops->launch(thread->streams[i], add_one, &launch, NULL));
        must(thread, ops->record(thread->streams[i], thread->events[i], NULL));
    }
}

static hr_status sleep_until_woken(struct thread *thread)
{
    struct hr__event *last = thread->events[N_STREAMS - 1];
    struct pollfd sleeper = {.fd = thread->event_fd, .events = POLLIN};
    eventfd_t value;
    for (uint64_t spins = device_random(&thread->random) % 4000; spins > 0; spins--)
        __asm__ volatile("");
    ops->notify(last, thread->event_fd);
    poll(&sleeper, 1, LIMIT_MS);
    const hr_status status = ops->query(last, NULL);
    must(thread, (hr_status)eventfd_read(thread->event_fd, &value));
    return status;
}

static void good_round(struct thread *thread)
{
    unsigned char expected[BYTES];
    for (size_t i = 0; i < BYTES; i++) {
        thread->bytes[0][i] = (unsigned char)(device_random(&thread->random) % 200);
        expected[i] = (unsigned char)(thread->bytes[0][i] + N_STREAMS);
    }
    enqueue_round(thread);
    must(thread, sleep_until_woken(thread));
    thread->n_failed += memcmp(thread->bytes[N_STREAMS], expected, BYTES) != 0;
}

/* The middle stream fails; the last one, which waits for it, has to know. */
static void bad_round(struct thread *thread)
{
    const struct hr__launch launch = {.in = thread->bytes[0], .n_units = 1};
    must(thread, ops->launch(thread->streams[1], failing, &launch, NULL));
    enqueue_round(thread);
    thread->n_failed += sleep_until_woken(thread) != HR_EDEVICE;
    replace_stream(thread, 1);
    replace_stream(thread, 2);
}

static void *run_rounds(void *argument)
{
    struct thread *thread = argument;
    for (unsigned round = 1; round <= N_ROUNDS && thread->n_failed == 0; round++) {
        if (round % 3 == 0)
            exchange_with_neighbour(thread);
        if (round % 50 == 0)
            bad_round(thread);
        else
            good_round(thread);
        if (round % 70 == 0) { /* its work is done, or passed over, when destroy returns */
            enqueue_round(thread);
            for (unsigned i = N_STREAMS - 1; i > 0; i--)
                replace_stream(thread, i);
        }
    }
    return NULL;
}

static void make_thread(struct thread *thread, unsigned index)
{
    *thread = (struct thread){.index = index, .random = index + 1};
    thread->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    must(thread, ops->event_create(device, &shared[index], NULL));
    for (unsigned i = 0; i < N_STREAMS; i++) {
        must(thread, ops->stream_create(device, HR__STREAM_KERNELS, &thread->streams[i], NULL));
        must(thread, ops->event_create(device, &thread->events[i], NULL));
    }
}

/* All streams before any event: some wait for events of others. */
static void free_threads(struct thread *threads)
{
    for (unsigned t = 0; t < N_THREADS; t++) {
        for (unsigned i = 0; i < N_STREAMS; i++)
            ops->stream_destroy(threads[t].streams[i]);
    }
    for (unsigned t = 0; t < N_THREADS; t++) {
        for (unsigned i = 0; i < N_STREAMS; i++)
            ops->event_destroy(threads[t].events[i]);
        ops->event_destroy(shared[t]);
        close(threads[t].event_fd);
    }
}

static hr_status make_kernels(void)
{
    const struct hr_kernel one = {.struct_size = sizeof one, .text = "scale:u8,1,1"};
    const struct hr_kernel bad = {
        .struct_size = sizeof bad, .kind = HR_KERNEL_FUNCTION, .function = fail};
    const hr_status status = ops->kernel_create(device, &one, &add_one, NULL);
    return status == HR_OK ? ops->kernel_create(device, &bad, &failing, NULL) : status;
}

int main(void)
{
    static struct thread threads[N_THREADS];
    char why[HR_ERROR_TEXT];
    unsigned n_failed = 0;
    if (hr__device_open("host", &device, why, sizeof why, NULL) != HR_OK)
        return EXIT_FAILURE;
    ops = device->ops;
    if (make_kernels() != HR_OK)
        return EXIT_FAILURE;
    for (unsigned i = 0; i < N_THREADS; i++)
        make_thread(&threads[i], i);
    for (unsigned i = 0; i < N_THREADS; i++)
        pthread_create(&threads[i].id, NULL, run_rounds, &threads[i]);
    for (unsigned i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i].id, NULL);
        n_failed += threads[i].n_failed;
    }
    free_threads(threads);
    ops->kernel_destroy(add_one);
    ops->kernel_destroy(failing);
    ops->close(device);
    printf("%u failures in %d rounds of %d threads\n", n_failed, N_ROUNDS, N_THREADS);
    return n_failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
