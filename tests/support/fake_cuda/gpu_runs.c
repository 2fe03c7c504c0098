// SPDX-License-Identifier: Apache-2.0
#include "gpu_runs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda_driver.h"
#include "fake_cuda.h"
#include "hip_driver.h"
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>

/* The loader's own memory, of which the leak check does not know the owner behind our malloc. */
const char *__lsan_default_suppressions(void)
{
    return "leak:_dl_map_object_deps";
}

const char *__lsan_default_options(void)
{
    return "print_suppressions=0";
}
#endif

enum { UNTOUCHED = 0xee, KEPT_UNIT = 3, BOUND = 128 };

static void must(bool holds, const char *what)
{
    if (holds)
        return;
    printf("not ok %s\n", what);
    exit(1);
}

/* in, n_in, out, n_units: see Kernel ABI 1. */
static int plus_one(const struct fake_cuda_launch *launch)
{
    uint64_t params[4];
    uint64_t in;
    for (size_t i = 0; i < 4; i++)
        memcpy(&params[i], launch->params[i], sizeof params[i]);
    memcpy(&in, fake_cuda_host(params[0], sizeof in), sizeof in);
    const unsigned char *from = fake_cuda_host(in, params[3]);
    unsigned char *to = fake_cuda_host(params[2], params[3]);
    for (size_t i = 0; i < params[3]; i++)
        to[i] = (unsigned char)(from[i] + (from[i] < UINT8_MAX));
    return 0;
}

static bool is_hip;

void gpu_use(int n_args, char **args)
{
    static const size_t sizes[] = {8, 4, 8, 8, 8, 8, 0};
    char why[HR_ERROR_TEXT] = "";
    is_hip = n_args > 1 && strcmp(args[1], "hip") == 0;
    must(is_hip || n_args < 2 || strcmp(args[1], "cuda") == 0, "the device is cuda or hip");
    const struct hr__backend *backend = is_hip ? &hr__hip_backend : &hr__cuda_backend;
    must(backend->count(why, sizeof why) > 0, why);
    fake_cuda_kernel(GPU_PLUS_ONE, plus_one, sizes);
}

const char *gpu_name(void)
{
    return is_hip ? "hip:0" : "cuda:0";
}

const struct hr__gpu_driver *gpu_driver(void)
{
    return is_hip ? &hr__hip_table : &hr__cuda_table;
}

void gpu_begin(hr_context **context, hr_loop **loop)
{
    const struct hr_context_config config = {.struct_size = sizeof config, .n_threads = 1};
    const struct hr_loop_config threads = {
        .struct_size = sizeof threads, .io = HR_IO_THREADS, .io_threads = 1};
    fake_cuda_heal();
    must(hr_context_create(&config, context, NULL) == HR_OK &&
             hr_loop_create(*context, &threads, loop, NULL) == HR_OK,
         "no context, no loop");
}

const char *gpu_left(void)
{
    static char text[160];
    const struct fake_cuda_live live = fake_cuda_live();
    text[0] = '\0';
    if (live.contexts || live.streams || live.events || live.allocations || live.pins ||
        live.modules)
        snprintf(text, sizeof text,
                 "left: %d contexts, %d streams, %d events, %d allocations, %d pins, %d modules",
                 live.contexts, live.streams, live.events, live.allocations, live.pins,
                 live.modules);
    return text;
}

/* ---- what is expected ---- */

static bool in_gap(const struct gpu_shape *shape, size_t i)
{
    return shape->gaps && i / shape->chunk_size % 16 != 5;
}

static void fill(unsigned char *bytes, const struct gpu_shape *shape)
{
    uint32_t random = 12345;
    size_t n_kept = 0;
    for (size_t i = 0; i < shape->size; i++) {
        random = random * 1664525u + 1013904223u;
        bytes[i] = (unsigned char)(in_gap(shape, i) ? 255 : random >> 24);
        n_kept += bytes[i] < BOUND;
    }
    for (size_t i = shape->size; i-- > 0 && n_kept % KEPT_UNIT != 0;) {
        n_kept -= bytes[i] < BOUND;
        bytes[i] = 255;
    }
}

