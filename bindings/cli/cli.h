// SPDX-License-Identifier: Apache-2.0
/* The command headrace: its parts. Data on stdout is data only; all else goes to stderr. */
#ifndef HR_CLI_H
#define HR_CLI_H

#include <headrace.h>
#include <stdbool.h>
#include <stdint.h>

enum { EXIT_DONE = 0, EXIT_TRANSFER = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };
enum { MAX_SOURCES = 1024 };

enum stats_format { STATS_NONE, STATS_TEXT, STATS_JSON };

struct options {
    char *ends[MAX_SOURCES + 1]; /* sources, then the sink */
    unsigned n_ends;
    uint64_t chunk;
    uint64_t offset;
    uint64_t length;
    bool range;
    uint32_t depth;
    uint32_t threads;
    uint32_t io; /* enum hr_io_choice */
    bool fsync;
    bool strict;
    enum stats_format stats;
};

/* "4M" is 4 x 1024 x 1024. False: not a size. */
bool parse_size(const char *text, uint64_t *out);

/* False: *why says what is wrong. */
bool parse_source(const char *text, struct hr_source *out, const char **why);
bool parse_sink(const char *text, struct hr_sink *out, const char **why);

void print_stats(const hr_pipeline *pipeline, const hr_loop *loop, const struct options *options);

int command_run(int argc, char **argv);

#endif
