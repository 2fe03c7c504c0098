// SPDX-License-Identifier: Apache-2.0
/* run_lend [DEVICE]: what a real driver says of memory (default "cuda"), and the order between the
 * engine's streams and a user's. Much is copied before the bytes that are looked at, so that a wait
 * that is missing shows in them. Exits with 77 where the device is not there, unless HR_REQUIRE names
 * its backend, as in HR_REQUIRE=cuda. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "cuda_driver.h"
#include "device_tools.h"
#include "hip_driver.h"

enum { BYTES = 32 << 20, N_COPIES = 16, LEGACY = 1, PER_THREAD = 2, NO_GPU = 77 };

static const struct hr__gpu_driver *driver;
static struct hr__device *device;
static const struct hr__device_ops *ops;
static struct hr__stream *stream;
static struct hr__event *event;
static void *context;
static unsigned char *in; /* pinned, as out */
static unsigned char *out;
static void *memory; /* of the device */
static unsigned n_failed;

static void expect(bool is, const char *what)
{
    printf("%s %s\n", is ? "ok" : "not ok", what);
    n_failed += !is;
}

static bool open_all(const char *name)
{
    char why[HR_ERROR_TEXT];
    hr_error error;
    if (hr__device_open(name, &device, why, sizeof why, &error) != HR_OK) {
        n_failed += device_is_required(name);
        printf("%s: %s\n", n_failed > 0 ? "not ok the device" : "# left out", error.text);
        return false;
    }
    ops = device->ops;
    in = aligned_alloc(4096, BYTES);
    out = aligned_alloc(4096, BYTES);
    expect(in && out && ops->pin(device, in, BYTES) && ops->pin(device, out, BYTES) &&
               ops->alloc(device, BYTES, &memory, &error) == HR_OK &&
               ops->stream_create(device, HR__STREAM_H2D, &stream, &error) == HR_OK &&
               ops->event_create(device, &event, &error) == HR_OK &&
               driver->context_retain(0, &context) == 0,
           "opened");
    return n_failed == 0;
}

static void close_all(void)
{
    ops->stream_destroy(stream);
    ops->event_destroy(event);
    ops->free(device, memory);
    ops->unpin(device, in);
    ops->unpin(device, out);
    ops->close(device);
    driver->context_release(0);
    free(in);
    free(out);
}

/* ---- memory ---- */

static void expect_kind(const void *at, size_t size, enum hr__memory_kind kind, const char *what)
{
    expect(ops->memory_kind(device, at, size, NULL) == kind, what);
}

static void look_at_memory(void)
{
    enum { PART = 8192 };
    unsigned char *bytes = aligned_alloc(4096, 4 * PART);
    unsigned char *pinned = bytes + PART - 100; /* in the middle of a page */
    expect_kind(NULL, 0, HR__MEMORY_PLAIN, "NULL is plain");
    expect_kind(bytes, PART, HR__MEMORY_PLAIN, "memory is plain");
    expect(ops->pin(device, pinned, PART), "it is pinned");
    expect_kind(pinned, PART, HR__MEMORY_PINNED, "pinned memory is");
    expect_kind(pinned + PART - 1, 1, HR__MEMORY_PINNED, "and so is its last byte");
    expect_kind(pinned, PART + 1, HR__MEMORY_PLAIN, "but not with the byte behind");
    expect_kind(pinned - 1, PART, HR__MEMORY_PLAIN, "nor with that before");
    expect(!ops->pin(device, pinned - 10, PART), "memory that is pinned in part is not pinned");
    expect(ops->pin(device, pinned + PART, PART), "memory behind it is pinned");
    expect_kind(pinned, 2 * PART, HR__MEMORY_PLAIN, "across both it is plain");
    ops->unpin(device, pinned + PART);
    ops->unpin(device, pinned);
    expect_kind(pinned, PART, HR__MEMORY_PLAIN, "and plain again when it is unpinned");
    expect_kind(memory, BYTES, HR__MEMORY_DEVICE, "the device's memory is");
    free(bytes);
}

/* ---- order ---- */

/* The last of the copies brings the value. */
static void prepare(unsigned char value)
{
    memset(in, value, BYTES);
    memset(out, 0, BYTES);
}

static bool has_come(unsigned char value)
{
    return out[0] == value && memcmp(out, out + 1, BYTES - 1) == 0;
}

