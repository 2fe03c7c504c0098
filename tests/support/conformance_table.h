// SPDX-License-Identifier: Apache-2.0
/* Which built-in kernels a device is tested with, and on what. */
#ifndef HR_CONFORMANCE_TABLE_H
#define HR_CONFORMANCE_TABLE_H

#include <stddef.h>

#include "host_kernels.h"

/* Calls fn with the text of every kernel of the table. */
void conformance_each_kernel(void (*fn)(void *user, const char *text), void *user);

/* Fills data with elements of the type: small numbers, the special ones (zeros of both signs,
 * infinities, NaN, limits of other types, ties) and random bits. The same on every call. */
void conformance_fill(enum hr__type type, unsigned char *data, size_t n_bytes);

#endif
