// SPDX-License-Identifier: Apache-2.0
/* The transfer that is tuned: the file to memory of the GPU, or on the host to null. */
#include <string.h>

#include "bench_tune.h"

static const uint64_t probed_bytes = 64 << 20;
static const uint64_t least_bytes = 16 << 20;
static const uint64_t most_bytes = UINT64_C(2) << 30;
static const uint64_t most_made = 1 << 30;
static const double run_s = 0.2; /* that one should take */
static const double first_s = 3; /* that the first one, of a cold file, may take */

/* The pool of so many workers; 0: of all CPUs. */
static hr_loop *loop_of(struct tune *t, uint64_t threads, char *error)
{
    hr_error why = {0};
    unsigned i = 0;
    const struct hr_context_config config = {.struct_size = sizeof config,
                                             .n_threads = (uint32_t)threads};
    if (!threads)
        return t->bench.pool.loop;
    while (i < MAX_TUNE_POOLS && t->pools[i].threads && t->pools[i].threads != threads)
        i++;
    if (i == MAX_TUNE_POOLS)
        i = MAX_TUNE_POOLS - 1;
    struct pool *pool = &t->pools[i].pool;
    hr_status status = HR_OK;
    t->pools[i].threads = threads;
    if (!pool->context)
        status = hr_context_create(&config, &pool->context, &why);
    if (status == HR_OK && !pool->loop)
        status = hr_loop_create(pool->context, NULL, &pool->loop, &why);
    if (status != HR_OK)
        snprintf(error, HR_ERROR_TEXT, "%s", why.text);
    return status == HR_OK ? pool->loop : NULL;
}

static struct hr_source file_of(const struct tune *t, uint64_t length)
{
    return (struct hr_source){.struct_size = sizeof(struct hr_source),
                              .kind = HR_FILE,
                              .flags = HR_RANGE,
                              .path = t->path,
                              .length = length};
}

/* Without a kernel the file decides what is done on the CPUs. cast:u8,u8 copies, whatever the file's
 * length. */
static bool transfer(struct tune *t, const struct tuned *with, uint64_t length, bool with_kernel,
                     struct hr_stats *stats, double *wall_s, char *error)
{
    const struct hr_kernel kernel = {.struct_size = sizeof kernel, .text = "cast:u8,u8"};
    const struct hr_source source = file_of(t, length);
    struct hr_pipeline_config config = {
        .struct_size = sizeof config,
        .n_sources = 1,
        .sources = &source,
        .sink = {.struct_size = sizeof config.sink, .kind = HR_NULL},
        .chunk_size = with->chunk,
        .depth = (uint32_t)with->depth,
        .kernels = with_kernel ? &kernel : NULL,
        .n_kernels = with_kernel ? 1 : 0,
        .n_streams = (uint32_t)with->streams,
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

/* On the host each run is checked: null: has made the CRC-32 of what came. */
bool tune_run(struct tune *t, const struct tuned *with, bool with_kernel, double *wall_s,
              char *error)
{
    struct hr_stats stats;
    if (!transfer(t, with, t->bytes, with_kernel, &stats, wall_s, error))
        return false;
    if (t->there || stats.crc32 == t->crc32)
        return true;
    snprintf(error, HR_ERROR_TEXT, "%.300s: the CRC-32 is %08x, it was %08x: has it changed?",
             t->path, stats.crc32, t->crc32);
    return false;
}

bool tune_verify(struct tune *t, char *error)
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
    if (!t->there)
        return true;
    if (!bench_transfer(t->bench.pool.loop, &config, &stats, NULL, error))
        return false;
    if (stats.crc32 == t->crc32)
        return true;
    snprintf(error, HR_ERROR_TEXT, "%s has other bytes than %.300s: CRC-32 %08x, not %08x",
             t->bench.device, t->path, stats.crc32, t->crc32);
    return false;
}

/* ---- set-up ---- */

/* How much of the file a run takes: as much as a run of some length moves, when it is warm. */
static bool choose_bytes(struct tune *t, char *error)
{
    static const struct tuned defaults;
    struct hr_stats stats;
    double cold_s;
    double warm_s;
    if (!transfer(t, &defaults, probed_bytes, false, &stats, &cold_s, error) ||
        !transfer(t, &defaults, probed_bytes, false, &stats, &warm_s, error))
        return false;
    const double got = (double)stats.stages[HR_STAGE_WRITE].bytes_in;
    double bytes = got / (warm_s > 0 ? warm_s : 1e-9) * run_s;
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
    if (!choose_bytes(t, error) ||
        !transfer(t, &defaults, t->bytes, false, &t->defaults, &wall_s, error))
        return false;
    t->bytes = t->defaults.stages[HR_STAGE_WRITE].bytes_in;
    t->decodes = t->defaults.n_frames_in > 0;
    t->crc32 = t->defaults.crc32;
    return true;
}

/* Its defaults are other ones; of streams there are some only with a kernel. */
static bool look_at_device(struct tune *t, char *error)
{
    static const struct tuned defaults;
    hr_error why = {0};
    struct hr_stats stats;
    double wall_s;
    if (t->bench.on_host)
        return true;
    const hr_status status =
        hr_device_alloc(t->bench.pool.context, t->bench.device, t->bytes, &t->there, &why);
    if (status != HR_OK) {
        snprintf(error, HR_ERROR_TEXT, "%s", why.text);
        return false;
    }
    if (!transfer(t, &defaults, t->bytes, false, &t->defaults, &wall_s, error) ||
        !transfer(t, &defaults, t->bytes, true, &stats, &wall_s, error))
        return false;
    t->defaults.n_streams = stats.n_streams;
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
    *t = (struct tune){.path = o->path};
    if (!bench_open(&t->bench, o->device, error) || (!o->path && !make_input(t, o->size, error)) ||
        !look_at_file(t, error) || !look_at_device(t, error))
        return false;
    t->end_s = begin + o->limit_s;
    return true;
}

void tune_tear_down(struct tune *t)
{
    hr_device_free(t->bench.pool.context, t->bench.device, t->there);
    for (unsigned i = 0; i < MAX_TUNE_POOLS; i++) {
        hr_loop_free(t->pools[i].pool.loop);
        hr_context_free(t->pools[i].pool.context);
    }
    bench_tear_down(&t->bench);
}
