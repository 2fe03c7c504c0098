// SPDX-License-Identifier: Apache-2.0
/* Direct transfers of real files, as the planner says them. Each part is held against the rules of
 * open(2) on O_DIRECT before it is made, so that a file system that is not strict hides nothing.
 * Where the temporary folder's file system has no direct I/O, bytes are compared all the same, and
 * tests of nothing but direct transfers are skipped. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "direct_io.h"
#include "file_io.h"
#include "io_rig.h"

enum { BIG = 65536, HUGE_FILE = 8 * BIG, GUARD = 64 };

static const size_t lengths[] = {1,    511,     512, 513,     4095,       4096,
                                 4097, BIG - 1, BIG, BIG + 1, 3 * BIG + 7};
enum { N_LENGTHS = sizeof lengths / sizeof *lengths };

/* What one range came to. */
struct tally {
    size_t moved;
    size_t direct;
    unsigned parts;
};

static struct hr__file open_fd(int fd, enum hr_stage stage, enum hr_direct mode)
{
    struct hr__file file;
    hr_error error = {0};
    cr_assert_eq(hr__file_from_fd(fd, stage, mode, &file, &error), HR_OK, "%s", error.text);
    return file;
}

static void need_direct(const struct hr__file *file)
{
    if (file->direct.use == HR__DIRECT_NEVER) {
        cr_skip_test("%s", file->direct.why);
    }
}

static void check_part(const struct hr__file *file, struct hr__io_part part, const void *buffer,
                       uint64_t offset)
{
    const bool direct = part.flags & HR__IO_DIRECT;
    cr_assert_gt(part.size, 0);
    cr_assert_eq(direct, (fcntl(part.fd, F_GETFL) & O_DIRECT) != 0);
    if (direct) {
        cr_assert_eq(offset % file->direct.offset_align, 0);
        cr_assert_eq(part.size % file->direct.offset_align, 0);
        cr_assert_eq((uintptr_t)buffer % file->direct.memory_align, 0);
    }
}

static struct tally read_range(struct hr__file *file, unsigned char *buffer, uint64_t offset,
                               size_t size, size_t slack)
{
    struct tally t = {0};
    while (t.moved < size) {
        unsigned char *at = buffer + t.moved;
        const size_t left = size - t.moved;
        const struct hr__io_part part =
            hr__direct_plan_read(file, at, offset + t.moved, left, slack);
        check_part(file, part, at, offset + t.moved);
        cr_assert_leq(part.size, left + slack);
        const ssize_t n = pread(part.fd, at, part.size, (off_t)(offset + t.moved));
        cr_assert_gt(n, 0, "%zd of %zu at %llu + %zu: %s", n, part.size, (unsigned long long)offset,
                     t.moved, strerror(errno));
        const size_t got = (size_t)n < left ? (size_t)n : left;
        t.moved += got;
        t.direct += part.flags & HR__IO_DIRECT ? got : 0;
        t.parts++;
    }
    return t;
}

static struct tally write_range(struct hr__file *file, const unsigned char *buffer, uint64_t offset,
                                size_t size)
{
    struct tally t = {0};
    while (t.moved < size) {
        const unsigned char *at = buffer + t.moved;
        const struct hr__io_part part =
            hr__direct_plan_write(file, at, offset + t.moved, size - t.moved);
        check_part(file, part, at, offset + t.moved);
        cr_assert_leq(part.size, size - t.moved);
        const ssize_t n = pwrite(part.fd, at, part.size, (off_t)(offset + t.moved));
        cr_assert_gt(n, 0, "%s", strerror(errno));
        t.moved += (size_t)n;
        t.direct += part.flags & HR__IO_DIRECT ? (size_t)n : 0;
        t.parts++;
    }
    return t;
}

/* mincore(2) tells the truth of one's own file, and reads nothing ahead. */
static size_t n_cached(int fd)
{
    static unsigned char resident[HUGE_FILE / PAGE];
    size_t n = 0;
    void *map = mmap(NULL, HUGE_FILE, PROT_READ, MAP_SHARED, fd, 0);
    cr_assert_eq(mincore(map, HUGE_FILE, resident), 0);
    munmap(map, HUGE_FILE);
    for (size_t i = 0; i < sizeof resident; i++) {
        n += resident[i] & 1;
    }
    return n;
}

