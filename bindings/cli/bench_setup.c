// SPDX-License-Identifier: Apache-2.0
/* Memory of the host and of the device, threads, and what is in them before the first round. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench_tools.h"

static const uint64_t least_size = 128 << 20;
static const uint64_t most_size = UINT64_C(2) << 30;
static const uint64_t size_for_cpu = 128 << 20;
static const uint64_t packed_for_cpu = 32 << 20;
enum { PART_OF_MEMORY = 24 }; /* six copies of it may be there, and others want memory, too */

static uint64_t at_most(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t bench_default_size(void)
{
    struct machine m;
    look_at_machine(&m);
    const uint64_t by_cpus = size_for_cpu * (uint64_t)(m.n_cpus > 0 ? m.n_cpus : 1);
    const uint64_t size = at_most(at_most(by_cpus, most_size), m.memory_bytes / PART_OF_MEMORY);
    return size < least_size ? least_size : size - size % (1 << 20);
}

/* A slow wave with noise in the low bits: packs to a good half, as measured values do. Numbers from
 * 1 to 2. */
static void fill(struct bench *b)
{
    uint32_t noise = 2463534242u;
    uint32_t wave = 0;
    for (uint64_t i = 0; i + 4 <= b->size; i += 4) {
        noise ^= noise << 13; /* xorshift32, with the shifts of its author's paper */
        noise ^= noise >> 17;
        noise ^= noise << 5;
        wave += noise & 0xff;
        const uint32_t word = 0x3f800000u | (wave & 0x007ff000u) | (noise >> 20);
        memcpy(b->data + i, &word, sizeof word);
    }
}

/* Touched, so that no case pays for its pages. */
static unsigned char *take(uint64_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    madvise(memory, size, MADV_HUGEPAGE);
    memset(memory, 1, size);
    return memory;
}

static bool get_memory(struct bench *b, char *error)
{
    b->room_size = b->size + b->size / 8 + (1 << 20); /* what is encoded may grow a bit */
    b->data = take(b->size);
    b->room = take(b->room_size);
    if (!b->data || !b->room)
        return bench_told(error, "memory for the data, choose a smaller --size");
    fill(b);
    return true;
}

/* Numbers of threads: 1, 2, 4, ... and all. */
static void choose_widths(struct bench *b)
{
    const unsigned most = b->n_cpus > 0 ? (unsigned)b->n_cpus : 1;
    for (unsigned width = 1; width < most && b->n_widths + 1 < MAX_WAYS; width *= 2)
        b->widths[b->n_widths++] = width;
    b->widths[b->n_widths++] = most;
}

/* Which device a word means is in the statistics of a transfer that visits it. */
static bool find_device(struct bench *b, const char *device, char *error)
{
    struct hr_stats stats;
    unsigned char byte = 0;
    const struct hr_source source = {
        .struct_size = sizeof source, .kind = HR_MEMORY, .data = &byte, .size = 1};
    const struct hr_pipeline_config config = {
        .struct_size = sizeof config,
        .n_sources = 1,
        .sources = &source,
        .sink = {.struct_size = sizeof config.sink, .kind = HR_DEVICE},
        .device = device,
    };
    if (!bench_transfer(b->pool.loop, &config, &stats, NULL, error))
        return false;
    snprintf(b->device, sizeof b->device, "%s", stats.device);
    b->on_host = strcmp(b->device, "host") == 0;
    return true;
}

/* Memory of the device that has the data, and some that has nothing yet. */
static bool fill_device(struct bench *b, char *error)
{
    hr_error why = {0};
    hr_status status = hr_device_alloc(b->pool.context, b->device, b->size, &b->there, &why);
    if (status == HR_OK)
        status = hr_device_alloc(b->pool.context, b->device, b->size, &b->there_too, &why);
    if (status != HR_OK) {
        snprintf(error, HR_ERROR_TEXT, "%s", why.text);
        return false;
    }
    const struct hr_source source = {
        .struct_size = sizeof source, .kind = HR_MEMORY, .data = b->data, .size = b->size};
    return bench_store(b, &source, b->there, b->size, error);
}

static void pin(struct bench *b)
{
    b->is_pinned[0] = hr_pin(b->pool.context, b->device, b->data, b->size, NULL) == HR_OK;
    b->is_pinned[1] = hr_pin(b->pool.context, b->device, b->room, b->room_size, NULL) == HR_OK;
}

bool bench_open(struct bench *b, const char *device, char *error)
{
    struct machine m;
    look_at_machine(&m);
    *b = (struct bench){.n_cpus = m.n_cpus};
    choose_widths(b);
    return bench_make_pool(&b->pool, 0, UINT64_MAX, error) && find_device(b, device, error);
}

bool bench_fill(struct bench *b, uint64_t size, char *error)
{
    b->size = size;
    b->packed_of = at_most(size, packed_for_cpu * (uint64_t)(b->n_cpus > 0 ? b->n_cpus : 1));
    if (!get_memory(b, error))
        return false;
    if (b->on_host) {
        b->there = b->data;
        b->there_too = b->room;
    } else {
        pin(b);
        fill_device(b, b->no_there);
    }
    bench_make_files(b);
    return true;
}

static void give_back_device(struct bench *b)
{
    if (b->is_pinned[0])
        hr_unpin(b->pool.context, b->device, b->data);
    if (b->is_pinned[1])
        hr_unpin(b->pool.context, b->device, b->room);
    if (b->there != b->data)
        hr_device_free(b->pool.context, b->device, b->there);
    if (b->there_too != b->room)
        hr_device_free(b->pool.context, b->device, b->there_too);
}

void bench_tear_down(struct bench *b)
{
    bench_drop_files(b);
    if (b->pool.context)
        give_back_device(b);
    if (b->data)
        munmap(b->data, b->size);
    if (b->room)
        munmap(b->room, b->room_size);
    for (unsigned i = 0; i < MAX_WAYS; i++)
        bench_drop_pool(&b->pools[i]);
    for (long i = 0; b->singles && i < b->n_cpus; i++)
        bench_drop_pool(&b->singles[i]);
    free(b->singles);
    bench_drop_pool(&b->pool);
}
