// SPDX-License-Identifier: Apache-2.0
/* Transfers between all kinds of ends, through the public header alone, on both I/O engines. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <headrace.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engines.h"
#include "folder_suite.h"
#include "peers.h"
#include "quiet_fork.h"

enum { CHUNK = 8192 };

static const size_t sizes[] = {0,         1,     4095,      4096,          4097,
                               CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 7, 40 * CHUNK + 13};
enum { N_SIZES = sizeof sizes / sizeof sizes[0] };

static unsigned char *pattern(size_t size)
{
    unsigned char *bytes = malloc(size + 1);
    fill_pattern(bytes, size);
    return bytes;
}

static void write_file(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    cr_assert(file && fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
}

static void assert_file_holds(const char *path, const void *bytes, size_t size)
{
    unsigned char *got = malloc(size + 1);
    FILE *file = fopen(path, "rb");
    cr_assert(file, "%s is not there", path);
    cr_assert_eq(fread(got, 1, size + 1, file), size);
    cr_assert(memcmp(got, bytes, size) == 0);
    fclose(file);
    free(got);
}

static hr_loop *loops[2];
static unsigned n_loops;

static void make_loops(void)
{
    make_directory();
    n_loops = test_loops(loops);
}

static void free_loops(void)
{
    for (unsigned i = 0; i < n_loops; i++)
        hr_loop_free(loops[i]);
    remove_directory();
}

static struct hr_pipeline_config config_of(const struct hr_source *source, struct hr_sink sink)
{
    return (struct hr_pipeline_config){.struct_size = sizeof(struct hr_pipeline_config),
                                       .n_sources = 1,
                                       .sources = source,
                                       .sink = sink,
                                       .chunk_size = CHUNK,
                                       .depth = 4};
}

static void assert_transfer(hr_loop *loop, const struct hr_pipeline_config *config)
{
    hr_error error = {0};
    cr_assert_eq(run_config(loop, config, NULL, &error), HR_OK, "%s", error.text);
}

#define FILE_SOURCE(p)                                                                             \
    {                                                                                              \
        .struct_size = sizeof(struct hr_source), .kind = HR_FILE, .path = (p)                      \
    }
#define FILE_SINK(p)                                                                               \
    ((struct hr_sink){.struct_size = sizeof(struct hr_sink), .kind = HR_FILE, .path = (p)})
#define MEMORY_SOURCE(d, n)                                                                        \
    {                                                                                              \
        .struct_size = sizeof(struct hr_source), .kind = HR_MEMORY, .data = (d), .size = (n)       \
    }
#define MEMORY_SINK(d, n)                                                                          \
    ((struct hr_sink){                                                                             \
        .struct_size = sizeof(struct hr_sink), .kind = HR_MEMORY, .data = (d), .size = (n)})

TestSuite(transfer, .init = make_loops, .fini = free_loops, .timeout = 60);

Test(transfer, file_to_file_is_the_same_for_every_size)
{
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned i = 0; i < N_SIZES; i++) {
            unsigned char *bytes = pattern(sizes[i]);
            write_file(path_of("in"), bytes, sizes[i]);
            const struct hr_source source = FILE_SOURCE(path_of("in"));
            const struct hr_pipeline_config config = config_of(&source, FILE_SINK(path_of("out")));
            assert_transfer(loops[l], &config);
            assert_file_holds(path_of("out"), bytes, sizes[i]);
            free(bytes);
        }
}

Test(transfer, memory_to_memory_at_depth_one_and_many)
{
    static const uint32_t depths[] = {1, 2, 64};
    const size_t size = 9 * CHUNK + 5;
    unsigned char *bytes = pattern(size);
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned i = 0; i < 3; i++) {
            unsigned char *got = calloc(1, size);
            const struct hr_source source = MEMORY_SOURCE(bytes, size);
            struct hr_pipeline_config config = config_of(&source, MEMORY_SINK(got, size));
            config.depth = depths[i];
            assert_transfer(loops[l], &config);
            cr_assert(memcmp(got, bytes, size) == 0);
            free(got);
        }
    free(bytes);
}

/* CRC-32 as zlib's, bit by bit. */
static uint32_t crc32_of(const unsigned char *bytes, size_t size)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