/* Out of the page cache; another process may hold a page for a moment. The test is skipped if the
 * file system keeps files there. */
static void evict(int fd)
{
    fsync(fd);
    for (int i = 0; i < 100; i++) {
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        if (n_cached(fd) == 0) {
            return;
        }
        pause_ms(5);
    }
    cr_skip_test("the file system does not give up its page cache");
}

static unsigned char *pages(size_t size)
{
    void *p = aligned_alloc(BIG, (size + BIG - 1) / BIG * BIG);
    cr_assert(p != NULL);
    memset(p, 0xEE, size);
    return p;
}

/* A file that is read, and memory for what is read of it, which comes when the test is known to run:
 * a skipped one frees nothing. */
struct reading {
    int fd;
    struct hr__file file;
    unsigned char *p;
};

static struct reading begin_reading(size_t length, enum hr_direct mode)
{
    struct reading r = {.fd = temporary(length)};
    r.file = open_fd(r.fd, HR_STAGE_READ, mode);
    return r;
}

static void end_reading(struct reading *r)
{
    free(r->p);
    hr__file_close(&r->file, 0);
    close(r->fd);
}

/* --- reads --- */

/* All ranges that begin at such offsets and end with the file, or some bytes before. */
static void read_ranges(enum hr_direct mode, size_t length, size_t slack)
{
    static const uint64_t offsets[] = {0, 1, 511, 512, 4096, 5000, BIG};
    static const size_t missing[] = {0, 1, 600, 4096};
    struct reading r = begin_reading(length, mode);
    r.p = pages(length + slack + GUARD);
    fsync(r.fd);
    posix_fadvise(r.fd, 0, 0, POSIX_FADV_DONTNEED);
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        for (size_t j = 0; j < sizeof missing / sizeof *missing; j++) {
            if (offsets[i] + missing[j] >= length) {
                continue;
            }
            const size_t size = length - missing[j] - (size_t)offsets[i];
            memset(r.p, 0xEE, length + slack + GUARD);
            read_range(&r.file, r.p, offsets[i], size, slack);
            check(r.p, size, offsets[i]);
            for (size_t k = size + slack; k < size + slack + GUARD; k++) {
                cr_assert_eq(r.p[k], 0xEE, "written behind the slack");
            }
        }
    }
    end_reading(&r);
}

Test(direct_io, every_range_of_every_length_is_read_whole, .timeout = 60)
{
    static const size_t slacks[] = {0, 1, 4096};
    static const enum hr_direct modes[] = {HR_DIRECT_AUTO, HR_DIRECT_OFF, HR_DIRECT_ON};
    for (size_t i = 0; i < N_LENGTHS; i++) {
        for (size_t j = 0; j < 9; j++) {
            read_ranges(modes[j / 3], lengths[i], slacks[j % 3]);
        }
    }
}

/* Two parts at most at an odd start, and then each chunk as a whole: what the engine relies on. */
Test(direct_io, a_stream_cut_at_the_alignment_is_direct_from_there_on)
{
    const size_t length = 3 * BIG + 7;
    struct reading r = begin_reading(length, HR_DIRECT_ON);
    need_direct(&r.file);
    const size_t align = hr__direct_alignment(&r.file);
    r.p = pages(BIG + align);
    struct tally t = read_range(&r.file, r.p, 5, align - 5, align);
    cr_assert_eq(t.direct, 0);
    for (uint64_t at = align; at < length; at += BIG) {
        const size_t size = length - at < BIG ? (size_t)(length - at) : BIG;
        t = read_range(&r.file, r.p, at, size, align);
        cr_assert_eq(t.parts, 1, "%u parts at %llu", t.parts, (unsigned long long)at);
        cr_assert_eq(t.direct, size);
        check(r.p, size, at);
    }
    end_reading(&r);
}

Test(direct_io, a_tail_without_slack_is_read_buffered)
{
    struct reading r = begin_reading(BIG + 7, HR_DIRECT_ON);
    need_direct(&r.file);
    r.p = pages(BIG + 7);
    const struct tally t = read_range(&r.file, r.p, 0, BIG + 7, 0);
    cr_assert_eq(t.direct, BIG);
    cr_assert_eq(t.parts, 2);
    end_reading(&r);
}

