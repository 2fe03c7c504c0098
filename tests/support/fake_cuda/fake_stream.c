// SPDX-License-Identifier: Apache-2.0
/* The fake driver: streams with their threads, events, copies and launches. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fake_calls.h"
#include "fake_core.h"

enum op_kind { OP_COPY, OP_FILL, OP_LAUNCH, OP_RECORD, OP_WAIT };

struct event {
    struct fake_context *context;
    unsigned long long n_recorded;
    unsigned long long n_done;
    unsigned long long ns; /* when it was passed */
    unsigned n_denied;     /* looks, see fake_cuda_storm */
    int n_refs;            /* of the user and of operations */
    struct event *next;    /* of the user's */
};

struct op {
    enum op_kind kind;
    void *to;
    const void *from;
    size_t size;
    unsigned word;
    struct event *event;
    unsigned long long number; /* of the event's record */
    fake_cuda_kernel_fn fn;
    struct fake_cuda_launch launch;
    struct op *next;
};

struct stream {
    struct fake_context *context;
    pthread_t thread;
    pthread_cond_t called; /* something was enqueued, or it closes */
    struct op *first;
    struct op **last;
    unsigned n_open; /* not done */
    bool closing;
    unsigned long long random;
    unsigned long long ns; /* its time, behind what it did last */
    struct stream *next;   /* of the user's */
};

static struct stream *streams;
static struct event *events;
static unsigned n_open[FAKE_N_DEVICES]; /* of all streams, under the lock */

/* ---- operations, under the lock: kept for the next ones, so that in the long run the driver
 * allocates nothing ---- */

static struct op *spare_ops;

static struct op *take_op(void)
{
    enum { SLAB = 256 };
    if (!spare_ops) {
        struct op *slab = calloc(SLAB, sizeof *slab);
        for (int i = 0; i < SLAB; i++) {
            slab[i].next = spare_ops;
            spare_ops = &slab[i];
        }
    }
    struct op *op = spare_ops;
    spare_ops = op->next;
    return op;
}

static void give_op(struct op *op)
{
    op->next = spare_ops;
    spare_ops = op;
}

/* ---- handles, under the lock: real drivers crash by those that were destroyed ---- */

static void must_live(bool lives, const char *what)
{
    if (lives)
        return;
    fprintf(stderr, "fake_cuda: %s that is not there, or no more, is used\n", what);
    abort();
}

/* Where the list has it. */
static struct stream **find_stream(const void *handle)
{
    struct stream **at = &streams;
    while (*at && *at != handle)
        at = &(*at)->next;
    must_live(*at, "a stream");
    return at;
}

static struct event **find_event(const void *handle)
{
    struct event **at = &events;
    while (*at && *at != handle)
        at = &(*at)->next;
    must_live(*at, "an event");
    return at;
}

static struct event *event_of(const void *handle)
{
    return *find_event(handle);
}

/* ---- the thread; under the lock but for the work itself ---- */

static void drop(struct event *event)
{
    if (--event->n_refs == 0)
        free(event);
}

static void wait_a_little(struct stream *stream)
{
    const unsigned max_us = fake_max_delay_us;
    stream->random = stream->random * 6364136223846793005u + 1442695040888963407u;
    if (max_us == 0)
        return;
    pthread_mutex_unlock(&fake_lock);
    usleep((useconds_t)((stream->random >> 33) % max_us));
    pthread_mutex_lock(&fake_lock);
}

static void work(struct stream *stream, struct op *op)
{
    int status = FAKE_OK;
    fake_n_working++;
    pthread_mutex_unlock(&fake_lock);
    if (op->kind == OP_COPY)
        memcpy(op->to, op->from, op->size);
    else if (op->kind == OP_LAUNCH)
        status = op->fn(&op->launch);
    else
        for (size_t i = 0; i < op->size; i++)
            ((unsigned *)op->to)[i] = op->word;
    pthread_mutex_lock(&fake_lock);
    fake_n_working--;
    if (status != FAKE_OK && stream->context->failure == FAKE_OK)
        stream->context->failure = status;
}

