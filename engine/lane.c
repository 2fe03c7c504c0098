// SPDX-License-Identifier: Apache-2.0
#include "lane.h"

#include <stdlib.h>

#include "context.h"
#include "loop.h"
#include "pipeline.h"

static hr_status lease(struct hr__slot *slot, size_t size);

static struct hr__memory *memory_of(const struct hr__lane *lane)
{
    return &lane->pipeline->loop->context->memory;
}

static hr_status make_slots(struct hr__lane *lane, hr_pipeline *pipeline, unsigned depth)
{
    lane->pipeline = pipeline;
    lane->slots = calloc(depth, sizeof *lane->slots);
    lane->order = calloc(depth, sizeof(struct hr__slot *));
    if (!lane->slots || !lane->order)
        return HR_ENOMEM;
    lane->depth = depth;
    for (unsigned i = depth; i-- > 0;) {
        lane->slots[i].lane = lane;
        lane->slots[i].next_free = lane->free_empty;
        lane->free_empty = &lane->slots[i];
    }
    return HR_OK;
}

hr_status hr__lane_init(struct hr__lane *lane, hr_pipeline *pipeline, unsigned depth,
                        size_t headroom, size_t slot_size)
{
    lane->headroom = headroom;
    lane->slot_size = slot_size;
    hr_status status = make_slots(lane, pipeline, depth);
    if (status != HR_OK || !slot_size)
        return status;
    struct hr__slot *first = lane->free_empty;
    status = lease(first, slot_size);
    if (status != HR_OK)
        return status;
    lane->free_empty = first->next_free;
    first->next_free = NULL;
    lane->free_leased = first;
    return HR_OK;
}

hr_status hr__lane_init_ring(struct hr__lane *lane, hr_pipeline *pipeline, unsigned depth,
                             size_t slot_size)
{
    lane->slot_size = slot_size;
    hr_status status = make_slots(lane, pipeline, depth);
    if (status == HR_OK)
        status = hr__memory_lease(memory_of(lane), depth * slot_size, NULL, &lane->ring);
    if (status != HR_OK)
        return status;
    lane->n_leased = depth;
    lane->leased_bytes = lane->ring->size;
    for (unsigned i = 0; i < depth; i++)
        lane->slots[i].memory = (char *)lane->ring->memory + i * slot_size;
    return HR_OK;
}

static uint64_t unpinned_bytes(const struct hr__lane *lane, const struct hr__region *region)
{
    return lane->pinned && region->pinned_by != lane->pinned ? region->size : 0;
}

static void return_region(struct hr__slot *slot)
{
    struct hr__lane *lane = slot->lane;
    if (!slot->region)
        return;
    lane->n_leased--;
    lane->leased_bytes -= slot->region->size;
    lane->unpinned_bytes -= unpinned_bytes(lane, slot->region);
    hr__memory_return(memory_of(lane), slot->region);
    slot->region = NULL;
    slot->memory = NULL;
}

void hr__lane_let_go(struct hr__lane *lane)
{
    for (unsigned i = 0; lane->slots && i < lane->depth; i++)
        return_region(&lane->slots[i]);
    if (lane->ring)
        hr__memory_return(memory_of(lane), lane->ring);
    lane->ring = NULL;
}

void hr__lane_destroy(struct hr__lane *lane)
{
    free(lane->slots);
    free(lane->order);
}

static struct hr__slot *pop(struct hr__slot **list)
{
    struct hr__slot *slot = *list;
    if (slot)
        *list = slot->next_free;
    return slot;
}

/* In a ring the next slot is the one whose memory follows. */
static struct hr__slot *take_of_ring(struct hr__lane *lane)
{
    struct hr__slot *slot = &lane->slots[lane->tail % lane->depth];
    return slot->state == HR__SLOT_FREE ? slot : NULL;
}

struct hr__slot *hr__lane_take(struct hr__lane *lane, bool with_memory)
{
    if (lane->ring)
        return take_of_ring(lane);
    if (!with_memory) {
        struct hr__slot *slot = pop(&lane->free_empty);
        return slot ? slot : pop(&lane->free_leased);
    }
    if (lane->free_leased)
        return pop(&lane->free_leased);
    struct hr__slot *slot = pop(&lane->free_empty);
    if (slot && !hr__slot_lease(slot, 0)) {
        hr__lane_untake(slot);
        return NULL;
    }
    return slot;
}

/* Memory of a free slot of the lane, if it is large enough, moves to this one. */
static bool steal(struct hr__slot *slot, size_t size)
{
    struct hr__lane *lane = slot->lane;
    struct hr__slot *free = lane->free_leased;
    if (!free || free->region->size < lane->headroom + size)
        return false;
    lane->free_leased = free->next_free;
    slot->region = free->region;
    slot->memory = free->memory;
    free->region = NULL;
    free->memory = NULL;
    free->next_free = lane->free_empty;
    lane->free_empty = free;
    return true;
}

