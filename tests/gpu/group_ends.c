// SPDX-License-Identifier: Apache-2.0
/* Every source with every sink, memory of the device at either end, and zstd on both sides. */
#include <stdlib.h>
#include <string.h>

#include "chains.h"
#include "trials.h"

enum { CHUNK = 65536, MANY = 11 };

static const char *const chains[][MAX_KERNELS + 1] = {
    {NULL},
    {"scale:u8,3,7", NULL},
    {"cast:u8,f32", "scale:f32,0.5,-3", "sum:f32", "bswap:4", NULL},
};
enum { N_CHAINS = sizeof chains / sizeof chains[0] };

static void use_chain(struct trial *trial, int chain)
{
    memcpy(trial->kernels, chains[chain], sizeof trial->kernels);
}

void group_ends(struct bed *bed)
{
    const size_t size = 3 * CHUNK + 1237;
    unsigned char *bytes = test_bytes(size);
    for (int from = 0; from < FROM_DEVICE; from++) {
        for (int to = 0; to <= TO_PULL; to++) {
            for (int chain = 0; chain < N_CHAINS; chain++) {
                if (bed->is_quick && (from + to) % N_CHAINS != chain)
                    continue;
                struct trial trial = {.from = (enum from)from,
                                      .to = (enum to)to,
                                      .bytes = bytes,
                                      .size = size,
                                      .chunk_size = CHUNK,
                                      .depth = 3};
                use_chain(&trial, chain);
                compare_with_reference(bed, trial);
                trial.size = (size_t)chain; /* 0, 1, 2 */
                if (from == FROM_MEMORY || from == FROM_FILE || from == FROM_PARTS)
                    compare_with_reference(bed, trial);
            }
        }
    }
    free(bytes);
}

/* ---- memory of the device ---- */

static void compare_sizes(struct bed *bed, struct trial trial, const size_t *sizes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        trial.size = sizes[i];
        compare_with_reference(bed, trial);
    }
}

static void compare_too_small(struct bed *bed, struct trial trial)
{
    trial.to = TO_DEVICE;
    trial.room = trial.size - 1;
    compare_trial(bed, &trial, NULL);
    trial.room = CHUNK / 2;
    compare_trial(bed, &trial, NULL);
    struct trial_outcome expected;
    struct trial_outcome got;
    trial_reference(bed, &trial, &expected);
    trial.room = expected.size + 1;
    outcome_append(&expected, &(unsigned char){PAINT}, 1);
    trial_run(bed, &trial, bed->device, &got);
    expect_same(bed, &trial, bed->device, &expected, &got);
    free(expected.bytes);
    free(got.bytes);
}

/* A sink has said how small it is. */
static void expect_no_space(struct bed *bed, struct trial trial)
{
    struct trial_outcome got;
    trial.to = TO_DEVICE;
    trial.room = trial.size / 2;
    trial_run(bed, &trial, bed->device, &got);
    expect(bed, got.status == HR_ESPACE, "a device sink that is too small: %s %s",
           hr_status_name(got.status), got.error.text);
    free(got.bytes);
}

void group_device_ends(struct bed *bed)
{
    static const size_t sizes[] = {0, 1, CHUNK - 1, CHUNK, CHUNK + 1, MANY * CHUNK + 333};
    static const size_t few_sizes[] = {0, CHUNK + 1, 4 * CHUNK + 333};
    static const enum from froms[] = {FROM_MEMORY, FROM_PINNED_ODD, FROM_PIPE, FROM_PARTS,
                                      FROM_DEVICE};
    static const enum to tos[] = {TO_DEVICE, TO_GROWING, TO_LOANS, TO_MEMORY,  TO_PINNED,
                                  TO_FILE,   TO_NULL,    TO_PULL,  TO_CALLBACK};
    unsigned char *bytes = test_bytes(sizes[5]);
    struct trial trial = {.bytes = bytes, .chunk_size = CHUNK, .depth = 4};
    for (size_t from = 0; from < sizeof froms / sizeof froms[0]; from++) {
        for (size_t to = 0; to < sizeof tos / sizeof tos[0]; to++) {
            trial.from = froms[from];
            trial.to = tos[to];
            if (trial.from != FROM_DEVICE && trial.to > TO_LOANS)
                continue; /* no end is the device's */
            for (int chain = 0; chain < N_CHAINS; chain++) {
                use_chain(&trial, chain);
                compare_sizes(bed, trial, bed->is_quick ? few_sizes : sizes, bed->is_quick ? 3 : 6);
            }
        }
    }
    trial = (struct trial){.bytes = bytes, .size = 2 * CHUNK + 5, .chunk_size = CHUNK, .depth = 2};
    for (int chain = 0; chain < 2; chain++) {
        use_chain(&trial, chain);
        compare_too_small(bed, trial);
        expect_no_space(bed, trial);
    }
    free(bytes);
}

