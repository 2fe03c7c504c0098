// SPDX-License-Identifier: Apache-2.0
/* The list of devices, for users: what is there, and why something is not. */
#include <stdio.h>
#include <string.h>

#include "backend.h"
#include "status.h"

struct listing {
    unsigned char *at; /* NULL: nothing is written */
    size_t stride;
    size_t n_room;
    size_t n;
};

/* The caller's struct may be of an older header or of a newer one: its length is the stride. */
static void add(struct listing *list, struct hr_device device)
{
    if (list->n++ >= list->n_room)
        return;
    const size_t known = list->stride < sizeof device ? list->stride : sizeof device;
    device.struct_size = (uint32_t)list->stride;
    memset(list->at, 0, list->stride);
    memcpy(list->at, &device, known);
    list->at += list->stride;
}

/* Names and the like are cut to the public struct's fields; they are far shorter. */
static void add_present(struct listing *list, const struct hr__backend *backend, unsigned index)
{
    struct hr__device_info info;
    struct hr_device device = {.present = 1};
    backend->describe(index, &info);
    device.memory_bytes = info.memory_bytes;
    snprintf(device.name, sizeof device.name, "%.*s", HR_DEVICE_NAME - 1, info.name);
    snprintf(device.title, sizeof device.title, "%s", info.title);
    snprintf(device.version, sizeof device.version, "%s", info.version);
    snprintf(device.uuid, sizeof device.uuid, "%.*s", HR_DEVICE_IDENTITY - 1, info.uuid);
    snprintf(device.pci, sizeof device.pci, "%.*s", HR_DEVICE_IDENTITY - 1, info.pci);
    add(list, device);
}

static void add_backend(struct listing *list, const struct hr__backend *backend)
{
    struct hr_device absent = {0};
    const unsigned n_devices = backend->count(absent.why, sizeof absent.why);
    if (n_devices == 0) {
        snprintf(absent.name, sizeof absent.name, "%s", backend->name);
        add(list, absent);
    }
    for (unsigned i = 0; i < n_devices; i++)
        add_present(list, backend, i);
}

hr_status hr_devices(struct hr_device *devices, size_t *n, hr_error *error)
{
    enum { LEAST = offsetof(struct hr_device, name) + HR_DEVICE_NAME };
    const struct hr__where where = {0};
    if (!n || (*n > 0 && !devices))
        return hr__fail(error, HR_EINVAL, where, "devices: %s must not be NULL",
                        n ? "devices, when *n is not 0," : "n");
    struct listing list = {.n_room = *n};
    if (*n > 0) {
        list.at = (unsigned char *)devices;
        list.stride = devices[0].struct_size;
        if (list.stride < LEAST)
            return hr__fail(error, HR_EINVAL, where,
                            "devices: devices[0].struct_size is %zu; set it to sizeof devices[0]",
                            list.stride);
    }
    for (size_t i = 0; hr__backends[i]; i++)
        add_backend(&list, hr__backends[i]);
    *n = list.n;
    return HR_OK;
}
