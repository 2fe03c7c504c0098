// SPDX-License-Identifier: Apache-2.0
/* A folder of its own for each test, in which nothing may be left beside what it names. Included by
 * a test file once. */
#ifndef HR_TEST_FOLDER_SUITE_H
#define HR_TEST_FOLDER_SUITE_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char directory[64];

static void make_directory(void)
{
    strcpy(directory, "/tmp/headrace-test-XXXXXX");
    cr_assert(mkdtemp(directory));
}

/* In a buffer of its own for the next three calls. */
static const char *path_of(const char *name)
{
    static char paths[4][128];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

static void remove_directory(void)
{
    static const char *const names[] = {"in", "out", "link"};
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
        unlink(path_of(names[i]));
    cr_assert_eq(rmdir(directory), 0, "something was left beside the output");
}

#endif
