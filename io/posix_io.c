// SPDX-License-Identifier: Apache-2.0
/* The thread engine, for systems that refuse io_uring.
 *
 *     submit ─▶ taken ─ flush ─▶ jobs ──▶ workers: pread, pwrite, fsync ─────────▶ finished ─ reap
 *                             ─▶ inbox ─▶ poller: epoll, then a call that cannot wait ──▲
 *                                           └─ what epoll refuses (regular files) ─▶ jobs
 *
 * Whoever holds a request is named by its state, under the lock; no system call is made under it.
 * All signals are blocked in these threads, so that a broken pipe's SIGPIPE, which is sent to the
 * thread that writes, stays pending there and the call returns EPIPE. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "io.h"
#include "io_list.h"
#include "status.h"
#include "wake.h"

enum state {
    TAKEN,     /* in the loop's list, not yet flushed */
    IN_INBOX,  /* for the poller */
    WATCHED,   /* the poller's */
    UNWATCHED, /* the poller's, in the list of cancels */
    QUEUED,    /* for the workers */
    RUNNING,   /* a worker's */
    FINISHED,
};

enum { MAX_EVENTS = 64 };
enum { STACK_BYTES = 256 * 1024 };
enum { AT_FIRST = 4 };   /* workers; more as there is more to do than they take */
enum { RETRY_MS = 100 }; /* how soon a worker that waits for readiness sees a cancel */

struct posix_io {
    struct hr__io base;
    /* constant after create */
    int event_fd;
    int epoll_fd;
    int wake_fd; /* in the epoll set, with no data, never read: each write is one event */
    pthread_t poller;
    /* the loop's thread */
    struct hr__list taken;
    unsigned n_threads; /* workers, at most */
    unsigned n_started;
    /* under the lock */
    pthread_mutex_t lock;
    pthread_cond_t work; /* jobs or stop */
    struct hr__list inbox;
    struct hr__list cancels;
    struct hr__list jobs;
    unsigned n_jobs;
    unsigned n_idle; /* workers that have none */
    struct hr__list finished;
    bool stop;
    pthread_t workers[];
};

/* --- both kinds of thread --- */

/* Whether it waits for room; else it waits for data. */
static bool is_out(const struct hr__io_request *request)
{
    return request->op == HR__IO_WRITE || request->op == HR__IO_SEND ||
           request->op == HR__IO_POLL_OUT;
}

static bool is_poll(const struct hr__io_request *request)
{
    return request->op == HR__IO_POLL || request->op == HR__IO_POLL_OUT;
}

static size_t call_size(const struct hr__io_request *request)
{
    return request->size < HR__IO_MAX_BYTES ? request->size : HR__IO_MAX_BYTES;
}

static void finish(struct posix_io *self, struct hr__io_request *request, int64_t result)
{
    pthread_mutex_lock(&self->lock);
    if (request->state == UNWATCHED) {
        hr__list_remove(&self->cancels, request);
    }
    request->state = FINISHED;
    request->result = result;
    const bool first = self->finished.head == NULL; /* else the loop is awake, or about to be */
    hr__list_push(&self->finished, request);
    pthread_mutex_unlock(&self->lock);
    if (first) {
        hr__wake(self->event_fd);
    }
}

static bool is_cancelled(struct posix_io *self, const struct hr__io_request *request)
{
    pthread_mutex_lock(&self->lock);
    const bool cancelled = request->cancelled;
    pthread_mutex_unlock(&self->lock);
    return cancelled;
}

/* --- workers --- */

/* Under the lock. */
static void queue_job(struct posix_io *self, struct hr__io_request *request)
{
    request->state = QUEUED;
    hr__list_push(&self->jobs, request);
    self->n_jobs++;
}