static void lend_to(void *foreign, unsigned char value, const char *what)
{
    bool ok = true;
    void *before;
    prepare(value);
    for (int i = 0; i < N_COPIES; i++)
        ok = ok && ops->copy(stream, memory, in, BYTES, HR__COPY_H2D, NULL) == HR_OK;
    ok = ok && ops->record(stream, event, NULL) == HR_OK;
    ok = ok && ops->lend(event, foreign, NULL) == HR_OK;
    driver->enter(context, &before);
    ok = ok && driver->copy_d2h(out, (uintptr_t)memory, BYTES, foreign) == 0;
    ok = ok && driver->stream_synchronize(foreign) == 0;
    driver->leave(before);
    expect(ok && has_come(value), what);
}

static void take_back_from(void *foreign, unsigned char value, const char *what)
{
    bool ok = true;
    void *before;
    prepare(value);
    driver->enter(context, &before);
    for (int i = 0; i < N_COPIES; i++)
        ok = ok && driver->copy_h2d((uintptr_t)memory, in, BYTES, foreign) == 0;
    ok = ok && ops->take_back(event, foreign, NULL) == HR_OK;
    driver->leave(before);
    ok = ok && ops->wait(stream, event, NULL) == HR_OK;
    ok = ok && ops->copy(stream, out, memory, BYTES, HR__COPY_D2H, NULL) == HR_OK;
    ok = ok && ops->record(stream, event, NULL) == HR_OK;
    ok = ok && ops->lend(event, NULL, NULL) == HR_OK;
    ok = ok && ops->query(event, NULL) == HR_OK;
    expect(ok && has_come(value), what);
}

/* One event stands for both: the stream with nothing to do waits for it before it is its own. */
static void take_back_from_two(void *busy, void *idle, unsigned char value, const char *what)
{
    bool ok = true;
    void *before;
    prepare(value);
    driver->enter(context, &before);
    for (int i = 0; i < N_COPIES; i++)
        ok = ok && driver->copy_h2d((uintptr_t)memory, in, BYTES, busy) == 0;
    ok = ok && ops->take_back(event, busy, NULL) == HR_OK;
    ok = ok && ops->lend(event, idle, NULL) == HR_OK;
    ok = ok && ops->take_back(event, idle, NULL) == HR_OK;
    driver->leave(before);
    ok = ok && ops->wait(stream, event, NULL) == HR_OK;
    ok = ok && ops->copy(stream, out, memory, BYTES, HR__COPY_D2H, NULL) == HR_OK;
    ok = ok && ops->record(stream, event, NULL) == HR_OK;
    ok = ok && ops->lend(event, NULL, NULL) == HR_OK;
    expect(ok && has_come(value), what);
}

/* HIP has a handle of the default stream in its latest versions only. */
int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "cuda";
    const bool is_hip = strncmp(name, "hip", strlen("hip")) == 0;
    void *foreign = NULL;
    void *other = NULL;
    void *before;
    driver = is_hip ? &hr__hip_table : &hr__cuda_table;
    if (!open_all(name))
        return n_failed > 0 ? EXIT_FAILURE : NO_GPU;
    look_at_memory();
    driver->enter(context, &before);
    expect(driver->stream_create(&foreign) == 0, "a user's stream");
    expect(driver->stream_create(&other) == 0, "and another");
    driver->leave(before);
    lend_to(foreign, 1, "the user's stream waits");
    take_back_from(foreign, 2, "the engine waits for the user's stream");
    if (!is_hip) {
        lend_to((void *)LEGACY, 3, "the default stream waits");
        take_back_from((void *)LEGACY, 4, "the engine waits for the default stream");
    }
    lend_to((void *)PER_THREAD, 5, "the thread's default stream waits");
    take_back_from((void *)PER_THREAD, 6, "the engine waits for the thread's default stream");
    take_back_from_two(foreign, other, 7, "the engine waits for two of the user's streams");
    if (!is_hip)
        take_back_from_two(foreign, (void *)LEGACY, 8, "and for one and the default stream");
    driver->enter(context, &before);
    expect(driver->event_query(ops->event_handle(event)) == 0,
           "the event's handle is the driver's");
    driver->stream_destroy(foreign);
    driver->stream_destroy(other);
    driver->leave(before);
    close_all();
    return n_failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
