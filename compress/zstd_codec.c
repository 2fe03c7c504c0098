// SPDX-License-Identifier: Apache-2.0
/* Frames to bytes and back, through libzstd's stable interface: the one file that includes it.
 *
 * Contexts keep their memory from frame to frame. Dictionaries are digested at creation, so that a
 * bad one is refused there and a frame never pays for it. */
#include "codec.h"

#include <stdlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#define DICT_MAGIC 0xEC30A437u /* RFC 8878, 5 */

struct hr__decoder {
    ZSTD_DCtx *context;
    ZSTD_DDict *dict;     /* NULL: none */
    struct hr__walk walk; /* over the frame that is being streamed, for its stated size */
    uint64_t total;       /* bytes it has given so far */
};

struct hr__encoder {
    ZSTD_CCtx *context;
    ZSTD_CDict *dict; /* NULL: none */
};

static enum hr__codec_code fail(struct hr__codec_error *err, enum hr__codec_code code,
                                const char *text)
{
    if (err)
        *err = (struct hr__codec_error){.code = code, .text = text};
    return code;
}

static enum hr__codec_code code_of(ZSTD_ErrorCode native, bool has_dict)
{
    static const struct {
        ZSTD_ErrorCode native;
        enum hr__codec_code code;
    } map[] = {
        {ZSTD_error_prefix_unknown, HR__CODEC_CORRUPT},
        {ZSTD_error_frameParameter_unsupported, HR__CODEC_CORRUPT},
        {ZSTD_error_frameParameter_windowTooLarge, HR__CODEC_WINDOW},
        {ZSTD_error_corruption_detected, HR__CODEC_CORRUPT},
        {ZSTD_error_checksum_wrong, HR__CODEC_CHECKSUM},
        {ZSTD_error_literals_headerWrong, HR__CODEC_CORRUPT},
        {ZSTD_error_dictionary_corrupted, HR__CODEC_DICT_WRONG},
        {ZSTD_error_dictionary_wrong, HR__CODEC_DICT_WRONG},
        {ZSTD_error_tableLog_tooLarge, HR__CODEC_CORRUPT},
        {ZSTD_error_maxSymbolValue_tooLarge, HR__CODEC_CORRUPT},
        {ZSTD_error_maxSymbolValue_tooSmall, HR__CODEC_CORRUPT},
        {ZSTD_error_memory_allocation, HR__CODEC_MEMORY},
        {ZSTD_error_dstSize_tooSmall, HR__CODEC_SIZE_MISMATCH},
        {ZSTD_error_dstBuffer_null, HR__CODEC_SIZE_MISMATCH},
        {ZSTD_error_srcSize_wrong, HR__CODEC_CORRUPT},
    };
    if (native == ZSTD_error_dictionary_wrong && !has_dict)
        return HR__CODEC_DICT_NEEDED;
    for (size_t i = 0; i < sizeof map / sizeof *map; i++)
        if (map[i].native == native)
            return map[i].code;
    return HR__CODEC_FAILED;
}

static enum hr__codec_code fail_native(struct hr__codec_error *err, size_t result, bool has_dict)
{
    return fail(err, code_of(ZSTD_getErrorCode(result), has_dict), ZSTD_getErrorName(result));
}

static enum hr__codec_code fail_memory(struct hr__codec_error *err)
{
    return fail(err, HR__CODEC_MEMORY, ZSTD_getErrorString(ZSTD_error_memory_allocation));
}

/* libzstd only says that it could not make a dictionary. One that claims to be a zstd dictionary is
 * far more often damaged than a moment is out of memory, and "out of memory" would mislead. */
static enum hr__codec_code fail_dict(struct hr__codec_error *err, const void *dict, size_t size)
{
    if (size < 8 || hr__load_le(dict, 4) != DICT_MAGIC)
        return fail_memory(err);
    return fail(err, HR__CODEC_DICT_WRONG, ZSTD_getErrorString(ZSTD_error_dictionary_corrupted));
}

enum hr__codec_code hr__decoder_create(struct hr__decoder **out, const void *dict, size_t dict_size,
                                       unsigned window_log, struct hr__codec_error *err)
{
    enum hr__codec_code code = HR__CODEC_OK;
    struct hr__decoder *d = calloc(1, sizeof *d);
    if (!d || !(d->context = ZSTD_createDCtx())) {
        code = fail_memory(err);
        goto out;
    }
    hr__decoder_reset(d);
    size_t result = ZSTD_DCtx_setParameter(d->context, ZSTD_d_windowLogMax,
                                           window_log > 63 ? 63 : (int)window_log);
    if (ZSTD_isError(result)) {
        code = fail(err, HR__CODEC_WINDOW, ZSTD_getErrorName(result));
        goto out;
    }
    if (dict_size == 0)
        goto out;
    d->dict = ZSTD_createDDict(dict, dict_size);
    if (!d->dict)
        code = fail_dict(err, dict, dict_size);
    else if (ZSTD_isError(result = ZSTD_DCtx_refDDict(d->context, d->dict)))
        code = fail_native(err, result, true);
out:
    if (code)
        hr__decoder_free(d);
    else
        *out = d;
    return code;
}

