// SPDX-License-Identifier: Apache-2.0
/* The words that name sources and sinks. */
#include <string.h>

#include "cli.h"

static bool begins_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* "-" and "fd:N". False: the text is neither; *why is set if it is a wrong fd:. */
static bool parse_descriptor(const char *text, int standard, int32_t *fd, const char **why)
{
    uint64_t number;
    if (strcmp(text, "-") == 0) {
        *fd = standard;
        return true;
    }
    if (!begins_with(text, "fd:"))
        return false;
    if (!parse_number(text + 3, &number) || number > INT32_MAX) {
        *why = "after fd: comes the number of an open descriptor, as in fd:3";
        return false;
    }
    *fd = (int32_t)number;
    return true;
}

bool is_socket_word(const char *text)
{
    return begins_with(text, "tcp://") || begins_with(text, "tcp-listen://") ||
           begins_with(text, "unix:") || begins_with(text, "unix-listen:");
}

bool is_listener_word(const char *text)
{
    return begins_with(text, "tcp-listen://") || begins_with(text, "unix-listen:");
}

bool is_standard_word(const char *text, int fd)
{
    return strcmp(text, "-") == 0 || strcmp(text, fd == 0 ? "fd:0" : "fd:1") == 0;
}

/* What a text that is no word of ours, but looks like one, must have meant; NULL: a file. */
static const char *likely_meaning(const char *text)
{
    static const char *const meant[][2] = {
        {"tcp", "tcp://HOST:PORT"},
        {"udp", "tcp://HOST:PORT"},
        {"tcp-listen", "tcp-listen://HOST:PORT"},
        {"unix", "unix:PATH"},
        {"unix-listen", "unix-listen:PATH"},
        {"null", "null:"},
        {"device", "device:"},
        {"peer", "peer:"},
        {"fd", "fd:N"},
    };
    const char *behind = text + strspn(text, "abcdefghijklmnopqrstuvwxyz-");
    const bool whole = !*behind && strcmp(text, "null") == 0;
    const bool scheme = *behind == ':' || begins_with(behind, "//");
    for (size_t i = 0; i < sizeof meant / sizeof meant[0]; i++)
        if ((whole || scheme) && strlen(meant[i][0]) == (size_t)(behind - text) &&
            begins_with(text, meant[i][0]))
            return meant[i][1];
    return behind > text && begins_with(behind, "://") ? "tcp://HOST:PORT or unix:PATH" : NULL;
}

/* NULL: a file. */
static const char *wrong_file(const char *text)
{
    static char said[4096];
    if (!*text)
        return "the name is empty";
    const char *meant = likely_meaning(text);
    if (!meant)
        return NULL;
    snprintf(said, sizeof said, "%s is meant? A file of this name is ./%s", meant, text);
    return said;
}

/* What can be told without resolving a name; NULL: nothing is wrong. */
static const char *wrong_address(const char *text)
{
    if (begins_with(text, "unix"))
        return strchr(text, ':')[1] ? NULL : "a path is missing, as in unix:/run/name.sock";
    const char *host = strstr(text, "://") + 3;
    const char *after = *host == '[' ? strchr(host, ']') : host;
    const char *port = after ? strrchr(after, ':') : NULL;
    if (!port || !port[1])
        return "a host and a port are wanted, as in tcp://localhost:9000 or tcp://[::1]:9000";
    if (port == host && begins_with(text, "tcp://"))
        return "a host is missing; tcp-listen://:PORT listens on all addresses";
    return NULL;
}

/* Kinds that both ends have. False: the text is none of them, or *why is set. */
static bool parse_common(const char *text, int standard, uint32_t *kind, int32_t *fd,
                         const char **why)
{
    *why = NULL;
    *kind = HR_FD;
    if (parse_descriptor(text, standard, fd, why) || *why)
        return !*why;
    *kind = HR_SOCKET;
    if (is_socket_word(text)) {
        *why = wrong_address(text);
        return !*why;
    }
    *kind = HR_FILE;
    if (strcmp(text, "null:") != 0 && strcmp(text, "peer:") != 0 && strcmp(text, "device:") != 0)
        *why = wrong_file(text);
    return false;
}

bool parse_source(const char *text, struct hr_source *out, const char **why)
{
    *out = (struct hr_source){.struct_size = sizeof *out, .path = text};
    if (parse_common(text, 0, &out->kind, &out->fd, why) || *why)
        return !*why;
    if (strcmp(text, "null:") == 0)
        *why = "null: is a sink only; /dev/null is an empty source";
    else if (strcmp(text, "peer:") == 0)
        *why = "peer: is a sink only: the connection that the first source came from";
    else if (strcmp(text, "device:") == 0)
        *why = "device: is a sink only: nothing of this command is in a device's memory before it";
    return !*why;
}

bool parse_sink(const char *text, struct hr_sink *out, const char **why)
{
    *out = (struct hr_sink){.struct_size = sizeof *out, .path = text};
    if (parse_common(text, 1, &out->kind, &out->fd, why) || *why)
        return !*why;
    if (strcmp(text, "null:") == 0) {
        out->kind = HR_NULL;
        out->path = NULL;
    } else if (strcmp(text, "peer:") == 0) {
        out->kind = HR_SOCKET;
    } else if (strcmp(text, "device:") == 0) {
        out->kind = HR_DEVICE;
        out->path = NULL;
    }
    return true;
}
