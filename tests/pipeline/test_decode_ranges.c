// SPDX-License-Identifier: Apache-2.0
/* Decode by ranges, with and without a seek table that may lie; "auto", which looks at the first
 * bytes; several sources in a row. On both I/O engines, through the public header. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "codec_suite.h"

TestSuite(decode_ranges, .init = make_loops, .fini = free_loops, .timeout = 60);

enum { FRAME = 10007, N_FRAMES = 12, SIZE = FRAME * N_FRAMES };

/* Frames of one size, with the entries of their seek table. */
static struct frames even_frames(uint32_t entries[N_FRAMES][2])
{
    struct frames f = {0};
    for (unsigned i = 0; i < N_FRAMES; i++) {
        const size_t before = f.packed.size;
        add_frame(&f, i % 2 ? FRAME_USUAL : FRAME_PIPED, FRAME);
        entries[i][0] = (uint32_t)(f.packed.size - before);
        entries[i][1] = FRAME;
    }
    return f;
}

static struct frames with_table(void)
{
    uint32_t entries[N_FRAMES][2];
    struct frames f = even_frames(entries);
    add_seek_table(&f.packed, (const uint32_t(*)[2])entries, N_FRAMES, N_FRAMES, 0);
    return f;
}

static struct buffer slice(const struct buffer *b, uint64_t offset, uint64_t length)
{
    const size_t from = offset < b->size ? (size_t)offset : b->size;
    const size_t left = b->size - from;
    return (struct buffer){.data = b->data + from, .size = length < left ? (size_t)length : left};
}

static const struct {
    uint64_t offset, length;
} ranges[] = {{0, 0},          {0, 1},         {0, UINT64_MAX},        {5, UINT64_MAX - 1},
              {FRAME - 1, 2},  {FRAME, FRAME}, {FRAME, FRAME - 1},     {3 * FRAME + 17, 4 * FRAME},
              {SIZE - 1, 100}, {SIZE, 100},    {SIZE + 1, UINT64_MAX}, {UINT64_MAX, UINT64_MAX},
              {7 * FRAME, 0}};
enum { N_RANGES = sizeof ranges / sizeof ranges[0] };

static struct trial range_of(enum feed feed, size_t chunk, uint64_t offset, uint64_t length)
{
    return (struct trial){.feed = feed,
                          .chunk_size = chunk,
                          .depth = 3,
                          .decode = HR_CODEC_ZSTD,
                          .range = true,
                          .offset = offset,
                          .length = length};
}

static void assert_ranges(const struct frames *f, uint32_t decode, uint64_t most_dropped)
{
    static const size_t chunks[] = {777, 4096, 65536};
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned r = 0; r < N_RANGES; r++)
            for (unsigned c = 0; c < 3; c++)
                for (unsigned feed = 0; feed < N_FEEDS; feed++) {
                    struct trial t =
                        range_of((enum feed)feed, chunks[c], ranges[r].offset, ranges[r].length);
                    t.decode = decode;
                    if (decode == HR_CODEC_AUTO && feed == FEED_PIPE && t.length < 4)
                        continue; /* too few bytes of a pipe to tell what it is */
                    const struct buffer want = slice(&f->plain, t.offset, t.length);
                    assert_gives(loops[l], &t, &f->packed, &want);
                    if (feed == FEED_MEMORY || feed == FEED_FILE)
                        cr_assert_leq(t.stats.dropped_bytes, most_dropped, "%s", name_of(&t));
                    if (want.size && (most_dropped == UINT64_MAX || feed > FEED_FILE))
                        cr_assert_eq(t.stats.dropped_bytes, t.offset, "%s", name_of(&t));
                    buffer_free(&t.got);
                }
}

Test(decode_ranges, without_a_table_what_precedes_is_decoded_and_dropped)
{
    uint32_t entries[N_FRAMES][2];
    struct frames f = even_frames(entries);
    assert_ranges(&f, HR_CODEC_ZSTD, UINT64_MAX);
    frames_free(&f);
}

