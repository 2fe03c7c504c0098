// SPDX-License-Identifier: Apache-2.0
/* Sockets by address. Every system call on a socket here is one that cannot wait; only getaddrinfo
 * does. A host with several addresses is tried in the resolver's order (RFC 6724), one at a time,
 * and fails with the distinct reasons of all. */
#include "stream_io.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "status.h"

enum { BACKLOG = 1 }; /* a listener takes one connection */
enum { DROP_BYTES = 16 << 10, DROP_ROUNDS = 1024 };
enum { MAX_PORT = 65535 };

/* HOST:PORT, taken apart. */
struct tcp_name {
    char host[NI_MAXHOST];
    const char *port; /* decimal digits */
    bool literal;     /* stood in brackets: an IPv6 address, which no name server is asked for */
};

/* ---- errors ---- */

static hr_status bad_address(const struct hr__stream_opener *self, const char *why, hr_error *error)
{
    return hr__fail(error, HR_EINVAL, (struct hr__where){.stage = self->stage}, "%s: %s",
                    self->address, why);
}

static const char *verb(const struct hr__stream_opener *self)
{
    return self->phase == HR__STREAM_LISTENING ? "listen" : "connect";
}

static hr_status system_error(const struct hr__stream_opener *self, const char *doing, int native,
                              const char *why, hr_error *error)
{
    return hr__fail(error, native == ENOMEM ? HR_ENOMEM : HR_EIO,
                    (struct hr__where){.stage = self->stage, .native = native}, "%s %s: %s", doing,
                    self->address, why);
}

static const char *advice(int native)
{
    switch (native) {
    case ECONNREFUSED:
        return " (nobody listens there)";
    case EADDRINUSE:
        return " (another process has it: end that one, or choose another address)";
    case EADDRNOTAVAIL:
        return " (not an address of this machine)";
    case EAGAIN: /* connect(2): a Unix socket, and its queue is full */
        return " (the listener's queue is full: try again later)";
    case ENOTSOCK:
        return " (a file that is no socket has this name: remove it, or choose another)";
    default:
        return "";
    }
}

static void note_reason(struct hr__stream_opener *self, int native)
{
    char reason[128];
    snprintf(reason, sizeof reason, "%s%s", strerror(native), advice(native));
    if (strstr(self->reasons, reason))
        return;
    const size_t used = strlen(self->reasons);
    snprintf(self->reasons + used, sizeof self->reasons - used, "%s%s", used ? "; " : "", reason);
}

/* ---- Unix paths ---- */

/* NULL, or why the path cannot be the name of a socket. */
static const char *set_path(struct sockaddr_un *out, const char *path)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (*path == '\0')
        return "the path is missing";
    if (strlen(path) >= sizeof out->sun_path)
        return "the path of a Unix socket has at most 107 bytes (unix(7)): use a shorter one, or a "
               "relative one";
    memcpy(out->sun_path, path, strlen(path));
    return NULL;
}

static void remove_path(struct hr__stream_opener *self)
{
    struct stat st;
    if (self->bound && lstat(self->path, &st) == 0 && st.st_dev == self->device &&
        st.st_ino == self->inode)
        unlink(self->path);
    self->bound = false;
}

/* 0 if nobody has the socket file open; else an errno. Asked with the wrong type of socket, a live
 * one says EPROTOTYPE (unix(7)): a connect that succeeded would use up its one connection. */
static int check_stale(const struct addrinfo *where, const char *path)
{
    struct stat st;
    if (lstat(path, &st) != 0)
        return errno == ENOENT ? 0 : errno;
    if (!S_ISSOCK(st.st_mode))
        return ENOTSOCK;
    const int probe = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (probe < 0)
        return errno;
    const int result = connect(probe, where->ai_addr, where->ai_addrlen) == 0 ? EISCONN : errno;
    close(probe);
    if (result == EACCES)
        return EACCES;
    return result == ECONNREFUSED || result == ENOENT ? 0 : EADDRINUSE;
}

/* 0 or an errno. */
static int bind_path(struct hr__stream_opener *self, const struct addrinfo *where)
{
    if (bind(self->fd, where->ai_addr, where->ai_addrlen) != 0) {
        if (errno != EADDRINUSE)
            return errno;
        const int live = check_stale(where, self->path);
        if (live != 0)
            return live;
        if (unlink(self->path) != 0 && errno != ENOENT)
            return errno;
        if (bind(self->fd, where->ai_addr, where->ai_addrlen) != 0)
            return errno;
    }
    struct stat st;
    if (lstat(self->path, &st) == 0) {
        self->device = st.st_dev;
        self->inode = st.st_ino;
        self->bound = true;
    }
    return 0;
}

