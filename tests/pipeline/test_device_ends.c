// SPDX-License-Identifier: Apache-2.0
/* Sources and sinks in a device's memory, as the public header promises them, on the host device:
 * what is refused, gathering, and one memory as source and sink. On GPUs see tests/gpu. */
#include <criterion/criterion.h>
#include <headrace.h>
#include <stdlib.h>
#include <string.h>

#include "chains.h"

enum { SIZE = 300001, CHUNK = 4096 };

static hr_context *context;
static hr_loop *loop;
static hr_error error;

static void make_loop(void)
{
    cr_assert_eq(hr_context_create(NULL, &context, &error), HR_OK);
    cr_assert_eq(hr_loop_create(context, NULL, &loop, &error), HR_OK);
}

static void free_loop(void)
{
    hr_loop_free(loop);
    hr_context_free(context);
}

TestSuite(device_ends, .init = make_loop, .fini = free_loop);

/* A source in memory; the rest is the test's. */
struct ends {
    struct hr_source source;
    struct hr_kernel kernel;
    struct hr_pipeline_config config;
};

static void read_memory(struct ends *e, const void *data, uint64_t size)
{
    *e = (struct ends){
        .source = {.struct_size = sizeof e->source, .kind = HR_MEMORY, .data = data, .size = size},
        .kernel = {.struct_size = sizeof e->kernel},
        .config = {.struct_size = sizeof e->config,
                   .n_sources = 1,
                   .device = "host",
                   .chunk_size = CHUNK,
                   .sink = {.struct_size = sizeof e->config.sink}}};
    e->config.sources = &e->source;
}

static void add_kernel(struct ends *e, const char *text)
{
    e->kernel.text = text;
    e->config.kernels = &e->kernel;
    e->config.n_kernels = 1;
}

static hr_status run(struct ends *e, hr_loop *on, hr_pipeline **pipeline)
{
    *pipeline = NULL;
    hr_status status = hr_pipeline_create(on, &e->config, pipeline, &error);
    return status == HR_OK ? hr_pipeline_run(*pipeline, &error) : status;
}

static void expect_text(const char *part)
{
    cr_expect(strstr(error.text, part), "%s", error.text);
}

Test(device_ends, gathered_memory_is_the_callers_once)
{
    struct ends e;
    hr_pipeline *p;
    unsigned char *bytes = test_bytes(SIZE);
    read_memory(&e, bytes, SIZE);
    e.config.sink.kind = HR_DEVICE;
    cr_assert_eq(run(&e, loop, &p), HR_OK, "%s", error.text);
    void *memory = NULL;
    uint64_t size = 0;
    cr_expect_eq(hr_pipeline_gathered(p, NULL, &size, &error), HR_EINVAL);
    expect_text("memory or size is NULL");
    cr_assert_eq(hr_pipeline_gathered(p, &memory, &size, &error), HR_OK);
    cr_assert_eq(size, SIZE);
    cr_expect_arr_eq(memory, bytes, SIZE);
    void *again = &again;
    cr_assert_eq(hr_pipeline_gathered(p, &again, &size, &error), HR_OK);
    cr_expect_null(again);
    hr_pipeline_free(p);
    hr_device_free(context, "host", memory);
    free(bytes);
}

Test(device_ends, what_is_gathered_has_a_limit)
{
    struct ends e;
    hr_pipeline *p;
    unsigned char *bytes = test_bytes(SIZE);
    read_memory(&e, bytes, SIZE);
    add_kernel(&e, "filter:u8,ne,0"); /* how much it gives is not known beforehand */
    e.config.sink.kind = HR_DEVICE;
    e.config.sink.size = SIZE / 2;
    cr_expect_eq(run(&e, loop, &p), HR_ESPACE);
    expect_text("150000 bytes");
    hr_pipeline_free(p);
    free(bytes);
}

Test(device_ends, gathered_memory_needs_a_context_of_the_caller)
{
    struct ends e;
    hr_pipeline *p;
    read_memory(&e, "abcd", 4);
    e.config.sink.kind = HR_DEVICE;
    cr_expect_eq(run(&e, NULL, &p), HR_EINVAL);
    expect_text("make a context and a loop");
}

Test(device_ends, a_pipeline_whose_chunks_are_fetched_is_not_run)
{
    struct ends e;
    hr_pipeline *p;
    read_memory(&e, "abcd", 4);
    e.config.sink.kind = HR_PULL;
    cr_expect_eq(run(&e, loop, &p), HR_EINVAL);
    expect_text("hr_pipeline_next");
    hr_pipeline_free(p);
}

