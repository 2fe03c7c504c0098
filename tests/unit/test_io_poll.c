// SPDX-License-Identifier: Apache-2.0
/* Waiting for readiness, which takes no data: POLL and POLL_OUT of whatever can be polled. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "io_rig.h"

BOTH(idle_polls_do_not_hold_up_files)
{
    enum { N = 256 };
    static struct hr__io_request polls[N];
    static int pairs[N][2];
    unsigned char p[PAGE];
    const int fd = temporary(PAGE);
    rig->io->ops->destroy(rig->io);
    close(rig->event_fd);
    set_up(rig, rig->is_uring, 512);
    for (int i = 0; i < N; i++) {
        open_stream(pairs[i], true, false);
        polls[i] = make(rig, HR__IO_POLL, pairs[i][0], NULL, 0, 0);
        start(rig, &polls[i]);
    }
    for (int i = 0; i < 100; i++) {
        cr_assert_eq(once(rig, HR__IO_READ, fd, p, PAGE, 0), PAGE);
    }
    for (int i = 0; i < N; i += 2) {
        cr_assert_eq(write(pairs[i][1], "x", 1), 1);
        close(pairs[i + 1][1]);
    }
    wait_done(rig, 100 + N);
    for (int i = 0; i < N; i++) {
        cr_assert_eq(polls[i].result, 0);
        close(pairs[i][0]);
    }
    close(fd);
}

static void expect_waiting(struct rig *rig, unsigned n_done)
{
    pause_ms(10);
    rig->io->ops->reap(rig->io);
    cr_assert_eq(rig->n_done, n_done);
}

static void fill_stream(int fd, bool is_socket)
{
    static const char p[PAGE];
    const int flags = fcntl(fd, F_GETFL);
    fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    for (size_t n = is_socket ? 1 : PAGE; write(fd, p, n) > 0;) {
    }
    fcntl(fd, F_SETFL, flags);
}

static void drain_stream(int fd)
{
    char p[PAGE];
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    while (read(fd, p, sizeof p) > 0) {
    }
}

BOTH(a_full_stream_is_waited_for)
{
    for (unsigned kind = 0; kind < 4; kind++) {
        int fds[2];
        open_stream(fds, kind & 1, kind & 2);
        cr_assert_eq(once(rig, HR__IO_POLL_OUT, fds[1], NULL, 0, 0), 0);
        fill_stream(fds[1], kind & 1);
        struct hr__io_request request = make(rig, HR__IO_POLL_OUT, fds[1], NULL, 0, 0);
        start(rig, &request);
        expect_waiting(rig, 2 * kind + 1);
        drain_stream(fds[0]);
        cr_assert_eq(finish(rig, &request), 0);
        close_stream(fds);
    }
}

BOTH(a_reader_that_leaves_is_readiness)
{
    for (unsigned kind = 0; kind < 4; kind++) {
        int fds[2];
        open_stream(fds, kind & 1, kind & 2);
        fill_stream(fds[1], kind & 1);
        struct hr__io_request request = make(rig, HR__IO_POLL_OUT, fds[1], NULL, 0, 0);
        start(rig, &request);
        close(fds[0]);
        cr_assert_eq(finish(rig, &request), 0);
        close(fds[1]);
    }
}

BOTH(waiting_for_room_can_be_cancelled)
{
    for (unsigned kind = 0; kind < 8; kind++) {
        int fds[2];
        open_stream(fds, kind & 1, kind & 2);
        fill_stream(fds[1], kind & 1);
        struct hr__io_request request = make(rig, HR__IO_POLL_OUT, fds[1], NULL, 0, 0);
        rig->io->ops->submit(rig->io, &request);
        if (kind / 4 == 0) {
            rig->io->ops->flush(rig->io);
            pause_ms(5);
        }
        rig->io->ops->cancel(rig->io, &request);
        cr_assert_eq(finish(rig, &request), -ECANCELED);
        close_stream(fds);
    }
}

/* --- connecting --- */

/* Bound to a free port of the loopback; listening if backlog is not negative. */
static int bind_loopback(int backlog, struct sockaddr_in *address)
{
    socklen_t size = sizeof *address;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *address = (struct sockaddr_in){.sin_family = AF_INET};
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    cr_assert_eq(bind(fd, (struct sockaddr *)address, size), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)address, &size), 0);
    cr_assert(backlog < 0 || listen(fd, backlog) == 0);
    return fd;
}