/* ---- one address ---- */

static void drop_fd(struct hr__stream_opener *self)
{
    if (self->fd >= 0)
        close(self->fd);
    self->fd = -1;
    remove_path(self);
}

static int set_option(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof value);
}

static int bind_address(const struct hr__stream_opener *self, const struct addrinfo *where)
{
    if (set_option(self->fd, SOL_SOCKET, SO_REUSEADDR, 1) != 0)
        return errno;
    /* whatever net.ipv6.bindv6only says: all addresses are those of IPv4 too */
    if (where->ai_family == AF_INET6 && set_option(self->fd, IPPROTO_IPV6, IPV6_V6ONLY, 0) != 0)
        return errno;
    return bind(self->fd, where->ai_addr, where->ai_addrlen) == 0 ? 0 : errno;
}

static int start_listening(struct hr__stream_opener *self, const struct addrinfo *where)
{
    const int native = self->path ? bind_path(self, where) : bind_address(self, where);
    if (native != 0)
        return native;
    return listen(self->fd, BACKLOG) == 0 ? 0 : errno;
}

/* An interrupted connect goes on, as one in progress does (connect(2)). */
static int start_connecting(const struct hr__stream_opener *self, const struct addrinfo *where)
{
    if (connect(self->fd, where->ai_addr, where->ai_addrlen) == 0 || errno == EINPROGRESS ||
        errno == EINTR)
        return 0;
    return errno;
}

/* 0 or an errno. */
static int start(struct hr__stream_opener *self, const struct addrinfo *where)
{
    self->fd = socket(where->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (self->fd < 0)
        return errno;
    const int native = self->phase == HR__STREAM_LISTENING ? start_listening(self, where)
                                                           : start_connecting(self, where);
    if (native != 0)
        drop_fd(self);
    return native;
}

/* Begins with the next address that does not fail at once. native: why the last one failed. */
static hr_status start_next(struct hr__stream_opener *self, int native, hr_error *error)
{
    while (self->next) {
        const struct addrinfo *where = self->next;
        self->next = where->ai_next;
        native = start(self, where);
        if (native == 0)
            return HR_OK;
        note_reason(self, native);
    }
    return system_error(self, verb(self), native, self->reasons, error);
}

/* ---- opening ---- */

/* NULL, or why the text is no port. */
static const char *check_port(const char *port, bool listens)
{
    const size_t digits = strspn(port, "0123456789");
    if (digits == 0 || port[digits] != '\0')
        return "the port has to be a number";
    const unsigned long number = strtoul(port, NULL, 10); /* too long: ULONG_MAX */
    if (number > MAX_PORT)
        return "ports go from 0 to 65535";
    if (number == 0 && !listens)
        return "port 0 is for listening only (it stands for any free one)";
    return NULL;
}

/* NULL, or what is wrong with the text. */
static const char *split(const char *text, bool listens, struct tcp_name *out)
{
    out->literal = *text == '[';
    const char *host = text + out->literal;
    const char *end = out->literal ? strchr(host, ']') : strrchr(host, ':');
    if (!end)
        return out->literal ? "the ] after the IPv6 address is missing"
                            : "the port is missing: HOST:PORT";
    const size_t size = (size_t)(end - host);
    const char *colon = end + out->literal;
    if (!out->literal && memchr(host, ':', size))
        return "an IPv6 address goes into brackets: [ADDRESS]:PORT";
    if (colon[0] != ':' || colon[1] == '\0')
        return "the port is missing: HOST:PORT";
    if (size >= sizeof out->host)
        return "the name of the host is too long";
    memcpy(out->host, host, size);
    out->host[size] = '\0';
    out->port = colon + 1;
    if (!listens && size == 0)
        return "the host is missing: HOST:PORT";
    return check_port(out->port, listens);
}

/* The kernel may lack IPv6, or have it switched off for all addresses. */
static bool has_ipv6(void)
{
    const struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT};
    const int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    const bool usable = bind(fd, (const struct sockaddr *)&any, sizeof any) == 0;
    close(fd);
    return usable;
}

