// SPDX-License-Identifier: Apache-2.0
/* Cuts what was read or decoded into chunks. A chunk refers to the bytes where they lie and holds
 * their slot; nothing is copied but the begin of a unit whose rest comes with the next slot: it is
 * joined to the rest in the headroom before that.
 *
 *     slot k     |......................|ab|        ab: carried, the begin of a unit
 *     slot k+1                    [ab]|cdefgh...    headroom, then the slot's own memory
 *     chunk                        |abcdefgh...
 *
 * That goes in stream order. But where each block is a chunk, and knows its place in the stream, none
 * waits for a slower one before it. Here ranges of decoded bytes begin and end, and the stream's
 * errors take their place: behind all that precedes them. */
#include <string.h>

#include "order.h"
#include "pipeline.h"
#include "sched.h"
#include "status.h"

/* The stream ends with this error. False: no slot is free for it. */
static bool place_error(hr_pipeline *p, uint64_t number, const hr_error *error)
{
    struct hr__slot *chunk = hr__lane_place_error(&p->chunks, error);
    if (!chunk)
        return false;
    chunk->number = number;
    if (error->stage == HR_STAGE_DECODE) { /* it does not know where in the decoded stream it is */
        chunk->error.chunk = chunk->index;
        chunk->error.offset = p->cut.stream_offset;
    }
    p->cut.ended = p->cut.failed = true;
    p->input_ended = true;
    return true;
}

/* ---- the range of decoded bytes ---- */

/* What lies behind the range is dropped, and an error there does not count: the next source
 * follows.
 */
static void drop_behind_range(hr_pipeline *p, struct hr__slot *from)
{
    from->taken = from->size;
    if (from->error.code)
        p->input_ended = p->current == p->n_inputs;
    from->error.code = HR_OK;
}

static void trim_to_range(hr_pipeline *p, struct hr__slot *from)
{
    struct hr__input *in = from->input;
    const size_t here = from->size - from->taken;
    const size_t dropped = in->decoded_skip < here ? (size_t)in->decoded_skip : here;
    from->taken += dropped;
    in->decoded_skip -= dropped;
    in->decoded_position += dropped;
    p->dropped_bytes += dropped;
    if (in->decoded_left == 0)
        drop_behind_range(p, from);
    else if (in->decoded_left < from->size - from->taken)
        from->size = from->taken + (size_t)in->decoded_left;
}

/* ---- units ---- */

/* Before the slot's bytes there must be room for what is carried: bytes of a user's memory, or of
 * another slot, move to memory of this one first. False: there is none at present. */
static bool make_headroom(struct hr__slot *from)
{
    if (from->region && from->data == from->memory)
        return true;
    const size_t size = from->size - from->taken;
    if (!hr__slot_lease(from, size))
        return false;
    memcpy(from->memory, from->data + from->taken, size);
    hr__slot_drop(from->holds); /* a ring of blocks would wait for it while the chunk is out */
    from->holds = NULL;
    from->data = from->memory;
    from->size = size;
    from->taken = 0;
    return true;
}

/* How many bytes of the slot go into the next chunk: all, or as many as make whole units. */
static size_t next_bytes(const hr_pipeline *p, const struct hr__slot *from)
{
    const size_t here = from->size - from->taken;
    const size_t most = p->chunk_size - p->cut.carried; /* chunk_size is whole units */
    return here < most ? here : most;
}

/* In its source and in the stream. */
static void tell_place(struct hr__slot *chunk, const struct hr__slot *from)
{
    const hr_pipeline *p = chunk->lane->pipeline;
    const bool joint = p->cut.carried > 0;
    chunk->input = joint ? p->cut.carried_input : from->input;
    chunk->input_offset = joint ? p->cut.carried_offset : from->input->decoded_position;
    chunk->stream_offset = p->cut.stream_offset;
    if (p->cuts_any) { /* what was cut before says nothing of it */
        chunk->number = hr__order_number(from);
        chunk->input_offset = from->input_offset;
        chunk->stream_offset = from->stream_offset;
    }
}

/* A chunk of `whole` bytes, the first of which stands at `start`. */
static void place_chunk(struct hr__slot *chunk, struct hr__slot *from, const char *start,
                        size_t whole, size_t n)
{
    hr_pipeline *p = chunk->lane->pipeline;
    hr__lane_place(chunk);
    hr__slot_hold(from);
    chunk->holds = from;
    chunk->data = start;
    chunk->size = whole;
    tell_place(chunk, from);
    chunk->early = from->early && from->taken + n == from->size;
    chunk->verified = from->verified && (!p->cut.carried || p->cut.carried_verified);
    chunk->on_device = from->on_device;
    p->cut.stream_offset += whole;
    if (!p->chain)
        chunk->state = HR__SLOT_READY;
}

