// SPDX-License-Identifier: Apache-2.0
/* Steady state allocates nothing: from the 200th chunk that leaves to the last step that leaves
 * work, no thread of the library calls an allocating function. A step in which another of the depth
 * chunks was leased for the first time does not count: that is bounded by depth. */
#include <stdio.h>

#include "engines.h"
#include "faults.h"
#include "transfers.h"

enum { CHUNK = 4096, N_CHUNKS = 1000, N_WARM = 200, MIN_WATCHED = 300 };

/* Rows with stages that the engine must have: decode, kernels, encode. */
enum { HAS_STAGES = 1 };

#define ONE_FRAME ((uint64_t)N_CHUNKS * CHUNK)

static const struct shape rows[] = {
    {.from = PLACE_FILE, .to = PLACE_FILE},
    {.from = PLACE_FILE, .to = PLACE_PIPE},
    {.from = PLACE_PIPE, .to = PLACE_PIPE},
    {.from = PLACE_SOCKET, .to = PLACE_SOCKET},
    {.from = PLACE_MEMORY, .to = PLACE_CALLBACK},
    {.from = PLACE_CALLBACK, .to = PLACE_NULL},
    {.from = PLACE_FILE, .to = PLACE_PIPE, .frame_in = CHUNK},
    {.from = PLACE_FILE, .to = PLACE_PIPE, .frame_in = 5 * CHUNK + 3},
    {.from = PLACE_PIPE, .to = PLACE_PIPE, .frame_in = CHUNK},
    {.from = PLACE_FILE, .to = PLACE_PIPE, .frame_in = ONE_FRAME},
    {.from = PLACE_PIPE, .to = PLACE_PIPE, .frame_in = ONE_FRAME},
    {.from = PLACE_FILE, .to = PLACE_PIPE, .kernel = "sum:f32"},
    {.from = PLACE_FILE, .to = PLACE_PIPE, .kernel = "scale:u8,1,0"},
    {.from = PLACE_FILE, .to = PLACE_PIPE, .encode = HR_CODEC_ZSTD},
    {.from = PLACE_FILE,
     .to = PLACE_FILE,
     .frame_in = CHUNK,
     .kernel = "crc32",
     .encode = HR_CODEC_ZSTD},
};

static void exempt_helper(void)
{
    hr_faults_exempt(true);
}

struct watch {
    uint64_t n_allocated;
    uint64_t first_chunk;
    uint64_t last_chunk;
    uint64_t leased_bytes;
};

/* What was allocated since the last step, and how far the transfer is now. */
static void look(struct watch *watch, const struct transfer *t)
{
    const uint64_t n = hr_faults_mark();
    struct hr_stats stats = {.struct_size = sizeof stats};
    if (hr_pipeline_stats(t->pipeline, &stats) != HR_OK)
        return;
    const uint64_t chunk = stats.stages[HR_STAGE_WRITE].chunks;
    if (watch->first_chunk > 0 && stats.leased_bytes == watch->leased_bytes)
        watch->n_allocated += n;
    if (watch->first_chunk == 0 && chunk >= N_WARM)
        watch->first_chunk = chunk;
    watch->last_chunk = chunk;
    watch->leased_bytes = stats.leased_bytes;
}

/* The end itself may allocate, so what was counted is taken only while there is more to do. */
static hr_status run_watched(struct transfer *t, struct watch *watch, hr_error *error)
{
    hr_status status = transfer_create(t, error);
    if (status != HR_OK)
        return status;
    for (;;) {
        const hr_status polled = hr_loop_poll(t->loop, -1, error);
        status = polled < 0 ? polled : hr_pipeline_state(t->pipeline, error);
        if (status != HR_PENDING)
            return status;
        look(watch, t);
    }
}

/* A stage that the row asks for and that did nothing would make the row worthless. */
static bool did_all_stages(const struct transfer *t)
{
    struct hr_stats stats = {.struct_size = sizeof stats};
    return t->pipeline && hr_pipeline_stats(t->pipeline, &stats) == HR_OK &&
           (!t->shape.frame_in || stats.stages[HR_STAGE_DECODE].chunks > 0) &&
           (!t->shape.kernel || stats.stages[HR_STAGE_KERNEL].chunks > 0) &&
           (!t->shape.encode || stats.stages[HR_STAGE_ENCODE].chunks > 0);
}

static void run_row(const struct shape *row, uint32_t io)
{
    struct shape shape = *row;
    shape.size = (uint64_t)N_CHUNKS * CHUNK;
    shape.chunk_size = CHUNK;
    shape.depth = 4;
    shape.io = io;
    const char *name = transfer_name(&shape);
    limit_time(20, name);
    struct transfer t;
    struct watch watch = {0};
    hr_error error = {0};
    transfer_open(&t, &shape);
    const hr_status status = run_watched(&t, &watch, &error);
    const bool did_all = did_all_stages(&t);
    transfer_free(&t);
    const enum outcome outcome = transfer_finish(&t);
    const uint64_t n_watched = watch.last_chunk - watch.first_chunk;
    check_that(status == HR_OK && did_all && outcome == OUTCOME_WHOLE && n_watched >= MIN_WATCHED &&
                   watch.n_allocated == 0,
               name, "%s %s; %u allocations from chunk %u to %u", hr_status_name(status),
               error.text, (unsigned)watch.n_allocated, (unsigned)watch.first_chunk,
               (unsigned)watch.last_chunk);
    transfer_close(&t);
}

static bool can_run(const struct shape *row)
{
    if (!row->frame_in && !row->kernel && !row->encode)
        return true;
    return HAS_STAGES && (HR_HAVE_ZSTD || (!row->frame_in && !row->encode));
}

int main(void)
{
    uint32_t engines[2];
    const unsigned n_engines = test_engines(engines);
    transfer_helper = exempt_helper;
    for (unsigned e = 0; e < n_engines; e++)
        for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++)
            if (can_run(&rows[i]))
                run_row(&rows[i], engines[e]);
    return end_checks();
}
