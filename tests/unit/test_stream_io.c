// SPDX-License-Identifier: Apache-2.0
/* Sockets by address, on the loopback and in a temporary folder. poll(2) stands for the engines.
 * getaddrinfo and accept4 are this program's own, so that a name has the addresses, and an accept
 * the failures, that a test needs. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <dlfcn.h>
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

#include "stream_io.h"

enum { WAIT_MS = 10000, MANY = 64 << 10 };

/* --- what the C library would say --- */

static const char *const *fake_hosts; /* the addresses of "several.test", NULL at the end */
static int accept_errors[4];          /* of the next calls, 0 at the end */
static unsigned n_accepts;

int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                struct addrinfo **out)
{
    const __typeof__(&getaddrinfo) real =
        (__typeof__(&getaddrinfo))(uintptr_t)dlsym(RTLD_NEXT, "getaddrinfo");
    if (strcmp(host, "nowhere.test") == 0)
        return EAI_NONAME;
    if (hints->ai_flags & AI_NUMERICHOST)
        return real(host, port, hints, out);
    if (strcmp(host, "several.test") != 0)
        return real(host, port, hints, out);
    struct addrinfo **end = out;
    for (unsigned i = 0; fake_hosts[i]; i++) {
        cr_assert_eq(real(fake_hosts[i], port, hints, end), 0);
        while (*end)
            end = &(*end)->ai_next;
    }
    return 0;
}

int accept4(int fd, __SOCKADDR_ARG name, socklen_t *size, int flags)
{
    const __typeof__(&accept4) real = (__typeof__(&accept4))(uintptr_t)dlsym(RTLD_NEXT, "accept4");
    if (n_accepts < 4 && accept_errors[n_accepts]) {
        errno = accept_errors[n_accepts++];
        return -1;
    }
    return real(fd, name, size, flags);
}

/* --- helpers --- */

static unsigned count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    cr_assert_not_null(dir);
    unsigned n = 0;
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static bool has_ipv6(void)
{
    const struct sockaddr_in6 name = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    const int fd = socket(AF_INET6, SOCK_STREAM, 0);
    const bool usable = fd >= 0 && bind(fd, (const struct sockaddr *)&name, sizeof name) == 0;
    if (fd >= 0)
        close(fd);
    return usable;
}

static struct hr__stream_opener open_or_die(const char *address)
{
    hr_error error = {0};
    struct hr__stream_opener opener;
    cr_assert_eq(hr__stream_open(address, HR_STAGE_READ, &opener, &error), HR_OK, "%s", error.text);
    cr_assert(opener.fd >= 0);
    return opener;
}

static void expect_open_fails(const char *address, hr_status code, int native, const char *text)
{
    hr_error error = {0};
    struct hr__stream_opener opener;
    const unsigned before = count_fds();
    const hr_status status = hr__stream_open(address, HR_STAGE_WRITE, &opener, &error);
    enum hr__stream_step step = HR__STREAM_WAIT_OUT;
    while (status == HR_OK && step == HR__STREAM_WAIT_OUT) {
        struct pollfd p = {.fd = opener.fd, .events = POLLOUT};
        cr_assert_eq(poll(&p, 1, WAIT_MS), 1, "%s", address);
        step = hr__stream_advance(&opener, &error);
    }
    if (status == HR_OK) {
        cr_assert_eq(step, HR__STREAM_FAILED, "%s: step %d", address, step);
        hr__stream_close(&opener);
    }
    cr_assert_eq(error.code, code, "%s: %s", address, error.text);
    cr_assert_eq(error.native, native, "%s: %d: %s", address, error.native, error.text);
    cr_assert_eq(error.stage, HR_STAGE_WRITE);
    cr_assert(strstr(error.text, address) && strstr(error.text, text), "%s: %s", address,
              error.text);
    cr_assert_eq(count_fds(), before, "%s: a descriptor is left", address);
}

