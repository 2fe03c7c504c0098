// SPDX-License-Identifier: Apache-2.0
#include "chains.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LIMIT_S = 30 };

static void must(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "not ok the test itself: %s: %s\n", what, strerror(errno));
    abort();
}

static int64_t gather(void *user, const void *buffer, size_t size, uint64_t offset)
{
    struct chain *chain = user;
    chain->out_of_order |= offset != chain->n_out;
    if (chain->n_out + size > chain->cap) {
        chain->cap = 2 * (chain->n_out + size);
        chain->out = realloc(chain->out, chain->cap);
        must(chain->out != NULL, "memory");
    }
    memcpy(chain->out + chain->n_out, buffer, size);
    chain->n_out += size;
    return (int64_t)size;
}

void chain_init(struct chain *chain)
{
    *chain = (struct chain){
        .config = {.struct_size = sizeof chain->config,
                   .sink = {.struct_size = sizeof chain->config.sink,
                            .kind = HR_CALLBACK,
                            .write = gather},
                   .device = "host"},
    };
}

void chain_add_kernel(struct chain *chain, struct hr_kernel kernel)
{
    must(chain->config.n_kernels < CHAIN_KERNELS, "too many kernels");
    kernel.struct_size = sizeof kernel;
    chain->kernels[chain->config.n_kernels++] = kernel;
}

void chain_add(struct chain *chain, const char *text)
{
    chain_add_kernel(chain, (struct hr_kernel){.text = text});
}

static void add_source(struct chain *chain, struct hr_source source)
{
    must(chain->config.n_sources < CHAIN_SOURCES, "too many sources");
    source.struct_size = sizeof source;
    chain->sources[chain->config.n_sources++] = source;
}

void chain_read_memory(struct chain *chain, const void *data, size_t size)
{
    add_source(chain, (struct hr_source){.kind = HR_MEMORY, .data = data, .size = size});
}

void chain_read_fd(struct chain *chain, int fd)
{
    add_source(chain, (struct hr_source){.kind = HR_FD, .fd = fd});
}

void chain_read_file(struct chain *chain, const char *path)
{
    add_source(chain, (struct hr_source){.kind = HR_FILE, .path = path});
}

hr_status chain_create(struct chain *chain, hr_loop *loop)
{
    chain->config.sources = chain->sources;
    chain->config.kernels = chain->kernels;
    if (chain->config.sink.kind == HR_CALLBACK)
        chain->config.sink.user = chain;
    chain->error = (hr_error){0};
    return hr_pipeline_create(loop, &chain->config, &chain->pipeline, &chain->error);
}

hr_status chain_run(struct chain *chain, hr_loop *loop)
{
    hr_status status = chain_create(chain, loop);
    const time_t start = time(NULL);
    while (status == HR_OK &&
           (status = hr_pipeline_state(chain->pipeline, &chain->error)) == HR_PENDING) {
        status = hr_loop_poll(loop, 1000, &chain->error);
        if (status >= 0)
            status = time(NULL) - start < LIMIT_S ? HR_OK : HR_ETIMEDOUT;
    }
    return status;
}

void chain_reset(struct chain *chain)
{
    hr_pipeline_free(chain->pipeline);
    free(chain->out);
    chain->pipeline = NULL;
    chain->out = NULL;
    chain->n_out = chain->cap = 0;
    chain->out_of_order = false;
}

unsigned char *test_bytes(size_t size)
{
    unsigned char *bytes = malloc(size + 1);
    uint64_t state = size;
    must(bytes != NULL, "memory");
    for (size_t i = 0; i < size; i++) { /* Knuth's MMIX constants */
        state = state * 6364136223846793005u + 1442695040888963407u;
        bytes[i] = (unsigned char)(state >> 56);
    }
    return bytes;
}

/* ---- feeding a pipe ---- */

struct feeder {
    const unsigned char *data;
    size_t size;
    size_t piece;
    int ends[2];
    pthread_t thread;
};

/* The reader's end may be closed early: then SIGPIPE, which a test's program does not expect. */
static void *feed(void *argument)
{
    const struct feeder *feeder = argument;
    sigset_t pipe_signal;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_signal, NULL);
    for (size_t at = 0; at < feeder->size;) {
        const size_t left = feeder->size - at;
        const size_t piece = left < feeder->piece ? left : feeder->piece;
        const ssize_t n = write(feeder->ends[1], feeder->data + at, piece);
        if (n < 0 && errno != EINTR)
            break;
        at += n > 0 ? (size_t)n : 0;
    }
    close(feeder->ends[1]);
    return NULL;
}

struct feeder *feeder_start(const void *data, size_t size, size_t piece, int *out)
{
    struct feeder *feeder = calloc(1, sizeof *feeder);
    must(feeder && pipe(feeder->ends) == 0, "pipe");
    feeder->data = data;
    feeder->size = size;
    feeder->piece = piece;
    must(pthread_create(&feeder->thread, NULL, feed, feeder) == 0, "thread");
    *out = feeder->ends[0];
    return feeder;
}

void feeder_join(struct feeder *feeder)
{
    close(feeder->ends[0]);
    pthread_join(feeder->thread, NULL);
    free(feeder);
}

/* ---- loops ---- */
