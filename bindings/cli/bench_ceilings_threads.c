// SPDX-License-Identifier: Apache-2.0
/* Ceilings by plain threads and system calls, without the library: each thread has a slice. In the
 * round that verifies, what was read is compared on the way. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench_tools.h"

static bool copy_slice(struct bench *b, int fd, unsigned char *buffer, uint64_t begin, uint64_t end)
{
    (void)fd;
    (void)buffer;
    memcpy(b->room + begin, b->data + begin, end - begin);
    return true;
}

bool run_memcpy(struct bench *b, struct way *way, struct sample *sample, char *error)
{
    if (is_verifying(b))
        memset(b->room, 0, way->bytes);
    return on_threads(b, way, copy_slice, -1, "memcpy", sample, error) &&
           (!is_verifying(b) || verify_bytes(b, b->room, 0, way->bytes, false, error));
}

/* Into one small buffer that stays in the caches, as a reader that looks at each byte once does. */
static bool read_slice(struct bench *b, int fd, unsigned char *buffer, uint64_t begin, uint64_t end)
{
    while (begin < end) {
        const uint64_t left = end - begin;
        const size_t wanted = left < SLICE_BUFFER ? left : SLICE_BUFFER;
        /* a direct read at the end of the file may ask for more than there is */
        const ssize_t got = pread(fd, buffer, (wanted + 4095) / 4096 * 4096, (off_t)begin);
        const size_t n = got > 0 ? ((size_t)got < left ? (size_t)got : left) : 0;
        if (got <= 0 || (is_verifying(b) && memcmp(buffer, b->data + begin, n) != 0)) {
            errno = got < 0 ? errno : EIO;
            return false;
        }
        begin += n;
    }
    return true;
}

static bool read_with(struct bench *b, int flags, struct way *way, struct sample *sample,
                      char *error)
{
    if (b->no_files[0]) {
        snprintf(error, HR_ERROR_TEXT, "%s", b->no_files);
        return false;
    }
    const int fd = open(b->in_path, O_RDONLY | O_CLOEXEC | flags);
    if (fd < 0)
        return bench_told(error, flags ? "its file system refuses O_DIRECT" : b->in_path);
    const bool done = on_threads(b, way, read_slice, fd, b->in_path, sample, error);
    close(fd);
    return done;
}

bool run_read(struct bench *b, struct way *way, struct sample *sample, char *error)
{
    return read_with(b, 0, way, sample, error);
}

bool run_read_direct(struct bench *b, struct way *way, struct sample *sample, char *error)
{
    return read_with(b, O_DIRECT, way, sample, error);
}

static bool write_slice(struct bench *b, int fd, unsigned char *buffer, uint64_t begin,
                        uint64_t end)
{
    (void)buffer;
    while (begin < end) {
        const uint64_t left = end - begin;
        const ssize_t gone =
            pwrite(fd, b->data + begin, left < SLICE_BUFFER ? left : SLICE_BUFFER, (off_t)begin);
        if (gone <= 0)
            return false;
        begin += (uint64_t)gone;
    }
    return true;
}

/* To a new file each time, as a file sink does. */
bool run_write(struct bench *b, struct way *way, struct sample *sample, char *error)
{
    if (b->no_files[0]) {
        snprintf(error, HR_ERROR_TEXT, "%s", b->no_files);
        return false;
    }
    unlink(b->out_path);
    const int fd = open(b->out_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return bench_told(error, b->out_path);
    bool done = on_threads(b, way, write_slice, fd, b->out_path, sample, error);
    if (close(fd) != 0 && done)
        done = bench_told(error, b->out_path);
    return done && (!is_verifying(b) || verify_file(b, way->bytes, false, error));
}

/* ---- a socket ---- */

static bool connect_to(int fd, uint16_t port)
{
    const struct sockaddr_in name = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return connect(fd, (const struct sockaddr *)&name, sizeof name) == 0;
}

static bool receive(struct bench *b, int fd, unsigned char *buffer, uint64_t begin, uint64_t end)
{
    while (begin < end) {
        const ssize_t got = recv(fd, buffer, SLICE_BUFFER, 0);
        if (got <= 0 || (uint64_t)got > end - begin ||
            (is_verifying(b) && memcmp(buffer, b->data + begin, (size_t)got) != 0)) {
            errno = got < 0 ? errno : EIO;
            return false;
        }
        begin += (uint64_t)got;
    }
    return true;
}

/* One connection: a thread sends, another one receives. */
bool run_socket(struct bench *b, struct way *way, struct sample *sample, char *error)
{
    struct sender sender;
    uint16_t port = 0;
    if (!sender_begin(&sender, b->data, way->bytes, &port))
        return bench_told(error, "a socket on the loopback");
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool done = false;
    if (fd < 0 || !connect_to(fd, port))
        bench_told(error, "connecting on the loopback");
    else
        done = on_threads(b, way, receive, fd, "receiving on the loopback", sample, error);
    if (fd >= 0)
        close(fd);
    sender_end(&sender);
    return done;
}
