// SPDX-License-Identifier: Apache-2.0
/* Sockets by address, as sources and sinks of a pipeline, on both I/O engines: every kind of
 * address, answers on the same connection, and peers that are not there, leave, or are left. */
#include <fcntl.h>
#include <netinet/in.h>
#include <semaphore.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "quiet_fork.h"
#include "stream_suite.h"

TestSuite(sockets, .init = set_up, .fini = tear_down, .timeout = 60);

static const size_t sizes[] = {0, 1, 4095, 4096, 4097, CHUNK - 1, CHUNK, CHUNK + 1, LARGE};
enum { N_SIZES = sizeof sizes / sizeof sizes[0] };

/* ---- every kind of address, at either end ---- */

struct address {
    char pipeline[128]; /* what the pipeline is given */
    char peer[128];     /* what its peer listens at or dials */
    bool listens;       /* the pipeline does */
};

enum { N_WAYS = 6 };

/* False: this machine has no IPv6. */
static bool make_address(unsigned way, struct address *out)
{
    const bool v6 = way >= 4;
    out->listens = way % 2;
    if (way < 2) {
        snprintf(out->peer, sizeof out->peer, "unix:%s", path_of("socket"));
        snprintf(out->pipeline, sizeof out->pipeline, "unix%s:%s", out->listens ? "-listen" : "",
                 path_of("socket"));
        return true;
    }
    const unsigned port = free_port(v6 ? AF_INET6 : AF_INET);
    const char *host = v6 ? "[::1]" : "127.0.0.1";
    snprintf(out->peer, sizeof out->peer, "tcp://%s:%u", host, out->listens ? port : 0);
    snprintf(out->pipeline, sizeof out->pipeline, "tcp-listen://%s:%u", host, port);
    return port != 0;
}

/* The listener of the peer, -1 if it dials; then the pipeline's address is the peer's own. */
static int prepare_peer(struct address *address)
{
    if (address->listens)
        return -1;
    const int listener = listen_at(address->peer, sizeof address->peer);
    cr_assert(listener >= 0);
    snprintf(address->pipeline, sizeof address->pipeline, "%s", address->peer);
    return listener;
}

static void remove_path(const struct address *address)
{
    if (!address->listens)
        unlink(path_of("socket")); /* the test's; the pipeline removes its own */
}

Test(sockets, each_address_is_a_source_for_every_size)
{
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned way = 0; way < N_WAYS; way++)
            for (unsigned i = 0; i < N_SIZES; i++) {
                struct address address;
                if (!make_address(way, &address))
                    continue;
                struct peer peer = {.fd = -1,
                                    .listener = prepare_peer(&address),
                                    .address = address.peer,
                                    .bytes = pattern,
                                    .size = sizes[i],
                                    .step = 1000};
                const struct hr_source source = socket_source(address.pipeline);
                const struct hr_pipeline_config config = config_of(&source, memory_sink());
                assert_starts(start_sender(&peer));
                assert_run(loops[l], &config, sizes[i]);
                join_peer(&peer);
                cr_assert(memcmp(got, pattern, sizes[i]) == 0, "%s", address.pipeline);
                remove_path(&address);
            }
}

Test(sockets, each_address_is_a_sink_for_every_size)
{
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned way = 0; way < N_WAYS; way++)
            for (unsigned i = 0; i < N_SIZES; i++) {
                struct address address;
                if (!make_address(way, &address))
                    continue;
                struct peer peer = {.fd = -1,
                                    .listener = prepare_peer(&address),
                                    .address = address.peer,
                                    .got = got,
                                    .room = sizeof got};
                const struct hr_source source = memory_source(pattern, sizes[i]);
                const struct hr_pipeline_config config =
                    config_of(&source, sink_at(HR_SOCKET, address.pipeline));
                assert_starts(start_receiver(&peer));
                assert_run(loops[l], &config, sizes[i]);
                join_peer(&peer);
                assert_got(&peer, sizes[i]);
                remove_path(&address);
            }
}

