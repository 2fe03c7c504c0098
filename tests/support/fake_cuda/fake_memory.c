// SPDX-License-Identifier: Apache-2.0
/* The fake driver: memory of its devices, and pinned memory of the host. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_calls.h"
#include "fake_core.h"

enum { ALIGNMENT = 256 };

/* No address of a process has this bit, so that a mix-up crashes. */
#define DEVICE_BIT (UINT64_C(1) << 62)

struct block {
    struct fake_context *context; /* that it was allocated or pinned in */
    char *memory;
    size_t size;
    struct block *next;
};

static struct block *blocks;
static struct block *pins;
static bool refuses_pins;

/* ---- what tests ask ---- */

void fake_cuda_set_memory(size_t bytes)
{
    pthread_mutex_lock(&fake_lock);
    fake_device_bytes = bytes;
    pthread_mutex_unlock(&fake_lock);
}

void fake_cuda_refuse_pins(bool refuse)
{
    pthread_mutex_lock(&fake_lock);
    refuses_pins = refuse;
    pthread_mutex_unlock(&fake_lock);
}

unsigned fake_cuda_unpinned_copies(void)
{
    pthread_mutex_lock(&fake_lock);
    const unsigned n = fake_n_unpinned_copies;
    pthread_mutex_unlock(&fake_lock);
    return n;
}

/* ---- blocks, under the lock ---- */

bool fake_is_device_address(uint64_t address)
{
    return address & DEVICE_BIT;
}

/* The block that has this byte; NULL: none. */
static const struct block *find(const struct block *list, const char *byte)
{
    while (list && (byte < list->memory || byte >= list->memory + list->size))
        list = list->next;
    return list;
}

static const struct block *find_device(fake_address address)
{
    const char *byte = (const char *)(uintptr_t)(address & ~DEVICE_BIT);
    return fake_is_device_address(address) ? find(blocks, byte) : NULL;
}

void *fake_resolve(const struct fake_context *context, fake_address address, size_t size)
{
    const uintptr_t at = (uintptr_t)(address & ~DEVICE_BIT);
    if (!fake_is_device_address(address))
        return NULL;
    for (struct block *b = blocks; b; b = b->next) {
        const uintptr_t begin = (uintptr_t)b->memory;
        if ((!context || b->context == context) && at >= begin && at + size <= begin + b->size)
            return b->memory + (at - begin);
    }
    return NULL;
}

void *fake_cuda_host(uint64_t address, size_t size)
{
    pthread_mutex_lock(&fake_lock);
    void *memory = fake_resolve(NULL, address, size);
    pthread_mutex_unlock(&fake_lock);
    if (!memory) {
        fprintf(stderr, "fake_cuda: no %zu bytes of device memory at 0x%llx\n", size,
                (unsigned long long)address);
        abort();
    }
    return memory;
}

static void add(struct block **list, struct fake_context *context, void *memory, size_t size)
{
    struct block *block = malloc(sizeof *block);
    *block = (struct block){.context = context, .memory = memory, .size = size, .next = *list};
    *list = block;
}

/* False: no block begins there. */
static bool take_out(struct block **list, const void *memory)
{
    while (*list && (*list)->memory != memory)
        list = &(*list)->next;
    struct block *block = *list;
    if (!block)
        return false;
    *list = block->next;
    free(block);
    return true;
}

static size_t used_bytes(const struct fake_context *context)
{
    size_t sum = 0;
    for (const struct block *b = blocks; b; b = b->next)
        sum += b->context == context ? b->size : 0;
    return sum < fake_device_bytes ? sum : fake_device_bytes;
}

size_t fake_cuda_used(void)
{
    size_t sum = 0;
    pthread_mutex_lock(&fake_lock);
    for (const struct block *b = blocks; b; b = b->next)
        sum += b->size;
    pthread_mutex_unlock(&fake_lock);
    return sum;
}

/* ---- the calls ---- */

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    const int status = fake_begin("cuMemGetInfo", true);
    pthread_mutex_lock(&fake_lock);
    *free_bytes = fake_device_bytes - used_bytes(fake_current());
    *total_bytes = fake_device_bytes;
    pthread_mutex_unlock(&fake_lock);
    return status;
}

