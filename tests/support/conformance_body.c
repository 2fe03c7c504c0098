// SPDX-License-Identifier: Apache-2.0
/* Memory, copies, events and the order between streams; then every kernel of the table. */
#include "conformance_body.h"

#include <string.h>

#include "conformance_rig.h"
#include "conformance_table.h"
#include "device_tools.h"

static void test_copies(struct rig *rig)
{
    static const size_t sizes[] = {0, 1, 255, 256, 4095, 4096, 4097, CHUNK + 1, LARGE};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        rig->n_units = sizes[i];
        memset(rig->out, PAINT, sizes[i] + 1);
        rig_copy(rig, rig->h2d, rig->device_in + 1, rig->in, sizes[i], HR__COPY_H2D);
        rig_copy(rig, rig->h2d, rig->device_out + 3, rig->device_in + 1, sizes[i], HR__COPY_D2D);
        rig_hand_over(rig, rig->h2d, rig->loaded, rig->d2h);
        rig_copy(rig, rig->d2h, rig->out, rig->device_out + 3, sizes[i], HR__COPY_D2H);
        rig_must(rig, device_drain(rig->device, rig->d2h, &rig->error));
        rig_expect_bytes(rig, "copied", rig->out, rig->in, sizes[i]);
        if (rig->out[sizes[i]] != PAINT)
            rig_fail(rig, "a copy of %zu bytes wrote more", sizes[i]);
    }
    rig_conclude(rig, "copies");
}

/* A block wanders through device memory, each step on another stream than the one before. */
static void test_order(struct rig *rig)
{
    enum { N_STEPS = 100, BLOCK = 4096 };
    rig_copy(rig, rig->streams[0], rig->device_out, rig->in, BLOCK, HR__COPY_H2D);
    for (unsigned i = 0; i < N_STEPS; i++) {
        const unsigned stream = (i + 1) % N_STREAMS;
        rig_hand_over(rig, rig->streams[i % N_STREAMS], rig->computed[i % N_STREAMS],
                      rig->streams[stream]);
        rig_copy(rig, rig->streams[stream], rig->device_out + (size_t)(i + 1) * BLOCK,
                 rig->device_out + (size_t)i * BLOCK, BLOCK, HR__COPY_D2D);
    }
    struct hr__stream *last = rig->streams[N_STEPS % N_STREAMS];
    rig_copy(rig, last, rig->out, rig->device_out + (size_t)N_STEPS * BLOCK, BLOCK, HR__COPY_D2H);
    rig_must(rig, device_drain(rig->device, last, &rig->error));
    rig->n_units = BLOCK;
    rig_expect_bytes(rig, "at the end of its way", rig->out, rig->in, BLOCK);
    rig_conclude(rig, "order between streams");
}

static void test_new_event(struct rig *rig)
{
    struct hr__event *event = NULL;
    rig_must(rig, rig->ops->event_create(rig->device, &event, &rig->error));
    rig_must(rig, rig->ops->query(event, &rig->error));
    rig_must(rig, rig->ops->wait(rig->d2h, event, &rig->error));
    rig_must(rig, device_finish(rig->device, event, &rig->error));
    rig_must(rig, device_drain(rig->device, rig->d2h, &rig->error));
    rig->ops->event_destroy(event);
    rig_conclude(rig, "an event never recorded is done");
}

static void test_elapsed(struct rig *rig)
{
    rig_must(rig, rig->ops->record(rig->h2d, rig->loaded, &rig->error));
    for (int i = 0; i < 8; i++)
        rig_copy(rig, rig->h2d, rig->device_in, rig->in, LARGE, HR__COPY_H2D);
    rig_must(rig, rig->ops->record(rig->h2d, rig->done, &rig->error));
    rig_must(rig, device_finish(rig->device, rig->done, &rig->error));
    const uint64_t ns = rig->ops->elapsed_ns(rig->loaded, rig->done);
    if (ns == 0 || ns > UINT64_C(10000000000))
        rig_fail(rig, "8 MiB were copied in %llu ns", (unsigned long long)ns);
    rig_conclude(rig, "elapsed time");
}

static void test_memory(struct rig *rig)
{
    static const size_t sizes[] = {1, 256, 4097};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        void *memory = NULL;
        rig_must(rig, rig->ops->alloc(rig->device, sizes[i], &memory, &rig->error));
        if ((uintptr_t)memory % 256 != 0)
            rig_fail(rig, "%zu bytes lie at %p", sizes[i], memory);
        rig->ops->free(rig->device, memory);
    }
    rig_conclude(rig, "memory is aligned to 256");
}

static void test_some_kernel(void *user, const char *text)
{
    struct rig *rig = user;
    if (rig->counters->n_kernels++ % rig->counters->stride == 0)
        rig_test_kernel(rig, text);
}

void conformance_run(struct hr__device *device, struct conformance_counts *counts)
{
    struct rig rig = {
        .device = device,
        .ops = device->ops,
        .alignment = device->ops->info(device)->kernel_alignment,
        .counters = counts,
    };
    rig_make(&rig);
    const bool made = rig.why[0] == '\0';
    rig_conclude(&rig, "streams, events and memory are there");
    if (made) {
        test_memory(&rig);
        test_copies(&rig);
        test_order(&rig);
        test_new_event(&rig);
        test_elapsed(&rig);
        conformance_each_kernel(test_some_kernel, &rig);
    }
    rig_free(&rig);
}