static uint32_t crc32_by_null(hr_loop *loop, const struct hr_source *sources, unsigned n)
{
    struct hr_pipeline_config config =
        config_of(sources, (struct hr_sink){.struct_size = sizeof(struct hr_sink)});
    struct hr_stats stats = {.struct_size = sizeof stats};
    hr_pipeline *pipeline = NULL;
    hr_error error = {0};
    config.n_sources = n;
    config.chunk_size = 1 << 20;
    cr_assert_eq(hr_pipeline_create(loop, &config, &pipeline, &error), HR_OK, "%s", error.text);
    cr_assert_eq(hr_pipeline_run(pipeline, &error), HR_OK, "%s", error.text);
    cr_assert_eq(hr_pipeline_stats(pipeline, &stats), HR_OK);
    hr_pipeline_free(pipeline);
    return stats.crc32;
}

/* What is cached takes another way to the null sink than what is not. */
Test(transfer, null_has_the_crc_of_files_that_are_cached_in_part)
{
    enum { SIZE = (5 << 20) + 4321 };
    unsigned char *bytes = pattern(SIZE);
    write_file(path_of("in"), bytes, SIZE);
    const uint32_t expected = crc32_of(bytes, SIZE);
    const int fd = open(path_of("in"), O_RDONLY);
    cr_assert(fd >= 0 && fsync(fd) == 0);
    const off_t dropped[][2] = {{0, 0}, {0, 1 << 20}, {300000, 1 << 20}, {3 << 20, 0}, {0, 1}};
    for (unsigned l = 0; l < n_loops; l++) {
        for (unsigned i = 0; i < sizeof dropped / sizeof dropped[0]; i++) {
            const struct hr_source file = FILE_SOURCE(path_of("in"));
            cr_expect_eq(crc32_by_null(loops[l], &file, 1), expected); /* and caches it */
            posix_fadvise(fd, dropped[i][0], dropped[i][1], POSIX_FADV_DONTNEED);
            cr_expect_eq(crc32_by_null(loops[l], &file, 1), expected, "without %lld+%lld",
                         (long long)dropped[i][0], (long long)dropped[i][1]);
        }
        const struct hr_source mixed[2] = {MEMORY_SOURCE(bytes, 777), FILE_SOURCE(path_of("in"))};
        unsigned char *joined = malloc(777 + SIZE);
        memcpy(joined, bytes, 777);
        memcpy(joined + 777, bytes, SIZE);
        cr_expect_eq(crc32_by_null(loops[l], mixed, 2), crc32_of(joined, 777 + SIZE));
        free(joined);
    }
    close(fd);
    free(bytes);
}

Test(transfer, ranges_give_what_is_there)
{
    const size_t size = 3 * CHUNK;
    static const struct {
        uint64_t offset, length, want;
    } cases[] = {{0, 0, 0},
                 {5, 7, 7},
                 {4097, 2 * CHUNK, 2 * CHUNK},
                 {3 * CHUNK - 1, UINT64_MAX, 1},
                 {3 * CHUNK, 9, 0},
                 {UINT64_MAX, 9, 0}};
    unsigned char *bytes = pattern(size);
    unsigned char *got = malloc(size);
    write_file(path_of("in"), bytes, size);
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            struct hr_source source = FILE_SOURCE(path_of("in"));
            source.flags = HR_RANGE;
            source.offset = cases[i].offset;
            source.length = cases[i].length;
            const struct hr_pipeline_config config = config_of(&source, MEMORY_SINK(got, size));
            hr_pipeline *pipeline = NULL;
            struct hr_stats stats = {.struct_size = sizeof stats};
            cr_assert_eq(hr_pipeline_create(loops[l], &config, &pipeline, NULL), HR_OK);
            cr_assert_eq(hr_pipeline_run(pipeline, NULL), HR_OK);
            cr_assert_eq(hr_pipeline_stats(pipeline, &stats), HR_OK);
            cr_assert_eq(stats.stages[HR_STAGE_WRITE].bytes_out, cases[i].want);
            if (cases[i].want)
                cr_assert(memcmp(got, bytes + cases[i].offset, cases[i].want) == 0);
            hr_pipeline_free(pipeline);
        }
    free(got);
    free(bytes);
}

