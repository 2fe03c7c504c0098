// SPDX-License-Identifier: Apache-2.0
/* Foreign descriptors, device files and sources in a row, on both I/O engines: what arrives, what
 * is left as it was found, and how many may be idle at once. */
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "stream_suite.h"

TestSuite(descriptors, .init = set_up, .fini = tear_down, .timeout = 60);

/* ---- many idle ones ---- */

enum { N_IDLE = 256 };

struct idle {
    int far;
    struct hr_source source;
    unsigned char got[4];
    hr_pipeline *pipeline;
};

static void open_idle(hr_loop *loop, struct idle *idle)
{
    int ends[2];
    hr_error error = {0};
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    idle->far = ends[1];
    idle->source = fd_source(ends[0]);
    struct hr_sink sink = memory_sink();
    sink.data = idle->got;
    sink.size = sizeof idle->got;
    struct hr_pipeline_config config = config_of(&idle->source, sink);
    config.chunk_size = 4096;
    cr_assert_eq(hr_pipeline_create(loop, &config, &idle->pipeline, &error), HR_OK, "%s",
                 error.text);
    close(ends[0]); /* the pipeline has a duplicate */
}

/* Even ones are served, odd ones cancelled. */
static void end_idle(struct idle *idle, unsigned i)
{
    hr_error error = {0};
    if (i % 2 == 0)
        cr_assert(write_all(idle->far, pattern + i, sizeof idle->got));
    else
        hr_pipeline_cancel(idle->pipeline);
    close(idle->far);
    const hr_status status = hr_pipeline_run(idle->pipeline, &error);
    cr_assert_eq(status, i % 2 ? HR_ECANCELED : HR_OK, "%u: %s", i, error.text);
    if (i % 2 == 0)
        cr_assert(memcmp(idle->got, pattern + i, sizeof idle->got) == 0);
}

static void assert_output(void)
{
    FILE *file = fopen(path_of("out"), "rb");
    cr_assert(file && fread(got, 1, sizeof got, file) == LARGE && fclose(file) == 0);
    cr_assert(memcmp(got, pattern, LARGE) == 0);
}

Test(descriptors, a_file_is_copied_beside_256_idle_sockets)
{
    static struct idle idle[N_IDLE];
    const struct rlimit files = {.rlim_cur = 1024, .rlim_max = 1024};
    setrlimit(RLIMIT_NOFILE, &files); /* may be refused: then there are enough */
    FILE *file = fopen(path_of("in"), "wb");
    cr_assert(file && fwrite(pattern, 1, LARGE, file) == LARGE && fclose(file) == 0);
    for (unsigned l = 0; l < n_loops; l++) {
        for (unsigned i = 0; i < N_IDLE; i++)
            open_idle(loops[l], &idle[i]);
        cr_assert_eq(hr_loop_poll(loops[l], 0, NULL), HR_PENDING);
        const struct hr_source source = {
            .struct_size = sizeof source, .kind = HR_FILE, .path = path_of("in")};
        const struct hr_pipeline_config config =
            config_of(&source, sink_at(HR_FILE, path_of("out")));
        assert_run(loops[l], &config, LARGE);
        assert_output();
        for (unsigned i = 0; i < N_IDLE; i++)
            end_idle(&idle[i], i);
        for (unsigned i = 0; i < N_IDLE; i++)
            hr_pipeline_free(idle[i].pipeline);
    }
}

/* ---- descriptors of others ---- */

enum { N_LINES = 4 }; /* pipe or socket, blocking or not */

/* ends[0] is read, ends[1] written. */
static void make_line(unsigned kind, int ends[2])
{
    cr_assert_eq(kind / 2 ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)
                          : pipe2(ends, O_CLOEXEC),
                 0);
}

static int flags_of(int fd)
{
    return fcntl(fd, F_GETFL);
}

static void make_nonblocking(int fd, unsigned kind)
{
    if (kind % 2)
        cr_assert_eq(fcntl(fd, F_SETFL, flags_of(fd) | O_NONBLOCK), 0);
}

Test(descriptors, pipes_and_sockets_of_either_mode_keep_their_flags)
{
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned from = 0; from < N_LINES; from++)
            for (unsigned to = 0; to < N_LINES; to++) {
                int in[2];
                int out[2];
                make_line(from, in);
                make_line(to, out);
                make_nonblocking(in[0], from);
                make_nonblocking(out[1], to);
                const int before[2] = {flags_of(in[0]), flags_of(out[1])};
                struct peer sender = {
                    .fd = in[1], .listener = -1, .bytes = pattern, .size = LARGE, .step = 3001};
                struct peer receiver = {
                    .fd = out[0], .listener = -1, .got = got, .room = sizeof got, .step = 1999};
                assert_starts(start_sender(&sender) && start_receiver(&receiver));
                const struct hr_source source = fd_source(in[0]);
                const struct hr_pipeline_config config = config_of(&source, fd_sink(out[1]));
                assert_run(loops[l], &config, LARGE);
                cr_assert_eq(flags_of(in[0]), before[0]);
                cr_assert_eq(flags_of(out[1]), before[1]);
                close(in[0]);
                close(out[1]);
                join_peer(&sender);
                join_peer(&receiver);
                assert_got(&receiver, LARGE);
            }
}

