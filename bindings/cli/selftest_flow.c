// SPDX-License-Identifier: Apache-2.0
/* Pipelines of the self-test: one run, what came of it, and the same on the host. */
#include <stdlib.h>
#include <string.h>

#include "selftest.h"

struct hr_source from_memory(const void *data, uint64_t size)
{
    return (struct hr_source){
        .struct_size = sizeof(struct hr_source), .kind = HR_MEMORY, .data = data, .size = size};
}

struct hr_source from_device(const void *data, uint64_t size)
{
    return (struct hr_source){
        .struct_size = sizeof(struct hr_source), .kind = HR_DEVICE, .data = data, .size = size};
}

struct hr_sink to_memory(void *data, uint64_t size)
{
    return (struct hr_sink){
        .struct_size = sizeof(struct hr_sink), .kind = HR_MEMORY, .data = data, .size = size};
}

struct hr_sink to_device(void *data, uint64_t size)
{
    return (struct hr_sink){
        .struct_size = sizeof(struct hr_sink), .kind = HR_DEVICE, .data = data, .size = size};
}

hr_status create_flow(struct selftest *t, const struct flow *flow, hr_pipeline **out,
                      hr_error *error)
{
    struct hr_kernel kernels[CHAIN_MAX];
    uint32_t n = 0;
    while (flow->kernels[n]) {
        kernels[n] = (struct hr_kernel){.struct_size = sizeof kernels[n], .text = flow->kernels[n]};
        n++;
    }
    const struct hr_pipeline_config config = {
        .struct_size = sizeof config,
        .n_sources = 1,
        .sources = &flow->source,
        .sink = flow->sink,
        .chunk_size = flow->chunk_size,
        .depth = flow->depth,
        .kernels = flow->own ? flow->own : kernels,
        .n_kernels = flow->own ? 1 : n,
        .n_streams = flow->n_streams,
        .device = flow->device,
        .decode = flow->decode,
        .encode = flow->encode,
    };
    return hr_pipeline_create(t->loop, &config, out, error);
}

static void find(hr_pipeline *pipeline, uint32_t kernel, struct found *found)
{
    struct hr_result *result = &found->result;
    *result = (struct hr_result){.struct_size = sizeof *result};
    found->status = hr_pipeline_result(pipeline, kernel, result, NULL);
    if (found->status != HR_OK)
        return;
    const uint64_t all = result->n_values * result_type_bytes(result->type);
    found->n_bytes = all < FOUND_BYTES ? all : FOUND_BYTES;
    if (found->n_bytes)
        memcpy(found->bytes, result->data, (size_t)found->n_bytes);
    result->data = NULL;
}

static void look_at_end(const struct flow *flow, hr_pipeline *pipeline, struct outcome *out)
{
    hr_status status = hr_pipeline_stats(pipeline, &out->stats);
    out->size = out->stats.stages[HR_STAGE_WRITE].bytes_out;
    for (uint32_t i = 0; flow->kernels[i]; i++)
        find(pipeline, i, &out->found[i]);
    if (status == HR_OK && flow->sink.kind == HR_DEVICE && !flow->sink.data)
        status = hr_pipeline_gathered(pipeline, &out->gathered, &out->size, &out->error);
    out->status = status;
}

void run_flow(struct selftest *t, const struct flow *flow, struct outcome *out)
{
    hr_pipeline *pipeline = NULL;
    *out = (struct outcome){.stats = {.struct_size = sizeof out->stats}};
    out->status = create_flow(t, flow, &pipeline, &out->error);
    if (out->status == HR_OK)
        out->status = hr_pipeline_run(pipeline, &out->error);
    if (out->status == HR_OK)
        look_at_end(flow, pipeline, out);
    hr_pipeline_free(pipeline);
}

bool must_run(struct selftest *t, const struct flow *flow, struct outcome *out)
{
    char what[64];
    run_flow(t, flow, out);
    snprintf(what, sizeof what, "%llu bytes on %s", (unsigned long long)flow->source.size,
             flow->device);
    return expect_ok(t, what, out->status, &out->error);
}

/* ---- comparison ---- */

static void compare_found(struct selftest *t, const char *kernel, const struct found *expected,
                          const struct found *got)
{
    char what[128];
    const struct hr_result *a = &expected->result;
    const struct hr_result *b = &got->result;
    if (expected->status != got->status || a->type != b->type || a->n_values != b->n_values ||
        a->n_units != b->n_units) {
        fail(t,
             "%s: expected %llu values of type %u over %llu units (%s), got %llu of type %u over "
             "%llu (%s)",
             kernel, (unsigned long long)a->n_values, a->type, (unsigned long long)a->n_units,
             hr_status_name(expected->status), (unsigned long long)b->n_values, b->type,
             (unsigned long long)b->n_units, hr_status_name(got->status));
        return;
    }
    snprintf(what, sizeof what, "what %s found of %llu units", kernel,
             (unsigned long long)a->n_units);
    expect_bytes(t, what, got->bytes, expected->bytes, expected->n_bytes);
}

static void compare_outcomes(struct selftest *t, const struct flow *flow,
                             const struct outcome *expected, const unsigned char *bytes,
                             const struct outcome *got)
{
    const unsigned char *memory = flow->sink.data;
    char what[64];
    snprintf(what, sizeof what, "of %llu bytes", (unsigned long long)flow->source.size);
    if (got->size != expected->size)
        fail(t, "%s: expected %llu at the end, got %llu", what, (unsigned long long)expected->size,
             (unsigned long long)got->size);
    else
        expect_bytes(t, what, memory, bytes, expected->size);
    if (!t->why[0])
        expect_guard(t, what, memory, got->size);
    for (int i = 0; flow->kernels[i]; i++)
        compare_found(t, flow->kernels[i], &expected->found[i], &got->found[i]);
}

void compare_flow(struct selftest *t, struct flow flow)
{
    enum { MOST_GROWTH = 8 };
    const uint64_t room = flow.source.size * MOST_GROWTH + GUARD;
    unsigned char *bytes = take_memory(room + GUARD);
    unsigned char *memory = take_memory(room + GUARD);
    struct flow on_host = flow;
    struct outcome expected;
    struct outcome got;
    on_host.device = "host";
    on_host.sink = to_memory(bytes, room);
    flow.device = t->device;
    flow.sink = to_memory(memory, room);
    if (must_run(t, &on_host, &expected) && must_run(t, &flow, &got))
        compare_outcomes(t, &flow, &expected, bytes, &got);
    free(bytes);
    free(memory);
}