struct feeder {
    int fd;
    size_t step;
    size_t size;
    const unsigned char *bytes;
};

static void *feed(void *arg)
{
    const struct feeder *f = arg;
    for (size_t at = 0; at < f->size;) {
        const size_t left = f->size - at;
        const ssize_t n = write(f->fd, f->bytes + at, left < f->step ? left : f->step);
        if (n <= 0)
            break;
        at += (size_t)n;
    }
    close(f->fd);
    return NULL;
}

Test(transfer, a_pipe_fed_in_odd_pieces_arrives_whole)
{
    static const size_t steps[] = {1, 7, 4097};
    const size_t size = 5 * CHUNK + 3;
    unsigned char *bytes = pattern(size);
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned i = 0; i < 3; i++) {
            int ends[2];
            cr_assert_eq(pipe(ends), 0);
            struct feeder feeder = {ends[1], steps[i], size, bytes};
            pthread_t thread;
            pthread_create(&thread, NULL, feed, &feeder);
            unsigned char *got = calloc(1, size);
            const struct hr_source source = {
                .struct_size = sizeof source, .kind = HR_FD, .fd = ends[0]};
            const struct hr_pipeline_config config = config_of(&source, MEMORY_SINK(got, size));
            assert_transfer(loops[l], &config);
            cr_assert(memcmp(got, bytes, size) == 0);
            pthread_join(thread, NULL);
            close(ends[0]);
            free(got);
        }
    free(bytes);
}

Test(transfer, several_sources_are_one_stream)
{
    const size_t size = 2 * CHUNK + 9;
    unsigned char *bytes = pattern(size);
    unsigned char *got = malloc(2 * size);
    write_file(path_of("in"), bytes, size);
    for (unsigned l = 0; l < n_loops; l++) {
        const struct hr_source sources[] = {FILE_SOURCE(path_of("in")), MEMORY_SOURCE(bytes, 0),
                                            MEMORY_SOURCE(bytes, size)};
        struct hr_pipeline_config config = config_of(sources, MEMORY_SINK(got, 2 * size));
        config.n_sources = 3;
        assert_transfer(loops[l], &config);
        cr_assert(memcmp(got, bytes, size) == 0 && memcmp(got + size, bytes, size) == 0);
    }
    free(got);
    free(bytes);
}

static int64_t read_and_fail(void *user, void *buffer, size_t size, uint64_t offset)
{
    const uint64_t good = *(const uint64_t *)user;
    if (offset >= good)
        return -EREMOTEIO;
    const size_t n = good - offset < size ? (size_t)(good - offset) : size;
    for (size_t i = 0; i < n; i++)
        ((unsigned char *)buffer)[i] = pattern_at(offset + i);
    return (int64_t)n;
}

Test(transfer, all_before_a_read_error_is_delivered_and_the_error_tells_the_byte)
{
    uint64_t good = 3 * CHUNK + 100;
    for (unsigned l = 0; l < n_loops; l++) {
        unsigned char *got = calloc(1, 8 * CHUNK);
        const struct hr_source source = {.struct_size = sizeof source,
                                         .kind = HR_CALLBACK,
                                         .read = read_and_fail,
                                         .user = &good};
        const struct hr_pipeline_config config = config_of(&source, MEMORY_SINK(got, 8 * CHUNK));
        hr_error error = {0};
        cr_assert_eq(run_config(loops[l], &config, NULL, &error), HR_EIO);
        cr_assert_eq(error.native, EREMOTEIO);
        cr_assert_eq(error.stage, HR_STAGE_READ);
        cr_assert_eq(error.offset, good);
        for (uint64_t i = 0; i < good; i++)
            cr_assert_eq(got[i], pattern_at(i));
        free(got);
    }
}

