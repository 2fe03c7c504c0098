// SPDX-License-Identifier: Apache-2.0
/* The io_uring engine.
 *
 * A request waits in a list until the kernel's queue has room for it and for its completion, so the
 * completion queue cannot overflow. Those for files have a list and a share of the queue to
 * themselves: what waits for a peer may wait for ever, and must not hold them up. What the kernel
 * sends back unfinished (EINTR, EAGAIN of a non-blocking descriptor) goes to its list again, the
 * latter as a poll that comes first. What ends without the kernel (cancelled while it waited, or
 * the ring is broken) is in a third list.
 *
 * The ring is made disabled and enabled by the first flush: with SINGLE_ISSUER it belongs to the
 * thread that enables it, and that is the loop's, whoever called create. */
#include <assert.h>
#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io.h"
#include "io_list.h"
#include "status.h"
#include "wake.h"

#ifndef RWF_NOSIGNAL
#define RWF_NOSIGNAL 0x00000100 /* linux/fs.h from 6.18 on */
#endif

enum {
    IN_KERNEL = 1,  /* staged or submitted */
    POLLING = 2,    /* waits for readiness before it is tried again */
    NO_SIGNAL = 4,  /* was last tried with RWF_NOSIGNAL */
    CANCELLING = 8, /* in the list of cancels to stage */
};

enum { REAP_BATCH = 32 };
enum { CQ_ENTRIES = 8192 };          /* 128 KiB: half as many sockets can be idle at once */
enum { MAX_REGION_BYTES = 1 << 30 }; /* io_uring_register(2), IORING_REGISTER_BUFFERS */

/* The best first. */
static const unsigned setups[] = {
    IORING_SETUP_CLAMP | IORING_SETUP_CQSIZE | IORING_SETUP_SINGLE_ISSUER |
        IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_R_DISABLED,
    IORING_SETUP_CLAMP | IORING_SETUP_CQSIZE,
    IORING_SETUP_CLAMP,
};
enum { N_SETUPS = sizeof setups / sizeof setups[0] };

struct uring {
    struct hr__io base;
    struct io_uring ring;
    int event_fd;
    unsigned limit;       /* requests for files in the kernel at most */
    unsigned max_streams; /* requests for others at most */
    unsigned max_cqes;    /* completions the queue holds */
    unsigned n_kernel;    /* requests with a completion to come */
    unsigned n_files;     /* of them: for files */
    unsigned n_cancels;   /* cancels with one to come */
    bool enabled;
    bool has_nosignal; /* RWF_NOSIGNAL not refused so far */
    bool has_table;    /* of registered buffers */
    int broken;        /* -errno of a submit that cannot succeed any more, or 0 */
    struct hr__list files;
    struct hr__list streams;
    struct hr__list cancels;
    struct hr__list finished;
    bool registered[HR__IO_REGIONS];
};

/* Its end depends on no peer. */
static bool is_for_file(const struct hr__io_request *request)
{
    return request->op == HR__IO_READ || request->op == HR__IO_WRITE || request->op == HR__IO_FSYNC;
}

/* The list in which it waits for the kernel. */
static struct hr__list *list_for(struct uring *self, const struct hr__io_request *request)
{
    return is_for_file(request) ? &self->files : &self->streams;
}

static void finish_later(struct uring *self, struct hr__io_request *request, int result)
{
    request->state = 0;
    request->result = result;
    const bool first = self->finished.head == NULL; /* else the loop is awake, or about to be */
    hr__list_push(&self->finished, request);
    if (first) {
        hr__wake(self->event_fd);
    }
}

/* --- staging --- */

static bool is_write(const struct hr__io_request *request)
{
    return request->op == HR__IO_WRITE || request->op == HR__IO_SEND;
}

static bool is_poll(const struct hr__io_request *request)
{
    return request->op == HR__IO_POLL || request->op == HR__IO_POLL_OUT;
}

