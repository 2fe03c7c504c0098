// SPDX-License-Identifier: Apache-2.0
#include "engines.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Any failure but a refusal is one that the test itself is to see. */
static bool is_refused(uint32_t io)
{
    const struct hr_loop_config config = {.struct_size = sizeof config, .io = io};
    hr_loop *loop = NULL;
    const bool refused = hr_loop_create(NULL, &config, &loop, NULL) == HR_EUNSUPPORTED;
    hr_loop_free(loop);
    return refused;
}

unsigned test_engines(uint32_t engines[2])
{
    static const struct {
        const char *name;
        uint32_t io;
    } all[] = {{"uring", HR_IO_URING}, {"threads", HR_IO_THREADS}};
    const char *only = getenv("HR_TEST_IO");
    unsigned n = 0;
    if (only && strcmp(only, "auto") == 0)
        engines[n++] = HR_IO_AUTO;
    else
        for (unsigned i = 0; i < 2; i++)
            if ((!only || strcmp(only, all[i].name) == 0) && !is_refused(all[i].io))
                engines[n++] = all[i].io;
    return n;
}

unsigned test_loops(hr_loop *loops[2])
{
    uint32_t engines[2];
    const unsigned n = test_engines(engines);
    hr_error error = {.text = "no I/O engine"};
    bool made = n > 0;
    for (unsigned i = 0; made && i < n; i++) {
        const struct hr_loop_config config = {.struct_size = sizeof config, .io = engines[i]};
        made = hr_loop_create(NULL, &config, &loops[i], &error) == HR_OK;
    }
    if (made)
        return n;
    fprintf(stderr, "not ok the test itself: %s\n", error.text);
    abort();
}
