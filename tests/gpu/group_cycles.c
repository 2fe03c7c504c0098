// SPDX-License-Identifier: Apache-2.0
/* Created, run and freed again and again: neither memory of the host nor of the GPU goes away. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chains.h"
#include "transfers.h"
#include "trials.h"

enum { SIZE = 720 * 400, MAX_LOST = 8 << 20, SETTLED = 100 };

/* ---- what there is ---- */

static uint64_t resident_bytes(void)
{
    unsigned long long total = 0;
    unsigned long long resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%llu %llu", &total, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Memory in use of the GPU's primary context, as its driver counts it; 0: not known. */
static uint64_t device_bytes(int index)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    int (*retain)(void **, int) = NULL;
    int (*release)(int) = NULL;
    int (*push)(void *) = NULL;
    int (*pop)(void **) = NULL;
    int (*info)(size_t *, size_t *) = NULL;
    void *context = NULL;
    size_t free_bytes = 0;
    size_t total = 0;
    if (!library)
        return 0;
    *(void **)&retain = dlsym(library, "cuDevicePrimaryCtxRetain");
    *(void **)&release = dlsym(library, "cuDevicePrimaryCtxRelease_v2");
    *(void **)&push = dlsym(library, "cuCtxPushCurrent_v2");
    *(void **)&pop = dlsym(library, "cuCtxPopCurrent_v2");
    *(void **)&info = dlsym(library, "cuMemGetInfo_v2");
    if (retain && release && push && pop && info && retain(&context, index) == 0) {
        if (push(context) == 0 && info(&free_bytes, &total) == 0)
            pop(&context);
        release(index);
    }
    dlclose(library);
    return total - free_bytes;
}

struct level {
    uint64_t host;
    uint64_t device;
    unsigned files;
};

static struct level measure(const struct bed *bed)
{
    const char *number = strchr(bed->device, ':');
    return (struct level){.host = resident_bytes(),
                          .device = bed->is_gpu ? device_bytes(number ? atoi(number + 1) : 0) : 0,
                          .files = count_open_files()};
}

/* A sanitizer keeps what was freed. */
static bool host_memory_counts(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return false;
#else
    return true;
#endif
}

static void expect_level(struct bed *bed, const char *what, const struct level *from)
{
    const struct level to = measure(bed);
    const uint64_t host = to.host > from->host ? to.host - from->host : 0;
    const uint64_t device = to.device > from->device ? to.device - from->device : 0;
    expect(bed, !host_memory_counts() || host <= MAX_LOST, "%s: %llu KiB of the host are lost",
           what, (unsigned long long)host / 1024);
    expect(bed, device <= MAX_LOST, "%s: %llu KiB of the device are lost", what,
           (unsigned long long)device / 1024);
    expect(bed, to.files <= from->files, "%s: %u files are open, %u were", what, to.files,
           from->files);
}

/* ---- the cycles ---- */

static void run_one(struct bed *bed, const unsigned char *bytes,
                    const struct trial_outcome *expected, unsigned i)
{
    static const enum from froms[] = {FROM_MEMORY, FROM_PINNED, FROM_FILE, FROM_DEVICE};
    static const enum to tos[] = {TO_GROWING, TO_CALLBACK, TO_LOANS, TO_DEVICE, TO_PINNED};
    struct trial_outcome got;
    const struct trial trial = {.from = froms[i % 4],
                                .to = tos[i % 5],
                                .bytes = bytes,
                                .size = SIZE,
                                .room = expected->size,
                                .chunk_size = 65536,
                                .kernels = {"cast:u8,f32", "filter:f32,lt,99", "sum:f32"}};
    trial_run(bed, &trial, bed->device, &got);
    expect_same(bed, &trial, bed->device, expected, &got);
    free(got.bytes);
}

static void cycle_pipelines(struct bed *bed, const unsigned char *bytes,
                            const struct trial_outcome *expected)
{
    const unsigned settled = bed->n_cycles > 2 * SETTLED ? SETTLED : bed->n_cycles / 2;
    struct level level = measure(bed);
    for (unsigned i = 0; i < bed->n_cycles; i++) {
        if (i == settled)
            level = measure(bed);
        run_one(bed, bytes, expected, i);
    }
    expect_level(bed, "pipelines on one context", &level);
}

/* The bed's own context is gone, so that the device is closed and opened each time. */
static void cycle_contexts(struct bed *bed, const unsigned char *bytes,
                           const struct trial_outcome *expected)
{
    const unsigned n = bed->n_cycles / 10 > 10 ? bed->n_cycles / 10 : 10;
    struct level level = measure(bed);
    for (unsigned i = 0; i < n; i++) {
        if (i == n / 2)
            level = measure(bed);
        struct bed fresh = *bed;
        hr_error error = {0};
        const hr_status status = hr_context_create(NULL, &fresh.context, &error);
        expect(bed, status == HR_OK, "a context: %s", error.text);
        if (status != HR_OK)
            return;
        fresh.loop = bed_loop(fresh.context);
        run_one(&fresh, bytes, expected, i);
        hr_loop_free(fresh.loop);
        hr_context_free(fresh.context);
        bed->n_trials = fresh.n_trials;
        bed->n_differ = fresh.n_differ;
    }
    expect_level(bed, "fresh contexts", &level);
}

void group_cycles(struct bed *bed)
{
    struct trial_outcome expected;
    unsigned char *bytes = test_bytes(SIZE);
    const struct trial trial = {
        .bytes = bytes, .size = SIZE, .kernels = {"cast:u8,f32", "filter:f32,lt,99", "sum:f32"}};
    trial_reference(bed, &trial, &expected);
    cycle_pipelines(bed, bytes, &expected);
    hr_loop_free(bed->loop);
    hr_context_free(bed->context);
    bed->loop = NULL;
    bed->context = NULL;
    cycle_contexts(bed, bytes, &expected);
    free(expected.bytes);
    free(bytes);
}