static unsigned long long host_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned long long)now.tv_sec * 1000000000u + (unsigned long long)now.tv_nsec;
}

/* What the stream's time is behind the operation. */
static void pass_time(struct stream *stream, const struct op *op)
{
    if (!fake_times)
        stream->ns = host_ns();
    else if (op->kind == OP_COPY)
        stream->ns += fake_times->copy_us * 1000ull;
    else if (op->kind == OP_LAUNCH)
        stream->ns += fake_times->launch_us * 1000ull;
    else if (op->kind == OP_WAIT && op->event->ns + fake_times->wait_us * 1000ull > stream->ns)
        stream->ns = op->event->ns + fake_times->wait_us * 1000ull;
}

static void do_op(struct stream *stream, struct op *op)
{
    wait_a_little(stream);
    if (op->kind == OP_RECORD) {
        pass_time(stream, op);
        op->event->n_done = op->number;
        op->event->ns = stream->ns;
        drop(op->event);
    } else if (op->kind == OP_WAIT) {
        while (op->event->n_done < op->number && stream->context->failure == FAKE_OK)
            pthread_cond_wait(&fake_changed, &fake_lock);
        pass_time(stream, op);
        drop(op->event);
    } else if (stream->context->failure == FAKE_OK) {
        work(stream, op);
        pass_time(stream, op);
    }
}

static void *run(void *argument)
{
    struct stream *stream = argument;
    pthread_mutex_lock(&fake_lock);
    while (!stream->closing || stream->first) {
        struct op *op = stream->first;
        if (!op) {
            pthread_cond_wait(&stream->called, &fake_lock);
            continue;
        }
        stream->first = op->next;
        if (!stream->first)
            stream->last = &stream->first;
        do_op(stream, op);
        stream->n_open--;
        n_open[stream->context->device]--;
        pthread_cond_broadcast(&fake_changed);
        give_op(op);
    }
    pthread_mutex_unlock(&fake_lock);
    return NULL;
}

/* ---- streams ---- */

static void start(struct stream *stream)
{
    stream->context = fake_current();
    stream->last = &stream->first;
    stream->random = (unsigned long long)(uintptr_t)stream;
    pthread_cond_init(&stream->called, NULL);
    pthread_create(&stream->thread, NULL, run, stream);
}

int cuStreamCreate(void **out, unsigned flags)
{
    const int status = fake_begin("cuStreamCreate", true);
    if (status != FAKE_OK)
        return status;
    if (flags != 1)
        return FAKE_INVALID_VALUE; /* streams must not be ordered with the default one */
    struct stream *stream = calloc(1, sizeof *stream);
    pthread_mutex_lock(&fake_lock);
    start(stream);
    stream->next = streams;
    streams = stream;
    fake_live.streams++;
    pthread_mutex_unlock(&fake_lock);
    *out = stream;
    return FAKE_OK;
}

/* A stream of the user's, or the default one of the current context: one for all threads. Under the
 * lock. */
static struct stream *stream_of(void *handle)
{
    enum { LEGACY = 1, PER_THREAD = 2 };
    static struct stream defaults[FAKE_N_DEVICES];
    if (handle && (uintptr_t)handle != LEGACY && (uintptr_t)handle != PER_THREAD)
        return *find_stream(handle);
    struct stream *stream = &defaults[fake_current()->device];
    if (!stream->context)
        start(stream);
    return stream;
}

int cuStreamSynchronize(void *handle)
{
    int status = fake_begin("cuStreamSynchronize", true);
    if (status != FAKE_OK)
        return status;
    pthread_mutex_lock(&fake_lock);
    const struct stream *stream = stream_of(handle);
    while (stream->n_open > 0)
        pthread_cond_wait(&fake_changed, &fake_lock);
    status = stream->context->failure;
    pthread_mutex_unlock(&fake_lock);
    return status;
}

int cuCtxSynchronize(void)
{
    int status = fake_begin("cuCtxSynchronize", true);
    if (status != FAKE_OK)
        return status;
    pthread_mutex_lock(&fake_lock);
    const struct fake_context *context = fake_current();
    while (n_open[context->device] > 0)
        pthread_cond_wait(&fake_changed, &fake_lock);
    status = context->failure;
    pthread_mutex_unlock(&fake_lock);
    return status;
}

