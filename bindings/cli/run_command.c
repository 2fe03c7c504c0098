// SPDX-License-Identifier: Apache-2.0
/* headrace run: options, one pipeline, its end. */
#include <argp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum {
    KEY_CHUNK = 256,
    KEY_DEPTH,
    KEY_THREADS,
    KEY_IO,
    KEY_OFFSET,
    KEY_LENGTH,
    KEY_FSYNC,
    KEY_STRICT,
    KEY_STATS
};

static const struct argp_option option_table[] = {
    {"offset", KEY_OFFSET, "N", 0, "First byte to take of the source", 1},
    {"length", KEY_LENGTH, "N", 0, "How many bytes to take of the source", 1},
    {"chunk", KEY_CHUNK, "SIZE", 0, "Bytes of a chunk (4M, less for short files)", 2},
    {"depth", KEY_DEPTH, "N", 0, "Chunks on their way at once (8)", 2},
    {"threads", KEY_THREADS, "N", 0, "CPU workers (one for each usable CPU)", 2},
    {"io", KEY_IO, "auto|uring|threads", 0, "What reads and writes (auto)", 2},
    {"fsync", KEY_FSYNC, NULL, 0, "The output is on stable storage before success is told", 3},
    {"strict", KEY_STRICT, NULL, 0, "Every silent fall-back is an error", 3},
    {"stats", KEY_STATS, "text|json|none", 0, "Table of stages, on stderr (none)", 3},
    {0},
};

static int index_of(const char *word, const char *const *words)
{
    for (int i = 0; words[i]; i++)
        if (strcmp(word, words[i]) == 0)
            return i;
    return -1;
}

static uint64_t size_of_option(const char *arg, const char *name, uint64_t most,
                               struct argp_state *state)
{
    uint64_t size = 0;
    if (!parse_size(arg, &size) || size > most)
        argp_error(state, "--%s %s: not a number from 0 to %llu (K, M, G are powers of 1024)", name,
                   arg, (unsigned long long)most);
    return size;
}

