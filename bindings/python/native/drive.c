// SPDX-License-Identifier: Apache-2.0
/* Drives a loop from event to event. Where nothing comes for long the interpreter waits itself, as
 * it handles signals and we do not. */
#include <poll.h>
#include <stdbool.h>
#include <time.h>

#include "headrace_python.h"

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * (int64_t)1000 + now.tv_nsec / 1000000;
}

/* Whether something came. */
static bool wait_for(const hr_loop *loop, int moment_ms)
{
    struct pollfd event = {.fd = hr_loop_fd(loop), .events = POLLIN};
    return poll(&event, 1, moment_ms) > 0;
}

hr_status hrp_loop_work(hr_loop *loop, int moment_ms, int at_most_ms, hr_error *error)
{
    const int64_t end_ms = now_ms() + at_most_ms;
    hr_status status = hr_loop_step(loop, error);
    while (status == HR_PENDING) {
        if (hr_loop_arm(loop) == HR_OK && !wait_for(loop, moment_ms))
            break;
        if (now_ms() >= end_ms)
            break;
        status = hr_loop_step(loop, error);
    }
    return status;
}