Test(direct_io, memory_that_does_not_fit_is_read_buffered)
{
    struct reading r = begin_reading(BIG, HR_DIRECT_ON);
    need_direct(&r.file);
    r.p = pages(BIG + 1);
    cr_assert_eq(read_range(&r.file, r.p + 1, 0, BIG, 0).direct, 0);
    check(r.p + 1, BIG, 0);
    /* After the head the buffer is aligned as the file is. */
    const size_t align = hr__direct_alignment(&r.file);
    cr_assert_eq(read_range(&r.file, r.p + 1, 1, BIG - 1, 0).direct, BIG - align);
    check(r.p + 1, BIG - 1, 1);
    end_reading(&r);
}

Test(direct_io, a_part_is_no_longer_than_one_request_moves)
{
    const int fd = temporary(1);
    cr_assert_eq(ftruncate(fd, (off_t)5 << 30), 0);
    struct hr__file file = open_fd(fd, HR_STAGE_READ, HR_DIRECT_ON);
    need_direct(&file);
    const struct hr__io_part part =
        hr__direct_plan_read(&file, NULL, 0, (size_t)5 << 30, BIG); /* nothing is read */
    cr_assert_leq(part.size, HR__IO_MAX_BYTES);
    cr_assert_gt(part.size, HR__IO_MAX_BYTES - 2 * BIG);
    check_part(&file, part, NULL, 0);
    hr__file_close(&file, 0);
    close(fd);
}

/* --- auto --- */

/* The planner learns by the first call whether the system answers cachestat. */
static void need_cachestat(struct hr__file *file)
{
    need_direct(file);
    hr__direct_plan_read(file, NULL, 0, HUGE_FILE, 0);
    if (file->direct.no_cachestat) {
        cr_skip_test("the system refuses cachestat");
    }
}

static void expect_direct(struct hr__file *file, unsigned char *p, size_t size, size_t direct)
{
    cr_assert_eq(read_range(file, p, 0, size, 0).direct, direct);
    check(p, size, 0);
}

Test(direct_io, auto_reads_directly_what_is_cold_and_large)
{
    struct reading r = begin_reading(HUGE_FILE, HR_DIRECT_AUTO);
    need_cachestat(&r.file);
    r.p = pages(HUGE_FILE);
    evict(r.fd);
    expect_direct(&r.file, r.p, BIG, 0);
    evict(r.fd);
    expect_direct(&r.file, r.p, HUGE_FILE, HUGE_FILE);
    cr_assert_eq(pread(r.fd, r.p, HUGE_FILE, 0), HUGE_FILE);
    expect_direct(&r.file, r.p, HUGE_FILE, 0);
    end_reading(&r);
}

/* The read that asks starts reading ahead, and a disk that is quick has it done by then. */
Test(direct_io, auto_without_cachestat_asks_by_a_read)
{
    struct reading r = begin_reading(HUGE_FILE, HR_DIRECT_AUTO);
    need_direct(&r.file);
    r.p = pages(HUGE_FILE);
    r.file.direct.no_cachestat = true;
    size_t direct = 0;
    for (int i = 0; direct == 0 && i < 100; i++) {
        evict(r.fd);
        direct = read_range(&r.file, r.p, 0, HUGE_FILE, 0).direct;
        check(r.p, HUGE_FILE, 0);
    }
    cr_assert_eq(direct, HUGE_FILE);
    cr_assert_eq(pread(r.fd, r.p, HUGE_FILE, 0), HUGE_FILE);
    expect_direct(&r.file, r.p, HUGE_FILE, 0);
    end_reading(&r);
}

Test(direct_io, auto_counts_the_pages_that_are_cached)
{
    struct reading r = begin_reading(HUGE_FILE, HR_DIRECT_AUTO);
    need_cachestat(&r.file);
    r.p = pages(HUGE_FILE);
    posix_fadvise(r.fd, 0, 0, POSIX_FADV_RANDOM); /* nothing is read ahead */
    for (size_t cached = BIG; cached < HUGE_FILE; cached += HUGE_FILE - 2 * BIG) {
        evict(r.fd);
        cr_assert_eq(pread(r.fd, r.p, cached, 0), (ssize_t)cached);
        expect_direct(&r.file, r.p, HUGE_FILE, cached < HUGE_FILE / 2 ? HUGE_FILE : 0);
    }
    end_reading(&r);
}

