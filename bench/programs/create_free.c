// SPDX-License-Identifier: Apache-2.0
/* How long it takes to create and free a pipeline on a loop and a context that have been used.
 * Usage: create_free TAR ZST: prints for each kind "NAME MEDIAN MIN MAX", in ns. */
#include <headrace.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N_SAMPLES = 201 };

static uint64_t now_ns(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000000000U + (uint64_t)at.tv_nsec;
}

static void stop(const hr_error *error)
{
    fprintf(stderr, "create_free: %s\n", error->text);
    exit(1);
}

/* One run to the end, so that memory, workers and codecs are there. */
static void warm_up(hr_loop *loop, const struct hr_pipeline_config *config)
{
    hr_error error = {0};
    hr_pipeline *pipeline = NULL;
    if (hr_pipeline_create(loop, config, &pipeline, &error) != HR_OK ||
        hr_pipeline_run(pipeline, &error) != HR_OK)
        stop(&error);
    hr_pipeline_free(pipeline);
}

static int by_size(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static void measure(hr_loop *loop, const char *name, const struct hr_pipeline_config *config)
{
    uint64_t taken[N_SAMPLES];
    warm_up(loop, config);
    for (int i = 0; i < N_SAMPLES; i++) {
        hr_error error = {0};
        hr_pipeline *pipeline = NULL;
        uint64_t begun = now_ns();
        if (hr_pipeline_create(loop, config, &pipeline, &error) != HR_OK)
            stop(&error);
        hr_pipeline_free(pipeline);
        taken[i] = now_ns() - begun;
    }
    qsort(taken, N_SAMPLES, sizeof taken[0], by_size);
    printf("%s %llu %llu %llu\n", name, (unsigned long long)taken[N_SAMPLES / 2],
           (unsigned long long)taken[0], (unsigned long long)taken[N_SAMPLES - 1]);
}

static void measure_all(hr_loop *loop, const char *tar, const char *zst)
{
    struct hr_source source = {.struct_size = sizeof source, .kind = HR_FILE, .path = tar};
    struct hr_kernel kernel = {.struct_size = sizeof kernel, .text = "scale:u8,-1,255"};
    const struct hr_pipeline_config raw = {.struct_size = sizeof raw,
                                           .n_sources = 1,
                                           .sources = &source,
                                           .sink = {.struct_size = sizeof raw.sink}};
    struct hr_pipeline_config config = raw;
    measure(loop, "raw", &config);
    config.encode = HR_CODEC_ZSTD;
    measure(loop, "encode", &config);
    config = raw;
    config.kernels = &kernel;
    config.n_kernels = 1;
    config.device = "host";
    measure(loop, "kernel", &config);
    source.path = zst;
    config.decode = HR_CODEC_ZSTD;
    config.encode = HR_CODEC_ZSTD;
    measure(loop, "all", &config);
    config = raw;
    config.decode = HR_CODEC_ZSTD;
    measure(loop, "decode", &config);
}

int main(int argc, char **argv)
{
    hr_error error = {0};
    hr_loop *loop = NULL;
    if (argc != 3)
        return 2;
    if (hr_loop_create(NULL, NULL, &loop, &error) != HR_OK)
        stop(&error);
    measure_all(loop, argv[1], argv[2]);
    hr_loop_free(loop);
    return 0;
}