static void prepare_transfer(const struct uring *self, const struct hr__io_request *request,
                             struct io_uring_sqe *sqe)
{
    const bool positional = request->op == HR__IO_READ || request->op == HR__IO_WRITE;
    const uint64_t offset = positional ? request->offset : UINT64_MAX; /* -1: the file's own */
    const unsigned size =
        (unsigned)(request->size < HR__IO_MAX_BYTES ? request->size : HR__IO_MAX_BYTES);
    const bool fixed = request->region >= 0 && self->registered[request->region];

    if (is_write(request)) {
        io_uring_prep_write(sqe, request->fd, request->buffer, size, offset);
    } else {
        io_uring_prep_read(sqe, request->fd, request->buffer, size, offset);
    }
    if (fixed) {
        sqe->opcode = is_write(request) ? IORING_OP_WRITE_FIXED : IORING_OP_READ_FIXED;
        sqe->buf_index = (uint16_t)request->region;
    }
    /* A buffered transfer is a copy inside submit; punted, copies run side by side. */
    if (positional && (request->flags & HR__IO_DIRECT) == 0) {
        sqe->flags |= IOSQE_ASYNC;
    }
}

static void prepare_send(const struct uring *self, struct hr__io_request *request,
                         struct io_uring_sqe *sqe)
{
    if (request->flags & HR__IO_SOCKET) {
        const size_t size = request->size < HR__IO_MAX_BYTES ? request->size : HR__IO_MAX_BYTES;
        io_uring_prep_send(sqe, request->fd, request->buffer, size, MSG_NOSIGNAL);
        return;
    }
    prepare_transfer(self, request, sqe);
    /* An inline write to a broken pipe raises SIGPIPE in this thread; a punted one does not. */
    if (self->has_nosignal) {
        sqe->rw_flags = RWF_NOSIGNAL;
        request->state |= NO_SIGNAL;
    } else {
        sqe->flags |= IOSQE_ASYNC;
    }
}

static void prepare(const struct uring *self, struct hr__io_request *request,
                    struct io_uring_sqe *sqe)
{
    request->state &= ~(uint32_t)NO_SIGNAL;
    if (request->state & POLLING) {
        io_uring_prep_poll_add(sqe, request->fd, is_write(request) ? POLLOUT : POLLIN);
    } else {
        switch (request->op) {
        case HR__IO_READ:
        case HR__IO_WRITE:
        case HR__IO_RECV:
            prepare_transfer(self, request, sqe);
            break;
        case HR__IO_SEND:
            prepare_send(self, request, sqe);
            break;
        case HR__IO_POLL:
            io_uring_prep_poll_add(sqe, request->fd, POLLIN);
            break;
        case HR__IO_POLL_OUT:
            io_uring_prep_poll_add(sqe, request->fd, POLLOUT);
            break;
        case HR__IO_FSYNC:
            io_uring_prep_fsync(sqe, request->fd, 0);
            break;
        }
    }
    io_uring_sqe_set_data(sqe, request);
    request->state |= IN_KERNEL;
}

/* The first of a list into the submission queue. False: that is full. */
static bool stage_first(struct uring *self, struct hr__list *list)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&self->ring);
    if (sqe == NULL) {
        return false;
    }
    struct hr__io_request *request = hr__list_pop(list);
    prepare(self, request, sqe);
    self->n_kernel++;
    self->n_files += is_for_file(request);
    return true;
}

/* The kernel has it no more. */
static void count_back(struct uring *self, const struct hr__io_request *request)
{
    self->n_kernel--;
    self->n_files -= is_for_file(request);
}

/* Fills the submission queue. A cancel's completion carries no data, which tells it from others. */
static void stage(struct uring *self)
{
    while (self->cancels.head != NULL && self->n_kernel + self->n_cancels < self->max_cqes) {
        struct io_uring_sqe *sqe = io_uring_get_sqe(&self->ring);
        if (sqe == NULL) {
            return;
        }
        struct hr__io_request *request = hr__list_pop(&self->cancels);
        request->state &= ~(uint32_t)CANCELLING;
        io_uring_prep_cancel64(sqe, (uint64_t)(uintptr_t)request, 0);
        io_uring_sqe_set_data(sqe, NULL);
        self->n_cancels++;
    }
    while (self->files.head != NULL && self->n_files < self->limit &&
           self->n_kernel + self->n_cancels < self->max_cqes) {
        if (!stage_first(self, &self->files)) {
            return;
        }
    }
    while (self->streams.head != NULL && self->n_kernel - self->n_files < self->max_streams &&
           self->n_kernel + self->n_cancels < self->max_cqes) {
        if (!stage_first(self, &self->streams)) {
            return;
        }
    }
}