static int begin_connect(const struct sockaddr_in *address)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int error = connect(fd, (const struct sockaddr *)address, sizeof *address);
    cr_assert(error == 0 || errno == EINPROGRESS);
    return fd;
}

static int connect_error(int fd)
{
    int error = -1;
    socklen_t size = sizeof error;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    return error;
}

/* A queue of length 0 holds one connection; the SYN of another is dropped and sent again. */
BOTH(a_connect_that_takes_time_is_waited_for)
{
    struct sockaddr_in address;
    const int listener = bind_loopback(0, &address);
    const int first = begin_connect(&address);
    cr_assert_eq(once(rig, HR__IO_POLL_OUT, first, NULL, 0, 0), 0);
    const int second = begin_connect(&address);
    struct hr__io_request request = make(rig, HR__IO_POLL_OUT, second, NULL, 0, 0);
    start(rig, &request);
    expect_waiting(rig, 1);
    cr_assert_eq(once(rig, HR__IO_POLL, listener, NULL, 0, 0), 0);
    const int accepted = accept(listener, NULL, NULL);
    cr_assert_eq(finish(rig, &request), 0);
    cr_assert_eq(connect_error(second), 0);
    close(accepted);
    close(second);
    close(first);
    close(listener);
}

BOTH(a_refused_connect_has_ended)
{
    struct sockaddr_in address;
    const int bound = bind_loopback(-1, &address);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int error = connect(fd, (const struct sockaddr *)&address, sizeof address);
    cr_assert(error < 0 && errno == EINPROGRESS, "%d: %s", error, strerror(errno));
    cr_assert_eq(once(rig, HR__IO_POLL_OUT, fd, NULL, 0, 0), 0);
    cr_assert_eq(connect_error(fd), ECONNREFUSED);
    close(fd);
    close(bound);
}

/* --- descriptors of other kinds --- */

BOTH(a_listener_is_waited_for)
{
    struct sockaddr_in address;
    const int listener = bind_loopback(8, &address);
    struct hr__io_request request = make(rig, HR__IO_POLL, listener, NULL, 0, 0);
    start(rig, &request);
    expect_waiting(rig, 0);
    const int fd = begin_connect(&address);
    cr_assert_eq(finish(rig, &request), 0);
    close(fd);
    close(listener);
}

BOTH(a_timer_is_waited_for)
{
    const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    const struct itimerspec soon = {.it_value.tv_nsec = 30000000};
    struct hr__io_request request = make(rig, HR__IO_POLL, timer, NULL, 0, 0);
    start(rig, &request);
    expect_waiting(rig, 0);
    cr_assert_eq(timerfd_settime(timer, 0, &soon, NULL), 0);
    cr_assert_eq(finish(rig, &request), 0);
    uint64_t n;
    cr_assert_eq(read(timer, &n, sizeof n), (ssize_t)sizeof n, "the poll took the expiry");
    close(timer);
}

BOTH(an_eventfd_is_waited_for_in_both_ways)
{
    const int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct hr__io_request request = make(rig, HR__IO_POLL, event, NULL, 0, 0);
    start(rig, &request);
    expect_waiting(rig, 0);
    cr_assert_eq(eventfd_write(event, UINT64_MAX - 1), 0);
    cr_assert_eq(finish(rig, &request), 0);
    request = make(rig, HR__IO_POLL_OUT, event, NULL, 0, 0);
    start(rig, &request);
    expect_waiting(rig, 1);
    eventfd_t n;
    cr_assert_eq(eventfd_read(event, &n), 0);
    cr_assert_eq(finish(rig, &request), 0);
    close(event);
}

BOTH(an_epoll_set_is_waited_for)
{
    const int event = eventfd(0, EFD_CLOEXEC);
    const int set = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event of = {.events = EPOLLIN};
    cr_assert_eq(epoll_ctl(set, EPOLL_CTL_ADD, event, &of), 0);
    struct hr__io_request request = make(rig, HR__IO_POLL, set, NULL, 0, 0);
    start(rig, &request);
    expect_waiting(rig, 0);
    cr_assert_eq(eventfd_write(event, 1), 0);
    cr_assert_eq(finish(rig, &request), 0);
    close(set);
    close(event);
}

BOTH(a_regular_file_is_always_ready)
{
    const int fd = temporary(0);
    cr_assert_eq(once(rig, HR__IO_POLL, fd, NULL, 0, 0), 0);
    cr_assert_eq(once(rig, HR__IO_POLL_OUT, fd, NULL, 0, 0), 0);
    close(fd);
}
