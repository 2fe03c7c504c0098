// SPDX-License-Identifier: Apache-2.0
/* Everything that can end a sleep (a completion, a finished job, a cancel) writes to the loop's one
 * eventfd; time limits are a timerfd beside it. A step empties it first and looks at the causes
 * after, so nothing is missed. */
#include "loop.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "clock.h"
#include "pipeline.h"
#include "sched.h"
#include "status.h"
#include "wake.h"

static const struct hr__where nowhere;

_Static_assert((int)HR__MAX_INDEX == (int)HR__IO_REGIONS, "an index of lease.h is one of io.h");

/* As many as copy cached files at full speed, and no more than they get in each other's way. */
static unsigned default_io_threads(const hr_loop *loop)
{
    enum { FEWEST = 4, MOST = 16 };
    const unsigned n = hr__pool_size(loop->context->pool);
    return n < FEWEST ? FEWEST : n > MOST ? MOST : n;
}

static hr_status create_io(hr_loop *loop, hr_error *error)
{
    const struct hr_loop_config *config = &loop->config;
    const struct hr__io_config io_config = {
        .entries = config->io_entries ? config->io_entries : 64,
        .threads = config->io_threads ? config->io_threads : default_io_threads(loop),
        .event_fd = loop->event_fd,
        .shared = loop->config.flags & HR_LOOP_SHARED,
    };
    if (config->io != HR_IO_THREADS) {
#if HR_HAVE_URING
        hr_error refused = {0};
        const hr_status status = hr__uring_create(&io_config, &loop->io, &refused);
        if (status == HR_OK)
            return HR_OK;
        if (config->io == HR_IO_URING) {
            if (error)
                *error = refused;
            return status;
        }
        memcpy(loop->why_threads, refused.text, sizeof loop->why_threads);
#else
        static const char absent[] = "built without io_uring";
        if (config->io == HR_IO_URING)
            return hr__fail(error, HR_EUNSUPPORTED, nowhere, "loop: %s", absent);
        memcpy(loop->why_threads, absent, sizeof absent);
#endif
    }
    return hr__posix_io_create(&io_config, &loop->io, error);
}

