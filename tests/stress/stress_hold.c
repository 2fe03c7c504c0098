// SPDX-License-Identifier: Apache-2.0
/* Chunks in device memory (of the fake driver) are held by several threads while the pipeline runs:
 * each thread queues a late copy on a stream of its own, notes it and drops its hold, some as a
 * tensor of DLPack. Who comes last gives the chunk back, and the last of all frees pipeline and
 * loop, mostly a thread that never saw them. What was copied shows whether memory was used again too
 * early; the driver tells what is left. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_calls.h"
#include "fake_cuda.h"
#include "headrace_python.h"

enum {
    N_THREADS = 3,
    N_ROUNDS = 40,
    CHUNK = 4096,
    N_CHUNKS = 9,
    BYTES = N_CHUNKS * CHUNK,
    DELAY_US = 100,
    STREAM_FLAGS = 1
};

/* What a thread is given: a hold, or a tensor that has one. */
struct item {
    hrp_hold *hold;
    void *tensor;
    bool is_versioned;
    uint64_t address;
    size_t offset;
};

struct thread {
    pthread_t id;
    void *stream;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct item items[N_CHUNKS]; /* under the lock */
    unsigned n_items;
    unsigned n_done;
    bool closing;
    unsigned char copy[BYTES];
};

static struct thread threads[N_THREADS];
static void *context;
static unsigned char in[BYTES];
static atomic_uint n_failed;

static void expect(bool is, const char *what)
{
    if (!is)
        printf("not ok %s\n", what);
    n_failed += !is;
}

/* ---- the threads ---- */

static void use(struct thread *thread, struct item *item)
{
    struct hrp_dl_owner tensor = {item->tensor, item->is_versioned};
    for (int twice = 0; twice < 2; twice++)
        expect(hrp_hold_note_stream(item->hold, thread->stream) == 0, "a stream is not noted");
    cuMemcpyDtoHAsync_v2(thread->copy + item->offset, item->address, CHUNK, thread->stream);
    if (item->tensor)
        hrp_dlpack_end(&tensor);
    else
        hrp_hold_end(&item->hold);
}

static void *work(void *argument)
{
    struct thread *thread = argument;
    cuCtxPushCurrent_v2(context);
    pthread_mutex_lock(&thread->lock);
    while (!thread->closing || thread->n_done < thread->n_items) {
        if (thread->n_done == thread->n_items) {
            pthread_cond_wait(&thread->changed, &thread->lock);
            continue;
        }
        struct item item = thread->items[thread->n_done++];
        pthread_mutex_unlock(&thread->lock);
        use(thread, &item);
        pthread_mutex_lock(&thread->lock);
    }
    pthread_mutex_unlock(&thread->lock);
    cuStreamSynchronize(thread->stream);
    void *popped;
    cuCtxPopCurrent_v2(&popped);
    return NULL;
}

static void give(struct thread *thread, struct item item)
{
    pthread_mutex_lock(&thread->lock);
    thread->items[thread->n_items++] = item;
    pthread_cond_signal(&thread->changed);
    pthread_mutex_unlock(&thread->lock);
}

static void start(struct thread *thread)
{
    *thread = (struct thread){.n_items = 0};
    pthread_mutex_init(&thread->lock, NULL);
    pthread_cond_init(&thread->changed, NULL);
    cuStreamCreate(&thread->stream, STREAM_FLAGS);
    pthread_create(&thread->id, NULL, work, thread);
}

static void join(struct thread *thread)
{
    pthread_mutex_lock(&thread->lock);
    thread->closing = true;
    pthread_cond_signal(&thread->changed);
    pthread_mutex_unlock(&thread->lock);
    pthread_join(thread->id, NULL);
}

/* Nobody holds any more what its stream was noted for. */
static void end(struct thread *thread)
{
    cuStreamDestroy_v2(thread->stream);
    pthread_cond_destroy(&thread->changed);
    pthread_mutex_destroy(&thread->lock);
    expect(memcmp(thread->copy, in, BYTES) == 0, "a thread read other bytes");
}

/* ---- a round ---- */

static void *export(hrp_hold *hold, void *data, bool is_versioned)
{
    int64_t shape[] = {CHUNK};
    const struct hrp_dl_tensor tensor = {.data = data,
                                         .device_type = 2,
                                         .ndim = 1,
                                         .code = 1,
                                         .bits = 8,
                                         .lanes = 1,
                                         .shape = shape};
    return hrp_dlpack_export(&tensor, hold, is_versioned, HRP_DL_READ_ONLY);
}

