// SPDX-License-Identifier: Apache-2.0
/* A pipeline on a device is cancelled, or freed, at every step, while its streams are late; the next
 * ones of the same context use its memory at once, so what still ran there would show in what they
 * deliver. */
#include <stdio.h>

#include "fake_cuda.h"
#include "gpu_runs.h"
#include "transfers.h"

enum { CHUNK = 4096, MAX_STEPS = 2000, DELAY_US = 200 };

#define SHAPE .chunk_size = CHUNK, .depth = 3, .n_streams = 2

static const struct gpu_shape shapes[] = {
    {.name = "file to kernels to memory",
     .from = GPU_FILE,
     .to = GPU_PLAIN,
     .kernels = {"scale:u8,3,1", "bswap:4"},
     .size = 8 * CHUNK + 100,
     SHAPE},
    {.name = "memory to counted kernels to a file",
     .from = GPU_PLAIN,
     .to = GPU_FILE,
     .kernels = {"cast:u8,f32", "filter:f32,lt,128", "shuffle:4,12"},
     .size = 8 * CHUNK + 101,
     SHAPE},
    {.name = "pinned memory to reductions",
     .from = GPU_PINNED,
     .to = GPU_NULL,
     .kernels = {"sum:u8", "crc32"},
     .size = 8 * CHUNK + 1,
     SHAPE},
    {.name = "device to device",
     .from = GPU_DEVICE,
     .to = GPU_DEVICE,
     .kernels = {"scale:u8,3,1"},
     .size = 8 * CHUNK + 16,
     SHAPE},
    {.name = "pipe to growing device memory",
     .from = GPU_PIPE,
     .to = GPU_GROWING,
     .size = 8 * CHUNK + 9,
     SHAPE},
    {.name = "file to kernels, lent on the device",
     .from = GPU_FILE,
     .to = GPU_LENT,
     .kernels = {"scale:u8,3,1"},
     .size = 8 * CHUNK + 5,
     SHAPE},
};

enum how { CANCELLED, FREED };

/* The steps before it; fewer, if the pipeline ended. */
static unsigned step(struct gpu_run *run, unsigned n_steps)
{
    unsigned n = 0;
    while (n < n_steps && run->status == HR_OK && gpu_run_step(run) == HR_PENDING)
        n++;
    return n;
}

/* NULL, or what is wrong; *ended: the pipeline ended before. */
static const char *stop_at(struct gpu_run *run, unsigned n_steps, enum how how, bool *ended)
{
    const char *wrong = NULL;
    *ended = step(run, n_steps) < n_steps;
    if (how == CANCELLED) {
        if (!*ended) {
            hr_pipeline_cancel(run->pipeline);
            gpu_run_finish(run);
        }
        wrong = gpu_run_judge(run);
    } else if (run->status != HR_OK) {
        wrong = "it fails";
    }
    gpu_run_free(run);
    return wrong;
}

static void stop_at_every_step(const struct gpu_shape *shape, enum how how)
{
    struct gpu_expected expected;
    struct gpu_run run;
    hr_context *context;
    hr_loop *loop;
    char name[200];
    const char *wrong = NULL;
    bool ended = false;
    unsigned n = 0;
    gpu_expect(&expected, shape);
    gpu_begin(&context, &loop);
    for (; !wrong && !ended && n < MAX_STEPS; n++) {
        snprintf(name, sizeof name, "%s, %s at step %u", shape->name,
                 how == FREED ? "freed" : "cancelled", n);
        limit_time(20, name);
        gpu_run_create(&run, shape, &expected, context, loop);
        wrong = stop_at(&run, n, how, &ended);
        if (wrong)
            break;
        gpu_run_create(&run, shape, &expected, context, loop);
        gpu_run_finish(&run);
        wrong = run.status == HR_OK ? gpu_run_judge(&run) : "the next one fails";
        gpu_run_free(&run);
    }
    hr_loop_free(loop);
    hr_context_free(context);
    if (!wrong && *gpu_left())
        wrong = gpu_left();
    if (!wrong && n < 5)
        wrong = "it ends too early";
    check_that(!wrong, name, "%s: %s", wrong, run.error.text);
    gpu_forget(&expected);
}

int main(int n_args, char **args)
{
    gpu_use(n_args, args);
    fake_cuda_set_delay(DELAY_US);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        stop_at_every_step(&shapes[i], CANCELLED);
        stop_at_every_step(&shapes[i], FREED);
    }
    check_that(!has_leaked(), "no memory is lost", "it is");
    return end_checks();
}
