// SPDX-License-Identifier: Apache-2.0
/* headrace devices --selftest: the order of things, and how a check goes. */
#include <stdarg.h>
#include <string.h>

#include "selftest.h"

/* ---- one check ---- */

__attribute__((format(printf, 3, 0))) static void say(struct selftest *t, bool is_skipped,
                                                      const char *format, va_list arguments)
{
    if (t->why[0])
        return;
    t->is_skipped = is_skipped;
    vsnprintf(t->why, sizeof t->why, format, arguments);
    for (char *at = t->why; *at; at++) /* a report has one line for each check */
        if (*at == '\n')
            *at = ' ';
}

void fail(struct selftest *t, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(t, false, format, arguments);
    va_end(arguments);
}

void skip(struct selftest *t, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(t, true, format, arguments);
    va_end(arguments);
}

bool expect_ok(struct selftest *t, const char *what, hr_status status, const hr_error *error)
{
    if (status != HR_OK)
        fail(t, "%s: %s: %s", what, hr_status_name(status), error->text);
    return status == HR_OK;
}

bool expect_bytes(struct selftest *t, const char *what, const unsigned char *got,
                  const unsigned char *expected, uint64_t size)
{
    uint64_t n_wrong = 0;
    uint64_t first = size;
    if (size == 0 || memcmp(got, expected, size) == 0)
        return true;
    for (uint64_t i = size; i-- > 0;)
        if (got[i] != expected[i]) {
            first = i;
            n_wrong++;
        }
    fail(t, "%s: expected 0x%02x, got 0x%02x at byte %llu of %llu; %llu byte%s wrong", what,
         expected[first], got[first], (unsigned long long)first, (unsigned long long)size,
         (unsigned long long)n_wrong, n_wrong == 1 ? " is" : "s are");
    return false;
}

void begin_step(struct selftest *t, const char *name)
{
    t->name = name;
    t->why[0] = '\0';
    t->is_skipped = false;
    fflush(stdout);
    watch_check(t);
}

void check(struct selftest *t, const char *name, check_fn run, const void *what)
{
    const uint64_t begin = now_ns();
    begin_step(t, name);
    run(t, what);
    watch_no_check();
    const double ms = (double)(now_ns() - begin) / 1e6;
    if (t->is_skipped)
        t->n_skipped++;
    else if (t->why[0])
        t->n_failed++;
    else
        t->n_passed++;
    tell_check(t, ms);
}

/* ---- all of them ---- */

/* A pipeline tells which device it was given: "auto" and identities are the library's to read. */
static void open_device(struct selftest *t, const void *unused)
{
    static const unsigned char byte;
    const struct flow flow = {
        .device = t->asked, .source = from_memory(&byte, 1), .sink = to_device(NULL, 0)};
    hr_pipeline *pipeline = NULL;
    struct hr_stats stats = {.struct_size = sizeof stats};
    hr_error error = {0};
    (void)unused;
    if (expect_ok(t, "opening it", create_flow(t, &flow, &pipeline, &error), &error) &&
        expect_ok(t, "asking for its name", hr_pipeline_stats(pipeline, &stats), &error)) {
        snprintf(t->device, sizeof t->device, "%s", stats.device);
        t->is_host = strcmp(t->device, "host") == 0;
    }
    hr_pipeline_free(pipeline);
}

/* With it go the loop, and all that the device still keeps. */
static void close_device(struct selftest *t, const void *unused)
{
    (void)unused;
    hr_loop_free(t->loop);
    hr_context_free(t->context);
}

static void run_checks(struct selftest *t)
{
    tell_checks(t);
    check(t, "the device opens", open_device, NULL);
    if (t->n_failed == 0) {
        selftest_memory(t);
        selftest_kernels(t);
        selftest_chains(t);
        selftest_loans(t);
        selftest_own_kernels(t);
        selftest_ends(t);
        selftest_rates(t);
    }
    check(t, "the device closes", close_device, NULL);
    tell_checks_end(t);
}

static void tell_notes(struct selftest *t)
{
    tell_group(t, "notes");
    for (unsigned i = 0; i < n_notes(); i++) {
        char number[16];
        snprintf(number, sizeof number, "%u", i + 1);
        tell_text(t, number, note(i));
    }
    tell_group_end(t);
}

static void run(struct selftest *t)
{
    tell_begin(t);
    tell_machine(t);
    tell_devices(t);
    tell_libraries(t, "libraries");
    run_checks(t);
    if (t->device[0])
        tell_text(t, "device", t->device);
    if (t->compiler[0])
        tell_text(t, "compiler_said", t->compiler);
    tell_libraries(t, "libraries_later");
    if (t->rates.both > 0)
        tell_rates(t);
    tell_notes(t);
    tell_end(t);
}

int run_selftest(const char *device, bool json, uint32_t limit_s)
{
    static struct selftest t;
    hr_error error = {0};
    const struct hr_context_config config = {.struct_size = sizeof config, .log = take_note};
    t = (struct selftest){.asked = device, .json = json};
    hr_status status = hr_context_create(&config, &t.context, &error);
    if (status == HR_OK)
        status = hr_loop_create(t.context, NULL, &t.loop, &error);
    if (status != HR_OK || !watch_begin(limit_s)) {
        fprintf(stderr, "headrace: %s\n", status != HR_OK ? error.text : "no thread to watch");
        hr_loop_free(t.loop);
        hr_context_free(t.context);
        return EXIT_TRANSFER;
    }
    run(&t);
    const int code = finish_stdout();
    return code == EXIT_DONE && t.n_failed > 0 ? EXIT_TRANSFER : code;
}
