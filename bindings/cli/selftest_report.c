// SPDX-License-Identifier: Apache-2.0
/* The report of a self-test: lines of text, or one object of JSON, which grows line by line. What is
 * printed is flushed, as the next check may be the last thing that the process does. */
#include <string.h>

#include "selftest.h"

static void key(struct selftest *t, const char *name)
{
    if (t->json) {
        fputs(t->between, stdout);
        json_text(stdout, name);
        fputs(": ", stdout);
        t->between = t->group ? ",\n  " : ",\n ";
    } else {
        printf("# %s%s%s: ", t->group ? t->group : "", t->group ? " " : "", name);
    }
}

static void end_line(const struct selftest *t)
{
    if (!t->json)
        putchar('\n');
    fflush(stdout);
}

void tell_begin(struct selftest *t)
{
    t->between = "\n ";
    if (t->json)
        putchar('{');
}

void tell_group(struct selftest *t, const char *name)
{
    if (t->json) {
        key(t, name);
        putchar('{');
    }
    t->between = "\n  ";
    t->group = name;
}

void tell_group_end(struct selftest *t)
{
    t->group = NULL;
    t->between = ",\n ";
    if (t->json)
        putchar('}');
}

void tell_text(struct selftest *t, const char *name, const char *value)
{
    key(t, name);
    if (t->json)
        json_text(stdout, value);
    else
        fputs(value, stdout);
    end_line(t);
}

void tell_number(struct selftest *t, const char *name, double value, int decimals)
{
    key(t, name);
    printf("%.*f", decimals, value);
    end_line(t);
}

/* ---- checks ---- */

void tell_checks(struct selftest *t)
{
    t->tells_checks = true;
    if (!t->json)
        return;
    key(t, "checks");
    putchar('[');
    t->between = "\n  ";
    fflush(stdout);
}

static unsigned number_of(const struct selftest *t)
{
    return t->n_passed + t->n_failed + t->n_skipped;
}

void tell_check(struct selftest *t, double ms)
{
    const char *const words[] = {"ok", "not ok", "skip"};
    const char *const outcomes[] = {"passed", "failed", "skipped"};
    const int outcome = t->is_skipped ? 2 : t->why[0] != '\0';
    if (t->json) {
        printf("%s{\"n\": %u, \"name\": ", t->between, number_of(t));
        json_text(stdout, t->name);
        printf(", \"outcome\": \"%s\", \"why\": ", outcomes[outcome]);
        json_text(stdout, t->why);
        printf(", \"ms\": %.1f}", ms);
    } else {
        printf("%s %u %s%s%s (%.1f ms)", words[outcome], number_of(t), t->name,
               t->why[0] ? ": " : "", t->why, ms);
    }
    t->between = ",\n  ";
    end_line(t);
}

void tell_checks_end(struct selftest *t)
{
    if (t->json)
        putchar(']');
    t->between = ",\n ";
}

void tell_end(struct selftest *t)
{
    if (t->json)
        printf("%s\"passed\": %u, \"failed\": %u, \"skipped\": %u}\n", t->between, t->n_passed,
               t->n_failed, t->n_skipped);
    else
        printf("%u passed, %u failed, %u skipped\n", t->n_passed, t->n_failed, t->n_skipped);
    fflush(stdout);
}

/* Names of checks have nothing that JSON escapes. */
void tell_last_words(const struct selftest *t, char *before, char *behind, size_t size)
{
    const unsigned n_failed = t->n_failed + 1;
    if (t->json) {
        snprintf(before, size,
                 "%s%s{\"n\": %u, \"name\": \"%s\", \"outcome\": \"failed\", \"why\": \"",
                 t->between, t->tells_checks ? "" : "\"checks\": [", number_of(t) + 1, t->name);
        snprintf(behind, size, "\"}],\n \"passed\": %u, \"failed\": %u, \"skipped\": %u}\n",
                 t->n_passed, n_failed, t->n_skipped);
    } else {
        snprintf(before, size, "not ok %u %s: ", number_of(t) + 1, t->name);
        snprintf(behind, size, "\n%u passed, %u failed, %u skipped\n", t->n_passed, n_failed,
                 t->n_skipped);
    }
}
