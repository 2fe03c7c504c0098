// SPDX-License-Identifier: Apache-2.0
/* A file for a device is copied by workers as far as the page cache has it, and the rest is read by
 * the I/O engine: with nothing, a part and all of it cached, in pieces of any size, cut short
 * meanwhile, and never by more workers at once than leave the device its bandwidth. */
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fake_cuda.h"
#include "faults.h"
#include "gpu_runs.h"
#include "loop.h"
#include "pipeline.h"
#include "transfers.h"

enum { CHUNK = 4096, N_CHUNKS = 40, SIZE = N_CHUNKS * CHUNK + 12, DEPTH = 32, MOST_COPYING = 10 };

/* ---- the engine's reads are counted ---- */

static struct {
    const struct hr__io_ops *real;
    struct hr__io_ops ops;
    unsigned n_reads;
} engine;

static void submit(struct hr__io *io, struct hr__io_request *request)
{
    engine.n_reads += request->op == HR__IO_READ;
    engine.real->submit(io, request);
}

static void watch(hr_loop *loop)
{
    engine.n_reads = 0;
    engine.real = loop->io->ops;
    engine.ops = *engine.real;
    engine.ops.submit = submit;
    loop->io->ops = &engine.ops;
}

/* ---- runs ---- */

static const struct gpu_shape shapes[] = {
    {.name = "device memory", .to = GPU_DEVICE},
    {.name = "a file", .to = GPU_FILE},
    {.name = "a kernel to pinned memory", .to = GPU_PINNED, .kernels = {"scale:u8,3,1"}},
    {.name = "kernels, lent", .to = GPU_LENT, .kernels = {"cast:u8,f32", "filter:f32,lt,128"}},
};

struct bench {
    struct gpu_shape shape;
    struct gpu_expected expected;
    struct gpu_run run;
    hr_context *context;
    hr_loop *loop;
};

static void begin(struct bench *b, const struct gpu_shape *shape)
{
    b->shape = *shape;
    b->shape.from = GPU_FILE;
    b->shape.size = SIZE;
    b->shape.chunk_size = CHUNK;
    b->shape.depth = DEPTH;
    gpu_expect(&b->expected, &b->shape);
    gpu_begin(&b->context, &b->loop);
    gpu_run_create(&b->run, &b->shape, &b->expected, b->context, b->loop);
    watch(b->loop);
}

static const char *end(struct bench *b)
{
    gpu_run_free(&b->run);
    hr_loop_free(b->loop);
    hr_context_free(b->context);
    gpu_forget(&b->expected);
    return *gpu_left() ? gpu_left() : NULL;
}

static void as_far_as_it_is_cached(const struct gpu_shape *shape, uint64_t cached, unsigned piece)
{
    struct bench b;
    char name[200];
    snprintf(name, sizeof name, "%s: %s, %u of %u bytes are cached, pieces of %u", gpu_name(),
             shape->name, (unsigned)cached, (unsigned)SIZE, piece);
    limit_time(20, name);
    begin(&b, shape);
    const bool in_memory = b.run.pipeline && b.run.pipeline->inputs[0].file.in_memory;
    hr_faults_cached(cached);
    hr_faults_cap(piece, piece);
    gpu_run_finish(&b.run);
    hr_faults_cap(0, 0);
    hr_faults_cached(UINT64_MAX);
    const char *wrong = b.run.status == HR_OK ? gpu_run_judge(&b.run) : "it fails";
    const unsigned whole = (unsigned)(cached / CHUNK); /* chunks */
    const unsigned n_reads = cached == SIZE || in_memory ? 0 : N_CHUNKS + 1 - whole;
    if (!wrong && (piece ? engine.n_reads < n_reads : engine.n_reads != n_reads))
        wrong = "the engine reads other chunks";
    const unsigned counted = engine.n_reads;
    const char *left = end(&b);
    check_that(!wrong && !left, name, "%s: %u reads: %s", wrong ? wrong : left, counted,
               b.run.error.text);
}

/* Keeps the context's only worker, so that copies wait. */
static int64_t wait_to_go_on(void *user, void *buffer, uint64_t size, uint64_t offset)
{
    (void)buffer, (void)size, (void)offset;
    sem_wait(user);
    return 0;
}

static hr_pipeline *keep_worker(hr_loop *loop, sem_t *go_on)
{
    struct hr_source source = {
        .struct_size = sizeof source, .kind = HR_CALLBACK, .read = wait_to_go_on, .user = go_on};
    const struct hr_pipeline_config config = {
        .struct_size = sizeof config,
        .sources = &source,
        .n_sources = 1,
        .sink = {.struct_size = sizeof config.sink, .kind = HR_NULL}};
    hr_pipeline *keeps = NULL;
    return hr_pipeline_create(loop, &config, &keeps, NULL) == HR_OK ? keeps : NULL;
}

static void no_more_at_once_than_leave_bandwidth(void)
{
    struct bench b;
    sem_t go_on;
    sem_init(&go_on, 0, 0);
    limit_time(20, "copies at once");
    begin(&b, &shapes[0]);
    hr_pipeline *keeps = keep_worker(b.loop, &go_on);
    hr_status status = keeps ? HR_OK : HR_EINVAL;
    for (unsigned i = 0; status >= HR_OK && i < 4 * DEPTH; i++) /* a slot may be pinned in each */
        status = hr_loop_step(b.loop, NULL);
    const unsigned n = b.run.pipeline ? b.run.pipeline->n_copying : 0;
    sem_post(&go_on);
    gpu_run_finish(&b.run);
    const char *wrong =
        status >= HR_OK && b.run.status == HR_OK ? gpu_run_judge(&b.run) : "it fails";
    hr_pipeline_free(keeps);
    const char *left = end(&b);
    sem_destroy(&go_on);
    check_that(!wrong && !left && n == MOST_COPYING, "copies at once", "%u instead of %u: %s", n,
               (unsigned)MOST_COPYING, wrong ? wrong : left);
}

static void cut_short(const struct gpu_shape *shape)
{
    enum { LEFT = 11 * CHUNK + 100 };
    struct bench b;
    char name[200];
    snprintf(name, sizeof name, "%s: %s, the file becomes shorter", gpu_name(), shape->name);
    limit_time(20, name);
    begin(&b, shape);
    const char *wrong = truncate(b.run.path_in, LEFT) == 0 ? NULL : "it cannot be cut";
    gpu_run_finish(&b.run);
    if (!wrong && (b.run.status != HR_ETRUNCATED || b.run.error.offset != LEFT ||
                   b.run.error.stage != HR_STAGE_READ))
        wrong = "another error, or another place";
    if (!wrong && shape->to != GPU_LENT && b.run.stats.stages[HR_STAGE_WRITE].bytes_out != LEFT)
        wrong = "not all before it is delivered";
    const char *left = end(&b);
    check_that(!wrong && !left, name, "%s: %s at byte %u: %s", wrong ? wrong : left,
               hr_status_name(b.run.status), (unsigned)b.run.error.offset, b.run.error.text);
}

int main(int n_args, char **args)
{
    static const uint64_t cached[] = {0, 100, 3 * CHUNK, 17 * CHUNK + 5, SIZE};
    gpu_use(n_args, args);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (size_t c = 0; c < sizeof cached / sizeof cached[0]; c++) {
            as_far_as_it_is_cached(&shapes[i], cached[c], 0);
            as_far_as_it_is_cached(&shapes[i], cached[c], 777);
        }
        cut_short(&shapes[i]);
    }
    no_more_at_once_than_leave_bandwidth();
    check_that(!has_leaked(), "no memory is lost", "it is");
    return end_checks();
}
