// SPDX-License-Identifier: Apache-2.0
/* What was moved is compared with what was made, without the library where that can be: it only
 * decodes, and brings back what a device has. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "bench_tools.h"

static bool is_wrong(char *error, uint64_t at)
{
    snprintf(error, HR_ERROR_TEXT, "moved other bytes than it should, near byte %llu",
             (unsigned long long)at);
    return false;
}

/* BENCH_KERNEL: a rounding after each of its two steps. */
static bool is_mapped(const unsigned char *data, const unsigned char *got)
{
    float x;
    float y;
    memcpy(&x, data, sizeof x);
    memcpy(&y, got, sizeof y);
    const float product = x * 1.5f;
    const float sum = product + 0.25f;
    return sum == y; /* no NaN and no zero */
}

bool verify_bytes(const struct bench *b, const unsigned char *got, uint64_t offset, uint64_t n,
                  bool mapped, char *error)
{
    if (offset > b->size || n > b->size - offset)
        return is_wrong(error, b->size);
    if (!mapped)
        return memcmp(got, b->data + offset, n) == 0 || is_wrong(error, offset);
    for (uint64_t i = 0; i + 4 <= n; i += 4)
        if (!is_mapped(b->data + offset + i, got + i))
            return is_wrong(error, offset + i);
    return true;
}

/* The numbers are multiples of 2^-23 from 1 to 2, so that their sum is one of integers, and the
 * library's is exact, too, before it is rounded. */
bool verify_sum(const struct bench *b, uint64_t n, double sum, char *error)
{
    uint64_t exact = 0;
    for (uint64_t i = 0; i + 4 <= n; i += 4) {
        uint32_t word;
        memcpy(&word, b->data + i, sizeof word);
        exact += 0x800000u | (word & 0x7fffffu);
    }
    if ((double)exact / 8388608.0 == sum)
        return true;
    snprintf(error, HR_ERROR_TEXT, "the sum is %.17g, it should be %.17g", sum,
             (double)exact / 8388608.0);
    return false;
}

bool verify_file(struct bench *b, uint64_t n, bool mapped, char *error)
{
    static unsigned char piece[1 << 16];
    const int fd = open(b->out_path, O_RDONLY | O_CLOEXEC);
    uint64_t at = 0;
    ssize_t got = fd < 0 ? -1 : 1;
    bool right = true;
    while (right && got > 0) {
        got = pread(fd, piece, sizeof piece, (off_t)at);
        if (got > 0)
            right = verify_bytes(b, piece, at, (uint64_t)got, mapped, error);
        at += got > 0 ? (uint64_t)got : 0;
    }
    const int native = errno;
    if (fd >= 0)
        close(fd);
    errno = native;
    if (got < 0)
        return bench_told(error, b->out_path);
    return right && (at == n || is_wrong(error, at));
}

/* ---- through the library, into room ---- */

static bool bring(struct bench *b, const struct hr_source *source, uint32_t decode, void *to,
                  uint64_t n, char *error)
{
    struct hr_stats stats;
    const struct hr_pipeline_config config = {
        .struct_size = sizeof config,
        .n_sources = 1,
        .sources = source,
        .sink = {.struct_size = sizeof config.sink, .kind = HR_MEMORY, .data = to, .size = n},
        .decode = decode,
        .device = source->kind == HR_DEVICE ? b->device : NULL,
    };
    if (!bench_transfer(b->pool.loop, &config, &stats, NULL, error))
        return false;
    return stats.stages[HR_STAGE_WRITE].bytes_out == n || is_wrong(error, n);
}

bool verify_packed_file(struct bench *b, uint64_t n, char *error)
{
    const struct hr_source source = {
        .struct_size = sizeof source, .kind = HR_FILE, .path = b->out_path};
    return bring(b, &source, HR_CODEC_ZSTD, b->room, n, error) &&
           verify_bytes(b, b->room, 0, n, false, error);
}

/* So that what is verified then was brought. */
bool clear_there_too(struct bench *b, uint64_t n, char *error)
{
    const struct hr_source source = {
        .struct_size = sizeof source, .kind = HR_MEMORY, .data = b->room, .size = n};
    memset(b->room, 0, n);
    return b->on_host || bench_store(b, &source, b->there_too, n, error);
}

bool verify_there_too(struct bench *b, uint64_t n, bool mapped, char *error)
{
    const struct hr_source source = {
        .struct_size = sizeof source, .kind = HR_DEVICE, .data = b->there_too, .size = n};
    if (!b->on_host) {
        memset(b->room, 0, n);
        if (!bring(b, &source, HR_CODEC_NONE, b->room, n, error))
            return false;
    }
    return verify_bytes(b, b->room, 0, n, mapped, error);
}
