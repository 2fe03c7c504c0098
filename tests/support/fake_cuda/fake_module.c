// SPDX-License-Identifier: Apache-2.0
/* The fake driver: modules. Every image that begins with "fake" has all registered kernels. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_calls.h"
#include "fake_core.h"

enum { MAX_KERNELS = 32, MAX_THREADS = 192 };

static struct fake_kernel kernels[MAX_KERNELS];
static size_t n_kernels;

void fake_cuda_kernel(const char *name, fake_cuda_kernel_fn fn, const size_t *sizes)
{
    pthread_mutex_lock(&fake_lock);
    if (n_kernels == MAX_KERNELS)
        abort();
    kernels[n_kernels++] = (struct fake_kernel){.name = name, .fn = fn, .sizes = sizes};
    pthread_mutex_unlock(&fake_lock);
}

int cuModuleLoadDataEx(void **out, const void *image, unsigned n, int *options, void **values)
{
    enum { ERROR_LOG = 5, ERROR_LOG_SIZE = 6 };
    static const char magic[] = "fake";
    const int status = fake_begin("cuModuleLoadDataEx", true);
    if (status != FAKE_OK)
        return status;
    if (n == 2 && options[0] == ERROR_LOG && options[1] == ERROR_LOG_SIZE &&
        memcmp(image, magic, sizeof magic - 1) != 0) {
        snprintf(values[0], (size_t)(uintptr_t)values[1], "line 7: what is this?\nno idea\n");
        return FAKE_INVALID_IMAGE;
    }
    pthread_mutex_lock(&fake_lock);
    fake_live.modules++;
    pthread_mutex_unlock(&fake_lock);
    *out = malloc(1);
    return FAKE_OK;
}

int cuModuleUnload(void *module)
{
    int status;
    if (!fake_begin_free("cuModuleUnload", &status))
        return status;
    free(module);
    pthread_mutex_lock(&fake_lock);
    fake_live.modules--;
    pthread_mutex_unlock(&fake_lock);
    return status;
}

int cuModuleGetFunction(void **out, void *module, const char *name)
{
    int status = fake_begin("cuModuleGetFunction", true);
    (void)module;
    if (status != FAKE_OK)
        return status;
    status = FAKE_NOT_FOUND;
    pthread_mutex_lock(&fake_lock);
    for (size_t i = 0; i < n_kernels; i++) {
        if (strcmp(kernels[i].name, name) == 0) {
            *out = &kernels[i];
            status = FAKE_OK;
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return status;
}

int cuFuncGetAttribute(int *value, int attribute, void *function)
{
    (void)attribute;
    (void)function;
    *value = MAX_THREADS;
    return fake_begin("cuFuncGetAttribute", true);
}
