// SPDX-License-Identifier: Apache-2.0
/* headrace devices --selftest: its parts. What a device does is compared with what the host does;
 * the report is one that can be attached to a bug. The same bytes and steps each time. */
#ifndef HR_SELFTEST_H
#define HR_SELFTEST_H

#include "cli.h"

enum { CHAIN_MAX = 4, FOUND_BYTES = 256 * 8, WHY_BYTES = 2 * HR_ERROR_TEXT };

/* GB/s, and what the library says of the transfer in both directions; 0: not measured. */
struct rates {
    bool is_pinned;
    double to_device;
    double from_device;
    double both;
    double overlap;
    double gain;
};

struct selftest {
    const char *asked; /* the device as it was named */
    bool json;
    char device[HR_DEVICE_NAME]; /* as the library names it */
    bool is_host;
    hr_context *context;
    hr_loop *loop;

    unsigned n_passed;
    unsigned n_failed;
    unsigned n_skipped;

    const char *name; /* of the check that runs */
    bool is_skipped;
    char why[WHY_BYTES]; /* it failed or was skipped; "": neither */

    const char *between; /* of JSON, before the next key or check */
    const char *group;   /* of the keys that are told, or NULL */
    bool tells_checks;   /* their array is open */

    struct rates rates;
    char compiler[HR_ERROR_TEXT]; /* what it said of the wrong source: its name and architecture */
};

/* ---- selftest_run.c ---- */

/* All of it; gives the exit status. */
int run_selftest(const char *device, bool json, uint32_t limit_s);

typedef void (*check_fn)(struct selftest *t, const void *what);

/* What is no check, but may hang or crash like one, up to watch_no_check(). */
void begin_step(struct selftest *t, const char *name);

/* One check: calls run with what, and tells how it went. */
void check(struct selftest *t, const char *name, check_fn run, const void *what);

/* The check failed, or cannot be made here. The first reason counts. */
void fail(struct selftest *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void skip(struct selftest *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* False, and the check failed, if they are not. */
bool expect_bytes(struct selftest *t, const char *what, const unsigned char *got,
                  const unsigned char *expected, uint64_t size);
bool expect_ok(struct selftest *t, const char *what, hr_status status, const hr_error *error);

/* ---- selftest_report.c: comments of the text, keys of the JSON; each line goes out at once ---- */

void tell_begin(struct selftest *t);
void tell_group(struct selftest *t, const char *name);
void tell_group_end(struct selftest *t);
void tell_text(struct selftest *t, const char *key, const char *value);
void tell_number(struct selftest *t, const char *key, double value, int decimals);
void tell_checks(struct selftest *t);
void tell_check(struct selftest *t, double ms);
void tell_checks_end(struct selftest *t);
void tell_end(struct selftest *t);

/* What is left to print if the check that runs never ends: before and behind the reason. */
void tell_last_words(const struct selftest *t, char *before, char *behind, size_t size);

/* ---- selftest_watch.c: an end for checks that have none ---- */

/* A check that takes longer than limit_s, or that crashes, ends the process after it was told. */
bool watch_begin(uint32_t limit_s);
void watch_check(const struct selftest *t);
void watch_no_check(void);

/* ---- selftest_machine.c: what the figures and failures must be read with ---- */

void tell_machine(struct selftest *t);
void tell_devices(struct selftest *t);
/* The libraries of drivers and compilers that are loaded by now and were not told before. */
void tell_libraries(struct selftest *t, const char *group);

/* ---- selftest_flow.c: pipelines ---- */

struct flow {
    const char *device;
    struct hr_source source;
    struct hr_sink sink;
    const char *kernels[CHAIN_MAX + 1]; /* by their texts, up to NULL */
    const struct hr_kernel *own;        /* instead of them: one */
    uint64_t chunk_size;
    uint32_t depth;
    uint32_t n_streams;
    uint32_t decode;
    uint32_t encode;
};

/* What a reduction found. */
struct found {
    hr_status status;
    struct hr_result result; /* data is not set */
    uint64_t n_bytes;
    unsigned char bytes[FOUND_BYTES];
};

struct outcome {
    hr_status status;
    hr_error error;
    struct hr_stats stats;
    uint64_t size; /* bytes that the sink got */
    void *gathered;
    struct found found[CHAIN_MAX];
};

struct hr_source from_memory(const void *data, uint64_t size);
struct hr_source from_device(const void *data, uint64_t size);
struct hr_sink to_memory(void *data, uint64_t size);
struct hr_sink to_device(void *data, uint64_t size);

hr_status create_flow(struct selftest *t, const struct flow *flow, hr_pipeline **out,
                      hr_error *error);
/* To its end, however that is. */
void run_flow(struct selftest *t, const struct flow *flow, struct outcome *out);
/* The same; false, and the check failed, if it did not go well. */
bool must_run(struct selftest *t, const struct flow *flow, struct outcome *out);
/* On the host and on the device, from memory to memory: with the same bytes and findings. */
void compare_flow(struct selftest *t, struct flow flow);

/* ---- selftest_bytes.c: memory, and what is in it ---- */

enum { PAINT = 0xa5, GUARD = 64 };

/* Aligned to pages, and painted; ends the process if there is none. The caller frees it. */
unsigned char *take_memory(uint64_t size);
/* The check failed if what follows the bytes is not the paint. */
void expect_guard(struct selftest *t, const char *what, const unsigned char *memory, uint64_t size);
/* The next of a row of numbers that begins at *state. */
uint64_t next_random(uint64_t *state);
void fill_random(unsigned char *data, uint64_t size, uint64_t seed);

/* Elements of a type, by the host's own cast. wild: with infinities, NaN, denormals and any bits;
 * else small numbers. Room for n * 8 bytes. Returns the bytes; 0, and the check failed, if it does
 * not work. */
uint64_t fill_elements(struct selftest *t, const char *type, bool wild, unsigned char *data,
                       uint32_t n);

/* ---- the checks ---- */

void selftest_memory(struct selftest *t);
void selftest_kernels(struct selftest *t);
void selftest_chains(struct selftest *t);
void selftest_loans(struct selftest *t);
void selftest_own_kernels(struct selftest *t);
void selftest_ends(struct selftest *t);
void selftest_rates(struct selftest *t);
void tell_rates(struct selftest *t);

#endif
