// SPDX-License-Identifier: Apache-2.0
/* The CPU workers of a context: stateless threads that take jobs in the order they came, those
 * of late stages first. */
#ifndef HR_POOL_H
#define HR_POOL_H

#include "queue.h"

struct hr__pool;

/* 0 or an errno. */
int hr__pool_create(unsigned n_threads, struct hr__pool **out);
/* Every job must have come back. */
void hr__pool_free(struct hr__pool *pool);
/* Thread: any. The job comes back through job->inbox. */
void hr__pool_submit(struct hr__pool *pool, struct hr__job *job);
unsigned hr__pool_size(const struct hr__pool *pool);

#endif
