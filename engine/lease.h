// SPDX-License-Identifier: Apache-2.0
/* The memory that slots are leased from: regions of anonymous memory, kept for the next lease of
 * the same size, bounded in sum. */
#ifndef HR_LEASE_H
#define HR_LEASE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend.h"
#include "headrace.h"

enum { HR__MAX_INDEX = 256 };

struct hr__region {
    void *memory;
    size_t size;
    int index;           /* below HR__MAX_INDEX, unique among living regions; -1: all are taken */
    uint64_t generation; /* never used twice, so a loop sees that an index means another region */
    struct hr__device *pinned_by; /* NULL: no device's driver knows it */
    bool pinned_now;              /* by the last lease: it was not before */
    struct hr__region *next;
};

struct hr__memory {
    pthread_mutex_t lock;
    uint64_t max_bytes;      /* constant */
    uint64_t mapped_bytes;   /* under lock: leased and kept */
    uint64_t generation;     /* under lock */
    struct hr__region *kept; /* under lock */
    unsigned char index_taken[HR__MAX_INDEX];
};

int hr__memory_init(struct hr__memory *memory, uint64_t max_bytes); /* 0 or an errno */
/* All leases are returned, all devices still open. */
void hr__memory_destroy(struct hr__memory *memory);

/* A region of at least size bytes, page-aligned; huge pages asked for, not inherited by children
 * and not in core dumps. Where a device is given (not the host), its driver is asked to pin it; if
 * that is refused, pinned_by is not the device. HR_AGAIN: the bound is reached. HR_ENOMEM: the
 * system has no more. Thread: any. */
hr_status hr__memory_lease(struct hr__memory *memory, size_t size, struct hr__device *device,
                           struct hr__region **out) __attribute__((warn_unused_result));
void hr__memory_return(struct hr__memory *memory, struct hr__region *region);

#endif
