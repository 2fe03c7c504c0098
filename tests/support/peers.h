// SPDX-License-Identifier: Apache-2.0
/* The other ends of sockets and pipes, for tests of the public header: a thread that sends or
 * receives at its own pace; and what such tests share. */
#ifndef HR_TEST_PEERS_H
#define HR_TEST_PEERS_H

#include <headrace.h>
#include <pthread.h>
#include <stdbool.h>

/* A pattern that depends on the position, with no period of a power of two. */
unsigned char pattern_at(uint64_t at);
void fill_pattern(unsigned char *bytes, size_t size);

/* Creates, runs and frees. stats may be NULL; it is filled whenever there was a pipeline. */
hr_status run_config(hr_loop *loop, const struct hr_pipeline_config *config, struct hr_stats *stats,
                     hr_error *error);

/* At the loopback address, IPv4 or IPv6; 0: the machine has none. Nobody listens there, and nobody
 * else is given the port before this thread has asked for eight more. */
unsigned free_port(int family);

/* A listener of the test at "unix:PATH" or "tcp://HOST:0", whose text gets the port; -1: failed. */
int listen_at(char *address, size_t room);
/* A connection to "unix-listen:PATH" or "tcp-listen://HOST:PORT", as soon as somebody listens; -1:
 * nobody did for 10 s. */
int dial(const char *address);

bool write_all(int fd, const void *bytes, size_t size);
/* How many came before the end. */
size_t read_until(int fd, void *bytes, size_t size);

struct peer {
    int fd;              /* -1: accepted from the listener or, without one, dialled */
    int listener;        /* -1: none */
    const char *address; /* to dial */
    const unsigned char *bytes;
    size_t size;        /* to send */
    size_t step;        /* bytes in one call; 0: all */
    unsigned pause_us;  /* between calls */
    int receive_buffer; /* SO_RCVBUF; 0: the system's */
    unsigned char *got;
    size_t room; /* receives at most so many bytes */
    bool resets; /* leaves without a proper end */
    size_t n_moved;
    bool failed; /* no connection, or a call failed */
    pthread_t thread;
};

/* A thread that connects, sends or receives, and closes. */
bool start_sender(struct peer *peer);
bool start_receiver(struct peer *peer);
void join_peer(struct peer *peer);

/* close(2) that a TCP peer sees as a reset. */
void reset_connection(int fd);

#endif