/* Carries the last `rest` of the bytes at `from`, or of what was carried before and all of them. */
static void carry(hr_pipeline *p, const struct hr__slot *from, const char *bytes, size_t rest,
                  size_t n)
{
    struct hr__cut_stage *cut = &p->cut;
    if (rest)
        memmove(cut->carry, bytes, rest);
    if (rest <= n) { /* it begins here */
        cut->carried_input = from->input;
        cut->carried_offset = from->input->decoded_position + n - rest;
        cut->carried_verified = true;
    }
    cut->carried_verified &= from->verified;
    cut->carried = rest;
}

/* In a device's memory nothing is joined: the host does not touch it. */
static bool refuse_part(hr_pipeline *p, const struct hr__slot *from, size_t unit)
{
    hr_error error;
    hr__fail(
        &error, HR_EINVAL,
        (struct hr__where){
            .stage = HR_STAGE_KERNEL, .chunk = p->chunks.tail, .offset = p->cut.stream_offset},
        "source %u is memory of a device, in which units are whole: at byte %llu of the stream "
        "one of %zu bytes is in two sources, or ends early",
        (unsigned)(from->input - p->inputs), (unsigned long long)p->cut.stream_offset, unit);
    return place_error(p, p->chunks.tail, &error);
}

static bool cut_chunk(hr_pipeline *p, struct hr__slot *from)
{
    struct hr__cut_stage *cut = &p->cut;
    const size_t unit = hr__chain_unit(p->chain);
    size_t n = next_bytes(p, from);
    if (from->on_device && (cut->carried || n < unit))
        return refuse_part(p, from, unit);
    if (from->on_device)
        n = n / unit * unit;
    if (cut->carried && !make_headroom(from))
        return false;
    const size_t whole = (cut->carried + n) / unit * unit;
    const size_t rest = cut->carried + n - whole;
    struct hr__slot *chunk = NULL;
    if (whole && !(chunk = hr__lane_take(&p->chunks, p->chunks.slot_size > 0)))
        return false;
    const char *start = from->data + from->taken - cut->carried;
    if (cut->carried)
        memcpy(from->memory + from->taken - cut->carried, cut->carry, cut->carried);
    if (chunk)
        place_chunk(chunk, from, start, whole, n);
    carry(p, from, start + whole, rest, n);
    from->taken += n;
    from->input->decoded_position += n;
    if (from->input->decoded_left != UINT64_MAX && (from->input->decoded_left -= n) == 0)
        hr__sched_stop_input(from->input);
    return true;
}

/* ---- the stage ---- */

static bool end_stream(hr_pipeline *p)
{
    if (!p->cut.carried) {
        p->cut.ended = true;
        return true;
    }
    hr_error error;
    hr__fail(&error, HR_ETRUNCATED,
             (struct hr__where){
                 .stage = HR_STAGE_KERNEL, .chunk = p->chunks.tail, .offset = p->cut.stream_offset},
             "the stream ends inside of a kernel's unit: %zu of %zu bytes are there at byte %llu",
             p->cut.carried, hr__chain_unit(p->chain), (unsigned long long)p->cut.stream_offset);
    return place_error(p, p->chunks.tail, &error);
}

/* Of what follows the block's bytes. */
static uint64_t number_behind(const struct hr__slot *from)
{
    const hr_pipeline *p = from->lane->pipeline;
    return p->cuts_any ? hr__order_number(from) + (from->size > 0) : p->chunks.tail;
}

static bool nothing_follows(const hr_pipeline *p)
{
    return p->decoding ? p->decode.ended : p->input_ended;
}

bool hr__cut_stage(hr_pipeline *p)
{
    if (p->cut.ended)
        return false;
    if (hr__lane_is_empty(p->cut_from))
        return !p->failed && nothing_follows(p) && end_stream(p);
    struct hr__slot *from = hr__lane_next(p->cut_from, p->cuts_any);
    if (!from)
        return false;
    const bool is_over = p->cuts_any && hr__order_passes_over(p, hr__order_number(from));
    if (!from->ends_input)
        trim_to_range(p, from);
    if (from->taken < from->size && !is_over)
        return cut_chunk(p, from);
    if (from->error.code && !is_over && !place_error(p, number_behind(from), &from->error))
        return false;
    hr__lane_pass(p->cut_from);
    hr__slot_drop(from);
    return true;
}
