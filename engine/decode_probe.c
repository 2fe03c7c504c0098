// SPDX-License-Identifier: Apache-2.0
/* What can be learned of a source before it is decoded: whether it is encoded at all, at creation
 * if it has offsets, else from its first bytes; and, with offsets and for a range, which of its
 * frames are needed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "decode.h"
#include "sched.h"
#include "status.h"

/* Whether n bytes can be the begin of a frame (RFC 8878, 3.1.1 and 3.1.2). */
static bool may_be_frame(const uint8_t *first, size_t n)
{
    static const uint8_t frame[4] = {0x28, 0xb5, 0x2f, 0xfd};
    static const uint8_t skippable[4] = {0x50, 0x2a, 0x4d, 0x18};
    bool is_frame = true;
    bool is_skippable_frame = true;
    for (size_t i = 0; i < n; i++) {
        is_frame &= first[i] == frame[i];
        is_skippable_frame &= (i == 0 ? first[i] & 0xf0 : first[i]) == skippable[i];
    }
    return is_frame || is_skippable_frame;
}

/* ---- sources with offsets ---- */

/* False: errno is set (0: the source is shorter). */
static bool read_at(const struct hr__input *in, uint64_t offset, void *buffer, size_t size)
{
    if (in->config.kind == HR_MEMORY) {
        memcpy(buffer, (const char *)in->config.data + offset, size);
        return true;
    }
    for (size_t done = 0; done < size;) {
        const ssize_t n = pread(in->file.fd, (char *)buffer + done, size - done,
                                (off_t)(in->file.start + offset + done));
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR) {
            errno = n == 0 ? 0 : errno;
            return false;
        }
    }
    return true;
}

static hr_status fail_read(struct hr__input *in, hr_error *error)
{
    char name[256];
    const int native = errno;
    return hr__fail(error, native ? HR_EIO : HR_ETRUNCATED,
                    (struct hr__where){.stage = HR_STAGE_READ, .native = native}, "read %s: %s",
                    hr__sched_name(in, name, sizeof name),
                    native ? strerror(native) : "it became shorter while it was opened");
}

/* ---- ranges ---- */

static void read_nothing(struct hr__input *in)
{
    in->codec = HR_CODEC_NONE;
    in->end = in->position;
    in->decoded_skip = 0;
    in->decoded_left = UINT64_MAX;
}

/* Reads from the frame that holds the first byte to the one that holds the last. */
static void narrow(struct hr__input *in)
{
    const struct hr__seek_index *seek = &in->seek;
    const uint64_t offset = in->decoded_skip;
    const uint64_t whole = seek->out_offset[seek->n_frames];
    if (in->decoded_left == 0 || offset >= whole) {
        read_nothing(in);
        return;
    }
    const uint64_t end = in->decoded_left < whole - offset ? offset + in->decoded_left : whole;
    in->seek_frame = hr__seek_index_find(seek, offset);
    in->position = seek->in_offset[in->seek_frame];
    in->end = seek->in_offset[hr__seek_index_find(seek, end - 1) + 1];
    in->decoded_position = seek->out_offset[in->seek_frame];
    in->decoded_skip = offset - in->decoded_position;
}

static hr_status read_table(struct hr__input *in, uint64_t size, uint64_t table_size,
                            enum hr__seek_result *result, hr_error *error)
{
    void *table = malloc((size_t)table_size);
    if (!table)
        return hr__fail(error, HR_ENOMEM, (struct hr__where){.stage = HR_STAGE_DECODE},
                        "decode: no memory for a seek table of %llu bytes",
                        (unsigned long long)table_size);
    hr_status status = HR_OK;
    if (read_at(in, size - table_size, table, (size_t)table_size))
        *result = hr__seek_index_parse(&in->seek, table, (size_t)table_size, size);
    else
        status = fail_read(in, error);
    free(table);
    return status;
}

static hr_status find_range(struct hr__input *in, uint64_t size, hr_error *error)
{
    unsigned char footer[HR__SEEK_FOOTER_SIZE];
    uint64_t table_size;
    if (size < sizeof footer)
        return HR_OK;
    if (!read_at(in, size - sizeof footer, footer, sizeof footer))
        return fail_read(in, error);
    enum hr__seek_result result = hr__seek_footer(footer, size, &table_size);
    if (result == HR__SEEK_OK) {
        const hr_status status = read_table(in, size, table_size, &result, error);
        if (status < 0)
            return status;
    }
    char name[256];
    if (result == HR__SEEK_OK)
        narrow(in);
    else if (result != HR__SEEK_NONE && (in->pipeline->flags & HR_STRICT))
        return hr__fail(error, HR_ECORRUPT, (struct hr__where){.stage = HR_STAGE_DECODE},
                        "decode %s: its seek table does not fit the file",
                        hr__sched_name(in, name, sizeof name));
    else if (result != HR__SEEK_NONE)
        hr__context_log(in->pipeline->loop->context,
                        "the seek table of %s does not fit the file: what precedes the range is "
                        "decoded and dropped",
                        hr__sched_name(in, name, sizeof name));
    return HR_OK;
}

hr_status hr__probe_input(struct hr__input *in, uint64_t size, hr_error *error)
{
    uint8_t first[4];
    if (in->codec == HR_CODEC_AUTO) {
        in->codec = HR_CODEC_NONE;
        if (size < sizeof first)
            return HR_OK;
        if (!read_at(in, 0, first, sizeof first))
            return fail_read(in, error);
        if (may_be_frame(first, sizeof first))
            in->codec = HR_CODEC_ZSTD;
    }
    const bool range = in->decoded_skip || in->decoded_left != UINT64_MAX;
    return in->codec == HR_CODEC_ZSTD && range ? find_range(in, size, error) : HR_OK;
}

/* ---- those without, by the first bytes ---- */

/* The first bytes of the input that are there, over blocks; all: no more of them will come. */
static size_t peek(const hr_pipeline *p, uint8_t first[4], bool *all)
{
    size_t n = 0;
    *all = false;
    for (uint64_t i = p->decode.cursor.block; i < p->blocks.tail && n < 4; i++) {
        const struct hr__slot *block = hr__lane_at(&p->blocks, i);
        const size_t there = hr__decode_available(block);
        const size_t here = there < 4 - n ? there : 4 - n;
        memcpy(first + n, block->data ? block->data : "", here);
        n += here;
        *all = block->ends_input || block->error.code;
        if (block->state != HR__SLOT_READY)
            break;
    }
    return n;
}

bool hr__decode_find_codec(hr_pipeline *p)
{
    struct hr__input *in = p->decode.input;
    uint8_t first[4];
    bool all;
    const size_t n = peek(p, first, &all);
    if (n < 4 && !all && may_be_frame(first, n))
        return false;
    in->codec = n == 4 && may_be_frame(first, n) ? HR_CODEC_ZSTD : HR_CODEC_NONE;
    if (in->codec == HR_CODEC_NONE && in->decoded_left < UINT64_MAX - in->decoded_skip)
        in->end = in->decoded_skip + in->decoded_left; /* plain bytes: none beyond is taken */
    return true;
}
