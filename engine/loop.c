// SPDX-License-Identifier: Apache-2.0
/* Everything that can end a sleep (a completion, a finished job, a cancel) writes to the loop's one
 * eventfd. A step empties it first and looks at the causes after, so nothing is missed. */
#include "loop.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "clock.h"
#include "pipeline.h"
#include "sched.h"
#include "status.h"
#include "wake.h"

static const struct hr__where nowhere;

_Static_assert((int)HR__MAX_INDEX == (int)HR__IO_REGIONS, "an index of lease.h is one of io.h");

static hr_status create_io(hr_loop *loop, const struct hr_loop_config *config, hr_error *error)
{
    const struct hr__io_config io_config = {
        .entries = config->io_entries ? config->io_entries : 64,
        .threads = config->io_threads ? config->io_threads : 4,
        .event_fd = loop->event_fd,
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

    hr_status status = HR_OK;
    hr_loop *loop = calloc(1, sizeof *loop);
    if (!loop)
        return hr__fail(error, HR_ENOMEM, nowhere, "loop: out of memory");
    loop->pid = getpid();
    loop->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (loop->event_fd < 0) {
        status = hr__fail(error, HR_EIO, (struct hr__where){.native = errno},
                          "loop: eventfd: %s; raise the limit of open files (ulimit -n)",
                          strerror(errno));
        goto free_loop;
    }
    hr__inbox_init(&loop->inbox, loop->event_fd);
    if (context) {
        hr__context_hold(context);
        loop->context = context;
    } else if ((status = hr_context_create(NULL, &loop->context, error)) < 0) {
        goto close_event;
    }
    if ((status = create_io(loop, &config, error)) < 0)
        goto release_context;
    *out = loop;
    return HR_OK;

release_context:
    hr_context_free(loop->context);
close_event:
    hr__inbox_destroy(&loop->inbox);
    close(loop->event_fd);
free_loop:
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
    close(loop->event_fd);
    free(loop);
}

const char *hr_loop_io(const hr_loop *loop, const char **why)
{
    if (why)
        *why = loop->why_threads;
    return loop->io->ops->name;
}

int hr__loop_region(hr_loop *loop, const struct hr__region *region)
{
    if (!region || region->index < 0)
        return -1;
    const int i = region->index;
    if (loop->generations[i] != region->generation) {
        loop->generations[i] = region->generation;
        loop->registered[i] = loop->io->ops->add_region(loop->io, i, region->memory, region->size);
    }
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
    if (getpid() != loop->pid)
        return hr__fail(error, HR_EFORK, nowhere,
                        "loop: made by process %d and used in its child %d after fork; make a new "
                        "one there, or start children by \"spawn\"",
                        (int)loop->pid, (int)getpid());
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

hr_status hr_loop_step(hr_loop *loop, hr_error *error)
{
    const hr_status status = check_caller(loop, error);
    if (status < 0)
        return status;
    eventfd_t count;
    eventfd_read(loop->event_fd, &count); /* EAGAIN: nothing was announced */
    hr__inbox_drain(&loop->inbox);
    loop->io->ops->reap(loop->io);
    bool unfinished = false;
    for (hr_pipeline *p = loop->pipelines; p; p = p->next)
        unfinished |= hr__sched_pump(p);
    loop->io->ops->flush(loop->io);
    return unfinished ? HR_PENDING : HR_OK;
}

hr_status hr_loop_arm(hr_loop *loop)
{
    struct pollfd event = {.fd = loop->event_fd, .events = POLLIN};
    return poll(&event, 1, 0) > 0 ? HR_PENDING : HR_OK;
}

int hr_loop_fd(const hr_loop *loop)
{
    return loop->event_fd;
}

/* Sleeps until the eventfd is written. A signal ends no sleep early: the time limit goes on. */
static void sleep_until_event(hr_loop *loop, int timeout_ms)
{
    const uint64_t start = hr__now_ns();
    for (int left = timeout_ms;;) {
        struct pollfd event = {.fd = loop->event_fd, .events = POLLIN};
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
    if (timeout_ms != 0 && has_unfinished(loop))
        sleep_until_event(loop, timeout_ms);
    return hr_loop_step(loop, error);
}
