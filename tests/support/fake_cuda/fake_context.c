// SPDX-License-Identifier: Apache-2.0
/* The fake driver: start, devices, contexts, memory; and what tests ask of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_calls.h"
#include "fake_core.h"

enum { MAX_DEPTH = 16, DEVICE_BYTES = 1 << 30, ALIGNMENT = 256 };

/* No address of a process has this bit, so that a mix-up crashes. */
#define DEVICE_BIT (UINT64_C(1) << 62)

struct block {
    struct fake_context *context; /* NULL: pinned host memory */
    char *memory;
    size_t size;
    struct block *next;
};

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t fake_changed = PTHREAD_COND_INITIALIZER;
struct fake_cuda_live fake_live;
unsigned fake_max_delay_us = 30;

static pid_t starter;
static struct fake_context contexts[FAKE_N_DEVICES] = {{.device = 0}, {.device = 1}};
static struct block *blocks;
static struct block *pins;
static unsigned n_calls;
static unsigned failing_call;
static int failing_status;
static const char *failed_call;
static __thread struct fake_context *stack[MAX_DEPTH];
static __thread unsigned depth;

/* ---- what tests ask ---- */

void fake_cuda_set_delay(unsigned max_us)
{
    pthread_mutex_lock(&fake_lock);
    fake_max_delay_us = max_us;
    pthread_mutex_unlock(&fake_lock);
}

void fake_cuda_fail(unsigned nth, int status)
{
    pthread_mutex_lock(&fake_lock);
    n_calls = 0;
    failing_call = nth;
    failing_status = status;
    failed_call = NULL;
    pthread_mutex_unlock(&fake_lock);
}

unsigned fake_cuda_n_calls(void)
{
    pthread_mutex_lock(&fake_lock);
    const unsigned n = n_calls;
    pthread_mutex_unlock(&fake_lock);
    return n;
}

const char *fake_cuda_failed_call(void)
{
    pthread_mutex_lock(&fake_lock);
    const char *call = failed_call;
    pthread_mutex_unlock(&fake_lock);
    return call;
}

struct fake_cuda_live fake_cuda_live(void)
{
    pthread_mutex_lock(&fake_lock);
    const struct fake_cuda_live live = fake_live;
    pthread_mutex_unlock(&fake_lock);
    return live;
}

void *fake_cuda_current(void)
{
    return fake_current();
}

unsigned fake_cuda_depth(void)
{
    return depth;
}

/* ---- the begin of every call ---- */

struct fake_context *fake_current(void)
{
    return depth > 0 ? stack[depth - 1] : NULL;
}

static bool is_its_turn(const char *call)
{
    if (++n_calls != failing_call)
        return false;
    failed_call = call;
    return true;
}

int fake_begin(const char *call, bool needs_context)
{
    const struct fake_context *context = fake_current();
    int status = FAKE_OK;
    pthread_mutex_lock(&fake_lock);
    if (starter != getpid())
        status = FAKE_NOT_INITIALIZED;
    else if (is_its_turn(call))
        status = failing_status;
    else if (needs_context && (!context || context->n_retained == 0))
        status = FAKE_INVALID_CONTEXT;
    else if (needs_context)
        status = context->failure;
    pthread_mutex_unlock(&fake_lock);
    return status;
}

bool fake_begin_free(const char *call, int *status)
{
    *status = fake_begin(call, false);
    return *status != FAKE_NOT_INITIALIZED;
}

/* ---- start and devices ---- */

int cuInit(unsigned flags)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    (void)flags;
    if (visible && (visible[0] == '\0' || visible[0] == '-'))
        return FAKE_NO_DEVICE;
    pthread_mutex_lock(&fake_lock);
    if (starter == 0)
        starter = getpid();
    pthread_mutex_unlock(&fake_lock);
    return fake_begin("cuInit", false);
}

int cuDriverGetVersion(int *version)
{
    *version = 13000;
    return FAKE_OK;
}

int cuGetErrorName(int result, const char **text)
{
    (void)result;
    *text = "FAKE";
    return FAKE_OK;
}

int cuGetErrorString(int result, const char **text)
{
    static const struct {
        int result;
        const char *text;
    } texts[] = {{2, "out of memory"}, {700, "an illegal memory access was encountered"}};
    *text = "a fake failure";
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (texts[i].result == result)
            *text = texts[i].text;
    }
    return FAKE_OK;
}