int cuMemAlloc_v2(fake_address *out, size_t size)
{
    int status = fake_begin("cuMemAlloc", true);
    if (status != FAKE_OK)
        return status;
    pthread_mutex_lock(&fake_lock);
    if (size > fake_device_bytes - used_bytes(fake_current())) {
        status = FAKE_OUT_OF_MEMORY;
    } else {
        char *memory = aligned_alloc(ALIGNMENT, (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
        memset(memory, 0xdd, size);
        add(&blocks, fake_current(), memory, size);
        fake_live.allocations++;
        *out = (fake_address)(uintptr_t)memory | DEVICE_BIT;
    }
    pthread_mutex_unlock(&fake_lock);
    return status;
}

int cuMemFree_v2(fake_address address)
{
    int status;
    if (!fake_begin_free("cuMemFree", &status))
        return status;
    char *memory = (char *)(uintptr_t)(address & ~DEVICE_BIT);
    pthread_mutex_lock(&fake_lock);
    const bool known = fake_is_device_address(address) && take_out(&blocks, memory);
    fake_live.allocations -= known;
    pthread_mutex_unlock(&fake_lock);
    if (!known)
        return FAKE_INVALID_VALUE;
    free(memory);
    return status;
}

static bool overlaps_pin(const char *memory, size_t size)
{
    const struct block *b = pins;
    while (b && (memory >= b->memory + b->size || b->memory >= memory + size))
        b = b->next;
    return b;
}

int cuMemHostRegister_v2(void *memory, size_t size, unsigned flags)
{
    int status = fake_begin("cuMemHostRegister", true);
    (void)flags;
    if (status != FAKE_OK)
        return status;
    pthread_mutex_lock(&fake_lock);
    if (refuses_pins) {
        status = FAKE_NOT_SUPPORTED;
    } else if (overlaps_pin(memory, size)) {
        status = FAKE_ALREADY_REGISTERED;
    } else {
        add(&pins, fake_current(), memory, size);
        fake_live.pins++;
    }
    pthread_mutex_unlock(&fake_lock);
    return status;
}

int cuMemHostUnregister(void *memory)
{
    int status;
    if (!fake_begin_free("cuMemHostUnregister", &status))
        return status;
    pthread_mutex_lock(&fake_lock);
    const bool known = take_out(&pins, memory);
    fake_live.pins -= known;
    pthread_mutex_unlock(&fake_lock);
    return known ? status : FAKE_NOT_REGISTERED;
}

/* As seen on a real driver: a copy may begin before pinned memory, but one that begins in it
 * ends in it, too. */
bool fake_is_host_range(const void *memory, size_t size)
{
    const char *byte = memory;
    const struct block *pin = find(pins, byte);
    fake_n_unpinned_copies += !pin;
    return !fake_is_device_address((uintptr_t)memory) &&
           (!pin || size <= (size_t)(pin->memory + pin->size - byte));
}

/* cuda.h: no failure for memory that nobody knows; an ordinal is -2 then, and an address is left as
 * it was. */
static void tell_attribute(int attribute, void *value, bool is_device, const struct block *block)
{
    enum { MEMORY_TYPE = 2, IS_MANAGED = 8, DEVICE_ORDINAL = 9, RANGE_START = 11, NO_DEVICE = -2 };
    const fake_address bit = is_device ? DEVICE_BIT : 0;
    if (attribute == MEMORY_TYPE)
        *(unsigned *)value = is_device ? 2 : block ? 1 : 0;
    else if (attribute == IS_MANAGED)
        *(unsigned *)value = 0;
    else if (attribute == DEVICE_ORDINAL)
        *(int *)value = block ? block->context->device : NO_DEVICE;
    else if (attribute == RANGE_START && block)
        *(fake_address *)value = (fake_address)(uintptr_t)block->memory | bit;
}

int cuPointerGetAttributes(unsigned n, int *attributes, void **values, fake_address address)
{
    const int status = fake_begin("cuPointerGetAttributes", true);
    if (status != FAKE_OK)
        return status;
    pthread_mutex_lock(&fake_lock);
    const struct block *on_device = find_device(address);
    const struct block *pin = find(pins, (const char *)(uintptr_t)address);
    for (unsigned i = 0; i < n; i++)
        tell_attribute(attributes[i], values[i], on_device, on_device ? on_device : pin);
    pthread_mutex_unlock(&fake_lock);
    return FAKE_OK;
}
