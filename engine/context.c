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

void hr_context_hold(hr_context *context)
{
    atomic_fetch_add_explicit(&context->holders, 1, memory_order_relaxed);
}

static void free_devices(hr_context *context)
{
    while (context->names) {
        struct hr__device_name *name = context->names;
        context->names = name->next;
        free(name);
    }
    while (context->stores) {
        struct hr__store *store = context->stores;
        context->stores = store->next;
        hr__store_free(store);
    }
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
    free_devices(context);
    pthread_mutex_destroy(&context->devices_lock);
    pthread_mutex_destroy(&context->log_lock);
    free(context);
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
