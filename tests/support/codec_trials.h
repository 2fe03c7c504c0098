// SPDX-License-Identifier: Apache-2.0
/* For the tests of decode and encode through the public header: streams of zstd frames with what
 * they decode to, made by libzstd, and one transfer of them from any kind of source to a callback
 * that gathers what it gets. A transfer that does not end in time is cancelled and marked. */
#ifndef HR_TEST_CODEC_TRIALS_H
#define HR_TEST_CODEC_TRIALS_H

#include <headrace.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buffers.h"

/* Half text-like, half noise, another for each seed. */
void add_sample(struct buffer *b, size_t size, unsigned seed);

struct frames {
    struct buffer packed;
    struct buffer plain; /* what it decodes to */
};

enum frame_kind {
    FRAME_USUAL, /* content size and checksum */
    FRAME_BARE,  /* content size, no checksum */
    FRAME_PIPED, /* no content size, flushed now and then: blocks of odd sizes */
    FRAME_NOISE, /* nothing to compress */
    FRAME_ZEROS, /* nothing but */
    FRAME_SKIPPABLE,
    N_FRAME_KINDS
};

/* One frame of `size` bytes, which depend on what is there before. */
void add_frame(struct frames *f, enum frame_kind kind, size_t size);
void add_skippable(struct frames *f, unsigned variant, size_t size);
/* A seek table at the end of a file of so many frames. */
void add_seek_table(struct buffer *packed, const uint32_t (*entries)[2], uint32_t n,
                    uint32_t n_said, unsigned descriptor);
/* Some of each kind, up to `most` bytes a frame. */
void add_mixture(struct frames *f, size_t most);
void frames_free(struct frames *f);

enum feed { FEED_MEMORY, FEED_FILE, FEED_CALLBACK, FEED_PIPE, N_FEEDS };

struct trial {
    enum feed feed;
    size_t step; /* pipe, callback: bytes at once; 0: as many as go */
    uint64_t chunk_size;
    uint32_t depth;
    uint32_t decode; /* enum hr_codec */
    uint32_t encode;
    int32_t level;
    uint64_t frame_size;
    uint32_t window_log;
    uint32_t flags; /* enum hr_pipeline_flag */
    const struct buffer *dict;
    const char *kernel; /* built-in, on the host; NULL: none */
    bool range;
    uint64_t offset;
    uint64_t length;
    unsigned cancel_after_us; /* 0: it is not */

    /* filled in */
    hr_status status;
    bool hung;
    hr_error error;
    struct hr_stats stats;
    struct buffer got;
};

/* Runs it on the loop; t->got is emptied first and the caller's to free. */
void run_trial(hr_loop *loop, struct trial *t, const struct buffer *in);
/* Runs the loop until the pipeline has ended, or 20 s: then it is cancelled, and *hung set. */
hr_status run_in_time(hr_loop *loop, hr_pipeline *pipeline, bool *hung, hr_error *error);
/* The sink of trials, for other transfers: user is a struct buffer. */
int64_t gather(void *user, const void *bytes, size_t size, uint64_t offset);
/* Runs the config with that sink, in time (else HR_ETIMEDOUT); *got is emptied first and the
 * caller's to free. */
hr_status run_gathering(hr_loop *loop, const struct hr_pipeline_config *config, struct buffer *got,
                        hr_error *error);

/* A callback source that fails behind its last byte. */
struct failing {
    const struct buffer *in;
    size_t good;      /* bytes that it gives */
    unsigned wait_us; /* before it fails */
};
/* Its read; it fails with EREMOTEIO. */
int64_t give_and_fail(void *user, void *bytes, size_t size, uint64_t offset);

#endif
