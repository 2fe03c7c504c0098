// SPDX-License-Identifier: Apache-2.0
/* Pipes with a peer at the other end, in a thread of its own, that keeps a known pace; and one that
 * is silent. A pipe whose sender is slow is waited for, but serves only while bytes come; one whose
 * reader is slow is full, and bytes are on their way through it all the time. */
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "overlap_cases.h"
#include "overlap_checks.h"
#include "overlap_line.h"

enum { PIECE = 1 << 16, N_PIECES = 100, PACE_NS = 3000000, SILENCE_NS = 400000000 };

static char piece[PIECE];

struct peer {
    int fd;
    unsigned n_pieces;
    struct load pace; /* before each piece */
    pthread_t thread;
};

static void *send_slowly(void *argument)
{
    struct peer *peer = argument;
    for (unsigned i = 0; i < peer->n_pieces; i++) {
        work(&peer->pace);
        if (write(peer->fd, piece, PIECE) < PIECE)
            stop("a peer", "a short write");
    }
    close(peer->fd);
    return NULL;
}

static void *receive_slowly(void *argument)
{
    struct peer *peer = argument;
    static char received[PIECE];
    ssize_t n = 1;
    for (size_t got = 0; n > 0; got += (size_t)n) {
        if (got % PIECE == 0)
            work(&peer->pace);
        n = read(peer->fd, received, PIECE - got % PIECE);
    }
    close(peer->fd);
    return NULL;
}

static struct outcome run_with_peer(const char *name, struct hr_source *source, int sink_fd,
                                    struct peer *peer, void *(*run)(void *))
{
    struct hr_pipeline_config config = {
        .struct_size = sizeof config,
        .n_sources = 1,
        .sources = source,
        .sink = {.struct_size = sizeof config.sink,
                 .kind = sink_fd < 0 ? HR_NULL : HR_FD,
                 .fd = sink_fd},
        .chunk_size = PIECE,
    };
    struct outcome outcome;
    if (pthread_create(&peer->thread, NULL, run, peer) != 0)
        stop(name, "no thread");
    run_config(name, 4, &config, &outcome);
    if (sink_fd >= 0)
        close(sink_fd); /* the peer's end of file */
    pthread_join(peer->thread, NULL);
    return outcome;
}

static struct outcome read_from_peer(const char *name, const int fds[2], struct peer *peer)
{
    struct hr_source source = {.struct_size = sizeof source, .kind = HR_FD, .fd = fds[0]};
    peer->fd = fds[1];
    const struct outcome outcome = run_with_peer(name, &source, -1, peer, send_slowly);
    close(fds[0]);
    return outcome;
}

static double utilisation(const struct outcome *outcome, enum hr_stage stage)
{
    return (double)outcome->stats.stages[stage].service_ns / (double)outcome->wall_ns;
}

static void slow_sender(void)
{
    struct peer peer = {.n_pieces = N_PIECES, .pace = {.ns = PACE_NS}};
    int fds[2];
    case_begin("bound by read: a pipe whose sender keeps a pace");
    if (pipe(fds) != 0)
        stop("pipe", "refused");
    const struct outcome outcome = read_from_peer("slow sender", fds, &peer);
    check("wall_s", (double)peer.pace.spent_ns / 1e9, (double)outcome.stats.wall_ns / 1e9, AT_LEAST,
          TRUTH_MARGIN);
    check_stage("bottleneck", HR_STAGE_READ, (enum hr_stage)outcome.stats.bottleneck);
    /* a piece passes in microseconds */
    check("utilisation of read", 0.1, utilisation(&outcome, HR_STAGE_READ), AT_MOST, 0);
}

static void slow_receiver(void)
{
    struct peer peer = {.pace = {.ns = PACE_NS}};
    int fds[2];
    struct hr_source source = {.struct_size = sizeof source,
                               .kind = HR_FILE,
                               .path = "/dev/zero",
                               .flags = HR_RANGE,
                               .length = (uint64_t)N_PIECES * PIECE};
    case_begin("bound by write: a pipe whose reader keeps a pace");
    if (pipe(fds) != 0)
        stop("pipe", "refused");
    peer.fd = fds[0];
    const struct outcome outcome =
        run_with_peer("slow receiver", &source, fds[1], &peer, receive_slowly);
    check_stage("bottleneck", HR_STAGE_WRITE, (enum hr_stage)outcome.stats.bottleneck);
    check("utilisation of write", 1, utilisation(&outcome, HR_STAGE_WRITE), WITHIN, TRUTH_MARGIN);
    check("overlap efficiency", 1, outcome.stats.overlap, WITHIN, TRUTH_MARGIN);
}

static void silent_socket(void)
{
    struct peer peer = {.n_pieces = 1, .pace = {.ns = SILENCE_NS}};
    int fds[2];
    case_begin("a silent socket");
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0)
        stop("socketpair", "refused");
    const struct outcome outcome = read_from_peer("silent socket", fds, &peer);
    check("utilisation of read", 0.01, utilisation(&outcome, HR_STAGE_READ), AT_MOST, 0);
    check("overlap efficiency", 0.01, outcome.stats.overlap, AT_MOST, 0);
    check_stage("bottleneck", HR_STAGE_READ, (enum hr_stage)outcome.stats.bottleneck);
}

void host_pipes(void)
{
    slow_sender();
    slow_receiver();
    silent_socket();
}
