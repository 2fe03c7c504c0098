// SPDX-License-Identifier: Apache-2.0
/* A kernel of the user's touches what it must not, in its nth launch, while others of the pipeline
 * are under way: the device is dead for this process. What was delivered is right, the error tells,
 * pipelines on the same context fail at once, and nothing is left. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_cuda.h"
#include "gpu_runs.h"
#include "transfers.h"

enum { CHUNK = 2048, N_CHUNKS = 12, SIZE = N_CHUNKS * CHUNK + 7, ILLEGAL_ADDRESS = 700 };

static unsigned n_left; /* launches before the one that fails */

static uint64_t number(const struct fake_cuda_launch *launch, size_t i)
{
    uint64_t value;
    memcpy(&value, launch->params[i], sizeof value);
    return value;
}

/* in, n_in, out, n_units: adds one. */
static int add_one(const struct fake_cuda_launch *launch)
{
    const size_t n = (size_t)number(launch, 3);
    uint64_t in;
    if (__atomic_fetch_sub(&n_left, 1, __ATOMIC_RELAXED) == 0)
        return ILLEGAL_ADDRESS;
    memcpy(&in, fake_cuda_host(number(launch, 0), sizeof in), sizeof in);
    const unsigned char *from = fake_cuda_host(in, n);
    unsigned char *to = fake_cuda_host(number(launch, 2), n);
    for (size_t i = 0; i < n; i++)
        to[i] = (unsigned char)(from[i] + 1);
    return 0;
}

struct result {
    hr_status status;
    hr_error error;
    uint64_t n_written;
    unsigned char out[SIZE];
};

static void run(hr_loop *loop, const unsigned char *in, struct result *result)
{
    static const char image[] = "fake";
    const struct hr_kernel kernel = {.struct_size = sizeof kernel,
                                     .kind = HR_KERNEL_IMAGE,
                                     .unit_out = 1,
                                     .entry = "add_one",
                                     .image = image,
                                     .image_size = sizeof image};
    const struct hr_source source = {
        .struct_size = sizeof source, .kind = HR_MEMORY, .data = in, .size = SIZE};
    const struct hr_pipeline_config config = {
        .struct_size = sizeof config,
        .sources = &source,
        .n_sources = 1,
        .sink = {.struct_size = sizeof config.sink,
                 .kind = HR_MEMORY,
                 .data = result->out,
                 .size = SIZE},
        .chunk_size = CHUNK,
        .depth = 4,
        .kernels = &kernel,
        .n_kernels = 1,
        .device = gpu_name(),
    };
    struct hr_stats stats = {.struct_size = sizeof stats};
    hr_pipeline *pipeline = NULL;
    result->status = hr_pipeline_create(loop, &config, &pipeline, &result->error);
    if (result->status == HR_OK)
        result->status = hr_pipeline_run(pipeline, &result->error);
    if (pipeline && hr_pipeline_stats(pipeline, &stats) == HR_OK)
        result->n_written = stats.stages[HR_STAGE_WRITE].bytes_out;
    hr_pipeline_free(pipeline);
}

static bool tells(const struct result *result)
{
    return result->status == HR_EDEVICE && result->error.stage != HR_STAGE_NONE &&
           strstr(result->error.text, "illegal memory access") &&
           result->n_written >= result->error.offset;
}

static bool is_right(const struct result *result, const unsigned char *in)
{
    for (uint64_t i = 0; i < result->n_written; i++)
        if (result->out[i] != (unsigned char)(in[i] + 1))
            return false;
    return true;
}

static void die_at(unsigned nth, const unsigned char *in)
{
    static struct result results[2];
    hr_context *context;
    hr_loop *loop;
    char name[64];
    snprintf(name, sizeof name, "launch %u kills the device", nth);
    limit_time(10, name);
    n_left = nth;
    memset(results, 0, sizeof results);
    gpu_begin(&context, &loop);
    run(loop, in, &results[0]);
    run(loop, in, &results[1]);
    hr_loop_free(loop);
    hr_context_free(context);
    const char *wrong = !tells(&results[0]) ? "the first one does not tell" : NULL;
    if (!is_right(&results[0], in))
        wrong = "what was delivered is wrong";
    if (!wrong && (!tells(&results[1]) || results[1].n_written > 0))
        wrong = "the second one does not tell";
    if (!wrong && *gpu_left())
        wrong = gpu_left();
    check_that(!wrong, name, "%s: %s; %s", wrong, results[0].error.text, results[1].error.text);
}

int main(int n_args, char **args)
{
    static const size_t sizes[] = {8, 4, 8, 8, 8, 8, 0};
    static unsigned char in[SIZE];
    gpu_use(n_args, args);
    for (size_t i = 0; i < SIZE; i++)
        in[i] = (unsigned char)(i * 7 + i / 251);
    fake_cuda_kernel("add_one", add_one, sizes);
    for (unsigned nth = 0; nth <= N_CHUNKS; nth++)
        die_at(nth, in);
    check_that(!has_leaked(), "no memory is lost", "it is");
    return end_checks();
}