/* A direct read would have to wait until it is. */
Test(direct_io, auto_reads_through_the_cache_what_is_not_on_the_disk_yet)
{
    struct reading r = begin_reading(HUGE_FILE, HR_DIRECT_AUTO);
    need_cachestat(&r.file);
    r.p = pages(HUGE_FILE);
    evict(r.fd);
    fill(r.p, PAGE, BIG);
    cr_assert_eq(pwrite(r.fd, r.p, PAGE, BIG), PAGE);
    expect_direct(&r.file, r.p, HUGE_FILE, 0);
    end_reading(&r);
}

Test(direct_io, a_cache_that_cannot_be_asked_means_buffered)
{
    const int fd = temporary(BIG);
    struct hr__file file = open_fd(fd, HR_STAGE_READ, HR_DIRECT_AUTO);
    need_direct(&file);
    file.fd = -1; /* refuses both ways to ask */
    const struct hr__io_part part = hr__direct_plan_read(&file, NULL, 0, HUGE_FILE, 0);
    cr_assert_eq(part.flags & HR__IO_DIRECT, 0);
    cr_assert_eq(file.direct.use, HR__DIRECT_NEVER);
    cr_assert(strstr(file.direct.why, "Bad file descriptor") != NULL, "%s", file.direct.why);
    file.fd = fd;
    hr__file_close(&file, 0);
    close(fd);
}

/* --- writes --- */

/* Streams are written piece after piece, the pieces of a codec at odd offsets. */
static struct tally write_stream(struct hr__file *file, unsigned char *p, size_t length,
                                 size_t piece)
{
    struct tally sum = {0};
    while (sum.moved < length) {
        const size_t n = length - sum.moved < piece ? length - sum.moved : piece;
        fill(p, n, sum.moved);
        const struct tally t = write_range(file, p, file->start + sum.moved, n);
        sum.moved += n;
        sum.direct += t.direct;
        sum.parts += t.parts;
    }
    return sum;
}

static void check_file(const char *path, size_t length)
{
    struct stat st;
    unsigned char *p = pages(length + 1);
    const int fd = open(path, O_RDONLY);
    cr_assert_eq(fstat(fd, &st), 0);
    cr_assert_eq((size_t)st.st_size, length);
    cr_assert_eq(read(fd, p, length + 1), (ssize_t)length);
    check(p, length, 0);
    free(p);
    close(fd);
}

static void write_over_a_longer_file(enum hr_direct mode, size_t length, size_t piece)
{
    char path[] = "/tmp/headrace-direct-XXXXXX";
    const int old = mkstemp(path);
    unsigned char *p = pages(BIG);
    cr_assert_eq(ftruncate(old, 4 * BIG), 0);
    close(old);
    struct hr__target target;
    hr_error error = {0};
    cr_assert_eq(hr__target_open(path, false, mode, &target, &error), HR_OK, "%s", error.text);
    const size_t align = hr__direct_alignment(&target.file);
    const struct tally t = write_stream(&target.file, p, length, piece);
    if (mode != HR_DIRECT_ON) {
        cr_assert_eq(t.direct, 0);
    } else if (align > 1 && piece == BIG) {
        cr_assert_eq(t.direct, length - length % align);
    }
    cr_assert_eq(hr__target_commit(&target, length, &error), HR_OK, "%s", error.text);
    check_file(path, length);
    unlink(path);
    free(p);
}

Test(direct_io, a_written_file_has_its_exact_length, .timeout = 60)
{
    static const enum hr_direct modes[] = {HR_DIRECT_AUTO, HR_DIRECT_OFF, HR_DIRECT_ON};
    static const size_t pieces[] = {BIG, BIG - 1, 40001};
    for (size_t i = 0; i < N_LENGTHS; i++) {
        for (size_t j = 0; j < 9; j++) {
            write_over_a_longer_file(modes[j / 3], lengths[i], pieces[j % 3]);
        }
    }
}