Test(device_ends, in_place_is_right_where_no_chunk_grows)
{
    static const char *const kernels[] = {NULL, "bswap:2", "cast:i16,u8"};
    struct ends e;
    hr_pipeline *p;
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        unsigned char *bytes = test_bytes(SIZE - 1);
        unsigned char *copy = test_bytes(SIZE - 1);
        unsigned char *apart = malloc(SIZE);
        read_memory(&e, copy, SIZE - 1);
        if (kernels[i])
            add_kernel(&e, kernels[i]);
        e.config.sink.kind = HR_MEMORY;
        e.config.sink.data = apart;
        e.config.sink.size = SIZE;
        cr_assert_eq(run(&e, loop, &p), HR_OK, "%s", error.text);
        hr_pipeline_free(p);
        e.source.data = e.config.sink.data = bytes;
        e.config.sink.size = SIZE - 1;
        cr_assert_eq(run(&e, loop, &p), HR_OK, "%s", error.text);
        hr_pipeline_free(p);
        const size_t n = i == 2 ? SIZE / 2 : SIZE - 1;
        cr_expect_arr_eq(bytes, apart, n, "kernel %zu", i);
        free(apart);
        free(copy);
        free(bytes);
    }
}

Test(device_ends, what_would_be_overwritten_before_it_is_read_is_refused)
{
    static unsigned char bytes[4 * CHUNK];
    static const struct {
        size_t from;
        size_t to;
        const char *kernel;
    } wrong[] = {{0, CHUNK, NULL}, {CHUNK, 0, "bswap:2"}, {0, 0, "cast:i16,i32"}};
    struct ends e;
    hr_pipeline *p;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        read_memory(&e, bytes + wrong[i].from, 2 * CHUNK);
        if (wrong[i].kernel)
            add_kernel(&e, wrong[i].kernel);
        e.config.sink.kind = i == 0 ? HR_MEMORY : HR_DEVICE;
        e.config.sink.data = bytes + wrong[i].to;
        e.config.sink.size = sizeof bytes - wrong[i].to;
        cr_expect_eq(run(&e, loop, &p), HR_EINVAL, "%zu", i);
        expect_text("overlap");
    }
    read_memory(&e, bytes, CHUNK);
    e.config.sink.kind = HR_MEMORY;
    e.config.sink.data = bytes + CHUNK; /* beside it */
    e.config.sink.size = CHUNK;
    cr_expect_eq(run(&e, loop, &p), HR_OK, "%s", error.text);
    hr_pipeline_free(p);
}

Test(device_ends, a_source_is_aligned)
{
    static _Alignas(16) unsigned char bytes[CHUNK];
    struct ends e;
    hr_pipeline *p;
    read_memory(&e, bytes + 8, 16);
    e.source.kind = HR_DEVICE;
    cr_expect_eq(run(&e, loop, &p), HR_EINVAL);
    expect_text("aligned to 16 bytes");
    e.source.data = bytes + 16;
    cr_expect_eq(run(&e, loop, &p), HR_OK, "%s", error.text);
    hr_pipeline_free(p);
}

Test(device_ends, without_an_order_what_shrinks_is_not_in_place)
{
    static unsigned char bytes[4 * CHUNK];
    struct ends e;
    hr_pipeline *p;
    read_memory(&e, bytes, sizeof bytes);
    add_kernel(&e, "cast:i16,u8");
    e.config.flags = HR_UNORDERED;
    e.config.sink.kind = HR_MEMORY;
    e.config.sink.data = bytes;
    e.config.sink.size = sizeof bytes;
    cr_expect_eq(run(&e, loop, &p), HR_EINVAL);
    expect_text("overlap");
    e.kernel.text = "bswap:2";
    cr_expect_eq(run(&e, loop, &p), HR_OK, "%s", error.text);
    hr_pipeline_free(p);
}

Test(device_ends, a_known_size_beyond_the_limit_is_told)
{
    struct ends e;
    hr_pipeline *p;
    unsigned char *bytes = test_bytes(SIZE);
    read_memory(&e, bytes, SIZE);
    e.config.sink.kind = HR_DEVICE;
    e.config.sink.size = SIZE / 2;
    cr_expect_eq(run(&e, loop, &p), HR_ESPACE);
    expect_text("150000 bytes");
    hr_pipeline_free(p);
    free(bytes);
}
