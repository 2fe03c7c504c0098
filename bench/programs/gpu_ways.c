// SPDX-License-Identifier: Apache-2.0
#include "gpu_ways.h"

#include <string.h>

#include "gpu_parts.h"

enum { MAX_KERNELS = 256, CLEAR_BYTE = 0x5a };

struct way ways[N_WAYS] = {
    {.name = "cached file to device",
     .beside = &ceilings[H2D_LARGE],
     .from = FROM_FILE,
     .to = ON_DEVICE},
    {.name = "pinned memory to device",
     .beside = &ceilings[H2D_LARGE],
     .from = PINNED,
     .to = ON_DEVICE},
    {.name = "pageable memory to device",
     .beside = &ceilings[H2D_LARGE],
     .from = PAGEABLE,
     .to = ON_DEVICE},
    {.name = "device to pinned memory",
     .beside = &ceilings[D2H_LARGE],
     .from = ON_DEVICE,
     .to = PINNED},
    {.name = "device to pageable memory",
     .beside = &ceilings[D2H_LARGE],
     .from = ON_DEVICE,
     .to = PAGEABLE},
    {.name = "memory, kernel, memory",
     .beside = &ceilings[BOTH_LARGE],
     .from = PINNED,
     .to = PINNED,
     .law = TURNED,
     .n_kernels = 1,
     .traced = true},
    {.name = "memory, kernel, memory: depth 1",
     .from = PINNED,
     .to = PINNED,
     .law = TURNED,
     .n_kernels = 1,
     .depth = 1},
    {.name = "memory, kernel, memory: 16 MiB",
     .beside = &ceilings[BOTH_LARGE],
     .from = PINNED,
     .to = PINNED,
     .law = TURNED,
     .n_kernels = 1,
     .chunk_size = 16 << 20},
    {.name = "memory, kernel, memory: 16 MiB, depth 1",
     .from = PINNED,
     .to = PINNED,
     .law = TURNED,
     .n_kernels = 1,
     .chunk_size = 16 << 20,
     .depth = 1},
    /* Chunks in which launching takes less time than running; one stream, so that kernels of
     * several chunks do not share the device. */
    {.name = "twice as long: kernels",
     .from = PINNED,
     .to = PINNED,
     .law = RAISED,
     .n_kernels = 8,
     .tuned = true,
     .chunk_size = 16 << 20,
     .n_streams = 1},
    {.name = "twice as long: H2D", .from = PINNED, .to = PINNED, .law = HALVED, .n_kernels = 1},
    {.name = "twice as long: D2H", .from = PINNED, .to = PINNED, .law = DOUBLED, .n_kernels = 1},
    {.name = "memory, reduction, device",
     .beside = &ceilings[H2D_LARGE],
     .from = PINNED,
     .to = ON_DEVICE,
     .law = COUNTED,
     .n_kernels = 1},
    {.name = "zstd frames to device", .from = FROM_FRAMES, .to = ON_DEVICE},
};

static const char *const kernel_texts[] = {
    [SAME] = NULL,
    [TURNED] = "scale:f32,-2,1",
    [RAISED] = "scale:f32,1,1",
    [COUNTED] = "count:f32,lt,0",
    [HALVED] = "cast:u16,u8",
    [DOUBLED] = "cast:u8,u16",
};

/* ---- sizes ---- */

bool way_is_of_file(const struct way *way)
{
    return way->from == FROM_FILE || way->from == FROM_FRAMES;
}

uint64_t way_bytes_in(const struct way *way, const struct areas *a)
{
    if (way_is_of_file(way))
        return a->file_size;
    return way->law == DOUBLED ? a->size / 2 : a->size;
}

uint64_t way_bytes_out(const struct way *way, const struct areas *a)
{
    if (way->law == DOUBLED)
        return a->size;
    return way->law == HALVED ? a->size / 2 : way_bytes_in(way, a);
}

uint64_t way_bytes_of_link(const struct way *way, const struct areas *a)
{
    return (way->from == ON_DEVICE ? 0 : way_bytes_in(way, a)) +
           (way->to == ON_DEVICE ? 0 : way_bytes_out(way, a));
}

/* ---- one run ---- */

static struct hr_source source_of(const struct way *way, const struct areas *a)
{
    struct hr_source source = {.struct_size = sizeof source, .kind = HR_MEMORY};
    source.size = way_bytes_in(way, a);
    switch (way->from) {
    case FROM_FILE:
    case FROM_FRAMES:
        source.kind = HR_FILE;
        source.path = way->from == FROM_FILE ? a->path : a->frames_path;
        break;
    case PINNED:
        source.data = a->in;
        break;
    case PAGEABLE:
        source.data = a->pageable;
        break;
    case ON_DEVICE:
        source.kind = HR_DEVICE;
        source.data = a->there_too;
        break;
    }
    return source;
}

