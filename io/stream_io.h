// SPDX-License-Identifier: Apache-2.0
/* Sockets by address, as the ends of a pipeline, opened without blocking the loop.
 *
 *     open ─▶ advance ─┬─ WAIT_IN ──▶ HR__IO_POLL on fd ─────┬─▶ advance ...
 *                      ├─ WAIT_OUT ─▶ HR__IO_POLL_OUT on fd ─┘
 *                      ├─ READY ────▶ take: the connection ─▶ finish ─▶ hang_up
 *                      └─ FAILED
 *
 * fd changes from one advance to the next (another address, the connection that was accepted), so
 * it is read anew for each poll. close is due in every state, and right at any time when no poll of
 * fd is in flight; a time limit is the caller's: it cancels the poll, describes, closes.
 *
 * Addresses: tcp://HOST:PORT, tcp-listen://HOST:PORT, unix:PATH, unix-listen:PATH. Of a host with
 * several addresses the first that answers is connected, the first that can be bound listens; an
 * empty host or * listens at all addresses, in one IPv6 socket, or at those of IPv4 where there is
 * no IPv6. A socket file that no process has open is replaced.
 *
 * For a sink, "peer:" names the connection of the first source, so that a service answers where it
 * was asked; it has no opener, but shares that connection once it is taken. */
#ifndef HR_STREAM_IO_H
#define HR_STREAM_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "headrace.h"

enum { HR__STREAM_TEXT = 256 }; /* room for the reasons, and good for name and describe */

enum hr__stream_phase { HR__STREAM_CONNECTING, HR__STREAM_LISTENING, HR__STREAM_CONNECTED };

enum hr__stream_step {
    HR__STREAM_FAILED = -1, /* the error says why */
    HR__STREAM_READY = 0,   /* take it */
    HR__STREAM_WAIT_IN,     /* until fd is readable */
    HR__STREAM_WAIT_OUT,    /* until fd is writable, or the connect has ended */
};

struct hr__stream_opener {
    const char *address; /* the caller's */
    enum hr_stage stage; /* for errors */
    enum hr__stream_phase phase;
    int fd;                        /* to be polled; when ready, the connection; or -1 */
    struct addrinfo *addresses;    /* what the host resolved to; NULL: a path */
    const struct addrinfo *next;   /* the next to try */
    char reasons[HR__STREAM_TEXT]; /* why those before failed */
    const char *path;              /* of a Unix socket, in address */
    bool bound;                    /* path is on disk and ours, if it still is this inode: */
    dev_t device;
    ino_t inode;
};

/* Resolves the address and begins to connect, or listens. The address must stay until close.
 * Blocks: while a host name is resolved. Owns: the caller closes *out, set only on success.
 * Fails: HR_EINVAL (not an address), HR_EIO, HR_ENOMEM. */
hr_status hr__stream_open(const char *address, enum hr_stage stage, struct hr__stream_opener *out,
                          hr_error *error) __attribute__((warn_unused_result));

/* Goes on after open, and after each poll that it asked for; being called too early does no harm.
 * A listener takes one connection, closes, and removes its path. Blocks: never. */
enum hr__stream_step hr__stream_advance(struct hr__stream_opener *opener, hr_error *error)
    __attribute__((warn_unused_result));

/* The connection of a ready opener, for RECV and SEND; the caller closes it, by hang_up. It is in
 * blocking mode, in which io_uring waits inside of the kernel on any version; the thread engine's
 * calls on sockets never wait, whatever the mode. */
int hr__stream_take(struct hr__stream_opener *opener) __attribute__((warn_unused_result));

/* Gives up what is left: descriptor, addresses, the path on disk. */
void hr__stream_close(struct hr__stream_opener *opener);

/* The address in numbers, as "tcp-listen://127.0.0.1:40311": where a listener listens (port 0 and
 * an empty host are resolved), of a connection its peer. */
void hr__stream_name(const struct hr__stream_opener *opener, char *out, size_t size);

/* What it is doing, for the message of a time limit: "connecting to tcp://host:1". */
void hr__stream_describe(const struct hr__stream_opener *opener, char *out, size_t size);

/* Whether the address is "peer:". The first source is then a socket, or this is an HR_EINVAL that
 * hr__stream_open words. */
bool hr__stream_is_peer(const char *address);

/* A second descriptor of a connection, for a sink that is "peer:". */
hr_status hr__stream_share(int fd, int *out, hr_error *error) __attribute__((warn_unused_result));

/* The end of a sink: the peer sees the end of the stream behind the last byte, and may go on
 * sending. A peer that has gone already is no error. */
void hr__stream_finish(int fd);

/* Closes a connection; where two descriptors share it, the source's first. After a success (whole)
 * bytes that nobody read are dropped first: close(2) would answer them with a reset, which can
 * overtake what the peer has not read yet. After a failure a TCP peer gets a reset, so that a
 * broken stream does not look like a complete one; Unix sockets have no such signal. */
void hr__stream_hang_up(int fd, bool whole);

#endif