Test(descriptors, with_a_length_no_byte_beyond_it_is_taken)
{
    static const struct {
        uint64_t offset, length;
    } ranges[] = {{0, 0}, {0, 1}, {0, 3}, {0, 4096}, {7, 0}, {7, 5}, {1, 4097}, {4096, 3000}};
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned kind = 0; kind < N_LINES; kind++)
            for (unsigned i = 0; i < 3 * sizeof ranges / sizeof ranges[0]; i++) {
                const uint64_t offset = ranges[i / 3].offset;
                const uint64_t length = ranges[i / 3].length;
                int ends[2];
                make_line(kind, ends);
                make_nonblocking(ends[0], kind);
                cr_assert(write_all(ends[1], pattern, 10000));
                struct hr_source source = fd_source(ends[0]);
                source.flags = HR_RANGE;
                source.offset = offset;
                source.length = length;
                struct hr_pipeline_config config = config_of(&source, memory_sink());
                config.decode = i % 3 ? HR_CODEC_AUTO : HR_CODEC_NONE;
                config.chunk_size = i % 3 == 2 ? 100 : CHUNK;
                assert_run(loops[l], &config, length);
                cr_assert(memcmp(got, pattern + offset, length) == 0);
                unsigned char next[16];
                cr_assert_eq(read_until(ends[0], next, sizeof next), sizeof next);
                cr_assert(memcmp(next, pattern + offset + length, sizeof next) == 0,
                          "range %u+%u, decode %u: %d bytes too many were taken", (unsigned)offset,
                          (unsigned)length, config.decode,
                          (int)((unsigned char *)memmem(pattern, LARGE, next, sizeof next) -
                                pattern - (ptrdiff_t)(offset + length)));
                close(ends[0]);
                close(ends[1]);
            }
}

Test(descriptors, an_empty_range_of_a_silent_source_is_done_at_once)
{
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned decode = 0; decode < 2; decode++) {
            int ends[2];
            make_line(0, ends);
            struct hr_source source = fd_source(ends[0]);
            source.flags = HR_RANGE;
            struct hr_pipeline_config config = config_of(&source, memory_sink());
            config.decode = decode ? HR_CODEC_AUTO : HR_CODEC_NONE;
            config.idle_ms = 2000;
            assert_run(loops[l], &config, 0);
            close(ends[0]);
            close(ends[1]);
        }
}

static bool is_device(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISCHR(st.st_mode);
}

/* Who has the descriptor, too, may write to it before and after. */
Test(descriptors, a_pipeline_that_wrote_nothing_leaves_the_position)
{
    FILE *file = tmpfile();
    const struct hr_pipeline_config config = {
        .struct_size = sizeof config,
        .n_sources = 1,
        .sources = &(struct hr_source){.struct_size = sizeof(struct hr_source), .kind = HR_MEMORY},
        .sink = {.struct_size = sizeof config.sink, .kind = HR_FD, .fd = fileno(file)}};
    hr_pipeline *pipeline = NULL;
    cr_assert_eq(hr_pipeline_create(NULL, &config, &pipeline, NULL), HR_OK);
    cr_assert_eq(write(fileno(file), "abc", 3), 3);
    hr_pipeline_free(pipeline);
    cr_assert_eq(lseek(fileno(file), 0, SEEK_CUR), 3);
    fclose(file);
}

Test(descriptors, device_files_stay_what_they_are)
{
    for (unsigned l = 0; l < n_loops; l++) {
        hr_error error = {0};
        struct hr_source source = {
            .struct_size = sizeof source, .kind = HR_FILE, .path = "/dev/zero", .flags = HR_RANGE};
        source.length = 3 * CHUNK + 1;
        struct hr_pipeline_config config = config_of(&source, sink_at(HR_FILE, "/dev/null"));
        assert_run(loops[l], &config, 3 * CHUNK + 1);
        config.sink.path = "/dev/zero";
        assert_run(loops[l], &config, 3 * CHUNK + 1);
        config.sink.path = "/dev/full";
        cr_assert_eq(run_config(loops[l], &config, NULL, &error), HR_EIO);
        cr_assert_eq(error.native, ENOSPC);
        cr_assert_eq(error.stage, HR_STAGE_WRITE);
        cr_assert_eq(error.offset, 0);
        cr_assert(strstr(error.text, "/dev/full"), "%s", error.text);
        cr_assert(is_device("/dev/null") && is_device("/dev/zero") && is_device("/dev/full"));
        source.path = "/dev/null";
        config.sink = memory_sink();
        assert_run(loops[l], &config, 0);
    }
}

