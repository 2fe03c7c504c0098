// SPDX-License-Identifier: Apache-2.0
/* The options of `headrace run`. Most of them are a number, a word or a text that goes to one
 * field: a table tells which. The rest is in parse_option. */
#include <argp.h>
#include <stddef.h>
#include <string.h>

#include "cli.h"

enum {
    KEY_DEVICE = 256,
    KEY_KERNEL,
    KEY_KERNEL_SOURCE,
    KEY_KERNEL_IMAGE,
    KEY_ENTRY,
    KEY_UNIT,
    KEY_OUT_UNIT,
    KEY_KERNEL_ARGS,
    KEY_DECODE,
    KEY_DICT,
    KEY_WINDOW_LOG,
    KEY_ENCODE,
    KEY_FRAME,
    KEY_OFFSET,
    KEY_LENGTH,
    KEY_CHUNK,
    KEY_DEPTH,
    KEY_MEMORY,
    KEY_STREAMS,
    KEY_THREADS,
    KEY_NO_TUNED,
    KEY_IO,
    KEY_DIRECT,
    KEY_UNORDERED,
    KEY_FSYNC,
    KEY_MIN_FILL,
    KEY_MAX_WAIT,
    KEY_CONNECT,
    KEY_IDLE,
    KEY_PROGRESS,
    KEY_NO_PROGRESS,
    KEY_STATS,
    KEY_STATS_FILE,
    KEY_TRACE,
    KEY_RESULT,
    KEY_STRICT
};

static const struct argp_option option_table[] = {
    {NULL, 'h', NULL, OPTION_HIDDEN, NULL, -1},
    {NULL, 0, NULL, 0, "What is moved:", 1},
    {"offset", KEY_OFFSET, "SIZE", 0, "First byte to take of the source, decoded", 1},
    {"length", KEY_LENGTH, "SIZE", 0, "How many bytes to take of the source, decoded", 1},
    {"decode", KEY_DECODE, "auto|none|zstd", 0,
     "Decode the sources; auto looks at their first bytes, so that a.zst is written decoded; "
     "none copies (auto)",
     1},
    {"dict", KEY_DICT, "FILE", 0, "zstd dictionary, to decode and to encode", 1},
    {"window-log", KEY_WINDOW_LOG, "N", 0, "Refuse zstd frames with a window over 2^N bytes (27)",
     1},
    {"encode", KEY_ENCODE, "none|zstd[:LEVEL]", 0, "Encode the output (none; level 3)", 1},
    {"frame", KEY_FRAME, "SIZE", 0,
     "Decoded bytes of each zstd frame written; each frame being encoded is held in memory whole, "
     "with room for its encoded form (1M)",
     1},

    {NULL, 0, NULL, 0, "What is done to it:", 2},
    {"device", KEY_DEVICE, "auto|host|cuda:N|hip:N", 0,
     "Where kernels run; auto is the first GPU, else the host (auto); for N also a UUID (GPU-...), "
     "the begin of one, or a PCI address",
     2},
    {"kernel", KEY_KERNEL, "NAME[:ARGS]", 0,
     "A built-in kernel; may be repeated: a chain in this order", 2},
    {"kernel-source", KEY_KERNEL_SOURCE, "FILE", 0,
     "CUDA C++ or HIP, compiled now, at this place in the chain", 2},
    {"kernel-image", KEY_KERNEL_IMAGE, "FILE", 0,
     "PTX, cubin or code object, at this place in the chain", 2},
    {"entry", KEY_ENTRY, "NAME", 0, "Function of the source or image", 2},
    {"unit", KEY_UNIT, "SIZE", 0, "Bytes of a unit that it reads (1)", 2},
    {"out-unit", KEY_OUT_UNIT, "SIZE", 0,
     "Bytes that it writes for each unit (0: passes its input on)", 2},
    {"kernel-args", KEY_KERNEL_ARGS, "HEX|FILE", 0,
     "Its arguments: an even number of hex digits, else a file", 2},

    {NULL, 0, NULL, 0, "How:", 3},
    {"chunk", KEY_CHUNK, "SIZE", 0,
     "Bytes of a chunk (4M; 2M where bytes are only moved, 512K from pipes and sockets; less for "
     "short files)",
     3},
    {"depth", KEY_DEPTH, "N", 0, "Chunks on their way at once (by the number of workers, 4 to 40)",
     3},
    {"memory", KEY_MEMORY, "SIZE", 0, "Bytes that the transfer may lease (1G)", 3},
    {"streams", KEY_STREAMS, "N", 0, "Kernels that run at once (what suits the device)", 3},
    {"threads", KEY_THREADS, "N", 0, "CPU workers (one for each usable CPU)", 3},
    {"no-tuned", KEY_NO_TUNED, NULL, 0,
     "Does not take the settings that 'headrace bench' kept for this machine and device", 3},
    {"io", KEY_IO, "auto|uring|threads", 0, "What reads and writes (auto)", 3},
    {"direct", KEY_DIRECT, "auto|on|off", 0,
     "Files past the page cache; auto: what it does not hold (auto)", 3},
    {"unordered", KEY_UNORDERED, NULL, 0,
     "Chunks are delivered as they get done, to a file or null:, where each still has its place",
     3},
    {"fsync", KEY_FSYNC, NULL, 0, "The output is on stable storage before success is told", 3},
    {"strict", KEY_STRICT, NULL, 0, "Every silent fall-back is an error", 3},

    {NULL, 0, NULL, 0, "Pipes and sockets:", 4},
    {"min-fill", KEY_MIN_FILL, "SIZE", 0, "Chunks with fewer bytes do not leave early (1)", 4},
    {"max-wait", KEY_MAX_WAIT, "MS", 0,
     "With --min-fill: but leave after MS milliseconds (no limit)", 4},
    {"connect-timeout", KEY_CONNECT, "SECONDS", 0,
     "Limit to connect or be connected, and for a FIFO that is the sink to be read (none)", 4},
    {"idle-timeout", KEY_IDLE, "SECONDS", 0, "Limit for no byte to move (none)", 4},

    {NULL, 0, NULL, 0, "What is told:", 5},
    {"progress", KEY_PROGRESS, NULL, 0, "Progress on stderr, terminal or not", 5},
    {"no-progress", KEY_NO_PROGRESS, NULL, 0, "None (the default shows it on a terminal only)", 5},
    {"stats", KEY_STATS, "text|json|none", 0, "Table of stages and notes, on stderr (none)", 5},
    {"stats-file", KEY_STATS_FILE, "FILE", 0, "With --stats: write it there instead", 5},
    {"trace", KEY_TRACE, "FILE", 0, "Timeline in Trace Event JSON", 5},
    {"result", KEY_RESULT, "FILE|-", 0, "What reductions found, as JSON (on stderr, in words)", 5},
    {0},
};