/* The kernel takes nothing more: what it has not seen ends with the error, now and later on. */
static void break_ring(struct uring *self, int error)
{
    struct io_uring_sq *sq = &self->ring.sq;
    self->broken = error;
    for (unsigned i = sq->sqe_tail - io_uring_sq_ready(&self->ring); i != sq->sqe_tail; i++) {
        struct io_uring_sqe *sqe = &sq->sqes[i & *sq->kring_mask];
        struct hr__io_request *request = (struct hr__io_request *)(uintptr_t)sqe->user_data;
        if (request == NULL) {
            continue;
        }
        io_uring_prep_nop(sqe);
        io_uring_sqe_set_data(sqe, NULL);
        count_back(self, request);
        self->n_cancels++;
        if (request->state & CANCELLING) {
            hr__list_remove(&self->cancels, request);
        }
        finish_later(self, request, error);
    }
    while (self->files.head != NULL) {
        finish_later(self, hr__list_pop(&self->files), error);
    }
    while (self->streams.head != NULL) {
        finish_later(self, hr__list_pop(&self->streams), error);
    }
}

/* --- the table --- */

static void uring_submit(struct hr__io *io, struct hr__io_request *request)
{
    struct uring *self = (struct uring *)io;
    request->io = io;
    request->cancelled = false;
    request->state = 0;
    io->in_flight++;
    if (self->broken != 0) {
        finish_later(self, request, self->broken);
    } else {
        hr__list_push(list_for(self, request), request);
    }
}

