// SPDX-License-Identifier: Apache-2.0
/* What loops share: workers and memory. Counted: the last holder frees it. */
#ifndef HR_CONTEXT_H
#define HR_CONTEXT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "backend.h"
#include "codecs.h"
#include "device_store.h"
#include "headrace.h"
#include "lease.h"
#include "pool.h"

/* A name by which a device was asked for. */
struct hr__device_name {
    char name[HR__DEVICE_TEXT];
    struct hr__store *store;
    struct hr__device_name *next;
};

struct hr_context {
    /* constant after create */
    struct hr__pool *pool;
    pid_t pid;
    hr_log_fn log;
    void *log_user;

    struct hr__memory memory; /* locks itself */
    struct hr__codecs codecs; /* locks itself */
    pthread_mutex_t devices_lock;
    struct hr__store *stores;      /* under devices_lock: open devices, until the end */
    struct hr__device_name *names; /* under devices_lock */
    pthread_mutex_t log_lock;
    atomic_uint holders;
};

/* The device, opened at first use. Thread: any. Fails as hr__device_open. */
hr_status hr__context_device(hr_context *context, const char *name, struct hr__store **out,
                             hr_error *error) HR_MUST_CHECK;

/* Tells the user's log one line. */
void hr__context_log(hr_context *context, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* HR_EFORK, if the calling process is not the one that made the thing. */
hr_status hr__check_process(pid_t maker, const char *thing, hr_error *error) HR_MUST_CHECK;

/* Copies a caller's struct whose first field is struct_size: a shorter one is filled up with zeros,
 * a longer one is taken if what is beyond is zero. */
bool hr__copy_struct(void *to, size_t size, const void *from);

#endif
