// SPDX-License-Identifier: Apache-2.0
/* Plans a chain: segments, units, and the memory that chunks need between kernels. */
#include <assert.h>
#include <stdlib.h>

#include "chain.h"
#include "status.h"

static const struct hr__where here = {.stage = HR_STAGE_KERNEL};

enum { ALIGNMENT = 256 }; /* of buffers between kernels: what a GPU likes, and cache lines */

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static size_t round_up(size_t size)
{
    return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* ---- segments and units ---- */

static bool maps(const struct hr__link *link)
{
    return link->info.unit_out_bytes != 0;
}

/* Finds the smallest number of bytes that is whole units for every kernel of the segment. At a
 * kernel there are unit * a / b bytes, a / b being the ratio of what precedes it; that must be a
 * multiple of its own unit u, so `unit` must be one of u * b / gcd(u * b, a). */
static hr_status find_unit(const struct hr__chain *chain, struct hr__segment *segment,
                           hr_error *error)
{
    uint64_t unit = 1;
    uint64_t a = 1;
    uint64_t b = 1;
    for (unsigned i = segment->first; i < segment->end; i++) {
        const struct hr__link *link = &chain->links[i];
        const uint64_t in = link->info.unit_in_bytes;
        const uint64_t wanted = in * b / gcd(in * b, a);
        unit = unit / gcd(unit, wanted) * wanted;
        if (unit > 1u << 30)
            return hr__fail(error, HR_EINVAL, here,
                            "kernels: the units of kernels 0 to %u have no common multiple under 1 "
                            "GiB",
                            i);
        if (!maps(link))
            continue;
        const uint64_t common = gcd(a * link->info.unit_out_bytes, b * in);
        a = a * link->info.unit_out_bytes / common;
        b = b * in / common;
    }
    segment->unit = (size_t)unit;
    return HR_OK;
}

/* Later segments have one stream where carried bytes are copied by the device: the copies are in
 * order with the kernels around them then. */
static void assign_queues(const struct hr__chain *chain, struct hr__segment *segment)
{
    const struct hr__segment *before = segment - 1;
    const bool first = segment == chain->segments;
    segment->first_queue = first ? 0 : before->first_queue + before->n_queues;
    segment->n_queues = first || chain->host_memory ? chain->n_streams : 1;
}

static hr_status cut_segments(struct hr__chain *chain, hr_error *error)
{
    chain->segments = calloc((size_t)chain->n_links + 1, sizeof *chain->segments);
    if (!chain->segments)
        return hr__fail(error, HR_ENOMEM, here, "kernels: out of memory");
    unsigned first = 0;
    for (unsigned i = 0; i < chain->n_links || chain->n_segments == 0; i++) {
        if (i + 1 < chain->n_links && !chain->links[i].info.is_counted)
            continue;
        struct hr__segment *segment = &chain->segments[chain->n_segments++];
        segment->first = first;
        segment->end = first = i < chain->n_links ? i + 1 : 0;
        assign_queues(chain, segment);
        const hr_status status = find_unit(chain, segment, error);
        if (status < 0)
            return status;
        assert(segment->unit > 0);
    }
    return HR_OK;
}

/* ---- memory ---- */

struct sizes {
    uint64_t bytes;   /* of a chunk, at most */
    uint64_t of_unit; /* of the first segment's */
    uint64_t largest; /* that a kernel writes */
    unsigned n_maps;
};

static hr_status follow_segment(struct hr__chain *chain, const struct hr__segment *segment,
                                struct sizes *sizes, hr_error *error)
{
    for (unsigned i = segment->first; i < segment->end; i++) {
        const struct hr__kernel_info *info = &chain->links[i].info;
        if (!maps(&chain->links[i]))
            continue;
        sizes->n_maps++;
        sizes->bytes = sizes->bytes / info->unit_in_bytes * info->unit_out_bytes;
        sizes->of_unit = sizes->of_unit / info->unit_in_bytes * info->unit_out_bytes;
        if (sizes->bytes > sizes->largest)
            sizes->largest = sizes->bytes;
        chain->unit_out = info->unit_out_bytes;
        if (sizes->bytes > 1ull << 32)
            return hr__fail(error, HR_EINVAL, here,
                            "kernels: kernel %u gives over 4 GiB for a chunk; set chunk_size lower",
                            i);
    }
    return HR_OK;
}

/* On the host the input stays where it is, and what is carried is joined in headroom. A device with
 * memory of its own has the input in the first buffer, and joins carried bytes by copying all into
 * the other, so that kernels find them aligned. */
static void size_buffers(struct hr__chain *chain, const struct sizes *sizes, size_t chunk_size)
{
    uint64_t largest = sizes->largest;
    chain->maps = sizes->n_maps > 0;
    if (chain->host_memory) {
        chain->n_buffers = sizes->n_maps > 2 ? 2 : sizes->n_maps;
    } else {
        chain->n_buffers = chain->maps || chain->n_segments > 1 ? 2 : 1;
        if (largest < chunk_size)
            largest = chunk_size;
    }
    chain->buffer_bytes = chain->headroom + round_up((size_t)largest);
}

/* Follows the largest chunk through the chain. *largest: what it is at most, between kernels. */
static hr_status find_sizes(struct hr__chain *chain, size_t chunk_size, uint64_t *largest,
                            hr_error *error)
{
    struct sizes sizes = {.bytes = chunk_size, .of_unit = hr__chain_unit(chain)};
    hr_status status = HR_OK;
    chain->unit_out = 1;
    for (unsigned s = 0; s < chain->n_segments && status == HR_OK; s++) {
        const struct hr__segment *segment = &chain->segments[s];
        if (s > 0) { /* with what was carried */
            sizes.bytes += segment->unit - 1;
            if (sizes.bytes > sizes.largest)
                sizes.largest = sizes.bytes;
            if (chain->host_memory && segment->unit - 1 > chain->headroom)
                chain->headroom = round_up(segment->unit - 1);
        }
        status = follow_segment(chain, segment, &sizes, error);
    }
    chain->last_bytes = (size_t)sizes.bytes;
    chain->bytes_out_of_unit = sizes.of_unit;
    size_buffers(chain, &sizes, chunk_size);
    *largest = sizes.largest;
    return status;
}

static size_t whole_units(const struct hr__chain *chain, size_t size)
{
    const size_t unit = hr__chain_unit(chain);
    assert(unit > 0);
    return size < unit ? unit : size / unit * unit;
}

/* Kernels that write more than they read make chunks smaller: what they write is to have the size. */
hr_status hr__chain_plan(struct hr__chain *chain, size_t *chunk_size, bool may_shrink,
                         hr_error *error)
{
    const size_t wanted = *chunk_size;
    uint64_t largest = 0; /* without padding, which would make small chunks ever smaller */
    hr_status status = cut_segments(chain, error);
    if (status < 0)
        return status;
    *chunk_size = whole_units(chain, wanted);
    status = find_sizes(chain, *chunk_size, &largest, error);
    if (status < 0 || !may_shrink || largest <= 2 * (uint64_t)wanted)
        return status;
    const double ratio = (double)wanted / (double)largest;
    *chunk_size = whole_units(chain, (size_t)((double)wanted * ratio));
    return find_sizes(chain, *chunk_size, &largest, error);
}

/* ---- what others ask ---- */

size_t hr__chain_unit(const struct hr__chain *chain)
{
    assert(!chain || chain->segments);
    return chain ? chain->segments[0].unit : 1;
}

bool hr__chain_is_counted(const struct hr__chain *chain)
{
    for (unsigned i = 0; i < chain->n_links; i++)
        if (chain->links[i].info.is_counted)
            return true;
    return false;
}

uint64_t hr__chain_place(const struct hr__chain *chain, uint64_t offset)
{
    return chain ? offset / hr__chain_unit(chain) * chain->bytes_out_of_unit : offset;
}