static int64_t write_and_fail(void *user, const void *buffer, size_t size, uint64_t offset)
{
    (void)buffer;
    const uint64_t good = *(const uint64_t *)user;
    if (offset >= good)
        return -EDQUOT;
    return good - offset < size ? (int64_t)(good - offset) : (int64_t)size;
}

Test(transfer, a_sink_that_fails_ends_the_transfer_at_its_byte)
{
    const size_t size = 20 * CHUNK;
    unsigned char *bytes = pattern(size);
    for (unsigned l = 0; l < n_loops; l++)
        for (uint64_t good = 0; good < 4 * CHUNK; good += 1777) {
            const struct hr_source source = MEMORY_SOURCE(bytes, size);
            const struct hr_sink sink = {.struct_size = sizeof sink,
                                         .kind = HR_CALLBACK,
                                         .write = write_and_fail,
                                         .user = &good};
            const struct hr_pipeline_config config = config_of(&source, sink);
            hr_error error = {0};
            cr_assert_eq(run_config(loops[l], &config, NULL, &error), HR_EIO);
            cr_assert_eq(error.native, EDQUOT);
            cr_assert_eq(error.offset, good);
        }
    free(bytes);
}

Test(transfer, a_memory_sink_that_is_too_small_is_not_overrun)
{
    unsigned char got[CHUNK + 101];
    memset(got, 0xa5, sizeof got);
    unsigned char *bytes = pattern(2 * CHUNK);
    for (unsigned l = 0; l < n_loops; l++) {
        const struct hr_source source = MEMORY_SOURCE(bytes, 2 * CHUNK);
        const struct hr_pipeline_config config = config_of(&source, MEMORY_SINK(got, CHUNK + 100));
        hr_error error = {0};
        cr_assert_eq(run_config(loops[l], &config, NULL, &error), HR_ESPACE);
        cr_assert_eq(got[CHUNK + 100], 0xa5);
    }
    free(bytes);
}

Test(transfer, a_failure_leaves_the_old_file_and_nothing_beside_it)
{
    uint64_t good = 2 * CHUNK;
    for (unsigned l = 0; l < n_loops; l++) {
        write_file(path_of("out"), "old", 3);
        const struct hr_source source = {.struct_size = sizeof source,
                                         .kind = HR_CALLBACK,
                                         .read = read_and_fail,
                                         .user = &good};
        const struct hr_pipeline_config config = config_of(&source, FILE_SINK(path_of("out")));
        cr_assert_eq(run_config(loops[l], &config, NULL, NULL), HR_EIO);
        assert_file_holds(path_of("out"), "old", 3);
    } /* the suite's end asserts that the directory holds nothing else */
}

Test(transfer, the_same_file_under_another_name_is_refused)
{
    write_file(path_of("in"), "x", 1);
    cr_assert_eq(symlink(path_of("in"), path_of("link")), 0);
    for (unsigned l = 0; l < n_loops; l++) {
        const struct hr_source source = FILE_SOURCE(path_of("in"));
        const struct hr_pipeline_config config = config_of(&source, FILE_SINK(path_of("link")));
        cr_assert_eq(run_config(loops[l], &config, NULL, NULL), HR_EINVAL);
        assert_file_holds(path_of("in"), "x", 1);
    }
}

Test(transfer, cancel_ends_a_silent_pipe_and_again_is_harmless)
{
    for (unsigned l = 0; l < n_loops; l++)
        for (int i = 0; i < 100; i++) {
            int ends[2];
            unsigned char got[16];
            cr_assert_eq(pipe(ends), 0);
            const struct hr_source source = {
                .struct_size = sizeof source, .kind = HR_FD, .fd = ends[0]};
            const struct hr_pipeline_config config = config_of(&source, MEMORY_SINK(got, 16));
            hr_pipeline *pipeline = NULL;
            hr_error error = {0};
            cr_assert_eq(hr_pipeline_create(loops[l], &config, &pipeline, NULL), HR_OK);
            cr_assert_eq(hr_loop_step(loops[l], NULL), HR_PENDING);
            hr_pipeline_cancel(pipeline);
            hr_pipeline_cancel(pipeline);
            cr_assert_eq(hr_pipeline_run(pipeline, &error), HR_ECANCELED);
            hr_pipeline_free(pipeline);
            cr_assert_eq(write(ends[1], "late", 4), 4);
            close(ends[0]);
            close(ends[1]);
        }
}

