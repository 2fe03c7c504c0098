// SPDX-License-Identifier: Apache-2.0
/* Bytes that grow, for the inputs and the outputs of tests, and the zstd frames that are written by
 * hand. */
#ifndef HR_TEST_BUFFERS_H
#define HR_TEST_BUFFERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buffer {
    unsigned char *data;
    size_t size;
    size_t room;
};

/* Room for so many bytes more, behind those that are there. */
unsigned char *buffer_room(struct buffer *b, size_t size);
void buffer_add(struct buffer *b, const void *bytes, size_t size);
void buffer_add_le(struct buffer *b, uint64_t value, unsigned n_bytes);
void buffer_free(struct buffer *b);

bool same_bytes(const struct buffer *a, const struct buffer *b);
/* Whether a is how b begins. */
bool begins(const struct buffer *a, const struct buffer *b);

/* Magic, a header by hand, then one last raw block of "hello". */
void add_frame_by_hand(struct buffer *packed, const void *header, size_t size);

#endif
