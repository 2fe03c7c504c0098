// SPDX-License-Identifier: Apache-2.0
/* A plain thread pool: two lists, one lock, one condition. */
#include "pool.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include "clock.h"

struct hr__pool {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct hr__job_list late; /* under lock: taken first */
    struct hr__job_list jobs; /* under lock */
    bool closing;             /* under lock */
    unsigned n_threads;       /* constant after create */
    pthread_t threads[];
};

static void run(struct hr__job *job)
{
    if (job->is_call) {
        const struct hr__stint stint = hr__stint_begin();
        job->work(job);
        job->service_ns = hr__stint_ns(&stint);
    } else {
        const uint64_t start_ns = hr__thread_cpu_ns();
        job->work(job);
        job->service_ns = hr__thread_cpu_ns() - start_ns;
    }
}

static void *worker(void *arg)
{
    struct hr__pool *pool = arg;
    for (;;) {
        pthread_mutex_lock(&pool->lock);
        while (!pool->late.head && !pool->jobs.head && !pool->closing)
            pthread_cond_wait(&pool->wake, &pool->lock);
        struct hr__job *job = hr__job_list_pop(pool->late.head ? &pool->late : &pool->jobs);
        pthread_mutex_unlock(&pool->lock);
        if (!job)
            return NULL;
        run(job);
        hr__inbox_post(job->inbox, job);
    }
}

/* Workers take no signals: handlers run on the user's threads. */
static int start_threads(struct hr__pool *pool, unsigned n_threads)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = 0;
    while (rc == 0 && pool->n_threads < n_threads) {
        rc = pthread_create(&pool->threads[pool->n_threads], NULL, worker, pool);
        if (rc == 0)
            pool->n_threads++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

int hr__pool_create(unsigned n_threads, struct hr__pool **out)
{
    struct hr__pool *pool = calloc(1, sizeof *pool + n_threads * sizeof pool->threads[0]);
    if (!pool)
        return ENOMEM;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    const int rc = start_threads(pool, n_threads);
    if (rc) {
        hr__pool_free(pool);
        return rc;
    }
    *out = pool;
    return 0;
}

void hr__pool_free(struct hr__pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->closing = true;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < pool->n_threads; i++)
        pthread_join(pool->threads[i], NULL);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

void hr__pool_submit(struct hr__pool *pool, struct hr__job *job)
{
    pthread_mutex_lock(&pool->lock);
    hr__job_list_push(job->late ? &pool->late : &pool->jobs, job);
    pthread_cond_signal(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
}

unsigned hr__pool_size(const struct hr__pool *pool)
{
    return pool->n_threads;
}