Test(transfer, a_little_into_an_open_pipe_comes_out_before_the_end)
{
    for (unsigned l = 0; l < n_loops; l++) {
        int in[2], out[2];
        char got[100];
        cr_assert(pipe(in) == 0 && pipe(out) == 0);
        const struct hr_source source = {.struct_size = sizeof source, .kind = HR_FD, .fd = in[0]};
        const struct hr_sink sink = {.struct_size = sizeof sink, .kind = HR_FD, .fd = out[1]};
        const struct hr_pipeline_config config = config_of(&source, sink);
        hr_pipeline *pipeline = NULL;
        struct hr_stats stats = {.struct_size = sizeof stats};
        cr_assert_eq(hr_pipeline_create(loops[l], &config, &pipeline, NULL), HR_OK);
        cr_assert_eq(write(in[1], (char[100]){1}, 100), 100);
        while (stats.stages[HR_STAGE_WRITE].bytes_out < 100) {
            cr_assert_eq(hr_loop_poll(loops[l], 1000, NULL), HR_PENDING);
            cr_assert_eq(hr_pipeline_stats(pipeline, &stats), HR_OK);
        }
        cr_assert_eq(read(out[0], got, sizeof got), 100);
        close(in[1]);
        cr_assert_eq(hr_pipeline_run(pipeline, NULL), HR_OK);
        hr_pipeline_free(pipeline);
        close(in[0]);
        close(out[0]);
        close(out[1]);
    }
}

Test(transfer, many_pipelines_run_on_one_loop)
{
    enum { N = 256 };
    const size_t size = 3 * CHUNK + 1;
    unsigned char *bytes = pattern(size);
    write_file(path_of("in"), bytes, size);
    for (unsigned l = 0; l < n_loops; l++) {
        hr_pipeline *pipelines[N];
        unsigned char *got = calloc(N, size);
        for (int i = 0; i < N; i++) {
            const struct hr_source source = FILE_SOURCE(path_of("in"));
            const struct hr_pipeline_config config =
                config_of(&source, MEMORY_SINK(got + (size_t)i * size, size));
            cr_assert_eq(hr_pipeline_create(loops[l], &config, &pipelines[i], NULL), HR_OK);
        }
        hr_status status;
        while ((status = hr_loop_poll(loops[l], -1, NULL)) == HR_PENDING)
            ;
        cr_assert_eq(status, HR_OK);
        for (int i = 0; i < N; i++) {
            cr_assert_eq(hr_pipeline_state(pipelines[i], NULL), HR_OK);
            cr_assert(memcmp(got + (size_t)i * size, bytes, size) == 0);
            hr_pipeline_free(pipelines[i]);
        }
        free(got);
    }
    free(bytes);
}

Test(transfer, memory_of_a_context_is_bounded_and_comes_back)
{
    const struct hr_context_config context_config = {
        .struct_size = sizeof context_config, .n_threads = 1, .max_memory = 2 * CHUNK};
    hr_context *context = NULL;
    hr_loop *loop = NULL;
    cr_assert_eq(hr_context_create(&context_config, &context, NULL), HR_OK);
    cr_assert_eq(hr_loop_create(context, NULL, &loop, NULL), HR_OK);
    hr_context_free(context);
    unsigned char *bytes = pattern(9 * CHUNK);
    write_file(path_of("in"), bytes, 9 * CHUNK);
    const struct hr_source source = FILE_SOURCE(path_of("in"));
    const struct hr_pipeline_config config =
        config_of(&source, (struct hr_sink){.struct_size = sizeof(struct hr_sink)});
    hr_pipeline *pipelines[3] = {0};
    cr_assert_eq(hr_pipeline_create(loop, &config, &pipelines[0], NULL), HR_OK);
    cr_assert_eq(hr_pipeline_create(loop, &config, &pipelines[1], NULL), HR_OK);
    cr_assert_eq(hr_pipeline_create(loop, &config, &pipelines[2], NULL), HR_AGAIN);
    cr_assert_eq(hr_pipeline_run(pipelines[0], NULL), HR_OK);
    cr_assert_eq(hr_pipeline_run(pipelines[1], NULL), HR_OK);
    hr_pipeline_free(pipelines[0]);
    cr_assert_eq(hr_pipeline_create(loop, &config, &pipelines[2], NULL), HR_OK);
    hr_pipeline_free(pipelines[1]);
    hr_pipeline_free(pipelines[2]);
    hr_loop_free(loop);
    free(bytes);
}

