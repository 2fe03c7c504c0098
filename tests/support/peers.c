// SPDX-License-Identifier: Apache-2.0
#include "peers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { DIAL_TRIES = 5000, DIAL_PAUSE_US = 2000 };

unsigned char pattern_at(uint64_t at)
{
    return (unsigned char)((at * 2654435761u) >> 13 ^ at % 251);
}

void fill_pattern(unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = pattern_at(i);
}

hr_status run_config(hr_loop *loop, const struct hr_pipeline_config *config, struct hr_stats *stats,
                     hr_error *error)
{
    hr_pipeline *pipeline = NULL;
    hr_status status = hr_pipeline_create(loop, config, &pipeline, error);
    if (status != HR_OK)
        return status;
    status = hr_pipeline_run(pipeline, error);
    if (stats && hr_pipeline_stats(pipeline, stats) != HR_OK)
        abort();
    hr_pipeline_free(pipeline);
    return status;
}

/* ---- addresses ---- */

union name {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un path;
};

static union name loopback(int family, unsigned port)
{
    union name name = {.v4 = {.sin_family = AF_INET,
                              .sin_port = htons((uint16_t)port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
    if (family == AF_INET6)
        name.v6 = (struct sockaddr_in6){.sin6_family = AF_INET6,
                                        .sin6_port = htons((uint16_t)port),
                                        .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    return name;
}

/* "...:PATH" or "...://127.0.0.1:PORT" or "...://[::1]:PORT". */
static union name parse(const char *address)
{
    if (strncmp(address, "unix", 4) == 0) {
        union name name = {.path = {.sun_family = AF_UNIX}};
        snprintf(name.path.sun_path, sizeof name.path.sun_path, "%s", strchr(address, ':') + 1);
        return name;
    }
    const unsigned long port = strtoul(strrchr(address, ':') + 1, NULL, 10);
    return loopback(strchr(address, '[') ? AF_INET6 : AF_INET, (unsigned)port);
}

static socklen_t size_of(const union name *name)
{
    return name->any.sa_family == AF_UNIX    ? sizeof name->path
           : name->any.sa_family == AF_INET6 ? sizeof name->v6
                                             : sizeof name->v4;
}

static unsigned port_of(int fd)
{
    union name name = {.any = {0}};
    socklen_t size = sizeof name;
    getsockname(fd, &name.any, &size);
    return ntohs(name.any.sa_family == AF_INET6 ? name.v6.sin6_port : name.v4.sin_port);
}

/* Bound to some port at every address of the family, IPv4's too where it can; -1: failed. */
static int hold_some_port(int family)
{
    const int on = 1;
    const int off = 0;
    union name name = loopback(family, 0);
    if (family == AF_INET6)
        name.v6.sin6_addr = in6addr_any;
    else
        name.v4.sin_addr.s_addr = htonl(INADDR_ANY);
    const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool is_held =
        fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        (family != AF_INET6 || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0) &&
        bind(fd, &name.any, size_of(&name)) == 0;
    if (is_held)
        return fd;
    close(fd);
    return -1;
}

static bool has_loopback(int family)
{
    const union name name = loopback(family, 0);
    const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool has = fd >= 0 && bind(fd, &name.any, size_of(&name)) == 0;
    close(fd);
    return has;
}

/* A socket that is bound and does not listen keeps the port from everybody who asks for any, and
 * SO_REUSEADDR at both lets a listener have it. At every address of both families: else an old
 * connection of the other one is in the way of who listens at all of them. */
unsigned free_port(int family)
{
    static _Thread_local int held[8] = {-1, -1, -1, -1, -1, -1, -1, -1};
    static _Thread_local unsigned n_asked;
    if (!has_loopback(family))
        return 0;
    int *fd = &held[n_asked++ % (sizeof held / sizeof held[0])];
    close(*fd);
    *fd = hold_some_port(AF_INET6);
    if (*fd < 0)
        *fd = hold_some_port(AF_INET);
    return *fd < 0 ? 0 : port_of(*fd);
}

int listen_at(char *address, size_t room)
{
    const union name name = parse(address);
    const int fd = socket(name.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, &name.any, size_of(&name)) != 0 || listen(fd, 8) != 0) {
        close(fd);
        return -1;
    }
    char *colon = strrchr(address, ':');
    if (name.any.sa_family != AF_UNIX)
        snprintf(colon, room - (size_t)(colon - address), ":%u", port_of(fd));
    return fd;
}

int dial(const char *address)
{
    const union name name = parse(address);
    for (unsigned i = 0; i < DIAL_TRIES; i++) {
        const int fd = socket(name.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, &name.any, size_of(&name)) == 0)
            return fd;
        close(fd);
        usleep(DIAL_PAUSE_US);
    }
    return -1;
}

/* ---- the thread ---- */

bool write_all(int fd, const void *bytes, size_t size)
{
    const char *at = bytes;
    while (size > 0) {
        const ssize_t n = write(fd, at, size);
        if (n <= 0)
            return false;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

size_t read_until(int fd, void *bytes, size_t size)
{
    size_t got = 0;
    while (got < size) {
        const ssize_t n = read(fd, (char *)bytes + got, size - got);
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    return got;
}

void reset_connection(int fd)
{
    const struct linger reset = {.l_onoff = 1, .l_linger = 0}; /* socket(7) */
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    close(fd);
}

static bool connect_peer(struct peer *self)
{
    if (self->listener >= 0) {
        if (self->receive_buffer) /* what is accepted has it too */
            setsockopt(self->listener, SOL_SOCKET, SO_RCVBUF, &self->receive_buffer,
                       sizeof self->receive_buffer);
        self->fd = accept(self->listener, NULL, NULL);
        close(self->listener);
    } else if (self->fd < 0) {
        self->fd = dial(self->address);
    }
    self->failed = self->fd < 0;
    return !self->failed;
}

static void leave(const struct peer *self)
{
    if (self->resets)
        reset_connection(self->fd);
    else
        close(self->fd);
}

static size_t next_step(const struct peer *self, size_t left)
{
    return self->step && self->step < left ? self->step : left;
}

static void *send_bytes(void *argument)
{
    struct peer *self = argument;
    if (!connect_peer(self))
        return NULL;
    while (self->n_moved < self->size && !self->failed) {
        const size_t n = next_step(self, self->size - self->n_moved);
        self->failed = !write_all(self->fd, self->bytes + self->n_moved, n);
        self->n_moved += self->failed ? 0 : n;
        if (self->pause_us)
            usleep(self->pause_us);
    }
    leave(self);
    return NULL;
}

static void *receive_bytes(void *argument)
{
    struct peer *self = argument;
    if (!connect_peer(self))
        return NULL;
    while (self->n_moved < self->room) {
        const size_t step = next_step(self, self->room - self->n_moved);
        const ssize_t n = read(self->fd, self->got + self->n_moved, step);
        if (n <= 0) {
            self->failed = n < 0;
            break;
        }
        self->n_moved += (size_t)n;
        if (self->pause_us)
            usleep(self->pause_us);
    }
    leave(self);
    return NULL;
}

bool start_sender(struct peer *peer)
{
    return pthread_create(&peer->thread, NULL, send_bytes, peer) == 0;
}

bool start_receiver(struct peer *peer)
{
    return pthread_create(&peer->thread, NULL, receive_bytes, peer) == 0;
}

void join_peer(struct peer *peer)
{
    pthread_join(peer->thread, NULL);
}