Test(direct_io, a_file_is_written_through_a_users_descriptor_at_any_offset)
{
    for (off_t start = 0; start <= 4096; start += 1024) {
        unsigned char *p = pages(BIG);
        const int fd = temporary(100);
        lseek(fd, start, SEEK_SET);
        struct hr__file file = open_fd(fd, HR_STAGE_WRITE, HR_DIRECT_ON);
        write_stream(&file, p, 3 * BIG + 7, BIG);
        hr__file_close(&file, 3 * BIG + 7);
        cr_assert_eq(lseek(fd, 0, SEEK_CUR), start + 3 * BIG + 7);
        cr_assert_eq(lseek(fd, 0, SEEK_END), start + 3 * BIG + 7);
        for (off_t at = 0; at < 3 * BIG + 7; at += BIG) {
            const ssize_t n = pread(fd, p, BIG, start + at);
            check(p, (size_t)n, (uint64_t)at);
        }
        close(fd);
        free(p);
    }
}

/* --- refusals --- */

/* A file system that takes the open and not the transfer: it is told a unit that is too small. */
static int64_t be_refused(struct hr__file *file, unsigned char *p, struct hr__io_request *request)
{
    file->direct.memory_align = 1;
    const struct hr__io_part part = hr__direct_plan_read(file, p + 1, 0, BIG, 0);
    cr_assert(part.flags & HR__IO_DIRECT);
    const ssize_t n = pread(part.fd, p + 1, part.size, 0);
    *request = (struct hr__io_request){.flags = part.flags, .result = n < 0 ? -errno : n};
    return request->result;
}

Test(direct_io, a_transfer_that_is_refused_is_made_again_buffered)
{
    struct reading r = begin_reading(BIG + 7, HR_DIRECT_ON);
    need_direct(&r.file);
    r.p = pages(BIG + 8);
    struct hr__io_request request;
    if (be_refused(&r.file, r.p, &request) >= 0) {
        cr_skip_test("the file system takes any address");
    }
    cr_assert(hr__direct_refused(&r.file, &request));
    cr_assert(hr__direct_refused(&r.file, &request), "another that was in flight");
    cr_assert(strstr(r.file.direct.why, "Invalid argument") != NULL, "%s", r.file.direct.why);
    cr_assert_eq(hr__direct_alignment(&r.file), 1);
    const struct tally t = read_range(&r.file, r.p + 1, 0, BIG + 7, 0);
    cr_assert_eq(t.direct, 0);
    check(r.p + 1, BIG + 7, 0);
    request.flags = hr__direct_plan_read(&r.file, r.p, 0, BIG, 0).flags;
    cr_assert_not(hr__direct_refused(&r.file, &request), "a buffered one is refused for good");
    end_reading(&r);
}

Test(direct_io, other_failures_are_no_refusals)
{
    struct hr__file file = open_fd(temporary(1), HR_STAGE_READ, HR_DIRECT_ON);
    need_direct(&file);
    static const int64_t results[] = {-EIO, -ENOSPC, -ECANCELED, -EBADF, 0, 1};
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        const struct hr__io_request request = {.flags = HR__IO_DIRECT, .result = results[i]};
        cr_assert_not(hr__direct_refused(&file, &request));
    }
    cr_assert_eq(file.direct.use, HR__DIRECT_ALWAYS);
    hr__file_close(&file, 0);
}

/* The limit on open files stands for every refusal at open. */
Test(direct_io, a_file_that_is_not_opened_twice_is_read_buffered)
{
    const int fd = temporary(BIG + 7);
    const rlim_t n = (rlim_t)fd + 2; /* it and its duplicate */
    const struct rlimit limit = {.rlim_cur = n, .rlim_max = n};
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    struct hr__file file = open_fd(fd, HR_STAGE_READ, HR_DIRECT_ON);
    cr_assert(strstr(file.direct.why, "Too many open files") != NULL, "%s", file.direct.why);
    cr_assert_eq(hr__direct_alignment(&file), 1);
    unsigned char *p = pages(BIG + 7);
    cr_assert_eq(read_range(&file, p, 0, BIG + 7, 0).direct, 0);
    check(p, BIG + 7, 0);
    hr__file_close(&file, 0);
    free(p);
}

