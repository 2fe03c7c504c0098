// SPDX-License-Identifier: Apache-2.0
/* The one way to wake a sleeper: its eventfd. Any thread; safe in a signal handler. */
#ifndef HR_WAKE_H
#define HR_WAKE_H

#include <errno.h>
#include <sys/eventfd.h>

/* A wake-up that is lost is a transfer that hangs, so an interrupted one is made again. EAGAIN
 * means that the counter is full (eventfd(2)): the sleeper wakes all the same. errno is left as
 * found. */
static inline void hr__wake(int event_fd)
{
    const int before = errno;
    while (eventfd_write(event_fd, 1) != 0 && errno == EINTR)
        ;
    errno = before;
}

#endif
