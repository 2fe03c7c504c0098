// SPDX-License-Identifier: Apache-2.0
/* The devices of a context, opened when they are first asked for; and their memory for users. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "status.h"

static const struct hr__where nowhere;

_Static_assert(sizeof(struct hr_device_rates) == 40, "a public struct changed its size");

/* Several names may mean one device: it is open once. */
static struct hr__store *find_store(const hr_context *context, const struct hr__device *device)
{
    const char *name = device->ops->info(device)->name;
    struct hr__store *store = context->stores;
    while (store && strcmp(store->device->ops->info(store->device)->name, name) != 0)
        store = store->next;
    return store;
}

/* Takes over the device. NULL: no memory. */
static struct hr__store *enter(hr_context *context, struct hr__device *device)
{
    struct hr__store *store = find_store(context, device);
    if (!store) {
        store = hr__store_create(device);
        if (store) {
            store->next = context->stores;
            context->stores = store;
            return store;
        }
    }
    device->ops->close(device);
    return store;
}

/* Under devices_lock. Opening may take long, and others wait; but it is done once. */
static hr_status open_device(hr_context *context, const char *name, struct hr__store **out,
                             hr_error *error)
{
    char why[HR_ERROR_TEXT];
    struct hr__device *device = NULL;
    struct hr__device_name *entry = calloc(1, sizeof *entry);
    if (!entry)
        return hr__fail(error, HR_ENOMEM, nowhere, "device: out of memory");
    const hr_status status = hr__device_open(name, &device, why, sizeof why, error);
    if (status == HR_OK && *why)
        hr__context_log(context, "device auto is the host: %s", why);
    if (status == HR_OK)
        entry->store = enter(context, device);
    if (!entry->store) {
        free(entry);
        return status < 0 ? status : hr__fail(error, HR_ENOMEM, nowhere, "device: out of memory");
    }
    snprintf(entry->name, sizeof entry->name, "%s", name);
    entry->next = context->names;
    context->names = entry;
    *out = entry->store;
    return HR_OK;
}

hr_status hr__context_device(hr_context *context, const char *name, struct hr__store **out,
                             hr_error *error)
{
    hr_status status = HR_OK;
    pthread_mutex_lock(&context->devices_lock);
    const struct hr__device_name *entry = context->names;
    while (entry && strcmp(entry->name, name) != 0)
        entry = entry->next;
    if (entry)
        *out = entry->store;
    else
        status = open_device(context, name, out, error);
    pthread_mutex_unlock(&context->devices_lock);
    return status;
}

/* ---- memory for users ---- */

/* NULL: *status says why. */
static struct hr__store *store_of(hr_context *context, const char *name, hr_status *status,
                                  hr_error *error)
{
    struct hr__store *store = NULL;
    if (!context || !name) {
        *status = hr__fail(error, HR_EINVAL, nowhere, "device: context or name is NULL");
        return NULL;
    }
    *status = hr__check_process(context->pid, "context", error);
    if (*status == HR_OK)
        *status = hr__context_device(context, name, &store, error);
    return store;
}

hr_status hr_device_alloc(hr_context *context, const char *name, uint64_t size, void **out,
                          hr_error *error)
{
    hr_status status;
    if (!out)
        return hr__fail(error, HR_EINVAL, nowhere, "device: out is NULL");
    struct hr__store *store = store_of(context, name, &status, error);
    return store ? hr__store_alloc(store, (size_t)size, out, error) : status;
}

void hr_device_free(hr_context *context, const char *name, void *memory)
{
    hr_status ignored;
    const struct hr__store *store = memory ? store_of(context, name, &ignored, NULL) : NULL;
    if (store)
        store->device->ops->free(store->device, memory);
}

hr_status hr_pin(hr_context *context, const char *name, void *memory, uint64_t size,
                 hr_error *error)
{
    hr_status status;
    if (!memory || !size)
        return hr__fail(error, HR_EINVAL, nowhere, "pin: there is no memory");
    const struct hr__store *store = store_of(context, name, &status, error);
    if (!store)
        return status;
    struct hr__device *device = store->device;
    if (device->ops->info(device)->host_memory || device->ops->pin(device, memory, (size_t)size))
        return HR_OK;
    return hr__fail(error, HR_EUNSUPPORTED, nowhere,
                    "pin: the driver of %s does not register %llu bytes at %p: they are a file's, "
                    "overlap with what is registered, or are more than it takes",
                    device->ops->info(device)->name, (unsigned long long)size, memory);
}

void hr_unpin(hr_context *context, const char *name, void *memory)
{
    hr_status ignored;
    const struct hr__store *store = memory ? store_of(context, name, &ignored, NULL) : NULL;
    if (store && !store->device->ops->info(store->device)->host_memory)
        store->device->ops->unpin(store->device, memory);
}

/* ---- what copies reach ---- */

static const uint64_t usual_measured = 64 << 20;
static const uint64_t most_measured = UINT64_C(1) << 40;

hr_status hr_device_measure(hr_context *context, const char *name, uint64_t size,
                            struct hr_device_rates *rates, hr_error *error)
{
    hr_status status;
    struct hr_device_rates all = {0};
    const uint32_t room = rates ? rates->struct_size : 0;
    if (room < sizeof room)
        return hr__fail(error, HR_EINVAL, nowhere, "measure: %s",
                        rates ? "struct_size is not set" : "rates is NULL");
    if (size > most_measured)
        return hr__fail(error, HR_EINVAL, nowhere, "measure: %llu bytes are too many",
                        (unsigned long long)size);
    const struct hr__store *store = store_of(context, name, &status, error);
    if (!store)
        return status;
    status = store->device->ops->measure(store->device, (size_t)(size ? size : usual_measured),
                                         &all, error);
    if (status != HR_OK)
        return status;
    all.struct_size = room < sizeof all ? room : (uint32_t)sizeof all;
    memcpy(rates, &all, all.struct_size);
    return HR_OK;
}
