// SPDX-License-Identifier: Apache-2.0
/* The command headrace: its parts. Data on stdout is data only; all else goes to stderr. */
#ifndef HR_CLI_H
#define HR_CLI_H

#include <headrace.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { EXIT_DONE = 0, EXIT_TRANSFER = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };
enum { MAX_SOURCES = 1024, MAX_KERNELS = 64, MAX_DEVICES = 64 };

enum stats_format { STATS_NONE, STATS_TEXT, STATS_JSON, STATS_UNSET };
enum progress_choice { PROGRESS_AUTO, PROGRESS_ON, PROGRESS_OFF };

/* Options that are not taken from kept settings. */
enum given {
    GIVEN_CHUNK = 1,
    GIVEN_DEPTH = 2,
    GIVEN_STREAMS = 4,
    GIVEN_THREADS = 8,
    GIVEN_MEMORY = 16
};

/* The words of `headrace run`, already in the library's structs where these have a place. */
struct options {
    char *ends[MAX_SOURCES + 1]; /* sources, then the sink */
    unsigned n_ends;
    uint64_t offset;
    uint64_t length;
    uint32_t sink_flags;
    uint32_t stats;          /* enum stats_format */
    uint32_t progress;       /* enum progress_choice */
    char *stats_file;        /* NULL: stderr */
    bool sink_looks_encoded; /* by its name, but it is not asked for */
    char *result;            /* a path, or "-" */
    uint32_t given;          /* enum given */
    uint32_t no_tuned;       /* settings that were kept are not taken */

    const char *kernel_words[MAX_KERNELS]; /* as they were given, for reports */
    struct hr_kernel kernels[MAX_KERNELS];
    struct hr_kernel compiled;  /* what --entry, --unit and --out-unit say */
    struct hr_kernel *compiles; /* the one of kernels that is compiled, or NULL */
    char *kernel_file;          /* its source or image */
    char *kernel_args;          /* hexadecimal digits or the name of a file */
    char *dict;                 /* the name of a file */

    struct hr_source sources[MAX_SOURCES];
    struct hr_pipeline_config config;
    struct hr_context_config context;
    struct hr_loop_config loop;
};

/* ---- options.c ---- */

/* Fills options, or prints what is wrong and exits. */
void parse_run_options(int argc, char **argv, struct options *options);

/* ---- option_checks.c ---- */

struct argp_state;

/* What is wrong about the options together is printed, and the program exits. What has no effect is
 * noted, or, with --strict, wrong. */
void check_options(struct options *options, struct argp_state *state);

/* ---- words.c: the words of the command line ---- */

/* Decimal digits. False: not a number. */
bool parse_number(const char *text, uint64_t *out);

/* "4M" and "4MiB" are 4 x 1024 x 1024. False: not a size. */
bool parse_size(const char *text, uint64_t *out);

/* "1.5" is 1500. False: not a time. */
bool parse_seconds(const char *text, uint32_t *out_ms);

/* "none", "zstd" or "zstd:LEVEL". False: neither. */
bool parse_encoding(const char *text, uint32_t *codec, int32_t *level);

/* "auto", "host", "cuda:N" or "hip:N". */
bool is_device_word(const char *text);

/* Room for at least strlen(text) / 2 bytes at out. False: not an even number of hex digits. */
bool parse_hex(const char *text, unsigned char *out);

/* ---- ends.c ---- */

/* False: *why says what is wrong. */
bool parse_source(const char *text, struct hr_source *out, const char **why);
bool parse_sink(const char *text, struct hr_sink *out, const char **why);

/* Names a connection, which may be the `peer:` of a sink. */
bool is_socket_word(const char *text);
bool is_listener_word(const char *text);

/* "-", or fd:0 for a source, fd:1 for a sink. */
bool is_standard_word(const char *text, int fd);

/* ---- given_files.c ---- */

/* Reads the dictionary, the kernel and its arguments. What it reads lives until the end of the
 * program. False: said why on stderr. */
bool load_given_files(struct options *options);

/* ---- signals.c ---- */

/* once, which may be NULL, is called in the handler of the first SIGINT or SIGTERM. */
void catch_interrupts(void (*once)(void));
bool interrupted(void);

/* ---- notes.c: what the library says while it works ---- */

enum { MAX_NOTES = 16 };

void take_note(void *unused, const char *line); /* an hr_log_fn */
unsigned n_notes(void);
const char *note(unsigned i);

