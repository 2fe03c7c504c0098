// SPDX-License-Identifier: Apache-2.0
/* The engines when the system does not do as it is asked: the io_uring one when the kernel does not
 * take what is submitted, the thread one when reads take long or there are no more threads. This
 * program's own functions stand before the library's. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "io_rig.h"

#if HR_HAVE_URING
#include <liburing.h>

static int fault;          /* what a failing call returns; 0: none fails */
static unsigned fail_each; /* which calls: every n-th */
static unsigned n_calls;

int io_uring_submit(struct io_uring *ring)
{
    if (fault != 0 && ++n_calls % fail_each == 0) {
        return fault;
    }
    return io_uring_submit_and_wait(ring, 0);
}

static void read_with_faults(struct rig *rig)
{
    enum { N = 200, SIZE = 997 };
    static const int faults[] = {-EINTR, -EAGAIN, -EBUSY, 0};
    static struct hr__io_request requests[N];
    const int fd = temporary((size_t)N * SIZE);
    unsigned char *p = malloc((size_t)N * SIZE);
    for (unsigned i = 0; i < 8; i++) {
        fault = faults[i % 4];
        fail_each = 2 + i / 4;
        memset(p, 0, (size_t)N * SIZE);
        for (size_t j = 0; j < N; j++) {
            requests[j] = make(rig, HR__IO_READ, fd, p + j * SIZE, SIZE, j * SIZE);
            rig->io->ops->submit(rig->io, &requests[j]);
        }
        rig->io->ops->flush(rig->io);
        wait_done(rig, (i + 1) * N);
        for (size_t j = 0; j < N; j++) {
            cr_assert_eq(requests[j].result, SIZE);
        }
        check(p, (size_t)N * SIZE, 0);
    }
    cr_assert_gt(n_calls, N / 4, "the engine submits by another call");
    free(p);
    close(fd);
}

Test(io, a_submit_that_is_put_off_loses_nothing, .timeout = 60)
{
    run(read_with_faults, true, 4);
}

/* What the kernel has already still ends by itself; all else ends with the error. */
Test(io, a_submit_that_fails_for_good_ends_every_request, .timeout = 60)
{
    enum { N = 10 };
    struct rig rig;
    struct hr__io_request requests[N];
    char in[4];
    int fds[2];
    set_up(&rig, true, 4);
    open_stream(fds, false, false);
    struct hr__io_request first = make(&rig, HR__IO_RECV, fds[0], in, sizeof in, 0);
    start(&rig, &first);
    fault = -EBADR;
    fail_each = 1;
    for (size_t i = 0; i < N; i++) {
        requests[i] = make(&rig, HR__IO_POLL_OUT, fds[1], NULL, 0, 0);
        start(&rig, &requests[i]);
    }
    wait_done(&rig, N);
    for (size_t i = 0; i < N; i++) {
        cr_assert_eq(requests[i].result, -EBADR);
    }
    cr_assert_eq(once(&rig, HR__IO_POLL, fds[0], NULL, 0, 0), -EBADR, "later on");
    cr_assert_eq(write(fds[1], "abcd", 4), 4);
    cr_assert_eq(finish(&rig, &first), 4);
    cr_assert_eq(rig.io->in_flight, 0);
    rig.io->ops->destroy(rig.io);
    close(rig.event_fd);
    close_stream(fds);
}
#endif

/* ---- threads ---- */

enum { MOST_THREADS = 9 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all_there = PTHREAD_COND_INITIALIZER;
static unsigned n_inside;
static unsigned n_awaited; /* a call returns when so many are under way at once; 0: at once */
static bool no_more_threads;

static void await_others(void)
{
    pthread_mutex_lock(&lock);
    n_inside++;
    pthread_cond_broadcast(&all_there);
    while (n_inside < n_awaited) {
        pthread_cond_wait(&all_there, &lock);
    }
    pthread_mutex_unlock(&lock);
}

ssize_t pread(int fd, void *buffer, size_t size, off_t offset)
{
    await_others();
    return preadv(fd, &(struct iovec){.iov_base = buffer, .iov_len = size}, 1, offset);
}

ssize_t read(int fd, void *buffer, size_t size)
{
    struct stat st;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        await_others();
    }
    return readv(fd, &(struct iovec){.iov_base = buffer, .iov_len = size}, 1);
}

/* As some files and older kernels do: whether the call would wait is not known beforehand. */
ssize_t preadv2(int fd, const struct iovec *vectors, int n, off_t offset, int flags)
{
    (void)fd;
    (void)vectors;
    (void)n;
    (void)offset;
    (void)flags;
    errno = EOPNOTSUPP;
    return -1;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*body)(void *), void *arg)
{
    union {
        void *found;
        int (*function)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    } next = {.found = dlsym(RTLD_NEXT, "pthread_create")};
    return no_more_threads ? EAGAIN : next.function(thread, attr, body, arg);
}

/* RECV of a file goes by the poller, which can only hand it on. */
static void read_with_threads(enum hr__io_op op)
{
    static unsigned char bytes[MOST_THREADS][PAGE];
    struct hr__io_request requests[MOST_THREADS];
    int fds[MOST_THREADS];
    struct rig rig;
    set_up_with(&rig, false, 64, MOST_THREADS);
    no_more_threads = n_awaited == 0;
    for (size_t i = 0; i < MOST_THREADS; i++) {
        fds[i] = temporary(PAGE);
        requests[i] = make(&rig, op, fds[i], bytes[i], PAGE, 0);
        rig.io->ops->submit(rig.io, &requests[i]);
    }
    rig.io->ops->flush(rig.io);
    wait_done(&rig, MOST_THREADS);
    for (size_t i = 0; i < MOST_THREADS; i++) {
        cr_assert_eq(requests[i].result, PAGE);
        check(bytes[i], PAGE, 0);
        close(fds[i]);
    }
    rig.io->ops->destroy(rig.io);
    close(rig.event_fd);
}

Test(io, as_many_reads_run_at_once_as_there_may_be_threads, .timeout = 60)
{
    n_awaited = MOST_THREADS;
    read_with_threads(HR__IO_READ);
    cr_assert_eq(n_inside, MOST_THREADS);
}

Test(io, so_many_too_of_what_the_poller_hands_on, .timeout = 60)
{
    n_awaited = MOST_THREADS;
    read_with_threads(HR__IO_RECV);
    cr_assert_eq(n_inside, MOST_THREADS);
}

Test(io, without_more_threads_those_that_run_read_all, .timeout = 60)
{
    read_with_threads(HR__IO_READ);
}
