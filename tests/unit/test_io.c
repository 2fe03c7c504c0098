// SPDX-License-Identifier: Apache-2.0
/* Files and streams through both engines. A signal that the engines must not let through ends the
 * test's process. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "io_rig.h"

/* --- files --- */

BOTH(files_of_every_size_are_written_and_read)
{
    static const size_t sizes[] = {0, 1, PAGE - 1, PAGE, PAGE + 1, 1000003};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const size_t n = sizes[i];
        const int fd = temporary(0);
        unsigned char *p = malloc(n + 1);
        fill(p, n, 7);
        cr_assert_eq(once(rig, HR__IO_WRITE, fd, p, n, 7), (int64_t)n);
        cr_assert_eq(once(rig, HR__IO_FSYNC, fd, NULL, 0, 0), 0);
        memset(p, 0xEE, n + 1);
        cr_assert_eq(once(rig, HR__IO_READ, fd, p, n, 7), (int64_t)n);
        check(p, n, 7);
        cr_assert_eq(p[n], 0xEE);
        free(p);
        close(fd);
    }
}

BOTH(a_read_at_the_end_is_short_and_then_zero)
{
    unsigned char p[3 * PAGE];
    const int fd = temporary(PAGE + 1);
    cr_assert_eq(once(rig, HR__IO_READ, fd, p, sizeof p, 0), PAGE + 1);
    check(p, PAGE + 1, 0);
    cr_assert_eq(once(rig, HR__IO_READ, fd, p, sizeof p, PAGE), 1);
    cr_assert_eq(once(rig, HR__IO_READ, fd, p, sizeof p, PAGE + 1), 0);
    cr_assert_eq(once(rig, HR__IO_READ, fd, p, sizeof p, (uint64_t)5 << 32), 0);
    close(fd);
}

BOTH(a_regular_file_serves_as_a_stream)
{
    unsigned char p[PAGE];
    const int fd = temporary(PAGE + 5);
    lseek(fd, 3, SEEK_SET);
    cr_assert_eq(once(rig, HR__IO_RECV, fd, p, PAGE, 0), PAGE);
    check(p, PAGE, 3);
    cr_assert_eq(once(rig, HR__IO_RECV, fd, p, PAGE, 0), 2);
    cr_assert_eq(once(rig, HR__IO_RECV, fd, p, PAGE, 0), 0);
    cr_assert_eq(once(rig, HR__IO_POLL, fd, NULL, 0, 0), 0);
    cr_assert_eq(once(rig, HR__IO_SEND, fd, p, 10, 0), 10);
    cr_assert_eq(lseek(fd, 0, SEEK_CUR), PAGE + 15);
    close(fd);
}

BOTH(devices_behave)
{
    unsigned char p[PAGE];
    const int null = open("/dev/null", O_RDWR);
    const int zero = open("/dev/zero", O_RDONLY);
    const int full = open("/dev/full", O_WRONLY);
    cr_assert_eq(once(rig, HR__IO_RECV, null, p, PAGE, 0), 0);
    cr_assert_eq(once(rig, HR__IO_SEND, null, p, PAGE, 0), PAGE);
    memset(p, 1, PAGE);
    cr_assert_eq(once(rig, HR__IO_RECV, zero, p, PAGE, 0), PAGE);
    cr_assert_eq(p[PAGE - 1], 0);
    cr_assert_eq(once(rig, HR__IO_SEND, full, p, PAGE, 0), -ENOSPC);
    cr_assert_eq(once(rig, HR__IO_WRITE, full, p, PAGE, 0), -ENOSPC);
    close(null);
    close(zero);
    close(full);
}

BOTH(a_wrong_descriptor_is_the_result)
{
    char p[1];
    static const enum hr__io_op ops[] = {HR__IO_READ, HR__IO_WRITE,    HR__IO_RECV, HR__IO_SEND,
                                         HR__IO_POLL, HR__IO_POLL_OUT, HR__IO_FSYNC};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        cr_assert_eq(once(rig, ops[i], -1, p, 1, 0), -EBADF, "op %zu", i);
    }
}

BOTH_WITH(a_thousand_requests_pass_through_four_entries, 4)
{
    enum { N = 1000, SIZE = 997 };
    const int fd = temporary((size_t)N * SIZE);
    struct hr__io_request *requests = calloc(N, sizeof *requests);
    unsigned char *p = malloc((size_t)N * SIZE);
    for (size_t i = 0; i < N; i++) {
        requests[i] = make(rig, HR__IO_READ, fd, p + i * SIZE, SIZE, i * SIZE);
        rig->io->ops->submit(rig->io, &requests[i]);
    }
    cr_assert_eq(rig->io->in_flight, N);
    rig->io->ops->flush(rig->io);
    wait_done(rig, N);
    for (size_t i = 0; i < N; i++) {
        cr_assert_eq(requests[i].result, SIZE);
    }
    check(p, (size_t)N * SIZE, 0);
    free(p);
    free(requests);
    close(fd);
}

