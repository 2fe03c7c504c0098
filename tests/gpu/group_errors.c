// SPDX-License-Identifier: Apache-2.0
/* What goes wrong goes wrong alike on each device, and the context goes on. */
#include <stdlib.h>
#include <string.h>

#include "chains.h"
#include "trials.h"

enum { CHUNK = 65536, SIZE = 7 * CHUNK + 4 * 333 };

/* After each failure the same context does what it should. */
static void compare_failure(struct bed *bed, struct trial trial)
{
    const hr_status status = compare_trial(bed, &trial, NULL);
    expect(bed, status < 0, "what should fail is %s", hr_status_name(status));
    const struct trial good = {.bytes = trial.bytes,
                               .size = CHUNK + 8,
                               .chunk_size = CHUNK / 2,
                               .kernels = {"bswap:4", "sum:f32"}};
    compare_with_reference(bed, good);
}

static void expect_status(struct bed *bed, const struct trial *trial, const char *device,
                          hr_status expected)
{
    struct trial_outcome got;
    trial_run(bed, trial, device, &got);
    expect(bed, got.status == expected && got.error.code == (int32_t)expected,
           "on \"%s\": %s (%s), expected %s", device, hr_status_name(got.status), got.error.text,
           hr_status_name(expected));
    free(got.bytes);
}

static void compare_broken_streams(struct bed *bed, struct trial trial)
{
    static const enum from froms[] = {FROM_MEMORY, FROM_FILE, FROM_PARTS, FROM_PIPE, FROM_PINNED};
    for (size_t i = 0; i < sizeof froms / sizeof froms[0]; i++) {
        struct trial cut = trial;
        cut.from = froms[i];
        cut.size = SIZE - 1;
        cut.kernels[0] = "cast:f32,f64";
        compare_failure(bed, cut);
        cut.kernels[0] = "shuffle:4,12";
        cut.size = CHUNK / 12 * 12 + 11;
        compare_failure(bed, cut);
        cut.kernels[1] = "filter:u8,ge,7"; /* whose count is odd */
        cut.kernels[0] = "crc32";
        cut.kernels[2] = "bswap:8";
        cut.size = CHUNK + 16;
        compare_failure(bed, cut);
    }
    struct trial missing = trial;
    missing.from = FROM_PARTS;
    missing.is_missing = true;
    compare_failure(bed, missing);
}

static void compare_callbacks(struct bed *bed, struct trial trial)
{
    static const uint64_t places[] = {CHUNK - 4, CHUNK, 3 * CHUNK + 8};
    for (int i = 0; i < 3; i++) {
        struct trial failing = trial;
        failing.from = FROM_CALLBACK;
        failing.read_fails_at = places[i];
        compare_failure(bed, failing);
        failing = trial;
        failing.write_fails_at = places[i];
        compare_failure(bed, failing);
        failing = trial;
        failing.to = TO_MEMORY;
        failing.room = (size_t)places[i];
        expect_status(bed, &failing, bed->device, HR_ESPACE);
    }
}

/* What was delivered is the begin of the stream. */
static void cancel_in_the_middle(struct bed *bed, struct trial trial)
{
    struct trial_outcome expected;
    struct trial_outcome got;
    trial.from = FROM_CALLBACK;
    trial_reference(bed, &trial, &expected);
    trial.cancels_at = 3 * CHUNK;
    trial_run(bed, &trial, bed->device, &got);
    expect(bed,
           got.status == HR_ECANCELED && got.size < expected.size &&
               (got.size == 0 || memcmp(got.bytes, expected.bytes, got.size) == 0),
           "canceled: %s (%s), %zu bytes", hr_status_name(got.status), got.error.text, got.size);
    free(expected.bytes);
    free(got.bytes);
    compare_failure(bed, (struct trial){.bytes = trial.bytes, .size = 3, .kernels = {"bswap:2"}});
}

static void compare_damaged_frames(struct bed *bed, const struct trial *trial)
{
#if HR_HAVE_ZSTD
    struct trial_outcome packed;
    struct trial packing = *trial;
    packing.encode = HR_CODEC_ZSTD;
    packing.kernels[0] = NULL;
    trial_run(bed, &packing, "host", &packed);
    struct trial damaged = *trial;
    damaged.decode = HR_CODEC_ZSTD;
    damaged.size = packed.size;
    damaged.bytes = packed.bytes;
    packed.bytes[packed.size / 2] ^= 0x55;
    compare_failure(bed, damaged);
    damaged.from = FROM_FILE;
    compare_failure(bed, damaged);
    packed.bytes[packed.size / 2] ^= 0x55;
    damaged.size = packed.size / 2;
    compare_failure(bed, damaged);
    free(packed.bytes);
#else
    (void)bed;
    (void)trial;
#endif
}

static void compare_wrong_texts(struct bed *bed, const struct trial *trial)
{
    static const char *const texts[] = {"cast:u8,f33",  "filter:f32,zz,1", "shuffle:3,10",
                                        "bswap:3",      "scale:u8",        "",
                                        "histogram:u8", "nothing",         "sum:f32,1"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct trial wrong = *trial;
        wrong.kernels[0] = texts[i];
        compare_trial(bed, &wrong, NULL);
        expect_status(bed, &wrong, bed->device, HR_EINVAL);
    }
}

void group_errors(struct bed *bed)
{
    unsigned char *bytes = test_bytes(SIZE);
    const struct trial trial = {
        .bytes = bytes, .size = SIZE, .chunk_size = CHUNK, .depth = 3, .kernels = {"cast:f32,f64"}};
    compare_broken_streams(bed, trial);
    compare_callbacks(bed, trial);
    cancel_in_the_middle(bed, trial);
    compare_damaged_frames(bed, &trial);
    compare_wrong_texts(bed, &trial);
    expect_status(bed, &trial, "cuda:99", HR_EUNSUPPORTED);
    expect_status(bed, &trial, "abacus", HR_EINVAL);
    free(bytes);
}
