// SPDX-License-Identifier: Apache-2.0
/* Ceilings by one stage of the library alone: CRC-32, kernels. What comes out is lent and dropped:
 * nothing is written, and checked only in the round that verifies. */
#include <string.h>

#include "bench_tools.h"

static const uint64_t page = 4096;

/* The pool of way->width workers, made when it is first asked for. */
static struct pool *pool_of(struct bench *b, const struct way *way, char *error)
{
    unsigned i = 0;
    while (b->widths[i] != way->width)
        i++;
    return bench_make_pool(&b->pools[i], way->width, UINT64_MAX, error) ? &b->pools[i] : NULL;
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
    const struct hr_source source = bench_memory(b->data, n);
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

static bool pull_all(hr_pipeline *pipeline, bench_look_fn look, void *argument, char *error)
{
    hr_error why = {0};
    struct hr_chunk chunk = {.struct_size = sizeof chunk};
    hr_status status;
    bool right = true;
    while (right && (status = hr_pipeline_next(pipeline, -1, &chunk, &why)) == HR_OK) {
        right = !look || look(argument, &chunk, error);
        hr_chunk_release(&chunk, NULL);
    }
    if (right && status != HR_END)
        snprintf(error, HR_ERROR_TEXT, "%s", why.text);
    return right && status == HR_END;
}

bool bench_pull(hr_loop *loop, const struct hr_pipeline_config *config, bench_look_fn look,
                void *argument, double *sum, char *error)
{
    hr_error why = {0};
    hr_pipeline *pipeline = NULL;
    if (hr_pipeline_create(loop, config, &pipeline, &why) != HR_OK) {
        snprintf(error, HR_ERROR_TEXT, "%s", why.text);
        return false;
    }
    const bool done =
        pull_all(pipeline, look, argument, error) && (!sum || bench_read_sum(pipeline, sum, error));
    hr_pipeline_free(pipeline);
    return done;
}

/* ---- kernels ---- */

/* On the host: small enough for every worker to have some, and for what a kernel writes to stay in
 * a nearby cache. A GPU wants its default, which is large. */
static void cut_for_workers(const struct bench *b, struct hr_pipeline_config *config,
                            uint64_t bytes)
{
    const uint64_t most = 1 << 20;
    const uint64_t n_cpus = b->n_cpus > 0 ? (uint64_t)b->n_cpus : 1;
    const uint64_t share = bytes / (4 * n_cpus) / page * page;
    if (!b->on_host)
        return;
    config->chunk_size = share < page ? page : share < most ? share : most;
    config->depth = (uint32_t)(2 * (n_cpus + 2));
}

/* From memory of the device, with no copy to it. */
static bool run_on_device(struct bench *b, struct way *way, const char *text, struct hr_sink sink,
                          struct sample *sample, double *sum, char *error)
{
    const struct hr_kernel kernel = {.struct_size = sizeof kernel, .text = text};
    const struct hr_source source = {
        .struct_size = sizeof source, .kind = HR_DEVICE, .data = b->there, .size = way->bytes};
    struct hr_pipeline_config config = {
        .struct_size = sizeof config,
        .n_sources = 1,
        .sources = &source,
        .sink = sink,
        .kernels = &kernel,
        .n_kernels = 1,
        .device = b->device,
    };
    if (b->no_there[0]) {
        snprintf(error, HR_ERROR_TEXT, "%s", b->no_there);
        return false;
    }
    cut_for_workers(b, &config, way->bytes);
    sample_begin(sample);
    const bool done = sink.kind == HR_PULL
                          ? bench_pull(b->pool.loop, &config, NULL, NULL, sum, error)
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
