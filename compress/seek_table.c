// SPDX-License-Identifier: Apache-2.0
/* The table at the end of a seekable zstd file: written from a growing list, read with nothing
 * taken on trust. Fields have 32 bits; every sum and product here has 64, and none can overflow: at
 * most 2^32 entries of 2^32 bytes. */
#include "codec.h"

#include <stdlib.h>

#define SKIPPABLE_MAGIC 0x184D2A5Eu
#define SEEKABLE_MAGIC 0x8F92EAB1u
#define HEADER_SIZE 8u
#define DESCRIPTOR_CHECKSUM 0x80u
#define DESCRIPTOR_RESERVED 0x7Cu /* must be 0; the two bits below are free */
#define FRAME_MIN 9u              /* magic, two bytes of header, a block header */

static uint8_t *store_le32(uint8_t *p, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        *p++ = (uint8_t)(value >> 8 * i);
    return p;
}

enum hr__seek_result hr__seek_table_reserve(struct hr__seek_table *t, size_t n)
{
    if (n <= t->capacity)
        return HR__SEEK_OK;
    if (n > HR__SEEK_MAX_FRAMES)
        return HR__SEEK_LIMIT;
    struct hr__seek_entry *entries = realloc(t->entries, n * sizeof *entries);
    if (!entries)
        return HR__SEEK_MEMORY;
    t->entries = entries;
    t->capacity = n;
    return HR__SEEK_OK;
}

static enum hr__seek_result grow(struct hr__seek_table *t)
{
    const size_t most = HR__SEEK_MAX_FRAMES;
    const size_t wanted = t->capacity ? 2 * t->capacity : 64;
    return hr__seek_table_reserve(t, wanted < most ? wanted : most);
}

enum hr__seek_result hr__seek_table_add(struct hr__seek_table *t, uint64_t compressed,
                                        uint64_t decompressed)
{
    if (compressed > UINT32_MAX || decompressed > UINT32_MAX || t->n_entries >= HR__SEEK_MAX_FRAMES)
        return HR__SEEK_LIMIT;
    if (t->n_entries == t->capacity && grow(t))
        return HR__SEEK_MEMORY;
    t->entries[t->n_entries++] = (struct hr__seek_entry){
        .compressed = (uint32_t)compressed,
        .decompressed = (uint32_t)decompressed,
    };
    return HR__SEEK_OK;
}

size_t hr__seek_table_size(const struct hr__seek_table *t)
{
    return HEADER_SIZE + t->n_entries * 8 + HR__SEEK_FOOTER_SIZE;
}

void hr__seek_table_write(const struct hr__seek_table *t, void *dst)
{
    uint8_t *p = store_le32(dst, SKIPPABLE_MAGIC);
    p = store_le32(p, (uint32_t)(hr__seek_table_size(t) - HEADER_SIZE));
    for (size_t i = 0; i < t->n_entries; i++) {
        p = store_le32(p, t->entries[i].compressed);
        p = store_le32(p, t->entries[i].decompressed);
    }
    p = store_le32(p, (uint32_t)t->n_entries);
    *p++ = 0; /* descriptor: no checksums, frames carry their own */
    store_le32(p, SEEKABLE_MAGIC);
}

void hr__seek_table_free(struct hr__seek_table *t)
{
    free(t->entries);
    *t = (struct hr__seek_table){0};
}

static unsigned entry_size(const uint8_t *footer)
{
    return footer[4] & DESCRIPTOR_CHECKSUM ? 12 : 8;
}

enum hr__seek_result hr__seek_footer(const void *footer, uint64_t file_size, uint64_t *table_size)
{
    const uint8_t *p = footer;
    if (hr__load_le(p + 5, 4) != SEEKABLE_MAGIC)
        return HR__SEEK_NONE;
    uint64_t size = HEADER_SIZE + hr__load_le(p, 4) * entry_size(p) + HR__SEEK_FOOTER_SIZE;
    if (p[4] & DESCRIPTOR_RESERVED || size > file_size || size - HEADER_SIZE > UINT32_MAX)
        return HR__SEEK_INVALID;
    *table_size = size;
    return HR__SEEK_OK;
}

/* Whether the frames that the entries claim cover `covered` bytes exactly. */
static bool entries_fit(const uint8_t *entry, size_t n, unsigned stride, uint64_t covered)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++, entry += stride) {
        uint64_t compressed = hr__load_le(entry, 4);
        if (compressed < FRAME_MIN && hr__load_le(entry + 4, 4) > 0)
            return false;
        sum += compressed;
    }
    return sum == covered;
}

static void fill_offsets(struct hr__seek_index *index, const uint8_t *entry, unsigned stride)
{
    uint64_t in = 0;
    uint64_t out = 0;
    for (size_t i = 0; i < index->n_frames; i++, entry += stride) {
        index->in_offset[i] = in;
        index->out_offset[i] = out;
        in += hr__load_le(entry, 4);
        out += hr__load_le(entry + 4, 4);
    }
    index->in_offset[index->n_frames] = in;
    index->out_offset[index->n_frames] = out;
}

enum hr__seek_result hr__seek_index_parse(struct hr__seek_index *out, const void *table,
                                          size_t size, uint64_t file_size)
{
    const uint8_t *p = table;
    if (size < HEADER_SIZE + HR__SEEK_FOOTER_SIZE)
        return HR__SEEK_INVALID;
    const uint8_t *footer = p + size - HR__SEEK_FOOTER_SIZE;
    uint64_t table_size = 0;
    enum hr__seek_result result = hr__seek_footer(footer, file_size, &table_size);
    if (result)
        return result;

    const uint8_t *entries = p + HEADER_SIZE;
    unsigned stride = entry_size(footer);
    struct hr__seek_index index = {.n_frames = (size_t)hr__load_le(footer, 4)};
    if (table_size != size || hr__load_le(p, 4) != SKIPPABLE_MAGIC ||
        hr__load_le(p + 4, 4) != size - HEADER_SIZE ||
        !entries_fit(entries, index.n_frames, stride, file_size - size))
        return HR__SEEK_INVALID;

    index.in_offset = calloc(index.n_frames + 1, sizeof *index.in_offset);
    index.out_offset = calloc(index.n_frames + 1, sizeof *index.out_offset);
    if (!index.in_offset || !index.out_offset) {
        hr__seek_index_free(&index);
        return HR__SEEK_MEMORY;
    }
    fill_offsets(&index, entries, stride);
    *out = index;
    return HR__SEEK_OK;
}

void hr__seek_index_free(struct hr__seek_index *index)
{
    free(index->in_offset);
    free(index->out_offset);
    *index = (struct hr__seek_index){0};
}

size_t hr__seek_index_find(const struct hr__seek_index *index, uint64_t offset)
{
    size_t low = 0; /* frames below end at or before offset */
    size_t high = index->n_frames;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (index->out_offset[middle + 1] <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
