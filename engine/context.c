// SPDX-License-Identifier: Apache-2.0
#include "context.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "status.h"

static const uint64_t default_max_memory = 1ull << 30;

bool hr__copy_struct(void *to, size_t size, const void *from)
{
    uint32_t given;
    memcpy(&given, from, sizeof given);
    if (given < sizeof given)
        return false;
    for (size_t i = size; i < given; i++)
        if (((const unsigned char *)from)[i])
            return false;
    memset(to, 0, size);
    memcpy(to, from, given < size ? given : size);
    return true;
}

static unsigned usable_cpus(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1; /* more CPUs than cpu_set_t holds, or not offered: still right, only slower */
    const int n = CPU_COUNT(&set);
    return n > 0 ? (unsigned)n : 1;
}

hr_status hr_context_create(const struct hr_context_config *user_config, hr_context **out,
                            hr_error *error)
{
    struct hr_context_config config = {.struct_size = sizeof config};
    if (!out)
        return hr__fail(error, HR_EINVAL, (struct hr__where){0}, "context: out is NULL");
    if (user_config && !hr__copy_struct(&config, sizeof config, user_config))
        return hr__fail(error, HR_EINVAL, (struct hr__where){0},
                        "context: struct_size is not set, or the config has fields that this "
                        "version (%s) does not know",
                        hr_version());
    const unsigned n_threads = config.n_threads ? config.n_threads : usable_cpus();
    if (n_threads > 4096)
        return hr__fail(error, HR_EINVAL, (struct hr__where){0},
                        "context: %u threads asked for, at most 4096 are possible", n_threads);

    hr_context *context = calloc(1, sizeof *context);
    if (!context)
        return hr__fail(error, HR_ENOMEM, (struct hr__where){0}, "context: out of memory");
    context->pid = getpid();
    context->log = config.log;
    context->log_user = config.log_user;
    atomic_init(&context->holders, 1);
    int rc = hr__memory_init(&context->memory,
                             config.max_memory ? config.max_memory : default_max_memory);
    if (rc)
        goto free_context;
    rc = hr__pool_create(n_threads, &context->pool);
    if (rc)
        goto destroy_memory;
    pthread_mutex_init(&context->devices_lock, NULL);
    pthread_mutex_init(&context->log_lock, NULL);
#if HR_HAVE_ZSTD
    hr__codecs_init(&context->codecs, n_threads);
#endif
    *out = context;
    return HR_OK;

destroy_memory:
    hr__memory_destroy(&context->memory);
free_context:
    free(context);
    return hr__fail(error, HR_ENOMEM, (struct hr__where){.native = rc},
                    "context: %u worker threads could not be started: %s; set n_threads lower",
                    n_threads, strerror(rc));
}

hr_status hr__check_process(pid_t maker, const char *thing, hr_error *error)
{
    if (getpid() == maker)
        return HR_OK;
    return hr__fail(error, HR_EFORK, (struct hr__where){0},
                    "%s: made by process %d and used in its child %d after fork; make a new one "
                    "there, or start children by \"spawn\"",
                    thing, (int)maker, (int)getpid());
}

void hr__context_hold(hr_context *context)
{
    atomic_fetch_add_explicit(&context->holders, 1, memory_order_relaxed);
}

void hr_context_free(hr_context *context)
{
    if (context && getpid() != context->pid)
        return; /* in a forked child the workers are not there to be joined */
    /* acq_rel: the last holder sees what the others wrote */
    if (!context || atomic_fetch_sub_explicit(&context->holders, 1, memory_order_acq_rel) != 1)
        return;
    hr__pool_free(context->pool);
    hr__memory_destroy(&context->memory);
#if HR_HAVE_ZSTD
    hr__codecs_destroy(&context->codecs);
#endif
    while (context->devices) {
        struct hr__open_device *open = context->devices;
        context->devices = open->next;
        open->device->ops->close(open->device);
        free(open);
    }
    pthread_mutex_destroy(&context->devices_lock);
    pthread_mutex_destroy(&context->log_lock);
    free(context);
}

/* Pipelines do not copy to a device's own memory yet: "auto" passes such a device by. */
static hr_status open_usable(const char *name, struct hr__device **out, char *why, size_t why_size,
                             hr_error *error)
{
    const hr_status status = hr__device_open(name, out, why, why_size, error);
    if (status < 0 || (*out)->ops->info(*out)->host_memory)
        return status;
    (*out)->ops->close(*out);
    if (strcmp(name, "auto") != 0)
        return hr__fail(error, HR_EUNSUPPORTED, (struct hr__where){0},
                        "device %s is there, but pipelines of this version (%s) run on the host "
                        "only; name \"host\"",
                        name, hr_version());
    snprintf(why, why_size, "pipelines of this version run there only");
    char ignored[1];
    return hr__device_open("host", out, ignored, sizeof ignored, error);
}

/* Under devices_lock. Opening may take long, and others wait; but it is done once. */
static hr_status open_device(hr_context *context, const char *name, struct hr__device **out,
                             hr_error *error)
{
    char why[HR_ERROR_TEXT];
    struct hr__open_device *open = calloc(1, sizeof *open);
    if (!open)
        return hr__fail(error, HR_ENOMEM, (struct hr__where){0}, "device: out of memory");
    const hr_status status = open_usable(name, &open->device, why, sizeof why, error);
    if (status < 0) {
        free(open);
        return status;
    }
    if (*why)
        hr__context_log(context, "device auto is the host: %s", why);
    snprintf(open->name, sizeof open->name, "%s", name);
    open->next = context->devices;
    context->devices = open;
    *out = open->device;
    return HR_OK;
}

hr_status hr__context_device(hr_context *context, const char *name, struct hr__device **out,
                             hr_error *error)
{
    hr_status status = HR_OK;
    pthread_mutex_lock(&context->devices_lock);
    struct hr__open_device *open = context->devices;
    while (open && strcmp(open->name, name) != 0)
        open = open->next;
    if (open)
        *out = open->device;
    else
        status = open_device(context, name, out, error);
    pthread_mutex_unlock(&context->devices_lock);
    return status;
}

void hr__context_log(hr_context *context, const char *format, ...)
{
    if (!context->log)
        return;
    char line[HR_ERROR_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    pthread_mutex_lock(&context->log_lock);
    context->log(context->log_user, line);
    pthread_mutex_unlock(&context->log_lock);
}
