// SPDX-License-Identifier: Apache-2.0
/* headrace bench: its parts.
 *
 *     ceilings   what the machine does, each thing alone: plain threads (memcpy, read, write, a
 *                socket), one stage of the library alone, the driver's bare copies
 *     shapes     pipelines as people build them, each beside the least of the ceilings of its parts
 *
 * Both are cases. A case is measured in one or several ways: a ceiling by numbers of threads, a
 * shape with the default depth and with one chunk at a time. Rates count decoded bytes, so that they
 * can be compared. What a shape reaches of its ceiling is the median of what it reaches in rounds, in
 * each of which both run next to each other: a machine that slows down slows both. */
#ifndef HR_BENCH_H
#define HR_BENCH_H

#include "cli.h"

enum {
    MAX_SAMPLES = 25,
    MAX_WAYS = 16, /* 1, 2, 4, ... threads, and all */
    MAX_PARTS = 6,
    N_CASES = 21
};

/* The same threads with the same loop, for all samples of a way. */
struct pool {
    hr_context *context;
    hr_loop *loop;
};

/* Set up once, outside of all clocks. */
struct bench {
    uint64_t size;               /* bytes that most cases move */
    uint64_t packed_of;          /* bytes at the begin of data that cases of zstd move */
    char device[HR_DEVICE_NAME]; /* as the library names it */
    bool on_host;
    long n_cpus; /* usable */
    unsigned n_widths;
    unsigned widths[MAX_WAYS]; /* numbers of threads */

    unsigned char *data;
    unsigned char *room; /* where memory sinks write; room_size bytes */
    uint64_t room_size;
    unsigned char *packed; /* the first packed_of bytes of data as zstd */
    uint64_t packed_size;
    void *there;     /* data in memory of the device; on the host data itself */
    void *there_too; /* where device sinks write; on the host room itself */
    bool is_pinned[2];

    char *folder;
    char *in_path;     /* data */
    char *packed_path; /* packed */
    char *out_path;

    /* Why there are no files, no packed data, no memory of the device; "" if there are. */
    char no_files[HR_ERROR_TEXT];
    char no_packed[HR_ERROR_TEXT];
    char no_there[HR_ERROR_TEXT];

    struct pool pool; /* of all CPUs */
    struct pool pools[MAX_WAYS];
    struct zstd_work *zstd;       /* of the sample that runs: see bench_ceilings_zstd.c */
    struct pool *singles;         /* of one worker each, as many as CPUs; NULL: not asked for yet */
    struct hr_device_rates rates; /* of this turn, if it is measured */
    unsigned rates_turn;
    unsigned turn;  /* of what runs next to each other: a round of all ceilings, or of one shape */
    unsigned round; /* 0: the one that verifies */
};

struct sample {
    double wall_s;
    double cpu_s;
    double rate;    /* bytes a second */
    double overlap; /* pipelines: these two as the library tells them */
    double gain;
};

/* One way to run a case, and what was measured. */
struct way {
    unsigned
        width; /* ceilings: threads, 0 where they have no number; shapes: depth, 0: the default */
    uint64_t bytes; /* of each sample */
    unsigned n;
    struct sample samples[MAX_SAMPLES];
    struct hr_stats stats; /* shapes: of the last run */
};

enum weight {
    PER_BYTE,
    PER_PACKED_BYTE,
    TWICE /* each byte comes by in both directions */
};

struct part {
    const char *name; /* of a ceiling; NULL: no more */
    enum weight weight;
};

enum from { FROM_MEMORY, FROM_FILE, FROM_PACKED_FILE, FROM_DEVICE, FROM_SOCKET };
enum to { TO_NULL, TO_MEMORY, TO_FILE, TO_DEVICE };

#define BENCH_SOME_BYTES (UINT64_C(256) << 20)

/* Bytes that a ceiling's sample moves. */
enum amount {
    ALL,
    SOME, /* what takes long, or is a disk's; pipelines from a socket or to a file move as many */
    SHARE /* of what zstd takes, by the number of threads: a sample takes as long with one */
};

struct bench_case {
    const char *name;
    const char *what;
    bool by_threads; /* ceilings */
    bool gpu_only;
    enum amount amount;
    bool
        waits_for_gpu; /* CPU time of a thread that waits is no work, and is not counted to parts */
    /* Ceilings. Runs one sample with way->width threads and fills it; in round 0 it verifies, too.
     * False with the reason in error. */
    bool (*run)(struct bench *bench, struct way *way, struct sample *sample, char *error);
    /* shapes, with run NULL */
    enum from from;
    enum to to;
    const char *kernel;
    bool encode;
    struct part parts[MAX_PARTS];
};

extern const struct bench_case bench_cases[N_CASES];

/* What was measured of a case. */
struct measured {
    bool wanted;
    unsigned n_ways;
    struct way ways[MAX_WAYS];
    /* Shapes: their parts in the same rounds, if these are near to be the ceiling; else n is 0. */
    struct way beside[MAX_PARTS];
    char error[HR_ERROR_TEXT]; /* why it was not measured, or "" */
};

static inline bool is_shape(const struct bench_case *one)
{
    return !one->run;
}