Test(decode_ranges, with_a_table_at_most_a_frame_is_dropped)
{
    struct frames f = with_table();
    assert_ranges(&f, HR_CODEC_ZSTD, FRAME - 1);
    assert_ranges(&f, HR_CODEC_AUTO, FRAME - 1);
    frames_free(&f);
}

Test(decode_ranges, of_raw_bytes_under_auto)
{
    struct frames f = {0};
    add_sample(&f.plain, SIZE, 9);
    buffer_add(&f.packed, f.plain.data, SIZE);
    static const enum feed in_order[] = {FEED_CALLBACK, FEED_PIPE};
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned r = 0; r < N_RANGES; r++)
            for (unsigned i = 0; i < 4; i++) {
                struct trial t = range_of(i < 2 ? in_order[i] : (enum feed)(i - 2), 4096,
                                          ranges[r].offset, ranges[r].length);
                t.decode = HR_CODEC_AUTO;
                const struct buffer want = slice(&f.plain, t.offset, t.length);
                assert_gives(loops[l], &t, &f.packed, &want);
                buffer_free(&t.got);
            }
    frames_free(&f);
}

/* Encoded, they are longer than decoded: an offset behind the decoded end is one within the file.
 */
Test(decode_ranges, past_the_end_no_encoded_byte_is_taken_for_data)
{
    const struct buffer nothing = {0};
    for (uint32_t n = 0; n < 2; n++) {
        struct frames f = {0};
        if (n)
            add_frame(&f, FRAME_NOISE, 1000);
        const uint32_t entry[1][2] = {{(uint32_t)f.packed.size, 1000}};
        add_seek_table(&f.packed, entry, n, n, 0);
        for (unsigned l = 0; l < n_loops; l++)
            for (unsigned feed = 0; feed < N_FEEDS; feed++)
                for (unsigned decode = HR_CODEC_ZSTD; decode <= HR_CODEC_AUTO; decode++) {
                    struct trial t = range_of((enum feed)feed, 4096, n ? 1002 : 2, 12);
                    t.decode = decode;
                    assert_gives(loops[l], &t, &f.packed, &nothing);
                    buffer_free(&t.got);
                }
        frames_free(&f);
    }
}

/* Direct reads begin between the device's blocks here. */
Test(decode_ranges, of_a_file_that_is_read_past_the_page_cache)
{
    struct frames f = with_table();
    char path[] = "/tmp/headrace-test-XXXXXX";
    const int fd = mkstemp(path);
    cr_assert(fd >= 0 && write(fd, f.packed.data, f.packed.size) == (ssize_t)f.packed.size);
    close(fd);
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned direct = 0; direct < 3; direct++)
            for (unsigned r = 0; r < N_RANGES; r++) {
                struct buffer got = {0};
                const struct hr_source source = {.struct_size = sizeof source,
                                                 .kind = HR_FILE,
                                                 .path = path,
                                                 .flags = HR_RANGE,
                                                 .offset = ranges[r].offset,
                                                 .length = ranges[r].length};
                const struct hr_pipeline_config config = {.struct_size = sizeof config,
                                                          .n_sources = 1,
                                                          .sources = &source,
                                                          .chunk_size = 8192,
                                                          .depth = 4,
                                                          .decode = HR_CODEC_ZSTD,
                                                          .direct = direct};
                const struct buffer want = slice(&f.plain, source.offset, source.length);
                hr_error error = {0};
                cr_assert_eq(run_gathering(loops[l], &config, &got, &error), HR_OK, "%s",
                             error.text);
                cr_assert(same_bytes(&got, &want), "direct %u, range %u", direct, r);
                buffer_free(&got);
            }
    unlink(path);
    frames_free(&f);
}

/* ---- the end of a range ---- */

