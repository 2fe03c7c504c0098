// SPDX-License-Identifier: Apache-2.0
/* The sources of a run. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chains.h"
#include "peers.h"
#include "trials.h"

/* ---- callbacks ---- */

static int64_t give(void *user, void *buffer, size_t size, uint64_t offset)
{
    const struct span *span = user;
    const size_t left = offset < span->size ? span->size - (size_t)offset : 0;
    const size_t n = left < size ? left : size;
    if (n > 0)
        memcpy(buffer, span->bytes + offset, n);
    return (int64_t)n;
}

static int64_t give_or_fail(void *user, void *buffer, size_t size, uint64_t offset)
{
    struct run *run = user;
    const struct trial *trial = run->trial;
    if (trial->cancels_at > 0 && offset + size > trial->cancels_at)
        hr_pipeline_cancel(run->pipeline);
    if (trial->read_fails_at > 0 && offset >= trial->read_fails_at)
        return -EREMOTEIO;
    if (trial->read_fails_at > 0 && size > trial->read_fails_at - offset)
        size = (size_t)(trial->read_fails_at - offset);
    return give(&run->spans[0], buffer, size, offset);
}

/* ---- the others ---- */

static void write_file(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    must_have(file && fwrite(bytes, 1, size, file) == size && fclose(file) == 0, path);
}

static void make_file_source(struct run *run, struct hr_source *source, const struct span *span)
{
    source->kind = HR_FILE;
    source->path = run->path_in;
    if (!run->trial->is_missing)
        write_file(run->path_in, span->bytes, span->size);
}

static void make_memory_source(struct hr_source *source, const struct span *span)
{
    source->kind = HR_MEMORY;
    source->data = span->bytes;
    source->size = span->size;
}

/* Memory, file, callback, memory; none a multiple of a unit. */
static void make_parts(struct run *run)
{
    const size_t size = run->trial->size;
    const size_t sizes[] = {size / 7, size / 3 + 1, size / 5};
    const unsigned char *at = run->trial->bytes;
    size_t left = size;
    for (int i = 0; i < N_PARTS; i++) {
        const size_t n = i < N_PARTS - 1 && sizes[i] < left ? sizes[i] : left;
        run->spans[i] = (struct span){at, n};
        run->sources[i].struct_size = sizeof run->sources[i];
        at += n;
        left -= n;
    }
    make_memory_source(&run->sources[0], &run->spans[0]);
    make_file_source(run, &run->sources[1], &run->spans[1]);
    run->sources[2].kind = HR_CALLBACK;
    run->sources[2].read = give;
    run->sources[2].user = &run->spans[2];
    make_memory_source(&run->sources[3], &run->spans[3]);
    run->config.n_sources = N_PARTS;
}

static void make_tcp_source(struct run *run, struct hr_source *source)
{
    strcpy(run->address, "tcp://127.0.0.1:0");
    run->peer = calloc(1, sizeof *run->peer);
    must_have(run->peer != NULL, "memory");
    *run->peer = (struct peer){.fd = -1,
                               .listener = listen_at(run->address, sizeof run->address),
                               .bytes = run->trial->bytes,
                               .size = run->trial->size};
    run->listener = dup(run->peer->listener);
    must_have(run->listener >= 0 && start_sender(run->peer), run->address);
    source->kind = HR_SOCKET;
    source->path = run->address;
}

static hr_status make_placed_source(struct run *run, struct hr_source *source, hr_error *error)
{
    const enum from from = run->trial->from;
    const size_t size = run->trial->size;
    const hr_status status =
        host_memory_take(run, &run->in, size, from == FROM_ODD || from == FROM_PINNED_ODD,
                         from == FROM_PINNED || from == FROM_PINNED_ODD, error);
    memcpy(run->in.at, run->trial->bytes, size);
    make_memory_source(source, &(struct span){run->in.at, size});
    return status;
}

static hr_status make_device_source(struct run *run, struct hr_source *source, hr_error *error)
{
    const size_t size = run->trial->size;
    hr_status status =
        hr_device_alloc(run->bed->context, run->device, size + 1, &run->device_in, error);
    if (status == HR_OK)
        status = device_put(run->bed, run->device, run->device_in, run->trial->bytes, size, error);
    make_memory_source(source, &(struct span){run->device_in, size});
    source->kind = HR_DEVICE;
    return status;
}

hr_status source_open(struct run *run, hr_error *error)
{
    struct hr_source *source = &run->sources[0];
    source->struct_size = sizeof *source;
    run->config.n_sources = 1;
    run->spans[0] = (struct span){run->trial->bytes, run->trial->size};
    switch (run->trial->from) {
    case FROM_FILE:
        make_file_source(run, source, &run->spans[0]);
        return HR_OK;
    case FROM_PIPE:
        source->kind = HR_FD;
        run->feeder = feeder_start(run->trial->bytes, run->trial->size, 50001, &source->fd);
        return HR_OK;
    case FROM_TCP:
        make_tcp_source(run, source);
        return HR_OK;
    case FROM_CALLBACK:
        source->kind = HR_CALLBACK;
        source->read = give_or_fail;
        source->user = run;
        return HR_OK;
    case FROM_PARTS:
        make_parts(run);
        return HR_OK;
    case FROM_DEVICE:
        return make_device_source(run, source, error);
    case FROM_MEMORY:
    case FROM_ODD:
    case FROM_PINNED:
    case FROM_PINNED_ODD:
    case N_FROM:
        break;
    }
    return make_placed_source(run, source, error);
}