/* What can never be had is not to be tried for again. */
Test(transfer, less_memory_than_a_pipeline_ever_needs_is_an_error)
{
    const struct hr_context_config context_config = {
        .struct_size = sizeof context_config, .n_threads = 1, .max_memory = 2 * CHUNK};
    hr_context *context = NULL;
    hr_loop *loop = NULL;
    cr_assert_eq(hr_context_create(&context_config, &context, NULL), HR_OK);
    cr_assert_eq(hr_loop_create(context, NULL, &loop, NULL), HR_OK);
    hr_context_free(context);
    static const unsigned char skippable[8 * CHUNK] = {0x50, 0x2a, 0x4d, 0x18};
    const struct hr_source source = MEMORY_SOURCE(skippable, sizeof skippable);
    for (unsigned i = 0; i < 3; i++) {
        struct hr_pipeline_config config =
            config_of(&source, (struct hr_sink){.struct_size = sizeof(struct hr_sink)});
        hr_pipeline *pipeline = NULL;
        hr_error error = {0};
        config.chunk_size = i == 0 ? 2 * CHUNK + 1 : CHUNK;
        config.encode = i == 1 ? HR_CODEC_ZSTD : HR_CODEC_NONE; /* a frame of the whole */
        config.decode = i == 2 ? HR_CODEC_ZSTD : HR_CODEC_NONE; /* a ring of blocks */
        cr_assert_eq(hr_pipeline_create(loop, &config, &pipeline, &error), HR_ENOMEM, "%u", i);
        cr_assert(strstr(error.text, "max_memory"), "%s", error.text);
    }
    hr_loop_free(loop);
}

/* By whatever name, there already or not. */
Test(transfer, a_trace_that_would_replace_an_end_is_refused)
{
    char beside[160];
    unsigned char *bytes = pattern(CHUNK);
    write_file(path_of("in"), bytes, CHUNK);
    cr_assert_eq(symlink("in", path_of("link")), 0);
    snprintf(beside, sizeof beside, "%s/./out", directory);
    const char *const traces[] = {path_of("in"), path_of("link"), path_of("out"), beside};
    for (unsigned i = 0; i < 8; i++) {
        char in[128];
        char out[128];
        snprintf(in, sizeof in, "%s/in", directory);
        snprintf(out, sizeof out, "%s/out", directory);
        if (i == 4)
            write_file(out, "old", 3);
        const struct hr_source source = FILE_SOURCE(in);
        struct hr_pipeline_config config = config_of(&source, FILE_SINK(out));
        hr_error error = {0};
        config.trace_path = traces[i % 4];
        cr_assert_eq(run_config(loops[0], &config, NULL, &error), HR_EINVAL, "%u", i);
        cr_assert(strstr(error.text, "trace"), "%s", error.text);
        assert_file_holds(in, bytes, CHUNK);
        if (i >= 4)
            assert_file_holds(out, "old", 3);
    }
    free(bytes);
}

/* What is written beside the target has a longer name, which must fit as well. */
Test(transfer, the_longest_name_that_a_file_may_have)
{
    unsigned char *bytes = pattern(CHUNK);
    const struct hr_source source = MEMORY_SOURCE(bytes, CHUNK);
    for (int length = 235; length <= NAME_MAX; length++) {
        char path[512];
        const int at = snprintf(path, sizeof path, "%s/", directory);
        memset(path + at, 'n', (size_t)length);
        path[at + length] = '\0';
        const struct hr_pipeline_config config = config_of(&source, FILE_SINK(path));
        assert_transfer(loops[0], &config);
        assert_file_holds(path, bytes, CHUNK);
        cr_assert_eq(unlink(path), 0);
    }
    free(bytes);
}

