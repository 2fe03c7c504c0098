// SPDX-License-Identifier: Apache-2.0
/* The transfer that is tuned: the file to memory of the GPU, or on the host to null. */
#include <string.h>

#include "bench_tune.h"

static const uint64_t probed_bytes = 64 << 20;
static const uint64_t least_bytes = 16 << 20;
static const uint64_t most_bytes = UINT64_C(2) << 30;
static const uint64_t most_made = 1 << 30;
static const double first_s = 3; /* that the first transfer, of a cold file, may take */
static const double most_run_s = 1;
static const double runs_in_time = 120; /* two for a turn, at least three turns for a trial */
static const unsigned most_transfers = 1000;

/* The pool of so many workers; 0: of all CPUs. There are as many pools as numbers that are tried. */
static hr_loop *loop_of(struct tune *t, uint64_t threads, char *error)
{
    unsigned i = 0;
    if (!threads)
        return t->bench.pool.loop;
    while (i + 1 < N_TUNE_POOLS && t->pools[i].threads && t->pools[i].threads != threads)
        i++;
    t->pools[i].threads = threads;
    struct pool *pool = &t->pools[i].pool;
    return bench_make_pool(pool, threads, UINT64_MAX, error) ? pool->loop : NULL;
}

static struct hr_source file_of(const struct tune *t, uint64_t length)
{
    return (struct hr_source){.struct_size = sizeof(struct hr_source),
                              .kind = HR_FILE,
                              .flags = HR_RANGE,
                              .path = t->path,
                              .length = length};
}

static bool transfer(struct tune *t, const struct tuned *with, uint64_t length,
                     struct hr_stats *stats, double *wall_s, char *error)
{
    const struct hr_source source = file_of(t, length);
    struct hr_pipeline_config config = {
        .struct_size = sizeof config,
        .n_sources = 1,
        .sources = &source,
        .sink = {.struct_size = sizeof config.sink, .kind = HR_NULL},
        .chunk_size = with->chunk,
        .depth = (uint32_t)with->depth,
        .decode = HR_CODEC_AUTO,
    };
    if (t->there) {
        config.sink.kind = HR_DEVICE;
        config.sink.data = t->there;
        config.sink.size = t->bytes;
        config.device = t->bench.device;
    }
    hr_loop *loop = loop_of(t, with->threads, error);
    const double begin = bench_clock_seconds();
    const bool done = loop && bench_transfer(loop, &config, stats, NULL, error);
    *wall_s = bench_clock_seconds() - begin;
    return done;
}

static bool is_right(const struct tune *t, const struct hr_stats *stats, char *error)
{
    if (stats->crc32 == t->crc32)
        return true;
    if (t->there)
        snprintf(error, HR_ERROR_TEXT, "%s has other bytes than %.300s: CRC-32 %08x, not %08x",
                 t->bench.device, t->path, stats->crc32, t->crc32);
    else
        snprintf(error, HR_ERROR_TEXT, "%.300s: the CRC-32 is %08x, it was %08x: has it changed?",
                 t->path, stats->crc32, t->crc32);
    return false;
}

/* On the host each transfer is checked: null: has made the CRC-32 of what came. */
bool tune_run(struct tune *t, const struct tuned *with, double *wall_s, char *error)
{
    struct hr_stats stats;
    double one_s;
    *wall_s = 0;
    for (unsigned i = 0; i < t->n_transfers; i++) {
        if (!transfer(t, with, t->bytes, &stats, &one_s, error) ||
            (!t->there && !is_right(t, &stats, error)))
            return false;
        *wall_s += one_s;
    }
    return true;
}

/* So that what is there then was brought. */
static bool clear_there(struct tune *t, char *error)
{
    const struct hr_source zeros = {.struct_size = sizeof zeros,
                                    .kind = HR_FILE,
                                    .flags = HR_RANGE,
                                    .path = "/dev/zero",
                                    .length = t->bytes};
    return bench_store(&t->bench, &zeros, t->there, t->bytes, error);
}

static bool check_there(struct tune *t, char *error)
{
    struct hr_stats stats;
    const struct hr_source source = {
        .struct_size = sizeof source, .kind = HR_DEVICE, .data = t->there, .size = t->bytes};
    const struct hr_pipeline_config config = {
        .struct_size = sizeof config,
        .n_sources = 1,
        .sources = &source,
        .sink = {.struct_size = sizeof config.sink, .kind = HR_NULL},
        .device = t->bench.device,
    };
    return bench_transfer(t->bench.pool.loop, &config, &stats, NULL, error) &&
           is_right(t, &stats, error);
}

