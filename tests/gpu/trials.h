// SPDX-License-Identifier: Apache-2.0
/* Pipelines that are run on the host and on another device and compared, by the public header only.
 * A trial says from where to where, through which kernels and how it is cut; a run makes it real
 * with files, pipes, peers and memory of each kind; its outcome is all that a user can see of it. */
#ifndef HR_TEST_TRIALS_H
#define HR_TEST_TRIALS_H

#include <headrace.h>
#include <stdbool.h>

enum from {
    FROM_MEMORY,
    FROM_ODD, /* memory that is not aligned */
    FROM_PINNED,
    FROM_PINNED_ODD,
    FROM_FILE,
    FROM_PIPE,
    FROM_TCP,
    FROM_CALLBACK,
    FROM_PARTS, /* several sources, each of another kind */
    FROM_DEVICE,
    N_FROM
};

enum to {
    TO_CALLBACK,
    TO_MEMORY,
    TO_ODD,
    TO_PINNED,
    TO_PINNED_ODD,
    TO_FILE,
    TO_NULL,
    TO_PULL,
    TO_LOANS,  /* the pull form where the device has the chunks */
    TO_DEVICE, /* memory of the device that the test gives */
    TO_GROWING,
    N_TO
};

enum { MAX_KERNELS = 6, N_PARTS = 4, MAX_RESULT_BYTES = 4096 };

struct trial {
    enum from from;
    enum to to;
    const unsigned char *bytes;
    size_t size;
    size_t room;                          /* of a sink that is memory */
    const char *kernels[MAX_KERNELS + 1]; /* by their texts, up to NULL */
    uint64_t chunk_size;
    uint32_t depth;
    uint32_t n_streams;
    uint32_t decode;
    uint32_t encode;
    uint32_t flags;          /* enum hr_pipeline_flag */
    bool is_missing;         /* FROM_PARTS: its file is not there */
    uint64_t read_fails_at;  /* FROM_CALLBACK: from this byte on; 0: never */
    uint64_t cancels_at;     /* FROM_CALLBACK: when this byte is asked for; 0: never */
    uint64_t write_fails_at; /* TO_CALLBACK */
};

struct finding {
    hr_status status;
    uint32_t type;
    uint64_t n_values;
    uint64_t n_units;
    unsigned char values[MAX_RESULT_BYTES];
};

struct trial_outcome {
    hr_status status; /* of the creation, if that failed */
    hr_error error;
    unsigned char *bytes; /* what the sink got */
    size_t size;
    size_t cap;
    struct finding findings[MAX_KERNELS];
    struct hr_stats stats;
    char fault[160]; /* what a test saw beside it, "": nothing */
};

/* What the tests of one thread share. */
struct bed {
    hr_context *context;
    hr_loop *loop;
    const char *device; /* to be compared with the host */
    bool is_gpu;        /* its memory is not the host's */
    bool is_quick;
    bool is_small; /* its memory: large chunks are not many at once */
    unsigned n_cycles;
    char directory[64];
    const char *group;
    unsigned n_trials;
    unsigned n_differ;
};

struct host_memory { /* memory of the host, and whether it is pinned */
    void *base;
    unsigned char *at;
    bool is_pinned;
};

struct span {
    const unsigned char *bytes;
    size_t size;
};

struct run {
    struct bed *bed;
    const struct trial *trial;
    const char *device;
    hr_pipeline *pipeline;
    struct trial_outcome *out;

    struct hr_source sources[N_PARTS];
    struct hr_sink sink;
    struct hr_kernel kernels[MAX_KERNELS];
    struct hr_pipeline_config config;
    struct host_memory in;
    struct host_memory to;
    void *device_in;
    void *device_out;
    struct span spans[N_PARTS]; /* of the callbacks */
    char path_in[96];
    char path_out[96];
    struct feeder *feeder;
    struct peer *peer;
    int listener; /* the peer's, once more */
    char address[64];
};

/* ---- the ends of a run ---- */

enum { PAINT = 0xa5, GUARD = 256 }; /* what memory of a sink is filled with, and has behind it */

hr_status ends_open(struct run *run, hr_error *error);
void ends_close(struct run *run);
hr_status source_open(struct run *run, hr_error *error);
hr_status sink_open(struct run *run, hr_error *error);
/* Brings the bytes of the sink into the outcome; the pipeline is still there. */
hr_status sink_collect(struct run *run, hr_error *error);
hr_status host_memory_take(struct run *run, struct host_memory *memory, size_t size, bool is_odd,
                           bool is_pinned, hr_error *error);
void host_memory_leave(struct run *run, struct host_memory *memory);
/* Ends the process as failed if it does not hold. */
void must_have(bool holds, const char *what);
void outcome_append(struct trial_outcome *out, const void *bytes, size_t size);

/* ---- runs ---- */

/* Creates the pipeline; out->status is HR_PENDING if it is to be run. HR_AGAIN is left to the
 * caller. */
void run_start(struct run *run, struct bed *bed, const struct trial *trial, const char *device,
               struct trial_outcome *out);
/* Ends it, when the pipeline has ended. */
void run_finish(struct run *run);
/* Until the pipeline has ended; HR_ETIMEDOUT after a minute. */
hr_status run_to_end(struct bed *bed, hr_pipeline *pipeline, hr_error *error);
/* All of it. The caller frees out->bytes. */
void trial_run(struct bed *bed, const struct trial *trial, const char *device,
               struct trial_outcome *out);
/* What the bytes become on the host, from memory to a callback. */
void trial_reference(struct bed *bed, const struct trial *trial, struct trial_outcome *out);

/* Copies through a pipeline of its own. */
hr_status device_put(struct bed *bed, const char *device, void *to, const void *bytes, size_t size,
                     hr_error *error);
hr_status device_get(struct bed *bed, const char *device, void *to, const void *memory, size_t size,
                     hr_error *error);

/* ---- the verdict ---- */

/* Counts one, and prints what differs; what says which run it is. */
void expect_same(struct bed *bed, const struct trial *trial, const char *what,
                 const struct trial_outcome *expected, const struct trial_outcome *got);
/* Counts one. */
void expect(struct bed *bed, bool holds, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Runs it on the host and on the device: both must be as expected, if that is not NULL, and have
 * met the same errors. Returns how it ended on the device. */
hr_status compare_trial(struct bed *bed, const struct trial *trial,
                        const struct trial_outcome *expected);
/* The same, with the reference made here. */
void compare_with_reference(struct bed *bed, struct trial trial);

/* A loop of the engine that HR_TEST_IO names; the process ends if there is none. */
hr_loop *bed_loop(hr_context *context);

/* ---- the groups ---- */

void group_ends(struct bed *bed);
void group_device_ends(struct bed *bed);
void group_zstd(struct bed *bed);
void group_kernels(struct bed *bed);
void group_cuts(struct bed *bed);
void group_loans(struct bed *bed);
void group_errors(struct bed *bed);
void group_misuse(struct bed *bed);
void group_many(struct bed *bed);
void group_cycles(struct bed *bed);

#endif
