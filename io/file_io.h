// SPDX-License-Identifier: Apache-2.0
/* Files as the ends of a pipeline: opened, sized, and written so that a failure leaves no file that
 * looks whole. */
#ifndef HR_FILE_IO_H
#define HR_FILE_IO_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "direct_io.h"
#include "headrace.h"

/* What a descriptor is, as a source or sink. */
struct hr__file {
    int fd;            /* ours: opened, or a duplicate of the user's */
    bool opened;       /* no duplicate, which shares its position with the user's */
    bool lent_on;      /* another one, which has the same, closes it */
    bool positional;   /* has offsets: pread, pwrite, several at once */
    uint32_t io_flags; /* enum hr__io_flag: for requests on fd */
    uint64_t start;    /* positional: the offset at which the stream begins */
    uint64_t size;     /* positional source: bytes from start on, at open; UINT64_MAX: not known */
    dev_t device;
    ino_t inode;
    struct hr__direct direct;
};

/* An output. Files are written under `temporary` and renamed to `target` by commit. */
struct hr__target {
    struct hr__file file;
    char *temporary; /* NULL: written in place */
    char *target;    /* the resolved path */
    int replaced_fd; /* the file that is there now; -1: none, or not readable */
    int timer_fd;    /* of a FIFO that had no reader at first, see fifo_io.h; else -1 */
    bool fsync;
};

/* direct: what hr__direct_open makes of it is in out->direct. */
hr_status hr__file_open(const char *path, enum hr_direct direct, struct hr__file *out,
                        hr_error *error) __attribute__((warn_unused_result));
/* A duplicate is used: the user may close fd meanwhile, and its number become another file's. */
hr_status hr__file_from_fd(int fd, enum hr_stage stage, enum hr_direct direct, struct hr__file *out,
                           hr_error *error) __attribute__((warn_unused_result));
/* Reads what the page cache holds of the range, from its begin on: returns how many bytes, perhaps
 * none. Blocks: no longer than a copy. Thread: any. */
size_t hr__file_read_cached(const struct hr__file *file, void *buffer, size_t size,
                            uint64_t offset);
/* Leaves a user's seekable descriptor behind the bytes that were moved. */
void hr__file_close(struct hr__file *file, uint64_t moved);

/* Returns HR_PENDING for a FIFO that nobody reads yet: out is set, but for the file. Blocks: never
 * for a peer. */
hr_status hr__target_open(const char *path, bool fsync, enum hr_direct direct,
                          struct hr__target *out, hr_error *error)
    __attribute__((warn_unused_result));
/* Tries again. HR_PENDING: another time, when timer_fd is readable. */
hr_status hr__target_open_fifo(struct hr__target *target, const char *path, hr_error *error)
    __attribute__((warn_unused_result));
/* Gives the cached pages of the file that will be replaced back, before as many new ones are
 * needed: it stays whole, but the system need not hold both. Blocks. Thread: any. */
void hr__target_make_room(const struct hr__target *target);
/* Blocks: fsync, rename, close. After it, failed or not, the target is closed. */
hr_status hr__target_commit(struct hr__target *target, uint64_t moved, hr_error *error)
    __attribute__((warn_unused_result));
/* Closes and removes what was written beside the target. */
void hr__target_abandon(struct hr__target *target, uint64_t moved);

/* Whether they will get the same name; the file need not be there yet. */
bool hr__target_same(const struct hr__target *a, const struct hr__target *b);

bool hr__file_same(const struct hr__file *a, const struct hr__file *b);

#endif