/* Polls and advances until it is ready; the connection. */
static int connection_of(struct hr__stream_opener *opener)
{
    hr_error error = {0};
    enum hr__stream_step step;
    while ((step = hr__stream_advance(opener, &error)) != HR__STREAM_READY) {
        cr_assert_neq(step, HR__STREAM_FAILED, "%s", error.text);
        struct pollfd p = {.fd = opener->fd,
                           .events = step == HR__STREAM_WAIT_IN ? POLLIN : POLLOUT};
        cr_assert_eq(poll(&p, 1, WAIT_MS), 1, "%s", opener->address);
    }
    const int fd = hr__stream_take(opener);
    hr__stream_close(opener);
    cr_assert_eq(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    cr_assert_neq(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
    return fd;
}

/* What a listener listens at, to connect to: tcp-listen://HOST:PORT with another HOST. */
static const char *client_address(const struct hr__stream_opener *listener, const char *host)
{
    static char address[HR__STREAM_TEXT];
    char name[HR__STREAM_TEXT];
    hr__stream_name(listener, name, sizeof name);
    cr_assert_eq(strncmp(name, "tcp-listen://", 13), 0, "%s", name);
    cr_assert_neq(strcmp(strrchr(name, ':'), ":0"), 0, "%s", name);
    snprintf(address, sizeof address, "tcp://%s%s", host, strrchr(name, ':'));
    return address;
}

/* A port at which nobody listens, as tcp://HOST:PORT. */
static const char *refusing_address(const char *host)
{
    struct hr__stream_opener listener = open_or_die("tcp-listen://127.0.0.1:0");
    const char *address = client_address(&listener, host);
    hr__stream_close(&listener);
    return address;
}

static void expect_bytes(int from, int to, size_t size)
{
    char sent[MANY];
    char got[MANY];
    memset(sent, 'x', sizeof sent);
    cr_assert_eq(send(from, sent, size, MSG_NOSIGNAL), (ssize_t)size);
    cr_assert_eq(recv(to, got, size, MSG_WAITALL), (ssize_t)size);
    cr_assert_eq(memcmp(sent, got, size), 0);
}

static void expect_end(int fd)
{
    char byte;
    cr_assert_eq(recv(fd, &byte, 1, 0), 0, "no end: %s", strerror(errno));
}

/* A connection made of two openers, the listener's end first. */
static void make_pair(const char *listen_at, const char *connect_to, int fds[2])
{
    struct hr__stream_opener listener = open_or_die(listen_at);
    struct hr__stream_opener client =
        open_or_die(connect_to ? connect_to : client_address(&listener, "127.0.0.1"));
    fds[0] = connection_of(&listener);
    fds[1] = connection_of(&client);
}

static char folder[] = "/tmp/hr_stream_XXXXXX";
static char path[64];       /* in the folder */
static char listen_at[160]; /* unix-listen:path */
static char connect_to[160];

static void make_folder(void)
{
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/socket", folder);
    snprintf(listen_at, sizeof listen_at, "unix-listen:%s", path);
    snprintf(connect_to, sizeof connect_to, "unix:%s", path);
}

static void remove_folder(void)
{
    unlink(path);
    cr_assert_eq(rmdir(folder), 0, "files are left in the folder");
}

/* A listener that no opener made. */
static int plain_listener(int backlog)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path, sizeof name.sun_path, "%s", path);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&name, sizeof name), 0, "%s", strerror(errno));
    cr_assert_eq(listen(fd, backlog), 0);
    return fd;
}

/* --- words --- */

