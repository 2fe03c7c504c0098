// SPDX-License-Identifier: Apache-2.0
/* Memory of the device, and host memory that the driver knows.
 *
 * Host memory that somebody else registered is used as it is, and is not ours to unregister; what
 * we registered for several users stays until the last of them. */
#include <stdlib.h>

#include "gpu_device.h"

hr_status hr__gpu_alloc(struct hr__device *base, size_t size, void **out, hr_error *error)
{
    struct hr__gpu_device *device = (struct hr__gpu_device *)base;
    struct hr__gpu_visit visit;
    uint64_t memory = 0;
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    const hr_status status = hr__gpu_enter(device, &visit, error);
    if (status != HR_OK)
        return status;
    const int native = device->driver->alloc(&memory, size > 0 ? size : 1);
    if (native != 0)
        device->driver->memory_info(&free_bytes, &total_bytes);
    hr__gpu_leave(device, &visit);
    if (native != 0)
        return hr__gpu_fail(device, HR_STAGE_NONE, native, error,
                            "%zu bytes of device memory asked for, %llu of %llu free", size,
                            (unsigned long long)free_bytes, (unsigned long long)total_bytes);
    *out = (void *)(uintptr_t)memory;
    return HR_OK;
}

void hr__gpu_free(struct hr__device *base, void *memory)
{
    struct hr__gpu_device *device = (struct hr__gpu_device *)base;
    struct hr__gpu_visit visit;
    if (!memory || !hr__gpu_enter_to_free(device, &visit))
        return;
    device->driver->free((uint64_t)(uintptr_t)memory);
    hr__gpu_leave(device, &visit);
}

struct hr__gpu_pin {
    void *memory;
    unsigned n_users;
    bool is_ours;
    struct hr__gpu_pin *next;
};

static struct hr__gpu_pin **find_pin(struct hr__gpu_device *device, const void *memory)
{
    struct hr__gpu_pin **at = &device->pins;
    while (*at && (*at)->memory != memory)
        at = &(*at)->next;
    return at;
}

/* Notes a user of memory that is registered. *spare becomes the note, or stays the caller's. */
static void note_pin(struct hr__gpu_device *device, struct hr__gpu_pin **spare)
{
    pthread_mutex_lock(&device->lock);
    struct hr__gpu_pin **known = find_pin(device, (*spare)->memory);
    if (*known) {
        (*known)->n_users++;
    } else {
        *known = *spare;
        *spare = NULL;
    }
    pthread_mutex_unlock(&device->lock);
}

/* Of both ends. Drivers refuse a copy that begins in one registration and ends behind it, even if
 * another one begins there, so that pinned is what one of them has all of. Device memory may be
 * mapped piece by piece. Inside of the context. */
static enum hr__memory_kind kind_of(const struct hr__gpu_device *device, const void *memory,
                                    size_t size, hr_error *error)
{
    const char *first_byte = memory;
    const char *last_byte = first_byte + (size > 0 ? size - 1 : 0);
    struct hr__gpu_home first;
    struct hr__gpu_home last;
    int native = device->driver->memory_home(device->index, first_byte, &first);
    if (native == 0)
        native = device->driver->memory_home(device->index, last_byte, &last);
    if (native != 0) {
        hr__gpu_fail(device, HR_STAGE_NONE, native, error, "asking whose memory is at %p", memory);
        return HR__MEMORY_UNKNOWN;
    }
    if (first.kind != last.kind)
        return HR__MEMORY_PLAIN;
    if (first.kind == HR__MEMORY_PINNED && first.begin != last.begin)
        return HR__MEMORY_PLAIN;
    return first.kind;
}

enum hr__memory_kind hr__gpu_memory_kind(struct hr__device *base, const void *memory, size_t size,
                                         hr_error *error)
{
    struct hr__gpu_device *device = (struct hr__gpu_device *)base;
    struct hr__gpu_visit visit;
    if (hr__gpu_enter(device, &visit, error) != HR_OK)
        return HR__MEMORY_UNKNOWN;
    const enum hr__memory_kind kind = kind_of(device, memory, size, error);
    hr__gpu_leave(device, &visit);
    return kind;
}

/* Memory of which only a part was registered before is refused: copies of it would be. */
bool hr__gpu_pin(struct hr__device *base, void *memory, size_t size)
{
    struct hr__gpu_device *device = (struct hr__gpu_device *)base;
    struct hr__gpu_visit visit;
    struct hr__gpu_pin *note = malloc(sizeof *note);
    if (!note || hr__gpu_enter(device, &visit, NULL) != HR_OK) {
        free(note);
        return false;
    }
    const int native = device->driver->pin(memory, size);
    const bool pinned =
        native == 0 || (device->driver->classify(native) == HR__GPU_ALREADY_PINNED &&
                        kind_of(device, memory, size, NULL) == HR__MEMORY_PINNED);
    hr__gpu_leave(device, &visit);
    *note = (struct hr__gpu_pin){.memory = memory, .n_users = 1, .is_ours = native == 0};
    if (pinned)
        note_pin(device, &note);
    free(note);
    return pinned;
}

/* The note of memory whose last user has gone; NULL: it has others. */
static struct hr__gpu_pin *drop_pin(struct hr__gpu_device *device, const void *memory)
{
    pthread_mutex_lock(&device->lock);
    struct hr__gpu_pin **at = find_pin(device, memory);
    struct hr__gpu_pin *note = *at;
    if (note && --note->n_users == 0)
        *at = note->next;
    else
        note = NULL;
    pthread_mutex_unlock(&device->lock);
    return note;
}

void hr__gpu_unpin(struct hr__device *base, void *memory)
{
    struct hr__gpu_device *device = (struct hr__gpu_device *)base;
    struct hr__gpu_visit visit;
    if (!hr__gpu_enter_to_free(device, &visit))
        return;
    struct hr__gpu_pin *note = drop_pin(device, memory);
    if (note && note->is_ours)
        device->driver->unpin(memory);
    hr__gpu_leave(device, &visit);
    free(note);
}

/* What was not unpinned: only the notes are left in a forked child. */
void hr__gpu_pins_free(struct hr__gpu_device *device)
{
    while (device->pins) {
        struct hr__gpu_pin *note = device->pins;
        device->pins = note->next;
        if (note->is_ours)
            device->driver->unpin(note->memory);
        free(note);
    }
}
