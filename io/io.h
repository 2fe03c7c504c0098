// SPDX-License-Identifier: Apache-2.0
/* Asynchronous I/O behind one contract, by io_uring or by threads.
 *
 * An engine belongs to one thread, its loop's. Requests live in the caller's memory; an engine
 * allocates nothing once it is made. Every completion is announced by a write to the eventfd given
 * at creation, so the loop sleeps in one place whatever serves it:
 *
 *     submit … submit ─▶ flush ─▶ (sleep on the eventfd) ─▶ reap: done(request) … done(request)
 *
 * A request's memory and buffer belong to the engine from submit until done() is called, also when
 * it was cancelled. done() may submit again. */
#ifndef HR_IO_H
#define HR_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headrace.h"

enum hr__io_op {
    HR__IO_READ,     /* pread: a positional descriptor, at offset */
    HR__IO_WRITE,    /* pwrite */
    HR__IO_RECV,     /* read of a descriptor without offsets: pipe, terminal, socket, device */
    HR__IO_SEND,     /* write to one; a vanished reader is -EPIPE, never a signal */
    HR__IO_POLL,     /* wait until any descriptor is readable, or a listener has a connection: takes
                        no data, result 0; an error or a hang-up of the descriptor counts as ready */
    HR__IO_POLL_OUT, /* wait until it is writable, or a connect has ended */
    HR__IO_FSYNC,
};

/* What the caller knows of the descriptor since it was opened, so that no request has to ask. */
enum hr__io_flag {
    HR__IO_SOCKET = 1, /* SEND, RECV: it is a socket */
    HR__IO_DIRECT = 2, /* READ, WRITE: it has O_DIRECT */
};

struct hr__io_request {
    enum hr__io_op op;
    uint32_t flags; /* enum hr__io_flag */
    int fd;
    void *buffer;
    size_t size;     /* bytes asked; the engine caps one call at HR__IO_MAX_BYTES */
    uint64_t offset; /* for READ and WRITE */
    int region;      /* the buffer's registered region, or -1 */
    int64_t result;  /* at done(): bytes moved (0 is the end), or -errno; never -EINTR, -EAGAIN */
    void (*done)(struct hr__io_request *request); /* on the loop's thread, in reap() */
    void *owner;                                  /* the caller's */

    /* The engine's own, while it has the request. */
    struct hr__io_request *next;
    struct hr__io *io;
    bool cancelled;
    uint32_t state;
    int watched; /* the thread engine: its name in the epoll set */
};

enum { HR__IO_MAX_BYTES = 0x7ffff000 }; /* what one read(2) moves at most (read(2), NOTES) */
enum { HR__IO_REGIONS = 256 };          /* regions of memory that one engine can register */

struct hr__io;

struct hr__io_ops {
    const char *name; /* "uring" or "threads" */
    /* Takes a request. Never fails and never calls done(): an error is the request's result. More
     * requests than the queue holds are kept in a list of the engine's. */
    void (*submit)(struct hr__io *io, struct hr__io_request *request);
    /* Hands what was taken to the kernel or to the threads. Never waits for I/O. */
    void (*flush)(struct hr__io *io);
    /* Calls done() for what has finished, then flushes; returns for how many. Never waits. */
    unsigned (*reap)(struct hr__io *io);
    /* Asks for an early end: done() still comes, with -ECANCELED or with what was moved before. */
    void (*cancel)(struct hr__io *io, struct hr__io_request *request);
    /* Makes a region (under 1 GiB) known under an index below HR__IO_REGIONS, replacing what the
     * index named; false if refused, and the region is then used unregistered. NULL: the engine has
     * no such thing. */
    bool (*add_region)(struct hr__io *io, int index, void *memory, size_t size);
    /* Nothing may be in flight. */
    void (*destroy)(struct hr__io *io);
};

/* Every engine begins with this. */
struct hr__io {
    const struct hr__io_ops *ops;
    unsigned in_flight; /* submitted, not yet done */
};

struct hr__io_config {
    unsigned entries; /* requests in the kernel at once; more wait in the engine */
    unsigned threads; /* of the thread engine, for regular files */
    int event_fd;     /* an eventfd, non-blocking */
    bool shared;      /* threads take turns, whatever is in flight */
};

/* The two engines. A failure says why in err: HR_EUNSUPPORTED where the system refuses io_uring,
 * naming the likely cause (seccomp profile of a container, kernel.io_uring_disabled, limit). */
hr_status hr__uring_create(const struct hr__io_config *config, struct hr__io **out, hr_error *err);
hr_status hr__posix_io_create(const struct hr__io_config *config, struct hr__io **out,
                              hr_error *err);

#endif
