// SPDX-License-Identifier: Apache-2.0
/* FIFOs, opened without waiting for the other end: a wait in open(2) would hold up the loop, and
 * neither a cancel nor a signal would end it.
 *
 * To read, that is simple: the descriptor is there at once, and poll(2) says nothing of it before
 * the first writer came, not even a hang-up (Linux, fs/pipe.c: pipe_poll compares the count of
 * writers with that of fifo_open). Whoever reads only what is readable waits for that writer.
 *
 * To write there is no descriptor before somebody reads, and Linux tells nobody that a reader waits
 * in open(2): it is no event of inotify's, and a descriptor of both ends, which opens at once, would
 * be a reader itself, for us and for other writers. So it is tried again by a timer. */
#ifndef HR_FIFO_IO_H
#define HR_FIFO_IO_H

#include <stdbool.h>

bool hr__is_fifo(const char *path);

/* In blocking mode. -1: errno says why; ENXIO: nobody reads it yet. Blocks: never. */
int hr__fifo_open_to_read(const char *path);
int hr__fifo_open_to_write(const char *path);

/* A descriptor that is readable when it is time to try again; -1: errno. */
int hr__fifo_timer_open(void);
/* Until then it is not readable. */
void hr__fifo_timer_wait(int timer);

#endif
