// SPDX-License-Identifier: Apache-2.0
/* Pipelines in the shapes that people build. A sample is all that a user pays for: making it, its
 * run, and freeing it, in a process that has done the same before. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "bench_tools.h"

bool bench_read_sum(hr_pipeline *pipeline, double *sum, char *error)
{
    hr_error why = {0};
    struct hr_result result = {.struct_size = sizeof result};
    if (hr_pipeline_result(pipeline, 0, &result, &why) != HR_OK || result.type != HR_TYPE_F64) {
        snprintf(error, HR_ERROR_TEXT, "%s", why.text);
        return false;
    }
    memcpy(sum, result.data, sizeof *sum);
    return true;
}

bool bench_transfer(hr_loop *loop, const struct hr_pipeline_config *config, struct hr_stats *stats,
                    double *sum, char *error)
{
    hr_error why = {0};
    hr_pipeline *pipeline = NULL;
    hr_status status = hr_pipeline_create(loop, config, &pipeline, &why);
    if (status == HR_OK)
        status = hr_pipeline_run(pipeline, &why);
    bool done = status == HR_OK;
    if (!done)
        snprintf(error, HR_ERROR_TEXT, "%s", why.text);
    if (done && stats) {
        *stats = (struct hr_stats){.struct_size = sizeof *stats};
        done = hr_pipeline_stats(pipeline, stats) == HR_OK;
    }
    if (done && sum)
        done = bench_read_sum(pipeline, sum, error);
    hr_pipeline_free(pipeline);
    return done;
}

bool bench_store(struct bench *b, const struct hr_source *source, void *there, uint64_t n,
                 char *error)
{
    const struct hr_pipeline_config config = {
        .struct_size = sizeof config,
        .n_sources = 1,
        .sources = source,
        .sink = {.struct_size = sizeof config.sink, .kind = HR_DEVICE, .data = there, .size = n},
        .device = b->device,
    };
    return bench_transfer(b->pool.loop, &config, NULL, NULL, error);
}

static bool uses_zstd(const struct bench_case *one)
{
    return one->encode || one->from == FROM_PACKED_FILE;
}

uint64_t shape_bytes(const struct bench *b, const struct bench_case *one, bool deep)
{
    const uint64_t few = BENCH_SOME_BYTES;
    const uint64_t all = uses_zstd(one) ? b->packed_of : b->size;
    const bool is_some = one->from == FROM_SOCKET || one->to == TO_FILE;
    const uint64_t n = is_some && all > few ? few : all;
    const uint64_t quarter = n / 4 - n / 4 % 4096;
    return deep || one->to == TO_FILE || quarter == 0 ? n : quarter;
}

/* ---- ends ---- */

static struct hr_source source_of(const struct bench *b, const struct bench_case *one,
                                  uint64_t bytes, const char *address)
{
    const uint64_t whole = one->from == FROM_FILE ? b->size : b->packed_of; /* of a file */
    struct hr_source source = {.struct_size = sizeof source, .size = bytes};
    switch (one->from) {
    case FROM_MEMORY:
        source.kind = HR_MEMORY;
        source.data = b->data;
        break;
    case FROM_FILE:
    case FROM_PACKED_FILE:
        source.kind = HR_FILE;
        source.path = one->from == FROM_FILE ? b->in_path : b->packed_path;
        source.flags = bytes < whole ? HR_RANGE : 0;
        source.length = bytes < whole ? bytes : 0;
        break;
    case FROM_DEVICE:
        source.kind = HR_DEVICE;
        source.data = b->there;
        break;
    case FROM_SOCKET:
        source.kind = HR_SOCKET;
        source.path = address;
        break;
    }
    return source;
}

static struct hr_sink sink_of(const struct bench *b, const struct bench_case *one)
{
    struct hr_sink sink = {.struct_size = sizeof sink, .kind = HR_NULL, .size = b->size};
    if (one->to == TO_MEMORY) {
        sink.kind = HR_MEMORY;
        sink.data = b->room;
    } else if (one->to == TO_FILE) {
        sink.kind = HR_FILE;
        sink.path = b->out_path;
    } else if (one->to == TO_DEVICE) {
        sink.kind = HR_DEVICE;
        sink.data = b->there_too;
    }
    return sink;
}

