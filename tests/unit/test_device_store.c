// SPDX-License-Identifier: Apache-2.0
/* What pipelines leave behind on a device: used again, bounded, given up where memory is short. */
#include "device_store.h"
#include "gpu_rig.h"

enum { MIB = 1 << 20, LARGE = 300 * MIB, OTHER = 250 * MIB, SMALL = 4096 };

static struct hr__store *store;

static void open_store(void)
{
    open_gpu();
    store = hr__store_create(device);
    cr_assert(store);
}

static void close_store(void)
{
    fake_cuda_set_memory((size_t)1 << 30);
    hr__store_free(store);
    expect_nothing_left("closed");
}

static void *must_alloc(size_t size)
{
    void *memory = NULL;
    cr_assert_eq(hr__store_alloc(store, size, &memory, &error), HR_OK, "%s", error.text);
    return memory;
}

TestSuite(device_store, .init = open_store, .fini = close_store);

Test(device_store, memory_of_a_size_is_used_again)
{
    void *first = must_alloc(SMALL);
    hr__store_return(store, first, SMALL);
    void *other = must_alloc(2 * SMALL);
    cr_expect_neq(other, first, "it is too small");
    void *again = must_alloc(SMALL);
    cr_expect_eq(again, first);
    cr_expect_eq(fake_cuda_live().allocations, 2);
    hr__store_return(store, again, SMALL);
    hr__store_return(store, other, 2 * SMALL);
}

Test(device_store, what_has_waited_longest_goes_when_too_much_is_kept)
{
    void *large = must_alloc(LARGE);
    void *other = must_alloc(OTHER);
    hr__store_return(store, large, LARGE);
    cr_expect_eq(fake_cuda_live().allocations, 2, "there is room for it");
    hr__store_return(store, other, OTHER);
    cr_expect_eq(fake_cuda_live().allocations, 1, "both are more than is kept");
    cr_expect_eq(must_alloc(OTHER), other, "the younger one was kept");
    hr__store_return(store, other, OTHER);
}

Test(device_store, what_is_kept_makes_room)
{
    fake_cuda_set_memory(LARGE + SMALL);
    hr__store_return(store, must_alloc(LARGE), LARGE);
    void *other = must_alloc(OTHER);
    cr_expect_eq(fake_cuda_live().allocations, 1);
    void *memory = NULL;
    cr_expect_eq(hr__store_alloc(store, LARGE, &memory, &error), HR_ENOMEM);
    hr__store_return(store, other, OTHER);
}

Test(device_store, streams_and_events_are_used_again_unless_something_failed)
{
    struct hr__stream *stream = NULL;
    struct hr__event *event = NULL;
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(hr__store_stream(store, HR__STREAM_H2D, &stream, &error), HR_OK);
        cr_assert_eq(hr__store_event(store, &event, &error), HR_OK);
        hr__store_return_stream(store, HR__STREAM_H2D, stream, false);
        hr__store_return_event(store, event, false);
    }
    cr_expect_eq(fake_cuda_live().streams, 1);
    cr_expect_eq(fake_cuda_live().events, 1);
    cr_assert_eq(hr__store_stream(store, HR__STREAM_D2H, &stream, &error), HR_OK);
    cr_expect_eq(fake_cuda_live().streams, 2, "one for another use is another one");
    hr__store_return_stream(store, HR__STREAM_D2H, stream, true);
    cr_expect_eq(fake_cuda_live().streams, 1, "nobody gets one on which something failed");
}

/* Through the public header: the driver's refusal reaches a caller who wants no text, too. */
Test(device_store, gathering_more_than_there_is_fails_at_creation)
{
    static unsigned char bytes[4 * MIB];
    hr_context *context = NULL;
    hr_loop *loop = NULL;
    hr_pipeline *pipeline = NULL;
    const struct hr_source source = {
        .struct_size = sizeof source, .kind = HR_MEMORY, .data = bytes, .size = sizeof bytes};
    const struct hr_pipeline_config config = {
        .struct_size = sizeof config,
        .n_sources = 1,
        .sources = &source,
        .device = "cuda",
        .chunk_size = SMALL,
        .depth = 1,
        .sink = {.struct_size = sizeof config.sink, .kind = HR_DEVICE}};
    cr_assert_eq(hr_context_create(NULL, &context, NULL), HR_OK);
    cr_assert_eq(hr_loop_create(context, NULL, &loop, NULL), HR_OK);
    fake_cuda_set_memory(MIB);
    cr_expect_eq(hr_pipeline_create(loop, &config, &pipeline, NULL), HR_ENOMEM);
    cr_expect_eq(hr_pipeline_create(loop, &config, &pipeline, &error), HR_ENOMEM);
    cr_expect(strstr(error.text, "4194304 bytes"), "%s", error.text);
    fake_cuda_set_memory((size_t)1 << 30);
    cr_expect_eq(hr_pipeline_create(loop, &config, &pipeline, &error), HR_OK, "%s", error.text);
    hr_pipeline_free(pipeline);
    hr_loop_free(loop);
    hr_context_free(context);
}
