// SPDX-License-Identifier: Apache-2.0
/* For n = 1, 2, ... until nothing fails any more: the nth read, or write, of a short transfer
 * fails. EIO and ENOSPC end it: the error names stage, cause and byte, and everything before that
 * byte was delivered, but no file. EINTR and, where one can wait, EAGAIN change nothing. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engines.h"
#include "faults.h"
#include "transfers.h"

enum { CHUNK = 8192, MAX_N = 500 };

static void exempt_helper(void)
{
    hr_faults_exempt(true);
}

struct plan {
    enum hr_fault kind;
    int error;
};

static bool is_passing(int error)
{
    return error == EINTR || error == EAGAIN;
}

/* NULL, or what is wrong with a failed transfer's error. */
static const char *judge_error(const struct plan *plan, const struct transfer *t,
                               const hr_error *error)
{
    const bool reads = plan->kind == HR_FAULT_READ;
    if (error->code != HR_EIO || error->native != plan->error)
        return "another cause";
    if (error->stage != (reads ? HR_STAGE_READ : HR_STAGE_WRITE))
        return "another stage";
    if (!strstr(error->text, strerror(plan->error)) || strchr(error->text, '\n'))
        return "the text does not tell the cause";
    const enum place place = reads ? t->shape.from : t->shape.to;
    if (place == PLACE_FILE && !strstr(error->text, reads ? t->in : t->out))
        return "the text does not name the file";
    if (error->offset > t->shape.size || error->chunk != error->offset / CHUNK)
        return "the position is wrong";
    if (t->shape.to != PLACE_FILE && t->n_got != error->offset)
        return "not exactly what is before the error was delivered";
    return NULL;
}

static const char *judge(const struct plan *plan, const struct transfer *t, hr_status status,
                         enum outcome outcome, const hr_error *error)
{
    if (outcome == OUTCOME_WRONG)
        return "the output is wrong";
    if (status == HR_OK)
        return outcome == OUTCOME_WHOLE ? NULL : "success, but the output is not whole";
    if (is_passing(plan->error))
        return "it failed";
    if (t->shape.to == PLACE_FILE && outcome != OUTCOME_ABSENT)
        return "failure, but there is a file";
    return judge_error(plan, t, error);
}

/* NULL, or what is wrong. */
static const char *fail_nth(const struct shape *shape, const struct plan *plan, uint64_t nth,
                            hr_status *status, bool *struck)
{
    static char why[900];
    struct transfer t;
    hr_error error = {0};
    transfer_open(&t, shape);
    hr_faults_fail(plan->kind, nth, 1, plan->error);
    *status = transfer_run(&t, &error);
    *struck = hr_faults_struck(plan->kind);
    hr_faults_fail(plan->kind, 0, 0, 0);
    const enum outcome outcome = transfer_finish(&t);
    const char *wrong = judge(plan, &t, *status, outcome, &error);
    if (wrong)
        snprintf(why, sizeof why, "%s (%s at byte %u, %u delivered: %s)", wrong,
                 hr_status_name(*status), (unsigned)error.offset, (unsigned)t.n_got, error.text);
    transfer_close(&t);
    return wrong ? why : NULL;
}

static void fail_each(const struct shape *shape, const struct plan *plan)
{
    char name[250];
    const char *wrong = NULL;
    bool struck = true;
    uint64_t n = 0;
    unsigned n_failed = 0;
    while (struck && !wrong && n < MAX_N) {
        hr_status status;
        snprintf(name, sizeof name, "%s, %s %u fails with %s", transfer_name(shape),
                 plan->kind == HR_FAULT_READ ? "read" : "write", (unsigned)++n,
                 strerror(plan->error));
        limit_time(10, name);
        wrong = fail_nth(shape, plan, n, &status, &struck);
        n_failed += status != HR_OK;
    }
    if (!wrong && (struck || n < 3 || (n_failed == 0 && !is_passing(plan->error))))
        wrong = "the faults do not reach the library, or never end";
    if (!wrong && has_leaked())
        wrong = "memory was lost";
    check_that(!wrong, name, "%s", wrong);
}

static void fail_all(const struct shape *shape)
{
    static const struct plan plans[] = {{HR_FAULT_READ, EIO},     {HR_FAULT_READ, EINTR},
                                        {HR_FAULT_READ, EAGAIN},  {HR_FAULT_WRITE, EIO},
                                        {HR_FAULT_WRITE, ENOSPC}, {HR_FAULT_WRITE, EINTR},
                                        {HR_FAULT_WRITE, EAGAIN}};
    for (unsigned i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        const enum place place = plans[i].kind == HR_FAULT_READ ? shape->from : shape->to;
        const bool is_io = place == PLACE_FILE || place == PLACE_PIPE || place == PLACE_SOCKET;
        if (is_io && !(place == PLACE_FILE && plans[i].error == EAGAIN)) /* a file never says so */
            fail_each(shape, &plans[i]);
    }
}

int main(void)
{
    static const enum place pairs[][2] = {
        {PLACE_FILE, PLACE_PIPE},     {PLACE_FILE, PLACE_FILE},     {PLACE_PIPE, PLACE_PIPE},
        {PLACE_SOCKET, PLACE_SOCKET}, {PLACE_CALLBACK, PLACE_FILE}, {PLACE_FILE, PLACE_CALLBACK}};
    uint32_t engines[2];
    const unsigned n_engines = test_engines(engines);
    transfer_helper = exempt_helper;
    for (unsigned e = 0; e < n_engines; e++) {
        if (engines[e] == HR_IO_URING && !hr_faults_can_fail_uring()) {
            printf("skip uring: this kernel cannot make a request fail\n");
            continue;
        }
        for (unsigned i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
            const struct shape shape = {.from = pairs[i][0],
                                        .to = pairs[i][1],
                                        .size = 6 * CHUNK + 7,
                                        .chunk_size = CHUNK,
                                        .depth = 3,
                                        .io = engines[e]};
            fail_all(&shape);
        }
    }
    return end_checks();
}