static int64_t keep(void *user, const void *buffer, size_t size, uint64_t offset)
{
    struct gpu_expected *expected = user;
    (void)offset;
    if (expected->n_out + size > expected->n_cap) {
        expected->n_cap = 2 * (expected->n_out + size);
        expected->out = realloc(expected->out, expected->n_cap);
    }
    memcpy(expected->out + expected->n_out, buffer, size);
    expected->n_out += size;
    return (int64_t)size;
}

static struct hr_kernel kernel_of(const char *text, bool on_device)
{
    if (strcmp(text, GPU_PLUS_ONE) != 0)
        return (struct hr_kernel){.struct_size = sizeof(struct hr_kernel), .text = text};
    if (!on_device)
        return (struct hr_kernel){.struct_size = sizeof(struct hr_kernel), .text = "scale:u8,1,1"};
    return (struct hr_kernel){.struct_size = sizeof(struct hr_kernel),
                              .kind = HR_KERNEL_SOURCE,
                              .unit_out = 1,
                              .entry = text,
                              .text = "void plus_one();"};
}

static uint32_t set_kernels(struct hr_kernel *kernels, const struct gpu_shape *shape,
                            bool on_device)
{
    uint32_t n = 0;
    for (; n < GPU_KERNELS && shape->kernels[n]; n++)
        kernels[n] = kernel_of(shape->kernels[n], on_device);
    return n;
}

static size_t size_of_value(uint32_t type)
{
    if (type == HR_TYPE_U8)
        return 1;
    return type == HR_TYPE_U32 || type == HR_TYPE_F32 ? 4 : 8;
}

static void note_results(struct gpu_expected *expected, hr_pipeline *pipeline, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct hr_result *result = &expected->results[i];
        result->struct_size = sizeof *result;
        if (hr_pipeline_result(pipeline, i, result, NULL) != HR_OK)
            result->n_values = 0;
        const size_t size = (size_t)result->n_values * size_of_value(result->type);
        must(size <= sizeof expected->values[i], "a result is too large");
        if (size)
            memcpy(expected->values[i], result->data, size);
    }
}

void gpu_expect(struct gpu_expected *expected, const struct gpu_shape *shape)
{
    *expected = (struct gpu_expected){.in = malloc(shape->size)};
    fill(expected->in, shape);
    struct hr_kernel kernels[GPU_KERNELS];
    const struct hr_source source = {
        .struct_size = sizeof source, .kind = HR_MEMORY, .data = expected->in, .size = shape->size};
    const struct hr_pipeline_config config = {
        .struct_size = sizeof config,
        .sources = &source,
        .n_sources = 1,
        .sink = {.struct_size = sizeof config.sink,
                 .kind = HR_CALLBACK,
                 .write = keep,
                 .user = expected},
        .kernels = kernels,
        .n_kernels = set_kernels(kernels, shape, false),
        .device = "host",
    };
    hr_pipeline *pipeline = NULL;
    must(hr_pipeline_create(NULL, &config, &pipeline, NULL) == HR_OK &&
             hr_pipeline_run(pipeline, NULL) == HR_OK,
         "the host does not run it");
    note_results(expected, pipeline, config.n_kernels);
    hr_pipeline_free(pipeline);
}

void gpu_forget(struct gpu_expected *expected)
{
    free(expected->in);
    free(expected->out);
}

/* ---- ends ---- */

static void *on_device(struct gpu_run *run, size_t size)
{
    void *memory = NULL;
    if (run->status == HR_OK)
        run->status = hr_device_alloc(run->context, gpu_name(), size, &memory, &run->error);
    return run->status == HR_OK ? memory : NULL;
}

