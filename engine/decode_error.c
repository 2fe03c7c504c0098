// SPDX-License-Identifier: Apache-2.0
/* What can be wrong with encoded data, in words that tell where, and what to do. */
#include <stdio.h>

#include "decode.h"
#include "sched.h"
#include "status.h"

/* Where in the decoded stream is known when the error takes its place there: see cut_stage.c. */
static const struct hr__where decoding = {.stage = HR_STAGE_DECODE};

static const char *advice(enum hr__codec_code code, bool streamed)
{
    switch (code) {
    case HR__CODEC_DICT_NEEDED:
        return "; it was made with a dictionary: give that (dict, --dict)";
    case HR__CODEC_DICT_WRONG:
        return "; it was made with another dictionary than the one given";
    case HR__CODEC_WINDOW:
        return "; raise the limit of the window (window_log, --window-log)";
    case HR__CODEC_CHECKSUM:
        return streamed ? "; what was passed on of it is not verified"
                        : "; the bytes that it would give are not passed on";
    case HR__CODEC_OK:
    case HR__CODEC_CORRUPT:
    case HR__CODEC_MEMORY:
    case HR__CODEC_SIZE_MISMATCH:
    case HR__CODEC_FAILED:
        break;
    }
    return "";
}

static hr_status status_of(enum hr__codec_code code)
{
    return code == HR__CODEC_MEMORY   ? HR_ENOMEM
           : code == HR__CODEC_WINDOW ? HR_ELIMIT
                                      : HR_ECORRUPT;
}

void hr__decode_fail(struct hr__input *in, const struct hr__decode_work *work, hr_error *error)
{
    const struct hr__codec_error *why = &work->why;
    char name[256];
    char dictionary[64] = "";
    if (work->dict_id && (why->code == HR__CODEC_DICT_NEEDED || why->code == HR__CODEC_DICT_WRONG))
        snprintf(dictionary, sizeof dictionary, " (dictionary %u)", work->dict_id);
    hr__fail(error, status_of(why->code), decoding,
             "decode %s: the zstd frame at byte %llu: %s%s%s",
             hr__sched_name(in, name, sizeof name), (unsigned long long)work->bad_offset, why->text,
             dictionary, advice(why->code, work->streamed));
}

void hr__decode_fail_table(struct hr__input *in, uint64_t byte, hr_error *error)
{
    char name[256];
    hr__fail(error, HR_ECORRUPT, decoding,
             "decode %s: the seek table is wrong about the zstd frame at byte %llu; read the file "
             "without a range",
             hr__sched_name(in, name, sizeof name), (unsigned long long)byte);
}

void hr__decode_fail_walk(struct hr__input *in, const struct hr__walk *walk, uint64_t origin,
                          hr_error *error)
{
    char name[256];
    const unsigned long long byte = (unsigned long long)(origin + walk->error_offset);
    hr__sched_name(in, name, sizeof name);
    switch (walk->error) {
    case HR__WALK_NOT_ZSTD:
        hr__fail(error, HR_ECORRUPT, decoding,
                 "decode %s: no zstd data: it does not begin with a frame; to pass it on as it is, "
                 "decode nothing (decode, --decode none)",
                 name);
        break;
    case HR__WALK_NO_FRAME:
        hr__fail(error, HR_ECORRUPT, decoding,
                 "decode %s: no zstd frame: it holds %llu bytes in all", name,
                 (unsigned long long)walk->offset);
        break;
    case HR__WALK_TRAILING:
        hr__fail(error, HR_ECORRUPT, decoding,
                 "decode %s: at byte %llu, behind the last zstd frame, are bytes that begin no "
                 "other",
                 name, byte);
        break;
    case HR__WALK_TRUNCATED:
        hr__fail(error, HR_ETRUNCATED, decoding,
                 "decode %s: it ends at byte %llu, inside of the zstd frame at byte %llu", name,
                 byte, (unsigned long long)(origin + walk->frame.in_offset));
        break;
    case HR__WALK_WINDOW:
        hr__fail(
            error, HR_ELIMIT, decoding,
            "decode %s: the zstd frame at byte %llu needs a window of %llu bytes, the limit is "
            "%llu; raise it (window_log, --window-log)",
            name, byte, (unsigned long long)walk->frame.window_size,
            (unsigned long long)walk->max_window);
        break;
    case HR__WALK_OK:
    case HR__WALK_RESERVED:
        hr__fail(error, HR_ECORRUPT, decoding, "decode %s: the zstd data are damaged at byte %llu",
                 name, byte);
        break;
    }
}