static int64_t call_once(const struct hr__io_request *request)
{
    int64_t n = 0;
    switch (request->op) {
    case HR__IO_READ:
        n = pread(request->fd, request->buffer, call_size(request), (off_t)request->offset);
        break;
    case HR__IO_WRITE:
        n = pwrite(request->fd, request->buffer, call_size(request), (off_t)request->offset);
        break;
    case HR__IO_RECV:
        n = read(request->fd, request->buffer, call_size(request));
        break;
    case HR__IO_SEND:
        n = write(request->fd, request->buffer, call_size(request));
        break;
    case HR__IO_FSYNC:
        n = fsync(request->fd);
        break;
    case HR__IO_POLL: /* what epoll refuses is always ready */
    case HR__IO_POLL_OUT:
        break;
    }
    return n < 0 ? -errno : n;
}

static int64_t call_until_done(struct posix_io *self, const struct hr__io_request *request)
{
    for (;;) {
        const int64_t n = call_once(request);
        if (n != -EINTR && n != -EAGAIN) {
            return n;
        }
        if (is_cancelled(self, request)) {
            return -ECANCELED;
        }
        if (n == -EAGAIN) {
            struct pollfd p = {.fd = request->fd, .events = is_out(request) ? POLLOUT : POLLIN};
            poll(&p, 1, RETRY_MS);
        }
    }
}

static void *work(void *arg)
{
    struct posix_io *self = arg;
    for (;;) {
        pthread_mutex_lock(&self->lock);
        self->n_idle++;
        while (self->jobs.head == NULL && !self->stop) {
            pthread_cond_wait(&self->work, &self->lock);
        }
        self->n_idle--;
        struct hr__io_request *request = hr__list_pop(&self->jobs);
        if (request != NULL) {
            request->state = RUNNING;
            self->n_jobs--;
        }
        pthread_mutex_unlock(&self->lock);
        if (request == NULL) {
            return NULL;
        }
        finish(self, request, call_until_done(self, request));
    }
}

/* --- their start --- */

/* Returns 0 or an errno. */
static int start_thread(pthread_t *thread, void *(*body)(void *), struct posix_io *self)
{
    sigset_t all;
    sigset_t old;
    pthread_attr_t attr;
    int error = pthread_attr_init(&attr);
    if (error != 0) {
        return error;
    }
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* inherited */
    error = pthread_create(thread, &attr, body, self);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    return error;
}

static int start_worker(struct posix_io *self)
{
    const int error = start_thread(&self->workers[self->n_started], work, self);
    self->n_started += error == 0;
    return error;
}

/* Where the system has no more threads, those that run do it all. */
static void start_more(struct posix_io *self, unsigned n)
{
    for (; n > 0 && self->n_started < self->n_threads; n--) {
        if (start_worker(self) != 0) {
            self->n_threads = self->n_started;
        }
    }
}

/* --- the poller --- */

/* One call that cannot wait, for anything but a socket. Where the kernel cannot promise that
 * (EOPNOTSUPP: terminals, FIFOs of older kernels), it is made only after epoll said ready, and a
 * write then has no more bytes than a ready pipe has room for (pipe(7), PIPE_BUF). */
static ssize_t move_nowait(const struct hr__io_request *request, bool ready)
{
    const bool out = is_out(request);
    const struct iovec vector = {.iov_base = request->buffer, .iov_len = call_size(request)};
    ssize_t n = out ? pwritev2(request->fd, &vector, 1, -1, RWF_NOWAIT)
                    : preadv2(request->fd, &vector, 1, -1, RWF_NOWAIT);
    if (n >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS)) {
        return n;
    }
    if (!ready) {
        errno = EAGAIN;
        return -1;
    }
    if (out) {
        return write(request->fd, vector.iov_base,
                     vector.iov_len < PIPE_BUF ? vector.iov_len : PIPE_BUF);
    }
    return read(request->fd, vector.iov_base, vector.iov_len);
}