static hr_status resolve(struct hr__stream_opener *self, const struct tcp_name *name,
                         hr_error *error)
{
    const bool all = self->phase == HR__STREAM_LISTENING && !name->literal &&
                     (name->host[0] == '\0' || strcmp(name->host, "*") == 0);
    const char *host = !all ? name->host : has_ipv6() ? "::" : "0.0.0.0";
    const struct addrinfo hints = {
        .ai_family = name->literal ? AF_INET6 : AF_UNSPEC,
        .ai_socktype = SOCK_STREAM,
        .ai_flags = AI_NUMERICSERV | (all || name->literal ? AI_NUMERICHOST : 0),
    };
    errno = 0;
    const int result = getaddrinfo(host, name->port, &hints, &self->addresses);
    if (result != 0) {
        const int native = result == EAI_SYSTEM ? errno : result == EAI_MEMORY ? ENOMEM : 0;
        self->addresses = NULL;
        return system_error(self, "resolve the host of", native,
                            result == EAI_SYSTEM ? strerror(native) : gai_strerror(result), error);
    }
    self->next = self->addresses;
    return HR_OK;
}

static hr_status open_tcp(struct hr__stream_opener *self, const char *text, hr_error *error)
{
    struct tcp_name name;
    const char *why = split(text, self->phase == HR__STREAM_LISTENING, &name);
    if (why)
        return bad_address(self, why, error);
    const hr_status status = resolve(self, &name, error);
    return status < 0 ? status : start_next(self, 0, error);
}

static hr_status open_unix(struct hr__stream_opener *self, const char *path, hr_error *error)
{
    struct sockaddr_un name;
    const char *why = set_path(&name, path);
    if (why)
        return bad_address(self, why, error);
    const struct addrinfo only = {
        .ai_family = AF_UNIX,
        .ai_addr = (struct sockaddr *)&name,
        .ai_addrlen = sizeof name,
    };
    self->path = path;
    self->next = &only; /* until start_next has taken it */
    return start_next(self, 0, error);
}

hr_status hr__stream_open(const char *address, enum hr_stage stage, struct hr__stream_opener *out,
                          hr_error *error)
{
    static const struct {
        const char *prefix;
        enum hr__stream_phase phase;
        hr_status (*open)(struct hr__stream_opener *self, const char *rest, hr_error *error);
    } words[] = {
        {"tcp://", HR__STREAM_CONNECTING, open_tcp},
        {"tcp-listen://", HR__STREAM_LISTENING, open_tcp},
        {"unix:", HR__STREAM_CONNECTING, open_unix},
        {"unix-listen:", HR__STREAM_LISTENING, open_unix},
    };
    struct hr__stream_opener self = {.address = address, .stage = stage, .fd = -1};
    if (hr__stream_is_peer(address))
        return bad_address(&self,
                           "stands, as the sink, for the connection of the first source, "
                           "which has to be a socket",
                           error);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const size_t size = strlen(words[i].prefix);
        if (strncmp(address, words[i].prefix, size) != 0)
            continue;
        self.phase = words[i].phase;
        const hr_status status = words[i].open(&self, address + size, error);
        if (status < 0)
            hr__stream_close(&self);
        else
            *out = self;
        return status;
    }
    return bad_address(&self,
                       "not the address of a socket: tcp://HOST:PORT, tcp-listen://HOST:PORT, "
                       "unix:PATH, unix-listen:PATH",
                       error);
}

/* ---- going on ---- */

static enum hr__stream_step become_connected(struct hr__stream_opener *self)
{
    self->phase = HR__STREAM_CONNECTED;
    if (!self->path) /* a hint: a small chunk leaves at once */
        (void)set_option(self->fd, IPPROTO_TCP, TCP_NODELAY, 1);
    return HR__STREAM_READY;
}

/* The connection came and went, or the network failed for a moment: the listener still listens.
 * The list is that of accept(2), ERRORS. */
static bool is_passing(int native)
{
    switch (native) {
    case EAGAIN:
    case EINTR:
    case ECONNABORTED:
    case ENETDOWN:
    case EPROTO:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case EOPNOTSUPP:
    case ENETUNREACH:
        return true;
    default:
        return false;
    }
}

static enum hr__stream_step advance_listening(struct hr__stream_opener *self, hr_error *error)
{
    const int fd = accept4(self->fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) {
        const int native = errno;
        if (is_passing(native))
            return HR__STREAM_WAIT_IN;
        (void)system_error(self, "accept a connection at", native, strerror(native), error);
        return HR__STREAM_FAILED;
    }
    drop_fd(self);
    self->fd = fd;
    return become_connected(self);
}

