// SPDX-License-Identifier: Apache-2.0
/* The C library's reads and writes. A call that would fail anyway (a socket's on another kind of
 * descriptor) does not count. */
#undef _FORTIFY_SOURCE
#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "faults.h"

static bool fails(enum hr_fault kind, int fd, size_t *size)
{
    const int saved = errno;
    const int error = hr_faults_strike_io(kind, fd, size);
    errno = error ? error : saved;
    return error != 0;
}

static bool is_socket(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode);
}

ssize_t read(int fd, void *buffer, size_t size)
{
    static ssize_t (*next)(int, void *, size_t);
    if (!next)
        hr_faults_find(&next, "read");
    return fails(HR_FAULT_READ, fd, &size) ? -1 : next(fd, buffer, size);
}

ssize_t write(int fd, const void *buffer, size_t size)
{
    static ssize_t (*next)(int, const void *, size_t);
    if (!next)
        hr_faults_find(&next, "write");
    return fails(HR_FAULT_WRITE, fd, &size) ? -1 : next(fd, buffer, size);
}

ssize_t pread(int fd, void *buffer, size_t size, off_t offset)
{
    static ssize_t (*next)(int, void *, size_t, off_t);
    if (!next)
        hr_faults_find(&next, "pread");
    return fails(HR_FAULT_READ, fd, &size) ? -1 : next(fd, buffer, size, offset);
}

ssize_t pwrite(int fd, const void *buffer, size_t size, off_t offset)
{
    static ssize_t (*next)(int, const void *, size_t, off_t);
    if (!next)
        hr_faults_find(&next, "pwrite");
    return fails(HR_FAULT_WRITE, fd, &size) ? -1 : next(fd, buffer, size, offset);
}

ssize_t recv(int fd, void *buffer, size_t size, int flags)
{
    static ssize_t (*next)(int, void *, size_t, int);
    if (!next)
        hr_faults_find(&next, "recv");
    return is_socket(fd) && fails(HR_FAULT_READ, fd, &size) ? -1 : next(fd, buffer, size, flags);
}

ssize_t send(int fd, const void *buffer, size_t size, int flags)
{
    static ssize_t (*next)(int, const void *, size_t, int);
    if (!next)
        hr_faults_find(&next, "send");
    return is_socket(fd) && fails(HR_FAULT_WRITE, fd, &size) ? -1 : next(fd, buffer, size, flags);
}

/* Of several pieces only the first is moved, if it is to be short. */
static int shorten(const struct iovec *pieces, int n_pieces, size_t size, struct iovec *first)
{
    if (n_pieces < 1 || size == pieces[0].iov_len)
        return n_pieces;
    *first = (struct iovec){.iov_base = pieces[0].iov_base, .iov_len = size};
    return 1;
}

ssize_t preadv2(int fd, const struct iovec *pieces, int n_pieces, off_t offset, int flags)
{
    static ssize_t (*next)(int, const struct iovec *, int, off_t, int);
    if (!next)
        hr_faults_find(&next, "preadv2");
    size_t size = n_pieces > 0 ? pieces[0].iov_len : 0;
    if (fails(HR_FAULT_READ, fd, &size))
        return -1;
    struct iovec first = {0};
    const int n = shorten(pieces, n_pieces, size, &first);
    return next(fd, first.iov_base ? &first : pieces, n, offset, flags);
}

ssize_t pwritev2(int fd, const struct iovec *pieces, int n_pieces, off_t offset, int flags)
{
    static ssize_t (*next)(int, const struct iovec *, int, off_t, int);
    if (!next)
        hr_faults_find(&next, "pwritev2");
    size_t size = n_pieces > 0 ? pieces[0].iov_len : 0;
    if (fails(HR_FAULT_WRITE, fd, &size))
        return -1;
    struct iovec first = {0};
    const int n = shorten(pieces, n_pieces, size, &first);
    return next(fd, first.iov_base ? &first : pieces, n, offset, flags);
}