static size_t read_plainly(const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const size_t n = fd >= 0 ? read_until(fd, got, sizeof got) : 0;
    close(fd);
    return n;
}

Test(descriptors, files_of_proc_and_sys_are_read_to_their_end)
{
    static const char *const paths[] = {"/proc/version", "/proc/self/status",
                                        "/sys/kernel/mm/transparent_hugepage/enabled",
                                        "/sys/devices/system/cpu/online"};
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned i = 0; i < 2 * sizeof paths / sizeof paths[0]; i++) {
            const size_t size = read_plainly(paths[i / 2]);
            if (size == 0)
                continue; /* not on this machine */
            hr_error error = {0};
            struct hr_stats stats = {.struct_size = sizeof stats};
            const struct hr_source source = {
                .struct_size = sizeof source, .kind = HR_FILE, .path = paths[i / 2]};
            struct hr_pipeline_config config = config_of(&source, memory_sink());
            config.direct = i % 2 ? HR_DIRECT_ON : HR_DIRECT_AUTO;
            cr_assert_eq(run_config(loops[l], &config, &stats, &error), HR_OK, "%s", error.text);
            /* a status may change its length between two looks */
            cr_assert_gt(stats.stages[HR_STAGE_WRITE].bytes_out, size / 2, "%s", paths[i / 2]);
            cr_assert_eq(stats.direct_bytes, 0);
        }
}

/* Adds 5000 bytes of the pattern from each kind of source. */
Test(descriptors, sources_of_all_kinds_are_one_stream)
{
    enum { PART = 5000, N_PARTS = 6 };
    FILE *file = fopen(path_of("in"), "wb");
    cr_assert(file && fwrite(pattern, 1, PART, file) == PART && fclose(file) == 0);
    for (unsigned l = 0; l < n_loops; l++) {
        int line[2];
        int pair[2];
        uint64_t part = PART;
        char address[64] = "tcp://127.0.0.1:0";
        make_line(0, line);
        make_line(2, pair);
        struct peer peers[] = {
            {.fd = -1, .listener = listen_at(address, sizeof address)},
            {.fd = line[1], .listener = -1},
            {.fd = pair[1], .listener = -1},
        };
        for (unsigned i = 0; i < 3; i++) {
            peers[i].bytes = pattern;
            peers[i].size = PART;
            peers[i].step = 700;
            assert_starts(start_sender(&peers[i]));
        }
        const struct hr_source sources[N_PARTS] = {
            fd_source(line[0]),
            {.struct_size = sizeof *sources, .kind = HR_FILE, .path = path_of("in")},
            socket_source(address),
            memory_source(pattern, PART),
            fd_source(pair[0]),
            {.struct_size = sizeof *sources,
             .kind = HR_CALLBACK,
             .read = give_pattern,
             .user = &part}};
        struct hr_pipeline_config config = config_of(sources, memory_sink());
        config.n_sources = N_PARTS;
        config.chunk_size = 1000;
        assert_run(loops[l], &config, N_PARTS * PART);
        for (unsigned i = 0; i < N_PARTS; i++)
            cr_assert(memcmp(got + i * PART, pattern, PART) == 0, "source %u", i);
        for (unsigned i = 0; i < 3; i++)
            join_peer(&peers[i]);
        close(line[0]);
        close(pair[0]);
    }
}

static int64_t give_then_fail(void *user, void *buffer, size_t size, uint64_t offset)
{
    if (offset >= *(const uint64_t *)user)
        return -EBADMSG;
    return give_pattern(user, buffer, size, offset);
}

Test(descriptors, a_source_that_fails_after_others_is_told_by_its_place_in_the_stream)
{
    for (unsigned l = 0; l < n_loops; l++)
        for (uint64_t size = 0; size < 3000; size += 999) {
            size_t n_bytes = 0;
            uint64_t fails_at = size;
            hr_error error = {0};
            const struct hr_source sources[] = {memory_source(pattern, 0),
                                                {.struct_size = sizeof *sources,
                                                 .kind = HR_CALLBACK,
                                                 .read = give_then_fail,
                                                 .user = &fails_at}};
            struct hr_sink sink = sink_at(HR_CALLBACK, NULL);
            sink.write = take_pattern;
            sink.user = &n_bytes;
            struct hr_pipeline_config config = config_of(sources, sink);
            config.n_sources = 2;
            config.chunk_size = 1000;
            cr_assert_eq(run_config(loops[l], &config, NULL, &error), HR_EIO);
            cr_assert_eq(error.native, EBADMSG);
            cr_assert_eq(error.stage, HR_STAGE_READ);
            cr_assert_eq(error.offset, size);
            cr_assert_eq(n_bytes, size);
        }
}