int cuStreamDestroy_v2(void *handle)
{
    int status;
    if (!fake_begin_free("cuStreamDestroy", &status))
        return status;
    pthread_mutex_lock(&fake_lock);
    struct stream **at = find_stream(handle);
    struct stream *stream = *at;
    *at = stream->next;
    stream->closing = true;
    fake_live.streams--;
    pthread_cond_signal(&stream->called);
    pthread_mutex_unlock(&fake_lock);
    pthread_join(stream->thread, NULL);
    pthread_cond_destroy(&stream->called);
    free(stream);
    return status;
}

/* Takes over a copy of *what. Under the lock. */
static int enqueue(void *handle, const struct op *what)
{
    struct stream *stream = stream_of(handle);
    if (stream->context != fake_current())
        return FAKE_INVALID_HANDLE;
    struct op *op = take_op();
    *op = *what;
    op->next = NULL;
    if (op->event)
        op->event->n_refs++;
    *stream->last = op;
    stream->last = &op->next;
    stream->n_open++;
    n_open[stream->context->device]++;
    pthread_cond_signal(&stream->called);
    return FAKE_OK;
}

int cuStreamWaitEvent(void *handle, void *event, unsigned flags)
{
    struct op op = {.kind = OP_WAIT};
    int status = fake_begin("cuStreamWaitEvent", true);
    (void)flags;
    if (status != FAKE_OK)
        return status;
    pthread_mutex_lock(&fake_lock);
    op.event = event_of(event);
    op.number = op.event->n_recorded;
    status = enqueue(handle, &op);
    pthread_mutex_unlock(&fake_lock);
    return status;
}

/* ---- events ---- */

int cuEventCreate(void **out, unsigned flags)
{
    const int status = fake_begin("cuEventCreate", true);
    (void)flags;
    if (status != FAKE_OK)
        return status;
    struct event *event = calloc(1, sizeof *event);
    event->context = fake_current();
    event->n_refs = 1;
    pthread_mutex_lock(&fake_lock);
    event->next = events;
    events = event;
    fake_live.events++;
    pthread_mutex_unlock(&fake_lock);
    *out = event;
    return FAKE_OK;
}

int cuEventDestroy_v2(void *handle)
{
    int status;
    if (!fake_begin_free("cuEventDestroy", &status))
        return status;
    pthread_mutex_lock(&fake_lock);
    struct event **at = find_event(handle);
    struct event *event = *at;
    *at = event->next;
    fake_live.events--;
    drop(event);
    pthread_mutex_unlock(&fake_lock);
    return status;
}

int cuEventRecord(void *handle, void *stream)
{
    struct op op = {.kind = OP_RECORD};
    int status = fake_begin("cuEventRecord", true);
    if (status != FAKE_OK)
        return status;
    pthread_mutex_lock(&fake_lock);
    op.event = event_of(handle);
    op.number = op.event->n_recorded + 1;
    status = op.event->context == fake_current() ? enqueue(stream, &op) : FAKE_INVALID_HANDLE;
    if (status == FAKE_OK) {
        op.event->n_recorded++;
        op.event->n_denied = 0;
    }
    pthread_mutex_unlock(&fake_lock);
    return status;
}

int cuEventQuery(void *handle)
{
    int status = fake_begin("cuEventQuery", true);
    if (status != FAKE_OK)
        return status;
    pthread_mutex_lock(&fake_lock);
    struct event *event = event_of(handle);
    if (event->context != fake_current())
        status = FAKE_INVALID_HANDLE;
    else if (event->n_done < event->n_recorded || event->n_denied++ < fake_n_storm)
        status = FAKE_NOT_READY;
    pthread_mutex_unlock(&fake_lock);
    return status;
}