Test(decode_ranges, a_read_error_behind_the_range_does_not_count)
{
    struct frames f = {0}, next = {0};
    add_frame(&f, FRAME_USUAL, 1000);
    add_frame(&f, FRAME_NOISE, 3000);
    add_frame(&next, FRAME_USUAL, 500);
    static const unsigned waits[] = {0, 200, 50000}; /* until the range is full */
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned w = 0; w < 3; w++)
            for (uint32_t n_sources = 1; n_sources <= 2; n_sources++) {
                struct failing late = {&f.packed, f.packed.size, waits[w]};
                struct buffer got = {0};
                const struct hr_source sources[] = {{.struct_size = sizeof sources[0],
                                                     .kind = HR_CALLBACK,
                                                     .read = give_and_fail,
                                                     .user = &late,
                                                     .flags = HR_RANGE,
                                                     .offset = 10,
                                                     .length = 700},
                                                    memory_source(&next.packed)};
                const struct hr_pipeline_config config = {.struct_size = sizeof config,
                                                          .n_sources = n_sources,
                                                          .sources = sources,
                                                          .chunk_size = 4096,
                                                          .depth = 4,
                                                          .decode = HR_CODEC_ZSTD};
                hr_error error = {0};
                cr_assert_eq(run_gathering(loops[l], &config, &got, &error), HR_OK, "%u us: %s",
                             waits[w], error.text);
                cr_assert_eq(got.size, n_sources == 1 ? 700 : 1200);
                cr_assert(memcmp(got.data, f.plain.data + 10, 700) == 0);
                buffer_free(&got);
            }
    frames_free(&f);
    frames_free(&next);
}

Test(decode_ranges, damage_behind_the_range_does_not_count)
{
    struct frames f = {0};
    add_frame(&f, FRAME_USUAL, 1000);
    const size_t end = f.packed.size;
    add_frame(&f, FRAME_USUAL, 50000);
    f.packed.data[end + 40] ^= 0x55;
    buffer_add(&f.packed, "trailing", 8);
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned feed = 0; feed < N_FEEDS; feed++)
            for (unsigned c = 0; c < 2; c++) {
                struct trial t = range_of((enum feed)feed, c ? 1 << 20 : 512, 0, 1000);
                const struct buffer want = slice(&f.plain, 0, 1000);
                assert_gives(loops[l], &t, &f.packed, &want);
                buffer_free(&t.got);
            }
    frames_free(&f);
}

Test(decode_ranges, of_a_raw_pipe_under_auto_leave_what_follows_in_the_pipe)
{
    struct buffer plain = {0};
    add_sample(&plain, 3000, 4);
    static const size_t offsets[] = {0, 1, 100, 2000}, lengths[] = {1, 3, 4, 5, 700};
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned o = 0; o < 4; o++)
            for (unsigned n = 0; n < 5; n++) {
                int ends[2];
                struct buffer got = {0};
                cr_assert_eq(pipe(ends), 0);
                cr_assert_eq(write(ends[1], plain.data, plain.size), (ssize_t)plain.size);
                close(ends[1]);
                const struct hr_source source = {.struct_size = sizeof source,
                                                 .kind = HR_FD,
                                                 .fd = ends[0],
                                                 .flags = HR_RANGE,
                                                 .offset = offsets[o],
                                                 .length = lengths[n]};
                const struct hr_pipeline_config config = {.struct_size = sizeof config,
                                                          .n_sources = 1,
                                                          .sources = &source,
                                                          .chunk_size = 64,
                                                          .depth = 2,
                                                          .decode = HR_CODEC_AUTO};
                hr_error error = {0};
                cr_assert_eq(run_gathering(loops[l], &config, &got, &error), HR_OK, "%s",
                             error.text);
                const struct buffer want = slice(&plain, offsets[o], lengths[n]);
                cr_assert(same_bytes(&got, &want));
                unsigned char rest[4000];
                const size_t end = offsets[o] + lengths[n];
                cr_assert_eq(read(ends[0], rest, sizeof rest), (ssize_t)(plain.size - end),
                             "range %zu, %zu", offsets[o], lengths[n]);
                cr_assert(memcmp(rest, plain.data + end, plain.size - end) == 0);
                close(ends[0]);
                buffer_free(&got);
            }
    buffer_free(&plain);
}

/* ---- seek tables that lie ---- */

