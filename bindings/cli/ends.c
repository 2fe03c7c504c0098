// SPDX-License-Identifier: Apache-2.0
/* The words of the command line that name sizes, sources and sinks. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

bool parse_size(const char *text, uint64_t *out)
{
    if (*text < '0' || *text > '9')
        return false;
    char *end;
    errno = 0;
    const unsigned long long number = strtoull(text, &end, 10);
    unsigned shift = 0;
    if (*end) {
        static const char units[] = "KMGT";
        const char *unit = strchr(units, *end);
        if (!unit || end[1])
            return false;
        shift = 10u * (unsigned)(unit - units + 1);
    }
    if (errno || number > UINT64_MAX >> shift)
        return false;
    *out = (uint64_t)number << shift;
    return true;
}

/* "-" and "fd:N". False: the text is neither; *why is set if it is a wrong fd:. */
static bool parse_descriptor(const char *text, int standard, int32_t *fd, const char **why)
{
    uint64_t number;
    if (strcmp(text, "-") == 0) {
        *fd = standard;
        return true;
    }
    if (strncmp(text, "fd:", 3) != 0)
        return false;
    if (!parse_size(text + 3, &number) || number > INT32_MAX) {
        *why = "after fd: comes the number of an open descriptor";
        return false;
    }
    *fd = (int32_t)number;
    return true;
}

/* Words that this command does not serve would otherwise be taken as names of files. */
static bool is_network(const char *text)
{
    static const char *const prefixes[] = {"tcp://", "tcp-listen://", "unix:", "unix-listen:"};
    for (unsigned i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (strncmp(text, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

static const char no_network[] =
    "connecting is not offered by this version; open the socket and pass it as fd:N, or name a "
    "file ./NAME";

bool parse_source(const char *text, struct hr_source *out, const char **why)
{
    *out = (struct hr_source){.struct_size = sizeof *out, .kind = HR_FD};
    *why = NULL;
    if (parse_descriptor(text, 0, &out->fd, why))
        return true;
    if (!*why && is_network(text))
        *why = no_network;
    else if (!*why && strcmp(text, "null:") == 0)
        *why = "null: is a sink only; /dev/null is an empty source";
    out->kind = HR_FILE;
    out->path = text;
    return !*why;
}

bool parse_sink(const char *text, struct hr_sink *out, const char **why)
{
    *out = (struct hr_sink){.struct_size = sizeof *out, .kind = HR_NULL};
    *why = NULL;
    if (strcmp(text, "null:") == 0)
        return true;
    out->kind = HR_FD;
    if (parse_descriptor(text, 1, &out->fd, why))
        return true;
    if (!*why && is_network(text))
        *why = no_network;
    else if (!*why && strcmp(text, "device:") == 0)
        *why = "no GPU device is offered by this version";
    out->kind = HR_FILE;
    out->path = text;
    return !*why;
}