static void write_file(char *path, size_t path_size, const void *bytes, size_t size)
{
    snprintf(path, path_size, "/tmp/gpu_run_XXXXXX");
    const int fd = mkstemp(path);
    must(fd >= 0 && write(fd, bytes, size) == (ssize_t)size, "no file");
    close(fd);
}

static void place_on_device(struct gpu_run *run, struct hr_source *source,
                            const unsigned char *bytes, size_t size)
{
    *source = (struct hr_source){.struct_size = sizeof *source, .kind = HR_DEVICE, .size = size};
    source->data = run->device_in = on_device(run, size);
    if (run->device_in)
        memcpy(fake_cuda_host((uintptr_t)run->device_in, size), bytes, size);
}

static void make_tail(struct gpu_run *run)
{
    const size_t tail = run->shape->tail;
    if (tail)
        place_on_device(run, &run->sources[1], run->expected->in + run->shape->size - tail, tail);
}

static void make_source(struct gpu_run *run)
{
    const unsigned char *in = run->expected->in;
    const size_t size = run->shape->size - run->shape->tail;
    struct hr_source *source = &run->sources[0];
    *source = (struct hr_source){.struct_size = sizeof *source, .kind = HR_MEMORY, .size = size};
    int ends[2];
    run->near_in = -1;
    switch (run->shape->from) {
    case GPU_FILE:
        source->kind = HR_FILE;
        write_file(run->path_in, sizeof run->path_in, in, size);
        source->path = run->path_in;
        break;
    case GPU_PIPE:
        must(pipe(ends) == 0 && write(ends[1], in, size) == (ssize_t)size, "no pipe");
        close(ends[1]);
        source->kind = HR_FD;
        source->fd = run->near_in = ends[0];
        break;
    case GPU_DEVICE:
        place_on_device(run, source, in, size);
        break;
    case GPU_PLAIN:
    case GPU_PINNED:
    case GPU_GROWING:
    case GPU_NULL:
    case GPU_LENT:
        run->host_in = malloc(size);
        memcpy(run->host_in, in, size);
        source->data = run->host_in;
        if (run->shape->from == GPU_PINNED)
            (void)!hr_pin(run->context, gpu_name(), run->host_in, size, NULL);
    }
}

static void make_sink(struct gpu_run *run)
{
    const size_t size = run->expected->n_out;
    struct hr_sink *sink = &run->config.sink;
    *sink = (struct hr_sink){.struct_size = sizeof *sink, .kind = HR_MEMORY, .size = size};
    run->host_out = malloc(size + 1);
    memset(run->host_out, UNTOUCHED, size + 1);
    switch (run->shape->to) {
    case GPU_FILE:
        sink->kind = HR_FILE;
        snprintf(run->path_out, sizeof run->path_out, "/tmp/gpu_out_%d", (int)getpid());
        sink->path = run->path_out;
        break;
    case GPU_DEVICE:
        sink->kind = HR_DEVICE;
        sink->data = run->device_out = on_device(run, size);
        break;
    case GPU_GROWING:
        sink->kind = HR_DEVICE;
        break;
    case GPU_NULL:
        sink->kind = HR_NULL;
        break;
    case GPU_LENT:
        sink->kind = HR_PULL;
        sink->flags = HR_LEND_DEVICE;
        break;
    case GPU_PLAIN:
    case GPU_PINNED:
    case GPU_PIPE:
        sink->data = run->host_out;
        if (run->shape->to == GPU_PINNED)
            (void)!hr_pin(run->context, gpu_name(), run->host_out, size, NULL);
    }
}