/* ---- FIFOs ---- */

static const char *make_fifo(const char *name)
{
    const char *path = path_of(name);
    unlink(path);
    cr_assert_eq(mkfifo(path, 0666), 0);
    return path;
}

static hr_pipeline *create(hr_loop *loop, const struct hr_source *source, struct hr_sink sink)
{
    struct hr_pipeline_config config = config_of(source, sink);
    hr_pipeline *pipeline = NULL;
    hr_error error = {0};
    cr_assert_eq(hr_pipeline_create(loop, &config, &pipeline, &error), HR_OK, "%s", error.text);
    return pipeline;
}

static void end_as(hr_pipeline *pipeline, hr_status status, int native)
{
    hr_error error = {0};
    cr_assert_eq(hr_pipeline_run(pipeline, &error), status, "%s", error.text);
    cr_assert(status == HR_OK || error.native == native, "%s", error.text);
    hr_pipeline_free(pipeline);
}

Test(descriptors, a_fifo_without_a_peer_holds_up_nobody_and_can_be_cancelled)
{
    const char *path = make_fifo("in");
    const struct hr_source file = {.struct_size = sizeof file, .kind = HR_FILE, .path = path};
    const struct hr_source memory = memory_source(pattern, LARGE);
    for (unsigned l = 0; l < n_loops; l++) {
        const struct hr_sink null = {.struct_size = sizeof null};
        hr_pipeline *writes = create(loops[l], &memory, sink_at(HR_FILE, path));
        end_as(create(loops[l], &memory, memory_sink()), HR_OK, 0);
        cr_assert_eq(hr_pipeline_state(writes, NULL), HR_PENDING);
        hr_pipeline_cancel(writes);
        end_as(writes, HR_ECANCELED, 0);
        hr_pipeline *reads = create(loops[l], &file, null);
        end_as(create(loops[l], &memory, memory_sink()), HR_OK, 0);
        cr_assert_eq(hr_pipeline_state(reads, NULL), HR_PENDING);
        hr_pipeline_cancel(reads);
        end_as(reads, HR_ECANCELED, 0);
        cr_assert(memcmp(got, pattern, LARGE) == 0);
    }
}

/* Two pipelines of one loop are each other's peers, whoever is there first. */
Test(descriptors, a_fifo_waits_for_its_peer)
{
    const char *path = make_fifo("in");
    const struct hr_source file = {.struct_size = sizeof file, .kind = HR_FILE, .path = path};
    const struct hr_source memory = memory_source(pattern, LARGE);
    for (unsigned i = 0; i < 2 * n_loops; i++) {
        hr_loop *loop = loops[i / 2];
        hr_pipeline *first = i % 2 ? create(loop, &memory, sink_at(HR_FILE, path))
                                   : create(loop, &file, memory_sink());
        cr_assert_eq(hr_loop_poll(loop, 0, NULL), HR_PENDING);
        hr_pipeline *second = i % 2 ? create(loop, &file, memory_sink())
                                    : create(loop, &memory, sink_at(HR_FILE, path));
        end_as(first, HR_OK, 0);
        end_as(second, HR_OK, 0);
        cr_assert(memcmp(got, pattern, LARGE) == 0);
    }
}

Test(descriptors, a_peer_of_a_fifo_that_leaves_is_the_end_of_it)
{
    const char *path = make_fifo("in");
    const struct hr_source file = {.struct_size = sizeof file, .kind = HR_FILE, .path = path};
    const struct hr_source memory = memory_source(pattern, LARGE);
    for (unsigned l = 0; l < n_loops; l++) {
        hr_pipeline *reads = create(loops[l], &file, memory_sink());
        cr_assert_eq(hr_loop_poll(loops[l], 0, NULL), HR_PENDING);
        close(open(path, O_WRONLY)); /* without a word */
        end_as(reads, HR_OK, 0);
        hr_pipeline *writes = create(loops[l], &memory, sink_at(HR_FILE, path));
        const int reader = open(path, O_RDONLY | O_NONBLOCK);
        char byte;
        while (read(reader, &byte, 1) <= 0)
            cr_assert_eq(hr_loop_poll(loops[l], 1, NULL), HR_PENDING);
        close(reader); /* of more than a pipe holds */
        end_as(writes, HR_EIO, EPIPE);
    }
}
