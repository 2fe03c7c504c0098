// SPDX-License-Identifier: Apache-2.0
/* Every kernel of the table goes this way, for many sizes, addresses and ways of cutting:
 *
 *     copy H2D ─▶ event ─▶ pieces on several streams ─▶ events ─▶ copy D2H ─▶ event ─▶ compared
 *
 * with what the host's function makes of the whole at once, byte for byte. What a kernel may not
 * touch is painted before, and looked at after. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "conformance_rig.h"
#include "conformance_table.h"
#include "device_tools.h"

static const struct cut cuts[] = {{0, 0, 1, 1}, {1, 3, 4, 3}, {3, 1, 7, 2}};
enum { N_CUTS = sizeof cuts / sizeof cuts[0] };

/* ---- One stream of units through the device ---- */

static size_t first_of_piece(const struct rig *rig, unsigned piece)
{
    const size_t n = (size_t)rig->n_units;
    if (piece == rig->cut.n_pieces)
        return n;
    const size_t cut = n * piece / rig->cut.n_pieces;
    return cut - cut % rig->alignment; /* so that each piece begins as aligned as the first */
}

static size_t out_offset(const struct rig *rig)
{
    return MARGIN + rig->cut.out_shift * rig->alignment;
}

static void launch_piece(struct rig *rig, unsigned piece)
{
    assert(rig->cut.n_streams > 0);
    const size_t first = first_of_piece(rig, piece);
    const unsigned stream = piece % rig->cut.n_streams;
    unsigned char *in = rig->device_in + rig->cut.in_shift * rig->alignment;
    unsigned char *out = rig->device_out + out_offset(rig);
    const struct hr__launch launch = {
        .in = in + first * rig->info->unit_in_bytes,
        .out = rig->info->is_reduction ? NULL : out + first * rig->info->unit_out_bytes,
        .n_units = first_of_piece(rig, piece + 1) - first,
        .first_unit = first,
        .count = rig->info->is_counted ? &rig->device_counts[piece] : NULL,
        .state = rig->device_states[stream],
    };
    rig_must(rig, rig->ops->launch(rig->streams[stream], rig->kernel, &launch, &rig->error));
}

static size_t room_bytes(const struct rig *rig)
{
    return (size_t)rig->n_units * rig->info->unit_out_bytes;
}

static void load(struct rig *rig)
{
    const size_t in_bytes = (size_t)rig->n_units * rig->info->unit_in_bytes;
    const size_t out_bytes = room_bytes(rig) + 2 * MARGIN;
    rig_copy(rig, rig->h2d, rig->device_in + rig->cut.in_shift * rig->alignment, rig->in, in_bytes,
             HR__COPY_H2D);
    if (!rig->info->is_reduction) {
        memset(rig->out, PAINT, out_bytes);
        rig_copy(rig, rig->h2d, rig->device_out, rig->out, out_bytes, HR__COPY_H2D);
    }
    for (unsigned i = 0; rig->info->is_reduction && i < rig->cut.n_streams; i++) {
        hr__reduce_init(&rig->info->spec, rig->states[i]);
        rig_copy(rig, rig->h2d, rig->device_states[i], rig->states[i], rig->info->state_bytes,
                 HR__COPY_H2D);
    }
}

static void fetch(struct rig *rig)
{
    if (!rig->info->is_reduction)
        rig_copy(rig, rig->d2h, rig->out, rig->device_out, room_bytes(rig) + 2 * MARGIN,
                 HR__COPY_D2H);
    if (rig->info->is_counted)
        rig_copy(rig, rig->d2h, rig->counts, rig->device_counts,
                 rig->cut.n_pieces * sizeof rig->counts[0], HR__COPY_D2H);
    for (unsigned i = 0; rig->info->is_reduction && i < rig->cut.n_streams; i++)
        rig_copy(rig, rig->d2h, rig->states[i], rig->device_states[i], rig->info->state_bytes,
                 HR__COPY_D2H);
}

static void pass_through(struct rig *rig)
{
    load(rig);
    for (unsigned i = 0; i < rig->cut.n_streams; i++)
        rig_hand_over(rig, rig->h2d, rig->loaded, rig->streams[i]);
    for (unsigned piece = 0; piece < rig->cut.n_pieces; piece++)
        launch_piece(rig, piece);
    for (unsigned i = 0; i < rig->cut.n_streams; i++)
        rig_hand_over(rig, rig->streams[i], rig->computed[i], rig->d2h);
    fetch(rig);
    rig_must(rig, rig->ops->record(rig->d2h, rig->done, &rig->error));
    rig_must(rig, device_finish(rig->device, rig->done, &rig->error));
}

/* ---- Comparison with the host's functions ---- */

static void compare_margins(struct rig *rig)
{
    unsigned char paint[2 * MARGIN];
    const size_t before = out_offset(rig);
    memset(paint, PAINT, sizeof paint);
    rig_expect_bytes(rig, "before the output", rig->out, paint, before);
    rig_expect_bytes(rig, "behind the output", rig->out + before + room_bytes(rig), paint,
                     2 * MARGIN - before);
}

static void compare_map(struct rig *rig)
{
    hr__kernel_map(&rig->info->spec, rig->in, rig->expected, (size_t)rig->n_units);
    rig_expect_bytes(rig, "output", rig->out + out_offset(rig), rig->expected, room_bytes(rig));
}

