// SPDX-License-Identifier: Apache-2.0
#include "order.h"

#include "pipeline.h"

/* ---- planning ---- */

/* Whether its blocks are whole units, so that nothing of one is carried to the next. */
static bool is_whole(const struct hr__input *in, size_t unit)
{
    const size_t align = hr__direct_alignment(&in->file);
    const uint64_t begin = in->file.start + in->position;
    return in->total % unit == 0 && (align == 1 || (align % unit == 0 && begin % unit == 0));
}

/* Whether each block is a chunk, whose place in the stream is known when its read begins. */
static bool knows_places(const hr_pipeline *p)
{
    bool knows = !p->decoding;
    for (unsigned i = 0; i < p->n_inputs; i++)
        knows &= !p->inputs[i].in_order && is_whole(&p->inputs[i], hr__chain_unit(p->chain));
    return knows;
}

static bool sink_has_places(const hr_pipeline *p)
{
    const bool file = p->sink.kind == HR_FILE || p->sink.kind == HR_FD;
    return p->sink.kind == HR_NULL || p->sink.kind == HR_MEMORY || p->sink.kind == HR_DEVICE ||
           (file && p->target.file.positional);
}

/* A ramp is for streams that are much longer than it. */
static bool is_long(const hr_pipeline *p)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < p->n_inputs; i++)
        total += p->inputs[i].total;
    return total / 4 / p->depth >= p->chunk_size;
}

/* Where bytes are only moved, each to its place, nobody sees in which order or in which pieces. */
void hr__order_plan(hr_pipeline *p, uint32_t n_kernels)
{
    const bool knows = knows_places(p);
    p->sink_has_places = sink_has_places(p);
    const bool moves = knows && p->sink_has_places && !n_kernels && !p->encoding;
    p->unordered = (p->flags & HR_UNORDERED) || moves;
    p->cuts_any = knows && p->unordered;
    p->ramps = moves && !p->is_direct && p->chunk_size > HR__SHORT_READ && is_long(p);
}

/* ---- numbers ---- */

uint64_t hr__order_number(const struct hr__slot *block)
{
    const hr_pipeline *p = block->lane->pipeline;
    return block->number - (uint64_t)(block->input - p->inputs); /* a mark for each before it */
}

/* ---- the end of a failed stream ---- */

bool hr__order_owes(const hr_pipeline *p)
{
    return p->cuts_any && p->sink_has_places && p->error.code != HR_ECANCELED &&
           !hr__pipeline_is_cancelled(p);
}

bool hr__order_passes_over(const hr_pipeline *p, uint64_t number)
{
    return p->failed && (!hr__order_owes(p) || number >= p->fail_number);
}

static void lower(struct hr__gap *first, uint64_t number, uint64_t offset)
{
    if (number < first->number)
        *first = (struct hr__gap){.number = number, .offset = offset};
}

/* The first chunk that is not cut, and its place in the stream. */
static struct hr__gap first_uncut(const hr_pipeline *p)
{
    if (!p->cuts_any)
        return (struct hr__gap){.number = p->chunks.tail, .offset = p->cut.stream_offset};
    struct hr__gap first = {.number = p->blocks.tail - p->current, .offset = p->read_index};
    for (uint64_t i = p->blocks.head; i < p->blocks.tail; i++) {
        const struct hr__slot *block = hr__lane_at(&p->blocks, i);
        const bool is_cut = block->state == HR__SLOT_READY && block->taken == block->size;
        if (!is_cut || block->error.code)
            lower(&first, hr__order_number(block) + (block->taken > 0),
                  block->stream_offset + block->taken);
    }
    return first;
}

struct hr__gap hr__order_first_left(const hr_pipeline *p)
{
    if (!p->unordered || !p->sink_has_places)
        return (struct hr__gap){.number = p->out->head, .offset = p->write_offset};
    struct hr__gap first = first_uncut(p);
    for (uint64_t i = p->out->head; i < p->out->tail; i++) {
        const struct hr__slot *piece = hr__lane_at(p->out, i);
        lower(&first, piece->number, piece->stream_offset);
    }
    first.offset = hr__chain_place(p->chain, first.offset);
    return first;
}

uint64_t hr__order_settle(hr_pipeline *p)
{
    const struct hr__gap left = hr__order_first_left(p);
    const struct hr__gap *end = p->gap.offset <= left.offset ? &p->gap : &left;
    if (p->sink_has_places)
        hr__meter_settle(&p->meters[HR_STAGE_WRITE], end->number, end->offset);
    return end->offset + end->moved;
}