/* "" or why the case cannot run. */
static const char *missing(const struct bench *b, const struct bench_case *one)
{
    if ((one->from == FROM_FILE || one->from == FROM_PACKED_FILE || one->to == TO_FILE) &&
        b->no_files[0])
        return b->no_files;
    if (one->from == FROM_PACKED_FILE && b->no_packed[0])
        return b->no_packed;
    return one->from == FROM_DEVICE || one->to == TO_DEVICE ? b->no_there : "";
}

/* ---- a run ---- */

static bool verify(struct bench *b, const struct bench_case *one, const struct way *way, double sum,
                   char *error)
{
    const bool mapped = one->kernel && one->to != TO_NULL;
    if (one->to == TO_NULL)
        return verify_sum(b, way->bytes, sum, error);
    if (one->to == TO_DEVICE)
        return verify_there_too(b, way->bytes, mapped, error);
    if (one->to == TO_MEMORY)
        return verify_bytes(b, b->room, 0, way->bytes, mapped, error);
    return one->encode ? verify_packed_file(b, way->bytes, error)
                       : verify_file(b, way->bytes, mapped, error);
}

static bool move(struct bench *b, const struct bench_case *one, struct way *way,
                 const char *address, struct sample *sample, char *error)
{
    const struct hr_kernel kernel = {.struct_size = sizeof kernel, .text = one->kernel};
    const struct hr_source source = source_of(b, one, way->bytes, address);
    const struct hr_pipeline_config config = {
        .struct_size = sizeof config,
        .n_sources = 1,
        .sources = &source,
        .sink = sink_of(b, one),
        .depth = way->width,
        .kernels = one->kernel ? &kernel : NULL,
        .n_kernels = one->kernel ? 1 : 0,
        .device = b->device,
        .decode = one->from == FROM_PACKED_FILE ? HR_CODEC_ZSTD : HR_CODEC_NONE,
        .encode = one->encode ? HR_CODEC_ZSTD : HR_CODEC_NONE,
        .direct = HR_DIRECT_OFF, /* the files are in the page cache */
    };
    double sum = 0;
    sample_begin(sample);
    if (!bench_transfer(b->pool.loop, &config, &way->stats, one->to == TO_NULL ? &sum : NULL,
                        error))
        return false;
    sample_end(sample, way->bytes);
    sample->overlap = way->stats.overlap;
    sample->gain = way->stats.gain;
    return !is_verifying(b) || verify(b, one, way, sum, error);
}

/* The sender is a thread of this process, whose CPU time counts, as it does for the ceiling. */
static bool move_from_socket(struct bench *b, const struct bench_case *one, struct way *way,
                             struct sample *sample, char *error)
{
    struct sender sender;
    char address[64];
    uint16_t port = 0;
    if (!sender_begin(&sender, b->data, way->bytes, &port))
        return bench_told(error, "a socket on the loopback");
    snprintf(address, sizeof address, "tcp://127.0.0.1:%u", (unsigned)port);
    const bool done = move(b, one, way, address, sample, error);
    sender_end(&sender);
    return done;
}

bool run_shape(struct bench *b, const struct bench_case *one, struct way *way,
               struct sample *sample, char *error)
{
    const char *why = missing(b, one);
    if (*why) {
        snprintf(error, HR_ERROR_TEXT, "%s", why);
        return false;
    }
    if (one->to == TO_FILE) /* a new file each time, as the first run has one */
        unlink(b->out_path);
    if (is_verifying(b) && one->to == TO_MEMORY)
        memset(b->room, 0, way->bytes);
    if (is_verifying(b) && one->to == TO_DEVICE && !clear_there_too(b, way->bytes, error))
        return false;
    return one->from == FROM_SOCKET ? move_from_socket(b, one, way, sample, error)
                                    : move(b, one, way, NULL, sample, error);
}
