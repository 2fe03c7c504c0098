// SPDX-License-Identifier: Apache-2.0
#include "bench_turns.h"

#include <errno.h>
#include <sys/socket.h>

#include "bench_tools.h"
#include "cli.h"

static const double slice_s = 2;

static struct {
    int fd; /* -1: alone */
    double waited_s;
    double until_s; /* of this turn */
} turns = {.fd = -1};

static void wait_for_turn(void)
{
    const double begin_s = bench_clock_seconds();
    char byte;
    ssize_t n;
    do
        n = recv(turns.fd, &byte, 1, 0);
    while (n < 0 && errno == EINTR && !interrupted());
    if (n != 1)
        turns.fd = -1;
    const double now_s = bench_clock_seconds();
    turns.waited_s += now_s - begin_s;
    turns.until_s = now_s + slice_s;
}

void bench_turns_begin(int fd)
{
    turns.fd = fd;
    if (fd >= 0)
        wait_for_turn();
}

void bench_turns_change(void)
{
    if (turns.fd < 0 || bench_clock_seconds() < turns.until_s)
        return;
    if (send(turns.fd, "t", 1, MSG_NOSIGNAL) == 1)
        wait_for_turn();
    else
        turns.fd = -1;
}

double bench_turns_clock(void)
{
    return bench_clock_seconds() - turns.waited_s;
}
