// SPDX-License-Identifier: Apache-2.0
/* Ceilings by one stage of the library alone: CRC-32, zstd either way, kernels. What comes out is
 * lent and dropped: nothing is written, and checked only in the round that verifies. */
#include <string.h>

#include "bench_tools.h"

/* The pool of way->width workers, made when it is first asked for. */
static struct pool *pool_of(struct bench *b, const struct way *way, char *error)
{
    hr_error why = {0};
    unsigned i = 0;
    while (b->widths[i] != way->width)
        i++;
    struct pool *pool = &b->pools[i];
    const struct hr_context_config config = {
        .struct_size = sizeof config, .n_threads = way->width, .max_memory = UINT64_MAX};
    if (pool->loop)
        return pool;
    hr_status status = HR_OK;
    if (!pool->context)
        status = hr_context_create(&config, &pool->context, &why);
    if (status == HR_OK)
        status = hr_loop_create(pool->context, NULL, &pool->loop, &why);
    snprintf(error, HR_ERROR_TEXT, "%s", why.text);
    return status == HR_OK ? pool : NULL;
}

static struct hr_source from_memory(const void *data, uint64_t size)
{
    return (struct hr_source){
        .struct_size = sizeof(struct hr_source), .kind = HR_MEMORY, .data = data, .size = size};
}

/* ---- CRC-32 ---- */

/* Bit by bit, as RFC 1952 (section 8) has it: slow, and not the library's. */
static uint32_t plain_crc32(const unsigned char *data, uint64_t n)
{
    uint32_t crc = 0xffffffffu;
    for (uint64_t i = 0; i < n; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (0xedb88320u & (0 - (crc & 1)));
    }
    return ~crc;
}

static bool check_crc32(struct bench *b, hr_loop *loop, uint64_t n, struct hr_stats *stats,
                        char *error)
{
    const struct hr_source source = from_memory(b->data, n);
    const struct hr_pipeline_config config = {
        .struct_size = sizeof config,
        .n_sources = 1,
        .sources = &source,
        .sink = {.struct_size = sizeof config.sink, .kind = HR_NULL},
    };
    return bench_transfer(loop, &config, stats, NULL, error);
}

bool run_check(struct bench *b, struct way *way, struct sample *sample, char *error)
{
    const uint64_t few = way->bytes < 1 << 20 ? way->bytes : 1 << 20;
    struct hr_stats stats;
    struct pool *pool = pool_of(b, way, error);
    if (!pool)
        return false;
    sample_begin(sample);
    if (!check_crc32(b, pool->loop, way->bytes, NULL, error))
        return false;
    sample_end(sample, way->bytes);
    if (!is_verifying(b))
        return true;
    if (!check_crc32(b, pool->loop, few, &stats, error))
        return false;
    if (stats.crc32 == plain_crc32(b->data, few))
        return true;
    snprintf(error, HR_ERROR_TEXT, "the CRC-32 of %llu bytes is wrong", (unsigned long long)few);
    return false;
}

/* ---- pulling ---- */

/* What becomes of the chunks in the round that verifies: they are compared, or kept. */
enum look { LOOK_AWAY, LOOK_SAME, LOOK_KEEP };

static bool look_at(struct bench *b, const struct hr_chunk *chunk, enum look look, uint64_t at,
                    char *error)
{
    if (look == LOOK_SAME)
        return verify_bytes(b, chunk->data, at, chunk->size, false, error);
    if (look == LOOK_KEEP && at + chunk->size <= b->room_size)
        memcpy(b->room + at, chunk->data, chunk->size);
    return true;
}

/* Bytes that came in *size. False with the reason in error. */
static bool pull_all(struct bench *b, hr_pipeline *pipeline, enum look look, uint64_t *size,
                     char *error)
{
    hr_error why = {0};
    struct hr_chunk chunk = {.struct_size = sizeof chunk};
    hr_status status;
    bool right = true;
    *size = 0;
    while (right && (status = hr_pipeline_next(pipeline, -1, &chunk, &why)) == HR_OK) {
        right = look_at(b, &chunk, look, *size, error);
        *size += chunk.size;
        hr_chunk_release(&chunk, NULL);
    }
    if (right && status != HR_END)
        snprintf(error, HR_ERROR_TEXT, "%s", why.text);
    return right && status == HR_END;
}