Test(stream_io, what_is_no_address_is_refused_with_the_reason)
{
    static const struct {
        const char *address;
        const char *text;
    } cases[] = {
        {"", "tcp-listen://HOST:PORT"},
        {"file", "not the address of a socket"},
        {"TCP://h:1", "not the address of a socket"},
        {"tcp:h:1", "not the address of a socket"},
        {"tcp://", "port is missing"},
        {"tcp://host", "port is missing"},
        {"tcp://host:", "port is missing"},
        {"tcp://[::1]", "port is missing"},
        {"tcp://[::1]x:1", "port is missing"},
        {"tcp://[::1:1", "] after"},
        {"tcp://::1:80", "brackets"},
        {"tcp://:80", "host is missing"},
        {"tcp://host:http", "number"},
        {"tcp://host:80/", "number"},
        {"tcp://host:+80", "number"},
        {"tcp://host:-1", "number"},
        {"tcp://host:65536", "65535"},
        {"tcp://host:99999999999999999999999", "65535"},
        {"tcp://host:0", "listening only"},
        {"tcp-listen://9000", "port is missing"},
        {"tcp-listen://*:65536", "65535"},
        {"unix:", "path is missing"},
        {"unix-listen:", "path is missing"},
        {"peer:", "first source"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_open_fails(cases[i].address, HR_EINVAL, 0, cases[i].text);
}

Test(stream_io, a_host_name_that_is_too_long_is_refused)
{
    char address[NI_MAXHOST + 16];
    memset(address, 'h', sizeof address);
    memcpy(address, "tcp://", 6);
    memcpy(address + 6 + NI_MAXHOST, ":1", 3);
    hr_error error = {0};
    struct hr__stream_opener opener;
    cr_assert_eq(hr__stream_open(address, HR_STAGE_READ, &opener, &error), HR_EINVAL);
    cr_assert_eq(error.code, HR_EINVAL);
}

Test(stream_io, peer_is_one_word)
{
    cr_assert(hr__stream_is_peer("peer:"));
    cr_assert_not(hr__stream_is_peer("peer"));
    cr_assert_not(hr__stream_is_peer("peer:1"));
}

Test(stream_io, a_name_that_nobody_knows_is_an_error_of_the_resolver)
{
    expect_open_fails("tcp://nowhere.test:1", HR_EIO, 0, gai_strerror(EAI_NONAME));
    expect_open_fails("tcp-listen://nowhere.test:1", HR_EIO, 0, gai_strerror(EAI_NONAME));
    expect_open_fails("tcp://[127.0.0.1]:1", HR_EIO, 0, "resolve the host");
    static const char *const hosts[] = {"::1", NULL};
    fake_hosts = hosts; /* must not be asked for: brackets hold numbers */
    expect_open_fails("tcp://[several.test]:1", HR_EIO, 0, "resolve the host");
}

/* --- TCP --- */

static void expect_listens(const char *at, const char *host)
{
    const unsigned before = count_fds();
    hr_error error = {0};
    struct hr__stream_opener listener = open_or_die(at);
    cr_assert_eq(hr__stream_advance(&listener, &error), HR__STREAM_WAIT_IN);
    struct hr__stream_opener client = open_or_die(client_address(&listener, host));
    char again[HR__STREAM_TEXT];
    snprintf(again, sizeof again, "%s", client.address);
    const int client_fd = connection_of(&client); /* tries all, before anything is accepted */
    const int server_fd = connection_of(&listener);
    for (unsigned i = 0; i < 2; i++) {
        int on = 0;
        socklen_t size = sizeof on;
        getsockopt(i ? client_fd : server_fd, IPPROTO_TCP, TCP_NODELAY, &on, &size);
        cr_assert_neq(on, 0, "TCP_NODELAY is not set");
    }
    expect_bytes(client_fd, server_fd, 100);
    expect_bytes(server_fd, client_fd, MANY);
    expect_open_fails(again, HR_EIO, ECONNREFUSED, "nobody listens"); /* it takes one only */
    hr__stream_hang_up(server_fd, true);
    expect_end(client_fd);
    hr__stream_hang_up(client_fd, true);
    cr_assert_eq(count_fds(), before);
}

Test(stream_io, a_listener_at_port_0_takes_a_connection, .timeout = 60)
{
    expect_listens("tcp-listen://127.0.0.1:0", "127.0.0.1");
    expect_listens("tcp-listen://localhost:0", "localhost");
}

Test(stream_io, a_listener_without_a_host_is_reached_by_ipv4, .timeout = 60)
{
    expect_listens("tcp-listen://:0", "127.0.0.1");
    expect_listens("tcp-listen://*:0", "127.0.0.1");
    expect_listens("tcp-listen://0.0.0.0:0", "127.0.0.1");
}

Test(stream_io, and_by_ipv6, .timeout = 60)
{
    if (!has_ipv6())
        cr_skip_test("no IPv6");
    expect_listens("tcp-listen://:0", "[::1]");
    expect_listens("tcp-listen://*:0", "[::1]");
    expect_listens("tcp-listen://[::]:0", "127.0.0.1");
    expect_listens("tcp-listen://[::1]:0", "[::1]");
    expect_listens("tcp-listen://[::1%1]:0", "[::1%1]");
}

Test(stream_io, a_refused_connect_says_so)
{
    expect_open_fails(refusing_address("127.0.0.1"), HR_EIO, ECONNREFUSED,
                      ": Connection refused (nobody listens there)");
}

Test(stream_io, an_address_in_use_or_of_another_machine_cannot_be_listened_at)
{
    struct hr__stream_opener listener = open_or_die("tcp-listen://127.0.0.1:0");
    char name[HR__STREAM_TEXT];
    hr__stream_name(&listener, name, sizeof name);
    expect_open_fails(name, HR_EIO, EADDRINUSE, "another process has it");
    hr__stream_close(&listener);
    expect_open_fails("tcp-listen://192.0.2.1:0", HR_EIO, EADDRNOTAVAIL,
                      "not an address of this machine");
}

/* The side that ends first keeps the port in TIME_WAIT. */
Test(stream_io, a_port_can_be_listened_at_again_at_once, .timeout = 60)
{
    char name[HR__STREAM_TEXT];
    struct hr__stream_opener listener = open_or_die("tcp-listen://127.0.0.1:0");
    hr__stream_name(&listener, name, sizeof name);
    struct hr__stream_opener client = open_or_die(client_address(&listener, "127.0.0.1"));
    const int client_fd = connection_of(&client);
    hr__stream_hang_up(connection_of(&listener), true);
    expect_end(client_fd);
    hr__stream_hang_up(client_fd, true);
    listener = open_or_die(name);
    hr__stream_close(&listener);
}

Test(stream_io, the_next_address_is_tried_when_one_refuses, .timeout = 60)
{
    static const char *const hosts[] = {"255.255.255.255", "127.0.0.3", "127.0.0.2", "127.0.0.1",
                                        NULL};
    fake_hosts = hosts;
    expect_listens("tcp-listen://127.0.0.1:0", "several.test");
    static const char *const ours_last[] = {"192.0.2.1", "127.0.0.3", "127.0.0.2", NULL};
    fake_hosts = ours_last;
    expect_listens("tcp-listen://several.test:0", "127.0.0.3"); /* the first that can be bound */
}

Test(stream_io, when_all_addresses_fail_each_reason_is_told_once, .timeout = 60)
{
    static const char *const hosts[] = {"127.0.0.2", "255.255.255.255", "127.0.0.3", NULL};
    fake_hosts = hosts;
    const char *address = refusing_address("several.test");
    char reasons[HR__STREAM_TEXT];
    snprintf(reasons, sizeof reasons, "%s: Connection refused (nobody listens there); %s", address,
             strerror(ENETUNREACH));
    expect_open_fails(address, HR_EIO, ECONNREFUSED, reasons);
    hr_error error = {0};
    struct hr__stream_opener opener;
    enum hr__stream_step step = HR__STREAM_FAILED;
    if (hr__stream_open(address, HR_STAGE_READ, &opener, &error) == HR_OK) {
        do {
            struct pollfd p = {.fd = opener.fd, .events = POLLOUT};
            poll(&p, 1, WAIT_MS);
            step = hr__stream_advance(&opener, &error);
        } while (step == HR__STREAM_WAIT_OUT);
        hr__stream_close(&opener);
    }
    cr_assert_eq(step, HR__STREAM_FAILED);
    cr_assert_str_eq(strstr(error.text, strerror(ENETUNREACH)), strerror(ENETUNREACH),
                     "told twice: %s", error.text);
}

/* A listener whose queue is full answers no more: the connect stays under way. */
Test(stream_io, a_connect_under_way_waits_describes_itself_and_is_given_up, .timeout = 60)
{
    const unsigned before = count_fds();
    struct hr__stream_opener listener = open_or_die("tcp-listen://127.0.0.1:0");
    struct hr__stream_opener clients[8];
    struct pollfd p;
    unsigned n = 0;
    do {
        cr_assert_lt(n, 8u, "the queue does not fill up");
        clients[n] = open_or_die(client_address(&listener, "127.0.0.1"));
        p = (struct pollfd){.fd = clients[n].fd, .events = POLLOUT};
        n++;
    } while (poll(&p, 1, 200) == 1);
    hr_error error = {0};
    char text[HR__STREAM_TEXT];
    char expected[HR__STREAM_TEXT + 16];
    cr_assert_eq(hr__stream_advance(&clients[n - 1], &error), HR__STREAM_WAIT_OUT);
    hr__stream_describe(&clients[n - 1], text, sizeof text);
    snprintf(expected, sizeof expected, "connecting to %s", clients[n - 1].address);
    cr_assert_str_eq(text, expected);
    while (n > 0)
        hr__stream_close(&clients[--n]);
    hr__stream_close(&listener);
    cr_assert_eq(count_fds(), before);
}

Test(stream_io, each_phase_tells_its_name)
{
    char text[HR__STREAM_TEXT];
    struct hr__stream_opener listener = open_or_die("tcp-listen://127.0.0.1:0");
    hr__stream_describe(&listener, text, sizeof text);
    cr_assert_eq(strncmp(text, "waiting for a connection at tcp-listen://127.0.0.1:", 51), 0, "%s",
                 text);
    struct hr__stream_opener client = open_or_die(client_address(&listener, "127.0.0.1"));
    close(connection_of(&listener));
    hr_error error = {0};
    struct pollfd p = {.fd = client.fd, .events = POLLOUT};
    poll(&p, 1, WAIT_MS);
    cr_assert_eq(hr__stream_advance(&client, &error), HR__STREAM_READY);
    hr__stream_describe(&client, text, sizeof text);
    cr_assert_eq(strncmp(text, "connected to tcp://127.0.0.1:", 29), 0, "%s", text);
    hr__stream_close(&client);
}

/* --- accepting --- */

Test(stream_io, an_interrupted_or_aborted_accept_goes_on_waiting, .timeout = 60)
{
    hr_error error = {0};
    struct hr__stream_opener listener = open_or_die("tcp-listen://127.0.0.1:0");
    struct hr__stream_opener client = open_or_die(client_address(&listener, "127.0.0.1"));
    static const int passing[] = {EINTR, ECONNABORTED, EPROTO};
    memcpy(accept_errors, passing, sizeof passing);
    for (unsigned i = 0; i < 3; i++) {
        cr_assert_eq(hr__stream_advance(&listener, &error), HR__STREAM_WAIT_IN);
        cr_assert_eq(n_accepts, i + 1);
    }
    const int fds[] = {connection_of(&listener), connection_of(&client)};
    expect_bytes(fds[0], fds[1], 1);
    close(fds[0]);
    close(fds[1]);
}

Test(stream_io, an_accept_without_descriptors_fails)
{
    const unsigned before = count_fds();
    hr_error error = {0};
    struct hr__stream_opener listener = open_or_die("tcp-listen://127.0.0.1:0");
    accept_errors[0] = EMFILE;
    cr_assert_eq(hr__stream_advance(&listener, &error), HR__STREAM_FAILED);
    cr_assert_eq(error.code, HR_EIO);
    cr_assert_eq(error.native, EMFILE);
    cr_assert_not_null(strstr(error.text, "tcp-listen://127.0.0.1:0"));
    hr__stream_close(&listener);
    cr_assert_eq(count_fds(), before);
}

Test(stream_io, closing_in_any_phase_leaves_nothing, .timeout = 60)
{
    make_folder();
    const unsigned before = count_fds();
    struct hr__stream_opener listener = open_or_die(listen_at);
    struct hr__stream_opener client = open_or_die(connect_to);
    hr__stream_close(&client);
    hr__stream_close(&client); /* a second time does no harm */
    hr__stream_close(&listener);
    cr_assert_neq(access(path, F_OK), 0, "the path is left");
    listener = open_or_die("tcp-listen://localhost:0");
    client = open_or_die(client_address(&listener, "localhost"));
    struct pollfd p = {.fd = listener.fd, .events = POLLIN};
    cr_assert_eq(poll(&p, 1, WAIT_MS), 1);
    hr_error error = {0};
    cr_assert_eq(hr__stream_advance(&listener, &error), HR__STREAM_READY);
    hr__stream_close(&listener); /* ready, not taken */
    hr__stream_close(&client);
    cr_assert_eq(count_fds(), before);
    remove_folder();
}

/* --- Unix --- */

Test(stream_io, a_unix_listener_takes_one_connection_and_removes_its_path, .timeout = 60)
{
    make_folder();
    int fds[2];
    make_pair(listen_at, connect_to, fds);
    cr_assert_neq(access(path, F_OK), 0, "the path is left");
    expect_bytes(fds[0], fds[1], MANY);
    expect_bytes(fds[1], fds[0], 1);
    hr__stream_hang_up(fds[0], true);
    expect_end(fds[1]);
    close(fds[1]);
    expect_open_fails(connect_to, HR_EIO, ENOENT, "connect unix:");
    remove_folder();
}

Test(stream_io, a_stale_socket_is_replaced, .timeout = 60)
{
    make_folder();
    close(plain_listener(1));
    expect_open_fails(connect_to, HR_EIO, ECONNREFUSED, "nobody listens");
    int fds[2];
    make_pair(listen_at, connect_to, fds);
    expect_bytes(fds[0], fds[1], 1);
    close(fds[0]);
    close(fds[1]);
    remove_folder();
}

Test(stream_io, a_live_socket_is_left_alone)
{
    make_folder();
    const int live = plain_listener(1);
    expect_open_fails(listen_at, HR_EIO, EADDRINUSE, "another process has it");
    struct pollfd p = {.fd = live, .events = POLLIN};
    cr_assert_eq(poll(&p, 1, 0), 0, "the check took a connection of the live listener");
    cr_assert_eq(access(path, F_OK), 0);
    close(live);
    remove_folder();
}

Test(stream_io, a_file_that_is_no_socket_is_left_alone)
{
    make_folder();
    close(open(path, O_CREAT | O_WRONLY, 0600));
    expect_open_fails(listen_at, HR_EIO, ENOTSOCK, "no socket has this name");
    unlink(path);
    cr_assert_eq(symlink("elsewhere", path), 0);
    expect_open_fails(listen_at, HR_EIO, ENOTSOCK, "no socket has this name");
    struct stat st;
    cr_assert_eq(lstat(path, &st), 0, "the link is gone");
    remove_folder();
}

Test(stream_io, a_path_that_another_has_taken_over_is_not_removed)
{
    make_folder();
    struct hr__stream_opener listener = open_or_die(listen_at);
    unlink(path);
    const int other = plain_listener(1);
    hr__stream_close(&listener);
    cr_assert_eq(access(path, F_OK), 0, "another's path is gone");
    close(other);
    remove_folder();
}

Test(stream_io, a_path_has_at_most_107_bytes)
{
    make_folder();
    char address[256];
    const int used = snprintf(address, sizeof address, "unix-listen:%s/", folder);
    const size_t prefix = strlen("unix-listen:");
    memset(address + used, 'p', sizeof address - (size_t)used);
    address[prefix + 108] = '\0';
    expect_open_fails(address, HR_EINVAL, 0, "107 bytes");
    address[prefix + 107] = '\0';
    struct hr__stream_opener listener = open_or_die(address);
    cr_assert_eq(access(address + prefix, F_OK), 0);
    hr__stream_close(&listener);
    remove_folder();
}

Test(stream_io, a_unix_listener_whose_queue_is_full_is_an_error)
{
    make_folder();
    const int live = plain_listener(0);
    struct hr__stream_opener first = open_or_die(connect_to);
    expect_open_fails(connect_to, HR_EIO, EAGAIN, "queue is full");
    hr__stream_close(&first);
    close(live);
    remove_folder();
}

/* --- the end of a connection --- */

Test(stream_io, a_finished_sink_ends_its_stream_and_can_still_be_read, .timeout = 60)
{
    int fds[2];
    make_pair("tcp-listen://127.0.0.1:0", NULL, fds);
    expect_bytes(fds[0], fds[1], 100);
    hr__stream_finish(fds[0]);
    expect_end(fds[1]);
    expect_bytes(fds[1], fds[0], 100);
    close(fds[1]);
    hr__stream_finish(fds[0]); /* the peer has gone: no error, no signal */
    hr__stream_hang_up(fds[0], true);
}

Test(stream_io, a_peer_gets_its_answer_on_a_connection_that_stays_open, .timeout = 60)
{
    const unsigned before = count_fds();
    int fds[2];
    int sink;
    hr_error error = {0};
    make_pair("tcp-listen://127.0.0.1:0", NULL, fds);
    cr_assert_eq(hr__stream_share(fds[0], &sink, &error), HR_OK, "%s", error.text);
    cr_assert_neq(fcntl(sink, F_GETFD) & FD_CLOEXEC, 0);
    for (unsigned i = 0; i < 3; i++) {
        expect_bytes(fds[1], fds[0], 100);
        expect_bytes(sink, fds[1], 100);
    }
    hr__stream_finish(sink);
    expect_end(fds[1]);
    hr__stream_hang_up(fds[0], true);
    hr__stream_hang_up(sink, true);
    close(fds[1]);
    cr_assert_eq(count_fds(), before);
    cr_assert_eq(hr__stream_share(-1, &sink, &error), HR_EIO);
    cr_assert_eq(error.native, EBADF);
}

static void expect_whole_end(const char *at, const char *to)
{
    int fds[2];
    make_pair(at, to, fds);
    static char bytes[MANY];
    cr_assert_eq(send(fds[1], bytes, sizeof bytes, 0), MANY); /* nobody reads them */
    cr_assert_eq(send(fds[0], bytes, sizeof bytes, 0), MANY);
    hr__stream_finish(fds[0]);
    hr__stream_hang_up(fds[0], true);
    cr_assert_eq(recv(fds[1], bytes, sizeof bytes, MSG_WAITALL), MANY);
    expect_end(fds[1]);
    close(fds[1]);
}

Test(stream_io, bytes_that_nobody_read_do_not_reset_a_whole_stream, .timeout = 60)
{
    make_folder();
    expect_whole_end("tcp-listen://127.0.0.1:0", NULL);
    expect_whole_end(listen_at, connect_to);
    remove_folder();
}

Test(stream_io, a_broken_stream_is_reset, .timeout = 60)
{
    int fds[2];
    char byte;
    make_pair("tcp-listen://127.0.0.1:0", NULL, fds);
    hr__stream_hang_up(fds[0], false);
    cr_assert_eq(recv(fds[1], &byte, 1, 0), -1, "a broken stream looks whole");
    cr_assert_eq(errno, ECONNRESET);
    close(fds[1]);
}