/* ---- zstd ---- */

#if HR_HAVE_ZSTD

/* The library's own frames. */
static void encode(struct bed *bed, const unsigned char *bytes, size_t size, const char *device,
                   struct trial_outcome *out)
{
    const struct trial trial = {
        .bytes = bytes, .size = size, .encode = HR_CODEC_ZSTD, .chunk_size = CHUNK};
    trial_run(bed, &trial, device, out);
}

static void compare_packed(struct bed *bed, const struct trial_outcome *packed, enum from from,
                           enum to to)
{
    struct trial trial = {.from = from,
                          .to = to,
                          .bytes = packed->bytes,
                          .size = packed->size,
                          .decode = HR_CODEC_ZSTD,
                          .chunk_size = 100003,
                          .kernels = {"shuffle:4,12", "crc32"}};
    compare_with_reference(bed, trial);
}

/* In through a decoder, out through an encoder, and decoded again by the host. */
static void compare_encoded(struct bed *bed, const struct trial_outcome *packed, enum to to)
{
    struct trial_outcome expected;
    struct trial_outcome got;
    struct trial_outcome plain;
    struct trial trial = {.to = to,
                          .bytes = packed->bytes,
                          .size = packed->size,
                          .decode = HR_CODEC_ZSTD,
                          .kernels = {"scale:u8,5,1", "histogram"}};
    trial_reference(bed, &trial, &expected);
    trial.encode = HR_CODEC_ZSTD;
    trial_run(bed, &trial, bed->device, &got);
    const struct trial back = {
        .bytes = got.bytes, .size = got.size, .decode = HR_CODEC_ZSTD, .kernels = {NULL}};
    trial_run(bed, &back, "host", &plain);
    memcpy(plain.findings, got.findings, sizeof plain.findings);
    expect(bed, got.status == HR_OK && got.size < expected.size, "encoding: %s: %s",
           hr_status_name(got.status), got.error.text);
    expect_same(bed, &trial, bed->device, &expected, &plain);
    free(expected.bytes);
    free(got.bytes);
    free(plain.bytes);
}

void group_zstd(struct bed *bed)
{
    enum { SIZE = 12 * 80000 };
    struct trial_outcome packed;
    unsigned char *bytes = test_bytes(SIZE);
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] &= 0x1f; /* it can be packed */
    for (int i = 0; i < 2; i++) {
        encode(bed, bytes, SIZE, i ? bed->device : "host", &packed);
        expect(bed, packed.status == HR_OK, "encoding on %s: %s", i ? bed->device : "host",
               packed.error.text);
        compare_packed(bed, &packed, FROM_MEMORY, TO_CALLBACK);
        compare_packed(bed, &packed, FROM_PINNED, TO_MEMORY);
        compare_packed(bed, &packed, FROM_FILE, TO_FILE);
        compare_packed(bed, &packed, FROM_PIPE, TO_GROWING);
        compare_packed(bed, &packed, FROM_CALLBACK, TO_LOANS);
        compare_packed(bed, &packed, FROM_FILE, TO_DEVICE);
        compare_encoded(bed, &packed, TO_CALLBACK);
        compare_encoded(bed, &packed, TO_FILE);
        free(packed.bytes);
    }
    free(bytes);
}

#else

void group_zstd(struct bed *bed)
{
    expect(bed, true, "this build has no zstd");
}

#endif
