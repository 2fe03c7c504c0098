// SPDX-License-Identifier: Apache-2.0
/* Lists of jobs. A lock is held for two pointer writes only: never across work, a callback or a
 * system call. */
#include "queue.h"

#include <stdbool.h>
#include <stddef.h>

#include "wake.h"

void hr__job_list_push(struct hr__job_list *list, struct hr__job *job)
{
    job->next = NULL;
    if (list->tail)
        list->tail->next = job;
    else
        list->head = job;
    list->tail = job;
}

struct hr__job *hr__job_list_pop(struct hr__job_list *list)
{
    struct hr__job *job = list->head;
    if (!job)
        return NULL;
    list->head = job->next;
    if (!list->head)
        list->tail = NULL;
    return job;
}

int hr__inbox_init(struct hr__inbox *inbox, int event_fd)
{
    *inbox = (struct hr__inbox){.event_fd = event_fd};
    return pthread_mutex_init(&inbox->lock, NULL);
}

void hr__inbox_destroy(struct hr__inbox *inbox)
{
    pthread_mutex_destroy(&inbox->lock);
}

/* Only the first of the waiting jobs wakes the loop: it takes all that are there. The write stands
 * under the lock by intent, the one exception to the rule above: once the job can be taken, the
 * loop may end the last transfer and close the descriptor. */
void hr__inbox_post(struct hr__inbox *inbox, struct hr__job *job)
{
    pthread_mutex_lock(&inbox->lock);
    const bool first = !inbox->jobs.head;
    hr__job_list_push(&inbox->jobs, job);
    if (first)
        hr__wake(inbox->event_fd);
    pthread_mutex_unlock(&inbox->lock);
}

unsigned hr__inbox_drain(struct hr__inbox *inbox)
{
    pthread_mutex_lock(&inbox->lock);
    struct hr__job_list arrived = inbox->jobs;
    inbox->jobs = (struct hr__job_list){0};
    pthread_mutex_unlock(&inbox->lock);

    unsigned n = 0;
    for (struct hr__job *job; (job = hr__job_list_pop(&arrived)); n++)
        job->done(job);
    return n;
}
