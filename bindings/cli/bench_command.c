// SPDX-License-Identifier: Apache-2.0
/* headrace bench: measures what this machine can do, each thing alone, and pipelines against it; or
 * looks for settings that suit it. */
#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "bench.h"
#include "bench_turns.h"

enum { KEY_LIST = 256, KEY_JSON, KEY_SIZE, KEY_DEVICE, KEY_TUNE, KEY_SAVE, KEY_LIMIT, KEY_TURNS };
enum { TUNE_LIMIT_S = 25, MOST_LIMIT_S = 3600 };

struct bench_options {
    bool list;
    bool tune;
    bool save;
    const char *limit; /* as it was given */
    uint64_t limit_s;
    char *json;
    uint64_t size; /* 0: the default */
    int turns;     /* a socket; -1: none */
    const char *device;
    char *words[N_CASES];
    unsigned n_words;
    struct measured all[N_CASES];
};

static const struct argp_option option_table[] = {
    {NULL, 'h', NULL, OPTION_HIDDEN, NULL, -1},
    {"list", KEY_LIST, NULL, 0, "Lists the cases", 0},
    {"json", KEY_JSON, "FILE", 0, "Writes all figures there, too", 0},
    {"size", KEY_SIZE, "SIZE", 0, "Bytes that most cases move (by CPUs and memory, up to 2G)", 0},
    {"device", KEY_DEVICE, "auto|host|cuda:N|hip:N", 0,
     "As for run: auto is the first GPU, else the host (auto)", 0},
    {"turns", KEY_TURNS, "DESCRIPTOR", 0,
     "Measures by turns with another run: each has one of a pair of sockets, and whoever has the "
     "byte measures",
     0},
    {"tune", KEY_TUNE, NULL, 0,
     "Looks for the chunk, depth and threads that are fastest on this machine for FILE, or for a "
     "made input",
     1},
    {"save", KEY_SAVE, NULL, 0, "With --tune: keeps them for 'headrace run' on this machine", 1},
    {"limit", KEY_LIMIT, "SECONDS", 0, "With --tune: for the search (25)", 1},
    {0},
};

static void set_size(struct bench_options *o, const char *arg, struct argp_state *state)
{
    if (!parse_size(arg, &o->size) || o->size < 4096 || o->size > UINT64_C(1) << 40)
        argp_error(state,
                   "--size %s: a size from 4K to 1T is wanted (K, M, G and T are powers of 1024)",
                   arg);
    o->size -= o->size % 4096; /* whole numbers, and pages */
}

static void set_turns(struct bench_options *o, const char *arg, struct argp_state *state)
{
    uint64_t fd = 0;
    struct stat st;
    if (!parse_number(arg, &fd) || fd > INT_MAX || fstat((int)fd, &st) != 0 ||
        !S_ISSOCK(st.st_mode))
        argp_error(state, "--turns %s: the number of an open socket is wanted", arg);
    o->turns = (int)fd;
}

static void set_limit(struct bench_options *o, const char *arg, struct argp_state *state)
{
    o->limit = arg;
    if (!parse_number(arg, &o->limit_s) || o->limit_s < 1 || o->limit_s > MOST_LIMIT_S)
        argp_error(state, "--limit %s: seconds from 1 to %d are wanted", arg, MOST_LIMIT_S);
}

static void add_word(struct bench_options *o, char *arg, struct argp_state *state)
{
    if (o->n_words == N_CASES)
        argp_error(state, "at most %d words", N_CASES);
    o->words[o->n_words++] = arg;
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
    for (unsigned k = 0; k < MAX_PARTS && bench_cases[i].parts[k].name; k++) {
        const int part = index_of_case(bench_cases[i].parts[k].name);
        o->all[part].wanted = true;
    }
}