static void uring_flush(struct hr__io *io)
{
    struct uring *self = (struct uring *)io;
    if (self->broken != 0) {
        return;
    }
    if (!self->enabled) {
        /* By hand: the shared liburing 2.3 does not export io_uring_enable_rings. */
        const int error =
            io_uring_register((unsigned)self->ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
        if (error < 0) {
            break_ring(self, error);
            return;
        }
        self->enabled = true;
    }
    for (;;) {
        stage(self);
        if (io_uring_sq_ready(&self->ring) == 0) {
            return;
        }
        const int n = io_uring_submit(&self->ring);
        if (n == 0 || n == -EINTR || n == -EAGAIN || n == -EBUSY) {
            /* They stay staged, and the reap that this leads to tries again. */
            hr__wake(self->event_fd);
            return;
        }
        if (n < 0) {
            break_ring(self, n);
            return;
        }
    }
}

/* Whether the request goes on, having been put back into the list; else its result is final. */
static bool goes_on(struct uring *self, struct hr__io_request *request, int result)
{
    const bool was_poll = (request->state & POLLING) != 0;
    const bool was_nosignal = (request->state & NO_SIGNAL) != 0;

    if (request->state & CANCELLING) {
        hr__list_remove(&self->cancels, request);
    }
    request->state = 0;
    request->result = result;
    if (result == -EOPNOTSUPP && was_nosignal) {
        self->has_nosignal = false;
    } else if (result == -EAGAIN) {
        request->state = request->op == HR__IO_FSYNC ? 0 : POLLING;
    } else if (result != -EINTR && result != -ECANCELED && !(was_poll && result >= 0)) {
        if (is_poll(request) && result > 0) {
            request->result = 0; /* the kernel tells the events */
        }
        return false;
    }
    /* A cancel can meet a request that was submitted again from the same memory since: that one
     * was not cancelled and goes on too. */
    if (request->cancelled) {
        request->result = -ECANCELED;
        return false;
    }
    if (self->broken != 0) {
        request->result = self->broken;
        return false;
    }
    hr__list_push(list_for(self, request), request);
    return true;
}

static void finish(struct hr__io_request *request)
{
    request->io->in_flight--;
    request->done(request);
}

static unsigned reap_batch(struct uring *self, unsigned *n_done)
{
    struct io_uring_cqe *cqes[REAP_BATCH];
    struct hr__io_request *requests[REAP_BATCH];
    int results[REAP_BATCH];
    const unsigned n = io_uring_peek_batch_cqe(&self->ring, cqes, REAP_BATCH);

    for (unsigned i = 0; i < n; i++) {
        requests[i] = io_uring_cqe_get_data(cqes[i]);
        results[i] = cqes[i]->res;
        if (requests[i] == NULL) {
            self->n_cancels--;
        } else {
            count_back(self, requests[i]);
        }
    }
    io_uring_cq_advance(&self->ring, n); /* before done(), which may flush */
    for (unsigned i = 0; i < n; i++) {
        if (requests[i] != NULL && !goes_on(self, requests[i], results[i])) {
            finish(requests[i]);
            ++*n_done;
        }
    }
    return n;
}

static unsigned uring_reap(struct hr__io *io)
{
    struct uring *self = (struct uring *)io;
    unsigned n_done = 0;
    struct hr__io_request *request = hr__list_take(&self->finished);

    while (request != NULL) {
        struct hr__io_request *next = request->next;
        finish(request);
        request = next;
        n_done++;
    }
    while (reap_batch(self, &n_done) != 0) {
    }
    /* Still set if a signal interrupted the fetching: the loop's sleep must not begin. */
    if (*(volatile unsigned *)self->ring.sq.kflags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) {
        hr__wake(self->event_fd);
    }
    if (self->files.head != NULL || self->streams.head != NULL || self->cancels.head != NULL ||
        io_uring_sq_ready(&self->ring) != 0) {
        uring_flush(io);
    }
    return n_done;
}

static void uring_cancel(struct hr__io *io, struct hr__io_request *request)
{
    struct uring *self = (struct uring *)io;
    if (request->cancelled) {
        return;
    }
    request->cancelled = true;
    if (request->state & IN_KERNEL) {
        request->state |= CANCELLING;
        hr__list_push(&self->cancels, request);
        uring_flush(io);
    } else if (self->broken == 0) {
        hr__list_remove(list_for(self, request), request);
        finish_later(self, request, -ECANCELED);
    }
}

static int update_region(struct uring *self, int index, void *memory, size_t size)
{
    const struct iovec vector = {.iov_base = memory, .iov_len = size};
    const __u64 tag = 0;
    return io_uring_register_buffers_update_tag(&self->ring, (unsigned)index, &vector, &tag, 1);
}

static bool uring_add_region(struct hr__io *io, int index, void *memory, size_t size)
{
    struct uring *self = (struct uring *)io;
    assert(index >= 0 && index < HR__IO_REGIONS);
    if (!self->has_table) {
        return false;
    }
    const bool known =
        size > 0 && size < MAX_REGION_BYTES && update_region(self, index, memory, size) == 1;
    if (!known && self->registered[index]) {
        update_region(self, index, NULL, 0); /* the old region must not stay locked */
    }
    self->registered[index] = known;
    return known;
}

static void uring_destroy(struct hr__io *io)
{
    struct uring *self = (struct uring *)io;
    assert(io->in_flight == 0);
    io_uring_queue_exit(&self->ring);
    free(self);
}

static const struct hr__io_ops uring_ops = {
    .name = "uring",
    .submit = uring_submit,
    .flush = uring_flush,
    .reap = uring_reap,
    .cancel = uring_cancel,
    .add_region = uring_add_region,
    .destroy = uring_destroy,
};

/* --- creation --- */

static const char *likely_cause(int error)
{
    switch (error) {
    case EPERM:
        return "likely the seccomp profile of a container, or kernel.io_uring_disabled";
    case EACCES:
        return "likely a security module's policy";
    case ENOSYS:
        return "the kernel is older than 5.1, or a seccomp profile of a container hides it";
    case ENOMEM:
        return "likely the limit on locked memory (ulimit -l)";
    case EMFILE:
    case ENFILE:
        return "the limit on open files is reached";
    default:
        return "the kernel is too old, or a security profile forbids part of it";
    }
}

static hr_status refused(hr_error *err, const char *call, int error)
{
    return hr__fail(err, HR_EUNSUPPORTED, (struct hr__where){.native = error},
                    "io_uring is not available: %s: %s (%s)", call, strerror(error),
                    likely_cause(error));
}

enum { N_PROBED = 256 };

static bool has_operations(const struct io_uring_probe *probe)
{
    static const int needed[] = {
        IORING_OP_READ,     IORING_OP_WRITE, IORING_OP_READ_FIXED,   IORING_OP_WRITE_FIXED,
        IORING_OP_POLL_ADD, IORING_OP_FSYNC, IORING_OP_ASYNC_CANCEL, IORING_OP_SEND,
    };
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        if (!io_uring_opcode_supported(probe, needed[i])) {
            return false;
        }
    }
    return true;
}