/* ---- fields ---- */

enum field_kind {
    FIELD_SIZE,
    FIELD_SIZE32,
    FIELD_NUMBER,
    FIELD_WORD,
    FIELD_TEXT,
    FIELD_MS,
    FIELD_FLAG
};

struct field {
    int key;
    enum field_kind kind;
    size_t at; /* in struct options: uint64_t for a size, char * for a text, else uint32_t */
    uint64_t least;
    uint64_t most;            /* for a flag: its bit */
    const char *const *words; /* for a word: by value */
};

#define AT(member) offsetof(struct options, member)

static const char *const decode_words[] = {"none", "zstd", "auto", NULL}; /* enum hr_codec */
static const char *const io_words[] = {"auto", "uring", "threads", NULL}; /* hr_io_choice */
static const char *const direct_words[] = {"auto", "off", "on", NULL};    /* hr_direct */
static const char *const stats_words[] = {"none", "text", "json", NULL};  /* stats_format */

static const struct field fields[] = {
    {KEY_OFFSET, FIELD_SIZE, AT(offset), 0, INT64_MAX, NULL},
    {KEY_LENGTH, FIELD_SIZE, AT(length), 0, INT64_MAX, NULL},
    {KEY_DECODE, FIELD_WORD, AT(config.decode), 0, 0, decode_words},
    {KEY_DICT, FIELD_TEXT, AT(dict), 0, 0, NULL},
    {KEY_WINDOW_LOG, FIELD_NUMBER, AT(config.window_log), 10, 31, NULL}, /* RFC 8878, 3.1.1.1.2 */
    {KEY_FRAME, FIELD_SIZE, AT(config.frame_size), 1, 1u << 30, NULL},
    {KEY_ENTRY, FIELD_TEXT, AT(compiled.entry), 0, 0, NULL},
    {KEY_UNIT, FIELD_SIZE32, AT(compiled.unit_in), 1, 1u << 30, NULL},
    {KEY_OUT_UNIT, FIELD_SIZE32, AT(compiled.unit_out), 0, 1u << 30, NULL},
    {KEY_KERNEL_ARGS, FIELD_TEXT, AT(kernel_args), 0, 0, NULL},
    {KEY_CHUNK, FIELD_SIZE, AT(config.chunk_size), 0, 1u << 30, NULL},
    {KEY_DEPTH, FIELD_NUMBER, AT(config.depth), 0, 65536, NULL},
    {KEY_MEMORY, FIELD_SIZE, AT(context.max_memory), 0, INT64_MAX, NULL},
    {KEY_STREAMS, FIELD_NUMBER, AT(config.n_streams), 0, 1024, NULL},
    {KEY_THREADS, FIELD_NUMBER, AT(context.n_threads), 0, 4096, NULL},
    {KEY_NO_TUNED, FIELD_FLAG, AT(no_tuned), 0, 1, NULL},
    {KEY_IO, FIELD_WORD, AT(loop.io), 0, 0, io_words},
    {KEY_DIRECT, FIELD_WORD, AT(config.direct), 0, 0, direct_words},
    {KEY_UNORDERED, FIELD_FLAG, AT(config.flags), 0, HR_UNORDERED, NULL},
    {KEY_STRICT, FIELD_FLAG, AT(config.flags), 0, HR_STRICT, NULL},
    {KEY_FSYNC, FIELD_FLAG, AT(sink_flags), 0, HR_FSYNC, NULL},
    {KEY_MIN_FILL, FIELD_SIZE, AT(config.min_fill), 1, 1u << 30, NULL},
    {KEY_MAX_WAIT, FIELD_NUMBER, AT(config.max_wait_ms), 1, UINT32_MAX, NULL},
    {KEY_CONNECT, FIELD_MS, AT(config.connect_ms), 0, 0, NULL},
    {KEY_IDLE, FIELD_MS, AT(config.idle_ms), 0, 0, NULL},
    {KEY_STATS, FIELD_WORD, AT(stats), 0, 0, stats_words},
    {KEY_STATS_FILE, FIELD_TEXT, AT(stats_file), 0, 0, NULL},
    {KEY_TRACE, FIELD_TEXT, AT(config.trace_path), 0, 0, NULL},
    {KEY_RESULT, FIELD_TEXT, AT(result), 0, 0, NULL},
};