/* sum: of the first kernel; NULL: there is none. */
static bool pull(struct bench *b, hr_loop *loop, const struct hr_pipeline_config *config,
                 enum look look, uint64_t *size, double *sum, char *error)
{
    hr_error why = {0};
    hr_pipeline *pipeline = NULL;
    if (hr_pipeline_create(loop, config, &pipeline, &why) != HR_OK) {
        snprintf(error, HR_ERROR_TEXT, "%s", why.text);
        return false;
    }
    const bool done =
        pull_all(b, pipeline, look, size, error) && (!sum || bench_read_sum(pipeline, sum, error));
    hr_pipeline_free(pipeline);
    return done;
}

/* ---- zstd ---- */

bool run_decode(struct bench *b, struct way *way, struct sample *sample, char *error)
{
    struct hr_source source = from_memory(b->packed, b->packed_size);
    const struct hr_pipeline_config config = {
        .struct_size = sizeof config,
        .n_sources = 1,
        .sources = &source,
        .sink = {.struct_size = sizeof config.sink, .kind = HR_PULL},
        .decode = HR_CODEC_ZSTD,
    };
    struct pool *pool = pool_of(b, way, error);
    uint64_t size;
    source.flags = HR_RANGE;
    source.length = way->bytes;
    if (!pool || b->no_packed[0]) {
        snprintf(error, HR_ERROR_TEXT, "%s", pool ? b->no_packed : error);
        return false;
    }
    sample_begin(sample);
    if (!pull(b, pool->loop, &config, is_verifying(b) ? LOOK_SAME : LOOK_AWAY, &size, NULL, error))
        return false;
    sample_end(sample, way->bytes);
    if (size == way->bytes)
        return true;
    snprintf(error, HR_ERROR_TEXT, "%llu bytes came of %llu", (unsigned long long)size,
             (unsigned long long)way->bytes);
    return false;
}

bool run_encode(struct bench *b, struct way *way, struct sample *sample, char *error)
{
    const struct hr_source source = from_memory(b->data, way->bytes);
    const struct hr_pipeline_config config = {
        .struct_size = sizeof config,
        .n_sources = 1,
        .sources = &source,
        .sink = {.struct_size = sizeof config.sink, .kind = HR_PULL},
        .encode = HR_CODEC_ZSTD,
    };
    struct pool *pool = pool_of(b, way, error);
    uint64_t size;
    if (!pool)
        return false;
    sample_begin(sample);
    if (!pull(b, pool->loop, &config, is_verifying(b) ? LOOK_KEEP : LOOK_AWAY, &size, NULL, error))
        return false;
    sample_end(sample, way->bytes);
    return !is_verifying(b) || verify_packed_memory(b, b->room, size, way->bytes, error);
}

/* ---- kernels ---- */

/* From memory of the device, with no copy to it. */
static bool run_on_device(struct bench *b, struct way *way, const char *text, struct hr_sink sink,
                          struct sample *sample, double *sum, char *error)
{
    const struct hr_kernel kernel = {.struct_size = sizeof kernel, .text = text};
    const struct hr_source source = {
        .struct_size = sizeof source, .kind = HR_DEVICE, .data = b->there, .size = way->bytes};
    const struct hr_pipeline_config config = {
        .struct_size = sizeof config,
        .n_sources = 1,
        .sources = &source,
        .sink = sink,
        .kernels = &kernel,
        .n_kernels = 1,
        .device = b->device,
    };
    uint64_t size;
    if (b->no_there[0]) {
        snprintf(error, HR_ERROR_TEXT, "%s", b->no_there);
        return false;
    }
    sample_begin(sample);
    const bool done = sink.kind == HR_PULL
                          ? pull(b, b->pool.loop, &config, LOOK_AWAY, &size, sum, error)
                          : bench_transfer(b->pool.loop, &config, NULL, sum, error);
    sample_end(sample, way->bytes);
    return done;
}

bool run_kernel(struct bench *b, struct way *way, struct sample *sample, char *error)
{
    const struct hr_sink sink = {
        .struct_size = sizeof sink, .kind = HR_DEVICE, .data = b->there_too, .size = way->bytes};
    if (is_verifying(b) && !b->no_there[0] && !clear_there_too(b, way->bytes, error))
        return false;
    return run_on_device(b, way, BENCH_KERNEL, sink, sample, NULL, error) &&
           (!is_verifying(b) || verify_there_too(b, way->bytes, true, error));
}

/* It passes its input on: lent on the device, so that nothing is copied at all. */
bool run_sum(struct bench *b, struct way *way, struct sample *sample, char *error)
{
    const struct hr_sink sink = {
        .struct_size = sizeof sink, .kind = HR_PULL, .flags = HR_LEND_DEVICE};
    double sum = 0;
    return run_on_device(b, way, "sum:f32", sink, sample, &sum, error) &&
           (!is_verifying(b) || verify_sum(b, way->bytes, sum, error));
}
