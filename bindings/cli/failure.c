// SPDX-License-Identifier: Apache-2.0
/* How a transfer that failed is told: in the words of the command line, and by the exit status. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* "descriptor 1" is also how "descriptor 10" begins. */
static void replace(char *text, size_t size, const char *old, const char *new)
{
    char *at = strstr(text, old);
    char *rest = NULL;
    if (!at || (at[strlen(old)] >= '0' && at[strlen(old)] <= '9'))
        return;
    rest = strdup(at + strlen(old));
    if (rest)
        snprintf(at, size - (size_t)(at - text), "%s%s", new, rest);
    free(rest);
}

void name_standard_ends(hr_error *error, const struct options *o)
{
    const unsigned sink = o->n_ends - 1;
    if (error->native == EPIPE && error->stage == HR_STAGE_WRITE &&
        is_standard_word(o->ends[sink], 1))
        snprintf(error->text, sizeof error->text, "standard output was closed by its reader");
    for (unsigned i = 0; i < sink; i++)
        if (strcmp(o->ends[i], "-") == 0)
            replace(error->text, sizeof error->text, "descriptor 0", "standard input");
    if (strcmp(o->ends[sink], "-") == 0)
        replace(error->text, sizeof error->text, "descriptor 1", "standard output");
}

/* What --kernel and the addresses say are words of the command line that only the library can
 * read. */
static bool is_wrong_word(const hr_error *error, const struct options *o)
{
    const unsigned sink = o->n_ends - 1;
    if (error->code != HR_EINVAL)
        return false;
    if (error->stage == HR_STAGE_KERNEL)
        return true;
    if (error->stage == HR_STAGE_WRITE)
        return is_socket_word(o->ends[sink]);
    for (unsigned i = 0; i < sink && error->stage == HR_STAGE_READ; i++)
        if (is_socket_word(o->ends[i]))
            return true;
    return false;
}

int report_failure(const hr_error *error, const struct options *o)
{
    const bool by_user = interrupted() && error->code == HR_ECANCELED;
    fprintf(stderr, "headrace: %s%s\n", by_user ? "interrupted: " : "", error->text);
    return by_user ? EXIT_INTERRUPTED : is_wrong_word(error, o) ? EXIT_USAGE : EXIT_TRANSFER;
}
