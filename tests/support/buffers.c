// SPDX-License-Identifier: Apache-2.0
#include "buffers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

unsigned char *buffer_room(struct buffer *b, size_t size)
{
    if (b->size + size > b->room) {
        b->room = 2 * (b->size + size);
        b->data = realloc(b->data, b->room);
        if (!b->data) {
            printf("not ok the test itself: no memory\n");
            abort();
        }
    }
    return b->data + b->size;
}

void buffer_add(struct buffer *b, const void *bytes, size_t size)
{
    if (size == 0)
        return;
    memcpy(buffer_room(b, size), bytes, size);
    b->size += size;
}

void buffer_add_le(struct buffer *b, uint64_t value, unsigned n_bytes)
{
    for (unsigned i = 0; i < n_bytes; i++)
        buffer_add(b, &(unsigned char){(unsigned char)(value >> 8 * i)}, 1);
}

void buffer_free(struct buffer *b)
{
    free(b->data);
    *b = (struct buffer){0};
}

bool begins(const struct buffer *a, const struct buffer *b)
{
    return a->size <= b->size && (a->size == 0 || memcmp(a->data, b->data, a->size) == 0);
}

bool same_bytes(const struct buffer *a, const struct buffer *b)
{
    return a->size == b->size && begins(a, b);
}

void add_frame_by_hand(struct buffer *packed, const void *header, size_t size)
{
    buffer_add_le(packed, 0xFD2FB528u, 4); /* RFC 8878, 3.1.1 */
    buffer_add(packed, header, size);
    buffer_add_le(packed, 5 << 3 | 1, 3); /* 3.1.1.2: a last, raw block of 5 bytes */
    buffer_add(packed, "hello", 5);
}