static void check(struct bench_options *o, struct argp_state *state)
{
    if (!o->tune && (o->save || o->limit))
        argp_error(state, "--%s goes with --tune", o->save ? "save" : "limit");
    if (o->tune && o->turns >= 0)
        argp_error(state, "--turns does not go with --tune");
    if (o->tune && o->n_words > 1)
        argp_error(state, "--tune takes one FILE");
    if (o->tune && o->n_words && o->size)
        argp_error(state, "--size is of the made input, but %s is given", o->words[0]);
    for (unsigned i = 0; i < o->n_words && !o->tune; i++)
        want(o, o->words[i], state);
    for (unsigned i = 0; i < N_CASES && !o->n_words; i++)
        o->all[i].wanted = true;
    if (!o->size)
        o->size = bench_default_size();
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
        set_size(o, arg, state);
        return 0;
    case KEY_DEVICE:
        if (!is_device_word(arg))
            argp_error(state,
                       "--device %s: one of auto, host, cuda:N and hip:N is wanted, or for N a "
                       "UUID (GPU-...) or a PCI address",
                       arg);
        o->device = arg;
        return 0;
    case KEY_TUNE:
        o->tune = true;
        return 0;
    case KEY_SAVE:
        o->save = true;
        return 0;
    case KEY_LIMIT:
        set_limit(o, arg, state);
        return 0;
    case KEY_TURNS:
        set_turns(o, arg, state);
        return 0;
    case ARGP_KEY_ARG:
        add_word(o, arg, state);
        return 0;
    case ARGP_KEY_END:
        check(o, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp parser = {
    .options = option_table,
    .parser = parse_option,
    .args_doc = "[CASE...]\n--tune [FILE]",
    .doc =
        "Measures what this machine can do, each thing alone, and then pipelines, each beside the "
        "least of the ceilings of its parts. Or looks for settings that suit it.\v"
        "Takes up to six times SIZE of memory, a bit more than twice SIZE in files under TMPDIR "
        "(/tmp), which are removed at the end, and with a GPU twice SIZE of its memory. Every "
        "case is verified before it is measured; one that cannot be measured tells why, and the "
        "others go on.\n\n"
        "Exit status: 0 every case was measured, but those of a GPU where there is none; 1 some "
        "were not, 2 the command line is wrong, 130 interrupted.",
};

bool bench_write_json(const char *path, void (*print)(const void *what, FILE *out),
                      const void *what)
{
    struct whole_file file;
    if (!path)
        return true;
    if (whole_file_open(&file, path)) {
        print(what, file.stream);
        if (whole_file_close(&file))
            return true;
    }
    fprintf(stderr, "headrace: --json %s: %s\n", path, strerror(errno));
    return false;
}

struct told {
    const struct bench *bench;
    const struct measured *all;
};

static void print_told(const void *what, FILE *out)
{
    const struct told *told = what;
    bench_print_json(told->bench, told->all, out);
}

static bool all_measured(const struct bench *b, const struct measured *all)
{
    for (unsigned i = 0; i < N_CASES; i++)
        if (all[i].wanted && all[i].error[0] && !(bench_cases[i].gpu_only && b->on_host))
            return false;
    return true;
}

static int measure(struct bench *b, struct bench_options *o)
{
    const struct told told = {b, o->all};
    bench_rounds(b, o->all);
    if (interrupted()) {
        fputs("headrace: interrupted: nothing is told of half a measurement\n", stderr);
        return EXIT_INTERRUPTED;
    }
    bench_print(b, o->all, stdout);
    const int code = finish_stdout();
    const bool written = bench_write_json(o->json, print_told, &told);
    return written && all_measured(b, o->all) ? code : EXIT_TRANSFER;
}

static int run_bench(struct bench_options *o)
{
    static struct bench bench;
    char error[HR_ERROR_TEXT];
    int code = EXIT_TRANSFER;
    bench_turns_begin(o->turns);
    if (bench_open(&bench, o->device, error) && bench_fill(&bench, o->size, error))
        code = measure(&bench, o);
    else
        fprintf(stderr, "headrace: bench: %s\n", error);
    bench_tear_down(&bench);
    return code;
}

static int list_cases(void)
{
    for (unsigned i = 0; i < N_CASES; i++)
        printf("%-16s %s\n", bench_cases[i].name, bench_cases[i].what);
    return finish_stdout();
}

int command_bench(int argc, char **argv)
{
    static struct bench_options options = {.device = "auto", .limit_s = TUNE_LIMIT_S, .turns = -1};
    struct bench_options *o = &options;
    argp_parse(&parser, argc, argv, 0, NULL, o);
    if (o->list)
        return list_cases();
    catch_interrupts(NULL);
    if (!o->tune)
        return run_bench(o);
    const struct tune_options tune = {.path = o->words[0],
                                      .device = o->device,
                                      .size = o->size,
                                      .limit_s = (double)o->limit_s,
                                      .save = o->save,
                                      .json = o->json};
    return run_tune(&tune);
}
