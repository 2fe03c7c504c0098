// SPDX-License-Identifier: Apache-2.0
/* The walk over frames: every split, hostile headers, bounds. */
#include "codec.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "zstd_inputs.h"

Test(frame_walk, walk_gives_the_same_for_every_split)
{
    struct buffer b = mixture();
    struct walked whole = walk_all(&b);
    cr_assert_eq(whole.error, HR__WALK_OK);
    cr_assert_eq(whole.n, 7);
    static const size_t steps[] = {1, 2, 3, 5, 7, 13, 64, 4095, 4096, 4097, 100000};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        struct walked r = walk(b.data, b.size, steps[i], MAX_WINDOW);
        assert_same_walk(&whole, &r);
    }
    free(b.data);
    assert_no_leak();
}

Test(frame_walk, walk_gives_the_same_for_one_cut_at_every_byte)
{
    struct buffer b = {0};
    struct buffer small = sample(300);
    append_frame(&b, &small);
    append_skippable(&b, 7, 9);
    append_piped_frame(&b, &small);
    struct walked whole = walk_all(&b);
    for (size_t cut = 0; cut <= b.size; cut++) {
        struct hr__walk w;
        size_t used = 0;
        size_t n = 0;
        hr__walk_init(&w, MAX_WINDOW);
        for (size_t at = 0; at < b.size; at += used) {
            size_t end = at < cut ? cut : b.size;
            n += hr__walk_feed(&w, b.data + at, end - at, &used) == HR__WALK_FRAME;
        }
        cr_assert_eq(n, whole.n);
        cr_assert_eq(hr__walk_finish(&w), HR__WALK_OK);
    }
    free(small.data);
    free(b.data);
    assert_no_leak();
}

Test(frame_walk, ten_thousand_tiny_frames_are_all_found)
{
    struct buffer b = {0};
    for (int i = 0; i < 10000; i++)
        add_frame_by_hand(&b, "\x00\x00", 2);
    struct hr__walk w;
    hr__walk_init(&w, MAX_WINDOW);
    size_t used = 0;
    for (size_t at = 0; at < b.size; at += used) {
        cr_assert_eq(hr__walk_feed(&w, b.data + at, b.size - at, &used), HR__WALK_FRAME);
        cr_assert_eq(w.frame.in_size, 14);
        cr_assert_eq(w.frame.bound, 5);
    }
    cr_assert_eq(hr__walk_finish(&w), HR__WALK_OK);
    cr_assert_eq(w.n_frames, 10000);
    free(b.data);
    assert_no_leak();
}

Test(frame_walk, all_sixteen_skippable_magics_are_passed_over)
{
    struct buffer b = {0};
    struct buffer small = sample(100);
    for (unsigned i = 0; i < 16; i++) {
        append_skippable(&b, i, i % 5);
        append_frame(&b, &small);
    }
    struct walked r = walk_all(&b);
    cr_assert_eq(r.n, 32);
    for (size_t i = 0; i < 32; i++)
        cr_assert_eq(r.frames[i].skippable, i % 2 == 0);
    struct buffer all = decode_frames(&b);
    cr_assert_eq(all.size, 1600);
    free(all.data);
    free(small.data);
    free(b.data);
    assert_no_leak();
}

Test(frame_walk, a_skippable_frame_of_four_gigabytes_is_walked)
{
    struct hr__walk w;
    hr__walk_init(&w, MAX_WINDOW);
    struct buffer b = {0};
    buffer_add_le(&b, 0x184D2A53u, 4);
    buffer_add_le(&b, UINT32_MAX, 4);
    size_t used;
    cr_assert_eq(hr__walk_feed(&w, b.data, b.size, &used), HR__WALK_MORE);
    cr_assert(hr__walk_header_known(&w));
    cr_assert(w.frame.skippable);
    const size_t piece = 1 << 24;
    uint8_t *zeros = calloc(1, piece);
    enum hr__walk_result result = HR__WALK_MORE;
    for (uint64_t left = UINT32_MAX; left > 0; left -= used)
        result = hr__walk_feed(&w, zeros, left < piece ? (size_t)left : piece, &used);
    cr_assert_eq(result, HR__WALK_FRAME);
    cr_assert_eq(w.frame.in_size, (uint64_t)UINT32_MAX + 8);
    cr_assert_eq(hr__walk_finish(&w), HR__WALK_OK);
    free(zeros);
    free(b.data);
    assert_no_leak();
}

Test(frame_walk, header_is_known_before_the_frame_is_complete)
{
    struct buffer large = sample(300000);
    struct buffer b = {0};
    append_frame(&b, &large);
    struct hr__walk w;
    size_t used;
    hr__walk_init(&w, MAX_WINDOW);
    cr_assert_eq(hr__walk_feed(&w, b.data, 4, &used), HR__WALK_MORE);
    cr_assert(!hr__walk_header_known(&w));
    cr_assert_eq(hr__walk_feed(&w, b.data + 4, 20, &used), HR__WALK_MORE);
    cr_assert(hr__walk_header_known(&w));
    cr_assert_eq(w.frame.content_size, 300000);
    cr_assert_eq(w.frame.bound, 300000);
    cr_assert(w.frame.has_checksum);
    free(large.data);
    free(b.data);
    assert_no_leak();
}

