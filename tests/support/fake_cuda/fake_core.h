// SPDX-License-Identifier: Apache-2.0
/* What the parts of the fake driver share. */
#ifndef FAKE_CORE_H
#define FAKE_CORE_H

#include <pthread.h>
#include <stdbool.h>

#include "fake_cuda.h"

enum {
    FAKE_OK = 0,
    FAKE_SILENT = FAKE_CUDA_SILENT,
    FAKE_INVALID_VALUE = 1,
    FAKE_OUT_OF_MEMORY = 2,
    FAKE_NOT_INITIALIZED = 3,
    FAKE_NO_DEVICE = 100,
    FAKE_INVALID_DEVICE = 101,
    FAKE_INVALID_IMAGE = 200,
    FAKE_INVALID_CONTEXT = 201,
    FAKE_INVALID_HANDLE = 400,
    FAKE_NOT_FOUND = 500,
    FAKE_NOT_READY = 600,
    FAKE_ILLEGAL_ADDRESS = 700,
    FAKE_ALREADY_REGISTERED = 712,
    FAKE_NOT_REGISTERED = 713,
    FAKE_LAUNCH_FAILURE = 719,
    FAKE_NOT_SUPPORTED = 801,
    FAKE_N_DEVICES = 2,
};

typedef unsigned long long fake_address;

struct fake_context {
    int device;
    int n_retained;
    int failure; /* sticky */
};

/* Guards all there is. */
extern pthread_mutex_t fake_lock;
extern pthread_cond_t fake_changed;
extern struct fake_cuda_live fake_live;
extern unsigned fake_max_delay_us;
extern const struct fake_cuda_times *fake_times; /* NULL: the host's clock */
extern unsigned fake_n_unpinned_copies;
extern size_t fake_device_bytes;
extern unsigned fake_n_working; /* operations that touch memory now */
extern unsigned fake_n_storm;   /* see fake_cuda_storm */

/* Each call begins with it; 0, or what the call has to return. */
int fake_begin(const char *call, bool needs_context);
/* For a call that gives something back: it does so whatever this says, but not in a forked child.
 */
bool fake_begin_free(const char *call, int *status);
struct fake_context *fake_current(void);
/* For a library over this one: what the calling thread calls from now on is part of a call of its
 * own, and neither counts nor fails by fake_cuda_fail. */
void fake_hide_calls(bool hide);

/* Under the lock. NULL: not device memory of the context. */
void *fake_resolve(const struct fake_context *context, fake_address address, size_t size);
bool fake_is_device_address(uint64_t address);
/* Whether a copy may have this range as its host side; counts those that are not pinned. */
bool fake_is_host_range(const void *memory, size_t size);

/* A registered kernel. */
struct fake_kernel {
    const char *name;
    fake_cuda_kernel_fn fn;
    const size_t *sizes;
};

#endif
