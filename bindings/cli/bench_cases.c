// SPDX-License-Identifier: Apache-2.0
/* The cases, one run of each, and the proof that it moved the right bytes. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

static bool copy_memory(struct bench *b)
{
    memcpy(b->room, b->data, b->size);
    return true;
}

/* Into one small buffer that stays in the caches, as a reader that looks at each byte once does. */
static bool read_file(struct bench *b)
{
    const size_t piece = 1 << 20;
    const int fd = open(b->in_path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    uint64_t at = 0;
    ssize_t got = 1;
    while (got > 0) {
        got = pread(fd, b->room, piece < b->room_size ? piece : b->room_size, (off_t)at);
        at += got > 0 ? (uint64_t)got : 0;
    }
    const int error = got < 0 ? errno : at != b->size ? EIO : 0;
    close(fd);
    errno = error;
    return !error;
}

const struct bench_case bench_cases[N_CASES] = {
    {.name = "copy", .what = "memory to memory by memcpy, one thread", .plain = copy_memory},
    {.name = "pread", .what = "a cached file by pread, one thread", .plain = read_file},
    {.name = "check", .what = "memory to null: its CRC-32", .to = TO_NULL},
    {.name = "write", .what = "memory to a file, in the page cache", .to = TO_FILE},
    {.name = "decode",
     .what = "encoded memory to memory",
     .from = FROM_PACKED_MEMORY,
     .to = TO_MEMORY},
    {.name = "encode", .what = "memory to encoded memory", .to = TO_MEMORY, .encode = true},
    {.name = "kernel",
     .what = "memory through bswap:4 on the best device to memory",
     .to = TO_MEMORY,
     .kernel = true},
    {.name = "memory-memory", .what = "memory to memory", .to = TO_MEMORY, .parts = {"copy"}},
    {.name = "file-null",
     .what = "a cached file to null",
     .from = FROM_FILE,
     .to = TO_NULL,
     .parts = {"pread", "check"}},
    {.name = "file-file",
     .what = "a cached file to a file",
     .from = FROM_FILE,
     .to = TO_FILE,
     .parts = {"pread", "write"}},
    {.name = "whole",
     .what = "an encoded file through the kernel to an encoded file",
     .from = FROM_PACKED_FILE,
     .to = TO_FILE,
     .kernel = true,
     .encode = true,
     .parts = {"decode", "kernel", "encode"}},
};

bool is_pipeline(const struct bench_case *one)
{
    return !one->plain;
}

static struct hr_source source_of(const struct bench *b, const struct bench_case *one)
{
    struct hr_source source = {.struct_size = sizeof source};
    const bool packed = one->from == FROM_PACKED_FILE || one->from == FROM_PACKED_MEMORY;
    if (one->from == FROM_FILE || one->from == FROM_PACKED_FILE) {
        source.kind = HR_FILE;
        source.path = packed ? b->packed_path : b->in_path;
    } else {
        source.kind = HR_MEMORY;
        source.data = packed ? b->packed : b->data;
        source.size = packed ? b->packed_size : b->size;
    }
    return source;
}

static struct hr_sink sink_of(const struct bench *b, const struct bench_case *one)
{
    struct hr_sink sink = {.struct_size = sizeof sink, .kind = HR_NULL};
    if (one->to == TO_MEMORY) {
        sink.kind = HR_MEMORY;
        sink.data = b->room;
        sink.size = b->room_size;
    } else if (one->to == TO_FILE) {
        sink.kind = HR_FILE;
        sink.path = b->out_path;
    }
    return sink;
}

/* Creates, runs and frees: a user pays for all of it. */
static bool run_pipeline(struct bench *b, const struct hr_pipeline_config *config,
                         struct sample *sample, char *error)
{
    hr_error why = {0};
    hr_pipeline *pipeline = NULL;
    struct hr_stats stats = {.struct_size = sizeof stats};
    hr_status status = hr_pipeline_create(b->loop, config, &pipeline, &why);
    if (status == HR_OK)
        status = hr_pipeline_run(pipeline, &why);
    if (status == HR_OK)
        status = hr_pipeline_stats(pipeline, &stats);
    hr_pipeline_free(pipeline);
    sample->overlap = stats.overlap;
    sample->gain = stats.gain;
    sample->crc = stats.crc32;
    sample->out_bytes = stats.stages[HR_STAGE_WRITE].bytes_out;
    if (status != HR_OK)
        snprintf(error, HR_ERROR_TEXT, "%s", why.text);
    return status == HR_OK;
}

static bool run_case(struct bench *b, const struct bench_case *one, uint32_t depth,
                     struct sample *sample, char *error)
{
    const struct hr_kernel kernel = {.struct_size = sizeof kernel, .text = "bswap:4"};
    const struct hr_source source = source_of(b, one);
    const bool packed = one->from == FROM_PACKED_FILE || one->from == FROM_PACKED_MEMORY;
    const struct hr_pipeline_config config = {
        .struct_size = sizeof config,
        .n_sources = 1,
        .sources = &source,
        .sink = sink_of(b, one),
        .depth = depth,
        .kernels = one->kernel ? &kernel : NULL,
        .n_kernels = one->kernel,
        .decode = packed ? HR_CODEC_ZSTD : HR_CODEC_NONE,
        .encode = one->encode ? HR_CODEC_ZSTD : HR_CODEC_NONE,
        .direct = HR_DIRECT_OFF, /* the files are in the page cache */
    };
    if (packed && b->packing_failed[0]) {
        snprintf(error, HR_ERROR_TEXT, "%s", b->packing_failed);
        return false;
    }
    return run_pipeline(b, &config, sample, error);
}

static double clock_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double cpu_seconds(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

bool bench_run(struct bench *b, const struct bench_case *one, uint32_t depth, struct sample *sample,
               char *error)
{
    *sample = (struct sample){0};
    if (one->to == TO_FILE) /* a new file each time, as the first run has one */
        unlink(b->out_path);
    const double cpu = cpu_seconds();
    const double start = clock_seconds();
    bool done;
    if (one->plain) {
        done = one->plain(b);
        if (!done)
            snprintf(error, HR_ERROR_TEXT, "%s", strerror(errno));
    } else {
        done = run_case(b, one, depth, sample, error);
    }
    sample->wall_s = clock_seconds() - start;
    sample->cpu_s = cpu_seconds() - cpu;
    return done;
}

/* The CRC-32 of what the run left in memory or in the file, decoded if it was encoded. */
static bool look_again(struct bench *b, const struct bench_case *one, const struct sample *sample,
                       uint32_t *crc, char *error)
{
    struct sample again = {0};
    const struct hr_source source = {
        .struct_size = sizeof source,
        .kind = one->to == TO_FILE ? HR_FILE : HR_MEMORY,
        .path = b->out_path,
        .data = b->room,
        .size = one->plain ? b->size : sample->out_bytes,
    };
    const struct hr_pipeline_config config = {
        .struct_size = sizeof config,
        .n_sources = 1,
        .sources = &source,
        .sink = {.struct_size = sizeof config.sink, .kind = HR_NULL},
        .decode = one->encode ? HR_CODEC_ZSTD : HR_CODEC_NONE,
    };
    const bool done = run_pipeline(b, &config, &again, error);
    *crc = again.crc;
    return done;
}

bool bench_verify(struct bench *b, const struct bench_case *one, const struct sample *sample,
                  char *error)
{
    const uint32_t want = one->kernel ? b->swapped_crc : b->crc;
    uint32_t crc = sample->crc;
    if (one->plain == read_file) /* its length was checked; the bytes are overwritten */
        return true;
    if ((one->plain || one->to != TO_NULL) && !look_again(b, one, sample, &crc, error))
        return false;
    if (crc == want)
        return true;
    snprintf(error, HR_ERROR_TEXT, "moved other bytes than it should: CRC-32 %08x, not %08x", crc,
             want);
    return false;
}