/* A range of it is refused or right, never wrong; all of it is read as if there were no table. */
static void assert_lie_is_harmless(const struct frames *f, const char *what)
{
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned feed = 0; feed < N_FEEDS; feed++) {
            struct trial whole = range_of((enum feed)feed, 65536, 0, 0);
            whole.range = false;
            assert_gives(loops[l], &whole, &f->packed, &f->plain);
            buffer_free(&whole.got);
            for (unsigned r = 0; r < N_RANGES; r++)
                for (unsigned way = 0; way < 3; way++) {
                    struct trial t = range_of((enum feed)feed, way ? 65536 : 4096, ranges[r].offset,
                                              ranges[r].length);
                    t.flags = way == 1 ? HR_STRICT : 0;
                    run_trial(loops[l], &t, &f->packed);
                    const struct buffer want = slice(&f->plain, t.offset, t.length);
                    cr_assert(!t.hung && (t.status == HR_OK || t.status == HR_ECORRUPT), "%s: %s",
                              what, name_of(&t));
                    cr_assert(t.status != HR_OK || same_bytes(&t.got, &want), "%s: %s", what,
                              name_of(&t));
                    cr_assert(begins(&t.got, &want), "%s: %s", what, name_of(&t));
                    buffer_free(&t.got);
                }
        }
}

Test(decode_ranges, tables_that_lie_are_found_out)
{
    static const char *const lies[] = {"count 2^32 - 1",   "count 2^27",         "one too many",
                                       "a size 2^32 - 1",  "sum too large",      "reserved bits",
                                       "sizes exchanged",  "decoded size wrong", "first too short",
                                       "decoded 2^32 - 1", "one too few"};
    for (unsigned lie = 0; lie < sizeof lies / sizeof lies[0]; lie++) {
        uint32_t e[N_FRAMES + 1][2] = {{0}};
        struct frames f = even_frames(e);
        uint32_t n = N_FRAMES, said = N_FRAMES;
        unsigned descriptor = 0;
        const uint32_t first = e[0][0];
        switch (lie) {
        case 0:
            said = UINT32_MAX;
            break;
        case 1:
            said = 1u << 27;
            break;
        case 2:
            said = N_FRAMES + 1;
            break;
        case 3:
            e[4][0] = UINT32_MAX;
            break;
        case 4:
            e[N_FRAMES - 1][0] += 100;
            break;
        case 5:
            descriptor = 0x7C;
            break;
        case 6:
            e[0][0] = e[1][0];
            e[1][0] = first;
            break;
        case 7:
            e[3][1] += 1;
            e[4][1] -= 1;
            break;
        case 8:
            e[0][0] -= 9;
            e[1][0] += 9;
            break;
        case 9:
            e[N_FRAMES - 1][1] = UINT32_MAX;
            break;
        case 10:
            n = N_FRAMES - 1;
            break;
        }
        add_seek_table(&f.packed, (const uint32_t(*)[2])e, n, said, descriptor);
        assert_lie_is_harmless(&f, lies[lie]);
        frames_free(&f);
    }
}

Test(decode_ranges, a_table_may_list_skippable_frames)
{
    uint32_t e[5][2];
    struct frames f = {0};
    for (unsigned i = 0; i < 5; i++) {
        const size_t packed = f.packed.size, plain = f.plain.size;
        add_frame(&f, i % 2 ? FRAME_SKIPPABLE : FRAME_USUAL, i == 1 ? 0 : 2 * FRAME);
        e[i][0] = (uint32_t)(f.packed.size - packed);
        e[i][1] = (uint32_t)(f.plain.size - plain);
    }
    add_seek_table(&f.packed, (const uint32_t(*)[2])e, 5, 5, 0);
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned r = 0; r < N_RANGES; r++) {
            struct trial t = range_of(FEED_FILE, 65536, ranges[r].offset, ranges[r].length);
            const struct buffer want = slice(&f.plain, t.offset, t.length);
            assert_gives(loops[l], &t, &f.packed, &want);
            buffer_free(&t.got);
        }
    frames_free(&f);
}

/* ---- auto, several sources ---- */

static void assert_auto(const struct buffer *in, const struct buffer *want)
{
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned feed = 0; feed < N_FEEDS; feed++)
            for (size_t step = 0; step < 3; step++) {
                struct trial t = {.feed = (enum feed)feed,
                                  .step = step,
                                  .chunk_size = 4096,
                                  .depth = 2,
                                  .decode = HR_CODEC_AUTO};
                assert_gives(loops[l], &t, in, want);
                buffer_free(&t.got);
            }
}

