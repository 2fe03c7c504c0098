// SPDX-License-Identifier: Apache-2.0
/* Memory of the device, pinned memory of the host, and bytes from one to the other and back. */
#include <stdlib.h>
#include <string.h>

#include "selftest.h"

/* ---- allocation ---- */

enum { N_BLOCKS = 4, ALIGNMENT = 256 };
static const uint64_t block_sizes[N_BLOCKS] = {1, 256, 4097, (1 << 20) + 1};

static void expect_apart(struct selftest *t, void *const blocks[N_BLOCKS])
{
    for (int i = 0; i < N_BLOCKS; i++) {
        const uintptr_t at = (uintptr_t)blocks[i];
        if (at % ALIGNMENT != 0)
            fail(t, "%llu bytes lie at %p, which is not aligned to %d",
                 (unsigned long long)block_sizes[i], blocks[i], ALIGNMENT);
        for (int k = 0; k < N_BLOCKS; k++)
            if (k != i && at <= (uintptr_t)blocks[k] && (uintptr_t)blocks[k] - at < block_sizes[i])
                fail(t, "the blocks at %p and %p overlap", blocks[i], blocks[k]);
    }
}

static void allocate(struct selftest *t, const void *unused)
{
    void *blocks[N_BLOCKS] = {NULL};
    hr_error error = {0};
    bool done = true;
    (void)unused;
    for (int i = 0; i < N_BLOCKS && done; i++)
        done = expect_ok(t, "allocating",
                         hr_device_alloc(t->context, t->device, block_sizes[i], &blocks[i], &error),
                         &error);
    if (done)
        expect_apart(t, blocks);
    for (int i = 0; i < N_BLOCKS; i++)
        hr_device_free(t->context, t->device, blocks[i]);
}

/* Of the host an allocator that looks for faults would end the process. */
static void allocate_too_much(struct selftest *t, const void *unused)
{
    void *memory = NULL;
    hr_error error = {0};
    (void)unused;
    if (t->is_host) {
        skip(t, "of a GPU only");
        return;
    }
    const hr_status status =
        hr_device_alloc(t->context, t->device, UINT64_C(1) << 60, &memory, &error);
    if (status != HR_ENOMEM)
        fail(t, "expected HR_ENOMEM, got %s: %s", hr_status_name(status), error.text);
    hr_device_free(t->context, t->device, memory);
}

/* ---- pinned memory ---- */

/* False: refused, for which the check is skipped, or failed. */
static bool pin(struct selftest *t, void *memory, uint64_t size)
{
    hr_error error = {0};
    const hr_status status = hr_pin(t->context, t->device, memory, size, &error);
    if (status == HR_EUNSUPPORTED)
        skip(t, "the driver refused: %s", error.text);
    else
        expect_ok(t, "pinning", status, &error);
    return status == HR_OK;
}

static void pin_and_unpin(struct selftest *t, const void *unused)
{
    enum { PAGE = 4096, N_PAGES = 64 };
    unsigned char *memory = take_memory(N_PAGES * PAGE);
    (void)unused;
    for (uint64_t size = PAGE; size <= N_PAGES * PAGE && !t->why[0]; size *= 2)
        if (pin(t, memory, size))
            hr_unpin(t->context, t->device, memory);
    free(memory);
}

/* ---- there and back ---- */

struct copy {
    uint64_t size;
    bool is_pinned;
    unsigned char *in;
    unsigned char *out;
    void *device;
};

/* The second time the same memory has other bytes: none may come from a cache. */
static void copy_twice(struct selftest *t, const struct copy *c)
{
    struct outcome got;
    const struct flow there = {.device = t->device,
                               .source = from_memory(c->in, c->size),
                               .sink = to_device(c->device, c->size)};
    const struct flow back = {.device = t->device,
                              .source = from_device(c->device, c->size),
                              .sink = to_memory(c->out, c->size)};
    for (uint64_t round = 1; round <= 2 && !t->why[0]; round++) {
        fill_random(c->in, c->size, round);
        memset(c->out, PAINT, (size_t)c->size);
        if (!must_run(t, &there, &got) || !must_run(t, &back, &got))
            return;
        expect_bytes(t, round == 1 ? "came back" : "came back the second time", c->out, c->in,
                     c->size);
        expect_guard(t, "the sink's memory", c->out, c->size);
    }
}

static void copy_pinned(struct selftest *t, const struct copy *c)
{
    if (!pin(t, c->in, c->size + GUARD))
        return;
    if (pin(t, c->out, c->size + GUARD)) {
        copy_twice(t, c);
        hr_unpin(t->context, t->device, c->out);
    }
    hr_unpin(t->context, t->device, c->in);
}

static void copy_there_and_back(struct selftest *t, const void *what)
{
    struct copy c = *(const struct copy *)what;
    hr_error error = {0};
    c.in = take_memory(c.size + GUARD);
    c.out = take_memory(c.size + GUARD);
    if (expect_ok(t, "allocating",
                  hr_device_alloc(t->context, t->device, c.size + GUARD, &c.device, &error),
                  &error)) {
        if (c.is_pinned)
            copy_pinned(t, &c);
        else
            copy_twice(t, &c);
    }
    hr_device_free(t->context, t->device, c.device);
    free(c.in);
    free(c.out);
}

void selftest_memory(struct selftest *t)
{
    static const uint64_t sizes[] = {0, 1, 255, 4095, 4096, 4097, (1 << 20) + 1, 64 << 20};
    char name[64];
    check(t, "memory of the device, aligned", allocate, NULL);
    check(t, "more memory than there is", allocate_too_much, NULL);
    check(t, "pinning and unpinning", pin_and_unpin, NULL);
    for (int pinned = 0; pinned < 2; pinned++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            const struct copy copy = {.size = sizes[i], .is_pinned = pinned};
            snprintf(name, sizeof name, "%llu bytes there and back, %s",
                     (unsigned long long)sizes[i], pinned ? "pinned" : "pageable");
            check(t, name, copy_there_and_back, &copy);
        }
}
