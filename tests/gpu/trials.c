// SPDX-License-Identifier: Apache-2.0
#include "trials.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engines.h"

enum { LIMIT_S = 60 };

hr_loop *bed_loop(hr_context *context)
{
    uint32_t engines[2];
    hr_loop *loop = NULL;
    hr_error error = {.text = "no I/O engine"};
    struct hr_loop_config config = {.struct_size = sizeof config};
    const bool some = test_engines(engines) > 0;
    config.io = some ? engines[0] : 0;
    if (!some || hr_loop_create(context, &config, &loop, &error) != HR_OK) {
        printf("not ok a loop: %s\n", error.text);
        exit(1);
    }
    return loop;
}

/* ---- running ---- */

static void make_config(struct run *run)
{
    const struct trial *trial = run->trial;
    struct hr_pipeline_config *config = &run->config;
    config->struct_size = sizeof *config;
    config->sources = run->sources;
    config->sink = run->sink;
    config->kernels = run->kernels;
    for (const char *const *text = trial->kernels; *text; text++)
        run->kernels[config->n_kernels++] =
            (struct hr_kernel){.struct_size = sizeof run->kernels[0], .text = *text};
    config->chunk_size = trial->chunk_size;
    config->depth = trial->depth;
    config->n_streams = trial->n_streams;
    config->decode = trial->decode;
    config->encode = trial->encode;
    config->flags = trial->flags;
    config->frame_size = trial->encode ? 100000 : 0;
    config->device = run->device;
}

void run_start(struct run *run, struct bed *bed, const struct trial *trial, const char *device,
               struct trial_outcome *out)
{
    *run = (struct run){.bed = bed, .trial = trial, .device = device, .out = out};
    *out = (struct trial_outcome){.stats = {.struct_size = sizeof out->stats}};
    out->status = ends_open(run, &out->error);
    make_config(run);
    if (out->status == HR_OK)
        out->status = hr_pipeline_create(bed->loop, &run->config, &run->pipeline, &out->error);
    if (out->status == HR_OK)
        out->status = HR_PENDING;
}

hr_status run_to_end(struct bed *bed, hr_pipeline *pipeline, hr_error *error)
{
    const time_t start = time(NULL);
    hr_status status;
    while ((status = hr_pipeline_state(pipeline, error)) == HR_PENDING) {
        status = hr_loop_poll(bed->loop, 1000, error);
        if (status < 0)
            return status;
        if (time(NULL) - start > LIMIT_S) {
            snprintf(error->text, sizeof error->text, "it did not end in %d s", LIMIT_S);
            return HR_ETIMEDOUT;
        }
    }
    return status;
}

/* A chunk in memory of the device is read by a pipeline of its own, while this one goes on. */
static hr_status read_chunk(struct run *run, const struct hr_chunk *chunk)
{
    struct trial_outcome *out = run->out;
    const bool is_of_device = (chunk->flags & HR_CHUNK_DEVICE) != 0;
    if (is_of_device !=
            (run->trial->to == TO_LOANS && run->bed->is_gpu && strcmp(run->device, "host") != 0) ||
        is_of_device != (chunk->ready != NULL))
        snprintf(out->fault, sizeof out->fault, "a chunk with flags %u and ready %p", chunk->flags,
                 chunk->ready);
    hr_status status = hr_chunk_wait(chunk, NULL, &out->error);
    const size_t size = (size_t)chunk->size;
    unsigned char *bytes = malloc(size + 1);
    if (status == HR_OK && is_of_device)
        status = device_get(run->bed, run->device, bytes, chunk->data, size, &out->error);
    else if (status == HR_OK)
        memcpy(bytes, chunk->data, size);
    if (status == HR_OK)
        outcome_append(out, bytes, size);
    free(bytes);
    return status;
}

static hr_status pull_all(struct run *run)
{
    struct hr_chunk chunk = {.struct_size = sizeof chunk};
    hr_status status;
    while ((status = hr_pipeline_next(run->pipeline, LIMIT_S * 1000, &chunk, &run->out->error)) ==
           HR_OK) {
        status = read_chunk(run, &chunk);
        hr_chunk_release(&chunk, NULL);
        if (status != HR_OK)
            return status;
    }
    return status == HR_END ? HR_OK : status;
}

