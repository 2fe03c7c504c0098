// SPDX-License-Identifier: Apache-2.0
/* The sinks of a run, and what they got. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trials.h"

static int64_t take(void *user, const void *buffer, size_t size, uint64_t offset)
{
    struct run *run = user;
    const uint64_t fails_at = run->trial->write_fails_at;
    if (offset != run->out->size)
        snprintf(run->out->fault, sizeof run->out->fault, "byte %llu came when %zu were there",
                 (unsigned long long)offset, run->out->size);
    if (fails_at > 0 && offset >= fails_at)
        return -ENOSPC;
    if (fails_at > 0 && size > fails_at - offset)
        size = (size_t)(fails_at - offset);
    outcome_append(run->out, buffer, size);
    return (int64_t)size;
}

static hr_status make_device_sink(struct run *run, hr_error *error)
{
    const size_t all = run->trial->room + GUARD;
    unsigned char *paint = malloc(all);
    must_have(paint != NULL, "memory");
    memset(paint, PAINT, all);
    hr_status status =
        hr_device_alloc(run->bed->context, run->device, all, &run->device_out, error);
    if (status == HR_OK)
        status = device_put(run->bed, run->device, run->device_out, paint, all, error);
    free(paint);
    run->sink.data = run->device_out;
    run->sink.size = run->trial->room;
    return status;
}

hr_status sink_open(struct run *run, hr_error *error)
{
    static const uint32_t kinds[N_TO] = {
        [TO_CALLBACK] = HR_CALLBACK, [TO_MEMORY] = HR_MEMORY, [TO_ODD] = HR_MEMORY,
        [TO_PINNED] = HR_MEMORY,     [TO_FILE] = HR_FILE,     [TO_PINNED_ODD] = HR_MEMORY,
        [TO_NULL] = HR_NULL,         [TO_PULL] = HR_PULL,     [TO_LOANS] = HR_PULL,
        [TO_DEVICE] = HR_DEVICE,     [TO_GROWING] = HR_DEVICE};
    const enum to to = run->trial->to;
    run->sink = (struct hr_sink){.struct_size = sizeof run->sink,
                                 .kind = kinds[to],
                                 .flags = to == TO_LOANS ? HR_LEND_DEVICE : 0,
                                 .path = to == TO_FILE ? run->path_out : NULL,
                                 .write = to == TO_CALLBACK ? take : NULL,
                                 .user = run};
    if (to == TO_DEVICE)
        return make_device_sink(run, error);
    if (kinds[to] != HR_MEMORY)
        return HR_OK;
    const hr_status status =
        host_memory_take(run, &run->to, run->trial->room, to == TO_ODD || to == TO_PINNED_ODD,
                         to == TO_PINNED || to == TO_PINNED_ODD, error);
    run->sink.data = run->to.at;
    run->sink.size = run->trial->room;
    return status;
}

/* ---- afterwards ---- */

static void read_file(struct trial_outcome *out, const char *path)
{
    char piece[4096];
    size_t n;
    FILE *file = fopen(path, "rb");
    if (!file)
        return;
    while ((n = fread(piece, 1, sizeof piece, file)) > 0)
        outcome_append(out, piece, n);
    fclose(file);
}

/* The sink's memory, and that nothing beyond it was touched. */
static void judge_memory(struct run *run, const unsigned char *memory)
{
    const size_t room = run->trial->room;
    outcome_append(run->out, memory, room);
    for (size_t i = 0; i < GUARD; i++) {
        if (memory[room + i] != PAINT)
            snprintf(run->out->fault, sizeof run->out->fault,
                     "byte %zu behind the sink's memory was written", i);
    }
}

static hr_status fetch_device(struct run *run, hr_error *error)
{
    const size_t all = run->trial->room + GUARD;
    unsigned char *memory = malloc(all);
    must_have(memory != NULL, "memory");
    const hr_status status = device_get(run->bed, run->device, memory, run->device_out, all, error);
    if (status == HR_OK)
        judge_memory(run, memory);
    free(memory);
    return status;
}

static hr_status fetch_gathered(struct run *run, hr_error *error)
{
    void *again = run;
    uint64_t size = 0;
    hr_status status = hr_pipeline_gathered(run->pipeline, &run->device_out, &size, error);
    if (status != HR_OK)
        return status;
    unsigned char *memory = malloc((size_t)size + 1);
    must_have(memory != NULL, "memory");
    if (size > 0)
        status = device_get(run->bed, run->device, memory, run->device_out, (size_t)size, error);
    else if (run->device_out)
        snprintf(run->out->fault, sizeof run->out->fault, "memory for an empty stream");
    outcome_append(run->out, memory, (size_t)size);
    free(memory);
    if (status == HR_OK)
        status = hr_pipeline_gathered(run->pipeline, &again, &size, error);
    if (status == HR_OK && again)
        snprintf(run->out->fault, sizeof run->out->fault, "what was gathered is given twice");
    return status;
}

hr_status sink_collect(struct run *run, hr_error *error)
{
    const enum to to = run->trial->to;
    if (to == TO_FILE)
        read_file(run->out, run->path_out);
    else if (run->out->status == HR_OK && run->to.base)
        judge_memory(run, run->to.at);
    else if (run->out->status == HR_OK && to == TO_DEVICE)
        return fetch_device(run, error);
    else if (run->out->status == HR_OK && to == TO_GROWING)
        return fetch_gathered(run, error);
    return HR_OK;
}
