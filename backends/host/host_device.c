// SPDX-License-Identifier: Apache-2.0
/* The host device itself: what is told of it, its memory, and the tables that the engine calls. */
#include "host_stream.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "status.h"

enum { MEMORY_ALIGNMENT = 256, MIN_STREAMS = 2, MAX_STREAMS = 4, MIN_WORKERS = 2 };

/* x86 has the line "model name" there; other machines tell no name. */
static void read_title(char title[HR__DEVICE_TEXT])
{
    char line[512];
    FILE *file = fopen("/proc/cpuinfo", "re");
    snprintf(title, HR__DEVICE_TEXT, "CPU");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "model name : %127[^\n]", title) == 1)
            break;
    }
    if (file)
        fclose(file);
}

static unsigned count_cpus(void)
{
    cpu_set_t usable;
    return sched_getaffinity(0, sizeof usable, &usable) == 0 ? (unsigned)CPU_COUNT(&usable) : 1;
}

/* Few: built-in kernels are bound by memory, and the CPU workers want their share. At least two, so
 * that one long chunk does not hold up all. */
static uint32_t choose_streams(void)
{
    const unsigned n = count_cpus();
    if (n > MAX_STREAMS)
        return MAX_STREAMS;
    return n < MIN_STREAMS ? MIN_STREAMS : n;
}

/* One for each CPU. At least two, because a function of the user may sleep. */
static unsigned choose_workers(void)
{
    const unsigned n = count_cpus();
    return n < MIN_WORKERS ? MIN_WORKERS : n;
}

static unsigned count(char *why, size_t why_size)
{
    if (why_size > 0)
        why[0] = '\0';
    return 1;
}

static void describe(unsigned index, struct hr__device_info *out)
{
    (void)index; /* there is one */
    const long n_pages = sysconf(_SC_PHYS_PAGES);
    const long page_bytes = sysconf(_SC_PAGESIZE);
    *out = (struct hr__device_info){
        .name = "host",
        .memory_bytes =
            n_pages > 0 && page_bytes > 0 ? (uint64_t)n_pages * (uint64_t)page_bytes : 0,
        .host_memory = true,
        .kernel_alignment = 1,
        .n_streams = choose_streams(),
        .n_at_once = choose_workers(),
    };
    read_title(out->title);
}

static void free_device(struct hr__host_device *host)
{
    pthread_cond_destroy(&host->work);
    pthread_mutex_destroy(&host->lock);
    free(host);
}

static hr_status open_device(unsigned index, struct hr__device **out, hr_error *error)
{
    struct hr__host_device *host = calloc(1, sizeof *host);
    if (!host)
        return hr__fail(error, HR_ENOMEM, (struct hr__where){0}, "no memory for the host device");
    host->base.ops = &hr__host_ops;
    describe(index, &host->info);
    host->pid = getpid();
    pthread_mutex_init(&host->lock, NULL);
    pthread_cond_init(&host->work, NULL);
    const int rc = hr__host_workers_start(host, choose_workers());
    if (rc != 0) {
        free_device(host);
        return hr__fail(error, HR_ENOMEM, (struct hr__where){.native = rc},
                        "no threads for the host device: %s", strerror(rc));
    }
    *out = &host->base;
    return HR_OK;
}

/* In a forked child the workers are not there to be joined, and the lock may be held for ever by
 * one of them: the memory is left. */
static void close_device(struct hr__device *device)
{
    struct hr__host_device *host = (struct hr__host_device *)device;
    if (host->pid != getpid())
        return;
    hr__host_workers_stop(host);
    free_device(host);
}

static const struct hr__device_info *info(const struct hr__device *device)
{
    return &((const struct hr__host_device *)device)->info;
}

static hr_status alloc(struct hr__device *device, size_t size, void **out, hr_error *error)
{
    (void)device;
    if (posix_memalign(out, MEMORY_ALIGNMENT, size > 0 ? size : 1) != 0)
        return hr__fail(error, HR_ENOMEM, (struct hr__where){0},
                        "no memory for %zu bytes of the host device", size);
    return HR_OK;
}

static void free_memory(struct hr__device *device, void *memory)
{
    (void)device;
    free(memory);
}

/* Nothing of pins, kinds of memory and streams of others: that is not called where device memory is
 * host memory. */
const struct hr__device_ops hr__host_ops = {
    .close = close_device,
    .info = info,
    .alloc = alloc,
    .free = free_memory,
    .stream_create = hr__host_stream_create,
    .stream_destroy = hr__host_stream_destroy,
    .stream_handle = hr__host_stream_handle,
    .event_create = hr__host_event_create,
    .event_destroy = hr__host_event_destroy,
    .kernel_create = hr__host_kernel_create,
    .kernel_destroy = hr__host_kernel_destroy,
    .kernel_info = hr__host_kernel_info,
    .copy = hr__host_stream_copy,
    .launch = hr__host_stream_launch,
    .record = hr__host_stream_record,
    .wait = hr__host_stream_wait,
    .query = hr__host_event_query,
    .notify = hr__host_event_notify,
    .elapsed_ns = hr__host_event_elapsed_ns,
    .measure = hr__host_measure,
};

const struct hr__backend hr__host_backend = {
    .name = "host",
    .count = count,
    .describe = describe,
    .open = open_device,
};
