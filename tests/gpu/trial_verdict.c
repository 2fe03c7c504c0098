// SPDX-License-Identifier: Apache-2.0
/* Whether two outcomes are the same, and what is said if they are not. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trials.h"

enum { MAX_LINES = 12, WHY = 400 };

static const char *const from_names[N_FROM] = {
    "memory",   "odd memory", "pinned memory", "odd pinned memory", "file", "pipe", "tcp",
    "callback", "parts",      "device"};
static const char *const to_names[N_TO] = {
    "callback", "memory", "odd memory", "pinned memory", "odd pinned memory", "file", "null",
    "pull",     "loans",  "device",     "growing"};

static void print_trial(const struct trial *trial)
{
    printf("%s -> ", from_names[trial->from]);
    for (const char *const *text = trial->kernels; *text; text++)
        printf("%s -> ", *text);
    printf("%s, %zu bytes, chunk %llu, depth %u, streams %u", to_names[trial->to], trial->size,
           (unsigned long long)trial->chunk_size, trial->depth, trial->n_streams);
    printf("%s%s", trial->decode ? ", decode" : "", trial->encode ? ", encode" : "");
}

void expect(struct bed *bed, bool holds, const char *format, ...)
{
    va_list arguments;
    bed->n_trials++;
    bed->n_differ += !holds;
    if (holds || bed->n_differ > MAX_LINES)
        return;
    printf("# %s: ", bed->group);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    fflush(stdout);
}

/* As zlib's, bit by bit. */
static uint32_t crc_of(const unsigned char *bytes, size_t size)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

static bool same_bytes(const struct trial_outcome *expected, const struct trial_outcome *got,
                       char *why)
{
    size_t i = 0;
    const size_t size = expected->size < got->size ? expected->size : got->size;
    if (expected->size == got->size &&
        (size == 0 || memcmp(expected->bytes, got->bytes, size) == 0))
        return true;
    while (i < size && expected->bytes[i] == got->bytes[i])
        i++;
    snprintf(why, WHY, "%zu bytes for %zu, of which the first %zu are right", got->size,
             expected->size, i);
    return false;
}

static bool same_findings(const struct trial_outcome *expected, const struct trial_outcome *got,
                          char *why)
{
    for (int i = 0; i < MAX_KERNELS; i++) {
        const struct finding *a = &expected->findings[i];
        const struct finding *b = &got->findings[i];
        if (a->status == b->status && a->type == b->type && a->n_values == b->n_values &&
            a->n_units == b->n_units && memcmp(a->values, b->values, sizeof a->values) == 0)
            continue;
        uint64_t first[2];
        memcpy(&first[0], a->values, sizeof first[0]);
        memcpy(&first[1], b->values, sizeof first[1]);
        snprintf(why, WHY,
                 "kernel %d found %s, %llu of %llu units, %016llx..., expected %s, %llu of %llu, "
                 "%016llx...",
                 i, hr_status_name(b->status), (unsigned long long)b->n_values,
                 (unsigned long long)b->n_units, (unsigned long long)first[1],
                 hr_status_name(a->status), (unsigned long long)a->n_values,
                 (unsigned long long)a->n_units, (unsigned long long)first[0]);
        return false;
    }
    return true;
}

/* What does not depend on the text of an error. */
static bool same_end(const struct trial_outcome *expected, const struct trial_outcome *got,
                     char *why)
{
    const hr_error *a = &expected->error;
    const hr_error *b = &got->error;
    if (expected->status == got->status &&
        (got->status == HR_OK || (a->code == b->code && a->stage == b->stage &&
                                  a->native == b->native && a->offset == b->offset)))
        return true;
    snprintf(why, WHY, "%s %d/%s/%d at %llu (%.120s), expected %s %d/%s/%d at %llu (%.60s)",
             hr_status_name(got->status), b->code, hr_stage_name((enum hr_stage)b->stage),
             b->native, (unsigned long long)b->offset, b->text, hr_status_name(expected->status),
             a->code, hr_stage_name((enum hr_stage)a->stage), a->native,
             (unsigned long long)a->offset, a->text);
    return false;
}

static bool sink_holds_bytes(const struct trial *trial)
{
    return trial->to != TO_NULL;
}

void expect_same(struct bed *bed, const struct trial *trial, const char *what,
                 const struct trial_outcome *expected, const struct trial_outcome *got)
{
    char why[WHY] = "";
    bool holds = same_end(expected, got, why);
    if (holds && got->fault[0]) {
        snprintf(why, sizeof why, "%s", got->fault);
        holds = false;
    }
    if (holds && sink_holds_bytes(trial))
        holds = same_bytes(expected, got, why);
    if (holds && got->status == HR_OK)
        holds = same_findings(expected, got, why);
    if (holds && !sink_holds_bytes(trial) && got->status == HR_OK) {
        holds = got->stats.crc32 == crc_of(expected->bytes, expected->size);
        snprintf(why, sizeof why, "CRC-32 is %08x", got->stats.crc32);
    }
    if (!holds && bed->n_differ < MAX_LINES) {
        printf("# %s on %s: ", bed->group, what);
        print_trial(trial);
        printf(": %s\n", why);
        fflush(stdout);
    }
    bed->n_trials++;
    bed->n_differ += !holds;
}

