// SPDX-License-Identifier: Apache-2.0
/* Property: for any bytes, the walk over frames
 *   1. reads inside of what it is fed (ASan), and always comes to an end;
 *   2. gives the same frames and the same verdict whatever the split;
 *   3. covers the stream without a gap, frame after frame;
 *   4. states a bound that no frame which libzstd decodes by streaming exceeds. */
#include "codec.h"

#include <stdlib.h>

#define MAX_WINDOW_LOG 20
#define MAX_FRAMES 64

/* Not NDEBUG's to switch off. */
#define CHECK(x) ((x) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct verdict {
    struct hr__frame frames[MAX_FRAMES];
    uint64_t n_frames;
    uint64_t error_offset;
    enum hr__walk_error error;
};

static void walk(struct verdict *v, const uint8_t *data, size_t size, size_t step)
{
    struct hr__walk w;
    hr__walk_init(&w, (uint64_t)1 << MAX_WINDOW_LOG);
    uint64_t end_of_last = 0;
    enum hr__walk_result result = HR__WALK_MORE;
    for (size_t at = 0, used = 0; at < size && result != HR__WALK_ERROR; at += used) {
        size_t n = size - at < step ? size - at : step;
        result = hr__walk_feed(&w, data + at, n, &used);
        CHECK(used <= n && (used > 0 || result == HR__WALK_ERROR));
        if (result != HR__WALK_FRAME)
            continue;
        CHECK(w.frame.in_offset == end_of_last);
        end_of_last += w.frame.in_size;
        CHECK(end_of_last == at + used);
        if (w.n_frames <= MAX_FRAMES)
            v->frames[w.n_frames - 1] = w.frame;
    }
    v->error = hr__walk_finish(&w);
    v->error_offset = w.error_offset;
    v->n_frames = w.n_frames;
    CHECK(v->error_offset <= size);
}

static void check_same(const struct verdict *a, const struct verdict *b)
{
    CHECK(a->n_frames == b->n_frames);
    CHECK(a->error == b->error && a->error_offset == b->error_offset);
    for (uint64_t i = 0; i < a->n_frames && i < MAX_FRAMES; i++) {
        const struct hr__frame *f = &a->frames[i];
        const struct hr__frame *g = &b->frames[i];
        CHECK(f->in_offset == g->in_offset && f->in_size == g->in_size);
        CHECK(f->content_size == g->content_size && f->bound == g->bound);
        CHECK(f->window_size == g->window_size && f->dict_id == g->dict_id);
        CHECK(f->has_checksum == g->has_checksum && f->skippable == g->skippable);
    }
}

/* The output comes in pieces below the smallest window, so that libzstd streams: only then does it
 * enforce the size of blocks, on which the bound rests. */
static void check_bound(struct hr__decoder *d, const uint8_t *data, const struct hr__frame *f)
{
    uint8_t dst[512];
    struct hr__step_io io = {.src = data + f->in_offset, .size = (size_t)f->in_size};
    uint64_t total = 0;
    enum hr__step step;
    do {
        io.dst = dst;
        io.cap = sizeof dst;
        step = hr__decoder_step(d, &io, NULL);
        io.src = (const uint8_t *)io.src + io.used;
        io.size -= io.used;
        total += io.produced;
    } while (step == HR__STEP_OUTPUT_FULL || (step == HR__STEP_NEED_INPUT && io.size > 0));
    hr__decoder_reset(d);
    if (step == HR__STEP_FRAME_DONE) {
        CHECK(io.size == 0);
        CHECK(total <= f->bound);
        CHECK(f->content_size == HR__SIZE_UNKNOWN || total == f->content_size);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct verdict whole, split;
    static const size_t steps[] = {1, 2, 3, 7, 50};
    walk(&whole, data, size, SIZE_MAX);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        walk(&split, data, size, steps[i]);
        check_same(&whole, &split);
    }
    struct hr__decoder *d = NULL;
    CHECK(hr__decoder_create(&d, NULL, 0, MAX_WINDOW_LOG, NULL) == HR__CODEC_OK);
    for (uint64_t i = 0; i < whole.n_frames && i < MAX_FRAMES; i++)
        check_bound(d, data, &whole.frames[i]);
    hr__decoder_free(d);
    return 0;
}