Test(frame_walk, bound_of_unknown_size_is_never_below_the_real_size)
{
    static const size_t sizes[] = {0, 1, 1023, 1024, 131071, 131072, 131073, 1000000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct buffer content = sample(sizes[i]);
        struct buffer b = {0};
        append_piped_frame(&b, &content);
        struct walked r = walk_all(&b);
        cr_assert_eq(r.n, 1);
        cr_assert(r.frames[0].content_size == HR__SIZE_UNKNOWN || sizes[i] < 30000);
        cr_assert_geq(r.frames[0].bound, sizes[i]);
        struct buffer all = decode_frames(&b);
        assert_same_bytes(&all, &content);
        free(all.data);
        free(b.data);
        free(content.data);
    }
    assert_no_leak();
}

Test(frame_walk, bytes_after_the_last_frame_are_told_with_their_place)
{
    static const size_t sizes[] = {1, 3, 4, 512};
    for (size_t i = 0; i < 8; i++) {
        struct buffer b = {0};
        add_frame_by_hand(&b, "\x00\x00", 2);
        uint8_t tail[512];
        memset(tail, i < 4 ? 0 : 'x', sizeof tail);
        buffer_add(&b, tail, sizes[i % 4]);
        struct walked whole = walk_all(&b);
        struct walked bytewise = walk(b.data, b.size, 1, MAX_WINDOW);
        cr_assert_eq(whole.error, HR__WALK_TRAILING);
        cr_assert_eq(whole.error_offset, 14);
        assert_same_walk(&whole, &bytewise);
        free(b.data);
    }
    struct walked cut =
        walk("\x28\xB5\x2F\xFD\x00\x00\x01\x00\x00\x5A\x2A", 11, SIZE_MAX, MAX_WINDOW);
    cr_assert_eq(cut.error, HR__WALK_TRUNCATED);
    assert_no_leak();
}

Test(frame_walk, no_frame_and_not_zstd_are_told_apart)
{
    cr_assert_eq(walk("", 0, 1, MAX_WINDOW).error, HR__WALK_NO_FRAME);
    cr_assert_eq(walk("abc", 3, 1, MAX_WINDOW).error, HR__WALK_NO_FRAME);
    cr_assert_eq(walk("\x28\xB5\x2F", 3, 3, MAX_WINDOW).error, HR__WALK_NO_FRAME);
    cr_assert_eq(walk("plain text", 10, 1, MAX_WINDOW).error, HR__WALK_NOT_ZSTD);
    cr_assert_eq(walk("plain text", 10, 10, MAX_WINDOW).error_offset, 0);
    /* zstd 0.7 */
    cr_assert_eq(walk("\x27\xB5\x2F\xFD\x00\x00\x01\x00\x00", 9, 9, MAX_WINDOW).error,
                 HR__WALK_NOT_ZSTD);
}

Test(frame_walk, reserved_bits_and_oversized_blocks_are_refused_where_they_stand)
{
    struct walked bit = walk("\x28\xB5\x2F\xFD\x08\x00\x01\x00\x00", 9, 1, MAX_WINDOW);
    cr_assert_eq(bit.error, HR__WALK_RESERVED);
    cr_assert_eq(bit.error_offset, 4);
    struct walked type = walk("\x28\xB5\x2F\xFD\x00\x00\x07\x00\x00", 9, 1, MAX_WINDOW);
    cr_assert_eq(type.error, HR__WALK_RESERVED);
    cr_assert_eq(type.error_offset, 6);
    /* An RLE block of 1025 bytes in a window of 1024. */
    struct walked size = walk("\x28\xB5\x2F\xFD\x00\x00\x0B\x20\x00z", 10, 1, MAX_WINDOW);
    cr_assert_eq(size.error, HR__WALK_RESERVED);
    struct walked fits = walk("\x28\xB5\x2F\xFD\x00\x00\x03\x20\x00z", 10, 1, MAX_WINDOW);
    cr_assert_eq(fits.error, HR__WALK_OK);
    cr_assert_eq(fits.frames[0].bound, 1024);
    /* The unused bit of the descriptor is to be ignored. */
    cr_assert_eq(walk("\x28\xB5\x2F\xFD\x10\x00\x01\x00\x00", 9, 1, MAX_WINDOW).error, HR__WALK_OK);
}

Test(frame_walk, files_of_the_parallel_compressor_are_walked)
{
    /* pzstd puts a skippable frame of 4 bytes, the size of the next frame, before each frame. */
    struct buffer content = sample(50000);
    struct buffer b = {0};
    for (int i = 0; i < 5; i++) {
        struct buffer frame = {0};
        append_frame(&frame, &content);
        buffer_add_le(&b, 0x184D2A50u, 4);
        buffer_add_le(&b, 4, 4);
        buffer_add_le(&b, frame.size, 4);
        buffer_add(&b, frame.data, frame.size);
        free(frame.data);
    }
    struct buffer all = decode_frames(&b);
    cr_assert_eq(all.size, 250000);
    free(all.data);
    free(content.data);
    free(b.data);
    assert_no_leak();
}

/* ---- Seek tables ---- */
