// SPDX-License-Identifier: Apache-2.0
/* Requests of io_uring, changed between the library that made them and the kernel. liburing's
 * functions that fill a request are inline and out of reach; those that submit are not. */
#include "faults.h"

#if HR_HAVE_URING
#include <errno.h>
#include <liburing.h>

/* include/uapi/linux/io_uring.h of Linux 6.10: a NOP gives sqe->len as its result. */
enum { NOP_INJECT_RESULT = 1 };

static bool kind_of(uint8_t opcode, enum hr_fault *kind)
{
    switch (opcode) {
    case IORING_OP_READ:
    case IORING_OP_READ_FIXED:
    case IORING_OP_RECV:
        *kind = HR_FAULT_READ;
        return true;
    case IORING_OP_WRITE:
    case IORING_OP_WRITE_FIXED:
    case IORING_OP_SEND:
        *kind = HR_FAULT_WRITE;
        return true;
    default:
        return false;
    }
}

static void make_failure(struct io_uring_sqe *sqe, int error)
{
    const uint64_t user_data = sqe->user_data;
    io_uring_prep_nop(sqe);
    sqe->user_data = user_data;
    sqe->rw_flags = NOP_INJECT_RESULT;
    sqe->len = (uint32_t)-error;
    sqe->flags = 0;
    sqe->buf_index = 0;
}

/* Requests from sqe_head on were filled since the last submission. */
static void change(struct io_uring *ring)
{
    const struct io_uring_sq *sq = &ring->sq;
    for (unsigned i = sq->sqe_head; i != sq->sqe_tail; i++) {
        struct io_uring_sqe *sqe = &sq->sqes[i & *sq->kring_mask];
        enum hr_fault kind;
        if (!kind_of(sqe->opcode, &kind))
            continue;
        size_t size = sqe->len;
        const int error = hr_faults_strike_io(kind, sqe->fd, &size);
        if (error)
            make_failure(sqe, error);
        else
            sqe->len = (uint32_t)size;
    }
}

int io_uring_submit(struct io_uring *ring)
{
    static int (*next)(struct io_uring *);
    if (!next)
        hr_faults_find(&next, "io_uring_submit");
    change(ring);
    return next(ring);
}

int io_uring_submit_and_wait(struct io_uring *ring, unsigned n)
{
    static int (*next)(struct io_uring *, unsigned);
    if (!next)
        hr_faults_find(&next, "io_uring_submit_and_wait");
    change(ring);
    return next(ring, n);
}

bool hr_faults_can_fail_uring(void)
{
    struct io_uring ring;
    if (io_uring_queue_init(1, &ring, 0) < 0)
        return false;
    struct io_uring_cqe *cqe = NULL;
    make_failure(io_uring_get_sqe(&ring), EIO);
    const bool can =
        io_uring_submit(&ring) == 1 && io_uring_wait_cqe(&ring, &cqe) == 0 && cqe->res == -EIO;
    io_uring_queue_exit(&ring);
    return can;
}
#else
bool hr_faults_can_fail_uring(void)
{
    return false;
}
#endif