static bool add_region(const struct rig *rig, void *memory, size_t size)
{
    const struct hr__io_ops *ops = rig->io->ops;
    return ops->add_region && ops->add_region(rig->io, 5, memory, size);
}

BOTH(a_registered_region_is_used)
{
    enum { SIZE = 16 * PAGE };
    const int fd = temporary(SIZE);
    unsigned char *memory = aligned_alloc(PAGE, 2 * SIZE);
    cr_assert_eq(rig->io->ops->add_region != NULL, rig->is_uring);
    add_region(rig, memory, 2 * SIZE); /* a limit may refuse it: the rest must hold all the same */
    struct hr__io_request request = make(rig, HR__IO_READ, fd, memory + PAGE, SIZE, 0);
    request.region = 5;
    start(rig, &request);
    cr_assert_eq(finish(rig, &request), SIZE);
    check(memory + PAGE, SIZE, 0);

    add_region(rig, memory, SIZE);
    request = make(rig, HR__IO_WRITE, fd, memory + PAGE, PAGE, SIZE);
    request.region = 5;
    start(rig, &request);
    cr_assert_eq(finish(rig, &request), PAGE);

    cr_assert_not(add_region(rig, memory, (size_t)2 << 30));
    request = make(rig, HR__IO_READ, fd, memory, PAGE, SIZE);
    request.region = 5;
    start(rig, &request);
    cr_assert_eq(finish(rig, &request), PAGE);
    check(memory, PAGE, 0);
    free(memory);
    close(fd);
}

/* --- streams --- */

struct trickle {
    int fd;
    size_t piece;
    size_t total;
};

static void *trickle(void *arg)
{
    const struct trickle *t = arg;
    unsigned char p[PAGE + 1];
    for (size_t at = 0; at < t->total;) {
        const size_t n = t->total - at < t->piece ? t->total - at : t->piece;
        fill(p, n, at);
        for (size_t put = 0; put < n;) {
            const ssize_t w = write(t->fd, p + put, n - put);
            if (w > 0) {
                put += (size_t)w;
            } else {
                struct pollfd ready = {.fd = t->fd, .events = POLLOUT};
                poll(&ready, 1, WAIT_MS);
            }
        }
        at += n;
        if (t->total / t->piece < 300) {
            pause_ms(1);
        }
    }
    close(t->fd);
    return NULL;
}

static void receive_trickle(struct rig *rig, bool is_socket, bool is_nonblock, size_t piece)
{
    int fds[2];
    unsigned char p[3000];
    pthread_t thread;
    open_stream(fds, is_socket, is_nonblock);
    const int flags = fcntl(fds[0], F_GETFL);
    struct trickle t = {.fd = fds[1], .piece = piece, .total = piece < PAGE ? piece * 150 : 400003};
    pthread_create(&thread, NULL, trickle, &t);
    size_t got = 0;
    int64_t n;
    while ((n = once(rig, HR__IO_RECV, fds[0], p, sizeof p, 0)) > 0) {
        check(p, (size_t)n, got);
        got += (size_t)n;
    }
    cr_assert_eq(n, 0, "%lld", (long long)n);
    cr_assert_eq(got, t.total);
    cr_assert_eq(fcntl(fds[0], F_GETFL), flags);
    pthread_join(thread, NULL);
    close(fds[0]);
}

BOTH(a_trickling_stream_arrives_whole)
{
    static const size_t pieces[] = {1, 7, 4097};
    for (unsigned kind = 0; kind < 4; kind++) {
        for (size_t i = 0; i < 3; i++) {
            receive_trickle(rig, kind & 1, kind & 2, pieces[i]);
        }
    }
}

static void *drain(void *arg)
{
    const int fd = *(const int *)arg;
    unsigned char p[1009];
    size_t got = 0;
    for (;;) {
        const ssize_t n = read(fd, p, sizeof p);
        if (n > 0) {
            for (ssize_t i = 0; i < n; i++) {
                if (p[i] != pattern(got + (size_t)i)) {
                    return NULL;
                }
            }
            got += (size_t)n;
        } else if (n < 0 && errno == EAGAIN) {
            struct pollfd ready = {.fd = fd, .events = POLLIN};
            poll(&ready, 1, WAIT_MS);
        } else {
            return (void *)(uintptr_t)got;
        }
    }
}

