// SPDX-License-Identifier: Apache-2.0
/* One chunk's way over the device: what each of its legs enqueues, in order by events. When which
 * chunk takes which leg is the kernel stage's business. */
#ifndef HR_TRANSIT_H
#define HR_TRANSIT_H

#include "pipeline.h"

/* Prepares the chunk and, where the device has memory of its own, enqueues the copy to it. */
void hr__transit_begin(struct hr__slot *chunk);
/* Enqueues the kernels of a segment, behind the copy. */
void hr__transit_run(struct hr__slot *chunk, unsigned segment);
/* Enqueues the copy of what the last kernel gives to host memory: the chunk's own, or the place that
 * it has in a sink of pinned memory. Nothing where the bytes are the host's, or the host does not
 * want them. */
void hr__transit_out(struct hr__slot *chunk);
/* Enqueues the copy to the chunk's place in a sink that is memory of the device. */
void hr__transit_store(struct hr__slot *chunk, char *place);

/* Joins what was carried to the front of what the counted kernel gave, and carries the rest; on the
 * device, before the segment's kernels. */
void hr__transit_join(struct hr__slot *chunk, struct hr__segment *segment);

/* Where a counted kernel's count is on the host, once the kernel is done. */
uint64_t *hr__transit_count(const struct hr__slot *chunk);

#endif