static void give_to_all(hrp_hold *hold, const struct hr_chunk *chunk)
{
    const union {
        const void *constant;
        void *data;
    } of = {.constant = chunk->data};
    for (unsigned i = 0; i < N_THREADS; i++) {
        const unsigned kind = (unsigned)(i + chunk->index) % 3;
        struct item item = {.hold = hold,
                            .is_versioned = kind == 1,
                            .address = (uintptr_t)chunk->data,
                            .offset = (size_t)chunk->stream_offset};
        if (kind == 2)
            hrp_hold_retain(hold, &item.hold);
        else
            item.tensor = export(hold, of.data, item.is_versioned);
        give(&threads[i], item);
    }
    hrp_hold_end(&hold);
}

/* Chunks of which all slots are held come back by the threads. */
static hr_status next(hrp_box *box, struct hr_chunk *chunk, hrp_hold **out)
{
    hr_error error;
    hr_status status = HR_PENDING;
    while (status == HR_PENDING && hr_loop_poll(hrp_box_loop(box), 1, NULL) >= 0)
        do
            status = hrp_box_next(box, chunk, out, &error);
        while (status == HR_ELOANED);
    return status;
}

static hrp_box *new_box(hr_context *of_round)
{
    const struct hr_source source = {
        .struct_size = sizeof source, .kind = HR_MEMORY, .data = in, .size = BYTES};
    const struct hr_pipeline_config config = {
        .struct_size = sizeof config,
        .sources = &source,
        .n_sources = 1,
        .sink = {.struct_size = sizeof config.sink, .kind = HR_PULL, .flags = HR_LEND_DEVICE},
        .chunk_size = CHUNK,
        .depth = 4,
        .device = "cuda:0"};
    const struct hr_loop_config io = {
        .struct_size = sizeof io, .io = HR_IO_THREADS, .io_threads = 1, .flags = HR_LOOP_SHARED};
    hrp_box *box = NULL;
    hr_error error = {.code = 0};
    expect(hrp_box_open(of_round, &io, &config, &box, &error) == HR_OK, error.text);
    return box;
}

static void run_round(unsigned round)
{
    const struct hr_context_config one = {.struct_size = sizeof one, .n_threads = 1};
    struct hr_chunk chunk = {.struct_size = sizeof chunk};
    hr_context *of_round = NULL;
    hrp_hold *of_memory = NULL;
    hr_error error;
    if (hr_context_create(&one, &of_round, NULL) != HR_OK ||
        hrp_hold_alloc(of_round, "cuda:0", BYTES, &of_memory, &error) != HR_OK) {
        expect(false, "context and memory");
        return;
    }
    for (unsigned i = 0; i < N_THREADS; i++)
        start(&threads[i]);
    hrp_box *box = new_box(of_round);
    hrp_context_end(&of_round);
    const unsigned n = round % 4 == 3 ? N_CHUNKS / 2 : N_CHUNKS; /* or it is left early */
    hrp_hold *hold = NULL;
    for (unsigned i = 0; i < n && next(box, &chunk, &hold) == HR_OK; i++)
        give_to_all(hold, &chunk);
    hrp_box_close(&box);
    for (unsigned i = 0; i < N_THREADS; i++)
        join(&threads[i]);
    for (unsigned i = 0; i < N_THREADS; i++) {
        memcpy(threads[i].copy + n * CHUNK, in + n * CHUNK, (N_CHUNKS - n) * CHUNK);
        end(&threads[i]);
    }
    hrp_hold_end(&of_memory);
    expect(hrp_n_holds() == 0, "holds are left");
}

int main(void)
{
    for (size_t i = 0; i < BYTES; i++)
        in[i] = (unsigned char)(i * 7 + i / 251);
    cuInit(0);
    cuDevicePrimaryCtxRetain(&context, 0);
    cuCtxPushCurrent_v2(context);
    fake_cuda_set_delay(DELAY_US);
    for (unsigned round = 0; round < N_ROUNDS; round++)
        run_round(round);
    cuCtxPopCurrent_v2(&context);
    cuDevicePrimaryCtxRelease_v2(0);
    const struct fake_cuda_live live = fake_cuda_live();
    expect(live.contexts == 0 && live.streams == 0 && live.events == 0 && live.allocations == 0,
           "the driver has something left");
    printf("%s holds in %d threads\n", n_failed ? "not ok" : "ok", N_THREADS);
    return n_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
