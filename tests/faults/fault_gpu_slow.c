// SPDX-License-Identifier: Apache-2.0
/* A device whose every operation is late, in any order of its streams: with little and much depth,
 * one stream and several, in order and not, with counts that are 0 for many chunks; and one that is
 * done and does not say so for long. */
#include <stdio.h>

#include "fake_cuda.h"
#include "gpu_runs.h"
#include "transfers.h"

enum { CHUNK = 1024, N_CHUNKS = 60, DELAY_US = 300, STORM = 7 };

static const struct gpu_shape shapes[] = {
    {.name = "one kernel", .from = GPU_PLAIN, .to = GPU_PLAIN, .kernels = {"scale:u8,3,1"}},
    {.name = "no kernel, growing", .from = GPU_PIPE, .to = GPU_GROWING},
    {.name = "no kernel, growing, in any order",
     .from = GPU_PIPE,
     .to = GPU_GROWING,
     .flags = HR_UNORDERED},
    {.name = "pipe and device memory, growing, in any order",
     .from = GPU_PIPE,
     .tail = (N_CHUNKS - 31) * CHUNK, /* behind 32 KiB the memory grows */
     .to = GPU_GROWING,
     .flags = HR_UNORDERED},
    {.name = "a kernel, growing, in any order",
     .from = GPU_PIPE,
     .to = GPU_GROWING,
     .kernels = {"scale:u8,3,1"},
     .flags = HR_UNORDERED},
    {.name = "a kernel, pinned memory, in any order",
     .from = GPU_PINNED,
     .to = GPU_PINNED,
     .kernels = {"scale:u8,3,1"},
     .flags = HR_UNORDERED},
    {.name = "two counted kernels, units of 12, empty chunks",
     .from = GPU_PLAIN,
     .to = GPU_PLAIN,
     .kernels = {"cast:u8,f32", "filter:f32,lt,128", "shuffle:4,12", "unshuffle:4,12",
                 "filter:f32,lt,128", "shuffle:4,12"},
     .gaps = true},
    {.name = "two counted kernels, units of 12, empty chunks, to a device",
     .from = GPU_DEVICE,
     .to = GPU_DEVICE,
     .kernels = {"cast:u8,f32", "filter:f32,lt,128", "shuffle:4,12", "unshuffle:4,12",
                 "filter:f32,lt,128"},
     .gaps = true},
    {.name = "two counted kernels, empty chunks, lent",
     .from = GPU_FILE,
     .to = GPU_LENT,
     .kernels = {"cast:u8,f32", "filter:f32,lt,128", "shuffle:4,12", "unshuffle:4,12",
                 "filter:f32,lt,128"},
     .gaps = true},
    {.name = "counted kernels and reductions behind them, empty chunks",
     .from = GPU_PIPE,
     .to = GPU_NULL,
     .kernels = {"filter:u8,lt,128", "sum:u8", "filter:u8,lt,64", "crc32"},
     .gaps = true},
};

static void run_slowly(const struct gpu_shape *base, const struct gpu_expected *expected,
                       uint32_t depth, uint32_t n_streams)
{
    struct gpu_shape shape = *base;
    struct gpu_run run;
    hr_context *context;
    hr_loop *loop;
    char name[200];
    shape.depth = depth;
    shape.n_streams = n_streams;
    snprintf(name, sizeof name, "%s, depth %u, %u streams", shape.name, depth, n_streams);
    limit_time(30, name);
    gpu_begin(&context, &loop);
    gpu_run_create(&run, &shape, expected, context, loop);
    gpu_run_finish(&run);
    const char *wrong = run.status == HR_OK ? gpu_run_judge(&run) : "it fails";
    gpu_run_free(&run);
    hr_loop_free(loop);
    hr_context_free(context);
    if (!wrong && *gpu_left())
        wrong = gpu_left();
    check_that(!wrong, name, "%s: %s", wrong, run.error.text);
}

static void run_in_storm(const struct gpu_shape *shape, const struct gpu_expected *expected)
{
    fake_cuda_set_delay(0);
    fake_cuda_storm(STORM);
    run_slowly(shape, expected, 2, 2);
    fake_cuda_storm(0);
    fake_cuda_set_delay(DELAY_US);
}

int main(int n_args, char **args)
{
    static const uint32_t depths[] = {1, 2, 6, 33};
    static const uint32_t streams[] = {1, 4};
    gpu_use(n_args, args);
    fake_cuda_set_delay(DELAY_US);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct gpu_shape shape = shapes[i];
        struct gpu_expected expected;
        shape.size = N_CHUNKS * CHUNK + 16;
        shape.chunk_size = CHUNK;
        gpu_expect(&expected, &shape);
        for (size_t d = 0; d < 4; d++)
            for (size_t s = 0; s < 2; s++)
                run_slowly(&shape, &expected, depths[d], streams[s]);
        run_in_storm(&shape, &expected);
        gpu_forget(&expected);
    }
    check_that(!has_leaked(), "no memory is lost", "it is");
    return end_checks();
}
