// SPDX-License-Identifier: Apache-2.0
/* A pipeline: its ends, its lanes, and what each stage remembers. Only the scheduler and its stages
 * change what is said here after creation. */
#ifndef HR_PIPELINE_H
#define HR_PIPELINE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "backend.h"
#include "chain.h"
#include "clock.h"
#include "codec.h"
#include "codecs.h"
#include "file_io.h"
#include "headrace.h"
#include "io.h"
#include "lane.h"
#include "loop.h"
#include "meter.h"
#include "queue.h"
#include "stream_io.h"
#include "trace.h"

/* The shortest read of a ramp, and what the others of it are multiples of: large enough for any
 * alignment that direct I/O wants. */
enum { HR__SHORT_READ = 256 << 10 };

/* A socket that is being connected, or a FIFO of a sink that waits for its reader. */
struct hr__opening {
    hr_pipeline *pipeline;
    bool pending;                    /* it is not open yet */
    bool waiting;                    /* poll is with the I/O engine */
    struct hr__stream_opener opener; /* of a socket */
    struct hr__io_request poll;
};

struct hr__input {
    hr_pipeline *pipeline;
    struct hr_source config;
    char *path;
    struct hr__opening opening;
    struct hr__file file;
    uint64_t origin;   /* byte of the source from which position and end are counted */
    uint64_t position; /* next byte to ask for */
    uint64_t end;      /* UINT64_MAX: where it ends is not known */
    uint64_t skip;     /* bytes still to drop, on what cannot seek */
    bool in_order;     /* a pipe or callback: one read at a time */
    bool readable;     /* a pipe has something, as far as is known */
    bool polling;      /* poll is with the I/O engine */
    bool staged;       /* memory that the device's driver does not know: copied to slots */
    struct hr__io_request poll;
    uint64_t total; /* bytes that will be read; UINT64_MAX: not known */

    /* what is decoded */
    enum hr_codec codec;        /* AUTO: not known before the first bytes */
    uint64_t decoded_skip;      /* decoded bytes still to drop */
    uint64_t decoded_left;      /* decoded bytes still to deliver; UINT64_MAX: all */
    uint64_t decoded_position;  /* decoded byte of the source that comes next */
    struct hr__seek_index seek; /* n_frames 0: none, or not used */
    size_t seek_frame;          /* the frame that the walk is in */
};

/* The first piece of the output that the sink has not got whole. */
struct hr__gap {
    uint64_t number; /* UINT64_MAX: there is none */
    uint64_t offset; /* at the sink */
    uint64_t moved;  /* bytes of it that are there */
};

/* Memory of the device that grows with the stream. */
struct hr__gather {
    char *memory;
    uint64_t size;
    uint64_t capacity;
};

/* Decode: where the walk over frames stands, in blocks. Bytes from the oldest of `run`, `stream`
 * and `frame` on are still needed. */
struct hr__decode_stage {
    struct hr__walk walk;
    struct hr__input *input;  /* that is walked; NULL: none yet */
    uint64_t origin;          /* byte of the encoded source where the walk began */
    bool skipping;            /* the rest of the input is passed over */
    struct hr__extent cursor; /* next byte to walk; size is not used */
    struct hr__extent frame;  /* the frame under way, as far as it was walked */
    bool frame_whole;         /* it is complete, but not yet in a run */

    struct hr__extent run; /* whole frames that wait for a job; size 0: none */
    uint64_t run_offset;   /* in the encoded source */
    uint64_t run_bound;    /* decoded bytes, at most */
    uint64_t run_expected; /* by the seek table */
    uint32_t run_dict_id;
    bool run_verified;

    struct hr__codec_entry *streaming; /* not NULL: the frame is decoded as it comes */
    struct hr__extent stream;          /* walked bytes of it that are not decoded yet */
    bool stream_busy;
    bool stream_full;         /* the decoder holds more than the last span took */
    uint64_t stream_given;    /* decoded bytes of it so far */
    uint64_t stream_expected; /* by the seek table; UINT64_MAX: not known */
    bool frame_streamed;      /* and is done */

    uint64_t budget; /* bytes of all spans together */
    bool ended;
};

/* Encode: the frame that is gathered from several chunks. */
struct hr__encode_stage {
    struct hr__slot *open;
    size_t frame_size;
    uint64_t n_frames;
    struct hr__seek_table table;
    bool ended;
};

/* Where chunks are cut from what was read or decoded. */
struct hr__cut_stage {
    char *carry; /* the begin of a unit whose rest comes next */
    size_t carried;
    struct hr__input *carried_input; /* where it begins, */
    uint64_t carried_offset;         /* in decoded bytes */
    bool carried_verified;           /* all of it */
    uint64_t stream_offset;
    bool ended;
    bool failed; /* by an error that stands in the stream */
};