/* Where a pipe or a socket is cut depends on the moment, and frames are decoded as memory allows. */
static bool has_fixed_cuts(const struct trial *trial)
{
    return trial->from != FROM_PIPE && trial->from != FROM_TCP && trial->chunk_size > 0 &&
           trial->decode == HR_CODEC_NONE;
}

/* What both devices have counted of it. */
static void expect_same_counts(struct bed *bed, const struct trial *trial,
                               const struct trial_outcome *host, const struct trial_outcome *got)
{
    const struct hr_stage_stats *a = &host->stats.stages[HR_STAGE_KERNEL];
    const struct hr_stage_stats *b = &got->stats.stages[HR_STAGE_KERNEL];
    expect(
        bed, a->chunks == b->chunks && a->bytes_in == b->bytes_in && a->bytes_out == b->bytes_out,
        "%s -> %s -> %s, chunk %llu: kernels had %llu chunks, %llu bytes, gave %llu; on the host "
        "%llu, %llu, %llu",
        from_names[trial->from], trial->kernels[0] ? trial->kernels[0] : "", to_names[trial->to],
        (unsigned long long)trial->chunk_size, (unsigned long long)b->chunks,
        (unsigned long long)b->bytes_in, (unsigned long long)b->bytes_out,
        (unsigned long long)a->chunks, (unsigned long long)a->bytes_in,
        (unsigned long long)a->bytes_out);
}

/* What is only looked at need not come back: it is still where it was. */
static bool changes_bytes(const struct trial *trial, const struct trial_outcome *got)
{
    bool changes = trial->kernels[0] == NULL;
    for (int i = 0; trial->kernels[i]; i++)
        changes = changes || got->findings[i].status != HR_OK;
    return changes;
}

/* Bytes go there and, but for a device's own ends, come back. */
static void expect_visit(struct bed *bed, const struct trial *trial,
                         const struct trial_outcome *got)
{
    const struct hr_stage_stats *stages = got->stats.stages;
    const bool stays = trial->to == TO_LOANS || trial->to == TO_DEVICE || trial->to == TO_GROWING;
    expect(bed,
           trial->from == FROM_DEVICE ||
               stages[HR_STAGE_H2D].bytes_in >= got->stats.stages[HR_STAGE_READ].bytes_out,
           "%s -> %s: %llu bytes went to the device, %llu were read", from_names[trial->from],
           to_names[trial->to], (unsigned long long)stages[HR_STAGE_H2D].bytes_in,
           (unsigned long long)stages[HR_STAGE_READ].bytes_out);
    expect(bed,
           stays || trial->encode || !changes_bytes(trial, got) ||
               stages[HR_STAGE_D2H].bytes_out >= stages[HR_STAGE_WRITE].bytes_in,
           "%s -> %s: %llu bytes came from the device, %llu were written", from_names[trial->from],
           to_names[trial->to], (unsigned long long)stages[HR_STAGE_D2H].bytes_out,
           (unsigned long long)stages[HR_STAGE_WRITE].bytes_in);
    expect(bed, strncmp(got->stats.device, bed->device, strlen(bed->device)) == 0,
           "the statistics name \"%s\"", got->stats.device);
}

hr_status compare_trial(struct bed *bed, const struct trial *trial,
                        const struct trial_outcome *expected)
{
    struct trial_outcome host;
    struct trial_outcome got;
    trial_run(bed, trial, "host", &host);
    trial_run(bed, trial, bed->device, &got);
    if (expected)
        expect_same(bed, trial, "host", expected, &host);
    expect_same(bed, trial, bed->device, expected ? expected : &host, &got);
    if (has_fixed_cuts(trial) && host.status == HR_OK && got.status == HR_OK)
        expect_same_counts(bed, trial, &host, &got);
    if (bed->is_gpu && got.status == HR_OK && trial->decode == HR_CODEC_NONE)
        expect_visit(bed, trial, &got);
    free(host.bytes);
    free(got.bytes);
    return got.status;
}

void compare_with_reference(struct bed *bed, struct trial trial)
{
    struct trial_outcome expected;
    trial_reference(bed, &trial, &expected);
    if (trial.room == 0)
        trial.room = expected.size;
    compare_trial(bed, &trial, &expected);
    free(expected.bytes);
}