bool tune_verify(struct tune *t, const struct tuned *with, char *error)
{
    struct hr_stats stats;
    double wall_s;
    if (t->there && !clear_there(t, error))
        return false;
    if (!transfer(t, with, t->bytes, &stats, &wall_s, error))
        return false;
    return t->there ? check_there(t, error) : is_right(t, &stats, error);
}

/* ---- set-up ---- */

/* How much of the file a transfer takes: as much as a run moves, when it is warm. */
static bool choose_bytes(struct tune *t, char *error)
{
    static const struct tuned defaults;
    struct hr_stats stats;
    double cold_s;
    double warm_s;
    if (!transfer(t, &defaults, probed_bytes, &stats, &cold_s, error) ||
        !transfer(t, &defaults, probed_bytes, &stats, &warm_s, error))
        return false;
    const double got = (double)stats.stages[HR_STAGE_WRITE].bytes_in;
    double bytes = got / (warm_s > 0 ? warm_s : 1e-9) * t->run_s;
    const double in_time = got / (cold_s > 0 ? cold_s : 1e-9) * first_s;
    bytes = bytes < in_time ? bytes : in_time;
    t->bytes = bytes < (double)least_bytes  ? least_bytes
               : bytes > (double)most_bytes ? most_bytes
                                            : (uint64_t)bytes;
    if (got > 0)
        return true;
    snprintf(error, HR_ERROR_TEXT, "%.300s: it is empty", t->path);
    return false;
}

/* All of it once, which makes it warm, too. */
static bool look_at_file(struct tune *t, char *error)
{
    static const struct tuned defaults;
    double wall_s;
    if (!choose_bytes(t, error) || !transfer(t, &defaults, t->bytes, &t->defaults, &wall_s, error))
        return false;
    t->bytes = t->defaults.stages[HR_STAGE_WRITE].bytes_in;
    t->decodes = t->defaults.n_frames_in > 0;
    t->crc32 = t->defaults.crc32;
    return true;
}

static bool look_at_device(struct tune *t, char *error)
{
    hr_error why = {0};
    if (t->bench.on_host)
        return true;
    const hr_status status =
        hr_device_alloc(t->bench.pool.context, t->bench.device, t->bytes, &t->there, &why);
    snprintf(error, HR_ERROR_TEXT, "%s", why.text);
    return status == HR_OK;
}

/* Of transfers that are short a run has several. The fastest of some, for one may be held up. A device
 * has other defaults. */
static bool choose_transfers(struct tune *t, char *error)
{
    static const struct tuned defaults;
    double least_s = t->run_s;
    double wall_s;
    if (!tune_verify(t, &defaults, error))
        return false;
    for (unsigned i = 0; i < 5; i++) {
        if (!transfer(t, &defaults, t->bytes, &t->defaults, &wall_s, error))
            return false;
        least_s = wall_s < least_s ? wall_s : least_s;
    }
    const double n = t->run_s / (least_s > 0 ? least_s : 1e-9);
    t->n_transfers = n > most_transfers ? most_transfers : (unsigned)n;
    return true;
}

static bool make_input(struct tune *t, uint64_t size, char *error)
{
    if (!bench_fill(&t->bench, size < most_made ? size : most_made, error))
        return false;
    t->path = t->bench.in_path;
    if (!t->bench.no_files[0])
        return true;
    snprintf(error, HR_ERROR_TEXT, "%s", t->bench.no_files);
    return false;
}

bool tune_set_up(struct tune *t, const struct tune_options *o, char *error)
{
    const double begin = bench_clock_seconds();
    const double run_s = o->limit_s / runs_in_time;
    *t = (struct tune){.path = o->path, .run_s = run_s < most_run_s ? run_s : most_run_s};
    if (!bench_open(&t->bench, o->device, error) || (!o->path && !make_input(t, o->size, error)) ||
        !look_at_file(t, error) || !look_at_device(t, error) || !choose_transfers(t, error))
        return false;
    t->end_s = begin + o->limit_s;
    return true;
}

void tune_tear_down(struct tune *t)
{
    hr_device_free(t->bench.pool.context, t->bench.device, t->there);
    for (unsigned i = 0; i < N_TUNE_POOLS; i++)
        bench_drop_pool(&t->pools[i].pool);
    bench_tear_down(&t->bench);
}
