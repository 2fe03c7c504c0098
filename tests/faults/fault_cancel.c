// SPDX-License-Identifier: Apache-2.0
/* Cancelled from another thread at every step; and freed under a source that sends only then. */
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engines.h"
#include "transfers.h"

enum { CHUNK = 8192, MAX_STEPS = 3000, N_LATE = 300, N_BLOCKS = 8 };

struct canceller {
    sem_t now;
    hr_pipeline *pipeline;
};

static void *cancel_when_told(void *argument)
{
    struct canceller *c = argument;
    while (sem_wait(&c->now) != 0)
        ;
    hr_pipeline_cancel(c->pipeline);
    hr_pipeline_cancel(c->pipeline);
    return NULL;
}

/* Steps to the end; the cancel comes after n_steps of them: before the next one if it is waited for,
 * else at any moment of the next ones. *n_made: how many there were. */
static hr_status run_cancelled(struct transfer *t, unsigned n_steps, bool waits, unsigned *n_made,
                               hr_error *error)
{
    struct canceller canceller = {.pipeline = t->pipeline};
    pthread_t thread;
    sem_init(&canceller.now, 0, 0);
    if (pthread_create(&thread, NULL, cancel_when_told, &canceller) != 0)
        exit(1);
    hr_status status = HR_PENDING;
    for (*n_made = 0; status == HR_PENDING; ++*n_made) {
        if (*n_made == n_steps)
            sem_post(&canceller.now);
        if (*n_made == n_steps && waits)
            pthread_join(thread, NULL);
        status = hr_loop_poll(t->loop, 5000, error);
        if (status >= 0)
            status = hr_pipeline_state(t->pipeline, error);
    }
    const bool told = *n_made > n_steps;
    if (!told)
        sem_post(&canceller.now);
    if (!told || !waits)
        pthread_join(thread, NULL);
    sem_destroy(&canceller.now);
    return status;
}

/* NULL, or what is wrong. */
static const char *judge(hr_status status, const struct shape *shape, enum outcome outcome)
{
    if (outcome == OUTCOME_WRONG)
        return "the output is wrong";
    if (status == HR_OK)
        return outcome == OUTCOME_WHOLE ? NULL : "success, but the output is not whole";
    if (status != HR_ECANCELED)
        return "another status than HR_ECANCELED";
    return shape->to == PLACE_FILE && outcome != OUTCOME_ABSENT ? "cancelled, but there is a file"
                                                                : NULL;
}

static hr_status cancel_at(unsigned step, bool waits, const struct shape *shape, unsigned *n_made,
                           const char **wrong)
{
    struct transfer t;
    hr_error error = {0};
    transfer_open(&t, shape);
    hr_status status = transfer_create(&t, &error);
    if (status == HR_OK)
        status = run_cancelled(&t, step, waits, n_made, &error);
    transfer_free(&t);
    *wrong = judge(status, shape, transfer_finish(&t));
    transfer_close(&t);
    return status;
}

/* Who is not waited for may come too late each time; who is waited for comes in time, but where the
 * output is being made whole already. */
static void cancel_at_every_step(const struct shape *shape)
{
    char name[200];
    const char *wrong = NULL;
    unsigned n_cancelled = 0;
    unsigned n_made = 1;
    for (unsigned k = 0; !wrong && k <= n_made && k < MAX_STEPS; k++) {
        snprintf(name, sizeof name, "%s, cancelled at step %u", transfer_name(shape), k);
        limit_time(10, name);
        cancel_at(k, false, shape, &n_made, &wrong);
        if (!wrong)
            n_cancelled += cancel_at(k, true, shape, &n_made, &wrong) == HR_ECANCELED;
    }
    if (!wrong && n_cancelled == 0)
        wrong = "no transfer was cancelled";
    if (!wrong && has_leaked())
        wrong = "memory was lost";
    check_that(!wrong, name, "%s", wrong);
}

static void *filled[N_BLOCKS];

