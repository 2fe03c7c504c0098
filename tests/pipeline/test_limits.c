// SPDX-License-Identifier: Apache-2.0
/* Time limits, early leaving, and cancel at any moment, on both I/O engines. A clock is asserted
 * only from below: the machine may be busy. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "stream_suite.h"

enum { PATIENCE_MS = 20000 };

TestSuite(limits, .init = set_up, .fini = tear_down, .timeout = 60);

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

/* ---- ends ---- */

struct line {
    int near;
    int far;
};

static struct line make_line(bool is_socket)
{
    int ends[2];
    cr_assert_eq(is_socket ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)
                           : pipe2(ends, O_CLOEXEC),
                 0);
    return (struct line){ends[0], ends[1]};
}

static void close_line(struct line line)
{
    close(line.near);
    if (line.far >= 0)
        close(line.far);
}

enum { MAX_PIECES = 4096 };

/* A callback sink: which pieces came, and when. */
struct taken {
    unsigned n_pieces;
    size_t sizes[MAX_PIECES];
    uint64_t at_ms[MAX_PIECES];
    uint64_t n_bytes;
    unsigned delay_us;
    bool wrong;
};

static int64_t take(void *user, const void *bytes, size_t size, uint64_t offset)
{
    struct taken *t = user;
    t->wrong |= offset != t->n_bytes || memcmp(bytes, pattern + offset, size) != 0;
    if (t->n_pieces < MAX_PIECES) {
        t->at_ms[t->n_pieces] = now_ms();
        t->sizes[t->n_pieces++] = size;
    }
    t->n_bytes += size;
    if (t->delay_us)
        usleep(t->delay_us);
    return (int64_t)size;
}

static struct hr_sink taken_sink(struct taken *taken)
{
    return (struct hr_sink){
        .struct_size = sizeof(struct hr_sink), .kind = HR_CALLBACK, .write = take, .user = taken};
}

/* ---- reached ---- */

/* A foreign event loop: step, arm, sleep on the descriptor. */
static hr_status run_by_poll(hr_loop *loop, const struct hr_pipeline_config *config,
                             hr_error *error)
{
    hr_pipeline *pipeline = NULL;
    hr_status status = hr_pipeline_create(loop, config, &pipeline, error);
    while (status >= 0 && (status = hr_loop_step(loop, error)) == HR_PENDING) {
        if (hr_loop_arm(loop) != HR_OK)
            continue;
        struct pollfd event = {.fd = hr_loop_fd(loop), .events = POLLIN};
        cr_assert_eq(poll(&event, 1, PATIENCE_MS), 1, "nothing woke the loop");
    }
    if (status == HR_OK)
        status = hr_pipeline_state(pipeline, error);
    hr_pipeline_free(pipeline);
    return status;
}

static void assert_times_out(hr_loop *loop, const struct hr_pipeline_config *config,
                             enum hr_stage stage, const char *text)
{
    for (unsigned by_poll = 0; by_poll < 2; by_poll++) {
        hr_error error = {0};
        const uint64_t begin = now_ms();
        const hr_status status =
            by_poll ? run_by_poll(loop, config, &error) : run_config(loop, config, NULL, &error);
        cr_assert_eq(status, HR_ETIMEDOUT, "%d: %s", status, error.text);
        cr_assert_geq(now_ms() - begin, 55);
        cr_assert_eq((enum hr_stage)error.stage, stage);
        cr_assert(strstr(error.text, text), "%s", error.text);
    }
}

Test(limits, nobody_connects)
{
    for (unsigned l = 0; l < n_loops; l++) {
        char address[64];
        struct taken taken = {0};
        snprintf(address, sizeof address, "tcp-listen://127.0.0.1:%u", free_port(AF_INET));
        struct hr_source source = {
            .struct_size = sizeof source, .kind = HR_SOCKET, .path = address};
        struct hr_pipeline_config config = config_of(&source, taken_sink(&taken));
        config.connect_ms = 60;
        assert_times_out(loops[l], &config, HR_STAGE_READ, address);

        const struct hr_source memory = {
            .struct_size = sizeof memory, .kind = HR_MEMORY, .data = pattern, .size = 10};
        config.sources = &memory;
        config.sink =
            (struct hr_sink){.struct_size = sizeof config.sink, .kind = HR_SOCKET, .path = address};
        assert_times_out(loops[l], &config, HR_STAGE_WRITE,
                         "60 ms (connect_ms, --connect-timeout)");
    }
}

