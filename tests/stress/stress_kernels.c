// SPDX-License-Identifier: Apache-2.0
/* Several threads, each with its loop, on one context: random chains of kernels, lent chunks that
 * another thread gives back, cancels at random moments. Every finished transfer is compared. */
#include <headrace.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chains.h"
#include "kernel_models.h"

enum { N_THREADS = 4, N_ROUNDS = 60, UNIT = 1000, MAX_UNITS = 60 };

static hr_context *context;
static unsigned char *bytes;

struct worker {
    unsigned seed;
    uint32_t io;
    unsigned n_failed;
};

/* Adds one to each byte. */
static int32_t add_one(void *user, const struct hr_kernel_call *call)
{
    (void)user;
    const unsigned char *in = call->in[0];
    for (uint64_t i = 0; i < call->n_units; i++)
        ((unsigned char *)call->out)[i] = (unsigned char)(in[i] + 1);
    return 0;
}

/* Three kernels that keep all bytes, in between a CRC-32 and a filter that does too. */
static void add_kernels(struct chain *chain, unsigned *seed)
{
    chain_add(chain, "crc32");
    chain_add(chain, rand_r(seed) % 2 ? "bswap:4" : "shuffle:2,1000");
    chain_add(chain, rand_r(seed) % 2 ? "filter:u8,ge,0" : "sum:u8");
    chain_add_kernel(
        chain, (struct hr_kernel){.kind = HR_KERNEL_FUNCTION, .function = add_one, .unit_out = 1});
    chain_add(chain, "crc32");
}

static bool found(struct chain *chain, uint32_t kernel, const unsigned char *in, size_t size)
{
    struct model_result expected;
    struct hr_result result = {.struct_size = sizeof result};
    model_of("crc32")->reduce(in, size, &expected);
    return hr_pipeline_result(chain->pipeline, kernel, &result, NULL) == HR_OK &&
           result.n_units == size && memcmp(result.data, expected.data, expected.size) == 0;
}

/* Like chain->out, of what the kernels should give. */
static bool is_right(struct chain *chain, size_t size)
{
    bool right = chain->n_out == size && found(chain, 0, bytes, size) &&
                 (size == 0 || found(chain, 4, chain->out, size));
    unsigned char *expected = malloc(size + 1);
    const struct model *model = model_of(chain->kernels[1].text);
    model->map(bytes, size / model->unit, expected);
    for (size_t i = 0; i < size && right; i++)
        right = chain->out[i] == (unsigned char)(expected[i] + 1);
    free(expected);
    return right;
}

static void *give_back(void *argument)
{
    hr_chunk_release(argument, NULL);
    return NULL;
}

/* What the pull form lends goes to the chain's output and back by another thread, now and then. */
static hr_status pull_all(struct chain *chain, hr_loop *loop, unsigned *seed)
{
    chain->out = malloc(MAX_UNITS * UNIT);
    hr_status status = chain_create(chain, loop);
    struct hr_chunk chunk = {.struct_size = sizeof chunk};
    while (status == HR_OK &&
           (status = hr_pipeline_next(chain->pipeline, -1, &chunk, &chain->error)) == HR_OK) {
        pthread_t thread;
        memcpy(chain->out + chain->n_out, chunk.data, (size_t)chunk.size);
        chain->n_out += (size_t)chunk.size;
        if (rand_r(seed) % 4 || pthread_create(&thread, NULL, give_back, &chunk) != 0)
            hr_chunk_release(&chunk, NULL);
        else
            pthread_join(thread, NULL);
    }
    return status == HR_END ? HR_OK : status;
}

static void *cancel_soon(void *pipeline)
{
    usleep(300);
    hr_pipeline_cancel(pipeline);
    return NULL;
}

static hr_status run_cancelled(struct chain *chain, hr_loop *loop)
{
    pthread_t thread;
    hr_status status = chain_create(chain, loop);
    if (status != HR_OK || pthread_create(&thread, NULL, cancel_soon, chain->pipeline) != 0)
        return status;
    status = hr_pipeline_run(chain->pipeline, &chain->error);
    pthread_join(thread, NULL);
    return status;
}

static bool one_round(struct worker *worker, hr_loop *loop)
{
    unsigned *seed = &worker->seed;
    const size_t size = (size_t)(rand_r(seed) % MAX_UNITS) * UNIT;
    const unsigned how = (unsigned)rand_r(seed) % 4;
    struct chain chain;
    chain_init(&chain);
    add_kernels(&chain, seed);
    chain_read_memory(&chain, bytes, size);
    chain.config.chunk_size = (uint64_t)(1000 + rand_r(seed) % 9000);
    chain.config.depth = (uint32_t)(1 + rand_r(seed) % 6);
    chain.config.n_streams = (uint32_t)(1 + rand_r(seed) % 3);
    if (how == 0)
        chain.config.sink.kind = HR_PULL;
    const hr_status status = how == 0   ? pull_all(&chain, loop, seed)
                             : how == 1 ? run_cancelled(&chain, loop)
                                        : chain_run(&chain, loop);
    const bool right =
        status == HR_OK ? is_right(&chain, size) : how == 1 && status == HR_ECANCELED;
    if (!right)
        printf("way %u of %zu bytes: %s %s\n", how, size, hr_status_name(status), chain.error.text);
    chain_reset(&chain);
    return right;
}

static void *run_rounds(void *argument)
{
    struct worker *worker = argument;
    const struct hr_loop_config config = {.struct_size = sizeof config, .io = worker->io};
    hr_loop *loop = NULL;
    if (hr_loop_create(context, &config, &loop, NULL) != HR_OK) {
        worker->n_failed++;
        return NULL;
    }
    for (int i = 0; i < N_ROUNDS; i++)
        worker->n_failed += !one_round(worker, loop);
    hr_loop_free(loop);
    return NULL;
}

int main(void)
{
    pthread_t threads[N_THREADS];
    struct worker workers[N_THREADS];
    unsigned n_failed = 0;
    const struct hr_context_config config = {.struct_size = sizeof config, .n_threads = 2};
    bytes = test_bytes(MAX_UNITS * UNIT);
    if (hr_context_create(&config, &context, NULL) != HR_OK)
        return 1;
    for (unsigned i = 0; i < N_THREADS; i++) {
        workers[i] = (struct worker){.seed = i + 1, .io = i % 2 ? HR_IO_THREADS : HR_IO_AUTO};
        pthread_create(&threads[i], NULL, run_rounds, &workers[i]);
    }
    for (unsigned i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
        n_failed += workers[i].n_failed;
    }
    hr_context_free(context);
    free(bytes);
    printf("%u of %d transfers failed\n", n_failed, N_THREADS * N_ROUNDS);
    return n_failed != 0;
}
