// SPDX-License-Identifier: Apache-2.0
/* zstd for the pipeline: where frames begin and end (frame_index.c), decoding and encoding of
 * frames (zstd_codec.c), and the table of a seekable file (seek_table.c).
 *
 * They know nothing of the rest of the tree. Nothing here does I/O, takes a lock or keeps global
 * state: an object is used by one thread at a time, any thread. */
#ifndef HR_CODEC_H
#define HR_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HR__MUST_USE __attribute__((warn_unused_result))

/* ---- Where frames begin and end (RFC 8878) ------------------------------------------------- */

#define HR__SIZE_UNKNOWN UINT64_MAX
#define HR__BLOCK_MAX (128u * 1024) /* RFC 8878, 3.1.1.2.4 */

struct hr__frame {
    uint64_t in_offset;    /* of its magic number, in the stream of encoded bytes */
    uint64_t in_size;      /* encoded size with header and checksum; set when it is complete */
    uint64_t content_size; /* as the header states it, or HR__SIZE_UNKNOWN. A claim, no more */
    /* What decoding gives at most. Of a complete frame: the sum over its blocks (raw and RLE blocks
     * exactly, compressed ones min(window, 128 KiB)), or content_size where that is smaller. Before
     * that: content_size if stated, else the sum over the blocks so far. A destination of this
     * size is enough for every valid frame, and a claim alone never makes it large. */
    uint64_t bound;
    uint64_t window_size; /* what a streaming decoder must keep; content_size in "single segment" */
    uint32_t dict_id;     /* 0: not stated */
    bool has_checksum;
    bool skippable; /* then content_size, bound and window_size are 0 */
};

enum hr__walk_result {
    HR__WALK_MORE,  /* all bytes taken, the frame goes on (or none has begun) */
    HR__WALK_FRAME, /* walk.frame is complete; feed the rest of the bytes again */
    HR__WALK_ERROR  /* walk.error and walk.error_offset tell; final */
};

/* With the meaning of error_offset, always absolute in the stream. */
enum hr__walk_error {
    HR__WALK_OK = 0,
    HR__WALK_NOT_ZSTD,  /* does not begin with a frame; 0 */
    HR__WALK_NO_FRAME,  /* ended before 4 bytes; 0 */
    HR__WALK_TRAILING,  /* bytes after the last frame that begin no other; the first of them */
    HR__WALK_TRUNCATED, /* ended inside of walk.frame; the end of the input */
    HR__WALK_RESERVED,  /* reserved bit or block type, or oversized block; the header it is in */
    HR__WALK_WINDOW     /* walk.frame.window_size is over the limit; the frame */
};

/* The state of a walk over a stream. The first group is for reading, the second is private. */
struct hr__walk {
    struct hr__frame frame; /* the current one; after HR__WALK_FRAME valid until the next feed */
    uint64_t n_frames;      /* complete ones, skippable ones too */
    uint64_t offset;        /* bytes taken so far */
    enum hr__walk_error error;
    uint64_t error_offset;

    uint64_t max_window;
    uint64_t skip;      /* bytes of a body still to pass over */
    uint64_t block_sum; /* sum of the bounds of the blocks so far */
    int state;
    unsigned have; /* bytes gathered in field[] */
    unsigned need;
    bool header_known;
    bool last_block;
    uint8_t field[16]; /* a header that may lie across feeds; the longest has 14 bytes */
};

/* Begins at the first byte of a stream. Frames with a window over max_window bytes are refused. */
void hr__walk_init(struct hr__walk *w, uint64_t max_window);

/* Walks over size bytes at most, to the end of a frame; *used is how many were taken (on an error
 * it carries no meaning). Any split of the stream gives the same frames and errors; the cost is per
 * block, not per byte. Legacy formats (before 0.8) are no frames. data may be NULL if size is 0. */
HR__MUST_USE enum hr__walk_result hr__walk_feed(struct hr__walk *w, const void *data, size_t size,
                                                size_t *used);

/* True once the header of the current frame is parsed, so that a frame too large to be gathered can
 * be streamed before it is complete. */
bool hr__walk_header_known(const struct hr__walk *w);

