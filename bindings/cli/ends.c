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
    if (!parse_size(text + 3, &number) || number > INT32_MAX) {
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
    if (!*text)
        *why = "the name is empty";
    else if (strcmp(text, "device:") == 0)
        *why = "gathering in device memory is not offered by the command of this version; a file "
               "of that name is ./device:";
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
    }
    return true;
}