void gpu_run_create(struct gpu_run *run, const struct gpu_shape *shape,
                    const struct gpu_expected *expected, hr_context *context, hr_loop *loop)
{
    *run = (struct gpu_run){.shape = shape, .expected = expected, .context = context, .loop = loop};
    make_source(run);
    make_tail(run);
    make_sink(run);
    struct hr_pipeline_config *config = &run->config;
    config->struct_size = sizeof *config;
    config->sources = run->sources;
    config->n_sources = shape->tail ? 2 : 1;
    config->chunk_size = shape->chunk_size;
    config->depth = shape->depth;
    config->n_streams = shape->n_streams;
    config->flags = shape->flags;
    config->kernels = run->kernels;
    config->n_kernels = set_kernels(run->kernels, shape, true);
    config->device = gpu_name();
    if (run->status == HR_OK)
        run->status = hr_pipeline_create(loop, config, &run->pipeline, &run->error);
}

/* ---- running ---- */

static hr_status take_chunk(struct gpu_run *run, struct hr_chunk *chunk)
{
    void *const default_stream = (void *)2; /* of both vendors, the calling thread's */
    const size_t room = run->expected->n_out - run->n_pulled;
    const hr_status status = hr_chunk_wait(chunk, NULL, &run->error);
    if (status == HR_OK && chunk->size <= room)
        memcpy(run->host_out + run->n_pulled,
               fake_cuda_host((uintptr_t)chunk->data, (size_t)chunk->size), (size_t)chunk->size);
    if (status == HR_OK)
        run->n_pulled += (size_t)chunk->size;
    hr_chunk_release(chunk, default_stream);
    return status;
}

static hr_status pull(struct gpu_run *run)
{
    struct hr_chunk chunk = {.struct_size = sizeof chunk};
    const hr_status status = hr_pipeline_next(run->pipeline, -1, &chunk, &run->error);
    if (status != HR_OK)
        return status == HR_END ? HR_OK : status;
    const hr_status taken = take_chunk(run, &chunk);
    return taken == HR_OK ? HR_PENDING : taken;
}

static hr_status poll(struct gpu_run *run)
{
    hr_status status = hr_pipeline_state(run->pipeline, &run->error);
    if (status != HR_PENDING) /* it ended while another one was polled */
        return status;
    status = hr_loop_poll(run->loop, -1, &run->error);
    return status < 0 ? status : hr_pipeline_state(run->pipeline, &run->error);
}

hr_status gpu_run_step(struct gpu_run *run)
{
    run->stats.struct_size = sizeof run->stats;
    const hr_status status = run->shape->to == GPU_LENT ? pull(run) : poll(run);
    must(hr_pipeline_stats(run->pipeline, &run->stats) == HR_OK, "no statistics");
    if (status != HR_PENDING)
        run->status = status;
    return status;
}

void gpu_run_finish(struct gpu_run *run)
{
    hr_status status = run->status == HR_OK && run->pipeline ? HR_PENDING : HR_OK;
    while (status == HR_PENDING)
        status = gpu_run_step(run);
}

/* ---- judging ---- */

static const char *judge_results(struct gpu_run *run)
{
    for (uint32_t i = 0; i < run->config.n_kernels; i++) {
        const struct hr_result *wanted = &run->expected->results[i];
        struct hr_result result = {.struct_size = sizeof result};
        if (wanted->n_values == 0)
            continue;
        if (hr_pipeline_result(run->pipeline, i, &result, NULL) != HR_OK)
            return "a result is missing";
        const size_t size = (size_t)result.n_values * size_of_value(result.type);
        if (result.n_values != wanted->n_values || result.n_units != wanted->n_units ||
            memcmp(result.data, run->expected->values[i], size) != 0)
            return "a result is wrong";
    }
    return NULL;
}

static void fetch_file(struct gpu_run *run)
{
    FILE *file = fopen(run->path_out, "rb");
    if (!file)
        return;
    run->n_pulled = fread(run->host_out, 1, run->expected->n_out + 1, file);
    fclose(file);
}

static bool fetch_gathered(struct gpu_run *run)
{
    uint64_t size = 0;
    if (hr_pipeline_gathered(run->pipeline, &run->device_out, &size, NULL) != HR_OK)
        return false;
    run->n_pulled = (size_t)size;
    if (size == run->expected->n_out && size)
        memcpy(run->host_out, fake_cuda_host((uintptr_t)run->device_out, size), size);
    return size == run->expected->n_out;
}

