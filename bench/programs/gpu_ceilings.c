// SPDX-License-Identifier: Apache-2.0
#include "gpu_ceilings.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "gpu_parts.h"

enum {
    STREAM_NON_BLOCKING = 1, /* CU_STREAM_NON_BLOCKING */
    CLEAR_BYTE = 0x5a,
    CLEAR_WORD = 0x5a5a5a5a,
    D2D_PASSES = 8 /* a copy on the device is short */
};

const struct ceiling ceilings[N_CEILINGS] = {
    [H2D_SMALL] = {"H2D, 4 MiB", CEILING_H2D, 4 << 20},
    [H2D_LARGE] = {"H2D, 64 MiB", CEILING_H2D, 64 << 20},
    [D2H_SMALL] = {"D2H, 4 MiB", CEILING_D2H, 4 << 20},
    [D2H_LARGE] = {"D2H, 64 MiB", CEILING_D2H, 64 << 20},
    [BOTH_SMALL] = {"both directions, 4 MiB", CEILING_BOTH, 4 << 20},
    [BOTH_LARGE] = {"both directions, 64 MiB", CEILING_BOTH, 64 << 20},
    [D2D_SMALL] = {"D2D, 4 MiB", CEILING_D2D, 4 << 20},
    [D2D_LARGE] = {"D2D, 64 MiB", CEILING_D2D, 64 << 20},
};

/* ---- the driver ---- */

/* X(field, symbol, parameters), as of cuda.h; each returns a CUresult. */
#define DRIVER_CALLS(X)                                                                            \
    X(init, "cuInit", (unsigned))                                                                  \
    X(error_text, "cuGetErrorString", (int, const char **))                                        \
    X(device_get, "cuDeviceGet", (int *, int))                                                     \
    X(context_retain, "cuDevicePrimaryCtxRetain", (void **, int))                                  \
    X(context_release, "cuDevicePrimaryCtxRelease_v2", (int))                                      \
    X(context_push, "cuCtxPushCurrent_v2", (void *))                                               \
    X(context_pop, "cuCtxPopCurrent_v2", (void **))                                                \
    X(stream_create, "cuStreamCreate", (void **, unsigned))                                        \
    X(stream_destroy, "cuStreamDestroy_v2", (void *))                                              \
    X(synchronize, "cuStreamSynchronize", (void *))                                                \
    X(h2d, "cuMemcpyHtoDAsync_v2", (uint64_t, const void *, size_t, void *))                       \
    X(d2h, "cuMemcpyDtoHAsync_v2", (void *, uint64_t, size_t, void *))                             \
    X(d2d, "cuMemcpyDtoDAsync_v2", (uint64_t, uint64_t, size_t, void *))                           \
    X(set, "cuMemsetD32Async", (uint64_t, unsigned, size_t, void *))

static struct {
#define DRIVER_FIELD(field, symbol, parameters) int(*field) parameters;
    DRIVER_CALLS(DRIVER_FIELD)
#undef DRIVER_FIELD
    void *library; /* NULL: the device is the host */
    int device;
    void *to_device; /* streams */
    void *from_device;
} driver;

static void check(int result, const char *what)
{
    const char *text = NULL;
    if (result == 0)
        return;
    if (driver.error_text(result, &text) != 0 || !text)
        text = "unknown error";
    stop(what, text);
}

static void find_calls(void)
{
    void *found = NULL;
#define DRIVER_FIND(field, symbol, parameters)                                                     \
    found = dlsym(driver.library, symbol);                                                         \
    if (!found)                                                                                    \
        stop(symbol, "the driver has no such call");                                               \
    memcpy(&driver.field, &found, sizeof found);
    DRIVER_CALLS(DRIVER_FIND)
#undef DRIVER_FIND
}

void driver_open(const char *device)
{
    void *context = NULL;
    driver.library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!driver.library)
        stop(device, dlerror());
    find_calls();
    check(driver.init(0), "cuInit");
    check(driver.device_get(&driver.device, (int)strtol(device + strlen("cuda:"), NULL, 10)),
          "cuDeviceGet");
    check(driver.context_retain(&context, driver.device), "cuDevicePrimaryCtxRetain");
    check(driver.context_push(context), "cuCtxPushCurrent");
    check(driver.stream_create(&driver.to_device, STREAM_NON_BLOCKING), "cuStreamCreate");
    check(driver.stream_create(&driver.from_device, STREAM_NON_BLOCKING), "cuStreamCreate");
}