Test(sockets, both_ends_are_addresses_at_once)
{
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned way = 0; way < 4; way++) {
            struct address from;
            struct address to;
            cr_assert(make_address(way, &from) && make_address(way < 2 ? 3 : 1, &to));
            struct peer sender = {.fd = -1,
                                  .listener = prepare_peer(&from),
                                  .address = from.peer,
                                  .bytes = pattern,
                                  .size = LARGE};
            struct peer receiver = {.fd = -1,
                                    .listener = prepare_peer(&to),
                                    .address = to.peer,
                                    .got = got,
                                    .room = sizeof got};
            const struct hr_source source = socket_source(from.pipeline);
            const struct hr_pipeline_config config =
                config_of(&source, sink_at(HR_SOCKET, to.pipeline));
            assert_starts(start_sender(&sender) && start_receiver(&receiver));
            assert_run(loops[l], &config, LARGE);
            join_peer(&sender);
            join_peer(&receiver);
            assert_got(&receiver, LARGE);
            remove_path(&from);
            remove_path(&to);
        }
}

Test(sockets, listening_at_all_addresses_is_reached)
{
    for (unsigned l = 0; l < n_loops; l++) {
        char address[64];
        char mine[64];
        const unsigned port = free_port(AF_INET);
        snprintf(mine, sizeof mine, "tcp-listen://%s:%u", l ? "*" : "", port);
        snprintf(address, sizeof address, "tcp://127.0.0.1:%u", port);
        struct peer peer = {
            .fd = -1, .listener = -1, .address = address, .bytes = pattern, .size = LARGE};
        const struct hr_source source = socket_source(mine);
        const struct hr_pipeline_config config = config_of(&source, memory_sink());
        assert_starts(start_sender(&peer));
        assert_run(loops[l], &config, LARGE);
        join_peer(&peer);
    }
}

/* ---- "peer:" ---- */

struct asker {
    char address[64];
    unsigned n_rounds;
    unsigned n_right;
    bool ended; /* the end came after the last answer, and only then */
};

static void *ask(void *argument)
{
    enum { ASKED = 100 };
    struct asker *self = argument;
    const int fd = dial(self->address);
    unsigned char answer[ASKED];
    for (unsigned i = 0; i < self->n_rounds; i++) {
        if (!write_all(fd, pattern + i, ASKED) || read_until(fd, answer, ASKED) != ASKED)
            break;
        self->n_right += memcmp(answer, pattern + i, ASKED) == 0;
    }
    shutdown(fd, SHUT_WR);
    self->ended = read(fd, answer, 1) == 0;
    close(fd);
    return NULL;
}

Test(sockets, a_little_is_answered_on_a_connection_that_stays_open)
{
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned with_kernel = 0; with_kernel < 2; with_kernel++) {
            struct asker asker = {.n_rounds = 200};
            char mine[64];
            const unsigned port = free_port(AF_INET);
            snprintf(mine, sizeof mine, "tcp-listen://127.0.0.1:%u", port);
            snprintf(asker.address, sizeof asker.address, "tcp://127.0.0.1:%u", port);
            const struct hr_kernel kernel = {.struct_size = sizeof kernel, .text = "scale:u8,1,0"};
            const struct hr_source source = socket_source(mine);
            struct hr_pipeline_config config = config_of(&source, sink_at(HR_SOCKET, "peer:"));
            config.kernels = &kernel;
            config.n_kernels = with_kernel;
            pthread_t thread;
            cr_assert_eq(pthread_create(&thread, NULL, ask, &asker), 0);
            assert_run(loops[l], &config, 200 * 100);
            pthread_join(thread, NULL);
            cr_assert_eq(asker.n_right, 200);
            cr_assert(asker.ended);
        }
}

