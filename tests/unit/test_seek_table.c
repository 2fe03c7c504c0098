// SPDX-License-Identifier: Apache-2.0
/* Seek tables, written, read, and lying. */
#include "codec.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "zstd_inputs.h"

static enum hr__seek_result read_index(struct hr__seek_index *index, const struct buffer *file)
{
    uint64_t size = 0;
    enum hr__seek_result result =
        hr__seek_footer(file->data + file->size - HR__SEEK_FOOTER_SIZE, file->size, &size);
    if (result)
        return result;
    cr_assert_leq(size, file->size);
    return hr__seek_index_parse(index, file->data + file->size - size, (size_t)size, file->size);
}

static void append_table(struct buffer *b, const struct hr__seek_table *t)
{
    size_t size = hr__seek_table_size(t);
    uint8_t *table = malloc(size);
    hr__seek_table_write(t, table);
    buffer_add(b, table, size);
    free(table);
}

/* Frames of 0, 1000, 2000 ... decoded bytes and their table. */
static struct buffer seekable(size_t n)
{
    struct buffer b = {0};
    struct hr__seek_table t = {0};
    for (size_t i = 0; i < n; i++) {
        struct buffer content = sample(i * 1000);
        size_t before = b.size;
        append_frame(&b, &content);
        cr_assert_eq(hr__seek_table_add(&t, b.size - before, content.size), HR__SEEK_OK);
        free(content.data);
    }
    append_table(&b, &t);
    hr__seek_table_free(&t);
    return b;
}

Test(seek_table, a_seek_table_is_read_back_and_is_a_skippable_frame)
{
    struct buffer b = seekable(6);
    struct hr__seek_index index = {0};
    cr_assert_eq(read_index(&index, &b), HR__SEEK_OK);
    struct walked r = walk_all(&b);
    cr_assert_eq(r.error, HR__WALK_OK);
    cr_assert_eq(r.n, 7);
    cr_assert_eq(index.n_frames, 6);
    for (size_t i = 0; i < 6; i++)
        cr_assert_eq(index.in_offset[i], r.frames[i].in_offset);
    cr_assert_eq(index.out_offset[6], 15000);
    cr_assert_eq(hr__seek_index_find(&index, 0), 1); /* frame 0 gives nothing */
    cr_assert_eq(hr__seek_index_find(&index, 999), 1);
    cr_assert_eq(hr__seek_index_find(&index, 1000), 2);
    cr_assert_eq(hr__seek_index_find(&index, 14999), 5);
    cr_assert_eq(hr__seek_index_find(&index, 15000), 6);
    cr_assert_eq(hr__seek_index_find(&index, UINT64_MAX), 6);
    hr__seek_index_free(&index);
    free(b.data);
    assert_no_leak();
}

Test(seek_table, a_seek_table_of_nothing_and_of_many_is_read_back)
{
    struct buffer none = seekable(0);
    struct hr__seek_index index = {0};
    cr_assert_eq(none.size, 17);
    cr_assert_eq(read_index(&index, &none), HR__SEEK_OK);
    cr_assert_eq(index.n_frames, 0);
    cr_assert_eq(hr__seek_index_find(&index, 0), 0);
    hr__seek_index_free(&index);

    struct hr__seek_table t = {0};
    for (int i = 0; i < 100000; i++)
        cr_assert_eq(hr__seek_table_add(&t, UINT32_MAX, UINT32_MAX), HR__SEEK_OK);
    cr_assert_eq(hr__seek_table_add(&t, (uint64_t)1 << 32, 1), HR__SEEK_LIMIT);
    struct buffer b = {0};
    append_table(&b, &t);
    uint64_t file_size = b.size + (uint64_t)UINT32_MAX * 100000;
    cr_assert_eq(hr__seek_index_parse(&index, b.data, b.size, file_size), HR__SEEK_OK);
    cr_assert_eq(hr__seek_index_find(&index, (uint64_t)UINT32_MAX * 70000), 70000);
    hr__seek_index_free(&index);
    hr__seek_table_free(&t);
    free(none.data);
    free(b.data);
    assert_no_leak();
}

Test(seek_table, seek_table_entries_with_checksums_are_accepted)
{
    struct buffer b = {0};
    add_frame_by_hand(&b, "\x00\x00", 2);
    buffer_add_le(&b, 0x184D2A5Eu, 4);
    buffer_add_le(&b, 12 + 9, 4);
    buffer_add_le(&b, 14, 4);
    buffer_add_le(&b, 5, 4);
    buffer_add_le(&b, 0xDEADBEEFu, 4);
    buffer_add_le(&b, 1, 4);
    buffer_add_le(&b, 0x83, 1); /* checksums; the two unused bits set */
    buffer_add_le(&b, 0x8F92EAB1u, 4);
    struct hr__seek_index index = {0};
    cr_assert_eq(read_index(&index, &b), HR__SEEK_OK);
    cr_assert_eq(index.out_offset[1], 5);
    hr__seek_index_free(&index);
    free(b.data);
    assert_no_leak();
}

static void store(struct buffer *b, size_t from_end, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++)
        b->data[b->size - from_end + i] = (uint8_t)(value >> 8 * i);
}

Test(seek_table, seek_tables_that_lie_are_refused)
{
    static const struct {
        size_t from_end; /* of a 4-byte field of a table of 3 frames */
        uint32_t value;
    } lies[] = {
        {9, UINT32_MAX},  {9, 1u << 27}, {9, 4},           {9, 2},           {9, 0},
        {9, 0x20000000u}, {9, 1u << 29}, {33, UINT32_MAX}, {33, 0},          {17, UINT32_MAX},
        {17, 1},          {37, 34},      {37, 0},          {37, 0xFFFFFFFF}, {41, 0x184D2A5Du},
    };
    struct hr__seek_index index = {0};
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        struct buffer b = seekable(3);
        store(&b, lies[i].from_end, lies[i].value);
        cr_assert_eq(read_index(&index, &b), HR__SEEK_INVALID, "lie %zu", i);
        free(b.data);
    }
    for (unsigned bit = 2; bit < 7; bit++) {
        struct buffer b = seekable(3);
        b.data[b.size - 5] = (uint8_t)(1u << bit);
        cr_assert_eq(read_index(&index, &b), HR__SEEK_INVALID);
        free(b.data);
    }
    struct buffer plain = seekable(3);
    plain.data[plain.size - 1] ^= 1;
    cr_assert_eq(read_index(&index, &plain), HR__SEEK_NONE);
    free(plain.data);
    cr_assert_null(index.in_offset);
    assert_no_leak();
}

Test(seek_table, the_seek_table_of_joined_files_is_refused)
{
    struct buffer b = seekable(3);
    struct buffer second = seekable(4);
    buffer_add(&b, second.data, second.size);
    struct hr__seek_index index = {0};
    cr_assert_eq(read_index(&index, &b), HR__SEEK_INVALID);
    cr_assert_eq(walk_all(&b).error, HR__WALK_OK);
    free(second.data);
    free(b.data);
    assert_no_leak();
}
