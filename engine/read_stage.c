// SPDX-License-Identifier: Apache-2.0
/* Fills blocks from the sources, in stream order: files with several reads at once, pipes and
 * callbacks one read at a time, memory without any. A block without bytes marks the end of each
 * source. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "order.h"
#include "pipeline.h"
#include "sched.h"
#include "status.h"

/* What was read before it is delivered first. Nothing is read beyond it. */
static void fail_block(struct hr__slot *block, hr_status code, int native, const char *what)
{
    char name[256];
    hr_pipeline *p = block->lane->pipeline;
    const uint64_t at = block->input_offset + block->moved;
    hr__fail(&block->error, code,
             (struct hr__where){.stage = HR_STAGE_READ,
                                .native = native,
                                .chunk = hr__order_number(block),
                                .offset = block->stream_offset + block->moved},
             "read %s at byte %llu: %s", hr__sched_name(block->input, name, sizeof name),
             (unsigned long long)(block->input->origin + at), what);
    block->size = block->moved;
    block->state = HR__SLOT_READY;
    p->input_ended = true;
}

static void fail_system(struct hr__slot *block, int native)
{
    fail_block(block, native == ECANCELED ? HR_ECANCELED : HR_EIO, native, strerror(native));
}

static void place_block(struct hr__slot *block, struct hr__input *in, size_t wanted)
{
    hr__lane_place(block);
    block->input = in;
    block->stream_offset = in->pipeline->read_index;
    block->input_offset = in->position;
    block->wanted = wanted;
}

static void block_arrived(struct hr__slot *block, size_t size)
{
    block->size = size;
    block->state = HR__SLOT_READY;
    hr__sched_count(block->lane->pipeline, HR_STAGE_READ, size, size);
}

static void end_input(struct hr__input *in)
{
    in->end = in->position;
    in->skip = 0;
}

/* Also an empty range is taken from a pipe up to its offset: what follows is the next reader's. */
static bool at_end(const struct hr__input *in)
{
    return in->position >= in->end && in->skip == 0;
}

/* ---- files: reads at offsets, several at once ---- */

static void submit_file_read(struct hr__slot *block);

/* A direct read may bring more than was wanted: whole blocks of the device. */
static void count_read(struct hr__slot *block, size_t n, uint32_t flags)
{
    const size_t left = block->wanted - block->moved;
    const size_t counts = n < left ? n : left;
    block->moved += counts;
    if (flags & HR__IO_DIRECT)
        block->lane->pipeline->direct_bytes += counts;
}

static void file_read_done(struct hr__io_request *request)
{
    struct hr__slot *block = request->owner;
    hr_pipeline *p = block->lane->pipeline;
    hr__sched_submitted(block, HR_STAGE_READ);
    if (hr__direct_refused(&block->input->file, request)) {
        submit_file_read(block);
        return;
    }
    if (request->result > 0)
        count_read(block, (size_t)request->result, request->flags);
    if (request->result < 0)
        fail_system(block, (int)-request->result);
    else if (request->result == 0)
        fail_block(block, HR_ETRUNCATED, 0, "the file became shorter while it was read");
    else if (block->moved < block->wanted && !hr__order_passes_over(p, hr__order_number(block)))
        submit_file_read(block); /* a short read says nothing about the end */
    else
        block_arrived(block, block->moved);
}

static void submit_file_read(struct hr__slot *block)
{
    struct hr__input *in = block->input;
    char *buffer = block->memory + block->moved;
    const uint64_t offset = in->file.start + block->input_offset + block->moved;
    const struct hr__io_part part =
        hr__direct_plan_read(&in->file, buffer, offset, block->wanted - block->moved, 0);
    const struct hr__io_request request = {
        .op = HR__IO_READ,
        .fd = part.fd,
        .flags = part.flags,
        .buffer = buffer,
        .size = part.size,
        .offset = offset,
        .region = hr__loop_region(in->pipeline->loop,
                                  block->lane->ring ? block->lane->ring : block->region),
        .done = file_read_done,
    };
    hr__sched_submit(block, HR_STAGE_READ, request);
}