Test(sockets, a_large_stream_comes_back_to_its_sender_while_it_sends)
{
    for (unsigned l = 0; l < n_loops; l++) {
        int ends[2];
        char address[64] = "tcp://127.0.0.1:0";
        const int listener = listen_at(address, sizeof address);
        const struct hr_source source = socket_source(address);
        const struct hr_pipeline_config config = config_of(&source, sink_at(HR_SOCKET, "peer:"));
        hr_pipeline *pipeline = NULL;
        hr_error error = {0};
        cr_assert_eq(hr_pipeline_create(loops[l], &config, &pipeline, &error), HR_OK, "%s",
                     error.text);
        ends[0] = accept(listener, NULL, NULL);
        ends[1] = dup(ends[0]);
        struct peer sender = {
            .fd = ends[0], .listener = -1, .bytes = pattern, .size = LARGE, .step = 3000};
        struct peer receiver = {
            .fd = ends[1], .listener = -1, .got = got, .room = LARGE, .step = 2000};
        assert_starts(start_receiver(&receiver) && start_sender(&sender));
        while (hr_pipeline_state(pipeline, NULL) == HR_PENDING && receiver.n_moved < LARGE)
            cr_assert(hr_loop_poll(loops[l], 10, &error) >= 0);
        join_peer(&sender);
        join_peer(&receiver);
        cr_assert_eq(hr_pipeline_run(pipeline, &error), HR_OK, "%s", error.text);
        assert_got(&receiver, LARGE);
        hr_pipeline_free(pipeline);
        close(listener);
    }
}

Test(sockets, peer_without_a_socket_source_is_refused)
{
    hr_error error = {0};
    hr_pipeline *pipeline = NULL;
    const struct hr_source source = memory_source(pattern, 10);
    const struct hr_pipeline_config config = config_of(&source, sink_at(HR_SOCKET, "peer:"));
    cr_assert_eq(hr_pipeline_create(NULL, &config, &pipeline, &error), HR_EINVAL);
    cr_assert(strstr(error.text, "peer:"), "%s", error.text);
}

/* ---- peers that are not there, or leave ---- */

static void write_old_output(void)
{
    FILE *file = fopen(path_of("out"), "wb");
    cr_assert(file && fputs("old", file) >= 0 && fclose(file) == 0);
}

static void assert_old_output(void)
{
    char text[8] = "";
    FILE *file = fopen(path_of("out"), "rb");
    cr_assert(file && fread(text, 1, sizeof text - 1, file) == 3 && fclose(file) == 0);
    cr_assert_str_eq(text, "old");
}

Test(sockets, a_refused_connection_is_an_error_and_the_output_untouched)
{
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned is_unix = 0; is_unix < 2; is_unix++) {
            char address[128];
            if (is_unix)
                snprintf(address, sizeof address, "unix:%s", path_of("nobody"));
            else
                snprintf(address, sizeof address, "tcp://127.0.0.1:%u", free_port(AF_INET));
            hr_error error = {0};
            const struct hr_source source = socket_source(address);
            const struct hr_pipeline_config config =
                config_of(&source, sink_at(HR_FILE, path_of("out")));
            write_old_output();
            cr_assert_eq(run_config(loops[l], &config, NULL, &error), HR_EIO);
            cr_assert_eq(error.native, is_unix ? ENOENT : ECONNREFUSED);
            cr_assert_eq(error.stage, HR_STAGE_READ);
            cr_assert(strstr(error.text, address), "%s", error.text);
            assert_old_output();
        }
}

struct gate {
    size_t n_bytes;
    size_t open_at;
    sem_t opened;
};

static int64_t pass_gate(void *user, const void *bytes, size_t size, uint64_t offset)
{
    struct gate *gate = user;
    const int64_t taken = take_pattern(&gate->n_bytes, bytes, size, offset);
    if (taken >= 0 && gate->n_bytes == gate->open_at)
        sem_post(&gate->opened);
    return taken;
}

struct resetter {
    int listener;
    struct gate *gate;
};

static void *send_and_reset(void *argument)
{
    const struct resetter *self = argument;
    const int fd = accept(self->listener, NULL, NULL);
    write_all(fd, pattern, self->gate->open_at);
    while (sem_wait(&self->gate->opened) != 0)
        ;
    reset_connection(fd);
    return NULL;
}

