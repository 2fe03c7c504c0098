// SPDX-License-Identifier: Apache-2.0
/* What the library says while it works: kept until there is a place to print it, so that it does
 * not come between the progress bar and its end. The library calls on any thread, one call at a
 * time; a note is published by the count. */
#include <stdatomic.h>
#include <string.h>

#include "cli.h"

static char lines[MAX_NOTES][HR_ERROR_TEXT];
static atomic_uint count;

void take_note(void *unused, const char *line)
{
    (void)unused;
    const unsigned n = atomic_load_explicit(&count, memory_order_relaxed);
    for (unsigned i = 0; i < n; i++)
        if (strncmp(lines[i], line, sizeof lines[i] - 1) == 0)
            return;
    if (n == MAX_NOTES)
        return;
    strncpy(lines[n], line, sizeof lines[n] - 1);
    atomic_store_explicit(&count, n + 1, memory_order_release);
}

unsigned n_notes(void)
{
    return atomic_load_explicit(&count, memory_order_acquire);
}

const char *note(unsigned i)
{
    return lines[i];
}
