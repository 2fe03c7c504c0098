// SPDX-License-Identifier: Apache-2.0
#include "file_io.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "clock.h"
#include "fifo_io.h"
#include "status.h"

static hr_status system_error(hr_error *error, enum hr_stage stage, const char *doing,
                              const char *name)
{
    const int native = errno;
    return hr__fail(error, native == ENOMEM ? HR_ENOMEM : HR_EIO,
                    (struct hr__where){.stage = stage, .native = native}, "%s %s: %s", doing, name,
                    strerror(native));
}

/* Whether the size is none: files of sysfs say a page, whatever they hold. */
static bool has_no_size(int fd)
{
    struct statfs fs;
    return fstatfs(fd, &fs) == 0 && fs.f_type == SYSFS_MAGIC;
}

/* A socket that nothing can come from would be waited for without end. */
static hr_status check_socket(int fd, enum hr_stage stage, const char *name, hr_error *error)
{
    int type = 0;
    int listens = 0;
    socklen_t size = sizeof type;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0)
        return system_error(error, stage, "type of socket", name);
    size = sizeof listens;
    (void)getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size); /* else it cannot listen */
    const char *why = type != SOCK_STREAM ? "is no stream socket (SOCK_STREAM)"
                      : listens           ? "listens: accept() first, and give what that returns"
                                          : NULL;
    return why ? hr__fail(error, HR_EINVAL, (struct hr__where){.stage = stage}, "%s: the socket %s",
                          name, why)
               : HR_OK;
}

/* Regular files under /proc say size 0 and have content: they are read to the end like a pipe, and
 * so is every file that is empty now. */
static hr_status describe(struct hr__file *file, enum hr_stage stage, const char *name,
                          hr_error *error)
{
    struct stat st;
    if (fstat(file->fd, &st) != 0)
        return system_error(error, stage, "stat", name);
    if (S_ISDIR(st.st_mode)) {
        errno = EISDIR;
        return system_error(error, stage, "open", name);
    }
    file->device = st.st_dev;
    file->inode = st.st_ino;
    file->size = UINT64_MAX;
    const int flags = fcntl(file->fd, F_GETFL);
    const int access = flags & O_ACCMODE;
    if (flags < 0 || access == (stage == HR_STAGE_READ ? O_WRONLY : O_RDONLY)) {
        errno = EBADF;
        return system_error(
            error, stage,
            stage == HR_STAGE_READ ? "not open for reading:" : "not open for writing:", name);
    }
    const off_t position = lseek(file->fd, 0, SEEK_CUR);
    const bool seekable = position >= 0 && (S_ISREG(st.st_mode) || S_ISBLK(st.st_mode));
    uint64_t whole = (uint64_t)st.st_size;
    if (S_ISBLK(st.st_mode) && ioctl(file->fd, BLKGETSIZE64, &whole) != 0)
        return system_error(error, stage, "size of block device", name);
    file->start = seekable ? (uint64_t)position : 0;
    if (stage == HR_STAGE_READ) {
        file->positional = seekable && whole > 0 && !has_no_size(file->fd);
        if (file->positional)
            file->size = whole > file->start ? whole - file->start : 0;
    } else {
        file->positional = seekable && !(flags & O_APPEND);
    }
    if (file->positional && (flags & O_DIRECT)) /* on a pipe the flag means packets */
        file->io_flags = HR__IO_DIRECT;
    if (!S_ISSOCK(st.st_mode))
        return HR_OK;
    file->io_flags = HR__IO_SOCKET;
    return check_socket(file->fd, stage, name, error);
}

/* EINTR: of a network's file system, say. */
static int open_existing(const char *path, int access)
{
    int fd;
    do
        fd = open(path, access | O_CLOEXEC | O_NOCTTY);
    while (fd < 0 && errno == EINTR);
    return fd;
}

