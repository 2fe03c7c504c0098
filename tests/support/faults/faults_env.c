// SPDX-License-Identifier: Apache-2.0
/* Of libhr_faults.so only: HR_FAULTS tells a program what fails, as words with commas between:
 *
 *     cap=N          reads and writes move 1 to N bytes         seed=N   other sizes
 *     alloc=N        the Nth allocation fails
 *     read=N:ERRNO   the Nth read fails with that number        write=N:ERRNO
 *
 * as in LD_PRELOAD=libhr_faults.so HR_FAULTS=cap=7,seed=3 headrace run in out --io threads */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "faults.h"

static bool number(const char **text, const char *word, uint64_t *value)
{
    const size_t size = strlen(word);
    if (strncmp(*text, word, size) != 0)
        return false;
    char *end = NULL;
    *value = strtoull(*text + size, &end, 10);
    *text = end;
    return true;
}

static void plan(const char **text, enum hr_fault kind, uint64_t nth)
{
    uint64_t error = EIO;
    number(text, ":", &error);
    hr_faults_fail(kind, nth, 1, (int)error);
}

__attribute__((constructor)) static void read_environment(void)
{
    const char *text = getenv("HR_FAULTS");
    uint64_t cap = 0, seed = 1, nth = 0;
    while (text && *text) {
        if (number(&text, "alloc=", &nth))
            plan(&text, HR_FAULT_ALLOC, nth);
        else if (number(&text, "read=", &nth))
            plan(&text, HR_FAULT_READ, nth);
        else if (number(&text, "write=", &nth))
            plan(&text, HR_FAULT_WRITE, nth);
        else if (!number(&text, "cap=", &cap) && !number(&text, "seed=", &seed))
            abort();
        text += *text == ',';
    }
    hr_faults_cap((size_t)cap, (uint32_t)seed);
}
