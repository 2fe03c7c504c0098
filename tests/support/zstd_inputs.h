// SPDX-License-Identifier: Apache-2.0
/* Inputs of the tests of compress/: frames made by libzstd, beside those by hand of buffers.h (a
 * frame of raw blocks is a magic number, two bytes of header and three bytes before each block),
 * and the walks and decodes that the tests compare. Whoever gets a struct buffer frees its data. */
#ifndef HR_ZSTD_INPUTS_H
#define HR_ZSTD_INPUTS_H

#include <stddef.h>
#include <stdint.h>

#include "buffers.h"
#include "codec.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
/* A leak alone does not fail a Criterion test, so that the last line of a body asks for it. */
#define assert_no_leak() cr_assert_eq(__lsan_do_recoverable_leak_check(), 0)
#else
#define assert_no_leak() ((void)0)
#endif

#define MAX_WINDOW ((uint64_t)1 << 27)
#define WINDOW_LOG 27

struct walked {
    struct hr__frame frames[64];
    size_t n;
    enum hr__walk_error error;
    uint64_t error_offset;
    uint64_t window;
};

/* Half text-like, half noise, the same for the same size. */
struct buffer sample(size_t size);

void append_frame(struct buffer *b, const struct buffer *content);
/* As from a pipe: no content size; flushed now and then, so blocks have odd sizes. */
void append_piped_frame(struct buffer *b, const struct buffer *content);

void append_skippable(struct buffer *b, unsigned variant, size_t size);

struct walked walk(const void *data, size_t size, size_t step, uint64_t max_window);
struct walked walk_all(const struct buffer *b);
void assert_same_walk(const struct walked *a, const struct walked *b);
struct hr__decoder *decoder(const struct buffer *dict);
/* Decodes each frame into a destination of exactly its bound, which must always be enough. */
struct buffer decode_frames(const struct buffer *b);

/* Streams b through with the given step sizes; *last is the last step's result. */
struct buffer stream(const struct buffer *b, size_t in_step, size_t out_step,
                     const struct buffer *dict, enum hr__step *last, struct hr__codec_error *err);

void assert_same_bytes(const struct buffer *a, const struct buffer *b);
/* One of everything: known and unknown size, empty, skippable, with and without checksum. */
struct buffer mixture(void);

#endif