static ssize_t move_socket(const struct hr__io_request *request)
{
    const size_t size = call_size(request);
    return is_out(request) ? send(request->fd, request->buffer, size, MSG_DONTWAIT | MSG_NOSIGNAL)
                           : recv(request->fd, request->buffer, size, MSG_DONTWAIT);
}

/* -EAGAIN: not now. */
static int64_t attempt(const struct hr__io_request *request, bool ready)
{
    if (is_poll(request)) {
        return ready ? 0 : -EAGAIN;
    }
    /* recv waits for data even if it is asked for none, read does not */
    const bool by_recv = (request->flags & HR__IO_SOCKET) && (is_out(request) || request->size > 0);
    ssize_t n;
    do {
        n = by_recv ? move_socket(request) : move_nowait(request, ready);
    } while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

/* Adds the descriptor to the set, under a second name where it is there already: one stream may be
 * read, written and polled at once. Returns 0 or -errno. */
static int watch(const struct posix_io *self, struct hr__io_request *request)
{
    struct epoll_event event = {
        .events = (is_out(request) ? EPOLLOUT : EPOLLIN) | (uint32_t)EPOLLONESHOT,
        .data.ptr = request,
    };
    request->watched = request->fd;
    if (epoll_ctl(self->epoll_fd, EPOLL_CTL_ADD, request->fd, &event) == 0) {
        return 0;
    }
    if (errno != EEXIST) {
        return -errno;
    }
    const int twin = fcntl(request->fd, F_DUPFD_CLOEXEC, 0);
    if (twin < 0) {
        return -errno;
    }
    if (epoll_ctl(self->epoll_fd, EPOLL_CTL_ADD, twin, &event) != 0) {
        const int error = errno;
        close(twin);
        return -error;
    }
    request->watched = twin;
    return 0;
}

static void unwatch(const struct posix_io *self, const struct hr__io_request *request)
{
    epoll_ctl(self->epoll_fd, EPOLL_CTL_DEL, request->watched, NULL);
    if (request->watched != request->fd) {
        close(request->watched);
    }
}

/* The loop's thread starts workers, so it is told where there are too few. */
static void hand_to_workers(struct posix_io *self, struct hr__io_request *request)
{
    pthread_mutex_lock(&self->lock);
    if (request->state == UNWATCHED) {
        hr__list_remove(&self->cancels, request);
    }
    queue_job(self, request);
    const bool is_short = self->n_jobs > self->n_idle;
    pthread_mutex_unlock(&self->lock);
    pthread_cond_signal(&self->work);
    if (is_short) {
        hr__wake(self->event_fd);
    }
}

static void begin(struct posix_io *self, struct hr__io_request *request)
{
    const int64_t result = attempt(request, false);
    if (result != -EAGAIN) {
        finish(self, request, result);
        return;
    }
    const int error = watch(self, request);
    if (error == -EPERM) { /* epoll_ctl(2): a regular file or directory */
        hand_to_workers(self, request);
    } else if (error != 0) {
        finish(self, request, error);
    }
}

static void go_on(struct posix_io *self, struct hr__io_request *request)
{
    const int64_t result = attempt(request, true);
    if (result != -EAGAIN) {
        unwatch(self, request);
        finish(self, request, result);
        return;
    }
    struct epoll_event event = {
        .events = (is_out(request) ? EPOLLOUT : EPOLLIN) | (uint32_t)EPOLLONESHOT,
        .data.ptr = request,
    };
    if (epoll_ctl(self->epoll_fd, EPOLL_CTL_MOD, request->watched, &event) != 0) {
        const int error = errno;
        unwatch(self, request);
        finish(self, request, -error);
    }
}

/* The next request of a list that the loop's thread fills, now the poller's. */
static struct hr__io_request *next_of(struct posix_io *self, struct hr__list *list)
{
    pthread_mutex_lock(&self->lock);
    struct hr__io_request *request = hr__list_pop(list);
    if (request != NULL) {
        request->state = WATCHED;
    }
    pthread_mutex_unlock(&self->lock);
    return request;
}

static bool is_stopping(struct posix_io *self)
{
    pthread_mutex_lock(&self->lock);
    const bool stop = self->stop;
    pthread_mutex_unlock(&self->lock);
    return stop;
}

static void *poll_loop(void *arg)
{
    struct posix_io *self = arg;
    struct epoll_event events[MAX_EVENTS];
    while (!is_stopping(self)) {
        struct hr__io_request *request;
        /* No event of an earlier wait is left here, so a cancelled request has none to come. */
        while ((request = next_of(self, &self->cancels)) != NULL) {
            unwatch(self, request);
            finish(self, request, -ECANCELED);
        }
        while ((request = next_of(self, &self->inbox)) != NULL) {
            begin(self, request);
        }
        const int n = epoll_wait(self->epoll_fd, events, MAX_EVENTS, -1);
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr != NULL) {
                go_on(self, events[i].data.ptr);
            }
        }
    }
    return NULL;
}

