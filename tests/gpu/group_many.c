// SPDX-License-Identifier: Apache-2.0
/* Many pipelines at once: on one loop, and on the loops of several threads, in little memory. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chains.h"
#include "trials.h"

enum { CHUNK = 100000, SIZE = 720 * 900, N_AT_ONCE = 20, N_THREADS = 4, MEMORY = 24 << 20 };

static const char *const chains[][MAX_KERNELS + 1] = {
    {NULL},
    {"cast:u8,f32", "bswap:8"},
    {"filter:u8,lt,99", "crc32"},
    {"sum:f32", "shuffle:4,12"},
};
enum { N_CHAINS = sizeof chains / sizeof chains[0] };

struct one {
    struct trial trial;
    struct run run;
    struct trial_outcome out;
    bool is_started;
    bool is_done;
};

static void start_one(struct bed *bed, struct one *one)
{
    run_start(&one->run, bed, &one->trial, bed->device, &one->out);
    if (one->out.status != HR_AGAIN) {
        one->is_started = true;
        return;
    }
    run_finish(&one->run); /* memory is short: later */
    free(one->out.bytes);
}

static void end_one(struct bed *bed, struct one *one, const struct trial_outcome *expected)
{
    if (one->out.status == HR_PENDING)
        one->out.status = hr_pipeline_state(one->run.pipeline, &one->out.error);
    if (one->out.status == HR_PENDING)
        return;
    run_finish(&one->run);
    expect_same(bed, &one->trial, bed->device, expected, &one->out);
    free(one->out.bytes);
    one->is_done = true;
}

static void run_at_once(struct bed *bed, unsigned n, const struct trial_outcome *expected,
                        const unsigned char *bytes)
{
    struct one *all = calloc(n, sizeof *all);
    unsigned n_done = 0;
    hr_error error = {0};
    for (unsigned i = 0; i < n; i++) {
        struct trial *trial = &all[i].trial;
        *trial = (struct trial){.from = i % 3 ? FROM_MEMORY : FROM_CALLBACK,
                                .bytes = bytes,
                                .size = SIZE,
                                .chunk_size = CHUNK,
                                .depth = 1 + i % 5};
        memcpy(trial->kernels, chains[i % N_CHAINS], sizeof trial->kernels);
    }
    while (n_done < n) {
        n_done = 0;
        for (unsigned i = 0; i < n; i++) {
            if (!all[i].is_started)
                start_one(bed, &all[i]);
            if (all[i].is_started && !all[i].is_done)
                end_one(bed, &all[i], &expected[i % N_CHAINS]);
            n_done += all[i].is_done;
        }
        if (n_done < n && hr_loop_poll(bed->loop, 20, &error) < 0)
            break;
    }
    expect(bed, n_done == n, "%u of %u ended: %s", n_done, n, error.text);
    free(all);
}

/* ---- threads ---- */

struct thread {
    pthread_t id;
    struct bed bed;
    const struct trial_outcome *expected;
    const unsigned char *bytes;
};

static void *run_thread(void *argument)
{
    struct thread *thread = argument;
    thread->bed.loop = bed_loop(thread->bed.context);
    run_at_once(&thread->bed, N_AT_ONCE / N_THREADS, thread->expected, thread->bytes);
    hr_loop_free(thread->bed.loop);
    return NULL;
}

static void run_threads(struct bed *bed, const struct trial_outcome *expected,
                        const unsigned char *bytes)
{
    struct thread threads[N_THREADS];
    for (int i = 0; i < N_THREADS; i++) {
        threads[i] = (struct thread){.bed = *bed, .expected = expected, .bytes = bytes};
        threads[i].bed.n_trials = threads[i].bed.n_differ = 0;
        snprintf(threads[i].bed.directory, sizeof threads[i].bed.directory, "/nowhere");
        pthread_create(&threads[i].id, NULL, run_thread, &threads[i]);
    }
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i].id, NULL);
        bed->n_trials += threads[i].bed.n_trials;
        bed->n_differ += threads[i].bed.n_differ;
    }
}

void group_many(struct bed *bed)
{
    const struct hr_context_config config = {.struct_size = sizeof config, .max_memory = MEMORY};
    struct bed small = *bed;
    struct trial_outcome expected[N_CHAINS];
    unsigned char *bytes = test_bytes(SIZE);
    for (int i = 0; i < N_CHAINS; i++) {
        struct trial trial = {.bytes = bytes, .size = SIZE};
        memcpy(trial.kernels, chains[i], sizeof trial.kernels);
        trial_reference(bed, &trial, &expected[i]);
    }
    small.n_trials = small.n_differ = 0;
    run_at_once(bed, 2, expected, bytes);
    hr_error error = {0};
    if (hr_context_create(&config, &small.context, &error) == HR_OK) {
        small.loop = bed_loop(small.context);
        run_at_once(&small, N_AT_ONCE, expected, bytes);
        hr_loop_free(small.loop);
        run_threads(&small, expected, bytes);
        hr_context_free(small.context);
    }
    expect(bed, small.context != NULL, "a context: %s", error.text);
    bed->n_trials += small.n_trials;
    bed->n_differ += small.n_differ;
    for (int i = 0; i < N_CHAINS; i++)
        free(expected[i].bytes);
    free(bytes);
}
