// SPDX-License-Identifier: Apache-2.0
/* Jobs, and the inbox through which finished ones come back to the loop that gave them away. */
#ifndef HR_QUEUE_H
#define HR_QUEUE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct hr__inbox;

/* CPU work for a worker. It is part of its owner's memory; the owner has it back at done(). */
struct hr__job {
    void (*work)(struct hr__job *job); /* on a worker */
    void (*done)(struct hr__job *job); /* on the loop's thread */
    void *owner;
    struct hr__inbox *inbox; /* where it goes after work() */
    bool late;               /* of a late stage: it gives memory back, so it goes before others */
    bool is_call;            /* work() calls the user */
    uint64_t service_ns;     /* CPU time of work(); of a call as hr__stint_ns() tells */
    struct hr__job *next;
};

/* A first-in first-out list of jobs. Not locked. */
struct hr__job_list {
    struct hr__job *head;
    struct hr__job *tail;
};

void hr__job_list_push(struct hr__job_list *list, struct hr__job *job);
struct hr__job *hr__job_list_pop(struct hr__job_list *list); /* NULL if empty */

struct hr__inbox {
    pthread_mutex_t lock;
    struct hr__job_list jobs; /* under lock */
    int event_fd;             /* constant: written when a job arrives */
};

int hr__inbox_init(struct hr__inbox *inbox, int event_fd); /* 0 or an errno */
void hr__inbox_destroy(struct hr__inbox *inbox);
/* Thread: any. */
void hr__inbox_post(struct hr__inbox *inbox, struct hr__job *job);
/* Calls done() of all that has arrived; returns how many. Thread: the loop's. */
unsigned hr__inbox_drain(struct hr__inbox *inbox);

#endif
