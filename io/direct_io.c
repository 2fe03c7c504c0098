// SPDX-License-Identifier: Apache-2.0
#include "direct_io.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "file_io.h"

#ifndef SYS_cachestat
#define SYS_cachestat 451 /* linux/unistd.h from 6.5 on, the same number on all architectures */
#endif

/* The kernel's own read-ahead (read_ahead_kb of a disk, by default). Cold reads of less, 8 in
 * flight, took two to five times as long directly as buffered. */
enum { READ_AHEAD_BYTES = 128 * 1024 };

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static void switch_off(struct hr__direct *direct, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void switch_off(struct hr__direct *direct, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(direct->why, sizeof direct->why, format, arguments);
    va_end(arguments);
    direct->use = HR__DIRECT_NEVER;
}

/* ---- open and close ---- */

static bool is_direct(const struct hr__file *file)
{
    return file->io_flags & HR__IO_DIRECT;
}

static enum hr__direct_use choose_use(const struct hr__file *file, enum hr_stage stage,
                                      enum hr_direct mode)
{
    if (mode == HR_DIRECT_OFF)
        return HR__DIRECT_NEVER;
    if (mode == HR_DIRECT_ON || is_direct(file))
        return HR__DIRECT_ALWAYS;
    return stage == HR_STAGE_READ ? HR__DIRECT_COLD : HR__DIRECT_NEVER;
}

/* The same file for sure, which its path may not be any more. */
static int open_twin(const struct hr__file *file, enum hr_stage stage)
{
    char path[32];
    const int flags = (stage == HR_STAGE_READ ? O_RDONLY : O_WRONLY) |
                      (is_direct(file) ? 0 : O_DIRECT) | O_CLOEXEC | O_NOCTTY;
    int fd;
    snprintf(path, sizeof path, "/proc/self/fd/%d", file->fd);
    do
        fd = open(path, flags);
    while (fd < 0 && errno == EINTR);
    return fd;
}

/* A page is what a direct and a buffered transfer of one file must not share: the cache of the part
 * that was moved directly is dropped, page by page. */
static void find_alignment(struct hr__file *file)
{
    struct hr__direct *direct = &file->direct;
    const size_t page = page_size();
    direct->memory_align = page;
    direct->offset_align = page;
#ifdef STATX_DIOALIGN
    struct statx st;
    if (statx(file->fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &st) != 0 ||
        !(st.stx_mask & STATX_DIOALIGN))
        return;
    if (st.stx_dio_mem_align == 0 || st.stx_dio_offset_align == 0) { /* statx(2): none */
        switch_off(direct, "the file system says that it has no direct I/O for this file");
        return;
    }
    direct->memory_align = st.stx_dio_mem_align;
    if (page % st.stx_dio_offset_align != 0)
        direct->offset_align = st.stx_dio_offset_align;
#endif
}

void hr__direct_open(struct hr__file *file, enum hr_stage stage, enum hr_direct mode)
{
    struct hr__direct *direct = &file->direct;
    if (!file->positional)
        return;
    direct->use = choose_use(file, stage, mode);
    if (direct->use == HR__DIRECT_NEVER && !is_direct(file))
        return;
    direct->twin = open_twin(file, stage);
    direct->has_twin = direct->twin >= 0;
    if (!direct->has_twin && is_direct(file))
        direct->use = HR__DIRECT_ALWAYS; /* there is no other way */
    else if (!direct->has_twin)
        switch_off(direct, "opening the file with O_DIRECT: %s", strerror(errno));
    if (direct->use != HR__DIRECT_NEVER)
        find_alignment(file);
}

void hr__direct_close(struct hr__file *file)
{
    if (file->direct.has_twin)
        close(file->direct.twin);
    file->direct = (struct hr__direct){0};
}

/* ---- is it cached? ---- */

/* The kernel's structures, of linux/mman.h from 6.5 on. */
struct cache_range {
    uint64_t offset;
    uint64_t size;
};

struct cache_pages {
    uint64_t cached;
    uint64_t dirty;
    uint64_t written_back;
    uint64_t evicted;
    uint64_t evicted_lately;
};

/* One read of one byte that may not wait. */
static bool is_first_byte_cached(struct hr__file *file, uint64_t offset)
{
    char byte;
    const struct iovec vector = {.iov_base = &byte, .iov_len = 1};
    if (preadv2(file->fd, &vector, 1, (off_t)offset, RWF_NOWAIT) >= 0)
        return true;
    if (errno == EAGAIN)
        return false;
    switch_off(&file->direct, "what the page cache holds cannot be asked: %s", strerror(errno));
    return true;
}

/* Whether a direct read would cost more than it saves: half of the pages are there, or there are
 * some that would have to be written to the disk first. */
static bool is_cached(struct hr__file *file, uint64_t offset, size_t size)
{
    if (!file->direct.no_cachestat) {
        const uint64_t page = page_size();
        const uint64_t n_pages = (offset + size - 1) / page - offset / page + 1;
        const struct cache_range range = {.offset = offset, .size = size};
        struct cache_pages pages;
        if (syscall(SYS_cachestat, file->fd, &range, &pages, 0) == 0)
            return pages.dirty + pages.written_back > 0 || 2 * pages.cached >= n_pages;
        file->direct.no_cachestat = true; /* ENOSYS, or EPERM: a file of somebody else */
    }
    return is_first_byte_cached(file, offset);
}

/* ---- the planner ---- */

static struct hr__io_part buffered(const struct hr__file *file, size_t size)
{
    const bool by_twin = is_direct(file) && file->direct.has_twin;
    return (struct hr__io_part){
        .fd = by_twin ? file->direct.twin : file->fd,
        .flags = by_twin ? file->io_flags & ~(uint32_t)HR__IO_DIRECT : file->io_flags,
        .size = size,
    };
}

static struct hr__io_part direct(const struct hr__file *file, size_t size)
{
    return (struct hr__io_part){
        .fd = is_direct(file) ? file->fd : file->direct.twin,
        .flags = file->io_flags | HR__IO_DIRECT,
        .size = size,
    };
}

/* Bytes from offset to the next aligned one. */
static size_t head_size(const struct hr__file *file, uint64_t offset)
{
    const size_t align = file->direct.offset_align;
    return (align - (size_t)(offset % align)) % align;
}

/* As much as one request moves at most, the last block whole if the slack allows, else left out. */
static size_t whole_blocks(const struct hr__file *file, size_t size, size_t slack)
{
    const size_t align = file->direct.offset_align;
    const size_t most = HR__IO_MAX_BYTES - HR__IO_MAX_BYTES % align;
    if (size >= most)
        return most;
    const size_t rest = size % align;
    return rest > 0 && align - rest <= slack ? size - rest + align : size - rest;
}

static bool is_apt(const struct hr__file *file, const void *buffer, uint64_t offset, size_t size,
                   size_t slack)
{
    const size_t head = head_size(file, offset);
    return size > head && whole_blocks(file, size - head, slack) > 0 &&
           ((uintptr_t)buffer + head) % file->direct.memory_align == 0;
}

static struct hr__io_part first_part(const struct hr__file *file, uint64_t offset, size_t size,
                                     size_t slack)
{
    const size_t head = head_size(file, offset);
    return head > 0 ? buffered(file, head) : direct(file, whole_blocks(file, size, slack));
}

size_t hr__direct_alignment(const struct hr__file *file)
{
    return file->direct.use == HR__DIRECT_NEVER ? 1 : file->direct.offset_align;
}

struct hr__io_part hr__direct_plan_read(struct hr__file *file, const void *buffer, uint64_t offset,
                                        size_t size, size_t slack)
{
    assert(size > 0);
    const enum hr__direct_use use = file->direct.use;
    if (use == HR__DIRECT_NEVER || !is_apt(file, buffer, offset, size, slack))
        return buffered(file, size);
    if (use == HR__DIRECT_COLD && (size < READ_AHEAD_BYTES || is_cached(file, offset, size)))
        return buffered(file, size);
    return first_part(file, offset, size, slack);
}

struct hr__io_part hr__direct_plan_write(const struct hr__file *file, const void *buffer,
                                         uint64_t offset, size_t size)
{
    assert(size > 0);
    if (file->direct.use != HR__DIRECT_ALWAYS || !is_apt(file, buffer, offset, size, 0))
        return buffered(file, size);
    return first_part(file, offset, size, 0);
}

bool hr__direct_refused(struct hr__file *file, const struct hr__io_request *request)
{
    const int64_t result = request->result;
    if (!(request->flags & HR__IO_DIRECT) || !file->direct.has_twin ||
        (result != -EINVAL && result != -EOPNOTSUPP && result != -EFAULT))
        return false;
    /* Others may be in flight, and fail after this one. */
    if (file->direct.use != HR__DIRECT_NEVER)
        switch_off(&file->direct, "the system refused a direct transfer: %s",
                   strerror((int)-result));
    return true;
}
