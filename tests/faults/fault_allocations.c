// SPDX-License-Identifier: Apache-2.0
/* For n = 1, 2, ... until nothing fails any more: the nth allocation of a small transfer fails, of
 * all from the loop's creation to its end. The transfer gives HR_ENOMEM, or goes another way and
 * succeeds; its output is whole, or what came before; nothing leaks and nothing hangs. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engines.h"
#include "faults.h"
#include "transfers.h"

enum { CHUNK = 8192, MAX_N = 2000 };

static const enum place pairs[][2] = {{PLACE_FILE, PLACE_FILE},
                                      {PLACE_PIPE, PLACE_PIPE},
                                      {PLACE_MEMORY, PLACE_NULL},
                                      {PLACE_CALLBACK, PLACE_CALLBACK},
                                      {PLACE_SOCKET, PLACE_MEMORY}};

static void exempt_helper(void)
{
    hr_faults_exempt(true);
}

/* NULL, or what is wrong. */
static const char *judge(hr_status status, const struct shape *shape, enum outcome outcome,
                         const hr_error *error)
{
    if (outcome == OUTCOME_WRONG)
        return "the output is wrong";
    if (status == HR_OK)
        return outcome == OUTCOME_WHOLE ? NULL : "success, but the output is not whole";
    if (shape->to == PLACE_FILE && outcome != OUTCOME_ABSENT)
        return "failure, but there is a file";
    if (status != HR_ENOMEM)
        return "another status than HR_ENOMEM";
    if (error->code != status || error->text[0] == 0 || strchr(error->text, '\n'))
        return "the error does not tell";
    return NULL;
}

/* NULL, or what is wrong; *struck tells whether the nth allocation came. */
static const char *fail_nth(const struct shape *shape, uint64_t nth, uint64_t times, bool *struck)
{
    static char why[700];
    struct transfer t;
    hr_error error = {0};
    transfer_open(&t, shape);
    hr_faults_fail(HR_FAULT_ALLOC, nth, times, ENOMEM);
    const hr_status status = transfer_run(&t, &error);
    *struck = hr_faults_struck(HR_FAULT_ALLOC);
    hr_faults_fail(HR_FAULT_ALLOC, 0, 0, 0);
    const enum outcome outcome = transfer_finish(&t);
    const char *wrong = judge(status, shape, outcome, &error);
    transfer_close(&t);
    if (wrong)
        snprintf(why, sizeof why, "%s (%s: %s)", wrong, hr_status_name(status), error.text);
    return wrong ? why : NULL;
}

static void fail_each(const struct shape *shape, uint64_t times)
{
    char name[200];
    const char *wrong = NULL;
    bool struck = true;
    uint64_t n = 0;
    const unsigned n_files = count_open_files();
    while (struck && !wrong && n < MAX_N) {
        snprintf(name, sizeof name, "%s, allocation %u fails%s", transfer_name(shape),
                 (unsigned)++n, times > 1 ? " and all after it" : "");
        limit_time(10, name);
        wrong = fail_nth(shape, n, times, &struck);
        if (!wrong && count_open_files() != n_files)
            wrong = "a descriptor is left open";
    }
    if (!wrong && (struck || n < 5))
        wrong = "the faults do not reach the library, or never end";
    if (!wrong && has_leaked())
        wrong = "memory was lost";
    check_that(!wrong, name, "%s", wrong);
}

int main(void)
{
    uint32_t engines[2];
    const unsigned n_engines = test_engines(engines);
    transfer_helper = exempt_helper;
    for (unsigned e = 0; e < n_engines; e++)
        for (unsigned i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
            const struct shape shape = {.from = pairs[i][0],
                                        .to = pairs[i][1],
                                        .size = 3 * CHUNK + 7,
                                        .chunk_size = CHUNK,
                                        .depth = 2,
                                        .io = engines[e]};
            fail_each(&shape, 1);
            fail_each(&shape, UINT64_MAX);
        }
    return end_checks();
}