static const char *option_name(int key)
{
    const struct argp_option *option = option_table;
    while (option->key != key)
        option++;
    return option->name ? option->name : ""; /* only headings have none */
}

static uint64_t number_of(const struct field *field, const char *arg, struct argp_state *state)
{
    const bool size = field->kind != FIELD_NUMBER;
    uint64_t number = 0;
    if (!(size ? parse_size(arg, &number) : parse_number(arg, &number)) || number < field->least ||
        number > field->most)
        argp_error(state, "--%s %s: a whole number%s from %llu to %llu is wanted",
                   option_name(field->key), arg,
                   size ? ", with K, M, G or T (powers of 1024)," : "",
                   (unsigned long long)field->least, (unsigned long long)field->most);
    return number;
}

static uint32_t word_of(const struct field *field, const char *arg, struct argp_state *state)
{
    for (uint32_t i = 0; field->words[i]; i++)
        if (strcmp(arg, field->words[i]) == 0)
            return i;
    argp_error(state, "--%s %s: one of %s, %s and %s is wanted", option_name(field->key), arg,
               field->words[0], field->words[1], field->words[2]);
    return 0;
}

static void set_field(struct options *o, const struct field *field, char *arg,
                      struct argp_state *state)
{
    void *at = (char *)o + field->at;
    switch (field->kind) {
    case FIELD_SIZE:
        *(uint64_t *)at = number_of(field, arg, state);
        break;
    case FIELD_SIZE32:
    case FIELD_NUMBER:
        *(uint32_t *)at = (uint32_t)number_of(field, arg, state);
        break;
    case FIELD_WORD:
        *(uint32_t *)at = word_of(field, arg, state);
        break;
    case FIELD_TEXT:
        if (!*arg)
            argp_error(state, "--%s: the word after it is empty", option_name(field->key));
        *(char **)at = arg;
        break;
    case FIELD_MS:
        if (!parse_seconds(arg, at))
            argp_error(state, "--%s %s: seconds are wanted, as in 2.5; 0 is no limit",
                       option_name(field->key), arg);
        break;
    case FIELD_FLAG:
        *(uint32_t *)at |= (uint32_t)field->most;
        break;
    }
}

/* What is given is not taken from kept settings, be it the default. */
static uint32_t given_by(int key)
{
    switch (key) {
    case KEY_CHUNK:
        return GIVEN_CHUNK;
    case KEY_DEPTH:
        return GIVEN_DEPTH;
    case KEY_STREAMS:
        return GIVEN_STREAMS;
    case KEY_THREADS:
        return GIVEN_THREADS;
    case KEY_MEMORY:
        return GIVEN_MEMORY;
    default:
        return 0;
    }
}

/* ---- the rest ---- */

static struct hr_kernel *add_kernel(struct options *o, uint32_t kind, char *arg,
                                    struct argp_state *state)
{
    if (o->config.n_kernels == MAX_KERNELS)
        argp_error(state, "at most %d kernels", MAX_KERNELS);
    if (!*arg)
        argp_error(state, "a kernel's name is empty");
    struct hr_kernel *kernel = &o->kernels[o->config.n_kernels];
    *kernel = (struct hr_kernel){.struct_size = sizeof *kernel, .kind = kind, .text = arg};
    o->kernel_words[o->config.n_kernels++] = arg;
    return kernel;
}

