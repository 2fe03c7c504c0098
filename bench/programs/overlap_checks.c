// SPDX-License-Identifier: Apache-2.0
#include "overlap_checks.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CHECKS = 1000, MAX_RUNS = 400, MAX_ABSENT = 40 };

static struct {
    const char *of;
    char figure[64];
    double wanted;
    double got;
    double margin;
    enum relation relation;
    bool judged;
    char why[96];            /* not judged: a reason, or "" */
    const char *wanted_word; /* a stage, or NULL: a number */
    const char *got_word;
    bool good;
} checks[MAX_CHECKS];

static struct {
    const char *of;
    char name[64];
    struct hr_stats stats;
    uint64_t wall_ns;
} runs[MAX_RUNS];

static struct {
    char name[64];
    char why[HR_ERROR_TEXT];
} absent[MAX_ABSENT];

static const char *current = "";
static const char *doubted; /* NULL: nothing is */
static unsigned n_checks;
static unsigned n_runs;
static unsigned n_absent;

void stop(const char *what, const char *why)
{
    fprintf(stderr, "overlap_truth: %s: %s: %s\n", current, what, why);
    exit(2);
}

void case_begin(const char *name)
{
    current = name;
    fprintf(stderr, "%s\n", name);
}

static unsigned next_check(const char *figure)
{
    if (n_checks == MAX_CHECKS)
        stop(figure, "more checks than there is room for");
    checks[n_checks].of = current;
    snprintf(checks[n_checks].figure, sizeof checks[0].figure, "%s", figure);
    return n_checks++;
}

static bool is_good(double wanted, double got, enum relation relation, double margin)
{
    const double most = wanted + margin * fabs(wanted);
    const double least = wanted - margin * fabs(wanted);
    return (relation == AT_LEAST || got <= most) && (relation == AT_MOST || got >= least);
}

void doubt(const char *why)
{
    doubted = why;
}

void tell(const char *figure, double wanted, double got)
{
    const unsigned i = next_check(figure);
    checks[i].wanted = wanted;
    checks[i].got = got;
    checks[i].good = true;
}

void check(const char *figure, double wanted, double got, enum relation relation, double margin)
{
    tell(figure, wanted, got);
    const unsigned i = n_checks - 1;
    if (doubted) {
        snprintf(checks[i].why, sizeof checks[i].why, "%s", doubted);
        return;
    }
    checks[i].judged = true;
    checks[i].relation = relation;
    checks[i].margin = margin;
    checks[i].good = is_good(wanted, got, relation, margin);
}

void check_stage(const char *figure, enum hr_stage wanted, enum hr_stage got)
{
    const unsigned i = next_check(figure);
    checks[i].judged = true;
    checks[i].wanted_word = hr_stage_name(wanted);
    checks[i].got_word = hr_stage_name(got);
    checks[i].good = wanted == got;
}

void keep_run(const char *name, const struct hr_stats *stats, uint64_t wall_ns)
{
    if (n_runs == MAX_RUNS)
        stop(name, "more runs than there is room for");
    runs[n_runs].of = current;
    runs[n_runs].stats = *stats;
    runs[n_runs].wall_ns = wall_ns;
    snprintf(runs[n_runs++].name, sizeof runs[0].name, "%s", name);
}

void not_here(const char *name, const char *why)
{
    if (n_absent == MAX_ABSENT)
        stop(name, "more is absent than there is room for");
    snprintf(absent[n_absent].name, sizeof absent[0].name, "%s", name);
    snprintf(absent[n_absent++].why, sizeof absent[0].why, "%s", why);
}

/* ---- JSON ---- */

static void print_text(const char *key, const char *text)
{
    printf("\"%s\": \"", key);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            putchar('\\');
        putchar((unsigned char)*text < ' ' ? ' ' : *text);
    }
    printf("\"");
}

static void print_check(unsigned i)
{
    static const char *const words[] = {"within", "at most", "at least"};
    printf("{");
    print_text("case", checks[i].of);
    printf(", ");
    print_text("figure", checks[i].figure);
    if (checks[i].wanted_word)
        printf(", \"wanted\": \"%s\", \"got\": \"%s\"", checks[i].wanted_word, checks[i].got_word);
    else
        printf(", \"wanted\": %.6g, \"got\": %.6g", checks[i].wanted, checks[i].got);
    printf(", \"relation\": \"%s\", \"margin\": %.3g, \"judged\": %s, \"good\": %s",
           words[checks[i].relation], checks[i].margin, checks[i].judged ? "true" : "false",
           checks[i].good ? "true" : "false");
    if (checks[i].why[0]) {
        printf(", ");
        print_text("why", checks[i].why);
    }
    printf("}");
}

static void print_stage(const struct hr_stats *s, unsigned stage)
{
    const struct hr_stage_stats *one = &s->stages[stage];
    printf("\"%s\": {\"chunks\": %llu, \"bytes_in\": %llu, \"bytes_out\": %llu, "
           "\"service_ns\": %llu, \"starved_ns\": %llu, \"blocked_ns\": %llu, "
           "\"capacity\": %u, \"resource\": %u}",
           hr_stage_name((enum hr_stage)stage), (unsigned long long)one->chunks,
           (unsigned long long)one->bytes_in, (unsigned long long)one->bytes_out,
           (unsigned long long)one->service_ns, (unsigned long long)one->starved_ns,
           (unsigned long long)one->blocked_ns, one->capacity, one->resource);
}

static void print_run(unsigned i)
{
    const struct hr_stats *s = &runs[i].stats;
    const char *comma = "";
    printf("{");
    print_text("case", runs[i].of);
    printf(", ");
    print_text("run", runs[i].name);
    printf(", \"wall_ns\": %llu, \"told_wall_ns\": %llu, \"overlap\": %.6g, \"gain\": %.6g, "
           "\"bottleneck\": \"%s\", \"depth\": %u, \"chunk_bytes\": %llu, \"stages\": {",
           (unsigned long long)runs[i].wall_ns, (unsigned long long)s->wall_ns, s->overlap, s->gain,
           hr_stage_name((enum hr_stage)s->bottleneck), s->depth,
           (unsigned long long)s->chunk_size);
    for (unsigned stage = HR_STAGE_READ; stage < HR_STAGE_COUNT; stage++) {
        if (!s->stages[stage].chunks && !s->stages[stage].service_ns)
            continue;
        printf("%s", comma);
        print_stage(s, stage);
        comma = ", ";
    }
    printf("}}");
}

void print_all(const char *device)
{
    printf("{");
    print_text("device", device);
    printf(",\n\"checks\": [");
    for (unsigned i = 0; i < n_checks; i++) {
        printf("%s\n ", i ? "," : "");
        print_check(i);
    }
    printf("],\n\"runs\": [");
    for (unsigned i = 0; i < n_runs; i++) {
        printf("%s\n ", i ? "," : "");
        print_run(i);
    }
    printf("],\n\"not_run\": [");
    for (unsigned i = 0; i < n_absent; i++) {
        printf("%s\n {", i ? "," : "");
        print_text("case", absent[i].name);
        printf(", ");
        print_text("why", absent[i].why);
        printf("}");
    }
    printf("]}\n");
}
