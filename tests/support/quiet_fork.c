// SPDX-License-Identifier: Apache-2.0
#include "quiet_fork.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Also of a thread that has ended. */
static bool sleeps(const char *thread)
{
    char path[64];
    char stat[256];
    snprintf(path, sizeof path, "/proc/self/task/%.20s/stat", thread);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? 0 : read(fd, stat, sizeof stat - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return true;
    stat[n] = '\0';
    const char *state = strrchr(stat, ')'); /* proc(5): behind the name, which may have any */
    return state && strncmp(state, ") S", 3) == 0;
}

static bool others_sleep(void)
{
    DIR *threads = opendir("/proc/self/task");
    const struct dirent *entry;
    bool quiet = true;
    while (threads && (entry = readdir(threads))) {
        const long thread = strtol(entry->d_name, NULL, 10);
        if (thread > 0 && thread != syscall(SYS_gettid))
            quiet &= sleeps(entry->d_name);
    }
    if (threads)
        closedir(threads);
    return quiet;
}

/* Twice: one may have woken another before it was looked at. */
pid_t fork_when_quiet(void)
{
    while (!others_sleep() || !others_sleep())
        usleep(1000);
    return fork();
}