hr_status hr__file_open(const char *path, enum hr_direct direct, struct hr__file *out,
                        hr_error *error)
{
    struct hr__file file = {.opened = true};
    file.fd = hr__is_fifo(path) ? hr__fifo_open_to_read(path) : open_existing(path, O_RDONLY);
    if (file.fd < 0)
        return system_error(error, HR_STAGE_READ, "open", path);
    const hr_status status = describe(&file, HR_STAGE_READ, path, error);
    if (status < 0) {
        close(file.fd);
        return status;
    }
    hr__direct_open(&file, HR_STAGE_READ, direct);
    *out = file;
    return HR_OK;
}

hr_status hr__file_from_fd(int fd, enum hr_stage stage, enum hr_direct direct, struct hr__file *out,
                           hr_error *error)
{
    struct hr__file file = {.fd = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)};
    char name[32];
    snprintf(name, sizeof name, "descriptor %d", fd);
    if (file.fd < 0)
        return system_error(error, stage, "duplicate", name);
    const hr_status status = describe(&file, stage, name, error);
    if (status < 0) {
        close(file.fd);
        return status;
    }
    hr__direct_open(&file, stage, direct);
    *out = file;
    return HR_OK;
}

/* RWF_NOWAIT: preadv2(2). A file system that does not know it gives nothing. */
size_t hr__file_read_cached(const struct hr__file *file, void *buffer, size_t size, uint64_t offset)
{
    struct iovec piece = {.iov_base = buffer, .iov_len = size};
    const ssize_t n = preadv2(file->fd, &piece, 1, (off_t)offset, RWF_NOWAIT);
    return n > 0 ? (size_t)n : 0;
}

/* False: errno says why. */
static bool close_behind(struct hr__file *file, uint64_t moved)
{
    if (!file->opened && file->positional && moved > 0)
        lseek(file->fd, (off_t)(file->start + moved), SEEK_SET);
    const int fd = file->fd;
    file->fd = -1;
    if (file->lent_on)
        return true;
    hr__direct_close(file);
    return close(fd) == 0 || errno == EINTR;
}

void hr__file_close(struct hr__file *file, uint64_t moved)
{
    if (file->fd >= 0)
        close_behind(file, moved);
}

/* Takes over a descriptor that is written in place; -1: errno says why there is none. */
static hr_status take_in_place(int fd, const char *path, enum hr_direct direct,
                               struct hr__target *target, hr_error *error)
{
    if (fd < 0)
        return system_error(error, HR_STAGE_WRITE, "open", path);
    target->file.fd = fd;
    target->file.opened = true;
    const hr_status status = describe(&target->file, HR_STAGE_WRITE, path, error);
    if (status < 0) {
        close(fd);
        target->file.fd = -1;
    } else {
        hr__direct_open(&target->file, HR_STAGE_WRITE, direct);
    }
    return status;
}

hr_status hr__target_open_fifo(struct hr__target *target, const char *path, hr_error *error)
{
    const int fd = hr__fifo_open_to_write(path);
    if (fd >= 0 || errno != ENXIO)
        return take_in_place(fd, path, HR_DIRECT_OFF, target, error);
    if (target->timer_fd < 0)
        target->timer_fd = hr__fifo_timer_open();
    if (target->timer_fd < 0)
        return system_error(error, HR_STAGE_WRITE, "wait for a reader of", path);
    hr__fifo_timer_wait(target->timer_fd);
    return HR_PENDING;
}

/* Opens what is there and is no regular file: a device, a FIFO. O_CREAT is left out, so that a
 * target that vanishes is not made anew. */
static hr_status open_in_place(const char *path, mode_t mode, enum hr_direct direct,
                               struct hr__target *target, hr_error *error)
{
    return S_ISFIFO(mode)
               ? hr__target_open_fifo(target, path, error)
               : take_in_place(open_existing(path, O_WRONLY), path, direct, target, error);
}

