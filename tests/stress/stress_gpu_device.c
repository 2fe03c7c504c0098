// SPDX-License-Identifier: Apache-2.0
/* Several threads on one GPU over the fake driver, each with its own streams and events. In a round
 * bytes go to the device, from stream to stream through kernels, and back; the thread asks to be
 * woken at a moment that races with the end of the work, sometimes several times, and sleeps. A
 * wake-up that is lost shows as a round that does not end in time, one too late as a write to a
 * descriptor that was closed. Streams and events come and go meanwhile. */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "backend.h"
#include "device_tools.h"
#include "fake_cuda.h"

enum { N_THREADS = 4, N_ROUNDS = 300, N_STREAMS = 3, BYTES = 600, LIMIT_MS = 20000 };

static struct hr__device *device;
static const struct hr__device_ops *ops;

struct thread {
    pthread_t id;
    uint64_t random;
    struct hr__stream *streams[N_STREAMS];
    struct hr__event *events[N_STREAMS];
    void *memory[N_STREAMS + 1]; /* on the device: at the start, and after each stream */
    struct hr__kernel *add_one;
    unsigned n_failed;
};

static void must(struct thread *thread, hr_status status)
{
    thread->n_failed += status != HR_OK;
}

static void replace(struct thread *thread, unsigned i)
{
    ops->stream_destroy(thread->streams[i]);
    ops->event_destroy(thread->events[i]);
    must(thread, ops->stream_create(device, HR__STREAM_KERNELS, &thread->streams[i], NULL));
    must(thread, ops->event_create(device, &thread->events[i], NULL));
}

/* Each stream adds one to what the stream before made. */
static void enqueue_round(struct thread *thread, const unsigned char *in, unsigned char *out)
{
    struct hr__stream *last = thread->streams[N_STREAMS - 1];
    must(thread, ops->copy(thread->streams[0], thread->memory[0], in, BYTES, HR__COPY_H2D, NULL));
    for (unsigned i = 0; i < N_STREAMS; i++) {
        const struct hr__launch launch = {
            .in = thread->memory[i], .out = thread->memory[i + 1], .n_units = BYTES};
        if (i > 0)
            must(thread, ops->wait(thread->streams[i], thread->events[i - 1], NULL));
        must(thread, ops->launch(thread->streams[i], thread->add_one, &launch, NULL));
        if (i + 1 == N_STREAMS)
            must(thread,
                 ops->copy(last, out, thread->memory[N_STREAMS], BYTES, HR__COPY_D2H, NULL));
        must(thread, ops->record(thread->streams[i], thread->events[i], NULL));
    }
}

/* The descriptor is closed as soon as query() says that the event is done. */
static void sleep_until_woken(struct thread *thread)
{
    struct hr__event *last = thread->events[N_STREAMS - 1];
    struct pollfd sleeper = {.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), .events = POLLIN};
    const uint64_t way = device_random(&thread->random) % 4;
    for (uint64_t spins = device_random(&thread->random) % 4000; spins > 0; spins--)
        __asm__ volatile("");
    ops->notify(last, sleeper.fd);
    if (way == 1)
        ops->notify(last, sleeper.fd);
    hr_status status = HR_PENDING;
    while (way == 2 && status == HR_PENDING) /* who looks himself */
        status = ops->query(last, NULL);
    if (way == 3) /* who waits in the driver */
        must(thread, ops->lend(last, NULL, NULL));
    if (way == 3)
        status = ops->query(last, NULL);
    if (way < 2 && poll(&sleeper, 1, LIMIT_MS) == 1)
        status = ops->query(last, NULL);
    must(thread, status);
    if (status != HR_PENDING)
        close(sleeper.fd);
}

static void one_round(struct thread *thread)
{
    unsigned char in[BYTES];
    unsigned char out[BYTES];
    for (size_t i = 0; i < BYTES; i++)
        in[i] = (unsigned char)(device_random(&thread->random) % 200);
    enqueue_round(thread, in, out);
    sleep_until_woken(thread);
    for (size_t i = 0; i < BYTES; i++)
        thread->n_failed += out[i] != in[i] + N_STREAMS;
}

static void *run_rounds(void *argument)
{
    struct thread *thread = argument;
    for (unsigned round = 1; round <= N_ROUNDS && thread->n_failed == 0; round++) {
        one_round(thread);
        if (round % 20 == 0)
            replace(thread, round / 20 % N_STREAMS);
    }
    thread->n_failed += fake_cuda_depth();
    return NULL;
}

static void make_thread(struct thread *thread, unsigned index)
{
    const struct hr_kernel one = {.struct_size = sizeof one, .text = "scale:u8,1,1"};
    *thread = (struct thread){.random = index + 1};
    must(thread, ops->kernel_create(device, &one, &thread->add_one, NULL));
    for (unsigned i = 0; i <= N_STREAMS; i++)
        must(thread, ops->alloc(device, BYTES, &thread->memory[i], NULL));
    for (unsigned i = 0; i < N_STREAMS; i++) {
        must(thread, ops->stream_create(device, HR__STREAM_KERNELS, &thread->streams[i], NULL));
        must(thread, ops->event_create(device, &thread->events[i], NULL));
    }
}

static void free_thread(struct thread *thread)
{
    for (unsigned i = 0; i < N_STREAMS; i++)
        ops->stream_destroy(thread->streams[i]);
    for (unsigned i = 0; i < N_STREAMS; i++)
        ops->event_destroy(thread->events[i]);
    for (unsigned i = 0; i <= N_STREAMS; i++)
        ops->free(device, thread->memory[i]);
    ops->kernel_destroy(thread->add_one);
}

int main(void)
{
    static struct thread threads[N_THREADS];
    char why[HR_ERROR_TEXT];
    hr_error error;
    unsigned n_failed = 0;
    if (hr__device_open("cuda", &device, why, sizeof why, &error) != HR_OK) {
        printf("not ok open: %s\n", error.text);
        return EXIT_FAILURE;
    }
    ops = device->ops;
    for (unsigned i = 0; i < N_THREADS; i++)
        make_thread(&threads[i], i);
    for (unsigned i = 0; i < N_THREADS; i++)
        pthread_create(&threads[i].id, NULL, run_rounds, &threads[i]);
    for (unsigned i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i].id, NULL);
        n_failed += threads[i].n_failed;
    }
    for (unsigned i = 0; i < N_THREADS; i++)
        free_thread(&threads[i]);
    ops->close(device);
    const struct fake_cuda_live live = fake_cuda_live();
    n_failed += live.contexts || live.streams || live.events || live.allocations || live.modules;
    printf("%u failures in %d rounds of %d threads\n", n_failed, N_ROUNDS, N_THREADS);
    return n_failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