Test(sockets, a_reset_in_the_middle_tells_how_many_bytes_arrived)
{
    for (unsigned l = 0; l < n_loops; l++) {
        struct gate gate = {.open_at = CHUNK + 5000};
        char address[64] = "tcp://127.0.0.1:0";
        struct resetter resetter = {.listener = listen_at(address, sizeof address), .gate = &gate};
        sem_init(&gate.opened, 0, 0);
        struct hr_sink sink = sink_at(HR_CALLBACK, NULL);
        sink.write = pass_gate;
        sink.user = &gate;
        const struct hr_source source = socket_source(address);
        const struct hr_pipeline_config config = config_of(&source, sink);
        pthread_t thread;
        hr_error error = {0};
        cr_assert_eq(pthread_create(&thread, NULL, send_and_reset, &resetter), 0);
        cr_assert_eq(run_config(loops[l], &config, NULL, &error), HR_EIO);
        pthread_join(thread, NULL);
        cr_assert_eq(gate.n_bytes, CHUNK + 5000, "what had arrived is delivered");
        cr_assert_eq(error.native, ECONNRESET);
        cr_assert_eq(error.stage, HR_STAGE_READ);
        cr_assert_eq(error.offset, CHUNK + 5000);
        cr_assert(strstr(error.text, "13192"), "%s", error.text);
        close(resetter.listener);
        sem_destroy(&gate.opened);
    }
}

/* A reset of the receiver, of which the source knows nothing. */
static int64_t endless(void *user, void *buffer, size_t size, uint64_t offset)
{
    (void)user;
    (void)offset;
    memset(buffer, 7, size);
    return (int64_t)size;
}

static struct hr_source endless_source(void)
{
    return (struct hr_source){
        .struct_size = sizeof(struct hr_source), .kind = HR_CALLBACK, .read = endless};
}

/* 0: the sink's error says how many bytes it took. */
static int send_to_nobody(uint32_t io, struct hr_sink sink)
{
    const struct hr_loop_config loop_config = {.struct_size = sizeof loop_config, .io = io};
    hr_loop *loop = NULL;
    hr_error error = {0};
    signal(SIGPIPE, SIG_DFL);
    if (hr_loop_create(NULL, &loop_config, &loop, &error) != HR_OK)
        return 2;
    const struct hr_source source = endless_source();
    const struct hr_pipeline_config config = config_of(&source, sink);
    const hr_status status = run_config(loop, &config, NULL, &error);
    hr_loop_free(loop);
    const bool right = status == HR_EIO && error.stage == HR_STAGE_WRITE &&
                       (error.native == EPIPE || error.native == ECONNRESET) &&
                       error.offset >= 1000 && strstr(error.text, "at byte ");
    if (!right)
        fprintf(stderr, "status %d, %s\n", status, error.text);
    return right ? 0 : 1;
}

/* The library in a child where SIGPIPE kills; here, the reader that leaves. */
static void assert_survives(uint32_t io, struct hr_sink sink, struct peer *reader)
{
    const pid_t child = fork_when_quiet();
    cr_assert(child >= 0);
    if (child == 0) {
        if (reader->fd >= 0)
            close(reader->fd);
        _exit(send_to_nobody(io, sink));
    }
    if (sink.kind == HR_FD)
        close(sink.fd);
    assert_starts(start_receiver(reader));
    join_peer(reader);
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status), "ended by signal %d", WTERMSIG(status));
    cr_assert_eq(WEXITSTATUS(status), 0);
}

Test(sockets, a_receiver_that_vanishes_is_an_error_and_no_signal)
{
    for (unsigned l = 0; l < n_loops; l++) {
        const uint32_t io =
            strcmp(hr_loop_io(loops[l], NULL), "uring") == 0 ? HR_IO_URING : HR_IO_THREADS;
        int ends[2];
        struct peer reader = {.listener = -1, .got = got, .room = 1000};
        cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
        reader.fd = ends[0];
        assert_survives(io, fd_sink(ends[1]), &reader);
        cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        reader = (struct peer){.fd = ends[0], .listener = -1, .got = got, .room = 1000};
        assert_survives(io, fd_sink(ends[1]), &reader);
        for (unsigned resets = 0; resets < 2; resets++) {
            char address[64] = "tcp://127.0.0.1:0";
            const int listener = listen_at(address, sizeof address);
            reader = (struct peer){
                .fd = -1, .listener = listener, .got = got, .room = 1000, .resets = resets};
            assert_survives(io, sink_at(HR_SOCKET, address), &reader);
        }
    }
}