/* The name that a rename has to replace: symbolic links followed, also a chain that leads to
 * a file which is not there yet (one that leads to itself is ELOOP to realpath). Allocated; NULL:
 * errno says why. */
static char *resolve_target(const char *path)
{
    char *resolved = realpath(path, NULL);
    if (resolved || errno != ENOENT)
        return resolved;
    char link[PATH_MAX];
    const ssize_t n = readlink(path, link, sizeof link - 1);
    if (n < 0)
        return strdup(path);
    link[n] = '\0';
    const char *slash = strrchr(path, '/');
    if (link[0] == '/' || !slash)
        return resolve_target(link);
    char *joined = NULL;
    if (asprintf(&joined, "%.*s/%s", (int)(slash - path), path, link) < 0)
        return NULL;
    resolved = resolve_target(joined);
    free(joined);
    return resolved;
}

/* Creates ".NAME.partial-XXXXXX" in the directory of the target: same file system, and a name that
 * tells what it is if the machine loses power. Not by mkostemp(), whose files are private: a
 * process with threads cannot ask for its umask. Returns the descriptor, or -1 with errno. */
static int create_beside(struct hr__target *target)
{
    enum { ATTEMPTS = 100, ADDED = sizeof "..partial-123456" - 1 };
    const char *slash = strrchr(target->target, '/');
    const int directory = slash ? (int)(slash - target->target) + 1 : 0;
    int fd = -1;
    if (!target->target[directory]) { /* "", or a directory that is not there */
        errno = ENOENT;
        return -1;
    }
    for (int i = 0; i < ATTEMPTS && fd < 0; i++) {
        free(target->temporary);
        /* a long name is cut, so that what is added fits */
        if (asprintf(&target->temporary, "%.*s.%.*s.partial-%06x", directory, target->target,
                     NAME_MAX - ADDED, target->target + directory,
                     (unsigned)(hr__now_ns() & 0xffffff)) < 0) {
            target->temporary = NULL;
            errno = ENOMEM;
            return -1;
        }
        fd = open(target->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    return fd;
}

/* As the file that it will replace. */
static void take_over_mode(int fd, const struct stat *old)
{
    mode_t mode = old->st_mode & 07777;
    /* only root, or a member of the group, may give a file away: a wish */
    if (fchown(fd, old->st_uid, old->st_gid) != 0)
        mode &= 0777; /* never a set-uid file of another owner */
    fchmod(fd, mode);
}

static hr_status create_error(const char *path, hr_error *error)
{
    const char *slash = strrchr(path, '/');
    if (errno != ENOENT || !slash)
        return system_error(error, HR_STAGE_WRITE, "create a file beside", path);
    return hr__fail(error, HR_EIO, (struct hr__where){.stage = HR_STAGE_WRITE, .native = ENOENT},
                    "create %s: the folder %.*s is not there, or takes no files", path,
                    (int)(slash - path), path);
}

static hr_status open_beside(const struct stat *old, enum hr_direct direct,
                             struct hr__target *target, hr_error *error)
{
    const int fd = create_beside(target);
    if (fd < 0) {
        const hr_status status = create_error(target->target, error);
        free(target->temporary);
        target->temporary = NULL;
        return status;
    }
    target->file = (struct hr__file){.fd = fd, .opened = true, .positional = true};
    hr__direct_open(&target->file, HR_STAGE_WRITE, direct); /* while the mode lets us */
    if (old) {
        take_over_mode(fd, old);
        target->file.device = old->st_dev;
        target->file.inode = old->st_ino;
        target->replaced_fd = open(target->target, O_RDONLY | O_CLOEXEC);
    }
    return HR_OK;
}

hr_status hr__target_open(const char *path, bool fsync, enum hr_direct direct,
                          struct hr__target *out, hr_error *error)
{
    struct hr__target target = {
        .file = {.fd = -1}, .replaced_fd = -1, .timer_fd = -1, .fsync = fsync};
    struct stat old;
    const bool exists = stat(path, &old) == 0;
    hr_status status;
    if (!exists && errno != ENOENT)
        return system_error(error, HR_STAGE_WRITE, "open", path);
    if (exists && !S_ISREG(old.st_mode)) {
        status = open_in_place(path, old.st_mode, direct, &target, error);
    } else if (exists && faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) != 0) {
        status = system_error(error, HR_STAGE_WRITE, "open", path);
    } else if (!(target.target = resolve_target(path))) {
        status = system_error(error, HR_STAGE_WRITE, "open", path);
    } else {
        status = open_beside(exists ? &old : NULL, direct, &target, error);
    }
    if (status < 0)
        free(target.target);
    else
        *out = target;
    return status;
}

static void forget(struct hr__target *target)
{
    if (target->replaced_fd >= 0)
        close(target->replaced_fd);
    if (target->timer_fd >= 0)
        close(target->timer_fd);
    target->replaced_fd = target->timer_fd = -1;
    free(target->temporary);
    free(target->target);
    target->temporary = NULL;
    target->target = NULL;
}

static int open_directory_of(const char *path)
{
    assert(path);
    const char *slash = strrchr(path, '/');
    char *directory = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    if (!directory)
        return -1;
    const int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(directory);
    return fd;
}

/* Makes the rename itself durable. */
static bool sync_directory(const char *path)
{
    const int fd = open_directory_of(path);
    if (fd < 0)
        return false;
    const bool synced = fsync(fd) == 0;
    close(fd);
    return synced;
}

void hr__target_make_room(const struct hr__target *target)
{
    posix_fadvise(target->replaced_fd, 0, 0, POSIX_FADV_DONTNEED); /* a wish */
}

hr_status hr__target_commit(struct hr__target *target, uint64_t moved, hr_error *error)
{
    const char *name = target->target ? target->target : "the output";
    hr_status status = HR_OK;
    /* EINVAL: a pipe, a socket or a device that has nothing to sync */
    if (target->fsync && fsync(target->file.fd) != 0 && errno != EINVAL)
        status = system_error(error, HR_STAGE_WRITE, "fsync", name);
    if (!close_behind(&target->file, moved) && status == HR_OK)
        status = system_error(error, HR_STAGE_WRITE, "close", name);
    if (target->temporary && status == HR_OK) {
        if (rename(target->temporary, target->target) != 0)
            status = system_error(error, HR_STAGE_WRITE, "rename to", target->target);
        else if (target->fsync && !sync_directory(target->target))
            status = system_error(error, HR_STAGE_WRITE, "fsync the directory of", name);
    }
    if (target->temporary && status < 0)
        unlink(target->temporary);
    forget(target);
    return status;
}

void hr__target_abandon(struct hr__target *target, uint64_t moved)
{
    hr__file_close(&target->file, moved);
    if (target->temporary)
        unlink(target->temporary);
    forget(target);
}

static const char *name_in_directory(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool directory_of(const char *path, struct stat *st)
{
    const int fd = open_directory_of(path);
    const bool known = fd >= 0 && fstat(fd, st) == 0;
    if (fd >= 0)
        close(fd);
    return known;
}

bool hr__target_same(const struct hr__target *a, const struct hr__target *b)
{
    struct stat at;
    struct stat bt;
    return a->target && b->target &&
           strcmp(name_in_directory(a->target), name_in_directory(b->target)) == 0 &&
           directory_of(a->target, &at) && directory_of(b->target, &bt) && at.st_dev == bt.st_dev &&
           at.st_ino == bt.st_ino;
}

/* Only what has offsets is one file under two names: a terminal may well be both ends. */
bool hr__file_same(const struct hr__file *a, const struct hr__file *b)
{
    return a->fd >= 0 && b->fd >= 0 && (a->positional || b->positional) && a->inode == b->inode &&
           a->device == b->device && a->inode != 0;
}