static uint32_t word_of_option(const char *arg, const char *name, const char *const *words,
                               struct argp_state *state)
{
    const int i = index_of(arg, words);
    if (i < 0)
        argp_error(state, "--%s %s: one of %s, %s and %s is wanted", name, arg, words[0], words[1],
                   words[2]);
    return (uint32_t)i;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    static const char *const io_words[] = {"auto", "uring", "threads", NULL};
    static const char *const stats_words[] = {"none", "text", "json", NULL};
    struct options *o = state->input;
    switch (key) {
    case KEY_OFFSET:
        o->offset = size_of_option(arg, "offset", UINT64_MAX >> 1, state);
        o->range = true;
        break;
    case KEY_LENGTH:
        o->length = size_of_option(arg, "length", UINT64_MAX >> 1, state);
        o->range = true;
        break;
    case KEY_CHUNK:
        o->chunk = size_of_option(arg, "chunk", 1u << 30, state);
        break;
    case KEY_DEPTH:
        o->depth = (uint32_t)size_of_option(arg, "depth", 65536, state);
        break;
    case KEY_THREADS:
        o->threads = (uint32_t)size_of_option(arg, "threads", 4096, state);
        break;
    case KEY_IO:
        o->io = word_of_option(arg, "io", io_words, state);
        break;
    case KEY_STATS:
        o->stats = (enum stats_format)word_of_option(arg, "stats", stats_words, state);
        break;
    case KEY_FSYNC:
        o->fsync = true;
        break;
    case KEY_STRICT:
        o->strict = true;
        break;
    case ARGP_KEY_ARG:
        if (o->n_ends > MAX_SOURCES)
            argp_error(state, "at most %d sources", MAX_SOURCES);
        o->ends[o->n_ends++] = arg;
        break;
    case ARGP_KEY_END:
        if (o->n_ends < 2)
            argp_error(state, "a SOURCE and a SINK are wanted");
        if (o->range && o->n_ends > 2)
            argp_error(state, "--offset and --length go with one source");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp parser = {
    .options = option_table,
    .parser = parse_option,
    .args_doc = "SOURCE... SINK",
    .doc = "Moves the bytes of the sources, one after the other, to the sink.\v"
           "SOURCE and SINK are a file, - (standard input or output) or fd:N. SINK may be null:, "
           "which reads every byte for its CRC-32 and drops it. An output file appears under its "
           "name only when it is whole.\n\n"
           "Exit status: 0 done, 1 the transfer failed, 2 the command line is wrong, "
           "130 interrupted.",
};

static _Atomic(hr_pipeline *) running;
static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number)
{
    interrupted = signal_number;
    hr_pipeline *pipeline = atomic_load(&running);
    if (pipeline)
        hr_pipeline_cancel(pipeline);
}

static int report(hr_status status, const hr_error *error)
{
    if (status == HR_OK)
        return EXIT_DONE;
    if (interrupted && status == HR_ECANCELED) {
        fprintf(stderr, "headrace: interrupted: %s\n", error->text);
        return EXIT_INTERRUPTED;
    }
    fprintf(stderr, "headrace: %s\n", error->text);
    return EXIT_TRANSFER;
}

static int transfer(hr_loop *loop, const struct options *options,
                    const struct hr_pipeline_config *config)
{
    hr_error error = {0};
    hr_pipeline *pipeline = NULL;
    hr_status status = hr_pipeline_create(loop, config, &pipeline, &error);
    if (status != HR_OK)
        return report(status, &error);
    atomic_store(&running, pipeline);
    if (interrupted)
        hr_pipeline_cancel(pipeline);
    status = hr_pipeline_run(pipeline, &error);
    atomic_store(&running, NULL);
    print_stats(pipeline, loop, options);
    hr_pipeline_free(pipeline);
    return report(status, &error);
}

static int run_with(const struct options *options, const struct hr_pipeline_config *config)
{
    const struct hr_context_config context_config = {.struct_size = sizeof context_config,
                                                     .n_threads = options->threads,
                                                     .max_memory = UINT64_MAX};
    const struct hr_loop_config loop_config = {
        .struct_size = sizeof loop_config,
        .io = options->strict && options->io == HR_IO_AUTO ? HR_IO_URING : options->io};
    hr_error error = {0};
    hr_context *context = NULL;
    hr_loop *loop = NULL;
    int code;
    hr_status status = hr_context_create(&context_config, &context, &error);
    if (status == HR_OK)
        status = hr_loop_create(context, &loop_config, &loop, &error);
    code = status == HR_OK ? transfer(loop, options, config) : report(status, &error);
    hr_loop_free(loop);
    hr_context_free(context);
    return code;
}

int command_run(int argc, char **argv)
{
    static struct options options = {.length = UINT64_MAX};
    static struct hr_source sources[MAX_SOURCES];
    argp_err_exit_status = EXIT_USAGE;
    argp_parse(&parser, argc, argv, 0, NULL, &options);

    struct hr_pipeline_config config = {
        .struct_size = sizeof config,
        .n_sources = options.n_ends - 1,
        .sources = sources,
        .chunk_size = options.chunk,
        .depth = options.depth,
    };
    const char *why = NULL;
    const char *word = NULL;
    for (unsigned i = 0; i < config.n_sources && !why; i++) {
        word = options.ends[i];
        parse_source(word, &sources[i], &why);
    }
    if (!why) {
        word = options.ends[config.n_sources];
        parse_sink(word, &config.sink, &why);
    }
    if (why) {
        fprintf(stderr, "headrace: %s: %s\n", word, why);
        return EXIT_USAGE;
    }
    if (options.range) {
        sources[0].flags |= HR_RANGE;
        sources[0].offset = options.offset;
        sources[0].length = options.length;
    }
    if (options.fsync)
        config.sink.flags |= HR_FSYNC;
    struct sigaction action = {.sa_handler = on_interrupt};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    return run_with(&options, &config);
}
