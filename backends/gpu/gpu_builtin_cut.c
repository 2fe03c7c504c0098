// SPDX-License-Identifier: Apache-2.0
/* One entry out of a module of PTX. What stands before the first entry (versions, shared memory)
 * belongs to all; then come the entries, each from its directive to a closing brace that stands
 * alone on its line. The module's functions are all inlined, so that an entry needs no other. */
#include <stdio.h>
#include <string.h>

#include "gpu_builtin.h"

static const char directive[] = ".visible .entry ";

static const char *find_entry(const char *ptx, const char *entry)
{
    const size_t n = strlen(entry);
    for (const char *at = strstr(ptx, directive); at; at = strstr(at + 1, directive)) {
        const char *name = at + sizeof directive - 1;
        if (strncmp(name, entry, n) == 0 && name[n] == '(')
            return at;
    }
    return NULL;
}

size_t hr__gpu_builtin_cut(const char *ptx, const char *entry, char *out, size_t out_size)
{
    const char *first = strstr(ptx, directive);
    const char *begin = find_entry(ptx, entry);
    const char *end = begin ? strstr(begin, "\n}\n") : NULL;
    if (!end)
        return 0;
    const int n = snprintf(out, out_size, "%.*s%.*s\n}\n", (int)(first - ptx), ptx,
                           (int)(end - begin), begin);
    return n > 0 && (size_t)n < out_size ? (size_t)n : 0;
}
