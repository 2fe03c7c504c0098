// SPDX-License-Identifier: Apache-2.0
/* Boxes and holds. The counts order what their users did before the end: the last one sees it. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "headrace_python.h"
#include "lent.h"

/* ---- boxes ---- */

struct hrp_box {
    atomic_uint n_users;
    unsigned n_forks; /* of the process that made it */
    hr_loop *loop;
    hr_pipeline *pipeline;
    char device[HR_DEVICE_NAME]; /* that chunks may be lent on */
};

static hr_status no_memory(hr_error *error)
{
    *error = (hr_error){.code = HR_ENOMEM, .text = "no memory for a handle of the package"};
    return HR_ENOMEM;
}

static hr_status open_both(hrp_box *box, hr_context *context,
                           const struct hr_loop_config *loop_config,
                           const struct hr_pipeline_config *config, hr_error *error)
{
    hr_status status = hr_loop_create(context, loop_config, &box->loop, error);
    if (status != HR_OK)
        return status;
    status = hr_pipeline_create(box->loop, config, &box->pipeline, error);
    if (status != HR_OK)
        hr_loop_free(box->loop);
    return status;
}

hr_status hrp_box_open(hr_context *context, const struct hr_loop_config *loop_config,
                       const struct hr_pipeline_config *config, hrp_box **out, hr_error *error)
{
    struct hr_stats stats = {.struct_size = sizeof stats};
    hrp_box *box = calloc(1, sizeof *box);
    if (!box)
        return no_memory(error);
    const hr_status status = open_both(box, context, loop_config, config, error);
    if (status != HR_OK) {
        free(box);
        return status;
    }
    atomic_init(&box->n_users, 1);
    box->n_forks = hrp__n_forks();
    if (hr_pipeline_stats(box->pipeline, &stats) == HR_OK)
        memcpy(box->device, stats.device, sizeof box->device);
    *out = box;
    return HR_OK;
}

hr_loop *hrp_box_loop(const hrp_box *box)
{
    return box->loop;
}

hr_pipeline *hrp_box_pipeline(const hrp_box *box)
{
    return box->pipeline;
}

static bool is_last(atomic_uint *n_users)
{
    return atomic_fetch_sub_explicit(n_users, 1, memory_order_acq_rel) == 1;
}

static void drop_box(hrp_box *box)
{
    if (box->n_forks != hrp__n_forks() || !is_last(&box->n_users))
        return;
    if (hr_loop_take(box->loop, NULL) == HR_OK) {
        hr_pipeline_free(box->pipeline);
        hr_loop_free(box->loop);
    }
    free(box);
}

void hrp_box_close(hrp_box **box)
{
    hrp_box *last = *box;
    *box = NULL;
    if (last)
        drop_box(last);
}

void hrp_box_move(hrp_box **from, hrp_box **to)
{
    *to = *from;
    *from = NULL;
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
    unsigned n_forks;
    struct hr_chunk chunk;
    struct hrp__lent lent; /* of a chunk in host memory */
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
    hold->n_forks = hrp__n_forks();
    pthread_mutex_init(&hold->lock, NULL);
    atomic_fetch_add_explicit(&n_holds, 1, memory_order_relaxed);
    return hold;
}

static void free_hold(hrp_hold *hold)
{
    pthread_mutex_destroy(&hold->lock);
    free(hold->streams);
    free(hold);
    atomic_fetch_sub_explicit(&n_holds, 1, memory_order_relaxed);
}

/* The hold is made first: for what there is already, memory may not be short. */
hr_status hrp_box_next(hrp_box *box, struct hr_chunk *chunk, hrp_hold **out, hr_error *error)
{
    hrp_hold *hold = new_hold();
    if (!hold)
        return no_memory(error);
    const hr_status status = hr_pipeline_next(box->pipeline, 0, chunk, error);
    if (status != HR_OK) {
        free_hold(hold);
        return status;
    }
    atomic_fetch_add_explicit(&box->n_users, 1, memory_order_relaxed);
    hold->box = box;
    hold->chunk = *chunk;
    snprintf(hold->device, sizeof hold->device, "%s",
             chunk->flags & HR_CHUNK_DEVICE ? box->device : "host");
    if (!(chunk->flags & HR_CHUNK_DEVICE)) {
        hold->lent = (struct hrp__lent){.data = chunk->data, .size = (size_t)chunk->size};
        hrp__lent_add(&hold->lent);
    }
    *out = hold;
    return HR_OK;
}

static void hold_memory(hrp_hold *hold, hr_context *context, const char *device)
{
    hr_context_hold(context);
    hold->context = context;
    snprintf(hold->device, sizeof hold->device, "%s", device);
}

hr_status hrp_box_gathered(hrp_box *box, hr_context *context, uint64_t *size, hrp_hold **out,
                           hr_error *error)
{
    hrp_hold *hold = new_hold();
    if (!hold)
        return no_memory(error);
    const hr_status status = hr_pipeline_gathered(box->pipeline, &hold->memory, size, error);
    if (status != HR_OK) {
        free_hold(hold);
        return status;
    }
    hold_memory(hold, context, box->device);
    *out = hold;
    return HR_OK;
}

hr_status hrp_hold_alloc(hr_context *context, const char *device, uint64_t size, hrp_hold **out,
                         hr_error *error)
{
    hrp_hold *hold = new_hold();
    if (!hold)
        return no_memory(error);
    const hr_status status = hr_device_alloc(context, device, size, &hold->memory, error);
    if (status != HR_OK) {
        free_hold(hold);
        return status;
    }
    hold_memory(hold, context, device);
    *out = hold;
    return HR_OK;
}

void *hrp_hold_memory(const hrp_hold *hold)
{
    return hold->memory;
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
    if (!hold->box || !stream || hold->n_forks != hrp__n_forks())
        return 0;
    pthread_mutex_lock(&hold->lock);
    const int status = note(hold, stream);
    pthread_mutex_unlock(&hold->lock);
    return status;
}

void hrp_hold_retain(hrp_hold *hold, hrp_hold **out)
{
    atomic_fetch_add_explicit(&hold->n_users, 1, memory_order_relaxed);
    *out = hold;
}

static void give_back(hrp_hold *hold)
{
    if (!(hold->chunk.flags & HR_CHUNK_DEVICE))
        hrp__lent_remove(&hold->lent);
    for (size_t i = 0; i < hold->n_streams; i++)
        hr_chunk_used(&hold->chunk, hold->streams[i]);
    hr_chunk_release(&hold->chunk, NULL);
    drop_box(hold->box);
}

static void drop_hold(hrp_hold *hold)
{
    if (hold->n_forks != hrp__n_forks() || !is_last(&hold->n_users))
        return;
    if (hold->box) {
        give_back(hold);
    } else {
        hr_device_free(hold->context, hold->device, hold->memory);
        hr_context_free(hold->context);
    }
    free_hold(hold);
}

void hrp_hold_end(hrp_hold **hold)
{
    hrp_hold *last = *hold;
    *hold = NULL;
    if (last)
        drop_hold(last);
}

const char *hrp_hold_device(const hrp_hold *hold)
{
    return hold->device;
}

long hrp_n_holds(void)
{
    return atomic_load_explicit(&n_holds, memory_order_relaxed);
}

/* ---- contexts ---- */

void hrp_context_end(hr_context **context)
{
    hr_context_free(*context);
    *context = NULL;
}
