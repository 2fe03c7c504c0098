// SPDX-License-Identifier: Apache-2.0
/* headrace bench: its parts. A case moves the same bytes by one way; the rate of every case counts
 * these, decoded, so that the rates can be compared. */
#ifndef HR_BENCH_H
#define HR_BENCH_H

#include "cli.h"

enum { N_SAMPLES = 5, MAX_PARTS = 5, N_CASES = 11 };

/* Set up once, outside of all clocks. */
struct bench {
    uint64_t size; /* bytes that every case moves */
    unsigned char *data;
    unsigned char *swapped; /* what the kernel makes of data */
    unsigned char *packed;  /* data as zstd */
    uint64_t packed_size;
    unsigned char *room; /* where memory sinks write */
    uint64_t room_size;
    char *folder;
    char *in_path;     /* data */
    char *packed_path; /* packed */
    char *out_path;
    uint32_t crc; /* of data and of swapped, by the library's own check of plain memory */
    uint32_t swapped_crc;
    hr_context *context;
    hr_loop *loop;
    char packing_failed[HR_ERROR_TEXT]; /* why there is no packed data; "" if there is */
};

enum bench_from { FROM_MEMORY, FROM_FILE, FROM_PACKED_MEMORY, FROM_PACKED_FILE };
enum bench_to { TO_NULL, TO_MEMORY, TO_FILE };

struct bench_case {
    const char *name;
    const char *what;
    bool (*plain)(struct bench *bench); /* no pipeline: false with errno set */
    enum bench_from from;
    enum bench_to to;
    bool kernel;
    bool encode;
    const char *parts[MAX_PARTS]; /* names of cases that measure the stages alone, or none */
};

extern const struct bench_case bench_cases[N_CASES];

struct sample {
    double wall_s;
    double cpu_s;
    double overlap; /* these three as the library tells them */
    double gain;
    uint64_t out_bytes;
    uint32_t crc;
};

/* What was measured of a case. */
struct measured {
    bool wanted;
    struct sample deep[N_SAMPLES];    /* with the default depth */
    struct sample shallow[N_SAMPLES]; /* with one chunk at a time; pipelines only */
    unsigned n;
    char error[HR_ERROR_TEXT]; /* why it was not measured, or "" */
};

/* ---- bench_setup.c ---- */

/* Both: false with the reason in error, which has HR_ERROR_TEXT bytes. */
bool bench_set_up(struct bench *bench, uint64_t size, char *error);
void bench_tear_down(struct bench *bench);

/* ---- bench_cases.c ---- */

/* depth 0: the default. False with the reason in error. */
bool bench_run(struct bench *bench, const struct bench_case *one, uint32_t depth,
               struct sample *sample, char *error);

/* Whether what the last run of the case left is right. */
bool bench_verify(struct bench *bench, const struct bench_case *one, const struct sample *sample,
                  char *error);

bool is_pipeline(const struct bench_case *one);

/* ---- bench_report.c ---- */

void bench_print(const struct bench *bench, const struct measured *all, FILE *out);
void bench_print_json(const struct bench *bench, const struct measured *all, FILE *out);

#endif