/* The verdict at the end of the input, also left in w->error. One to three bytes after a frame are
 * TRUNCATED if a frame could begin so, else TRAILING. A stream of skippable frames only is OK. */
HR__MUST_USE enum hr__walk_error hr__walk_finish(struct hr__walk *w);

/* ---- Decoding and encoding ------------------------------------------------------------------ */

enum hr__codec_code {
    HR__CODEC_OK = 0,
    HR__CODEC_CORRUPT,     /* damaged, or cut short, or not the size that it states */
    HR__CODEC_CHECKSUM,    /* decoded, but the checksum does not match, or is cut off */
    HR__CODEC_DICT_NEEDED, /* made with a dictionary, none was given */
    HR__CODEC_DICT_WRONG,  /* made with another dictionary; or the one given is damaged */
    HR__CODEC_WINDOW,      /* window over the limit, or a limit that libzstd does not know */
    HR__CODEC_MEMORY,
    HR__CODEC_SIZE_MISMATCH, /* more bytes than the destination holds, or than the frame states */
    HR__CODEC_FAILED         /* anything else; the text tells */
};

struct hr__codec_error {
    enum hr__codec_code code;
    const char *text; /* libzstd's own words, static */
};

/* Functions below that can fail return the code and, if err is not NULL, fill it.
 *
 * A dictionary is copied. One without the magic number of zstd dictionaries is used raw, as a piece
 * of text that came before; frames made so do not state an id, so a wrong one shows as CORRUPT or
 * CHECKSUM. dict_size 0 means none. */

struct hr__decoder;

/* window_log: streaming refuses frames with a window over 1 << window_log (10 to 31). */
HR__MUST_USE enum hr__codec_code hr__decoder_create(struct hr__decoder **out, const void *dict,
                                                    size_t dict_size, unsigned window_log,
                                                    struct hr__codec_error *err);
void hr__decoder_free(struct hr__decoder *d); /* d may be NULL */

/* Decodes the whole frames of src (one or more, skippable ones give nothing) into dst. *produced is
 * set on success only; after a failure dst holds anything. It needs no window, so the limit is the
 * caller's to check (the walk does). Allocates nothing. Drops a stream that was under way. */
HR__MUST_USE enum hr__codec_code hr__decoder_frame(struct hr__decoder *d, const void *src,
                                                   size_t size, void *dst, size_t cap,
                                                   size_t *produced, struct hr__codec_error *err);

enum hr__step {
    HR__STEP_FRAME_DONE,  /* decoded, checksum and stated size verified; the next step begins the
                             next frame */
    HR__STEP_NEED_INPUT,  /* all of src taken, nothing held back */
    HR__STEP_OUTPUT_FULL, /* dst is full; there may be more even if all of src is taken */
    HR__STEP_ERROR        /* call hr__decoder_reset before anything else */
};

struct hr__step_io {
    const void *src;
    size_t size;
    size_t used; /* out */
    void *dst;
    size_t cap;
    size_t produced; /* out */
};

/* Decodes on from where the last step ended, at most to the end of a frame. The input ended inside
 * of a frame if the last step was not FRAME_DONE: the walk reports that. Allocates when a frame
 * needs a longer window than those before. */
HR__MUST_USE enum hr__step hr__decoder_step(struct hr__decoder *d, struct hr__step_io *io,
                                            struct hr__codec_error *err);

/* Forgets the frame under way; dictionary, limit and memory stay. */
void hr__decoder_reset(struct hr__decoder *d);

struct hr__encoder;

/* level: as libzstd counts them; values outside of its range are taken as the nearest inside. */
HR__MUST_USE enum hr__codec_code hr__encoder_create(struct hr__encoder **out, int level,
                                                    const void *dict, size_t dict_size,
                                                    struct hr__codec_error *err);
void hr__encoder_free(struct hr__encoder *e); /* e may be NULL */

/* Encodes src as one frame with content size and checksum. *written is set on success only. A cap
 * of hr__encode_bound(size) is always enough, else SIZE_MISMATCH. Allocates at the first frame, and
 * again where sizes change much. */
HR__MUST_USE enum hr__codec_code hr__encoder_frame(struct hr__encoder *e, const void *src,
                                                   size_t size, void *dst, size_t cap,
                                                   size_t *written, struct hr__codec_error *err);

