// SPDX-License-Identifier: Apache-2.0
/* What a descriptor is found to be when it is opened as an end of a pipeline. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "file_io.h"

static struct hr__file describe_fd(int fd, enum hr_stage stage)
{
    struct hr__file file;
    hr_error error = {0};
    cr_assert_eq(hr__file_from_fd(fd, stage, HR_DIRECT_OFF, &file, &error), HR_OK, "%s",
                 error.text);
    return file;
}

static int temporary(off_t size)
{
    char name[] = "/tmp/headrace-file-XXXXXX";
    const int fd = mkstemp(name);
    unlink(name);
    cr_assert_eq(ftruncate(fd, size), 0);
    return fd;
}

Test(file_io, a_regular_file_has_offsets_and_its_size_from_its_position_on)
{
    static const off_t positions[] = {0, 1, 4096, 4097, 5000};
    const int fd = temporary(4097);
    for (size_t i = 0; i < sizeof positions / sizeof *positions; i++) {
        lseek(fd, positions[i], SEEK_SET);
        const struct hr__file file = describe_fd(fd, HR_STAGE_READ);
        cr_assert(file.positional);
        cr_assert_eq(file.start, (uint64_t)positions[i]);
        cr_assert_eq(file.size, positions[i] < 4097 ? 4097 - (uint64_t)positions[i] : 0);
        cr_assert_eq(file.io_flags, 0);
    }
    close(fd);
}

Test(file_io, files_whose_size_says_nothing_are_read_to_their_end)
{
    static const char *const paths[] = {"/proc/self/maps",
                                        "/sys/kernel/mm/transparent_hugepage/enabled",
                                        "/sys/kernel/uevent_seqnum"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct hr__file file;
        hr_error error;
        if (access(paths[i], R_OK) != 0) {
            continue;
        }
        cr_assert_eq(hr__file_open(paths[i], HR_DIRECT_ON, &file, &error), HR_OK);
        cr_assert_not(file.positional, "%s", paths[i]);
        cr_assert_eq(file.size, UINT64_MAX);
        cr_assert_not(file.direct.has_twin);
        hr__file_close(&file, 0);
    }
    const int fd = temporary(0);
    cr_assert_not(describe_fd(fd, HR_STAGE_READ).positional, "empty now");
    cr_assert(describe_fd(fd, HR_STAGE_WRITE).positional);
    close(fd);
}

Test(file_io, an_appending_descriptor_is_written_in_order)
{
    const int fd = temporary(0);
    fcntl(fd, F_SETFL, O_APPEND);
    cr_assert_not(describe_fd(fd, HR_STAGE_WRITE).positional);
    close(fd);
}

Test(file_io, flags_tell_sockets_and_direct_files)
{
    int pair[2];
    int ends[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    cr_assert_eq(pipe2(ends, O_DIRECT), 0); /* a pipe of packets */
    const int fd = temporary(4096);
    cr_assert_eq(describe_fd(pair[0], HR_STAGE_READ).io_flags, HR__IO_SOCKET);
    cr_assert_eq(describe_fd(pair[0], HR_STAGE_WRITE).io_flags, HR__IO_SOCKET);
    cr_assert_eq(describe_fd(ends[0], HR_STAGE_READ).io_flags, 0);
    cr_assert_eq(describe_fd(ends[1], HR_STAGE_WRITE).io_flags, 0);
    if (fcntl(fd, F_SETFL, O_DIRECT) == 0) {
        struct hr__file file = describe_fd(fd, HR_STAGE_READ);
        cr_assert_eq(file.io_flags, HR__IO_DIRECT);
        hr__file_close(&file, 0);
    }
    close(fd);
    close(ends[0]);
    close(ends[1]);
    close(pair[0]);
    close(pair[1]);
}

static void assert_refused(int fd, enum hr_stage stage, const char *why)
{
    struct hr__file file;
    hr_error error = {0};
    cr_assert_eq(hr__file_from_fd(fd, stage, HR_DIRECT_OFF, &file, &error), HR_EINVAL);
    cr_assert_eq(error.stage, (int32_t)stage);
    cr_assert(strstr(error.text, why), "%s", error.text);
}

/* As a source and as a sink. */
static void assert_refused_as_both(int fd, const char *why)
{
    assert_refused(fd, HR_STAGE_READ, why);
    assert_refused(fd, HR_STAGE_WRITE, why);
}

Test(file_io, a_socket_that_listens_or_is_no_stream_is_refused)
{
    int packets[2];
    const struct sockaddr any = {.sa_family = AF_UNIX}; /* unix(7): a name of the kernel's choice */
    const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    cr_assert_eq(bind(listener, &any, sizeof any.sa_family), 0);
    cr_assert_eq(listen(listener, 1), 0);
    const int datagrams = socket(AF_INET, SOCK_DGRAM, 0);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, packets), 0);
    assert_refused_as_both(listener, "the socket listens: accept() first");
    assert_refused_as_both(datagrams, "the socket is no stream socket");
    assert_refused_as_both(packets[0], "the socket is no stream socket");
    close(listener);
    close(datagrams);
    close(packets[0]);
    close(packets[1]);
}