/* --- the table --- */

static void posix_submit(struct hr__io *io, struct hr__io_request *request)
{
    struct posix_io *self = (struct posix_io *)io;
    request->io = io;
    request->cancelled = false;
    request->state = TAKEN;
    io->in_flight++;
    hr__list_push(&self->taken, request);
}

static bool is_for_poller(const struct hr__io_request *request)
{
    return request->op == HR__IO_RECV || request->op == HR__IO_SEND || is_poll(request);
}

static void posix_flush(struct hr__io *io)
{
    struct posix_io *self = (struct posix_io *)io;
    struct hr__io_request *request;
    unsigned n_new = 0;
    bool wake = false;

    if (self->taken.head == NULL && self->n_started == self->n_threads) {
        return; /* nothing to hand on, and nobody to start for what the poller did */
    }
    pthread_mutex_lock(&self->lock);
    while ((request = hr__list_pop(&self->taken)) != NULL) {
        if (is_for_poller(request)) {
            request->state = IN_INBOX;
            wake |= self->inbox.head == NULL; /* else the poller was woken and not there yet */
            hr__list_push(&self->inbox, request);
        } else {
            queue_job(self, request);
            n_new++;
        }
    }
    const unsigned n_short = self->n_jobs > self->n_idle ? self->n_jobs - self->n_idle : 0;
    pthread_mutex_unlock(&self->lock);
    if (n_new > 1) {
        pthread_cond_broadcast(&self->work);
    } else if (n_new == 1) {
        pthread_cond_signal(&self->work);
    }
    if (wake) {
        hr__wake(self->wake_fd);
    }
    if (n_short > 0 && self->n_started < self->n_threads) {
        start_more(self, n_short);
    }
}

static unsigned posix_reap(struct hr__io *io)
{
    struct posix_io *self = (struct posix_io *)io;
    unsigned n_done = 0;

    pthread_mutex_lock(&self->lock);
    struct hr__io_request *request = hr__list_take(&self->finished);
    pthread_mutex_unlock(&self->lock);
    while (request != NULL) {
        struct hr__io_request *next = request->next;
        io->in_flight--;
        request->done(request);
        request = next;
        n_done++;
    }
    posix_flush(io);
    return n_done;
}

static void posix_cancel(struct hr__io *io, struct hr__io_request *request)
{
    struct posix_io *self = (struct posix_io *)io;
    struct hr__list *from = NULL;
    bool first = false;
    bool wake = false;

    pthread_mutex_lock(&self->lock);
    request->cancelled = true;
    switch ((enum state)request->state) {
    case TAKEN:
        from = &self->taken;
        break;
    case IN_INBOX:
        from = &self->inbox;
        break;
    case QUEUED:
        from = &self->jobs;
        self->n_jobs--;
        break;
    case WATCHED:
        request->state = UNWATCHED;
        wake = self->cancels.head == NULL;
        hr__list_push(&self->cancels, request);
        break;
    case UNWATCHED:
    case RUNNING:
    case FINISHED:
        break;
    }
    if (from != NULL) {
        hr__list_remove(from, request);
        request->state = FINISHED;
        request->result = -ECANCELED;
        first = self->finished.head == NULL;
        hr__list_push(&self->finished, request);
    }
    pthread_mutex_unlock(&self->lock);
    if (first) {
        hr__wake(self->event_fd);
    }
    if (wake) {
        hr__wake(self->wake_fd);
    }
}