/* Largest size of a frame of size bytes; 0 if there is no such frame (near SIZE_MAX). */
size_t hr__encode_bound(size_t size);

/* ---- Seek tables ----------------------------------------------------------------------------
 *
 * zstd's "seekable format" (contrib/seekable_format, version 0.1.0): a last, skippable frame.
 *
 *     magic 0x184D2A5E   4  \ skippable frame header
 *     length of the rest 4  /
 *     encoded size       4  \
 *     decoded size       4   } once for each frame, from the start of the file
 *     checksum          (4) /  if the descriptor says so
 *     number of frames   4  \
 *     descriptor         1   } footer
 *     magic 0x8F92EAB1   4  /
 */

#define HR__SEEK_FOOTER_SIZE 9u
#define HR__SEEK_MAX_FRAMES 0x8000000u /* zstd_seekable.h: ZSTD_SEEKABLE_MAXFRAMES */

enum hr__seek_result {
    HR__SEEK_OK = 0,
    HR__SEEK_NONE,    /* no seek table here: a plain file */
    HR__SEEK_INVALID, /* a table that does not fit the file: read it as a plain one */
    HR__SEEK_LIMIT,   /* more frames, or larger ones, than the format can note */
    HR__SEEK_MEMORY
};

struct hr__seek_entry {
    uint32_t compressed;
    uint32_t decompressed;
};

/* The table of a file being written; all zero at first. */
struct hr__seek_table {
    struct hr__seek_entry *entries;
    size_t n_entries;
    size_t capacity;
};

/* Room for n frames in all, so that noting them allocates nothing. */
HR__MUST_USE enum hr__seek_result hr__seek_table_reserve(struct hr__seek_table *t, size_t n);
/* Notes the next frame. After a failure the table is as before. */
HR__MUST_USE enum hr__seek_result hr__seek_table_add(struct hr__seek_table *t, uint64_t compressed,
                                                     uint64_t decompressed);
/* Bytes that hr__seek_table_write() fills. */
size_t hr__seek_table_size(const struct hr__seek_table *t);
void hr__seek_table_write(const struct hr__seek_table *t, void *dst);
void hr__seek_table_free(struct hr__seek_table *t); /* leaves it all zero */

/* The table of a file being read. Frame i lies at [in_offset[i], in_offset[i + 1]) of the file and
 * gives [out_offset[i], out_offset[i + 1]) of the decoded bytes. */
struct hr__seek_index {
    size_t n_frames;
    uint64_t *in_offset;  /* n_frames + 1 */
    uint64_t *out_offset; /* n_frames + 1; the last is the decoded size of the file, as claimed */
};

/* First step: from the last HR__SEEK_FOOTER_SIZE bytes of a file (which has that many) to the size
 * of the table, which ends the file and is known to fit into it. Fails: NONE, INVALID. */
HR__MUST_USE enum hr__seek_result hr__seek_footer(const void *footer, uint64_t file_size,
                                                  uint64_t *table_size);

/* Second step: the last size bytes of the file, size being what the first step told. All is checked
 * against the file before anything is allocated; the frames must cover the file from its start to
 * the table (so the table left at the end of two joined files is refused). Checksums in it are
 * passed over: frames carry their own. Fails: NONE, INVALID, MEMORY; then out is untouched.
 * Owns: out, free it with hr__seek_index_free(). */
HR__MUST_USE enum hr__seek_result hr__seek_index_parse(struct hr__seek_index *out,
                                                       const void *table, size_t size,
                                                       uint64_t file_size);
void hr__seek_index_free(struct hr__seek_index *index); /* leaves it all zero */

/* The frame that gives decoded byte `offset`, or n_frames if it lies past the end. */
size_t hr__seek_index_find(const struct hr__seek_index *index, uint64_t offset);

/* ---- Shared by the files of this directory -------------------------------------------------- */

/* A little-endian number of n bytes, 0 to 8. */
static inline uint64_t hr__load_le(const uint8_t *p, unsigned n)
{
    uint64_t value = 0;
    while (n-- > 0)
        value = value << 8 | p[n];
    return value;
}

#endif