static void add_compiled(struct options *o, uint32_t kind, char *arg, struct argp_state *state)
{
    if (o->compiles)
        argp_error(state, "one --kernel-source or --kernel-image is taken, not two");
    o->compiles = add_kernel(o, kind, arg, state);
    o->compiles->text = NULL;
    o->kernel_file = arg;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;
    switch (key) {
    case 'h':
        argp_state_help(state, stdout, ARGP_HELP_STD_HELP); /* which exits */
        return 0;
    case KEY_KERNEL:
        add_kernel(o, HR_KERNEL_BUILTIN, arg, state);
        return 0;
    case KEY_KERNEL_SOURCE:
    case KEY_KERNEL_IMAGE:
        add_compiled(o, key == KEY_KERNEL_IMAGE ? HR_KERNEL_IMAGE : HR_KERNEL_SOURCE, arg, state);
        return 0;
    case KEY_DEVICE:
        if (!is_device_word(arg))
            argp_error(state,
                       "--device %s: one of auto, host, cuda:N and hip:N is wanted, or for N a "
                       "UUID (GPU-...) or a PCI address; 'headrace devices' lists what is here",
                       arg);
        o->config.device = arg;
        return 0;
    case KEY_ENCODE:
        if (!parse_encoding(arg, &o->config.encode, &o->config.encode_level))
            argp_error(state,
                       "--encode %s: none, zstd or zstd:LEVEL is wanted, with a level from "
                       "-131072 to 22",
                       arg);
        return 0;
    case KEY_PROGRESS:
    case KEY_NO_PROGRESS:
        o->progress = key == KEY_PROGRESS ? PROGRESS_ON : PROGRESS_OFF;
        return 0;
    case ARGP_KEY_ARG:
        if (o->n_ends > MAX_SOURCES)
            argp_error(state, "at most %d sources", MAX_SOURCES);
        o->ends[o->n_ends++] = arg;
        return 0;
    case ARGP_KEY_END:
        check_options(o, state);
        return 0;
    default:
        break;
    }
    for (unsigned i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (fields[i].key == key) {
            set_field(o, &fields[i], arg, state);
            o->given |= given_by(key);
            return 0;
        }
    return ARGP_ERR_UNKNOWN;
}

static const struct argp parser = {
    .options = option_table,
    .parser = parse_option,
    .args_doc = "SOURCE... SINK",
    .doc =
        "Moves the bytes of the sources, one after the other, to the sink.\v"
        "SOURCE and SINK are a file, - (standard input or output), fd:N, tcp://HOST:PORT, "
        "tcp-listen://HOST:PORT, unix:PATH or unix-listen:PATH; a file whose name looks like one "
        "of "
        "these is ./NAME. SINK may also be null:, which reads every byte for its CRC-32 and drops "
        "it, peer:, which answers on the connection of the first source, or device:, which gathers "
        "in memory of the device. An output file appears under its name only when it is whole.\n\n"
        "SIZE takes K, M, G and T (or KiB, MiB, ...), powers of 1024; in parentheses is the "
        "default. "
        "The last word is always the sink, and is replaced.\n\n"
        "Kernels, with TYPE one of u8 i8 u16 i16 i32 i64 f16 bf16 f32 f64 and OP one of lt le gt "
        "ge "
        "eq ne: cast:FROM,TO scale:TYPE,MUL,ADD bswap:2|4|8 shuffle:WIDTH,BLOCK "
        "unshuffle:WIDTH,BLOCK filter:TYPE,OP,VALUE. Reductions, which pass their input on and "
        "whose finding goes to --result, else in words to stderr: sum:TYPE mean:TYPE min:TYPE "
        "max:TYPE "
        "histogram[:TYPE,LO,HI,BINS] count:TYPE,OP,VALUE crc32.\n\n"
        "On a terminal, progress is shown and ends in one line that names the bottleneck; the "
        "table "
        "of stages and the library's notes are printed if --stats asks for them.\n\n"
        "Exit status: 0 done, 1 the transfer failed, 2 the command line is wrong, "
        "130 interrupted. A second interrupt ends the command at once.",
};

void parse_run_options(int argc, char **argv, struct options *options)
{
    options->length = UINT64_MAX;
    options->stats = STATS_UNSET;
    options->config.struct_size = sizeof options->config;
    options->config.decode = HR_CODEC_AUTO;
    options->context.struct_size = sizeof options->context;
    options->loop.struct_size = sizeof options->loop;
    argp_parse(&parser, argc, argv, 0, NULL, options);
}