static void send_all(struct rig *rig, bool is_socket, bool is_nonblock)
{
    enum { TOTAL = 700001 };
    int fds[2];
    pthread_t thread;
    void *got;
    unsigned char *p = malloc(TOTAL);
    fill(p, TOTAL, 0);
    open_stream(fds, is_socket, is_nonblock);
    pthread_create(&thread, NULL, drain, &fds[0]);
    for (size_t at = 0; at < TOTAL;) {
        const int64_t n = once(rig, HR__IO_SEND, fds[1], p + at, TOTAL - at, 0);
        cr_assert_gt(n, 0, "%lld", (long long)n);
        at += (size_t)n;
    }
    close(fds[1]);
    pthread_join(thread, &got);
    cr_assert_eq((uintptr_t)got, TOTAL);
    close(fds[0]);
    free(p);
}

BOTH(a_slow_receiver_gets_everything_in_order)
{
    for (unsigned kind = 0; kind < 4; kind++) {
        send_all(rig, kind & 1, kind & 2);
    }
}

BOTH(one_stream_is_read_written_and_polled_at_once)
{
    int fds[2];
    char in[4];
    char out[] = "out";
    open_stream(fds, true, false);
    int full = 1;
    while (full > 0) { /* so that the SEND waits as well */
        full = (int)send(fds[0], "xxxxxxxx", 8, MSG_DONTWAIT);
    }
    struct hr__io_request requests[] = {
        make(rig, HR__IO_RECV, fds[0], in, sizeof in, 0),
        make(rig, HR__IO_SEND, fds[0], out, 3, 0),
        make(rig, HR__IO_POLL, fds[0], NULL, 0, 0),
    };
    for (int i = 0; i < 3; i++) {
        start(rig, &requests[i]);
    }
    pause_ms(20);
    rig->io->ops->reap(rig->io);
    cr_assert_eq(rig->n_done, 0);
    char p[PAGE];
    while (recv(fds[1], p, sizeof p, MSG_DONTWAIT) > 0) {
    }
    wait_done(rig, 1);
    cr_assert_eq(requests[1].result, 3);
    cr_assert_eq(write(fds[1], "abcdefgh", 8), 8);
    wait_done(rig, 3);
    cr_assert_eq(requests[0].result, 4);
    cr_assert_eq(memcmp(in, "abcd", 4), 0);
    cr_assert_eq(requests[2].result, 0);
    close_stream(fds);
}

BOTH(a_broken_pipe_is_an_error_and_no_signal)
{
    char p[10] = {0};
    for (unsigned kind = 0; kind < 4; kind++) {
        int fds[2];
        open_stream(fds, kind & 1, kind & 2);
        close(fds[0]);
        cr_assert_eq(once(rig, HR__IO_SEND, fds[1], p, sizeof p, 0), -EPIPE);
        cr_assert_eq(once(rig, HR__IO_SEND, fds[1], p, sizeof p, 0), -EPIPE);
        close(fds[1]);
    }
}

BOTH(a_reader_that_leaves_ends_a_waiting_send)
{
    unsigned char *p = calloc(1, 1 << 20);
    for (unsigned kind = 0; kind < 4; kind++) {
        int fds[2];
        open_stream(fds, kind & 1, kind & 2);
        int64_t n = 1;
        for (int i = 0; n > 0 && i < 50; i++) {
            struct hr__io_request request = make(rig, HR__IO_SEND, fds[1], p, 1 << 20, 0);
            start(rig, &request);
            if (i == 2) {
                pause_ms(10);
                close(fds[0]);
            } else if (i < 2) {
                char sink[PAGE];
                ssize_t size = recv(fds[0], sink, sizeof sink, MSG_DONTWAIT);
                (void)size;
                rig->io->ops->cancel(rig->io, &request);
            }
            n = finish(rig, &request);
            if (i < 2 && n == -ECANCELED) {
                n = 1;
            }
        }
        cr_assert_eq(n, -EPIPE, "%lld", (long long)n);
        close(fds[1]);
    }
    free(p);
}

BOTH(a_reset_socket_is_an_error)
{
    int fds[2];
    char p[10] = {0};
    open_stream(fds, true, false);
    struct hr__io_request request = make(rig, HR__IO_RECV, fds[0], p, sizeof p, 0);
    start(rig, &request);
    cr_assert_eq(write(fds[0], "unread", 6), 6); /* unread data make a close a reset, unix(7) */
    close(fds[1]);
    cr_assert_eq(finish(rig, &request), -ECONNRESET);
    close(fds[0]);
}

