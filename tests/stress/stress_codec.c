// SPDX-License-Identifier: Apache-2.0
/* Several threads, each with its loops, on one context: streams of random zstd frames are decoded,
 * encoded again, or both, in random ways, some damaged, some cancelled. Every output is compared.
 */
#include <headrace.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "codec_trials.h"

enum { N_THREADS = 4, N_ROUNDS = 30, N_TRIALS = 4 };

static hr_context *context;

struct rounds {
    unsigned seed;
    uint32_t io;
    unsigned n_failed;
};

static struct frames random_frames(unsigned *seed)
{
    struct frames f = {0};
    for (int n = 1 + rand_r(seed) % 12; n > 0; n--) {
        const int most = rand_r(seed) % 4 ? 3000 : 100000;
        add_frame(&f, (enum frame_kind)(rand_r(seed) % N_FRAME_KINDS),
                  (size_t)(rand_r(seed) % most));
    }
    return f;
}

static struct trial random_trial(unsigned *seed)
{
    return (struct trial){
        .feed = (enum feed)(rand_r(seed) % N_FEEDS),
        .step = 1000 + (size_t)rand_r(seed) % 60000,
        .chunk_size = 2000 + (uint64_t)rand_r(seed) % 100000,
        .depth = 1 + (uint32_t)rand_r(seed) % 6,
        .decode = HR_CODEC_AUTO,
        .encode = rand_r(seed) % 2 ? HR_CODEC_ZSTD : HR_CODEC_NONE,
        .level = 1,
        .frame_size = 500 + (uint64_t)rand_r(seed) % 50000,
        .cancel_after_us = rand_r(seed) % 3 ? 0 : 1 + (unsigned)rand_r(seed) % 4000,
    };
}

static bool encodes(const struct buffer *packed, const struct buffer *plain)
{
    struct buffer back = {.data = malloc(plain->size + 1)};
    back.size = ZSTD_decompress(back.data, plain->size, packed->data, packed->size);
    const bool same = same_bytes(&back, plain);
    buffer_free(&back);
    return same;
}

/* Whether the transfer ended as it had to. */
static bool is_right(const struct trial *t, const struct frames *f, bool damaged)
{
    if (t->hung)
        return false;
    if (t->status == HR_OK)
        return t->encode ? encodes(&t->got, &f->plain) : same_bytes(&t->got, &f->plain);
    const bool may_fail = (t->cancel_after_us && t->status == HR_ECANCELED) ||
                          (damaged && (t->status == HR_ECORRUPT || t->status == HR_ETRUNCATED));
    return may_fail && (t->encode || begins(&t->got, &f->plain));
}

/* The other threads' transfers end, so memory comes free: creation that is told to try later does. */
static void run_when_there_is_memory(hr_loop *loop, struct trial *t, const struct buffer *packed)
{
    enum { TRIES = 10000, PAUSE_US = 1000 };
    run_trial(loop, t, packed);
    for (int i = 0; i < TRIES && t->status == HR_AGAIN; i++) {
        usleep(PAUSE_US);
        run_trial(loop, t, packed);
    }
}

/* Four bytes before its end a usual frame's checksum begins, which damages nothing else. */
static bool one_trial(hr_loop *loop, unsigned *seed)
{
    struct frames f = random_frames(seed);
    const bool damaged = rand_r(seed) % 4 == 0;
    if (damaged) {
        add_frame(&f, FRAME_USUAL, 5000);
        f.packed.data[f.packed.size - 4] ^= 1;
    }
    struct trial t = random_trial(seed);
    run_when_there_is_memory(loop, &t, &f.packed);
    const bool right = is_right(&t, &f, damaged);
    if (!right)
        printf("%s%s %s\n", t.hung ? "hung: " : "", hr_status_name(t.status), t.error.text);
    buffer_free(&t.got);
    frames_free(&f);
    return right;
}

static void *run_rounds(void *argument)
{
    struct rounds *r = argument;
    for (int i = 0; i < N_ROUNDS; i++) {
        const struct hr_loop_config config = {.struct_size = sizeof config, .io = r->io};
        hr_loop *loop = NULL;
        if (hr_loop_create(context, &config, &loop, NULL) != HR_OK) {
            r->n_failed++;
            continue;
        }
        for (int j = 0; j < N_TRIALS; j++)
            r->n_failed += !one_trial(loop, &r->seed);
        hr_loop_free(loop);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[N_THREADS];
    struct rounds rounds[N_THREADS];
    unsigned n_failed = 0;
    /* little more than four pipelines need at least: leases are often refused */
    const struct hr_context_config config = {
        .struct_size = sizeof config, .n_threads = 3, .max_memory = 8 << 20};
    if (hr_context_create(&config, &context, NULL) != HR_OK)
        return 1;
    for (unsigned i = 0; i < N_THREADS; i++) {
        rounds[i] = (struct rounds){.seed = i + 1, .io = i % 2 ? HR_IO_THREADS : HR_IO_AUTO};
        pthread_create(&threads[i], NULL, run_rounds, &rounds[i]);
    }
    for (unsigned i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
        n_failed += rounds[i].n_failed;
    }
    hr_context_free(context);
    printf("%u of %d transfers failed\n", n_failed, N_THREADS * N_ROUNDS * N_TRIALS);
    return n_failed != 0;
}