static struct hr_sink sink_of(const struct way *way, const struct areas *a)
{
    struct hr_sink sink = {.struct_size = sizeof sink, .kind = HR_MEMORY, .data = a->out};
    sink.size = way_bytes_out(way, a);
    if (way->to == PAGEABLE)
        sink.data = a->pageable;
    if (way->to == ON_DEVICE) {
        sink.kind = HR_DEVICE;
        sink.data = a->there;
    }
    return sink;
}

/* Where the transfer is to put its bytes there are none like them. */
void way_prepare(const struct way *way, const struct areas *a)
{
    if (way->from == ON_DEVICE)
        there_put(a->there_too, a->in, a->size);
    if (way->to == ON_DEVICE)
        there_clear(a->there, a->size);
    else
        set_bytes(sink_of(way, a).data, CLEAR_BYTE, a->size);
}

static uint64_t count_of(hr_pipeline *pipeline, hr_error *error)
{
    uint64_t n = 0;
    struct hr_result result = {.struct_size = sizeof result};
    if (hr_pipeline_result(pipeline, 0, &result, error) != HR_OK)
        return UINT64_MAX;
    memcpy(&n, result.data, sizeof n);
    return n;
}

void way_run(const struct way *way, const struct areas *a, hr_loop *loop, const char *device,
             const char *trace_path, struct sample *sample)
{
    static struct hr_kernel kernels[MAX_KERNELS];
    const struct hr_source source = source_of(way, a);
    hr_error error = {0};
    hr_pipeline *pipeline = NULL;
    for (uint32_t i = 0; i < way->n_kernels; i++)
        kernels[i] =
            (struct hr_kernel){.struct_size = sizeof kernels[i], .text = kernel_texts[way->law]};
    const struct hr_pipeline_config config = {
        .struct_size = sizeof config,
        .n_sources = 1,
        .sources = &source,
        .sink = sink_of(way, a),
        .chunk_size = way->chunk_size,
        .depth = way->depth,
        .kernels = way->n_kernels > 0 ? kernels : NULL,
        .n_kernels = way->n_kernels,
        .n_streams = way->n_streams,
        .device = device,
        .decode = way->from == FROM_FRAMES ? HR_CODEC_ZSTD : HR_CODEC_NONE,
        .trace_path = trace_path,
    };
    sample->stats = (struct hr_stats){.struct_size = sizeof sample->stats};
    if (hr_pipeline_create(loop, &config, &pipeline, &error) != HR_OK ||
        hr_pipeline_run(pipeline, &error) != HR_OK ||
        hr_pipeline_stats(pipeline, &sample->stats) != HR_OK)
        stop(way->name, error.text);
    if (way->law == COUNTED)
        sample->n_negative = count_of(pipeline, &error);
    hr_pipeline_free(pipeline);
}

/* ---- a chain of the right length ---- */

static double busy_ns(const struct hr_stats *stats, enum hr_stage stage)
{
    const struct hr_stage_stats *s = &stats->stages[stage];
    return s->capacity > 0 ? (double)s->service_ns / s->capacity : 0;
}

/* How many times as long as the slower copies the kernels take. */
static double dominance(const struct hr_stats *stats)
{
    const double h2d = busy_ns(stats, HR_STAGE_H2D);
    const double d2h = busy_ns(stats, HR_STAGE_D2H);
    const double slower = h2d > d2h ? h2d : d2h;
    return slower > 0 ? busy_ns(stats, HR_STAGE_KERNEL) / slower : 0;
}

/* Their time is a line over their number, given by two runs after one to warm up. */
void way_tune(struct way *way, const struct areas *a, hr_loop *loop, const char *device)
{
    enum { FEW = 8, MANY = 40 };
    struct sample few;
    struct sample many;
    way->n_kernels = FEW;
    way_run(way, a, loop, device, NULL, &many);
    way_run(way, a, loop, device, NULL, &few);
    const double begin = dominance(&few.stats);
    if (begin <= 0)
        return;
    way->n_kernels = MANY;
    way_run(way, a, loop, device, NULL, &many);
    const double slope = (dominance(&many.stats) - begin) / (MANY - FEW);
    const double wanted = slope > 0 ? FEW + (2.1 - begin) / slope : FEW;
    way->n_kernels = wanted < 1 ? 1 : wanted > MAX_KERNELS ? MAX_KERNELS : (uint32_t)wanted;
}
