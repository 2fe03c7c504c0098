// SPDX-License-Identifier: Apache-2.0
/* What the sources and sinks of a run have in common. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "chains.h"
#include "peers.h"
#include "trials.h"

enum { ODD = 3, PAGE = 4096 };

void must_have(bool holds, const char *what)
{
    if (holds)
        return;
    printf("not ok the test itself: %s: %s\n", what, strerror(errno));
    exit(1);
}

hr_status host_memory_take(struct run *run, struct host_memory *place, size_t size, bool is_odd,
                           bool is_pinned, hr_error *error)
{
    const size_t all = (size + 2 * GUARD + PAGE - 1) / PAGE * PAGE;
    place->base = aligned_alloc(PAGE, all);
    must_have(place->base != NULL, "memory");
    memset(place->base, PAINT, all);
    place->at = (unsigned char *)place->base + (is_odd ? ODD : 0);
    if (!is_pinned)
        return HR_OK;
    const hr_status status =
        hr_pin(run->bed->context, run->device, place->base, size + 2 * GUARD, error);
    place->is_pinned = status == HR_OK;
    return status;
}

void host_memory_leave(struct run *run, struct host_memory *place)
{
    if (place->is_pinned)
        hr_unpin(run->bed->context, run->device, place->base);
    free(place->base);
}

void outcome_append(struct trial_outcome *out, const void *bytes, size_t size)
{
    if (out->size + size > out->cap) {
        out->cap = 2 * (out->size + size);
        out->bytes = realloc(out->bytes, out->cap);
        must_have(out->bytes != NULL, "memory");
    }
    if (size > 0)
        memcpy(out->bytes + out->size, bytes, size);
    out->size += size;
}

hr_status ends_open(struct run *run, hr_error *error)
{
    snprintf(run->path_in, sizeof run->path_in, "%s/%s", run->bed->directory,
             run->trial->is_missing ? "missing" : "in");
    snprintf(run->path_out, sizeof run->path_out, "%s/out", run->bed->directory);
    unlink(run->path_out);
    const hr_status status = source_open(run, error);
    return status == HR_OK ? sink_open(run, error) : status;
}

void ends_close(struct run *run)
{
    if (run->feeder)
        feeder_join(run->feeder);
    if (run->peer) {
        shutdown(run->listener, SHUT_RDWR); /* if it still waits for somebody */
        close(run->listener);
        join_peer(run->peer);
        free(run->peer);
    }
    host_memory_leave(run, &run->in);
    host_memory_leave(run, &run->to);
    hr_device_free(run->bed->context, run->device, run->device_in);
    hr_device_free(run->bed->context, run->device, run->device_out);
    unlink(run->path_in);
    unlink(run->path_out);
}