/* The reads of the first round begin at once, in cold slots: of one size, they would all end late, and
 * the sink idle until then. The first ones are short, and each is longer than the one before. */
static size_t usual_size(const hr_pipeline *p)
{
    const size_t whole = p->blocks.slot_size;
    const size_t least = whole / 8;
    if (!p->ramps || p->blocks.tail >= p->depth)
        return whole;
    const size_t size = least + (whole - least) / p->depth * (size_t)p->blocks.tail;
    return size < HR__SHORT_READ ? HR__SHORT_READ : size / HR__SHORT_READ * HR__SHORT_READ;
}

static size_t next_size(const hr_pipeline *p, const struct hr__input *in)
{
    const uint64_t left = in->end - in->position;
    const size_t align = hr__direct_alignment(&in->file);
    size_t most = usual_size(p);
    /* A range may begin anywhere: then the first is shorter. What is decoded has no gaps: there a
     * range that begins between the device's blocks is read through the page cache. */
    if (in->codec == HR_CODEC_NONE && align > 1 && align < most)
        most -= (in->file.start + in->position) % align;
    return left < most ? (size_t)left : most;
}

/* For the null sink a worker copies what is cached, and looks at each piece while it is still in the
 * nearest cache. Nobody wants the bytes after that, so each piece is read over the last one: memory
 * is passed once. The rest is read as usual, to its place. */
static void read_cached(struct hr__job *job)
{
    enum { PIECE = 256 << 10 }; /* half of a usual second-level cache */
    struct hr__slot *block = job->owner;
    const hr_pipeline *p = block->lane->pipeline;
    const struct hr__file *file = &block->input->file;
    const uint64_t offset = file->start + block->input_offset;
    hr__reduce_init(&p->crc_spec, block->crc);
    size_t n = 1;
    while (n > 0 && block->moved < block->wanted) {
        const size_t left = block->wanted - block->moved;
        n = hr__file_read_cached(file, block->memory, left < PIECE ? left : PIECE,
                                 offset + block->moved);
        hr__reduce_fold(&p->crc_spec, block->crc, block->memory, n,
                        block->stream_offset + block->moved);
        block->moved += n;
    }
    block->checked = block->moved;
}

static void read_cached_done(struct hr__job *job)
{
    struct hr__slot *block = job->owner;
    hr__sched_ran(block, HR_STAGE_READ);
    if (block->moved < block->wanted)
        submit_file_read(block);
    else
        block_arrived(block, block->moved);
}

static bool start_file(hr_pipeline *p, struct hr__input *in)
{
    struct hr__slot *block = hr__lane_take(&p->blocks, true);
    if (!block)
        return false;
    const size_t size = next_size(p, in);
    place_block(block, in, size);
    in->position += size;
    p->read_index += size;
    if (p->checks_blocks)
        hr__sched_run(block, HR_STAGE_READ, read_cached, read_cached_done);
    else
        submit_file_read(block);
    return true;
}

/* ---- memory: the block refers to the user's bytes ---- */

/* Where a unit may begin in the source before, the block's bytes move to memory of its own. It has
 * that from the start: if blocks waited for it, younger ones could have all that there is. */
static bool may_be_joined(const hr_pipeline *p)
{
    return p->n_inputs > 1 && hr__chain_unit(p->chain) > 1;
}

/* What a device's driver does not know goes through pinned slots: its own copy would be slow, and
 * would hold up the loop. */
static void copy_memory(struct hr__job *job)
{
    struct hr__slot *block = job->owner;
    const char *data = block->input->config.data;
    memcpy(block->memory, data + block->input_offset, block->wanted);
}

static void memory_copied(struct hr__job *job)
{
    struct hr__slot *block = job->owner;
    hr__sched_ran(block, HR_STAGE_READ);
    block_arrived(block, block->wanted);
}

