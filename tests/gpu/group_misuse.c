// SPDX-License-Identifier: Apache-2.0
/* Memory of a device that is asked for, given or named in a wrong way is refused, and nothing else
 * happens. */
#include <stdlib.h>
#include <string.h>

#include "trials.h"

enum { SIZE = 100000, ALIGNMENT = 256 };

static hr_status run_between(struct bed *bed, struct hr_source source, struct hr_sink sink,
                             const char *kernel, hr_error *error)
{
    const struct hr_kernel kernels[] = {{.struct_size = sizeof kernels[0], .text = kernel}};
    source.struct_size = sizeof source;
    sink.struct_size = sizeof sink;
    const struct hr_pipeline_config config = {.struct_size = sizeof config,
                                              .sources = &source,
                                              .n_sources = 1,
                                              .sink = sink,
                                              .kernels = kernels,
                                              .n_kernels = kernel ? 1 : 0,
                                              .device = bed->device};
    hr_pipeline *pipeline = NULL;
    hr_status status = hr_pipeline_create(bed->loop, &config, &pipeline, error);
    if (status == HR_OK)
        status = run_to_end(bed, pipeline, error);
    hr_pipeline_free(pipeline);
    return status;
}

static void expect_refusal(struct bed *bed, const char *what, struct hr_source source,
                           struct hr_sink sink, const char *kernel)
{
    hr_error error = {0};
    const hr_status status = run_between(bed, source, sink, kernel, &error);
    expect(bed, status < 0 && error.code == (int32_t)status, "%s: %s (%s)", what,
           hr_status_name(status), error.text);
}

static void misuse_ends(struct bed *bed, unsigned char *memory)
{
    static unsigned char bytes[SIZE];
    const struct hr_source from_host = {.kind = HR_MEMORY, .data = bytes, .size = SIZE};
    const struct hr_source from_device = {.kind = HR_DEVICE, .data = memory, .size = SIZE};
    const struct hr_sink nowhere = {.kind = HR_NULL};
    struct hr_source source = from_device;
    source.data = NULL;
    expect_refusal(bed, "a source without data", source, nowhere, NULL);
    source = from_device;
    source.size = 4 * 333 + 3;
    expect_refusal(bed, "a source with a part of a unit", source, nowhere, "bswap:4");
    if (!bed->is_gpu)
        return; /* any memory is the host's, and it takes any address */
    source = from_device;
    source.data = memory + 1;
    expect_refusal(bed, "a source that is not aligned", source, nowhere, NULL);
    source.size = SIZE;
    source.data = (void *)((uintptr_t)bytes / 16 * 16 + 16);
    source.size = SIZE / 2;
    expect_refusal(bed, "a source of kind HR_DEVICE in memory of the host", source, nowhere, NULL);
    const struct hr_sink sink = {.kind = HR_DEVICE, .data = bytes, .size = SIZE};
    expect_refusal(bed, "a sink of kind HR_DEVICE in memory of the host", from_host, sink, NULL);
}

static void misuse_gathered(struct bed *bed)
{
    static unsigned char bytes[SIZE];
    void *memory = NULL;
    uint64_t size = 0;
    hr_error error = {0};
    const struct hr_source source = {
        .struct_size = sizeof source, .kind = HR_MEMORY, .data = bytes, .size = SIZE};
    struct hr_pipeline_config config = {.struct_size = sizeof config,
                                        .sources = &source,
                                        .n_sources = 1,
                                        .sink = {.struct_size = sizeof config.sink},
                                        .device = bed->device};
    for (int i = 0; i < 2;
         i++) { /* of a sink that gathers nothing; never asked for, and too early */
        hr_pipeline *pipeline = NULL;
        config.sink.kind = i ? HR_DEVICE : HR_NULL;
        hr_status status = hr_pipeline_create(bed->loop, &config, &pipeline, &error);
        expect(bed, status == HR_OK, "a pipeline: %s", error.text);
        if (status != HR_OK)
            continue;
        status = hr_pipeline_gathered(pipeline, &memory, &size, &error);
        expect(bed, status == (i ? HR_PENDING : HR_EINVAL), "what is gathered at first: %s",
               hr_status_name(status));
        status = run_to_end(bed, pipeline, &error);
        expect(bed, status == HR_OK, "the run: %s", error.text);
        if (i == 0) {
            status = hr_pipeline_gathered(pipeline, &memory, &size, &error);
            expect(bed, status == HR_EINVAL, "gathered by no sink: %s", hr_status_name(status));
        }
        hr_pipeline_free(pipeline); /* with what was gathered */
    }
}

static void misuse_pins(struct bed *bed)
{
    unsigned char *memory = aligned_alloc(4096, 8 * 4096);
    hr_error error = {0};
    must_have(memory != NULL, "memory");
    hr_status status = hr_pin(bed->context, bed->device, memory, 4 * 4096, &error);
    expect(bed, status == HR_OK, "pinning: %s", error.text);
    status = hr_pin(bed->context, bed->device, memory + 4096, 4 * 4096, &error);
    expect(bed, status == (bed->is_gpu ? HR_EUNSUPPORTED : HR_OK), "pinning twice: %s (%s)",
           hr_status_name(status), error.text);
    hr_unpin(bed->context, bed->device, memory);
    status = hr_pin(bed->context, bed->device, memory, 8 * 4096, &error);
    expect(bed, status == HR_OK, "pinning again: %s", error.text);
    hr_unpin(bed->context, bed->device, memory);
    free(memory);
}

/* Of the host an allocator that looks for faults would end the process. */
static void ask_for_too_much(struct bed *bed)
{
    void *memory = NULL;
    hr_error error = {0};
    const hr_status status =
        hr_device_alloc(bed->context, bed->device, (uint64_t)1 << 60, &memory, &error);
    expect(bed, status == HR_ENOMEM && !memory, "an exbibyte: %s (%s)", hr_status_name(status),
           error.text);
}

void group_misuse(struct bed *bed)
{
    void *memory = NULL;
    hr_error error = {0};
    hr_status status = hr_device_alloc(bed->context, "abacus", SIZE, &memory, &error);
    expect(bed, status == HR_EINVAL && !memory, "memory of no device: %s", hr_status_name(status));
    if (bed->is_gpu)
        ask_for_too_much(bed);
    status = hr_device_alloc(bed->context, bed->device, SIZE, &memory, &error);
    expect(bed, status == HR_OK && (uintptr_t)memory % ALIGNMENT == 0, "memory at %p: %s", memory,
           error.text);
    if (status == HR_OK)
        misuse_ends(bed, memory);
    hr_device_free(bed->context, bed->device, memory);
    hr_device_free(bed->context, bed->device, NULL);
    misuse_gathered(bed);
    misuse_pins(bed);
}
