// SPDX-License-Identifier: Apache-2.0
#include "overlap_bare.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "overlap_checks.h"
#include "overlap_line.h"

enum { NON_BLOCKING = 1 }; /* CU_STREAM_NON_BLOCKING, hipStreamNonBlocking */

/* Of cuda.h and hip_runtime_api.h; their pointers and CUdeviceptr are passed alike. */
static struct {
    void *library;
    int (*retain)(void **, int);
    int (*push)(void *);
    int (*set_device)(int);
    int (*stream_create)(void **, unsigned);
    int (*stream_destroy)(void *);
    int (*synchronize)(void *);
    int (*to_device)(void *, const void *, size_t, void *);
    int (*from_device)(void *, const void *, size_t, void *);
} driver;

static void find(const char *symbol, void *call)
{
    void *found = dlsym(driver.library, symbol);
    if (!found)
        stop(symbol, "the driver has no such call");
    memcpy(call, &found, sizeof found);
}

static void must(int result, const char *what)
{
    char text[32];
    snprintf(text, sizeof text, "error %d", result);
    if (result != 0)
        stop(what, text);
}

static void open_first_of(const char *const *names)
{
    while (*names && !(driver.library = dlopen(*names, RTLD_NOW | RTLD_LOCAL)))
        names++;
    if (!driver.library)
        stop("the driver", dlerror());
}

static void open_cuda(int index)
{
    static const char *const names[] = {"libcuda.so.1", NULL};
    void *context = NULL;
    open_first_of(names);
    find("cuDevicePrimaryCtxRetain", &driver.retain);
    find("cuCtxPushCurrent_v2", &driver.push);
    find("cuStreamCreate", &driver.stream_create);
    find("cuStreamDestroy_v2", &driver.stream_destroy);
    find("cuStreamSynchronize", &driver.synchronize);
    find("cuMemcpyHtoDAsync_v2", &driver.to_device);
    find("cuMemcpyDtoHAsync_v2", &driver.from_device);
    must(driver.retain(&context, index), "cuDevicePrimaryCtxRetain");
    must(driver.push(context), "cuCtxPushCurrent");
}

static void open_hip(int index)
{
    static const char *const names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
                                        NULL};
    open_first_of(names);
    find("hipSetDevice", &driver.set_device);
    find("hipStreamCreateWithFlags", &driver.stream_create);
    find("hipStreamDestroy", &driver.stream_destroy);
    find("hipStreamSynchronize", &driver.synchronize);
    find("hipMemcpyHtoDAsync", &driver.to_device);
    find("hipMemcpyDtoHAsync", &driver.from_device);
    must(driver.set_device(index), "hipSetDevice");
}

struct copies {
    int (*copy)(void *, const void *, size_t, void *);
    char *to;
    const char *from;
    size_t bytes;
    unsigned n;
};

static double once(const struct copies *copies, unsigned n, void *stream)
{
    const uint64_t begun = now_ns();
    for (unsigned i = 0; i < n; i++)
        must(copies->copy(copies->to + i * copies->bytes, copies->from + i * copies->bytes,
                          copies->bytes, stream),
             "a copy");
    must(driver.synchronize(stream), "a copy");
    return (double)(now_ns() - begun) / n;
}

/* The first copies do not count: for milliseconds after memory of the device was freed, as a run has
 * just done, copies are slow. */
static double length_of(const struct copies *copies)
{
    const unsigned n_first = copies->n < 2 ? copies->n : 2;
    void *stream = NULL;
    must(driver.stream_create(&stream, NON_BLOCKING), "a stream");
    once(copies, n_first, stream);
    const double length = once(copies, copies->n, stream);
    must(driver.stream_destroy(stream), "a stream");
    return length;
}

struct bare_lengths measure_bare(const char *device, void *host, void *there, size_t bytes,
                                 unsigned n, bool to_device, bool from_device)
{
    const char *index = strchr(device, ':');
    const bool is_hip = strncmp(device, "hip", 3) == 0;
    if (!driver.library)
        (is_hip ? open_hip : open_cuda)(index ? (int)strtol(index + 1, NULL, 10) : 0);
    const struct copies in = {driver.to_device, there, host, bytes, n};
    const struct copies out = {driver.from_device, host, there, bytes, n};
    return (struct bare_lengths){.to_device_ns = to_device ? length_of(&in) : 0,
                                 .from_device_ns = from_device ? length_of(&out) : 0};
}