void driver_close(void)
{
    void *context = NULL;
    if (!driver_is_open())
        return;
    check(driver.stream_destroy(driver.to_device), "cuStreamDestroy");
    check(driver.stream_destroy(driver.from_device), "cuStreamDestroy");
    check(driver.context_pop(&context), "cuCtxPopCurrent");
    check(driver.context_release(driver.device), "cuDevicePrimaryCtxRelease");
    dlclose(driver.library);
    driver.library = NULL;
}

bool driver_is_open(void)
{
    return driver.library;
}

/* ---- memory of the device ---- */

static uint64_t address(const unsigned char *there)
{
    return (uintptr_t)there;
}

static void wait_for_all(void)
{
    check(driver.synchronize(driver.to_device), "copies to the device");
    check(driver.synchronize(driver.from_device), "copies from the device");
}

void there_clear(unsigned char *there, uint64_t size)
{
    if (!driver_is_open()) {
        set_bytes(there, CLEAR_BYTE, size);
        return;
    }
    check(driver.set(address(there), CLEAR_WORD, size / 4, driver.to_device), "cuMemsetD32Async");
    wait_for_all();
}

void there_put(unsigned char *there, const unsigned char *from, uint64_t size)
{
    if (!driver_is_open()) {
        memcpy(there, from, size);
        return;
    }
    check(driver.h2d(address(there), from, size, driver.to_device), "cuMemcpyHtoDAsync");
    wait_for_all();
}

void there_get(unsigned char *to, const unsigned char *there, uint64_t size)
{
    if (!driver_is_open()) {
        memcpy(to, there, size);
        return;
    }
    check(driver.d2h(to, address(there), size, driver.from_device), "cuMemcpyDtoHAsync");
    wait_for_all();
}

/* ---- ceilings ---- */

static bool goes_in(const struct ceiling *one)
{
    return one->way == CEILING_H2D || one->way == CEILING_BOTH;
}

static bool comes_back(const struct ceiling *one)
{
    return one->way == CEILING_D2H || one->way == CEILING_BOTH;
}

uint64_t ceiling_bytes(const struct ceiling *one, const struct areas *a)
{
    if (one->way == CEILING_D2D)
        return 2 * D2D_PASSES * a->size;
    return one->way == CEILING_BOTH ? 2 * a->size : a->size;
}

void ceiling_prepare(const struct ceiling *one, const struct areas *a)
{
    if (goes_in(one))
        there_clear(a->there, a->size);
    if (comes_back(one)) {
        there_put(a->there_too, a->in, a->size);
        set_bytes(a->out, CLEAR_BYTE, a->size);
    }
    if (one->way == CEILING_D2D) {
        there_put(a->there, a->in, a->size);
        there_clear(a->there_too, a->size);
    }
}

static void copy_all(const struct ceiling *one, const struct areas *a)
{
    for (uint64_t at = 0; at < a->size; at += one->piece_size) {
        const uint64_t left = a->size - at;
        const size_t n = left < one->piece_size ? left : one->piece_size;
        if (goes_in(one))
            check(driver.h2d(address(a->there) + at, a->in + at, n, driver.to_device), one->name);
        if (comes_back(one))
            check(driver.d2h(a->out + at, address(a->there_too) + at, n, driver.from_device),
                  one->name);
        if (one->way == CEILING_D2D)
            check(
                driver.d2d(address(a->there_too) + at, address(a->there) + at, n, driver.to_device),
                one->name);
    }
}

void ceiling_run(const struct ceiling *one, const struct areas *a)
{
    const int n_passes = one->way == CEILING_D2D ? D2D_PASSES : 1;
    for (int i = 0; i < n_passes; i++)
        copy_all(one, a);
    wait_for_all();
}

struct comparison {
    const struct ceiling *ceiling;
    const struct areas *areas;
};

static void compare_part(const void *work, uint64_t begin, uint64_t end)
{
    const struct comparison *c = work;
    if (memcmp(c->areas->out + begin, c->areas->in + begin, end - begin) != 0)
        stop(c->ceiling->name, "other bytes arrived than were sent");
}

static void compare(const struct ceiling *one, const struct areas *a)
{
    const struct comparison comparison = {.ceiling = one, .areas = a};
    in_parts(compare_part, &comparison, a->size);
}

void ceiling_verify(const struct ceiling *one, const struct areas *a)
{
    if (comes_back(one))
        compare(one, a);
    if (one->way == CEILING_D2H)
        return;
    there_get(a->out, one->way == CEILING_D2D ? a->there_too : a->there, a->size);
    compare(one, a);
}