Test(sockets, a_slow_receiver_with_a_small_buffer_gets_all_in_bounded_memory)
{
    for (unsigned l = 0; l < n_loops; l++) {
        char address[64] = "tcp://127.0.0.1:0";
        struct peer receiver = {.fd = -1,
                                .listener = listen_at(address, sizeof address),
                                .got = got,
                                .room = sizeof got,
                                .step = 1500,
                                .pause_us = 300,
                                .receive_buffer = 4096};
        const struct hr_source source = memory_source(pattern, LARGE);
        const struct hr_pipeline_config config = config_of(&source, sink_at(HR_SOCKET, address));
        assert_starts(start_receiver(&receiver));
        struct hr_stats stats = {.struct_size = sizeof stats};
        hr_error error = {0};
        cr_assert_eq(run_config(loops[l], &config, &stats, &error), HR_OK, "%s", error.text);
        join_peer(&receiver);
        assert_got(&receiver, LARGE);
        cr_assert_leq(stats.leased_bytes, 16 * CHUNK);
    }
}

/* ---- cancel and free ---- */

/* A listener whose queue is full: who connects now waits. *filler: to be closed. */
static int listen_and_be_full(char *address, size_t room, int filler[2])
{
    const int listener = listen_at(address, room);
    cr_assert(listener >= 0 && listen(listener, 0) == 0);
    for (unsigned i = 0; i < 2; i++) {
        const struct sockaddr_in to = {.sin_family = AF_INET,
                                       .sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1)),
                                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        filler[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        connect(filler[i], (const struct sockaddr *)&to, sizeof to);
    }
    return listener;
}

static void start_and_leave(hr_loop *loop, const struct hr_pipeline_config *config,
                            unsigned n_steps, bool cancels)
{
    hr_pipeline *pipeline = NULL;
    hr_error error = {0};
    cr_assert_eq(hr_pipeline_create(loop, config, &pipeline, &error), HR_OK, "%s", error.text);
    for (unsigned i = 0; i < n_steps; i++)
        cr_assert_eq(hr_loop_poll(loop, 1, &error), HR_PENDING);
    if (cancels) {
        hr_pipeline_cancel(pipeline);
        hr_pipeline_cancel(pipeline);
        cr_assert_eq(hr_pipeline_run(pipeline, &error), HR_ECANCELED);
    }
    hr_pipeline_free(pipeline);
}

Test(sockets, leaving_while_listening_connecting_or_idle_ends_at_once)
{
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned i = 0; i < 8; i++) {
            const unsigned n_steps = i / 2;
            char address[128];
            char full[64] = "tcp://127.0.0.1:0";
            int filler[2];
            int idle[2];
            snprintf(address, sizeof address, "unix-listen:%s", path_of("socket"));
            struct hr_source source = socket_source(address);
            struct hr_pipeline_config config = config_of(&source, memory_sink());
            start_and_leave(loops[l], &config, n_steps, i % 2);
            cr_assert_eq(access(path_of("socket"), F_OK), -1, "the listener's path is left");

            const int listener = listen_and_be_full(full, sizeof full, filler);
            source = socket_source(full);
            start_and_leave(loops[l], &config, n_steps, i % 2);
            const struct hr_source memory = memory_source(pattern, LARGE);
            config = config_of(&memory, sink_at(HR_SOCKET, full));
            start_and_leave(loops[l], &config, n_steps, i % 2);
            close(listener);
            close(filler[0]);
            close(filler[1]);

            cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, idle), 0);
            source = fd_source(idle[0]);
            config = config_of(&source, memory_sink());
            start_and_leave(loops[l], &config, n_steps, i % 2);
            cr_assert(write_all(idle[1], pattern, 100));
            cr_assert_eq(read_until(idle[0], got, 100), 100, "bytes were taken after the end");
            close(idle[0]);
            close(idle[1]);
        }
}

Test(sockets, an_address_can_be_listened_at_again_after_a_free)
{
    char address[64];
    snprintf(address, sizeof address, "tcp-listen://127.0.0.1:%u", free_port(AF_INET));
    const struct hr_source source = socket_source(address);
    const struct hr_pipeline_config config = config_of(&source, memory_sink());
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned i = 0; i < 4; i++)
            start_and_leave(loops[l], &config, i, false);
}