void hr__decoder_free(struct hr__decoder *d)
{
    if (!d)
        return;
    ZSTD_freeDCtx(d->context);
    ZSTD_freeDDict(d->dict);
    free(d);
}

enum hr__codec_code hr__decoder_frame(struct hr__decoder *d, const void *src, size_t size,
                                      void *dst, size_t cap, size_t *produced,
                                      struct hr__codec_error *err)
{
    hr__decoder_reset(d);
    size_t result = ZSTD_decompressDCtx(d->context, dst, cap, src, size);
    if (ZSTD_isError(result))
        return fail_native(err, result, d->dict != NULL);
    *produced = result;
    return HR__CODEC_OK;
}

/* libzstd, when it streams, does not compare sizes if the last block is an empty raw one (seen with
 * 1.5.4), so the walk's word is asked as well. */
static bool size_is_as_stated(const struct hr__decoder *d)
{
    const struct hr__frame *f = &d->walk.frame;
    return d->walk.error || f->content_size == HR__SIZE_UNKNOWN || f->content_size == d->total;
}

static enum hr__step frame_done(struct hr__decoder *d, struct hr__codec_error *err)
{
    if (!size_is_as_stated(d)) {
        fail(err, HR__CODEC_SIZE_MISMATCH, "Decoded size is not the one stated");
        return HR__STEP_ERROR;
    }
    d->total = 0;
    return HR__STEP_FRAME_DONE;
}

enum hr__step hr__decoder_step(struct hr__decoder *d, struct hr__step_io *io,
                               struct hr__codec_error *err)
{
    ZSTD_inBuffer in = {.src = io->src, .size = io->size};
    ZSTD_outBuffer out = {.dst = io->dst, .size = io->cap};
    size_t result = ZSTD_decompressStream(d->context, &out, &in);
    io->used = in.pos;
    io->produced = out.pos;
    d->total += out.pos;
    size_t walked;
    enum hr__walk_result ignored = hr__walk_feed(&d->walk, io->src, in.pos, &walked);
    (void)ignored; /* whether frames are well formed is for libzstd to say here */
    if (result == 0)
        return frame_done(d, err);
    if (!ZSTD_isError(result))
        return out.pos == out.size ? HR__STEP_OUTPUT_FULL : HR__STEP_NEED_INPUT;

    /* Raised after some calls without input or room. That is the caller's affair, and nothing in
     * the context has changed. */
    ZSTD_ErrorCode native = ZSTD_getErrorCode(result);
    if (native == ZSTD_error_noForwardProgress_destFull)
        return HR__STEP_OUTPUT_FULL;
    if (native == ZSTD_error_noForwardProgress_inputEmpty)
        return HR__STEP_NEED_INPUT;
    fail_native(err, result, d->dict != NULL);
    return HR__STEP_ERROR;
}

void hr__decoder_reset(struct hr__decoder *d)
{
    ZSTD_DCtx_reset(d->context, ZSTD_reset_session_only);
    hr__walk_init(&d->walk, UINT64_MAX);
    d->total = 0;
}

/* The level is set twice by intent: a dictionary is digested for its level and brings it along. */
enum hr__codec_code hr__encoder_create(struct hr__encoder **out, int level, const void *dict,
                                       size_t dict_size, struct hr__codec_error *err)
{
    enum hr__codec_code code = HR__CODEC_OK;
    struct hr__encoder *e = calloc(1, sizeof *e);
    if (!e || !(e->context = ZSTD_createCCtx())) {
        code = fail_memory(err);
        goto out;
    }
    size_t result = ZSTD_CCtx_setParameter(e->context, ZSTD_c_compressionLevel, level);
    if (!ZSTD_isError(result))
        result = ZSTD_CCtx_setParameter(e->context, ZSTD_c_checksumFlag, 1);
    if (dict_size > 0 && !ZSTD_isError(result)) {
        e->dict = ZSTD_createCDict(dict, dict_size, level);
        if (!e->dict) {
            code = fail_dict(err, dict, dict_size);
            goto out;
        }
        result = ZSTD_CCtx_refCDict(e->context, e->dict);
    }
    if (ZSTD_isError(result))
        code = fail_native(err, result, dict_size > 0);
out:
    if (code)
        hr__encoder_free(e);
    else
        *out = e;
    return code;
}

void hr__encoder_free(struct hr__encoder *e)
{
    if (!e)
        return;
    ZSTD_freeCCtx(e->context);
    ZSTD_freeCDict(e->dict);
    free(e);
}

enum hr__codec_code hr__encoder_frame(struct hr__encoder *e, const void *src, size_t size,
                                      void *dst, size_t cap, size_t *written,
                                      struct hr__codec_error *err)
{
    size_t result = ZSTD_compress2(e->context, dst, cap, src, size);
    if (ZSTD_isError(result))
        return fail_native(err, result, e->dict != NULL);
    *written = result;
    return HR__CODEC_OK;
}

size_t hr__encode_bound(size_t size)
{
    size_t bound = ZSTD_compressBound(size);
    return ZSTD_isError(bound) ? 0 : bound;
}