int cuEventSynchronize(void *handle)
{
    int status = fake_begin("cuEventSynchronize", true);
    if (status != FAKE_OK)
        return status;
    pthread_mutex_lock(&fake_lock);
    const struct event *event = event_of(handle);
    while (event->n_done < event->n_recorded)
        pthread_cond_wait(&fake_changed, &fake_lock);
    status = event->context->failure;
    pthread_mutex_unlock(&fake_lock);
    return status;
}

int cuEventElapsedTime(float *ms, void *from, void *to)
{
    int status = fake_begin("cuEventElapsedTime", true);
    if (status != FAKE_OK)
        return status;
    pthread_mutex_lock(&fake_lock);
    const struct event *begin = event_of(from);
    const struct event *end = event_of(to);
    if (begin->n_done < begin->n_recorded || end->n_done < end->n_recorded)
        status = FAKE_NOT_READY;
    *ms = (float)((double)(long long)(end->ns - begin->ns) / 1e6);
    pthread_mutex_unlock(&fake_lock);
    return status;
}

/* ---- copies ---- */

/* The side of a copy in memory of this process; NULL: it cannot be one. Under the lock. */
static void *side_of(fake_address address, bool on_device, size_t size)
{
    if (on_device)
        return fake_resolve(fake_current(), address, size);
    void *memory = (void *)(uintptr_t)address;
    return fake_is_host_range(memory, size) ? memory : NULL;
}

static int enqueue_copy(const char *call, void *stream, fake_address to, bool to_device,
                        fake_address from, bool from_device, size_t size)
{
    struct op op = {.kind = OP_COPY, .size = size};
    int status = fake_begin(call, true);
    if (status != FAKE_OK)
        return status;
    pthread_mutex_lock(&fake_lock);
    op.to = side_of(to, to_device, size);
    op.from = side_of(from, from_device, size);
    status = op.to && op.from ? enqueue(stream, &op) : FAKE_INVALID_VALUE;
    pthread_mutex_unlock(&fake_lock);
    return status;
}

int cuMemcpyHtoDAsync_v2(fake_address to, const void *from, size_t size, void *stream)
{
    return enqueue_copy("cuMemcpyHtoDAsync", stream, to, true, (uintptr_t)from, false, size);
}

int cuMemcpyDtoHAsync_v2(void *to, fake_address from, size_t size, void *stream)
{
    return enqueue_copy("cuMemcpyDtoHAsync", stream, (uintptr_t)to, false, from, true, size);
}

int cuMemcpyDtoDAsync_v2(fake_address to, fake_address from, size_t size, void *stream)
{
    return enqueue_copy("cuMemcpyDtoDAsync", stream, to, true, from, true, size);
}

int cuMemsetD32Async(fake_address to, unsigned word, size_t n, void *stream)
{
    struct op op = {.kind = OP_FILL, .size = n, .word = word};
    int status = fake_begin("cuMemsetD32Async", true);
    if (status != FAKE_OK)
        return status;
    pthread_mutex_lock(&fake_lock);
    op.to = to % sizeof word == 0 ? fake_resolve(fake_current(), to, n * sizeof word) : NULL;
    status = op.to ? enqueue(stream, &op) : FAKE_INVALID_VALUE;
    pthread_mutex_unlock(&fake_lock);
    return status;
}

/* ---- launches ---- */

int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                   void *stream, void **params, void **extra)
{
    const struct fake_kernel *kernel = function;
    struct op op = {.kind = OP_LAUNCH, .fn = kernel->fn};
    int status = fake_begin("cuLaunchKernel", true);
    (void)shared_bytes;
    if (status != FAKE_OK)
        return status;
    if (grid_x == 0 || block_x == 0 || block_x > 1024 || grid_y * grid_z * block_y * block_z != 1 ||
        extra)
        return FAKE_INVALID_VALUE;
    op.launch.n_blocks = grid_x;
    op.launch.n_threads = block_x;
    for (size_t i = 0; kernel->sizes[i]; i++)
        memcpy(op.launch.params[i], params[i], kernel->sizes[i]);
    pthread_mutex_lock(&fake_lock);
    status = enqueue(stream, &op);
    pthread_mutex_unlock(&fake_lock);
    return status;
}