/* ---- progress.c ---- */

struct progress {
    bool on;
    bool listens;
    int drawn; /* columns of the line that stands on the terminal */
    uint64_t next_ns;
    uint64_t last_ns;
    uint64_t last_bytes;
    double rate; /* bytes a second, smoothed */
};

void progress_begin(struct progress *progress, const struct options *options);

/* How long the loop may sleep before the next call to progress_show; negative: for ever. */
int progress_wait_ms(const struct progress *progress);

void progress_show(struct progress *progress, const hr_pipeline *pipeline);
void progress_wipe(struct progress *progress);

/* ---- report.c, stats_json.c ---- */

/* What one word of the command line asks for: how the stages shared the time. */
struct report {
    struct hr_stats stats;
    const char *io; /* hr_loop_io */
    const char *why;
    bool null_sink;
    uint64_t max_memory; /* that may be leased */
};

/* False: there are no statistics. */
bool make_report(const hr_pipeline *pipeline, const hr_loop *loop, const struct options *options,
                 struct report *report);
void print_report_text(const struct report *report, FILE *out);
void print_report_line(const struct report *report, FILE *out); /* for the end of progress */

/* All that is known, as one line: report is NULL if there was no transfer, and error if it did not
 * fail. */
void print_report_json(const struct report *report, const hr_error *error, hr_pipeline *pipeline,
                       const struct options *options, FILE *out);

/* Of the resource that the stage works with, 0 to 1. */
double stage_utilisation(const struct hr_stats *stats, enum hr_stage stage);

/* "decode (4 CPU workers together 97 % busy, of it decode 80 %)" */
void print_bottleneck(const struct report *report, FILE *out);

/* "CPU workers", "I/O", ... */
const char *resource_word(const struct report *report, enum hr_stage stage);

/* ---- results.c ---- */

/* What the reductions found, to where --result says. False: said why on stderr. */
bool write_results(hr_pipeline *pipeline, const struct options *options);

/* The same as an array of JSON, whose objects stand this far apart. False: told why. */
bool print_results(FILE *out, const char *between, hr_pipeline *pipeline,
                   const struct options *options);

/* Bytes of a value of this enum hr_type; 0 if this command does not know it. */
unsigned result_type_bytes(uint32_t type);

/* One line in words for each. */
void print_results_text(FILE *out, hr_pipeline *pipeline, const struct options *options);

/* ---- failure.c ---- */

/* Says what happened, and gives the exit status. */
int report_failure(const hr_error *error, const struct options *options);

/* In the words that the user gave: "standard input" for "descriptor 0". */
void name_standard_ends(hr_error *error, const struct options *options);

/* ---- format.c ---- */

enum { HUMAN_SIZE = 24 };

/* "1.07 GB", where GB is 1e9; gives out. */
const char *human_bytes(double bytes, char out[HUMAN_SIZE]);

double seconds(uint64_t ns);

/* A string of JSON: what is not UTF-8 becomes the replacement character. */
void json_text(FILE *out, const char *text);

/* ---- machine.c ---- */

struct machine {
    char cpu[128];
    char system[256];
    char kernel[96]; /* its release */
    char host[65];   /* its name */
    long n_cpus;     /* that the process may use */
    uint64_t memory_bytes;
    double load[3]; /* averages of the last 1, 5 and 15 minutes */
};

void look_at_machine(struct machine *machine);

/* The present device that the library lists under a name, or under what may stand in place of its
 * number; "auto" is the first GPU, else the host. False: there is none. */
bool find_listed_device(const char *name, struct hr_device *out);

uint64_t now_ns(void); /* of a clock that only goes on */

/* ---- whole_file.c: a file appears under its name when it is whole ---- */

struct whole_file {
    FILE *stream;
    char *path;
    char *temporary; /* NULL: written in place, for devices and FIFOs */
};

/* Both: false with errno set. A file that failed to close is as it was before. */
bool whole_file_open(struct whole_file *file, const char *path);
bool whole_file_close(struct whole_file *file);
void whole_file_drop(struct whole_file *file);

/* ---- headrace_main.c ---- */

/* EXIT_DONE if all that was printed went out, else says why and gives EXIT_TRANSFER. */
int finish_stdout(void);

int command_run(int argc, char **argv);
int command_devices(int argc, char **argv);
int command_bench(int argc, char **argv);

#endif