BOTH(nothing_asked_of_a_silent_stream_is_nothing_at_once)
{
    char p[1];
    for (unsigned kind = 0; kind < 4; kind++) {
        int fds[2];
        open_stream(fds, kind & 1, kind & 2);
        cr_assert_eq(once(rig, HR__IO_RECV, fds[0], p, 0, 0), 0);
        cr_assert_eq(once(rig, HR__IO_SEND, fds[1], p, 0, 0), 0);
        close_stream(fds);
    }
}

/* --- cancel, done(), signals --- */

BOTH(a_waiting_request_can_be_cancelled)
{
    char p[10];
    static const enum hr__io_op ops[] = {HR__IO_RECV, HR__IO_POLL};
    for (unsigned kind = 0; kind < 16; kind++) {
        int fds[2];
        open_stream(fds, kind & 1, kind & 2);
        struct hr__io_request request = make(rig, ops[kind / 4 % 2], fds[0], p, sizeof p, 0);
        rig->io->ops->submit(rig->io, &request);
        if (kind / 8 == 0) {
            rig->io->ops->flush(rig->io);
            pause_ms(5);
        }
        rig->io->ops->reap(rig->io);
        rig->io->ops->cancel(rig->io, &request);
        rig->io->ops->cancel(rig->io, &request);
        cr_assert_eq(finish(rig, &request), -ECANCELED);
        close_stream(fds);
    }
}

BOTH_WITH(cancelling_many_at_any_time_loses_none, 4)
{
    enum { N = 64 };
    struct hr__io_request requests[N];
    char p[N];
    int fds[2];
    const int fd = temporary(N);
    open_stream(fds, false, true);
    for (unsigned round = 1; round <= 50; round++) {
        for (unsigned i = 0; i < N; i++) {
            requests[i] = i % 2 ? make(rig, HR__IO_READ, fd, p + i, 1, i)
                                : make(rig, HR__IO_RECV, fds[0], p + i, 1, 0);
            start(rig, &requests[i]);
        }
        for (unsigned i = 0; i < N; i++) {
            rig->io->ops->cancel(rig->io, &requests[i]);
        }
        wait_done(rig, round * N);
        for (unsigned i = 0; i < N; i++) {
            const int64_t n = requests[i].result;
            cr_assert(n == -ECANCELED || (n == 1 && i % 2), "%u: %lld", i, (long long)n);
        }
    }
    close_stream(fds);
    close(fd);
}

static void again(struct hr__io_request *request)
{
    struct rig *rig = request->owner;
    rig->n_done++;
    request->offset += request->result > 0 ? (uint64_t)request->result : 0;
    if (request->result > 0) {
        rig->io->ops->submit(rig->io, request);
    }
}

BOTH(done_may_submit_again)
{
    unsigned char p[PAGE];
    const int fd = temporary((size_t)100 * PAGE + 1);
    struct hr__io_request request = make(rig, HR__IO_READ, fd, p, PAGE, 0);
    request.done = again;
    start(rig, &request);
    wait_done(rig, 102);
    cr_assert_eq(request.result, 0);
    cr_assert_eq(request.offset, 100 * PAGE + 1);
    close(fd);
}

static void on_signal(int signal)
{
    (void)signal;
}

BOTH_WITH(signals_every_millisecond_change_nothing, 4)
{
    enum { SIZE = 1 << 18, N = 8, ROUNDS = 40 };
    const struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART */
    struct itimerval timer = {.it_interval.tv_usec = 1000, .it_value.tv_usec = 1000};
    struct hr__io_request requests[N];
    const int fd = temporary((size_t)N * SIZE);
    unsigned char *p = malloc((size_t)N * SIZE);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
    for (unsigned round = 1; round <= ROUNDS; round++) {
        memset(p, 0, (size_t)N * SIZE);
        for (size_t i = 0; i < N; i++) {
            requests[i] = make(rig, HR__IO_READ, fd, p + i * SIZE, SIZE, i * SIZE);
            rig->io->ops->submit(rig->io, &requests[i]);
        }
        rig->io->ops->flush(rig->io);
        wait_done(rig, round * N);
        for (size_t i = 0; i < N; i++) {
            cr_assert_eq(requests[i].result, SIZE);
        }
        check(p, (size_t)N * SIZE, 0);
    }
    timer = (struct itimerval){0};
    setitimer(ITIMER_REAL, &timer, NULL);
    free(p);
    close(fd);
}
