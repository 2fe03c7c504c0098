// SPDX-License-Identifier: Apache-2.0
/* Transfers past the page cache (O_DIRECT), for files that have offsets.
 *
 * A file has a second descriptor for them, its twin, so that no flag of a user's descriptor is
 * touched. For what is left of a range the planner tells how to move the next part; the caller
 * moves it and asks again from where it got to:
 *
 *     |    ====|=======|=======|=======|===    |    blocks of hr__direct_alignment() bytes
 *     buffered |        direct         | buffered, or direct with the slack behind the buffer
 *
 * A refusal of the system switches direct transfers of the file off, for good: the same bytes are
 * planned again and go through the page cache. Thread: one at a time for each file. */
#ifndef HR_DIRECT_IO_H
#define HR_DIRECT_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headrace.h"
#include "io.h"

enum { HR__DIRECT_WHY = 128 };

enum hr__direct_use {
    HR__DIRECT_NEVER,
    HR__DIRECT_COLD, /* large reads of what the page cache does not hold */
    HR__DIRECT_ALWAYS,
};

/* A part of struct hr__file; zeros mean: buffered. */
struct hr__direct {
    enum hr__direct_use use;
    bool has_twin;
    bool no_cachestat; /* it was refused: preadv2 is asked instead */
    int twin; /* with O_DIRECT if the file's own descriptor has it not, and the other way round */
    size_t memory_align;
    size_t offset_align;      /* of offsets and sizes; at least a page */
    char why[HR__DIRECT_WHY]; /* direct I/O was allowed, and is not used: the reason; else "" */
};

struct hr__file;

/* What to put into a request beside its buffer and offset, which are as the planner was told. */
struct hr__io_part {
    int fd;
    uint32_t flags; /* enum hr__io_flag */
    size_t size;
};

/* Called once for a file that was just opened; a failure is a reason in why. A user's descriptor
 * that has O_DIRECT already makes auto the same as on. Blocks: as open(2) of a regular file. */
void hr__direct_open(struct hr__file *file, enum hr_stage stage, enum hr_direct mode);
void hr__direct_close(struct hr__file *file);

/* Where a stream is to be cut so that its later chunks are direct as a whole: multiples of it, as
 * offsets in the file. 1: anywhere. */
size_t hr__direct_alignment(const struct hr__file *file);

/* How to read the first part of [offset, offset + size), offsets of the file, into buffer. slack:
 * bytes behind buffer + size that may be written. The part's size exceeds the size asked by at most
 * that, and so may the result: what is beyond the size asked does not count. size is not 0. */
struct hr__io_part hr__direct_plan_read(struct hr__file *file, const void *buffer, uint64_t offset,
                                        size_t size, size_t slack);

/* The same for a write, of never more than size bytes: a file ends where its bytes end. */
struct hr__io_part hr__direct_plan_write(const struct hr__file *file, const void *buffer,
                                         uint64_t offset, size_t size);

/* Whether a request that ended failed because it was direct: plan the same bytes again. */
bool hr__direct_refused(struct hr__file *file, const struct hr__io_request *request);

#endif
