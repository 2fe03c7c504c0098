// SPDX-License-Identifier: Apache-2.0
/* What the options of `headrace run` must and must not say together. */
#include <argp.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"

static const char *sink_of(const struct options *o)
{
    return o->ends[o->n_ends - 1];
}

/* ---- what is wrong ---- */

static void check_kernels(struct options *o, struct argp_state *state)
{
    const struct hr_kernel *said = &o->compiled;
    if (!o->compiles) {
        if (said->entry || said->unit_in || said->unit_out || o->kernel_args)
            argp_error(state, "--entry, --unit, --out-unit and --kernel-args go with "
                              "--kernel-source or --kernel-image");
    } else {
        if (!said->entry)
            argp_error(state, "--entry is wanted: which function of %s is the kernel?",
                       o->kernel_file);
        o->compiles->entry = said->entry;
        o->compiles->unit_in = said->unit_in;
        o->compiles->unit_out = said->unit_out;
    }
    if (o->result && !o->config.n_kernels)
        argp_error(state, "--result goes with a --kernel that finds something, as in "
                          "--kernel sum:f32");
}

static bool same(const char *path, const char *end)
{
    return path && strcmp(path, end) == 0;
}

static bool one_inode(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev;
}

/* The folder of a path, and the name in it. */
static const char *split(const char *path, struct stat *folder)
{
    char name[PATH_MAX];
    const char *slash = strrchr(path, '/');
    if (!slash)
        return stat(".", folder) == 0 ? path : NULL;
    if (snprintf(name, sizeof name, "%.*s", (int)(slash - path) + 1, path) >= (int)sizeof name)
        return NULL;
    return stat(name, folder) == 0 ? slash + 1 : NULL;
}

/* Whether both lead to one file: there already, under whatever names, or yet to be made. */
static bool one_file(const char *a, const char *b)
{
    struct stat at_a;
    struct stat at_b;
    if (!a || !b)
        return false;
    const bool is_a = stat(a, &at_a) == 0;
    const bool is_b = stat(b, &at_b) == 0;
    if (is_a || is_b)
        return is_a && is_b && S_ISREG(at_a.st_mode) && one_inode(&at_a, &at_b);
    const char *name_a = split(a, &at_a);
    const char *name_b = split(b, &at_b);
    return name_a && name_b && strcmp(name_a, name_b) == 0 && one_inode(&at_a, &at_b);
}

/* What is written beside the data must not replace them, nor one another. */
static void check_outputs(const struct options *o, struct argp_state *state)
{
    const char *const outputs[] = {same(o->result, "-") ? NULL : o->result, o->config.trace_path,
                                   o->stats_file};
    enum { N_OUTPUTS = sizeof outputs / sizeof outputs[0] };
    if (same(o->result, "-") && is_standard_word(sink_of(o), 1))
        argp_error(state, "--result - : standard output has the data; name a file");
    if (o->stats_file && o->stats != STATS_TEXT && o->stats != STATS_JSON)
        argp_error(state, "--stats-file goes with --stats text or --stats json");
    for (unsigned k = 0; k < N_OUTPUTS; k++) {
        for (unsigned i = 0; i < o->n_ends; i++)
            if (one_file(outputs[k], o->ends[i]))
                argp_error(state,
                           "%s is a source or the sink: --result, --stats-file and --trace want "
                           "another name",
                           outputs[k]);
        for (unsigned i = 0; i < k; i++)
            if (one_file(outputs[k], outputs[i]))
                argp_error(state,
                           "%s is given twice: --result, --stats-file and --trace want a name each",
                           outputs[k]);
    }
}

/* ---- what has no effect ---- */

/* A file of the disk, one that is to be made, or null: nothing that has to be waited for. */
static bool never_waits(const char *end)
{
    struct stat status;
    const bool word = strcmp(end, "-") == 0 || strncmp(end, "fd:", 3) == 0 || is_socket_word(end) ||
                      strcmp(end, "peer:") == 0;
    return !word && (stat(end, &status) != 0 || S_ISREG(status.st_mode));
}

static bool all_ends(const struct options *o, bool (*is)(const char *end))
{
    for (unsigned i = 0; i < o->n_ends; i++)
        if (!is(o->ends[i]))
            return false;
    return true;
}

static bool is_no_socket(const char *end)
{
    return !is_socket_word(end);
}

static bool is_fifo(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISFIFO(status.st_mode);
}

static void no_effect(bool is, const char *text, struct options *o, struct argp_state *state)
{
    if (!is)
        return;
    if (o->config.flags & HR_STRICT)
        argp_error(state, "%s", text);
    else
        take_note(NULL, text);
}

static bool ends_in_zst(const char *name)
{
    const size_t length = strlen(name);
    return length > 4 && strcmp(name + length - 4, ".zst") == 0;
}

static void check_effects(struct options *o, struct argp_state *state)
{
    const struct hr_pipeline_config *c = &o->config;
    const bool files = all_ends(o, never_waits);
    no_effect((o->sink_flags & HR_FSYNC) &&
                  (strcmp(sink_of(o), "null:") == 0 || strcmp(sink_of(o), "device:") == 0 ||
                   is_socket_word(sink_of(o)) || strcmp(sink_of(o), "peer:") == 0),
              "--fsync has no effect: the sink is no file", o, state);
    no_effect(c->frame_size && !c->encode, "--frame has no effect without --encode zstd", o, state);
    no_effect(o->dict && !c->encode && !c->decode,
              "--dict has no effect with --decode none and no --encode", o, state);
    no_effect(c->window_log && !c->decode, "--window-log has no effect with --decode none", o,
              state);
    no_effect(c->max_wait_ms && !c->min_fill, "--max-wait has no effect without --min-fill", o,
              state);
    no_effect(c->min_fill && files, "--min-fill has no effect: no end is a pipe or socket", o,
              state);
    no_effect(c->idle_ms && files, "--idle-timeout has no effect: no end is a pipe or socket", o,
              state);
    no_effect(c->connect_ms && all_ends(o, is_no_socket) && !is_fifo(sink_of(o)),
              "--connect-timeout has no effect: no end is a socket, nor the sink a FIFO", o, state);
    no_effect(c->n_streams && !c->n_kernels && !c->device,
              "--streams has no effect without --kernel", o, state);
}

void check_options(struct options *o, struct argp_state *state)
{
    if (o->n_ends < 2)
        argp_error(state, "a SOURCE and a SINK are wanted");
    const char *sink = sink_of(o);
    if ((o->offset || o->length != UINT64_MAX) && o->n_ends > 2)
        argp_error(state, "--offset and --length go with one source");
    if (o->config.flags & HR_UNORDERED && strcmp(sink, "null:") != 0 && !never_waits(sink))
        argp_error(state, "--unordered goes with a file or null: as the sink: any other would get "
                          "its bytes in any order");
    if (strcmp(sink, "peer:") == 0 && !is_socket_word(o->ends[0]))
        argp_error(state,
                   "peer: answers on the connection of the first source, but %s is no "
                   "tcp://, tcp-listen://, unix: or unix-listen:",
                   o->ends[0]);
    check_kernels(o, state);
    check_outputs(o, state);
    check_effects(o, state);
    if (ends_in_zst(sink) && !o->config.encode && o->config.decode && never_waits(sink))
        o->sink_looks_encoded = true;
}