static hr_status set_up(struct uring *self, const struct hr__io_config *config, hr_error *err)
{
    struct io_uring_params params;
    int error = -EINVAL;
    /* EINVAL: before 6.1, or before 5.5; ENOMEM: of an ordinary user, before 5.12 */
    const unsigned first = config->shared ? 1 : 0; /* the best is bound to one thread */
    for (unsigned i = first; i < N_SETUPS && (error == -EINVAL || error == -ENOMEM); i++) {
        params = (struct io_uring_params){.flags = setups[i], .cq_entries = CQ_ENTRIES};
        error = io_uring_queue_init_params(config->entries, &self->ring, &params);
    }
    if (error < 0) {
        return refused(err, "io_uring_setup", -error);
    }
    self->enabled = (params.flags & IORING_SETUP_R_DISABLED) == 0;
    self->max_cqes = params.cq_entries;
    self->limit = config->entries < params.sq_entries ? config->entries : params.sq_entries;
    self->max_streams = (self->max_cqes - self->limit) / 2; /* the other half: their cancels */
    return HR_OK;
}

hr_status hr__uring_create(const struct hr__io_config *config, struct hr__io **out, hr_error *err)
{
    assert(config->entries > 0);
    struct uring *self = calloc(1, sizeof *self);
    if (self == NULL) {
        return hr__fail(err, HR_ENOMEM, (struct hr__where){.native = ENOMEM},
                        "no memory for the io_uring engine");
    }
    hr_status status = set_up(self, config, err);
    if (status != HR_OK) {
        goto free_self;
    }
    /* Not io_uring_get_probe: its NULL does not tell a lack of memory from an old kernel. */
    struct io_uring_probe *probe = calloc(1, sizeof *probe + N_PROBED * sizeof probe->ops[0]);
    if (probe == NULL) {
        status = hr__fail(err, HR_ENOMEM, (struct hr__where){.native = ENOMEM},
                          "no memory for the io_uring engine");
        goto exit_ring;
    }
    const bool usable =
        io_uring_register_probe(&self->ring, probe, N_PROBED) >= 0 && has_operations(probe);
    free(probe);
    if (!usable) {
        status = refused(err, "probe for the operations needed", EOPNOTSUPP);
        goto exit_ring;
    }
    const int error = io_uring_register_eventfd(&self->ring, config->event_fd);
    if (error < 0) {
        status = refused(err, "registering the eventfd", -error);
        goto exit_ring;
    }
    self->base.ops = &uring_ops;
    self->event_fd = config->event_fd;
    self->has_nosignal = true;
    self->has_table = io_uring_register_buffers_sparse(&self->ring, HR__IO_REGIONS) == 0;
    hr__list_init(&self->files);
    hr__list_init(&self->streams);
    hr__list_init(&self->cancels);
    hr__list_init(&self->finished);
    *out = &self->base;
    return HR_OK;

exit_ring:
    io_uring_queue_exit(&self->ring);
free_self:
    free(self);
    return status;
}