Test(limits, a_source_falls_silent)
{
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned is_socket = 0; is_socket < 2; is_socket++) {
            const struct line line = make_line(is_socket);
            struct taken taken = {0};
            const struct hr_source source = fd_source(line.near);
            struct hr_pipeline_config config = config_of(&source, taken_sink(&taken));
            config.idle_ms = 60;
            assert_times_out(loops[l], &config, HR_STAGE_READ, "(idle_ms, --idle-timeout)");
            close_line(line);
        }
}

Test(limits, a_source_falls_silent_after_some_bytes)
{
    for (unsigned l = 0; l < n_loops; l++) {
        int ends[2];
        cr_assert_eq(pipe(ends), 0);
        cr_assert(write_all(ends[1], pattern, 300));
        struct taken taken = {0};
        hr_error error = {0};
        const struct hr_source source = fd_source(ends[0]);
        struct hr_pipeline_config config = config_of(&source, taken_sink(&taken));
        config.idle_ms = 60;
        cr_assert_eq(run_config(loops[l], &config, NULL, &error), HR_ETIMEDOUT);
        cr_assert_eq(taken.n_bytes, 300);
        cr_assert(strstr(error.text, "after 300 bytes"), "%s", error.text);
        cr_assert_eq(error.offset, 300);
        close(ends[0]);
        close(ends[1]);
    }
}