static void join(struct posix_io *self, bool has_poller)
{
    pthread_mutex_lock(&self->lock);
    self->stop = true;
    pthread_mutex_unlock(&self->lock);
    pthread_cond_broadcast(&self->work);
    hr__wake(self->wake_fd);
    for (unsigned i = 0; i < self->n_started; i++) {
        pthread_join(self->workers[i], NULL);
    }
    if (has_poller) {
        pthread_join(self->poller, NULL);
    }
}

static void release(struct posix_io *self)
{
    if (self->wake_fd >= 0) {
        close(self->wake_fd);
    }
    if (self->epoll_fd >= 0) {
        close(self->epoll_fd);
    }
    pthread_cond_destroy(&self->work);
    pthread_mutex_destroy(&self->lock);
    free(self);
}

static void posix_destroy(struct hr__io *io)
{
    struct posix_io *self = (struct posix_io *)io;
    assert(io->in_flight == 0);
    join(self, true);
    release(self);
}

static const struct hr__io_ops posix_ops = {
    .name = "threads",
    .submit = posix_submit,
    .flush = posix_flush,
    .reap = posix_reap,
    .cancel = posix_cancel,
    .destroy = posix_destroy,
};

/* --- creation --- */

/* Returns 0 or an errno; no thread is left behind by a failure. */
static int start_threads(struct posix_io *self)
{
    const unsigned n = self->n_threads < AT_FIRST ? self->n_threads : AT_FIRST;
    int error = 0;
    while (error == 0 && self->n_started < n) {
        error = start_worker(self);
    }
    if (error == 0) {
        error = start_thread(&self->poller, poll_loop, self);
    }
    if (error != 0) {
        join(self, false);
    }
    return error;
}

static int open_epoll(struct posix_io *self)
{
    struct epoll_event event = {.events = EPOLLIN | (uint32_t)EPOLLET, .data.ptr = NULL};
    self->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    self->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (self->epoll_fd < 0 || self->wake_fd < 0 ||
        epoll_ctl(self->epoll_fd, EPOLL_CTL_ADD, self->wake_fd, &event) != 0) {
        return errno;
    }
    return 0;
}

hr_status hr__posix_io_create(const struct hr__io_config *config, struct hr__io **out,
                              hr_error *err)
{
    assert(config->threads > 0);
    struct posix_io *self = calloc(1, sizeof *self + config->threads * sizeof self->workers[0]);
    if (self == NULL) {
        return hr__fail(err, HR_ENOMEM, (struct hr__where){.native = ENOMEM},
                        "no memory for the I/O engine with %u threads", config->threads);
    }
    self->base.ops = &posix_ops;
    self->event_fd = config->event_fd;
    self->n_threads = config->threads;
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->work, NULL);
    hr__list_init(&self->taken);
    hr__list_init(&self->inbox);
    hr__list_init(&self->cancels);
    hr__list_init(&self->jobs);
    hr__list_init(&self->finished);

    int error = open_epoll(self);
    if (error != 0) {
        release(self);
        return hr__fail(err, HR_EIO, (struct hr__where){.native = error}, "I/O engine: epoll: %s",
                        strerror(error));
    }
    error = start_threads(self);
    if (error != 0) {
        release(self);
        return hr__fail(err, HR_ENOMEM, (struct hr__where){.native = error},
                        "I/O engine: starting %u threads: %s", config->threads + 1,
                        strerror(error));
    }
    *out = &self->base;
    return HR_OK;
}
