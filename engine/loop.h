// SPDX-License-Identifier: Apache-2.0
/* A loop: the thread's I/O engine, its inbox, and the pipelines that it advances. */
#ifndef HR_LOOP_H
#define HR_LOOP_H

#include <stdbool.h>
#include <sys/types.h>

#include "context.h"
#include "headrace.h"
#include "io.h"
#include "queue.h"

struct hr_loop {
    /* constant after create, but where another thread takes over */
    hr_context *context;
    struct hr_loop_config config;
    struct hr__io *io;
    struct hr__inbox inbox;
    int event_fd; /* written by completions, finished jobs, devices, cancels */
    int timer_fd; /* the earliest time limit of the pipelines */
    int wait_fd;  /* an epoll of both: what the loop, or its user, sleeps on */
    pid_t pid;
    char why_threads[HR_ERROR_TEXT]; /* why io_uring does not serve it; "" if it does */

    /* owner thread */
    bool owned;
    pthread_t owner;
    uint64_t timer_ns;      /* what timer_fd is set to; 0: nothing */
    uint64_t left_ns;       /* the end of the last step; 0: none was */
    bool armed;             /* nothing was done by then, and its end is waited for */
    uint64_t done_ns;       /* while a step looks: when what it finds was done; 0: now */
    hr_pipeline *pipelines; /* a list, by hr_pipeline.next */
    uint64_t generations[HR__MAX_INDEX]; /* of the region that each index was last offered for */
    bool registered[HR__MAX_INDEX];      /* whether the I/O engine took it */
    bool told_unregistered;              /* the log has the line */
};

void hr__loop_add(hr_loop *loop, hr_pipeline *pipeline);
void hr__loop_remove(hr_loop *loop, hr_pipeline *pipeline);

/* The index under which the I/O engine knows the region, offered to it at first use; -1: unknown.
 */
int hr__loop_region(hr_loop *loop, const struct hr__region *region);

/* When what a step finds done was done. In between steps nobody looks, so it counts as done when the
 * last one ended: a user who works on a chunk of the pull form does not lengthen the reads behind
 * it. But who steps all the time, arms the loop, or sleeps in it, looks as soon as it is. */
uint64_t hr__loop_done_ns(const hr_loop *loop, uint64_t now_ns);

/* Until when what is under way is known to be. */
uint64_t hr__loop_seen_ns(const hr_loop *loop, uint64_t now_ns);

#endif