static size_t block_bytes(unsigned i)
{
    return (size_t)CHUNK << i % 6;
}

static void fill_memory(void)
{
    for (unsigned i = 0; i < N_BLOCKS; i++) {
        filled[i] = malloc(block_bytes(i));
        if (!filled[i])
            exit(1);
        memset(filled[i], 0xa5, block_bytes(i));
    }
}

static bool free_filled(void)
{
    bool untouched = true;
    for (unsigned i = 0; i < N_BLOCKS; i++) {
        const unsigned char *bytes = filled[i];
        for (size_t j = 0; j < block_bytes(i); j++)
            untouched = untouched && bytes[j] == 0xa5;
        free(filled[i]);
    }
    return untouched;
}

/* The reads of a silent source are under way when the pipeline is freed, in every second round with
 * its loop; the memory is somebody else's before the source sends. */
static bool send_late(uint32_t io, enum place place, unsigned round)
{
    struct transfer t;
    const struct shape shape = {
        .from = place, .to = PLACE_MEMORY, .size = 0, .chunk_size = CHUNK, .depth = 4, .io = io};
    static unsigned char late[3 * CHUNK];
    unsigned char got[16];
    transfer_open(&t, &shape);
    int ends[2];
    if (pipe(ends) != 0)
        exit(1);
    t.source.fd = ends[0];
    bool right = transfer_create(&t, NULL) == HR_OK;
    for (int i = 0; right && i < 3; i++)
        right = hr_loop_poll(t.loop, (int)(round % 3), NULL) == HR_PENDING;
    usleep((unsigned)rand() % 2000);
    if (right)
        hr_pipeline_cancel(t.pipeline);
    hr_pipeline_free(t.pipeline);
    t.pipeline = NULL;
    if (round % 2)
        transfer_free(&t);
    fill_memory();
    right = right && write(ends[1], late, sizeof late) == (ssize_t)sizeof late &&
            read(ends[0], got, sizeof got) == (ssize_t)sizeof got; /* nothing was taken */
    usleep(200);
    right = free_filled() && right;
    transfer_free(&t);
    close(ends[0]);
    close(ends[1]);
    transfer_finish(&t);
    transfer_close(&t);
    return right;
}

static void free_before_the_source_sends(uint32_t io)
{
    char name[120];
    const struct shape shape = {.from = PLACE_PIPE, .to = PLACE_MEMORY, .io = io};
    snprintf(name, sizeof name, "%s, freed before the source sends", transfer_name(&shape));
    bool right = true;
    unsigned round = 0;
    for (; right && round < N_LATE; round++) {
        limit_time(10, name);
        right = send_late(io, PLACE_PIPE, round);
    }
    check_that(right, name, "in round %u", round);
}

int main(void)
{
    static const enum place pairs[][2] = {{PLACE_FILE, PLACE_FILE},
                                          {PLACE_PIPE, PLACE_PIPE},
                                          {PLACE_SOCKET, PLACE_SOCKET},
                                          {PLACE_MEMORY, PLACE_MEMORY},
                                          {PLACE_CALLBACK, PLACE_CALLBACK}};
    uint32_t engines[2];
    const unsigned n_engines = test_engines(engines);
    for (unsigned e = 0; e < n_engines; e++) {
        for (unsigned i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
            const struct shape shape = {.from = pairs[i][0],
                                        .to = pairs[i][1],
                                        .size = 12 * CHUNK + 7,
                                        .chunk_size = CHUNK,
                                        .depth = 3,
                                        .io = engines[e]};
            cancel_at_every_step(&shape);
        }
        const struct shape synced = {.from = PLACE_FILE, /* its end takes long */
                                     .to = PLACE_FILE,
                                     .size = 12 * CHUNK + 7,
                                     .chunk_size = CHUNK,
                                     .depth = 3,
                                     .io = engines[e],
                                     .sink_flags = HR_FSYNC};
        cancel_at_every_step(&synced);
        free_before_the_source_sends(engines[e]);
    }
    return end_checks();
}