Test(transfer, errors_are_one_line_with_their_cause_whatever_the_name)
{
    char path[2000];
    for (unsigned i = 0; i < 2; i++) {
        memset(path, 'n', sizeof path);
        path[i ? 9 : sizeof path - 1] = '\0';
        path[4] = '\n';
        const struct hr_source source = FILE_SOURCE(path);
        const struct hr_pipeline_config config =
            config_of(&source, (struct hr_sink){.struct_size = sizeof(struct hr_sink)});
        hr_error error = {0};
        cr_assert_eq(run_config(loops[0], &config, NULL, &error), HR_EIO);
        cr_assert(strncmp(error.text, "open nnnn?nnnn", 14) == 0, "%s", error.text);
        cr_assert(strstr(error.text, strerror(error.native)), "%s", error.text);
        cr_assert_eq(error.native, i ? ENOENT : ENAMETOOLONG);
    }
}

static void *step_elsewhere(void *arg)
{
    hr_error error = {0};
    return (void *)(intptr_t)hr_loop_step(arg, &error);
}

Test(transfer, another_thread_and_a_forked_child_are_refused)
{
    for (unsigned l = 0; l < n_loops; l++) {
        cr_assert_eq(hr_loop_step(loops[l], NULL), HR_OK);
        pthread_t thread;
        void *result;
        pthread_create(&thread, NULL, step_elsewhere, loops[l]);
        pthread_join(thread, &result);
        cr_assert_eq((intptr_t)result, HR_ETHREAD);
        const pid_t child = fork_when_quiet();
        if (child == 0) {
            alarm(10); /* freeing must not wait for threads that the child does not have */
            const hr_status refused = hr_loop_step(loops[l], NULL);
            hr_loop_free(loops[l]);
            _exit(refused == HR_EFORK ? 0 : 1);
        }
        int status;
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

static void *free_elsewhere(void *arg)
{
    hr_pipeline_free(arg);
    return NULL;
}

Test(transfer, freeing_a_running_pipeline_from_another_thread_leaves_it_whole)
{
    for (unsigned l = 0; l < n_loops; l++) {
        int ends[2];
        unsigned char got[16];
        cr_assert_eq(pipe(ends), 0);
        const struct hr_source source = {
            .struct_size = sizeof source, .kind = HR_FD, .fd = ends[0]};
        const struct hr_pipeline_config config = config_of(&source, MEMORY_SINK(got, 16));
        hr_pipeline *pipeline = NULL;
        cr_assert_eq(hr_pipeline_create(loops[l], &config, &pipeline, NULL), HR_OK);
        cr_assert_eq(hr_loop_step(loops[l], NULL), HR_PENDING);
        pthread_t thread;
        pthread_create(&thread, NULL, free_elsewhere, pipeline);
        pthread_join(thread, NULL);
        cr_assert_eq(hr_pipeline_run(pipeline, NULL), HR_ECANCELED);
        hr_pipeline_free(pipeline);
        close(ends[0]);
        close(ends[1]);
    }
}

Test(transfer, structs_of_other_versions)
{
    struct {
        struct hr_pipeline_config config;
        uint64_t beyond;
    } longer = {0};
    unsigned char got[1];
    const struct hr_source source = MEMORY_SOURCE("x", 1);
    longer.config = config_of(&source, MEMORY_SINK(got, 1));
    longer.config.struct_size = sizeof longer;
    assert_transfer(loops[0], &longer.config);
    longer.beyond = 1;
    hr_error error;
    cr_assert_eq(run_config(loops[0], &longer.config, NULL, &error), HR_EINVAL);
    longer.config.struct_size = 0;
    cr_assert_eq(run_config(loops[0], &longer.config, NULL, &error), HR_EINVAL);
}
