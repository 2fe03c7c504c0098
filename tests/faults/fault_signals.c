// SPDX-License-Identifier: Apache-2.0
/* A signal every millisecond to every thread, with a handler that does nothing and does not restart
 * system calls: no transfer sees it. */
#include <dirent.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engines.h"
#include "transfers.h"

enum { CHUNK = 65536, SIZE = 48 * 1024 * 1024 + 13, MIN_SIGNALS = 20 };

static _Atomic bool stop;
static _Atomic unsigned n_handled;

static void ignore(int number)
{
    (void)number;
    n_handled++;
}

static void signal_all(void)
{
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *entry;
    while (tasks && (entry = readdir(tasks)) != NULL) {
        const int thread = (int)strtol(entry->d_name, NULL, 10);
        if (thread > 0 && thread != (int)syscall(SYS_gettid))
            syscall(SYS_tgkill, getpid(), thread, SIGUSR1);
    }
    if (tasks)
        closedir(tasks);
}

static void *storm(void *unused)
{
    while (!stop) {
        signal_all();
        usleep(1000);
    }
    return unused;
}

static void run_in_storm(const struct shape *shape)
{
    const char *name = transfer_name(shape);
    limit_time(60, name);
    struct transfer t;
    hr_error error = {0};
    pthread_t thread;
    transfer_open(&t, shape);
    stop = false;
    n_handled = 0;
    if (pthread_create(&thread, NULL, storm, NULL) != 0)
        exit(1);
    const hr_status status = transfer_run(&t, &error);
    const enum outcome outcome = transfer_finish(&t);
    stop = true;
    pthread_join(thread, NULL);
    check_that(status == HR_OK && outcome == OUTCOME_WHOLE && n_handled >= MIN_SIGNALS, name,
               "after %u signals: %s", n_handled, error.text);
    transfer_close(&t);
}

int main(void)
{
    static const enum place pairs[][2] = {{PLACE_FILE, PLACE_FILE},
                                          {PLACE_PIPE, PLACE_PIPE},
                                          {PLACE_SOCKET, PLACE_SOCKET},
                                          {PLACE_CALLBACK, PLACE_PIPE}};
    const struct sigaction action = {.sa_handler = ignore};
    uint32_t engines[2];
    const unsigned n_engines = test_engines(engines);
    sigaction(SIGUSR1, &action, NULL);
    for (unsigned e = 0; e < n_engines; e++)
        for (unsigned i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
            const struct shape shape = {.from = pairs[i][0],
                                        .to = pairs[i][1],
                                        .size = SIZE,
                                        .chunk_size = CHUNK,
                                        .depth = 4,
                                        .io = engines[e]};
            run_in_storm(&shape);
        }
    return end_checks();
}
