// SPDX-License-Identifier: Apache-2.0
#include "fifo_io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { RETRY_NS = 10 * 1000 * 1000 }; /* a person or a shell does not see it, nor does a CPU */

bool hr__is_fifo(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISFIFO(st.st_mode);
}

/* No other kind of file is taken that has got the name meanwhile. */
static int open_fifo(const char *path, int access)
{
    struct stat st;
    const int fd = open(path, access | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) != 0 || !S_ISFIFO(st.st_mode)) {
        close(fd);
        errno = ESTALE;
        return -1;
    }
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    return fd;
}

int hr__fifo_open_to_read(const char *path)
{
    return open_fifo(path, O_RDONLY);
}

int hr__fifo_open_to_write(const char *path)
{
    return open_fifo(path, O_WRONLY);
}

int hr__fifo_timer_open(void)
{
    const struct itimerspec every = {.it_value.tv_nsec = RETRY_NS, .it_interval.tv_nsec = RETRY_NS};
    const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (timer >= 0)
        timerfd_settime(timer, 0, &every, NULL);
    return timer;
}

void hr__fifo_timer_wait(int timer)
{
    uint64_t n_times;
    while (read(timer, &n_times, sizeof n_times) < 0 && errno == EINTR)
        ;
}
