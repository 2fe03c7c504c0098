// SPDX-License-Identifier: Apache-2.0
/* headrace bench: measures what this machine can do, each thing alone, and pipelines against it.
 *
 * One round runs every case once with the default depth and once with depth 1, so that a machine
 * that slows down or is busy for a while spoils a round and not a case. */
#include <argp.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

enum { KEY_LIST = 256, KEY_JSON, KEY_SIZE };

struct bench_options {
    bool list;
    bool some; /* cases were named */
    char *json;
    uint64_t size;
    struct measured all[N_CASES];
};

static const struct argp_option option_table[] = {
    {NULL, 'h', NULL, OPTION_HIDDEN, NULL, -1},
    {"list", KEY_LIST, NULL, 0, "Lists the cases", 0},
    {"json", KEY_JSON, "FILE", 0, "Writes all figures there, too", 0},
    {"size", KEY_SIZE, "SIZE", 0, "Bytes that each case moves (256M)", 0},
    {0},
};

static int index_of_case(const char *name)
{
    for (int i = 0; i < N_CASES; i++)
        if (strcmp(bench_cases[i].name, name) == 0)
            return i;
    return -1;
}

/* A case is told with its parts. */
static void want(struct bench_options *o, const char *name, struct argp_state *state)
{
    const int i = index_of_case(name);
    if (i < 0) {
        argp_error(state, "there is no case '%s'; 'headrace bench --list' lists them", name);
        return;
    }
    o->all[i].wanted = true;
    for (unsigned part = 0; part < MAX_PARTS && bench_cases[i].parts[part]; part++)
        o->all[index_of_case(bench_cases[i].parts[part])].wanted = true;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct bench_options *o = state->input;
    switch (key) {
    case 'h':
        argp_state_help(state, stdout, ARGP_HELP_STD_HELP); /* which exits */
        return 0;
    case KEY_LIST:
        o->list = true;
        return 0;
    case KEY_JSON:
        o->json = arg;
        return 0;
    case KEY_SIZE:
        if (!parse_size(arg, &o->size) || o->size < 4096 || o->size > UINT64_C(1) << 40)
            argp_error(state,
                       "--size %s: a size from 4K to 1T is wanted (K, M, G and T are powers "
                       "of 1024)",
                       arg);
        o->size -= o->size % 4; /* whole numbers */
        return 0;
    case ARGP_KEY_ARG:
        want(o, arg, state);
        o->some = true;
        return 0;
    case ARGP_KEY_END:
        for (unsigned i = 0; i < N_CASES && !o->some; i++)
            o->all[i].wanted = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp parser = {
    .options = option_table,
    .parser = parse_option,
    .args_doc = "[CASE...]",
    .doc = "Measures what this machine can do, each thing alone, and pipelines against the slowest "
           "of their parts.\v"
           "Takes about four times SIZE of memory and three times SIZE in files under TMPDIR "
           "(/tmp), which are removed at the end. Every case is verified before it is measured.\n\n"
           "Exit status: 0 every case was measured, 1 some were not, 2 the command line is wrong, "
           "130 interrupted.",
};

/* Verified, which also warms caches and leases. */
static void prove(struct bench *b, struct measured *m, unsigned i)
{
    struct sample sample;
    if (m->wanted && bench_run(b, &bench_cases[i], 0, &sample, m->error))
        bench_verify(b, &bench_cases[i], &sample, m->error);
}

static bool run_both(struct bench *b, struct measured *m, unsigned i)
{
    const struct bench_case *one = &bench_cases[i];
    return bench_run(b, one, 0, &m->deep[m->n], m->error) &&
           (!is_pipeline(one) || bench_run(b, one, 1, &m->shallow[m->n], m->error));
}

/* A case that fails once is not told at all. */
static void measure(struct bench *b, struct measured *m, unsigned i)
{
    if (m->wanted && !m->error[0])
        m->n = run_both(b, m, i) ? m->n + 1 : 0;
}

static void tell_round(int round)
{
    if (!isatty(STDERR_FILENO))
        return;
    if (round < 0)
        fputs("verifying", stderr);
    else
        fprintf(stderr, "\rround %d of %d", round + 1, N_SAMPLES);
}

static void run_rounds(struct bench *b, struct measured *all)
{
    for (int round = -1; round < N_SAMPLES; round++) {
        tell_round(round);
        for (unsigned i = 0; i < N_CASES && !interrupted(); i++) {
            if (round < 0)
                prove(b, &all[i], i);
            else
                measure(b, &all[i], i);
        }
    }
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r%15s\r", "");
}

static bool write_json(const struct bench *b, const struct bench_options *o)
{
    struct whole_file file;
    if (!o->json)
        return true;
    if (whole_file_open(&file, o->json)) {
        bench_print_json(b, o->all, file.stream);
        if (whole_file_close(&file))
            return true;
    }
    fprintf(stderr, "headrace: --json %s: %s\n", o->json, strerror(errno));
    return false;
}

static int run_bench(struct bench_options *o)
{
    struct bench bench;
    char error[HR_ERROR_TEXT];
    int code = EXIT_TRANSFER;
    if (!bench_set_up(&bench, o->size, error)) {
        fprintf(stderr, "headrace: bench: %s\n", error);
    } else {
        run_rounds(&bench, o->all);
        if (interrupted()) {
            fputs("headrace: interrupted: nothing is told of half a measurement\n", stderr);
            code = EXIT_INTERRUPTED;
        } else {
            bench_print(&bench, o->all, stdout);
            code = finish_stdout();
            if (!write_json(&bench, o))
                code = EXIT_TRANSFER;
        }
    }
    for (unsigned i = 0; i < N_CASES; i++)
        if (o->all[i].error[0] && code == EXIT_DONE)
            code = EXIT_TRANSFER;
    bench_tear_down(&bench);
    return code;
}

int command_bench(int argc, char **argv)
{
    static struct bench_options options = {.size = 256u << 20};
    argp_parse(&parser, argc, argv, 0, NULL, &options);
    if (options.list) {
        for (unsigned i = 0; i < N_CASES; i++)
            printf("%-14s %s\n", bench_cases[i].name, bench_cases[i].what);
        return finish_stdout();
    }
    catch_interrupts(NULL);
    return run_bench(&options);
}