static bool watch(const hr_loop *loop, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    return epoll_ctl(loop->wait_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* False: errno says why; those that are open are closed by close_descriptors. */
static bool open_descriptors(hr_loop *loop)
{
    loop->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    loop->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    loop->wait_fd = epoll_create1(EPOLL_CLOEXEC);
    return loop->event_fd >= 0 && loop->timer_fd >= 0 && loop->wait_fd >= 0 &&
           watch(loop, loop->event_fd) && watch(loop, loop->timer_fd);
}

static void close_descriptors(const hr_loop *loop)
{
    const int fds[] = {loop->wait_fd, loop->timer_fd, loop->event_fd};
    for (unsigned i = 0; i < sizeof fds / sizeof fds[0]; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

hr_status hr_loop_create(hr_context *context, const struct hr_loop_config *user_config,
                         hr_loop **out, hr_error *error)
{
    struct hr_loop_config config = {.struct_size = sizeof config};
    if (!out)
        return hr__fail(error, HR_EINVAL, nowhere, "loop: out is NULL");
    if (user_config && !hr__copy_struct(&config, sizeof config, user_config))
        return hr__fail(error, HR_EINVAL, nowhere,
                        "loop: struct_size is not set, or the config has fields that this version "
                        "(%s) does not know",
                        hr_version());
    if (config.io > HR_IO_THREADS)
        return hr__fail(error, HR_EINVAL, nowhere, "loop: io is %u, not an hr_io_choice",
                        config.io);
    if (config.io_entries > 4096 || config.io_threads > 1024)
        return hr__fail(error, HR_EINVAL, nowhere,
                        "loop: io_entries is at most 4096 and io_threads at most 1024");
    if (config.flags & ~(uint32_t)HR_LOOP_SHARED)
        return hr__fail(error, HR_EINVAL, nowhere, "loop: flags are 0x%x, not of hr_loop_flag",
                        config.flags);

    hr_status status = HR_OK;
    if (context && (status = hr__check_process(context->pid, "context", error)) < 0)
        return status; /* its workers are not there */
    hr_loop *loop = calloc(1, sizeof *loop);
    if (!loop)
        return hr__fail(error, HR_ENOMEM, nowhere, "loop: out of memory");
    loop->pid = getpid();
    loop->config = config;
    if (!open_descriptors(loop)) {
        status = hr__fail(error, HR_EIO, (struct hr__where){.native = errno},
                          "loop: eventfd, timerfd, epoll: %s; raise the limit of open files "
                          "(ulimit -n)",
                          strerror(errno));
        goto free_loop;
    }
    hr__inbox_init(&loop->inbox, loop->event_fd);
    if (context) {
        hr_context_hold(context);
        loop->context = context;
    } else if ((status = hr_context_create(NULL, &loop->context, error)) < 0) {
        goto close_event;
    }
    if ((status = create_io(loop, error)) < 0)
        goto release_context;
    *out = loop;
    return HR_OK;

release_context:
    hr_context_free(loop->context);
close_event:
    hr__inbox_destroy(&loop->inbox);
free_loop:
    close_descriptors(loop);
    free(loop);
    return status;
}

void hr_loop_free(hr_loop *loop)
{
    if (!loop || getpid() != loop->pid)
        return; /* in a forked child the engine's threads are not there to be joined */
    loop->io->ops->destroy(loop->io);
    hr_context_free(loop->context);
    hr__inbox_destroy(&loop->inbox);
    close_descriptors(loop);
    free(loop);
}

const char *hr_loop_io(const hr_loop *loop, const char **why)
{
    if (why)
        *why = loop->why_threads;
    return loop->io->ops->name;
}

static void offer_region(hr_loop *loop, const struct hr__region *region)
{
    const int i = region->index;
    loop->generations[i] = region->generation;
    loop->registered[i] = loop->io->ops->add_region(loop->io, i, region->memory, region->size);
    if (loop->registered[i] || loop->told_unregistered)
        return;
    loop->told_unregistered = true;
    hr__context_log(
        loop->context,
        "%zu bytes of memory could not be registered with io_uring and are used as they "
        "are; the limit of locked memory (ulimit -l) may be too low",
        region->size);
}

int hr__loop_region(hr_loop *loop, const struct hr__region *region)
{
    if (!region || region->index < 0 || !loop->io->ops->add_region)
        return -1;
    const int i = region->index;
    if (loop->generations[i] != region->generation)
        offer_region(loop, region);
    return loop->registered[i] ? i : -1;
}

void hr__loop_add(hr_loop *loop, hr_pipeline *pipeline)
{
    pipeline->next = loop->pipelines;
    loop->pipelines = pipeline;
    hr__wake(loop->event_fd); /* there is something to start */
}

void hr__loop_remove(hr_loop *loop, hr_pipeline *pipeline)
{
    hr_pipeline **at = &loop->pipelines;
    while (*at && *at != pipeline)
        at = &(*at)->next;
    if (*at)
        *at = pipeline->next;
}

static hr_status check_caller(hr_loop *loop, hr_error *error)
{
    const hr_status status = hr__check_process(loop->pid, "loop", error);
    if (status < 0)
        return status;
    if (!loop->owned) {
        loop->owner = pthread_self();
        loop->owned = true;
    }
    if (!pthread_equal(loop->owner, pthread_self()))
        return hr__fail(error, HR_ETHREAD, nowhere,
                        "loop: belongs to the thread that first stepped it; make a loop for each "
                        "thread");
    return HR_OK;
}

hr_status hr_loop_take(hr_loop *loop, hr_error *error)
{
    hr_status status = hr__check_process(loop->pid, "loop", error);
    if (status < 0)
        return status;
    if (loop->config.flags & HR_LOOP_SHARED) {
        loop->owned = false;
        return check_caller(loop, error);
    }
    if (loop->io->in_flight)
        return hr__fail(
            error, HR_EINVAL, nowhere,
            "loop: %u operations of its thread are under way: it can be taken over when "
            "no pipeline runs",
            loop->io->in_flight);
    /* an io_uring serves only the thread that enabled it, so this one gets its own */
    struct hr__io *before = loop->io;
    status = create_io(loop, error);
    if (status < 0) {
        loop->io = before;
        return status;
    }
    before->ops->destroy(before);
    memset(loop->generations, 0, sizeof loop->generations);
    loop->owned = false;
    return check_caller(loop, error);
}

/* Sets the timer to the earliest limit. */
static void set_timer(hr_loop *loop)
{
    uint64_t earliest = 0;
    for (const hr_pipeline *p = loop->pipelines; p; p = p->next)
        if (p->deadline_ns && (!earliest || p->deadline_ns < earliest))
            earliest = p->deadline_ns;
    if (earliest == loop->timer_ns)
        return;
    loop->timer_ns = earliest;
    const struct itimerspec when = {.it_value = {.tv_sec = (time_t)(earliest / 1000000000u),
                                                 .tv_nsec = (long)(earliest % 1000000000u)}};
    timerfd_settime(loop->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void clear_timer(hr_loop *loop)
{
    uint64_t n_expired;
    if (loop->timer_ns && hr__now_ns() >= loop->timer_ns &&
        read(loop->timer_fd, &n_expired, sizeof n_expired) > 0)
        loop->timer_ns = 0;
}

/* ---- steps ---- */

uint64_t hr__loop_done_ns(const hr_loop *loop, uint64_t now_ns)
{
    enum { SOON_NS = 100000 }; /* a step follows on another */
    const bool away = loop->left_ns && !loop->armed && now_ns > loop->left_ns + SOON_NS;
    return away ? loop->left_ns : now_ns;
}

uint64_t hr__loop_seen_ns(const hr_loop *loop, uint64_t now_ns)
{
    return loop->armed ? now_ns : loop->left_ns;
}

hr_status hr_loop_step(hr_loop *loop, hr_error *error)
{
    const hr_status status = check_caller(loop, error);
    if (status < 0)
        return status;
    eventfd_t count;
    eventfd_read(loop->event_fd, &count); /* EAGAIN: nothing was announced */
    clear_timer(loop);
    const uint64_t now_ns = hr__now_ns();
    const uint64_t done_ns = hr__loop_done_ns(loop, now_ns);
    loop->done_ns = done_ns < now_ns ? done_ns : 0;
    hr__inbox_drain(&loop->inbox);
    loop->io->ops->reap(loop->io);
    loop->done_ns = 0;
    bool unfinished = false;
    for (hr_pipeline *p = loop->pipelines; p; p = p->next)
        unfinished |= hr__sched_pump(p);
    loop->io->ops->flush(loop->io);
    set_timer(loop);
    loop->armed = false;
    loop->left_ns = hr__now_ns();
    return unfinished ? HR_PENDING : HR_OK;
}

hr_status hr_loop_arm(hr_loop *loop)
{
    struct pollfd event = {.fd = loop->wait_fd, .events = POLLIN};
    const bool nothing = poll(&event, 1, 0) <= 0;
    loop->armed |= nothing;
    return nothing ? HR_OK : HR_PENDING;
}

int hr_loop_fd(const hr_loop *loop)
{
    return loop->wait_fd;
}

/* Who was away for long first looks whether something got done meanwhile. */
static void note_return(hr_loop *loop)
{
    const uint64_t now_ns = hr__now_ns();
    if (hr__loop_done_ns(loop, now_ns) < now_ns)
        (void)!hr_loop_arm(loop);
    else
        loop->armed = true;
}

/* Sleeps until the eventfd is written. A signal ends no sleep early: the time limit goes on. */
static void sleep_until_event(hr_loop *loop, int timeout_ms)
{
    const uint64_t start = hr__now_ns();
    for (int left = timeout_ms;;) {
        struct pollfd event = {.fd = loop->wait_fd, .events = POLLIN};
        if (poll(&event, 1, left) >= 0 || errno != EINTR)
            return;
        if (timeout_ms >= 0) {
            const uint64_t gone = (hr__now_ns() - start) / 1000000u;
            left = gone < (uint64_t)timeout_ms ? timeout_ms - (int)gone : 0;
        }
    }
}

static bool has_unfinished(const hr_loop *loop)
{
    const hr_pipeline *p = loop->pipelines;
    while (p && p->finished)
        p = p->next;
    return p != NULL;
}

hr_status hr_loop_poll(hr_loop *loop, int timeout_ms, hr_error *error)
{
    const hr_status status = check_caller(loop, error);
    if (status < 0)
        return status;
    if (timeout_ms != 0 && has_unfinished(loop)) {
        note_return(loop);
        sleep_until_event(loop, timeout_ms);
    }
    return hr_loop_step(loop, error); /* it may have been taken during the sleep */
}
