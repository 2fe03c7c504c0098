// SPDX-License-Identifier: Apache-2.0
/* Several threads, each with its loops, on one context: transfers of random shapes, some of them
 * cancelled from another thread at a random moment. Every finished transfer is compared. */
#include <headrace.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_THREADS = 4, N_ROUNDS = 60, MAX_BYTES = 300000 };

static hr_context *context;
static unsigned char bytes[MAX_BYTES];

struct round {
    unsigned seed;
    uint32_t io;
    unsigned n_failed;
};

static void *cancel_soon(void *pipeline)
{
    usleep(200);
    hr_pipeline_cancel(pipeline);
    return NULL;
}

static int64_t read_some(void *user, void *buffer, size_t size, uint64_t offset)
{
    const uint64_t total = *(const uint64_t *)user;
    const uint64_t left = offset < total ? total - offset : 0;
    const size_t n = left < size ? (size_t)left : size;
    const size_t piece = n > 7 ? n - 7 : n; /* short reads are not the end */
    memcpy(buffer, bytes + offset, piece);
    return (int64_t)piece;
}

/* True: the transfer ended as it had to. */
static int one_transfer(hr_loop *loop, unsigned *seed)
{
    uint64_t size = (uint64_t)(rand_r(seed) % MAX_BYTES);
    unsigned char *got = calloc(1, MAX_BYTES);
    const struct hr_source sources[] = {
        {.struct_size = sizeof sources[0], .kind = HR_MEMORY, .data = bytes, .size = size},
        {.struct_size = sizeof sources[0], .kind = HR_CALLBACK, .read = read_some, .user = &size},
    };
    const int which = rand_r(seed) % 2;
    const struct hr_pipeline_config config = {
        .struct_size = sizeof config,
        .n_sources = 1,
        .sources = &sources[which],
        .sink = {.struct_size = sizeof config.sink, .kind = HR_MEMORY, .data = got, .size = size},
        .chunk_size = (uint64_t)(1 + rand_r(seed) % 70000),
        .depth = (uint32_t)(1 + rand_r(seed) % 9),
    };
    const int cancelled = rand_r(seed) % 3 == 0;
    hr_pipeline *pipeline = NULL;
    hr_error error = {0};
    pthread_t thread;
    if (hr_pipeline_create(loop, &config, &pipeline, &error) != HR_OK) {
        free(got);
        return 0;
    }
    if (cancelled)
        pthread_create(&thread, NULL, cancel_soon, pipeline);
    const hr_status status = hr_pipeline_run(pipeline, &error);
    if (cancelled)
        pthread_join(thread, NULL);
    hr_pipeline_free(pipeline);
    const int right = status == HR_OK ? memcmp(got, bytes, (size_t)size) == 0
                                      : cancelled && status == HR_ECANCELED;
    free(got);
    return right;
}

static void *run_rounds(void *arg)
{
    struct round *round = arg;
    for (int i = 0; i < N_ROUNDS; i++) {
        const struct hr_loop_config config = {.struct_size = sizeof config, .io = round->io};
        hr_loop *loop = NULL;
        if (hr_loop_create(context, &config, &loop, NULL) != HR_OK) {
            round->n_failed++;
            continue;
        }
        for (int j = 0; j < 4; j++)
            round->n_failed += !one_transfer(loop, &round->seed);
        hr_loop_free(loop);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[N_THREADS];
    struct round rounds[N_THREADS];
    unsigned n_failed = 0;
    for (int i = 0; i < MAX_BYTES; i++)
        bytes[i] = (unsigned char)(i * 31 ^ i >> 7);
    const struct hr_context_config config = {.struct_size = sizeof config, .n_threads = 3};
    if (hr_context_create(&config, &context, NULL) != HR_OK)
        return 1;
    for (int i = 0; i < N_THREADS; i++) {
        rounds[i] =
            (struct round){.seed = (unsigned)i + 1, .io = i % 2 ? HR_IO_THREADS : HR_IO_AUTO};
        pthread_create(&threads[i], NULL, run_rounds, &rounds[i]);
    }
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
        n_failed += rounds[i].n_failed;
    }
    hr_context_free(context);
    printf("%u of %d transfers failed\n", n_failed, N_THREADS * N_ROUNDS * 4);
    return n_failed != 0;
}
