// SPDX-License-Identifier: Apache-2.0
/* Boxes and holds. The counts order what their users did before the end: the last one sees it. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "headrace_python.h"

/* ---- boxes ---- */

struct hrp_box {
    atomic_uint n_users;
    pid_t pid; /* who made it */
    hr_loop *loop;
    hr_pipeline *pipeline;
    char device[HR_DEVICE_NAME]; /* that chunks may be lent on */
};

hrp_box *hrp_box_create(hr_loop *loop, hr_pipeline *pipeline)
{
    struct hr_stats stats = {.struct_size = sizeof stats};
    hrp_box *box = calloc(1, sizeof *box);
    if (!box)
        return NULL;
    atomic_init(&box->n_users, 1);
    box->pid = getpid();
    box->loop = loop;
    box->pipeline = pipeline;
    if (hr_pipeline_stats(pipeline, &stats) == HR_OK)
        memcpy(box->device, stats.device, sizeof box->device);
    return box;
}

static bool is_last(atomic_uint *n_users)
{
    return atomic_fetch_sub_explicit(n_users, 1, memory_order_acq_rel) == 1;
}

void hrp_box_drop(hrp_box *box)
{
    if (!box || box->pid != getpid() || !is_last(&box->n_users))
        return;
    if (hr_loop_take(box->loop, NULL) == HR_OK) {
        hr_pipeline_free(box->pipeline);
        hr_loop_free(box->loop);
    }
    free(box);
}

/* Acquire: what users did with the memory comes before what is done with it when they are gone. */
unsigned hrp_box_n_users(const hrp_box *box)
{
    return atomic_load_explicit(&box->n_users, memory_order_acquire);
}

/* ---- holds ---- */

/* Of a chunk, if there is a box, else of memory. */
struct hrp_hold {
    atomic_uint n_users;
    pid_t pid;
    struct hr_chunk chunk;
    pthread_mutex_t lock;
    void **streams; /* under the lock: that use the chunk, each once */
    size_t n_streams;
    hrp_box *box;
    hr_context *context;
    void *memory;
    char device[HR_DEVICE_NAME + HR_DEVICE_IDENTITY];
};

static atomic_long n_holds; /* relaxed: only counted */

static hrp_hold *new_hold(void)
{
    hrp_hold *hold = calloc(1, sizeof *hold);
    if (!hold)
        return NULL;
    atomic_init(&hold->n_users, 1);
    hold->pid = getpid();
    pthread_mutex_init(&hold->lock, NULL);
    atomic_fetch_add_explicit(&n_holds, 1, memory_order_relaxed);
    return hold;
}

hrp_hold *hrp_hold_chunk(hrp_box *box, const struct hr_chunk *chunk)
{
    hrp_hold *hold = new_hold();
    if (!hold)
        return NULL;
    atomic_fetch_add_explicit(&box->n_users, 1, memory_order_relaxed);
    hold->box = box;
    hold->chunk = *chunk;
    snprintf(hold->device, sizeof hold->device, "%s",
             chunk->flags & HR_CHUNK_DEVICE ? box->device : "host");
    return hold;
}

hrp_hold *hrp_hold_memory(hr_context *context, const char *device, void *memory)
{
    hrp_hold *hold = new_hold();
    if (!hold)
        return NULL;
    hr_context_hold(context);
    hold->context = context;
    hold->memory = memory;
    snprintf(hold->device, sizeof hold->device, "%s", device);
    return hold;
}

/* Under the lock. */
static int note(hrp_hold *hold, void *stream)
{
    for (size_t i = 0; i < hold->n_streams; i++)
        if (hold->streams[i] == stream)
            return 0;
    void **more = realloc(hold->streams, (hold->n_streams + 1) * sizeof(void *));
    if (!more)
        return -1;
    hold->streams = more;
    more[hold->n_streams++] = stream;
    return 0;
}

/* Of memory, the driver's own free waits for all of the device's streams. */
int hrp_hold_note_stream(hrp_hold *hold, void *stream)
{
    if (!hold->box || !stream || hold->pid != getpid())
        return 0;
    pthread_mutex_lock(&hold->lock);
    const int status = note(hold, stream);
    pthread_mutex_unlock(&hold->lock);
    return status;
}

hrp_hold *hrp_hold_retain(hrp_hold *hold)
{
    atomic_fetch_add_explicit(&hold->n_users, 1, memory_order_relaxed);
    return hold;
}

static void give_back(hrp_hold *hold)
{
    for (size_t i = 0; i < hold->n_streams; i++)
        hr_chunk_used(&hold->chunk, hold->streams[i]);
    hr_chunk_release(&hold->chunk, NULL);
    hrp_box_drop(hold->box);
}

void hrp_hold_drop(hrp_hold *hold)
{
    if (!hold || hold->pid != getpid() || !is_last(&hold->n_users))
        return;
    if (hold->box) {
        give_back(hold);
    } else {
        hr_device_free(hold->context, hold->device, hold->memory);
        hr_context_free(hold->context);
    }
    pthread_mutex_destroy(&hold->lock);
    free(hold->streams);
    free(hold);
    atomic_fetch_sub_explicit(&n_holds, 1, memory_order_relaxed);
}

const char *hrp_hold_device(const hrp_hold *hold)
{
    return hold->device;
}

long hrp_n_holds(void)
{
    return atomic_load_explicit(&n_holds, memory_order_relaxed);
}