Test(decode_ranges, auto_goes_by_the_first_bytes)
{
    static const char *const raw[] = {
        "",    "\x28",       "\x28\xb5",         "\x28\xb5\x2f",   "\x50\x2a\x4d",
        "abc", "plain text", "\x28\xb5\x2f\xfe", "\x28\xb5\x2fxyz"};
    for (unsigned i = 0; i < sizeof raw / sizeof raw[0]; i++) {
        struct buffer in = {0};
        buffer_add(&in, raw[i], strlen(raw[i]));
        assert_auto(&in, &in);
        buffer_free(&in);
    }
}

Test(decode_ranges, auto_decodes_what_begins_with_any_frame)
{
    for (unsigned kind = 0; kind < N_FRAME_KINDS; kind++) {
        struct frames f = {0};
        add_frame(&f, (enum frame_kind)kind, 300);
        add_frame(&f, FRAME_USUAL, 300);
        assert_auto(&f.packed, &f.plain);
        frames_free(&f);
    }
}

Test(decode_ranges, sources_raw_and_encoded_are_one_stream)
{
    struct frames f = {0};
    struct buffer raw = {0}, want = {0};
    add_mixture(&f, 3000);
    add_sample(&raw, 5000, 2);
    const struct buffer *const parts[] = {&raw, &f.packed, &f.packed, &raw};
    for (unsigned i = 0; i < 4; i++)
        buffer_add(&want, i % 3 ? f.plain.data : raw.data, i % 3 ? f.plain.size : raw.size);
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned only_zstd = 0; only_zstd < 2; only_zstd++)
            for (size_t chunk = 100; chunk < 100000; chunk *= 9) {
                struct buffer got = {0};
                struct hr_source sources[4];
                for (unsigned i = 0; i < 4; i++)
                    sources[i] = memory_source(parts[i]);
                const struct hr_pipeline_config config = {
                    .struct_size = sizeof config,
                    .n_sources = only_zstd ? 2 : 4,
                    .sources = only_zstd ? sources + 1 : sources,
                    .chunk_size = chunk,
                    .depth = 3,
                    .decode = only_zstd ? HR_CODEC_ZSTD : HR_CODEC_AUTO};
                const struct buffer due = slice(&want, only_zstd ? raw.size : 0,
                                                only_zstd ? 2 * f.plain.size : UINT64_MAX);
                hr_error error = {0};
                cr_assert_eq(run_gathering(loops[l], &config, &got, &error), HR_OK, "%s",
                             error.text);
                cr_assert(same_bytes(&got, &due), "chunk %zu", chunk);
                buffer_free(&got);
            }
    frames_free(&f);
    buffer_free(&raw);
    buffer_free(&want);
}

/* The second source's error tells its place in the whole stream. */
Test(decode_ranges, an_error_in_a_later_source_stands_behind_the_earlier)
{
    struct frames a = {0}, b = {0};
    add_frame(&a, FRAME_USUAL, 5000);
    add_frame(&b, FRAME_USUAL, 2000);
    add_frame(&b, FRAME_USUAL, 2000);
    b.packed.data[b.packed.size - 2] ^= 4;
    for (unsigned l = 0; l < n_loops; l++) {
        struct buffer got = {0};
        const struct hr_source sources[] = {memory_source(&a.packed), memory_source(&b.packed)};
        const struct hr_pipeline_config config = {.struct_size = sizeof config,
                                                  .n_sources = 2,
                                                  .sources = sources,
                                                  .decode = HR_CODEC_ZSTD};
        hr_error error = {0};
        cr_assert_eq(run_gathering(loops[l], &config, &got, &error), HR_ECORRUPT);
        cr_assert_eq(error.offset, 7000);
        cr_assert_eq(got.size, 7000);
        cr_assert(strstr(error.text, "source 1"), "%s", error.text);
        buffer_free(&got);
    }
    frames_free(&a);
    frames_free(&b);
}