static bool start_memory(hr_pipeline *p, struct hr__input *in)
{
    struct hr__slot *block = hr__lane_take(&p->blocks, in->staged || may_be_joined(p));
    if (!block)
        return false;
    const size_t size = next_size(p, in);
    const char *data = (const char *)in->config.data + in->position;
    place_block(block, in, size);
    in->position += size;
    p->read_index += size;
    if (in->staged && in->codec == HR_CODEC_NONE) {
        hr__sched_run(block, HR_STAGE_READ, copy_memory, memory_copied);
        return true;
    }
    block->on_device = in->config.kind == HR_DEVICE;
    if (in->codec == HR_CODEC_NONE)
        block->data = data;
    else
        memcpy(block->memory, data, size); /* frames lie across blocks, which must be neighbours */
    block_arrived(block, size);
    return true;
}

/* ---- pipes, and all else that has no offsets: one read at a time, leased when readable ---- */

static bool readable_now(int fd)
{
    struct pollfd event = {.fd = fd, .events = POLLIN};
    return poll(&event, 1, 0) > 0;
}

/* What the last read brought, n bytes, becomes part of the block; bytes before a range are dropped.
 */
static void take_bytes(struct hr__slot *block, size_t n)
{
    struct hr__input *in = block->input;
    const size_t dropped = in->skip < n ? (size_t)in->skip : n;
    in->skip -= dropped;
    in->pipeline->dropped_bytes += dropped;
    if (dropped && dropped < n) {
        char *at = block->memory + block->moved;
        memmove(at, at + dropped, n - dropped);
    }
    block->moved += n - dropped;
    in->position += n - dropped;
    in->pipeline->read_index += n - dropped;
}

static void leave(struct hr__slot *block)
{
    block->early = block->moved < block->wanted;
    if (block->moved)
        block_arrived(block, block->moved);
    else
        hr__lane_unplace(block);
}

static void in_order_read_done(struct hr__slot *block, int64_t result)
{
    struct hr__input *in = block->input;
    if (result < 0) {
        fail_system(block, hr__sched_native(result));
    } else if (result == 0) {
        end_input(in);
        leave(block);
    } else {
        take_bytes(block, (size_t)result);
        if (block->moved == block->wanted || at_end(in))
            leave(block);
        else
            block->state = HR__SLOT_FILLING;
    }
}

static void pipe_read_done(struct hr__io_request *request)
{
    struct hr__slot *block = request->owner;
    struct hr__input *in = block->input;
    hr__sched_submitted(block, HR_STAGE_READ);
    in_order_read_done(block, request->result);
    in->readable = request->result > 0 && readable_now(in->file.fd);
}

/* Perhaps it is not encoded (see hr__decode_stage): then no byte beyond the range may be taken. It is
 * decided by the first four, and the range has as many: see set_range. */
static uint64_t left_undecided(const struct hr__input *in)
{
    if (in->decoded_left > UINT64_MAX - in->decoded_skip)
        return UINT64_MAX;
    return in->decoded_skip + in->decoded_left - in->position;
}

static void submit_pipe_read(struct hr__slot *block)
{
    const struct hr__input *in = block->input;
    const uint64_t left = in->end - in->position; /* of the range: no byte beyond it is taken */
    const size_t room = block->wanted - block->moved;
    uint64_t most = left < UINT64_MAX - in->skip ? left + in->skip : UINT64_MAX;
    if (in->codec == HR_CODEC_AUTO && left_undecided(in) < most)
        most = left_undecided(in);
    block->state = HR__SLOT_BUSY;
    const struct hr__io_request request = {
        .op = HR__IO_RECV,
        .fd = in->file.fd,
        .flags = in->file.io_flags,
        .buffer = block->memory + block->moved,
        .size = most < room ? (size_t)most : room,
        .region = -1,
        .done = pipe_read_done,
    };
    hr__sched_submit(block, HR_STAGE_READ, request);
}

/* The newest block, if it is being filled. */
static struct hr__slot *filling_block(hr_pipeline *p)
{
    struct hr__slot *block = hr__lane_last(&p->blocks);
    return block && block->state == HR__SLOT_FILLING ? block : NULL;
}