Test(limits, a_receiver_stops_taking)
{
    for (unsigned l = 0; l < n_loops; l++) {
        const struct line line = make_line(true);
        const int small = 4096;
        setsockopt(line.near, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
        const struct hr_source source = {
            .struct_size = sizeof source, .kind = HR_MEMORY, .data = pattern, .size = LARGE};
        struct hr_pipeline_config config = config_of(&source, fd_sink(line.near));
        config.idle_ms = 60;
        assert_times_out(loops[l], &config, HR_STAGE_WRITE, "the sink moved no byte for 60 ms");
        close_line(line);
    }
}

/* ---- not reached ---- */

Test(limits, bytes_that_move_slowly_are_not_idle)
{
    for (unsigned l = 0; l < n_loops; l++) {
        int ends[2];
        cr_assert_eq(pipe(ends), 0);
        struct peer peer = {.fd = ends[1],
                            .listener = -1,
                            .bytes = pattern,
                            .size = 30,
                            .step = 1,
                            .pause_us = 40000};
        struct taken taken = {0};
        hr_error error = {0};
        const struct hr_source source = fd_source(ends[0]);
        struct hr_pipeline_config config = config_of(&source, taken_sink(&taken));
        config.idle_ms = 700;
        cr_assert(start_sender(&peer));
        cr_assert_eq(run_config(loops[l], &config, NULL, &error), HR_OK, "%s", error.text);
        join_peer(&peer);
        cr_assert_eq(taken.n_bytes, 30);
        close(ends[0]);
    }
}

static int64_t give_slowly(void *user, void *buffer, size_t size, uint64_t offset)
{
    usleep(250000);
    return give_pattern(user, buffer, size, offset);
}

Test(limits, a_slow_source_of_another_kind_is_not_idleness_of_the_sink)
{
    for (unsigned l = 0; l < n_loops; l++) {
        const struct line line = make_line(true);
        struct peer peer = {.fd = line.far, .listener = -1, .got = got, .room = 3 * CHUNK};
        uint64_t size = 3 * CHUNK;
        hr_error error = {0};
        const struct hr_source source = {
            .struct_size = sizeof source, .kind = HR_CALLBACK, .read = give_slowly, .user = &size};
        struct hr_pipeline_config config = config_of(&source, fd_sink(line.near));
        config.idle_ms = 100;
        cr_assert(start_receiver(&peer));
        cr_assert_eq(run_config(loops[l], &config, NULL, &error), HR_OK, "%s", error.text);
        join_peer(&peer);
        cr_assert_eq(peer.n_moved, 3 * CHUNK);
        close(line.near);
    }
}

/* The peer cannot send before it has its answer, and that takes longer than the limit. */
Test(limits, a_slow_sink_of_another_kind_is_not_idleness_of_the_source)
{
    for (unsigned l = 0; l < n_loops; l++) {
        const struct line line = make_line(true);
        struct taken taken = {.delay_us = 250000};
        hr_error error = {0};
        hr_pipeline *pipeline = NULL;
        const struct hr_source source = fd_source(line.near);
        struct hr_pipeline_config config = config_of(&source, taken_sink(&taken));
        config.idle_ms = 100;
        cr_assert(write_all(line.far, pattern, 100));
        cr_assert_eq(hr_pipeline_create(loops[l], &config, &pipeline, &error), HR_OK);
        while (taken.n_bytes == 0)
            cr_assert_eq(hr_loop_poll(loops[l], 10, &error), HR_PENDING);
        const uint64_t begin = now_ms();
        while (now_ms() < begin + 200)
            cr_assert_eq(hr_loop_poll(loops[l], 10, &error), HR_PENDING,
                         "the limit was reached while the sink worked");
        cr_assert(write_all(line.far, pattern + 100, 100));
        close(line.far);
        cr_assert_eq(hr_pipeline_run(pipeline, &error), HR_OK, "%s", error.text);
        cr_assert_eq(taken.n_bytes, 200);
        hr_pipeline_free(pipeline);
        close(line.near);
    }
}

Test(limits, a_limit_of_one_pipeline_leaves_its_neighbours_alone)
{
    enum { N = 5 };
    for (unsigned l = 0; l < n_loops; l++) {
        struct line lines[N];
        struct hr_source sources[N];
        hr_pipeline *pipelines[N];
        static struct taken taken[N];
        hr_error error = {0};
        for (unsigned i = 0; i < N; i++) {
            lines[i] = make_line(true);
            sources[i] = fd_source(lines[i].near);
            taken[i] = (struct taken){0};
            struct hr_pipeline_config config = config_of(&sources[i], taken_sink(&taken[i]));
            config.idle_ms = i % 2 ? 40 * i : 0;
            cr_assert_eq(hr_pipeline_create(loops[l], &config, &pipelines[i], &error), HR_OK);
        }
        cr_assert_eq(hr_pipeline_run(pipelines[3], &error), HR_ETIMEDOUT);
        cr_assert_eq(hr_pipeline_state(pipelines[1], &error), HR_ETIMEDOUT, "it came first");
        for (unsigned i = 0; i < N; i += 2) {
            cr_assert_eq(hr_pipeline_state(pipelines[i], NULL), HR_PENDING);
            cr_assert(write_all(lines[i].far, pattern, 10));
            close(lines[i].far);
            lines[i].far = -1;
            cr_assert_eq(hr_pipeline_run(pipelines[i], &error), HR_OK, "%s", error.text);
            cr_assert_eq(taken[i].n_bytes, 10);
        }
        for (unsigned i = 0; i < N; i++) {
            hr_pipeline_free(pipelines[i]);
            close_line(lines[i]);
        }
    }
}

/* ---- early leaving ---- */

/* A pipe that gets n_pieces of `step` bytes, one every pause; then its end. */
static void run_trickle(hr_loop *loop, struct peer peer, struct taken *taken, uint64_t min_fill,
                        uint32_t max_wait_ms)
{
    int ends[2];
    hr_error error = {0};
    cr_assert_eq(pipe(ends), 0);
    *taken = (struct taken){0};
    const struct hr_source source = fd_source(ends[0]);
    struct hr_pipeline_config config = config_of(&source, taken_sink(taken));
    config.min_fill = min_fill;
    config.max_wait_ms = max_wait_ms;
    peer.fd = ends[1];
    peer.listener = -1;
    peer.bytes = pattern;
    cr_assert(start_sender(&peer));
    cr_assert_eq(run_config(loop, &config, NULL, &error), HR_OK, "%s", error.text);
    join_peer(&peer);
    cr_assert_eq(taken->n_bytes, peer.size);
    cr_assert(!taken->wrong);
    close(ends[0]);
}

Test(limits, chunks_leave_with_at_least_min_fill_bytes)
{
    static struct taken taken;
    const struct peer peer = {.size = 4000, .step = 100, .pause_us = 3000};
    for (unsigned l = 0; l < n_loops; l++) {
        run_trickle(loops[l], peer, &taken, 1000, 0);
        cr_assert_leq(taken.n_pieces, 4);
        for (unsigned i = 0; i + 1 < taken.n_pieces; i++)
            cr_assert_geq(taken.sizes[i], 1000);
        run_trickle(loops[l], peer, &taken, 1 << 20, 0); /* more than a chunk: the chunk's size */
        cr_assert_eq(taken.n_pieces, 1);
        run_trickle(loops[l], peer, &taken, 0, 0);
        cr_assert_geq(taken.n_pieces, 2, "nothing left early");
    }
}

Test(limits, max_wait_counts_from_the_first_byte_of_a_chunk)
{
    static struct taken taken;
    const struct peer peer = {.size = 40, .step = 1, .pause_us = 20000};
    for (unsigned l = 0; l < n_loops; l++) {
        const uint64_t begin = now_ms();
        run_trickle(loops[l], peer, &taken, 1000, 100);
        cr_assert_geq(taken.n_pieces, 2, "all waited for the end");
        cr_assert_geq(taken.at_ms[0], begin + 95);
        cr_assert_gt(taken.sizes[0], 1);
    }
}

/* What has waited for long enough and cannot leave yet is no reason to be awake. */
Test(limits, a_wait_that_is_over_does_not_spin)
{
    for (unsigned l = 0; l < n_loops; l++) {
        const struct line line = make_line(true);
        struct taken taken = {.delay_us = 300000};
        hr_error error = {0};
        hr_pipeline *pipeline = NULL;
        unsigned n_steps = 0;
        const struct hr_source source = fd_source(line.near);
        struct hr_pipeline_config config = config_of(&source, taken_sink(&taken));
        config.chunk_size = 100;
        config.min_fill = 50;
        config.max_wait_ms = 20;
        cr_assert(write_all(line.far, pattern, 110));
        cr_assert_eq(hr_pipeline_create(loops[l], &config, &pipeline, &error), HR_OK);
        for (; taken.n_bytes < 110; n_steps++)
            cr_assert_eq(hr_loop_poll(loops[l], 1000, &error), HR_PENDING);
        cr_assert_lt(n_steps, 100, "%u steps", n_steps);
        close(line.far);
        cr_assert_eq(hr_pipeline_run(pipeline, &error), HR_OK, "%s", error.text);
        cr_assert_eq(taken.n_pieces, 2);
        hr_pipeline_free(pipeline);
        close(line.near);
    }
}

/* The second could not leave while the first was not fetched. */
Test(limits, what_waits_behind_a_fetched_chunk_leaves_too)
{
    for (unsigned l = 0; l < n_loops; l++) {
        const struct line line = make_line(true);
        const struct hr_source source = fd_source(line.near);
        const struct hr_pipeline_config config = config_of(
            &source, (struct hr_sink){.struct_size = sizeof config.sink, .kind = HR_PULL});
        struct hr_chunk chunks[2] = {{.struct_size = sizeof *chunks},
                                     {.struct_size = sizeof *chunks}};
        hr_error error = {0};
        hr_pipeline *pipeline = NULL;
        cr_assert_eq(hr_pipeline_create(loops[l], &config, &pipeline, &error), HR_OK);
        for (unsigned i = 0; i < 2; i++) {
            cr_assert(write_all(line.far, pattern + i * 100, 100));
            for (unsigned n = 0; n < 5; n++)
                cr_assert_eq(hr_loop_poll(loops[l], 20, &error), HR_PENDING);
        }
        for (unsigned i = 0; i < 2; i++) {
            cr_assert_eq(hr_pipeline_next(pipeline, 5000, &chunks[i], &error), HR_OK, "chunk %u",
                         i);
            cr_assert_eq(chunks[i].size, 100);
            cr_assert(memcmp(chunks[i].data, pattern + i * 100, 100) == 0);
        }
        hr_chunk_release(&chunks[0], NULL);
        hr_chunk_release(&chunks[1], NULL);
        hr_pipeline_free(pipeline);
        close_line(line);
    }
}

/* ---- cancel at any step ---- */

enum { N_CANCELS = 300 };

static unsigned draw(unsigned *state, unsigned n)
{
    *state = *state * 1103515245u + 12345u;
    return (*state >> 8) % n;
}

/* One random transfer between pipes, sockets, a listener, memory and callbacks. */
struct trial {
    struct line in;
    struct line out;
    struct peer sender;
    struct peer receiver;
    char address[64];
    uint64_t size;
    struct hr_source source;
    struct hr_pipeline_config config;
    struct taken taken;
};

static void choose_source(struct trial *t, unsigned kind)
{
    t->source = (struct hr_source){.struct_size = sizeof t->source, .size = t->size};
    switch (kind) {
    case 0:
    case 1:
        t->in = make_line(kind);
        t->source.kind = HR_FD;
        t->source.fd = t->in.near;
        t->sender = (struct peer){
            .fd = t->in.far, .listener = -1, .bytes = pattern, .size = t->size, .step = 5000};
        cr_assert(start_sender(&t->sender));
        break;
    case 2:
        snprintf(t->address, sizeof t->address, "tcp-listen://127.0.0.1:%u", free_port(AF_INET));
        t->source.kind = HR_SOCKET;
        t->source.path = t->address;
        break;
    case 3:
        t->source.kind = HR_MEMORY;
        t->source.data = pattern;
        break;
    default:
        t->source.kind = HR_CALLBACK;
        t->source.read = give_pattern;
        t->source.user = &t->size;
        break;
    }
}

static struct hr_sink choose_sink(struct trial *t, unsigned kind)
{
    switch (kind) {
    case 0:
        t->out = make_line(true);
        t->receiver = (struct peer){
            .fd = t->out.far, .listener = -1, .got = got, .room = LARGE, .step = 3000};
        cr_assert(start_receiver(&t->receiver));
        return fd_sink(t->out.near);
    case 1:
        return taken_sink(&t->taken);
    default:
        return (struct hr_sink){.struct_size = sizeof(struct hr_sink), .kind = HR_NULL};
    }
}

static void end_trial(struct trial *t)
{
    if (t->in.near >= 0) {
        close(t->in.near);
        join_peer(&t->sender);
    }
    if (t->out.near >= 0) {
        close(t->out.near);
        join_peer(&t->receiver);
        cr_assert(memcmp(t->receiver.got, pattern, t->receiver.n_moved) == 0);
    }
    cr_assert(!t->taken.wrong);
}

static void try_cancel(hr_loop *loop, unsigned *state)
{
    static struct trial trial;
    static const char *const kernels[] = {"crc32", "scale:u8,1,0", "bswap:2"};
    trial = (struct trial){.in.near = -1, .out.near = -1, .size = 2 * draw(state, LARGE / 2)};
    const unsigned from = draw(state, 5);
    const unsigned to = draw(state, 3);
    const bool has_kernel = to == 2 && draw(state, 2);
    choose_source(&trial, from);
    trial.config = config_of(&trial.source, choose_sink(&trial, to));
    trial.config.chunk_size = 2 + 2 * draw(state, CHUNK);
    trial.config.depth = 1 + draw(state, 9);
    trial.config.idle_ms = draw(state, 2) * 5000;
    trial.config.min_fill = draw(state, 2) * draw(state, CHUNK);
    trial.config.max_wait_ms = draw(state, 3);
    const struct hr_kernel kernel = {.struct_size = sizeof kernel, .text = kernels[draw(state, 3)]};
    trial.config.kernels = &kernel;
    trial.config.n_kernels = has_kernel;
    hr_pipeline *pipeline = NULL;
    hr_error error = {0};
    cr_assert_eq(hr_pipeline_create(loop, &trial.config, &pipeline, &error), HR_OK, "%s",
                 error.text);
    const uint64_t begin = now_ms();
    for (unsigned n = draw(state, 40); n > 0; n--)
        cr_assert(hr_loop_poll(loop, 1, &error) >= 0);
    if (draw(state, 4)) {
        hr_pipeline_cancel(pipeline);
        const hr_status status = hr_pipeline_run(pipeline, &error);
        cr_assert(status == HR_OK || status == HR_ECANCELED, "%d: %s", status, error.text);
    }
    hr_pipeline_free(pipeline);
    cr_assert_lt(now_ms() - begin, 10000, "from %u to %u", from, to);
    end_trial(&trial);
}

Test(limits, a_cancel_at_a_random_step_ends_any_transfer)
{
    unsigned state = 4711;
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned i = 0; i < N_CANCELS; i++)
            try_cancel(loops[l], &state);
}