/* How many bytes of the output are in host_out now; they are from its begin on. */
static size_t fetch_output(struct gpu_run *run)
{
    const size_t written = (size_t)run->stats.stages[HR_STAGE_WRITE].bytes_out;
    switch (run->shape->to) {
    case GPU_FILE:
        fetch_file(run);
        return run->n_pulled;
    case GPU_GROWING:
        return run->pipeline && run->status == HR_OK && fetch_gathered(run) ? run->n_pulled : 0;
    case GPU_DEVICE:
        if (run->device_out && written)
            memcpy(run->host_out, fake_cuda_host((uintptr_t)run->device_out, run->expected->n_out),
                   run->expected->n_out);
        return written;
    case GPU_NULL:
        return 0;
    case GPU_LENT:
        return run->n_pulled;
    case GPU_PLAIN:
    case GPU_PINNED:
    case GPU_PIPE:
        break;
    }
    return written;
}

static bool keeps_sizes(const struct gpu_shape *shape)
{
    for (unsigned i = 0; i < GPU_KERNELS && shape->kernels[i]; i++)
        if (strstr(shape->kernels[i], "filter") || strstr(shape->kernels[i], "cast"))
            return false;
    return true;
}

/* Whether all before the failing position has reached the sink. */
static bool has_delivered(const struct gpu_run *run)
{
    const bool lent = run->shape->to == GPU_LENT;
    const uint64_t n = lent ? run->n_pulled : run->stats.stages[HR_STAGE_WRITE].bytes_out;
    return (run->shape->flags & HR_UNORDERED) || !keeps_sizes(run->shape) || n >= run->error.offset;
}

static const char *judge_error(const struct gpu_run *run)
{
    static const char *const causes[] = {"out of memory", "illegal memory access",
                                         "a fake failure"};
    const hr_error *error = &run->error;
    if (error->code != run->status || error->text[0] == '\0' || strchr(error->text, '\n'))
        return "the error does not tell";
    if (run->stats.wall_ns && error->stage == HR_STAGE_NONE)
        return "the error names no stage";
    if (!has_delivered(run))
        return "what came before is not delivered";
    for (size_t i = 0; i < sizeof causes / sizeof causes[0]; i++)
        if (strstr(error->text, causes[i]))
            return NULL;
    return "the error names no cause";
}

const char *gpu_run_judge(struct gpu_run *run)
{
    const struct gpu_expected *expected = run->expected;
    const size_t n = fetch_output(run);
    if (n > expected->n_out ||
        (!(run->shape->flags & HR_UNORDERED) && memcmp(run->host_out, expected->out, n) != 0))
        return "the output is wrong";
    if (run->status != HR_OK && run->shape->to == GPU_FILE && n > 0)
        return "failure, but there is a file";
    if (run->status != HR_OK)
        return run->status == HR_ECANCELED ? NULL : judge_error(run);
    if (run->shape->to != GPU_NULL &&
        (n != expected->n_out || memcmp(run->host_out, expected->out, n) != 0))
        return "success, but the output is not whole";
    return judge_results(run);
}

void gpu_run_free(struct gpu_run *run)
{
    hr_pipeline_free(run->pipeline);
    if (run->shape->from == GPU_PINNED)
        hr_unpin(run->context, gpu_name(), run->host_in);
    if (run->shape->to == GPU_PINNED)
        hr_unpin(run->context, gpu_name(), run->host_out);
    hr_device_free(run->context, gpu_name(), run->device_in);
    hr_device_free(run->context, gpu_name(), run->device_out);
    if (run->near_in >= 0)
        close(run->near_in);
    if (run->path_in[0])
        unlink(run->path_in);
    if (run->path_out[0])
        unlink(run->path_out);
    free(run->host_in);
    free(run->host_out);
}