/* A peer may wait for an answer to the little that it sent: a block that is not full leaves as soon
 * as nothing more is waiting and nothing else is under way. Decode needs no such thing: it looks at
 * the bytes of a block that is still filling. */
static bool may_leave(const hr_pipeline *p, const struct hr__slot *block)
{
    const struct hr__input *in = block->input;
    const bool enough = block->moved >= p->min_fill ||
                        (p->max_wait_ns && hr__now_ns() >= block->placed_ns + p->max_wait_ns);
    return in->codec == HR_CODEC_NONE && !in->readable && enough && hr__sched_idle(p);
}

static bool start_pipe(hr_pipeline *p, struct hr__input *in)
{
    struct hr__slot *block = filling_block(p);
    if (block && may_leave(p, block)) {
        leave(block);
        return true;
    }
    if (!in->readable) {
        if (in->polling)
            return false;
        hr__sched_poll(in);
        return true;
    }
    if (!block) {
        if (!(block = hr__lane_take(&p->blocks, true)))
            return false;
        place_block(block, in, p->blocks.slot_size);
        block->placed_ns = hr__now_ns();
    }
    submit_pipe_read(block);
    return true;
}

/* ---- callbacks: one call at a time, on a worker ---- */

static void call_read(struct hr__job *job)
{
    struct hr__slot *block = job->owner;
    const struct hr__input *in = block->input;
    block->job_result = -ECANCELED;
    if (!hr__pipeline_is_cancelled(in->pipeline))
        block->job_result =
            in->config.read(in->config.user, block->memory + block->moved,
                            block->wanted - block->moved, in->origin + in->position);
}

static void call_read_done(struct hr__job *job)
{
    struct hr__slot *block = job->owner;
    hr__sched_ran(block, HR_STAGE_READ);
    if (block->job_result > (int64_t)(block->wanted - block->moved)) {
        fail_block(block, HR_EINVAL, 0, "the callback returned more bytes than it was asked for");
        return;
    }
    in_order_read_done(block, block->job_result);
    if (block->state == HR__SLOT_FILLING && block->input->codec == HR_CODEC_NONE)
        leave(block);
}

static bool start_callback(hr_pipeline *p, struct hr__input *in)
{
    struct hr__slot *block = filling_block(p);
    if (!block) {
        if (!(block = hr__lane_take(&p->blocks, true)))
            return false;
        place_block(block, in, next_size(p, in));
    }
    block->state = HR__SLOT_BUSY;
    hr__sched_run(block, HR_STAGE_READ, call_read, call_read_done);
    return true;
}

/* ---- the stage ---- */

static bool reading_in_order(const hr_pipeline *p)
{
    const struct hr__slot *block = hr__lane_last(&p->blocks);
    return block && block->state == HR__SLOT_BUSY && block->input->in_order;
}

/* A block that is still filling leaves first; then the mark follows. */
static bool start_next_input(hr_pipeline *p, struct hr__input *in)
{
    struct hr__slot *filling = filling_block(p);
    if (filling)
        leave(filling);
    struct hr__slot *mark = hr__lane_take(&p->blocks, false);
    if (!mark)
        return filling != NULL;
    place_block(mark, in, 0);
    mark->ends_input = true;
    mark->state = HR__SLOT_READY;
    p->current++;
    p->input_ended = p->current == p->n_inputs;
    return true;
}

bool hr__read_stage(hr_pipeline *p)
{
    if (p->input_ended || reading_in_order(p))
        return false;
    struct hr__input *in = &p->inputs[p->current];
    if (at_end(in))
        return start_next_input(p, in);
    switch ((enum hr_end_kind)in->config.kind) {
    case HR_MEMORY:
    case HR_DEVICE:
        return start_memory(p, in);
    case HR_CALLBACK:
        return start_callback(p, in);
    case HR_FILE:
    case HR_FD:
    case HR_SOCKET:
        return in->file.positional ? start_file(p, in) : start_pipe(p, in);
    case HR_NULL:
    case HR_PULL:
        break; /* no source: refused at creation */
    }
    return false;
}
