// SPDX-License-Identifier: Apache-2.0
/* An end for checks that have none. A driver that hangs cannot be cancelled, and one that crashes
 * takes the process with it: the report is closed, and the process ends.
 *
 * What is to be said is made when a check begins, so that a signal handler has only to write it. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "selftest.h"

enum { WORDS_BYTES = 512 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of deadline_ns */
static uint64_t deadline_ns;                             /* 0: no check runs */
static uint64_t limit_ns;
static char before[WORDS_BYTES]; /* written while no check runs */
static char behind[WORDS_BYTES];
static char too_long[WORDS_BYTES];
static atomic_bool is_checking; /* publishes the words to the handler and the watcher */
static atomic_flag is_said = ATOMIC_FLAG_INIT;

static void put(const char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        const ssize_t n = write(STDOUT_FILENO, text, left);
        if (n < 0 && errno != EINTR)
            return;
        if (n > 0) {
            text += n;
            left -= (size_t)n;
        }
    }
}

/* Once, whoever is first: only calls that are safe in signal handlers. */
static void end_with(const char *why)
{
    if (atomic_flag_test_and_set(&is_said))
        return;
    if (atomic_load(&is_checking)) {
        put(before);
        put(why);
        put(behind);
    }
    _exit(EXIT_TRANSFER);
}

static void on_crash(int number)
{
    end_with(number == SIGABRT  ? "the process was aborted (SIGABRT) and ends here"
             : number == SIGBUS ? "the process crashed (SIGBUS) and ends here"
                                : "the process crashed (SIGSEGV) and ends here");
}

static void *watch(void *unused)
{
    const struct timespec pause = {.tv_nsec = 100000000}; /* a tenth of a second */
    (void)unused;
    for (;;) {
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&lock);
        if (deadline_ns && now_ns() > deadline_ns)
            end_with(too_long);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

bool watch_begin(uint32_t limit_s)
{
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGABRT};
    const struct sigaction action = {.sa_handler = on_crash};
    pthread_t thread;
    snprintf(too_long, sizeof too_long,
             "no end after %u s; a driver that hangs cannot be cancelled: the process ends here",
             limit_s);
    limit_ns = (uint64_t)limit_s * 1000000000u;
    for (size_t i = 0; i < sizeof crashes / sizeof crashes[0]; i++)
        sigaction(crashes[i], &action, NULL);
    return pthread_create(&thread, NULL, watch, NULL) == 0 && pthread_detach(thread) == 0;
}

void watch_check(const struct selftest *t)
{
    tell_last_words(t, before, behind, sizeof before);
    atomic_store(&is_checking, true);
    pthread_mutex_lock(&lock);
    deadline_ns = now_ns() + limit_ns;
    pthread_mutex_unlock(&lock);
}

void watch_no_check(void)
{
    pthread_mutex_lock(&lock);
    deadline_ns = 0;
    pthread_mutex_unlock(&lock);
    atomic_store(&is_checking, false);
}
