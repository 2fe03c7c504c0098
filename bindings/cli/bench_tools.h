// SPDX-License-Identifier: Apache-2.0
/* headrace bench: clocks, threads that share work, and a peer on the loopback. */
#ifndef HR_BENCH_TOOLS_H
#define HR_BENCH_TOOLS_H

#include <pthread.h>

#include "bench.h"

/* error is "WHAT: " and what errno says; false. */
bool bench_told(char *error, const char *what);

/* Of the process, with all its threads. */
double bench_cpu_seconds(void);
double bench_clock_seconds(void);

/* Around what is measured; the second sets the rate, too. */
void sample_begin(struct sample *sample);
void sample_end(struct sample *sample, uint64_t bytes);

/* What one thread does of [begin, end), with a buffer of its own of SLICE_BUFFER bytes, aligned to
 * pages and touched. False with errno set. */
enum { SLICE_BUFFER = 1 << 20 };
typedef bool (*slice_fn)(struct bench *bench, int fd, unsigned char *buffer, uint64_t begin,
                         uint64_t end);

/* Makes what the pool does not have yet; threads 0: one for each CPU. False with the reason in
 * error. */
bool bench_make_pool(struct pool *pool, uint64_t threads, uint64_t max_memory, char *error);
void bench_drop_pool(struct pool *pool);

struct hr_source bench_memory(const void *data, uint64_t size);

/* ---- bench_ceilings_stages.c ---- */

/* Of a chunk on loan; false with the reason in error: it is wrong. */
typedef bool (*bench_look_fn)(void *argument, const struct hr_chunk *chunk, char *error);

/* Creates a pipeline whose sink is HR_PULL, fetches all of it, and frees it. look NULL: nobody looks;
 * sum: of the first kernel, NULL: there is none. False with the reason in error. */
bool bench_pull(hr_loop *loop, const struct hr_pipeline_config *config, bench_look_fn look,
                void *argument, double *sum, char *error);

/* ---- bench_tools.c ---- */

/* Shares way->bytes among way->width threads, which begin at once. what names it in error. */
bool on_threads(struct bench *bench, struct way *way, slice_fn slice, int fd, const char *what,
                struct sample *sample, char *error);

/* A listener on the loopback; negative: errno. */
int listen_on_loopback(uint16_t *port);

/* A thread that takes one connection of the listener and sends size bytes through it. */
struct sender {
    pthread_t thread;
    int listener;
    const unsigned char *data;
    uint64_t size;
};
bool sender_begin(struct sender *sender, const unsigned char *data, uint64_t size, uint16_t *port);
void sender_end(struct sender *sender);

#endif