int cuDeviceGetCount(int *n)
{
    const int status = fake_begin("cuDeviceGetCount", false);
    *n = status == FAKE_OK ? FAKE_N_DEVICES : 0;
    return status;
}

int cuDeviceGet(int *device, int index)
{
    const int status = fake_begin("cuDeviceGet", false);
    if (status != FAKE_OK)
        return status;
    *device = index;
    return index < FAKE_N_DEVICES ? FAKE_OK : FAKE_INVALID_DEVICE;
}

int cuDeviceGetName(char *name, int size, int device)
{
    const int status = fake_begin("cuDeviceGetName", false);
    if (status == FAKE_OK)
        snprintf(name, (size_t)size, "Fake GPU %d", device);
    return status;
}

int cuDeviceGetUuid(struct fake_uuid *uuid, int device)
{
    const int status = fake_begin("cuDeviceGetUuid", false);
    for (int i = 0; i < 16; i++)
        uuid->bytes[i] = (char)(0xa0 + 16 * device + i);
    return status;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    const int status = fake_begin("cuDeviceGetAttribute", false);
    enum { PROCESSORS = 16, PCI_BUS = 33, ARCH_MAJOR = 75 };
    *value = 0;
    if (attribute == PROCESSORS)
        *value = 4;
    if (attribute == PCI_BUS)
        *value = 0x17 + device;
    if (attribute == ARCH_MAJOR)
        *value = 9;
    return status;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    (void)device;
    *bytes = DEVICE_BYTES;
    return fake_begin("cuDeviceTotalMem", false);
}

/* ---- contexts ---- */

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    const int status = fake_begin("cuDevicePrimaryCtxRetain", false);
    if (status != FAKE_OK)
        return status;
    pthread_mutex_lock(&fake_lock);
    contexts[device].n_retained++;
    fake_live.contexts++;
    pthread_mutex_unlock(&fake_lock);
    *context = &contexts[device];
    return FAKE_OK;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    int status;
    if (!fake_begin_free("cuDevicePrimaryCtxRelease", &status))
        return status;
    pthread_mutex_lock(&fake_lock);
    fake_live.contexts--;
    if (--contexts[device].n_retained == 0)
        contexts[device].failure = FAKE_OK;
    pthread_mutex_unlock(&fake_lock);
    return status;
}

int cuCtxPushCurrent_v2(void *context)
{
    const int status = fake_begin("cuCtxPushCurrent", false);
    if (status != FAKE_OK)
        return status;
    if (depth == MAX_DEPTH)
        abort(); /* somebody forgets to pop */
    stack[depth++] = context;
    return FAKE_OK;
}

int cuCtxPopCurrent_v2(void **context)
{
    int status;
    if (!fake_begin_free("cuCtxPopCurrent", &status))
        return status;
    if (depth == 0)
        return FAKE_INVALID_CONTEXT;
    *context = stack[--depth];
    return status;
}

/* ---- memory ---- */

bool fake_is_device_address(uint64_t address)
{
    return address & DEVICE_BIT;
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

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    *free_bytes = DEVICE_BYTES / 2;
    *total_bytes = DEVICE_BYTES;
    return fake_begin("cuMemGetInfo", true);
}

int cuMemAlloc_v2(fake_address *out, size_t size)
{
    const int status = fake_begin("cuMemAlloc", true);
    if (status != FAKE_OK)
        return status;
    if (size > DEVICE_BYTES)
        return 2;
    char *memory = aligned_alloc(ALIGNMENT, (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    memset(memory, 0xdd, size);
    pthread_mutex_lock(&fake_lock);
    add(&blocks, fake_current(), memory, size);
    fake_live.allocations++;
    pthread_mutex_unlock(&fake_lock);
    *out = (fake_address)(uintptr_t)memory | DEVICE_BIT;
    return FAKE_OK;
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

int cuMemHostRegister_v2(void *memory, size_t size, unsigned flags)
{
    const int status = fake_begin("cuMemHostRegister", true);
    bool overlaps = false;
    (void)flags;
    if (status != FAKE_OK)
        return status;
    pthread_mutex_lock(&fake_lock);
    for (const struct block *b = pins; b; b = b->next)
        overlaps |= (char *)memory < b->memory + b->size && b->memory < (char *)memory + size;
    if (!overlaps) {
        add(&pins, NULL, memory, size);
        fake_live.pins++;
    }
    pthread_mutex_unlock(&fake_lock);
    return overlaps ? FAKE_ALREADY_REGISTERED : FAKE_OK;
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