static inline bool is_verifying(const struct bench *b)
{
    return b->round == 0;
}

/* ---- bench_setup.c, bench_files.c ---- */

/* Both: false with the reason in error, which has HR_ERROR_TEXT bytes: nothing can be measured. Torn
 * down in any case. */
bool bench_open(struct bench *bench, const char *device, char *error); /* its threads, the device */
bool bench_fill(struct bench *bench, uint64_t size, char *error);      /* memory and files */
void bench_tear_down(struct bench *bench);

/* The default: so that all ends within two minutes. */
uint64_t bench_default_size(void);

void bench_make_files(struct bench *bench);
void bench_drop_files(struct bench *bench);
/* Writes n bytes of the file that cases write to: the first of those that do so next to each other
 * then finds pages that were just freed, as the others do, and none that the host of a virtual machine
 * has to provide. */
void bench_touch_pages(struct bench *bench, uint64_t n);

/* ---- bench_ceilings_threads.c ---- */

bool run_memcpy(struct bench *b, struct way *way, struct sample *sample, char *error);
bool run_read(struct bench *b, struct way *way, struct sample *sample, char *error);
bool run_read_direct(struct bench *b, struct way *way, struct sample *sample, char *error);
bool run_write(struct bench *b, struct way *way, struct sample *sample, char *error);
bool run_socket(struct bench *b, struct way *way, struct sample *sample, char *error);

/* ---- bench_ceilings_stages.c: one stage of the library alone ---- */

bool run_check(struct bench *b, struct way *way, struct sample *sample, char *error);
bool run_kernel(struct bench *b, struct way *way, struct sample *sample, char *error);
bool run_sum(struct bench *b, struct way *way, struct sample *sample, char *error);

/* ---- bench_ceilings_zstd.c ---- */

bool run_decode(struct bench *b, struct way *way, struct sample *sample, char *error);
bool run_encode(struct bench *b, struct way *way, struct sample *sample, char *error);

/* ---- bench_ceilings_copies.c: the driver's ---- */

bool run_h2d(struct bench *b, struct way *way, struct sample *sample, char *error);
bool run_d2h(struct bench *b, struct way *way, struct sample *sample, char *error);
bool run_both(struct bench *b, struct way *way, struct sample *sample, char *error);
bool run_d2d(struct bench *b, struct way *way, struct sample *sample, char *error);

/* ---- bench_shapes.c ---- */

#define BENCH_KERNEL "scale:f32,1.5,0.25"

/* Creates, runs and frees, for a user pays for all of it. stats and sum may be NULL. */
bool bench_transfer(hr_loop *loop, const struct hr_pipeline_config *config, struct hr_stats *stats,
                    double *sum, char *error);

/* A source of n bytes to memory of the device. */
bool bench_store(struct bench *b, const struct hr_source *source, void *there, uint64_t n,
                 char *error);

/* What a first kernel that is sum:f32 found. */
bool bench_read_sum(hr_pipeline *pipeline, double *sum, char *error);

bool run_shape(struct bench *b, const struct bench_case *one, struct way *way,
               struct sample *sample, char *error);

/* Bytes of data that a case moves; with one chunk at a time fewer, for it is slow. But all that write
 * a file write as much: each takes the pages that the one before it has just freed, and new ones cost
 * more. */
uint64_t shape_bytes(const struct bench *b, const struct bench_case *one, bool deep);

/* ---- bench_verify.c: what was moved is what it should be; false with the reason in error ---- */

/* Of bytes at offset of the stream. mapped: data through BENCH_KERNEL. */
bool verify_bytes(const struct bench *b, const unsigned char *got, uint64_t offset, uint64_t n,
                  bool mapped, char *error);
bool verify_sum(const struct bench *b, uint64_t n, double sum, char *error);
bool verify_file(struct bench *b, uint64_t n, bool mapped, char *error);
/* Decodes it. */
bool verify_packed_file(struct bench *b, uint64_t n, char *error);
bool clear_there_too(struct bench *b, uint64_t n, char *error);
bool verify_there_too(struct bench *b, uint64_t n, bool mapped, char *error);

/* ---- bench_rounds.c, bench_command.c ---- */

/* Fills what is wanted; stops early if it is interrupted. */
void bench_rounds(struct bench *bench, struct measured *all);

/* To a file that appears when it is whole; path NULL: nothing. False: said why on stderr. */
bool bench_write_json(const char *path, void (*print)(const void *what, FILE *out),
                      const void *what);

/* ---- bench_table.c ---- */

int index_of_case(const char *name); /* -1: there is none */

/* ---- bench_text.c, bench_json.c ---- */

void bench_print(const struct bench *bench, const struct measured *all, FILE *out);
void bench_print_json(const struct bench *bench, const struct measured *all, FILE *out);
void bench_print_json_machine(const struct pool *pool, const char *device, FILE *out);

/* ---- bench_tune.c ---- */

struct tune_options {
    const char *path; /* NULL: the made input */
    const char *device;
    uint64_t size; /* of the made input */
    double limit_s;
    bool save;
    const char *json; /* NULL: none */
};

/* Gives the exit status. */
int run_tune(const struct tune_options *options);

#endif
