// SPDX-License-Identifier: Apache-2.0
/* What the tests of decode share beyond codec_suite.h: every way that bytes can come, in chunks of
 * every size. Included by a test file once. */
#ifndef HR_TEST_DECODE_SUITE_H
#define HR_TEST_DECODE_SUITE_H

#include "codec_suite.h"

static const size_t chunks[] = {1, 7, 4096, 65537, 1 << 20};
static const uint32_t depths[] = {1, 2, 8};
enum { N_CHUNKS = sizeof chunks / sizeof chunks[0], N_DEPTHS = sizeof depths / sizeof depths[0] };

/* Each way that bytes can come; the last ones, of tiny pieces, take long for a long stream. */
static const struct {
    enum feed feed;
    size_t step;
} feeds[] = {{FEED_MEMORY, 0},   {FEED_FILE, 0}, {FEED_CALLBACK, 0}, {FEED_PIPE, 4097},
             {FEED_CALLBACK, 7}, {FEED_PIPE, 1}, {FEED_PIPE, 7}};
enum { N_WAYS = sizeof feeds / sizeof feeds[0], N_QUICK_WAYS = N_WAYS - 3 };

static inline struct trial trial_of(unsigned way, size_t chunk, uint32_t depth)
{
    return (struct trial){.feed = feeds[way].feed,
                          .step = feeds[way].step,
                          .chunk_size = chunk,
                          .depth = depth,
                          .decode = HR_CODEC_ZSTD};
}

/* One frame that is streamed or decoded at once, as the chunk size makes it, from a source that
 * changes with i. */
static inline struct trial varied(unsigned i)
{
    return trial_of(i % 3, i / 3 % 2 ? 16384 : 1 << 20, 4);
}

#endif
