// SPDX-License-Identifier: Apache-2.0
#include "device_tools.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

hr_status device_finish(struct hr__device *device, struct hr__event *event, hr_error *error)
{
    enum { LIMIT_MS = 10000 };
    struct pollfd sleeper = {.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), .events = POLLIN};
    device->ops->notify(event, sleeper.fd);
    poll(&sleeper, 1, LIMIT_MS);
    const hr_status status = device->ops->query(event, error);
    if (status != HR_PENDING) /* else it may still be written */
        close(sleeper.fd);
    return status;
}

hr_status device_drain(struct hr__device *device, struct hr__stream *stream, hr_error *error)
{
    struct hr__event *event = NULL;
    hr_status status = device->ops->event_create(device, &event, error);
    if (status != HR_OK)
        return status;
    status = device->ops->record(stream, event, error);
    if (status == HR_OK)
        status = device_finish(device, event, error);
    if (status != HR_PENDING)
        device->ops->event_destroy(event);
    return status;
}

bool device_is_required(const char *device)
{
    const char *required = getenv("HR_REQUIRE");
    const size_t n = strcspn(device, ":");
    return required && strlen(required) == n && memcmp(required, device, n) == 0;
}

/* Knuth's MMIX constants; the low bits of the state alone are poor. */
uint64_t device_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 16 ^ *state << 24;
}