/* --- descriptors of the user's --- */

Test(direct_io, a_users_descriptor_keeps_its_flags_and_the_twin_is_closed)
{
    const int fd = temporary(BIG);
    const int flags = fcntl(fd, F_GETFL);
    struct hr__file file = open_fd(fd, HR_STAGE_READ, HR_DIRECT_ON);
    need_direct(&file);
    const int twin = file.direct.twin;
    cr_assert_eq(fcntl(fd, F_GETFL), flags);
    cr_assert_neq(fcntl(twin, F_GETFD) & FD_CLOEXEC, 0);
    hr__file_close(&file, 5);
    cr_assert_eq(fcntl(twin, F_GETFD), -1);
    cr_assert_eq(lseek(fd, 0, SEEK_CUR), 5);
    close(fd);
}

Test(direct_io, a_users_direct_descriptor_moves_odd_lengths)
{
    static const enum hr_direct modes[] = {HR_DIRECT_AUTO, HR_DIRECT_OFF, HR_DIRECT_ON};
    for (size_t i = 0; i < 3; i++) {
        const int fd = temporary(BIG + 7);
        fsync(fd);
        if (fcntl(fd, F_SETFL, O_DIRECT) != 0) {
            cr_skip_test("no O_DIRECT here");
        }
        unsigned char *p = pages(2 * BIG);
        struct hr__file file = open_fd(fd, HR_STAGE_READ, modes[i]);
        cr_assert_eq(read_range(&file, p, 0, BIG + 7, 0).direct,
                     modes[i] == HR_DIRECT_OFF ? 0 : BIG);
        check(p, BIG + 7, 0);
        hr__file_close(&file, 0);
        file = open_fd(fd, HR_STAGE_WRITE, modes[i]);
        cr_assert_eq(write_range(&file, p, 0, BIG + 7).direct, modes[i] == HR_DIRECT_OFF ? 0 : BIG);
        hr__file_close(&file, 0);
        cr_assert_neq(fcntl(fd, F_GETFL) & O_DIRECT, 0);
        cr_assert_eq(lseek(fd, 0, SEEK_END), BIG + 7);
        close(fd);
        free(p);
    }
}

Test(direct_io, streams_have_no_twin_and_sockets_are_known)
{
    for (unsigned kind = 0; kind < 2; kind++) {
        int fds[2];
        open_stream(fds, kind == 1, false);
        struct hr__file file = open_fd(fds[0], HR_STAGE_READ, HR_DIRECT_ON);
        cr_assert_eq(file.io_flags, kind == 1 ? HR__IO_SOCKET : 0);
        cr_assert_eq(hr__direct_alignment(&file), 1);
        cr_assert_not(file.direct.has_twin);
        cr_assert_str_empty(file.direct.why);
        hr__file_close(&file, 0);
        close_stream(fds);
    }
}

/* --- through the engines --- */

BOTH(direct_parts_pass_through_the_engine)
{
    const size_t length = 3 * BIG + 7;
    const int fd = temporary(0);
    unsigned char *p = pages(length + BIG);
    struct hr__file file = open_fd(fd, HR_STAGE_WRITE, HR_DIRECT_ON);
    fill(p, length, 0);
    for (size_t at = 0; at < length;) {
        const struct hr__io_part part = hr__direct_plan_write(&file, p + at, at, length - at);
        struct hr__io_request request = make(rig, HR__IO_WRITE, part.fd, p + at, part.size, at);
        request.flags = part.flags;
        start(rig, &request);
        cr_assert_gt(finish(rig, &request), 0);
        at += (size_t)request.result;
    }
    hr__file_close(&file, length);
    memset(p, 0xEE, length + BIG);
    file = open_fd(fd, HR_STAGE_READ, HR_DIRECT_ON);
    file.start = 0;
    const struct hr__io_part part = hr__direct_plan_read(&file, p, 0, length, BIG);
    struct hr__io_request request = make(rig, HR__IO_READ, part.fd, p, part.size, 0);
    request.flags = part.flags;
    start(rig, &request);
    cr_assert_eq(finish(rig, &request), (int64_t)length);
    check(p, length, 0);
    hr__file_close(&file, length);
    close(fd);
    free(p);
}