/* What the pieces kept, one behind the other, is what the whole keeps. */
static void compare_filter(struct rig *rig)
{
    const size_t unit = rig->info->unit_out_bytes;
    const uint64_t n =
        hr__kernel_filter(&rig->info->spec, rig->in, rig->expected, (size_t)rig->n_units);
    uint64_t n_kept = 0;
    for (unsigned piece = 0; piece < rig->cut.n_pieces && rig->why[0] == '\0'; piece++) {
        const size_t first = first_of_piece(rig, piece);
        if (rig->counts[piece] > first_of_piece(rig, piece + 1) - first ||
            n_kept + rig->counts[piece] > n) {
            rig_fail(rig, "piece %u counts %llu units", piece,
                     (unsigned long long)rig->counts[piece]);
            return;
        }
        rig_expect_bytes(rig, "kept", rig->out + out_offset(rig) + first * unit,
                         rig->expected + n_kept * unit, (size_t)rig->counts[piece] * unit);
        n_kept += rig->counts[piece];
    }
    if (n_kept != n)
        rig_fail(rig, "%llu of %llu units kept, expected %llu", (unsigned long long)n_kept,
                 (unsigned long long)rig->n_units, (unsigned long long)n);
}

/* Merges the streams' states, beginning with stream `start` and going round in steps of one or
 * backwards, and compares what they found. */
static void compare_merged(struct rig *rig, unsigned start, bool backwards,
                           const struct hr__reduce_result *expected)
{
    const unsigned n = rig->cut.n_streams;
    struct hr__reduce_result got;
    unsigned char *merged = rig->out;
    hr__reduce_init(&rig->info->spec, merged);
    for (unsigned i = 0; i < n; i++)
        hr__reduce_merge(&rig->info->spec, merged,
                         rig->states[(start + (backwards ? n - i : i)) % n]);
    hr__reduce_finish(&rig->info->spec, merged, &got);
    if (got.n_units != expected->n_units || got.n_values != expected->n_values)
        rig_fail(rig, "%llu units and %u values, expected %llu and %u",
                 (unsigned long long)got.n_units, got.n_values,
                 (unsigned long long)expected->n_units, expected->n_values);
    else
        rig_expect_bytes(rig, "result", got.data, expected->data,
                         got.n_values * hr__type_bytes(got.type));
}

static void compare_reduction(struct rig *rig)
{
    struct hr__reduce_result expected;
    hr__reduce_init(&rig->info->spec, rig->expected);
    hr__reduce_fold(&rig->info->spec, rig->expected, rig->in, (size_t)rig->n_units, 0);
    hr__reduce_finish(&rig->info->spec, rig->expected, &expected);
    for (unsigned start = 0; start < rig->cut.n_streams; start++) {
        compare_merged(rig, start, false, &expected);
        compare_merged(rig, start, true, &expected);
    }
}

static void compare(struct rig *rig)
{
    if (rig->info->is_reduction) {
        compare_reduction(rig);
        return;
    }
    if (rig->info->is_counted)
        compare_filter(rig);
    else
        compare_map(rig);
    compare_margins(rig);
}

/* ---- One kernel ---- */

static void run_cut(struct rig *rig, uint64_t n_units, const struct cut *cut)
{
    if (n_units * rig->info->unit_in_bytes > MAX_IN || rig->why[0] != '\0')
        return;
    rig->n_units = n_units;
    rig->cut = *cut;
    memset(rig->counts, 0xff, sizeof rig->counts);
    pass_through(rig);
    if (rig->why[0] == '\0')
        compare(rig);
}

static void run_sizes(struct rig *rig)
{
    static const size_t few[] = {0, 1, 2, 3, 31, 33};
    static const size_t round_bytes[] = {4096, CHUNK};
    const size_t unit = rig->info->unit_in_bytes;
    for (size_t c = 0; c < N_CUTS; c++) {
        for (size_t i = 0; i < sizeof few / sizeof few[0]; i++)
            run_cut(rig, few[i], &cuts[c]);
        for (size_t i = 0; i < sizeof round_bytes / sizeof round_bytes[0]; i++) {
            const size_t n = round_bytes[i] / unit;
            if (n > 0)
                run_cut(rig, n - 1, &cuts[c]);
            run_cut(rig, n, &cuts[c]);
            run_cut(rig, n + 1, &cuts[c]);
        }
    }
    run_cut(rig, LARGE / unit, &cuts[1]);
}

static void make_states(struct rig *rig)
{
    for (unsigned i = 0; i < N_STREAMS; i++) {
        rig->states[i] = malloc(rig->info->state_bytes);
        rig_must(rig, rig->ops->alloc(rig->device, rig->info->state_bytes, &rig->device_states[i],
                                      &rig->error));
    }
}

static void free_states(struct rig *rig)
{
    for (unsigned i = 0; i < N_STREAMS; i++) {
        free(rig->states[i]);
        rig->ops->free(rig->device, rig->device_states[i]);
        rig->device_states[i] = NULL;
    }
}

void rig_test_kernel(void *user, const char *text)
{
    struct rig *rig = user;
    const struct hr_kernel kernel = {.struct_size = sizeof kernel, .text = text};
    rig_must(rig, rig->ops->kernel_create(rig->device, &kernel, &rig->kernel, &rig->error));
    if (rig->why[0] == '\0') {
        rig->info = rig->ops->kernel_info(rig->kernel);
        if (rig->in_type != rig->info->spec.from)
            conformance_fill(rig->info->spec.from, rig->in, MAX_IN);
        rig->in_type = rig->info->spec.from;
        if (rig->info->is_reduction)
            make_states(rig);
        run_sizes(rig);
        if (rig->info->is_reduction)
            free_states(rig);
        rig->ops->kernel_destroy(rig->kernel);
    }
    rig_conclude(rig, text);
}
