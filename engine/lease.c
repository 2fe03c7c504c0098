// SPDX-License-Identifier: Apache-2.0
/* Regions are mapped one by one, so that io_uring and a GPU driver can register each, and stay
 * mapped when they are returned: a warm context maps nothing. When the bound is reached, kept
 * regions of other sizes make room. */
#include "lease.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HUGE_PAGE = 2 << 20 }; /* x86-64 and arm64 with 4 KiB pages */

int hr__memory_init(struct hr__memory *memory, uint64_t max_bytes)
{
    *memory = (struct hr__memory){.max_bytes = max_bytes};
    return pthread_mutex_init(&memory->lock, NULL);
}

static size_t round_up(size_t size, size_t unit)
{
    return (size + unit - 1) / unit * unit;
}

static size_t region_size(size_t size)
{
    return round_up(size, (size_t)sysconf(_SC_PAGESIZE));
}

/* Maps size bytes; large ones begin at a huge page: maps one more and cuts the ends off. */
static void *map_aligned(size_t size)
{
    const bool huge = size >= HUGE_PAGE;
    const size_t extra = huge ? HUGE_PAGE : 0;
    char *start =
        mmap(NULL, size + extra, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED)
        return NULL;
    char *memory = start;
    if (huge) {
        memory = start + (round_up((uintptr_t)start, HUGE_PAGE) - (uintptr_t)start);
        if (memory > start)
            munmap(start, (size_t)(memory - start));
        if (memory < start + extra)
            munmap(memory + size, (size_t)(start + extra - memory));
        madvise(memory, size, MADV_HUGEPAGE); /* a wish: without it, small pages serve */
    }
    madvise(memory, size, MADV_DONTFORK);
    madvise(memory, size, MADV_DONTDUMP);
    return memory;
}

static void unpin(struct hr__region *region)
{
    if (region->pinned_by)
        region->pinned_by->ops->unpin(region->pinned_by, region->memory);
    region->pinned_by = NULL;
}

/* It stays pinned until another device wants it. */
static void pin(struct hr__region *region, struct hr__device *device)
{
    region->pinned_now = false;
    if (!device || region->pinned_by == device)
        return;
    unpin(region);
    region->pinned_now = device->ops->pin(device, region->memory, region->size);
    if (region->pinned_now)
        region->pinned_by = device;
}

static void free_regions(struct hr__region *region)
{
    while (region) {
        struct hr__region *next = region->next;
        unpin(region);
        munmap(region->memory, region->size);
        free(region);
        region = next;
    }
}

/* Under lock: from here on neither the bytes nor the index count. */
static void strike(struct hr__memory *memory, const struct hr__region *region)
{
    memory->mapped_bytes -= region->size;
    if (region->index >= 0)
        memory->index_taken[region->index] = 0;
}

/* Under lock. One that is pinned already, or by nobody for who wants no pinned one, comes first. */
static struct hr__region *take_kept(struct hr__memory *memory, size_t size,
                                    const struct hr__device *device)
{
    struct hr__region **found = NULL;
    for (struct hr__region **at = &memory->kept; *at; at = &(*at)->next) {
        if ((*at)->size != size)
            continue;
        if (!found || ((*at)->pinned_by == device && (*found)->pinned_by != device))
            found = at;
    }
    struct hr__region *region = found ? *found : NULL;
    if (region)
        *found = region->next;
    return region;
}

/* Under lock: strikes kept regions until size bytes are allowed; they are in *struck, to be freed.
 */
static bool make_room(struct hr__memory *memory, size_t size, struct hr__region **struck)
{
    while (memory->kept && memory->max_bytes - memory->mapped_bytes < size) {
        struct hr__region *region = memory->kept;
        memory->kept = region->next;
        strike(memory, region);
        region->next = *struck;
        *struck = region;
    }
    return memory->max_bytes - memory->mapped_bytes >= size;
}

/* Under lock: enters a region that is still to be mapped. */
static void enter(struct hr__memory *memory, struct hr__region *region)
{
    memory->mapped_bytes += region->size;
    region->generation = ++memory->generation;
    region->index = -1;
    for (int i = 0; i < HR__MAX_INDEX && region->index < 0; i++)
        if (!memory->index_taken[i])
            region->index = i;
    if (region->index >= 0)
        memory->index_taken[region->index] = 1;
}

/* The bytes are entered first and mapped after, so that no system call is made under the lock. */
static hr_status new_region(struct hr__memory *memory, size_t size, struct hr__region **out)
{
    struct hr__region *region = calloc(1, sizeof *region);
    if (!region)
        return HR_ENOMEM;
    region->size = size;
    struct hr__region *struck = NULL;
    pthread_mutex_lock(&memory->lock);
    const bool allowed = make_room(memory, size, &struck);
    if (allowed)
        enter(memory, region);
    pthread_mutex_unlock(&memory->lock);
    free_regions(struck);
    region->memory = allowed ? map_aligned(size) : NULL;
    if (region->memory) {
        *out = region;
        return HR_OK;
    }
    if (allowed) {
        pthread_mutex_lock(&memory->lock);
        strike(memory, region);
        pthread_mutex_unlock(&memory->lock);
    }
    free(region);
    return allowed ? HR_ENOMEM : HR_AGAIN;
}

hr_status hr__memory_lease(struct hr__memory *memory, size_t size, struct hr__device *device,
                           struct hr__region **out)
{
    const size_t whole = region_size(size ? size : 1);
    hr_status status = HR_OK;
    pthread_mutex_lock(&memory->lock);
    struct hr__region *region = take_kept(memory, whole, device);
    pthread_mutex_unlock(&memory->lock);
    if (!region)
        status = new_region(memory, whole, &region);
    if (status != HR_OK)
        return status;
    pin(region, device);
    *out = region;
    return HR_OK;
}

void hr__memory_return(struct hr__memory *memory, struct hr__region *region)
{
    if (!region)
        return;
    pthread_mutex_lock(&memory->lock);
    region->next = memory->kept;
    memory->kept = region;
    pthread_mutex_unlock(&memory->lock);
}

void hr__memory_destroy(struct hr__memory *memory)
{
    free_regions(memory->kept);
    pthread_mutex_destroy(&memory->lock);
}