static hr_status lease(struct hr__slot *slot, size_t size)
{
    struct hr__lane *lane = slot->lane;
    if (size < lane->slot_size)
        size = lane->slot_size;
    if (slot->region && slot->region->size >= lane->headroom + size)
        return HR_OK;
    if (steal(slot, size))
        return HR_OK;
    /* few sizes, so that kept regions fit again */
    const size_t step = lane->slot_size / 4 ? lane->slot_size / 4 : 1;
    struct hr__region *region;
    const size_t whole = lane->headroom + (size + step - 1) / step * step;
    const hr_status status = hr__memory_lease(memory_of(lane), whole, lane->pinned, &region);
    if (status != HR_OK)
        return status;
    return_region(slot);
    lane->pipeline->pinned_now |= region->pinned_now;
    slot->region = region;
    slot->memory = (char *)region->memory + lane->headroom;
    lane->n_leased++;
    lane->leased_bytes += region->size;
    lane->unpinned_bytes += unpinned_bytes(lane, region);
    return HR_OK;
}

bool hr__slot_lease(struct hr__slot *slot, size_t size)
{
    return lease(slot, size) == HR_OK;
}

void hr__lane_trim(struct hr__lane *lane)
{
    while (lane->free_leased && lane->n_leased > 1) {
        struct hr__slot *free = pop(&lane->free_leased);
        return_region(free);
        free->next_free = lane->free_empty;
        lane->free_empty = free;
    }
}

bool hr__slot_lease_within(struct hr__slot *slot, size_t size, uint64_t budget)
{
    struct hr__lane *lane = slot->lane;
    if (size < lane->slot_size)
        size = lane->slot_size;
    if ((slot->region && slot->region->size >= lane->headroom + size) || steal(slot, size))
        return true;
    hr__lane_trim(lane);
    if (lane->leased_bytes && lane->leased_bytes + size > budget)
        return false;
    return hr__slot_lease(slot, size);
}

void hr__lane_place(struct hr__slot *slot)
{
    struct hr__lane *lane = slot->lane;
    slot->state = HR__SLOT_BUSY;
    slot->refs = 1;
    slot->index = slot->number = lane->tail++;
    slot->holds = NULL;
    slot->data = slot->memory;
    slot->size = slot->taken = slot->wanted = slot->moved = slot->checked = 0;
    slot->ends_input = slot->early = slot->verified = slot->on_device = false;
    slot->input = NULL;
    slot->error.code = HR_OK;
    lane->order[slot->index % lane->depth] = slot;
}

struct hr__slot *hr__lane_place_error(struct hr__lane *lane, const hr_error *error)
{
    struct hr__slot *slot = hr__lane_take(lane, false);
    if (!slot)
        return NULL;
    hr__lane_place(slot);
    slot->error = *error;
    slot->stream_offset = error->offset;
    slot->state = HR__SLOT_READY;
    return slot;
}

static void release(struct hr__slot *slot)
{
    struct hr__lane *lane = slot->lane;
    slot->state = HR__SLOT_FREE;
    slot->data = NULL;
    if (lane->ring)
        return;
    struct hr__slot **list = slot->region ? &lane->free_leased : &lane->free_empty;
    slot->next_free = *list; /* the last one used comes first: it is still in the cache */
    *list = slot;
}

void hr__lane_untake(struct hr__slot *slot)
{
    release(slot);
}

void hr__lane_unplace(struct hr__slot *slot)
{
    slot->lane->tail--;
    release(slot);
}

struct hr__slot *hr__lane_at(const struct hr__lane *lane, uint64_t index)
{
    return lane->order[index % lane->depth];
}

struct hr__slot *hr__lane_head(const struct hr__lane *lane)
{
    return hr__lane_is_empty(lane) ? NULL : hr__lane_at(lane, lane->head);
}

struct hr__slot *hr__lane_last(const struct hr__lane *lane)
{
    return hr__lane_is_empty(lane) ? NULL : hr__lane_at(lane, lane->tail - 1);
}

static void prefer(struct hr__lane *lane, struct hr__slot *slot)
{
    for (uint64_t i = slot->index; i > lane->head; i--) {
        struct hr__slot *older = hr__lane_at(lane, i - 1);
        older->index = i;
        lane->order[i % lane->depth] = older;
    }
    slot->index = lane->head;
    lane->order[slot->index % lane->depth] = slot;
}

struct hr__slot *hr__lane_next(struct hr__lane *lane, bool any)
{
    const uint64_t end = any ? lane->tail : lane->head + 1;
    for (uint64_t i = lane->head; i < end && i < lane->tail; i++) {
        struct hr__slot *slot = hr__lane_at(lane, i);
        if (slot->state != HR__SLOT_READY || (slot->error.code && i > lane->head))
            continue;
        if (i > lane->head)
            prefer(lane, slot);
        return slot;
    }
    return NULL;
}

void hr__lane_pass(struct hr__lane *lane)
{
    hr__lane_head(lane)->state = HR__SLOT_TAKEN;
    lane->head++;
}

bool hr__lane_is_empty(const struct hr__lane *lane)
{
    return lane->head == lane->tail;
}

void hr__slot_hold(struct hr__slot *slot)
{
    slot->refs++;
}

void hr__slot_drop(struct hr__slot *slot)
{
    while (slot && --slot->refs == 0) {
        struct hr__slot *held = slot->holds;
        release(slot);
        slot = held;
    }
}
