// SPDX-License-Identifier: Apache-2.0
/* The fake driver: start, devices, contexts; and what tests ask of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_calls.h"
#include "fake_core.h"

enum { MAX_DEPTH = 16 };

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t fake_changed = PTHREAD_COND_INITIALIZER;
struct fake_cuda_live fake_live;
unsigned fake_max_delay_us = 30;
const struct fake_cuda_times *fake_times;
unsigned fake_n_unpinned_copies;
size_t fake_device_bytes = 1 << 30;
unsigned fake_n_working;
unsigned fake_n_storm;

static pid_t starter;
static struct fake_context contexts[FAKE_N_DEVICES] = {{.device = 0}, {.device = 1}};
static unsigned n_calls;
static const char *failing_name; /* NULL: any */
static unsigned failing_call;
static int failing_status;
static const char *failed_call;
static void (*watcher)(const char *call);
static __thread struct fake_context *stack[MAX_DEPTH];
static __thread unsigned depth;
static __thread bool hides;

/* ---- what tests ask ---- */

void fake_cuda_set_delay(unsigned max_us)
{
    pthread_mutex_lock(&fake_lock);
    fake_max_delay_us = max_us;
    pthread_mutex_unlock(&fake_lock);
}

void fake_cuda_set_times(const struct fake_cuda_times *times)
{
    pthread_mutex_lock(&fake_lock);
    fake_times = times;
    pthread_mutex_unlock(&fake_lock);
}

void fake_cuda_fail_call(const char *call, unsigned nth, int status)
{
    pthread_mutex_lock(&fake_lock);
    n_calls = 0;
    failing_name = call;
    failing_call = nth;
    failing_status = status;
    failed_call = NULL;
    fake_n_unpinned_copies = 0;
    pthread_mutex_unlock(&fake_lock);
}

void fake_cuda_fail(unsigned nth, int status)
{
    fake_cuda_fail_call(NULL, nth, status);
}

void fake_cuda_storm(unsigned n)
{
    pthread_mutex_lock(&fake_lock);
    fake_n_storm = n;
    pthread_mutex_unlock(&fake_lock);
}

void fake_cuda_heal(void)
{
    pthread_mutex_lock(&fake_lock);
    for (int i = 0; i < FAKE_N_DEVICES; i++)
        contexts[i].failure = FAKE_OK;
    pthread_mutex_unlock(&fake_lock);
}

const char *fake_cuda_failed_call(void)
{
    pthread_mutex_lock(&fake_lock);
    const char *call = failed_call;
    pthread_mutex_unlock(&fake_lock);
    return call;
}

void fake_cuda_watch(void (*seen)(const char *call))
{
    pthread_mutex_lock(&fake_lock);
    watcher = seen;
    pthread_mutex_unlock(&fake_lock);
}

bool fake_cuda_is_dead(void)
{
    pthread_mutex_lock(&fake_lock);
    const bool dead = contexts[0].failure != FAKE_OK;
    pthread_mutex_unlock(&fake_lock);
    return dead;
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

void fake_hide_calls(bool hide)
{
    hides = hide;
}

static bool is_its_turn(const char *call)
{
    if (hides)
        return false;
    if (watcher)
        watcher(call);
    if (failing_name && strcmp(call, failing_name) != 0)
        return false;
    if (++n_calls != failing_call)
        return false;
    failed_call = call;
    return true;
}

/* Nothing runs any more on a device that says that it is dead. */
static int told_failure(const struct fake_context *context)
{
    while (context->failure != FAKE_OK && fake_n_working > 0)
        pthread_cond_wait(&fake_changed, &fake_lock);
    return context->failure;
}

/* What the failing call returns; a fault of a kernel is the context's last word. */
static int fail_now(struct fake_context *context)
{
    const bool is_fault =
        failing_status == FAKE_ILLEGAL_ADDRESS || failing_status == FAKE_LAUNCH_FAILURE;
    if (context && is_fault) {
        context->failure = failing_status;
        pthread_cond_broadcast(&fake_changed);
        told_failure(context);
    }
    return failing_status;
}

int fake_begin(const char *call, bool needs_context)
{
    struct fake_context *context = fake_current();
    int status = FAKE_OK;
    pthread_mutex_lock(&fake_lock);
    if (starter != getpid())
        status = FAKE_NOT_INITIALIZED;
    else if (is_its_turn(call))
        status = fail_now(context);
    else if (needs_context && (!context || context->n_retained == 0))
        status = FAKE_INVALID_CONTEXT;
    else if (needs_context)
        status = told_failure(context);
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
    return fake_begin("cuDriverGetVersion", false);
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
    pthread_mutex_lock(&fake_lock);
    *bytes = fake_device_bytes;
    pthread_mutex_unlock(&fake_lock);
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
