// SPDX-License-Identifier: Apache-2.0
/* What the Criterion tests of sockets, foreign descriptors and time limits begin with: a pattern to
 * send, a folder, both I/O engines, short words for the ends of a pipeline, and the assertions on
 * one transfer. Included by a test file once. */
#ifndef HR_TEST_STREAM_SUITE_H
#define HR_TEST_STREAM_SUITE_H

#include <criterion/criterion.h>
#include <errno.h>
#include <headrace.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engines.h"
#include "folder_suite.h"
#include "peers.h"

enum { CHUNK = 8192, LARGE = 40 * CHUNK + 13 };

static unsigned char pattern[LARGE];
static unsigned char got[LARGE + 1];
static hr_loop *loops[2];
static unsigned n_loops;

static void set_up(void)
{
    make_directory();
    fill_pattern(pattern, LARGE);
    n_loops = test_loops(loops);
    signal(SIGPIPE, SIG_IGN); /* of the test's own ends */
}

static void tear_down(void)
{
    for (unsigned i = 0; i < n_loops; i++)
        hr_loop_free(loops[i]);
    remove_directory();
}

static inline struct hr_source socket_source(const char *address)
{
    return (struct hr_source){
        .struct_size = sizeof(struct hr_source), .kind = HR_SOCKET, .path = address};
}

static inline struct hr_source fd_source(int fd)
{
    return (struct hr_source){.struct_size = sizeof(struct hr_source), .kind = HR_FD, .fd = fd};
}

static inline struct hr_source memory_source(const void *data, size_t size)
{
    return (struct hr_source){
        .struct_size = sizeof(struct hr_source), .kind = HR_MEMORY, .data = data, .size = size};
}

static inline struct hr_sink sink_at(uint32_t kind, const char *path)
{
    return (struct hr_sink){.struct_size = sizeof(struct hr_sink), .kind = kind, .path = path};
}

static inline struct hr_sink fd_sink(int fd)
{
    return (struct hr_sink){.struct_size = sizeof(struct hr_sink), .kind = HR_FD, .fd = fd};
}

static inline struct hr_sink memory_sink(void)
{
    memset(got, 0, sizeof got);
    return (struct hr_sink){
        .struct_size = sizeof(struct hr_sink), .kind = HR_MEMORY, .data = got, .size = sizeof got};
}

static inline struct hr_pipeline_config config_of(const struct hr_source *source,
                                                  struct hr_sink sink)
{
    return (struct hr_pipeline_config){.struct_size = sizeof(struct hr_pipeline_config),
                                       .n_sources = 1,
                                       .sources = source,
                                       .sink = sink,
                                       .chunk_size = CHUNK,
                                       .depth = 4};
}

static inline void assert_run(hr_loop *loop, const struct hr_pipeline_config *config,
                              uint64_t bytes_out)
{
    hr_error error = {0};
    struct hr_stats stats = {.struct_size = sizeof stats};
    cr_assert_eq(run_config(loop, config, &stats, &error), HR_OK, "%s", error.text);
    cr_assert_eq(stats.stages[HR_STAGE_WRITE].bytes_out, bytes_out);
}

static inline void assert_starts(bool started)
{
    cr_assert(started, "no thread for the peer");
}

static inline void assert_got(const struct peer *peer, size_t size)
{
    cr_assert(!peer->failed);
    cr_assert_eq(peer->n_moved, size, "%zu of %zu bytes arrived", peer->n_moved, size);
    cr_assert(memcmp(peer->got, pattern, size) == 0);
}

/* A callback source that gives the pattern; user is a uint64_t, its size. */
static inline int64_t give_pattern(void *user, void *buffer, size_t size, uint64_t offset)
{
    const uint64_t left = *(const uint64_t *)user - offset;
    const size_t n = left < size ? (size_t)left : size;
    memcpy(buffer, pattern + offset, n);
    return (int64_t)n;
}

/* A callback sink that takes the pattern, in order; user is a size_t that counts its bytes. */
static inline int64_t take_pattern(void *user, const void *bytes, size_t size, uint64_t offset)
{
    size_t *n_bytes = user;
    if (offset != *n_bytes || memcmp(bytes, pattern + offset, size) != 0)
        return -EPROTO;
    *n_bytes += size;
    return (int64_t)size;
}

#endif
