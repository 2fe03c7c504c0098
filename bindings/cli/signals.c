// SPDX-License-Identifier: Apache-2.0
/* SIGINT and SIGTERM: the first asks for an end in order, a later one ends the command at once.
 * timeout(1) sends its signal to its child and to the group, so twice: what comes right after the
 * first is the same request. */
#include <signal.h>
#include <time.h>

#include "cli.h"

static const int64_t same_request_ns = 250000000;

static void (*call_once)(void);
static volatile sig_atomic_t caught;
static struct timespec caught_at;

static int64_t ns_since(const struct timespec *then)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)(now.tv_sec - then->tv_sec) * 1000000000 + (now.tv_nsec - then->tv_nsec);
}

static void on_signal(int signal_number)
{
    if (!caught) {
        clock_gettime(CLOCK_MONOTONIC, &caught_at);
        caught = 1;
        if (call_once)
            call_once();
    } else if (ns_since(&caught_at) >= same_request_ns) {
        signal(signal_number, SIG_DFL);
        raise(signal_number); /* delivered when this returns */
    }
}

bool interrupted(void)
{
    return caught;
}

void catch_interrupts(void (*once)(void))
{
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGINT); /* one at a time */
    sigaddset(&action.sa_mask, SIGTERM);
    call_once = once;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}
