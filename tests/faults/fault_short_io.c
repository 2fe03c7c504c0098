// SPDX-License-Identifier: Apache-2.0
/* No read and no write moves more than a few bytes, a random number each time: the output is the
 * same, for every size near a border. */
#include <stdio.h>

#include "engines.h"
#include "faults.h"
#include "transfers.h"

enum { CHUNK = 8192 };

static const uint64_t sizes[] = {0,         1,     4095,      4096,         4097,
                                 CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 7};
static const size_t caps[] = {1, 7, 1000, 5000};
enum { N_SIZES = sizeof sizes / sizeof sizes[0], N_CAPS = sizeof caps / sizeof caps[0] };

static void exempt_helper(void)
{
    hr_faults_exempt(true);
}

static void run_capped(const struct shape *shape, size_t cap)
{
    char name[250];
    snprintf(name, sizeof name, "%s, %u bytes, at most %u at once", transfer_name(shape),
             (unsigned)shape->size, (unsigned)cap);
    limit_time(30, name);
    struct transfer t;
    hr_error error = {0};
    transfer_open(&t, shape);
    hr_faults_cap(cap, (uint32_t)(shape->size + cap));
    const hr_status status = transfer_run(&t, &error);
    const uint64_t n_shortened = hr_faults_cap(0, 0);
    const enum outcome outcome = transfer_finish(&t);
    check_that(status == HR_OK && outcome == OUTCOME_WHOLE && (n_shortened || shape->size <= cap),
               name, "%u calls were shortened: %s", (unsigned)n_shortened, error.text);
    transfer_close(&t);
}

int main(void)
{
    static const enum place pairs[][2] = {
        {PLACE_FILE, PLACE_FILE}, {PLACE_PIPE, PLACE_PIPE}, {PLACE_SOCKET, PLACE_SOCKET}};
    uint32_t engines[2];
    const unsigned n_engines = test_engines(engines);
    transfer_helper = exempt_helper;
    for (unsigned e = 0; e < n_engines; e++)
        for (unsigned i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
            for (unsigned j = 0; j < N_SIZES * N_CAPS; j++) {
                const uint64_t size = sizes[j % N_SIZES];
                if (size > 5000 * caps[j / N_SIZES])
                    continue; /* one byte at a time takes its time */
                const struct shape shape = {.from = pairs[i][0],
                                            .to = pairs[i][1],
                                            .size = size,
                                            .chunk_size = CHUNK,
                                            .depth = 3,
                                            .io = engines[e]};
                run_capped(&shape, caps[j / N_SIZES]);
            }
    return end_checks();
}