struct hr_pipeline {
    /* constant after create */
    hr_pipeline *next; /* in the loop's list */
    hr_loop *loop;
    bool owns_loop;
    struct hr__input *inputs;
    unsigned n_inputs;
    struct hr_sink sink;
    char *sink_path; /* NULL: no file */
    size_t chunk_size;
    unsigned depth;
    uint32_t flags;
    enum hr_direct direct;
    enum hr_codec decoding; /* NONE: blocks are cut into chunks as they are */
    enum hr_codec encoding;
    int encode_level;
    unsigned window_log;
    void *dict;
    size_t dict_size;
    struct hr__store *store; /* the context's device; NULL: bytes visit none */
    struct hr__chain *chain; /* NULL: nothing is done on a device */
    bool keeps_on_device;    /* what leaves the chain stays in device memory */
    bool sink_is_pinned;     /* it is memory that the device writes to */
    bool is_direct;          /* the device reads and writes the ends' own memory */
    bool places;             /* the device puts bytes where the sink wants them, known beforehand */
    bool sink_has_places;    /* it may get its bytes in any order */
    bool unordered;          /* pieces reach the sink in any order */
    bool cuts_any;           /* chunks are cut in any order: each is a block, and knows its place */
    bool ramps;              /* the first reads are short */
    uint64_t connect_ns;     /* limits; 0: none */
    uint64_t idle_ns;
    uint64_t max_wait_ns;
    size_t min_fill;

    /* owner thread */
    struct hr__target target;
    struct hr__gather gather; /* of a device sink without memory of its own */
    struct hr__opening sink_opening;
    bool sink_is_peer; /* it will share the first source's connection */
    bool connected;    /* all ends are open */
    struct hr__lane blocks;
    struct hr__lane spans;
    struct hr__lane chunks;
    struct hr__lane frames;
    struct hr__lane *cut_from; /* blocks or spans */
    struct hr__lane *out;      /* chunks or frames */

    unsigned current; /* input that is read */
    bool input_ended;
    uint64_t read_index; /* bytes read so far, of all sources */
    struct hr__decode_stage decode;
    struct hr__cut_stage cut;
    struct hr__encode_stage encode;
    uint64_t write_offset;  /* bytes given to the sink */
    uint64_t written_bytes; /* that it took */
    struct hr__gap gap;     /* among the pieces that were given to it */
    unsigned writing;       /* pieces at the sink */

    unsigned in_flight; /* requests, jobs and chunks on the device, not yet done */
    unsigned n_polling; /* of them: waits for something to read */
    bool marked;        /* something came back since the last pump */
    uint64_t n_pumps;   /* with the one under way */
    bool pinned_now;    /* memory of a slot, by this pump */
    bool committing;
    bool finished;
    hr_status status; /* HR_PENDING until finished */
    bool failed;
    uint64_t fail_number; /* of the piece at which the stream ends, when failed */
    hr_error error;
    struct hr__job commit_job;
    hr_error commit_error;
    struct hr__job room_job; /* gives back the pages of the file that is replaced */

    struct hr__kernel_spec crc_spec;
    bool checks_blocks; /* the null sink's CRC-32 is taken where a block is read */
    char *crc_states;   /* the null sink's: the stream's, then one for each piece */
    uint64_t start_ns;
    uint64_t end_ns;
    uint64_t last_io_ns;  /* since when a peer is waited for that moves no byte; 0: none is */
    uint64_t deadline_ns; /* when the next limit is reached; 0: none */
    struct hr__trace *trace;
    unsigned n_loaned; /* chunks of the pull form */
    bool is_with_user; /* he was lent one, and did not ask for more since then: */
    struct hr__stint user;
    uint64_t leased_bytes; /* before the memory was given back */
    uint64_t unpinned_bytes;
    struct hr__meter meters[HR_STAGE_COUNT];
    uint64_t dropped_bytes;
    uint64_t n_frames_in;
    uint64_t direct_bytes;

    atomic_bool cancelled; /* any thread; relaxed: the eventfd orders it */
};

/* The state of the null sink's CRC-32 of the whole stream. */
void *hr__pipeline_crc(const hr_pipeline *pipeline);
/* Bytes that its lanes have leased at present. */
uint64_t hr__pipeline_leased(const hr_pipeline *pipeline);
/* Of them, that a device's driver refused to pin. */
uint64_t hr__pipeline_unpinned(const hr_pipeline *pipeline);
/* Whether its end was asked for. Thread: any. */
bool hr__pipeline_is_cancelled(const hr_pipeline *pipeline);
/* Closes the sources and gives the memory back: nothing is in flight any more. */
void hr__pipeline_let_go(hr_pipeline *pipeline);

#endif