static size_t bytes_of(uint32_t type)
{
    static const uint8_t sizes[] = {
        [HR_TYPE_I64] = 8, [HR_TYPE_U64] = 8,  [HR_TYPE_F64] = 8, [HR_TYPE_U8] = 1,
        [HR_TYPE_I8] = 1,  [HR_TYPE_U16] = 2,  [HR_TYPE_I16] = 2, [HR_TYPE_I32] = 4,
        [HR_TYPE_F16] = 2, [HR_TYPE_BF16] = 2, [HR_TYPE_F32] = 4, [HR_TYPE_U32] = 4};
    return type > 0 && type < sizeof sizes ? sizes[type] : 1;
}

static void find_results(struct run *run)
{
    for (uint32_t i = 0; i < run->config.n_kernels; i++) {
        struct finding *finding = &run->out->findings[i];
        struct hr_result result = {.struct_size = sizeof result};
        finding->status = hr_pipeline_result(run->pipeline, i, &result, NULL);
        if (finding->status != HR_OK)
            continue;
        finding->type = result.type;
        finding->n_values = result.n_values;
        finding->n_units = result.n_units;
        const size_t bytes = bytes_of(result.type);
        const size_t most = MAX_RESULT_BYTES / bytes;
        const size_t n = result.n_values < most ? (size_t)result.n_values : most;
        if (n > 0)
            memcpy(finding->values, result.data, n * bytes);
    }
}

void run_finish(struct run *run)
{
    struct trial_outcome *out = run->out;
    if (run->pipeline) {
        if (out->status == HR_OK)
            find_results(run);
        if (hr_pipeline_stats(run->pipeline, &out->stats) != HR_OK)
            snprintf(out->fault, sizeof out->fault, "no statistics");
        hr_error error = {0};
        const hr_status status = sink_collect(run, &error);
        if (status != HR_OK)
            snprintf(out->fault, sizeof out->fault, "the sink is not to be read: %s: %.100s",
                     hr_status_name(status), error.text);
    }
    hr_pipeline_free(run->pipeline);
    ends_close(run);
}

void trial_run(struct bed *bed, const struct trial *trial, const char *device,
               struct trial_outcome *out)
{
    struct run run;
    run_start(&run, bed, trial, device, out);
    if (out->status == HR_PENDING)
        out->status = trial->to == TO_PULL || trial->to == TO_LOANS
                          ? pull_all(&run)
                          : run_to_end(bed, run.pipeline, &out->error);
    run_finish(&run);
}

void trial_reference(struct bed *bed, const struct trial *trial, struct trial_outcome *out)
{
    struct trial plain = {.bytes = trial->bytes, .size = trial->size, .decode = trial->decode};
    memcpy(plain.kernels, trial->kernels, sizeof plain.kernels);
    trial_run(bed, &plain, "host", out);
}

/* ---- memory of a device ---- */

static hr_status copy(struct bed *bed, const char *device, struct hr_source source,
                      struct hr_sink sink, hr_error *error)
{
    source.struct_size = sizeof source;
    sink.struct_size = sizeof sink;
    const struct hr_pipeline_config config = {.struct_size = sizeof config,
                                              .sources = &source,
                                              .n_sources = 1,
                                              .sink = sink,
                                              .chunk_size = 1 << 20,
                                              .depth = 2,
                                              .device = device};
    hr_pipeline *pipeline = NULL;
    hr_status status = hr_pipeline_create(bed->loop, &config, &pipeline, error);
    if (status == HR_OK)
        status = run_to_end(bed, pipeline, error);
    hr_pipeline_free(pipeline);
    return status;
}

hr_status device_put(struct bed *bed, const char *device, void *to, const void *bytes, size_t size,
                     hr_error *error)
{
    return copy(bed, device, (struct hr_source){.kind = HR_MEMORY, .data = bytes, .size = size},
                (struct hr_sink){.kind = HR_DEVICE, .data = to, .size = size}, error);
}

hr_status device_get(struct bed *bed, const char *device, void *to, const void *memory, size_t size,
                     hr_error *error)
{
    return copy(bed, device, (struct hr_source){.kind = HR_DEVICE, .data = memory, .size = size},
                (struct hr_sink){.kind = HR_MEMORY, .data = to, .size = size}, error);
}