/* SO_ERROR is 0 as well while the connect goes on, so readiness is asked first. */
static enum hr__stream_step advance_connecting(struct hr__stream_opener *self, hr_error *error)
{
    struct pollfd p = {.fd = self->fd, .events = POLLOUT};
    if (poll(&p, 1, 0) <= 0)
        return HR__STREAM_WAIT_OUT;
    int native;
    socklen_t size = sizeof native;
    if (getsockopt(self->fd, SOL_SOCKET, SO_ERROR, &native, &size) != 0)
        native = errno;
    if (native != 0) {
        drop_fd(self);
        note_reason(self, native);
        return start_next(self, native, error) < 0 ? HR__STREAM_FAILED : HR__STREAM_WAIT_OUT;
    }
    const int flags = fcntl(self->fd, F_GETFL);
    if (flags < 0 || fcntl(self->fd, F_SETFL, flags & ~O_NONBLOCK) != 0) {
        native = errno;
        (void)system_error(self, verb(self), native, strerror(native), error);
        return HR__STREAM_FAILED;
    }
    return become_connected(self);
}

enum hr__stream_step hr__stream_advance(struct hr__stream_opener *opener, hr_error *error)
{
    switch (opener->phase) {
    case HR__STREAM_LISTENING:
        return advance_listening(opener, error);
    case HR__STREAM_CONNECTING:
        return advance_connecting(opener, error);
    case HR__STREAM_CONNECTED:
        break;
    }
    return HR__STREAM_READY;
}

int hr__stream_take(struct hr__stream_opener *opener)
{
    assert(opener->phase == HR__STREAM_CONNECTED && opener->fd >= 0);
    const int fd = opener->fd;
    opener->fd = -1;
    return fd;
}

void hr__stream_close(struct hr__stream_opener *opener)
{
    drop_fd(opener);
    if (opener->addresses)
        freeaddrinfo(opener->addresses);
    opener->addresses = NULL;
    opener->next = NULL;
}

/* ---- names ---- */

/* The socket's own end of a listener, the other end of a connection; false: there is none yet. */
static bool number_name(const struct hr__stream_opener *self, struct sockaddr_storage *out,
                        socklen_t *size)
{
    struct sockaddr *name = (struct sockaddr *)out;
    const int result = self->phase == HR__STREAM_LISTENING ? getsockname(self->fd, name, size)
                                                           : getpeername(self->fd, name, size);
    return result == 0;
}

void hr__stream_name(const struct hr__stream_opener *opener, char *out, size_t size)
{
    struct sockaddr_storage name = {.ss_family = AF_UNSPEC};
    socklen_t name_size = sizeof name;
    char host[NI_MAXHOST];
    char port[NI_MAXSERV];
    if (opener->path || !number_name(opener, &name, &name_size) ||
        getnameinfo((struct sockaddr *)&name, name_size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        snprintf(out, size, "%s", opener->address);
        return;
    }
    const bool v6 = name.ss_family == AF_INET6;
    snprintf(out, size, "%s%s%s%s:%s",
             opener->phase == HR__STREAM_LISTENING ? "tcp-listen://" : "tcp://", v6 ? "[" : "",
             host, v6 ? "]" : "", port);
}

void hr__stream_describe(const struct hr__stream_opener *opener, char *out, size_t size)
{
    char name[HR__STREAM_TEXT];
    hr__stream_name(opener, name, sizeof name);
    switch (opener->phase) {
    case HR__STREAM_LISTENING:
        snprintf(out, size, "waiting for a connection at %s", name);
        break;
    case HR__STREAM_CONNECTING:
        snprintf(out, size, "connecting to %s%s%s", opener->address,
                 opener->reasons[0] ? ", after " : "", opener->reasons);
        break;
    case HR__STREAM_CONNECTED:
        snprintf(out, size, "connected to %s", name);
        break;
    }
}

/* ---- a connection ---- */

bool hr__stream_is_peer(const char *address)
{
    return strcmp(address, "peer:") == 0;
}

hr_status hr__stream_share(int fd, int *out, hr_error *error)
{
    const int twin = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (twin < 0) {
        const int native = errno;
        return hr__fail(error, HR_EIO,
                        (struct hr__where){.stage = HR_STAGE_WRITE, .native = native},
                        "peer: a second descriptor for the connection: %s", strerror(native));
    }
    *out = twin;
    return HR_OK;
}

void hr__stream_finish(int fd)
{
    (void)shutdown(fd, SHUT_WR);
}

/* Bounded: a peer that never stops sending is not waited for. */
static void drop_unread(int fd)
{
    char dropped[DROP_BYTES];
    for (unsigned i = 0; i < DROP_ROUNDS; i++)
        if (recv(fd, dropped, sizeof dropped, MSG_DONTWAIT) <= 0)
            return;
}

void hr__stream_hang_up(int fd, bool whole)
{
    if (whole) {
        drop_unread(fd);
    } else {
        const struct linger reset = {.l_onoff = 1, .l_linger = 0}; /* socket(7) */
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    }
    close(fd);
}
