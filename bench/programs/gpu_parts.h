// SPDX-License-Identifier: Apache-2.0
/* Work on much memory by several threads, so that what lies outside of the clock is done soon. */
#ifndef GPU_PARTS_H
#define GPU_PARTS_H

#include <stddef.h>
#include <stdint.h>

enum { PART_UNIT = 1 << 16 }; /* parts begin at multiples of it */

typedef void (*part_fn)(const void *work, uint64_t begin, uint64_t end);

/* Calls part for parts that together are [0, size), and waits for them. */
void in_parts(part_fn part, const void *work, uint64_t size);

/* As memset. */
void set_bytes(unsigned char *memory, unsigned char byte, uint64_t size);

#endif
