// SPDX-License-Identifier: Apache-2.0
/* An I/O engine with its eventfd, and what the tests of both engines share. One body per behaviour:
 * BOTH(name) makes the tests name_uring and name_threads. */
#ifndef HR_IO_RIG_H
#define HR_IO_RIG_H

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "io.h"

enum { WAIT_MS = 10000, PAGE = 4096 };

struct rig {
    struct hr__io *io;
    int event_fd;
    unsigned n_done;
    bool is_uring;
};

static inline hr_status create_uring(const struct hr__io_config *config, struct hr__io **out,
                                     hr_error *err)
{
#if HR_HAVE_URING
    return hr__uring_create(config, out, err);
#else
    (void)config;
    (void)out;
    snprintf(err->text, sizeof err->text, "built without liburing");
    return HR_EUNSUPPORTED;
#endif
}

static inline void set_up_with(struct rig *rig, bool is_uring, unsigned entries, unsigned threads)
{
    hr_error err = {0};
    *rig = (struct rig){.event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), .is_uring = is_uring};
    const struct hr__io_config config = {
        .entries = entries,
        .threads = threads,
        .event_fd = rig->event_fd,
    };
    const hr_status status = is_uring ? create_uring(&config, &rig->io, &err)
                                      : hr__posix_io_create(&config, &rig->io, &err);
    if (is_uring && status == HR_EUNSUPPORTED) {
        cr_skip_test("%s", err.text);
    }
    cr_assert_eq(status, HR_OK, "%s", err.text);
}

static inline void set_up(struct rig *rig, bool is_uring, unsigned entries)
{
    set_up_with(rig, is_uring, entries, 3);
}

static inline void run(void (*body)(struct rig *rig), bool is_uring, unsigned entries)
{
    struct rig rig;
    set_up(&rig, is_uring, entries);
    body(&rig);
    cr_assert_eq(rig.io->in_flight, 0);
    rig.io->ops->destroy(rig.io);
    close(rig.event_fd);
}

#define BOTH_WITH(name, entries)                                                                   \
    static void name(struct rig *rig);                                                             \
    Test(io, name##_uring, .timeout = 60)                                                          \
    {                                                                                              \
        run(name, true, entries);                                                                  \
    }                                                                                              \
    Test(io, name##_threads, .timeout = 60)                                                        \
    {                                                                                              \
        run(name, false, entries);                                                                 \
    }                                                                                              \
    static void name(struct rig *rig)
#define BOTH(name) BOTH_WITH(name, 64)

/* --- helpers --- */

static inline void count_done(struct hr__io_request *request)
{
    ((struct rig *)request->owner)->n_done++;
}

static inline struct hr__io_request make(struct rig *rig, enum hr__io_op op, int fd, void *buffer,
                                         size_t size, uint64_t offset)
{
    struct stat st;
    return (struct hr__io_request){
        .op = op,
        .flags = fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) ? HR__IO_SOCKET : 0,
        .fd = fd,
        .buffer = buffer,
        .size = size,
        .offset = offset,
        .region = -1,
        .result = -12345,
        .done = count_done,
        .owner = rig,
    };
}

static inline void start(struct rig *rig, struct hr__io_request *request)
{
    rig->io->ops->submit(rig->io, request);
    rig->io->ops->flush(rig->io);
}

/* Sleeps on the eventfd and reaps, as a loop does, until n requests are done. */
static inline void wait_done(struct rig *rig, unsigned n)
{
    while (rig->n_done < n) {
        struct pollfd p = {.fd = rig->event_fd, .events = POLLIN};
        const int ready = poll(&p, 1, WAIT_MS);
        cr_assert(ready == 1 || (ready < 0 && errno == EINTR), "%u of %u done", rig->n_done, n);
        uint64_t count;
        ssize_t size = read(rig->event_fd, &count, sizeof count);
        (void)size;
        rig->io->ops->reap(rig->io);
    }
}

static inline int64_t finish(struct rig *rig, struct hr__io_request *request)
{
    wait_done(rig, rig->n_done + 1);
    return request->result;
}

static inline int64_t once(struct rig *rig, enum hr__io_op op, int fd, void *buffer, size_t size,
                           uint64_t offset)
{
    struct hr__io_request request = make(rig, op, fd, buffer, size, offset);
    start(rig, &request);
    return finish(rig, &request);
}

static inline unsigned char pattern(uint64_t at)
{
    return (unsigned char)((at * 2654435761u) >> 13);
}

static inline void fill(unsigned char *p, size_t n, uint64_t from)
{
    for (size_t i = 0; i < n; i++) {
        p[i] = pattern(from + i);
    }
}

static inline void check(const unsigned char *p, size_t n, uint64_t from)
{
    for (size_t i = 0; i < n; i++) {
        cr_assert_eq(p[i], pattern(from + i), "byte %zu", i);
    }
}

static inline int temporary(size_t size)
{
    char name[] = "/tmp/headrace-io-XXXXXX";
    const int fd = mkstemp(name);
    cr_assert_geq(fd, 0);
    unlink(name);
    unsigned char *p = malloc(size + 1);
    fill(p, size, 0);
    cr_assert_eq(pwrite(fd, p, size, 0), (ssize_t)size);
    free(p);
    return fd;
}

static inline void pause_ms(long ms)
{
    const struct timespec t = {.tv_nsec = ms * 1000000};
    nanosleep(&t, NULL);
}

/* A stream of both kinds: fds[0] to read, fds[1] to write. */
static inline void open_stream(int fds[2], bool is_socket, bool is_nonblock)
{
    cr_assert_eq(is_socket ? socketpair(AF_UNIX, SOCK_STREAM, 0, fds) : pipe(fds), 0);
    for (int i = 0; is_nonblock && i < 2; i++) {
        fcntl(fds[i], F_SETFL, fcntl(fds[i], F_GETFL) | O_NONBLOCK);
    }
}

static inline void close_stream(const int fds[2])
{
    close(fds[0]);
    close(fds[1]);
}

#endif
