// SPDX-License-Identifier: Apache-2.0
/* What a pipeline is made of, decided once from its config: ends, device, sizes, lanes, codecs. */
#include "pipeline_plan.h"

#include <stdlib.h>
#include <string.h>

#include "device_ends.h"
#include "endpoints.h"
#include "order.h"
#include "status.h"

static const struct hr__where nowhere;

enum {
    STREAM_CHUNK = 512 << 10,
    MOVED_CHUNK = 2 << 20,
    DEFAULT_CHUNK = 4 << 20,
    DIRECT_CHUNK = 16 << 20,
    DEFAULT_DEPTH = 8,
    MAX_DEPTH = 65536,
    MAX_CHUNK = 1 << 30, /* what io_uring registers at most as one buffer */
    DEFAULT_FRAME = 1 << 20,
    DEFAULT_WINDOW_LOG = 27,
    RING_BLOCK = 1 << 20, /* of encoded input */
    PAGE = 4096,          /* the alignment that direct I/O may want */
};

static hr_status bad(hr_error *error, const char *what)
{
    return hr__fail(error, HR_EINVAL, nowhere, "pipeline: %s", what);
}

static hr_status no_memory(hr_error *error)
{
    return hr__fail(error, HR_ENOMEM, nowhere, "pipeline: out of memory");
}

static hr_status check_config(const struct hr_pipeline_config *c, hr_error *error)
{
    if (c->chunk_size > MAX_CHUNK)
        return bad(error, "chunk_size is over 1 GiB");
    if (c->frame_size > MAX_CHUNK)
        return bad(error, "frame_size is over 1 GiB");
    if (c->depth > MAX_DEPTH)
        return bad(error, "depth is over 65536 (depth, --depth)");
    if (c->flags & ~(uint32_t)(HR_UNORDERED | HR_STRICT))
        return bad(error, "it has flags that are not known");
    if (c->decode > HR_CODEC_AUTO || c->encode > HR_CODEC_ZSTD)
        return bad(error, "decode or encode is not a codec that is offered there");
    if (c->direct > HR_DIRECT_ON)
        return bad(error, "direct is not an hr_direct");
    if (c->window_log && (c->window_log < 10 || c->window_log > 31))
        return bad(error, "window_log is not between 10 and 31");
    if (c->dict_size && !c->dict)
        return bad(error, "dict is NULL and dict_size is not 0");
    if (c->n_kernels && !c->kernels)
        return bad(error, "kernels is NULL and n_kernels is not 0");
    if ((c->flags & HR_UNORDERED) && c->encode)
        return bad(error, "HR_UNORDERED does not go with encode");
    return HR_OK;
}

static hr_status set_codecs(hr_pipeline *p, const struct hr_pipeline_config *c, hr_error *error)
{
    p->decoding = (enum hr_codec)c->decode;
    p->encoding = (enum hr_codec)c->encode;
    if (!HR_HAVE_ZSTD && p->decoding == HR_CODEC_AUTO)
        p->decoding = HR_CODEC_NONE;
    if (!HR_HAVE_ZSTD && (p->decoding || p->encoding))
        return hr__fail(error, HR_EUNSUPPORTED, nowhere,
                        "pipeline: this build has no zstd; build it with libzstd");
    p->encode_level = c->encode_level ? c->encode_level : 3;
    p->window_log = c->window_log ? c->window_log : DEFAULT_WINDOW_LOG;
    if (!c->dict_size)
        return HR_OK;
    p->dict = malloc((size_t)c->dict_size);
    if (!p->dict)
        return no_memory(error);
    memcpy(p->dict, c->dict, (size_t)c->dict_size);
    p->dict_size = (size_t)c->dict_size;
    return HR_OK;
}

static unsigned n_workers(const hr_pipeline *p)
{
    return hr__pool_size(p->loop->context->pool);
}

static unsigned clamp(unsigned value, unsigned least, unsigned most)
{
    return value < least ? least : value < most ? value : most;
}

/* Pipes and sockets: one read at a time, by one thread. */
static bool reads_streams(const hr_pipeline *p)
{
    bool any = false;
    for (unsigned i = 0; i < p->n_inputs; i++)
        any |= p->inputs[i].in_order && p->inputs[i].config.kind != HR_CALLBACK;
    return any;
}

/* Decoding wants two spans for each worker, and some that are read and written meanwhile; more would
 * leave the last-level cache (measured with 2 workers, frames of 8 MiB and 32 MiB of L3: 12 chunks
 * take 1.07 of the time of 8). A device's link wants as many copies of the page cache under way as
 * fill it (eight, on a machine of 16 cores), and as many that are on the link or behind. Bytes that
 * are only moved want one for each worker and two more. */
static unsigned default_depth(const hr_pipeline *p)
{
    const bool copies = hr__device_ends_copy(p);
    if (p->decoding)
        return clamp(2 * (n_workers(p) + 2), DEFAULT_DEPTH, 32) + (copies ? DEFAULT_DEPTH : 0);
    if (copies)
        return p->is_direct ? DEFAULT_DEPTH : 2 * DEFAULT_DEPTH;
    if (p->store)
        return DEFAULT_DEPTH;
    return reads_streams(p) ? clamp(2 * (n_workers(p) + 2), 8, 16) : clamp(n_workers(p) + 2, 4, 16);
}

/* What is read should still be in a cache when it is written, so where bytes are only moved chunks
 * are small: one huge page. (Measured on 2 cores, cached file to null: 4 chunks of 2 MiB take 0.75
 * of the time of 8 of 4 MiB; of 1 and 8 MiB 0.80 and 0.92.) What one thread receives stays in its
 * second-level cache (TCP to null: 8 chunks of 512 KiB take 0.86 of the time of 4 of 2 MiB). A device wants larger ones, and very
 * large ones where nothing is between its memory and that of the ends (measured on an H200, both
 * directions at once: 0.85 of the link with 4 MiB, 0.92 with 16). */
static size_t default_chunk(const hr_pipeline *p)
{
    if (p->is_direct)
        return DIRECT_CHUNK;
    if (!p->decoding && !p->store && reads_streams(p))
        return STREAM_CHUNK;
    return p->decoding || p->store ? DEFAULT_CHUNK : MOVED_CHUNK;
}

static size_t round_up(size_t size, size_t unit)
{
    return (size + unit - 1) / unit * unit;
}

/* Without which the lane cannot be. */
static uint64_t least_bytes(const struct hr__lane *lane, bool ring)
{
    const uint64_t slot = lane->slot_size ? lane->headroom + lane->slot_size : 0;
    return ring ? slot * lane->depth : slot;
}

/* Who is told to try later tries for ever, if it can never be. */
static hr_status lane_error(const hr_pipeline *p, hr_status status, hr_error *error)
{
    if (status == HR_OK)
        return HR_OK;
    const uint64_t most = p->loop->context->memory.max_bytes;
    const uint64_t least = least_bytes(&p->blocks, p->decoding) + least_bytes(&p->spans, false) +
                           least_bytes(&p->chunks, false) + least_bytes(&p->frames, false);
    if (status == HR_AGAIN && least > most)
        return hr__fail(
            error, HR_ENOMEM, nowhere,
            "pipeline: it takes %llu bytes of memory at least, and the context's "
            "max_memory is %llu (max_memory, --memory); set that higher, or chunk_size or "
            "frame_size lower",
            (unsigned long long)least, (unsigned long long)most);
    return hr__fail(error, status, nowhere, "pipeline: no memory for one chunk of %zu bytes: %s",
                    p->chunk_size,
                    status == HR_AGAIN ? "the context's memory is all leased (max_memory, --memory)"
                                       : "the system has no more; set chunk_size lower");
}

/* Blocks of encoded input lie one behind the other, so that frames seldom lie in two pieces. */
static hr_status make_decode_lanes(hr_pipeline *p, size_t headroom)
{
    const size_t block = round_up(p->chunk_size < RING_BLOCK ? p->chunk_size : RING_BLOCK, PAGE);
    const unsigned n_blocks = 4 * (n_workers(p) + 2);
    hr_status status = hr__lane_init_ring(&p->blocks, p, n_blocks < 16 ? 16 : n_blocks, block);
    if (status == HR_OK)
        status = hr__lane_init(&p->spans, p, p->depth, headroom, p->chunk_size);
    /* With headroom and whole pages: `depth` spans of the usual size have to fit, else those that
     * the user has on loan stop the pipeline too early. */
    p->decode.budget = p->depth * p->spans.leased_bytes;
    return status;
}

#if HR_HAVE_ZSTD
/* Frames on their way: enough that no worker waits, while they are not too large. */
static unsigned frames_depth(const hr_pipeline *p, size_t slot)
{
    enum { MOST = 64 << 20 };
    const unsigned usual = 2 * n_workers(p) + 2;
    const size_t fit = MOST / slot;
    return fit >= usual ? usual : clamp((unsigned)fit, n_workers(p) + 1, usual);
}
#endif

/* A frame is no larger than the stream, where that is known. */
static size_t frame_size(const hr_pipeline *p, uint64_t wanted)
{
    const uint64_t size = wanted ? wanted : DEFAULT_FRAME;
    uint64_t total = 0;
    for (unsigned i = 0; i < p->n_inputs; i++) {
        const struct hr__input *in = &p->inputs[i];
        if (in->codec || in->total > UINT32_MAX || p->chain)
            return (size_t)size;
        total += in->total;
    }
    return (size_t)(total < size ? (total ? total : 1) : size);
}

/* Memory of a chunk for what kernels write on the host, or what comes back from a device. */
static size_t chunk_bytes(const hr_pipeline *p)
{
    const struct hr__chain *chain = p->chain;
    if (!chain)
        return 0;
    if (chain->host_memory)
        return chain->n_buffers * chain->buffer_bytes;
    bool comes_back = chain->maps || !chain->n_links;
    for (unsigned i = 0; i < p->n_inputs; i++)
        comes_back |= p->inputs[i].config.kind == HR_DEVICE;
    return comes_back && !p->keeps_on_device && !p->places ? chain->last_bytes : 0;
}

/* What the device's driver refuses to know is copied all the same, slowly: that is told. */
static hr_status check_pins(hr_pipeline *p, hr_error *error)
{
    p->unpinned_bytes = hr__pipeline_unpinned(p);
    if (!p->unpinned_bytes)
        return HR_OK;
    const char *name = p->store->device->ops->info(p->store->device)->name;
    if (p->flags & HR_STRICT)
        return hr__fail(error, HR_EUNSUPPORTED, nowhere,
                        "pipeline: the driver of %s does not pin the chunks' memory, which is an "
                        "error here (HR_STRICT, --strict); is the limit of locked memory too low "
                        "(ulimit -l)?",
                        name);
    hr__context_log(p->loop->context,
                    "the driver of %s does not pin the chunks' memory: copies are slow", name);
    return HR_OK;
}

static hr_status make_lanes(hr_pipeline *p, hr_error *error)
{
    const size_t unit = hr__chain_unit(p->chain);
    const size_t headroom = round_up(unit - 1, PAGE);
    hr_status status;
    if (unit > 1 && !(p->cut.carry = malloc(unit)))
        return no_memory(error);
    p->cut_from = p->decoding ? &p->spans : &p->blocks;
    if (hr__device_ends_copy(p))
        p->cut_from->pinned = p->chunks.pinned = p->store->device;
    if (p->decoding)
        status = make_decode_lanes(p, headroom);
    else
        status = hr__lane_init(&p->blocks, p, p->depth, headroom, p->chunk_size);
    if (status == HR_OK)
        status = hr__lane_init(&p->chunks, p, p->depth, 0, chunk_bytes(p));
    p->out = &p->chunks;
#if HR_HAVE_ZSTD
    if (p->encoding && status == HR_OK) {
        const size_t slot = p->encode.frame_size + hr__encode_bound(p->encode.frame_size);
        p->out = &p->frames;
        status = hr__lane_init(&p->frames, p, frames_depth(p, slot), 0, slot);
    }
#endif
    status = lane_error(p, status, error);
    return status == HR_OK ? check_pins(p, error) : status;
}

#if HR_HAVE_ZSTD
static hr_status prepare_kind(hr_pipeline *p, struct hr__codec_kind kind, hr_error *error)
{
    struct hr__codec_error why;
    kind.dict = p->dict;
    kind.dict_size = p->dict_size;
    const enum hr__codec_code code = hr__codecs_prepare(&p->loop->context->codecs, kind, &why);
    if (code == HR__CODEC_OK)
        return HR_OK;
    return hr__fail(error, code == HR__CODEC_MEMORY ? HR_ENOMEM : HR_EINVAL, nowhere,
                    "pipeline: zstd: %s%s", why.text,
                    code == HR__CODEC_DICT_WRONG ? "; dict holds no usable dictionary" : "");
}

/* What may take long, or memory, before the first byte moves. */
static hr_status prepare_codecs(hr_pipeline *p, hr_error *error)
{
    enum { TABLE_FRAMES = 1 << 16 }; /* 64 GiB of usual frames, in half a MiB */
    hr_status status = HR_OK;
    if (p->decoding)
        status = prepare_kind(p, (struct hr__codec_kind){.window_log = p->window_log}, error);
    if (p->encoding && status == HR_OK)
        status = prepare_kind(p, (struct hr__codec_kind){.encoder = true, .level = p->encode_level},
                              error);
    if (p->encoding && status == HR_OK &&
        hr__seek_table_reserve(&p->encode.table, TABLE_FRAMES) != HR__SEEK_OK)
        status = no_memory(error);
    return status;
}
#endif

/* On the host nothing is done without kernels; memory of another device is visited. */
static hr_status make_chain(hr_pipeline *p, const struct hr_pipeline_config *c, hr_error *error)
{
    if (!c->n_kernels && !hr__device_ends_copy(p))
        return HR_OK;
    const hr_status status =
        hr__chain_create(p->loop->context, p->store, c, p->depth, &p->chunk_size, &p->chain, error);
    if (status == HR_OK && (p->flags & HR_UNORDERED) && hr__chain_is_counted(p->chain))
        return bad(error, "HR_UNORDERED does not go with kernels whose output is counted");
    return status;
}

static hr_status make_checks(hr_pipeline *p, hr_error *error)
{
    char why[128];
    if (p->sink.kind != HR_NULL)
        return HR_OK;
    if (hr__kernel_parse("crc32", &p->crc_spec, why, sizeof why) != 0)
        return hr__fail(error, HR_EINVAL, nowhere, "pipeline: crc32: %s", why);
    p->checks_blocks = !p->decoding && !p->chain && !p->encoding && p->direct != HR_DIRECT_ON;
    struct hr__lane *lane = p->checks_blocks ? &p->blocks : p->out;
    p->crc_states = calloc((size_t)lane->depth + 1, p->crc_spec.state_bytes);
    if (!p->crc_states)
        return no_memory(error);
    for (unsigned i = 0; i < lane->depth; i++)
        lane->slots[i].crc = p->crc_states + (i + 1) * p->crc_spec.state_bytes;
    hr__reduce_init(&p->crc_spec, hr__pipeline_crc(p));
    return HR_OK;
}

enum {
    RESOURCE_SOURCE = 1,
    RESOURCE_WORKERS,
    RESOURCE_H2D,
    RESOURCE_KERNELS,
    RESOURCE_D2H,
    RESOURCE_SINK
};

static bool all_sources_are(const hr_pipeline *p, enum hr_end_kind kind)
{
    bool all = true;
    for (unsigned i = 0; i < p->n_inputs; i++)
        all &= p->inputs[i].config.kind == (uint32_t)kind;
    return all;
}

/* Sources of several kinds count as I/O. */
static struct hr__meter source_meter(const hr_pipeline *p, struct hr__meter workers)
{
    const bool is_call = all_sources_are(p, HR_CALLBACK);
    if (all_sources_are(p, HR_MEMORY))
        return workers; /* they copy it, if anybody has to */
    return (struct hr__meter){
        .capacity = 1, .resource = RESOURCE_SOURCE, .is_io = !is_call, .is_call = is_call};
}

static struct hr__meter sink_meter(const hr_pipeline *p, struct hr__meter workers)
{
    struct hr__meter sink = {.capacity = 1, .resource = RESOURCE_SINK};
    switch ((enum hr_end_kind)p->sink.kind) {
    case HR_FILE:
    case HR_FD:
    case HR_SOCKET:
        sink.is_io = true;
        return sink;
    case HR_CALLBACK:
    case HR_PULL:
        sink.is_call = true;
        return sink;
    case HR_DEVICE:
        return p->keeps_on_device ? sink : workers;
    case HR_NULL:
    case HR_MEMORY:
        break;
    }
    return workers;
}

static void set_meters(hr_pipeline *p)
{
    const struct hr__meter workers = {.capacity = n_workers(p), .resource = RESOURCE_WORKERS};
    struct hr__meter kernels = {.capacity = 1, .resource = RESOURCE_KERNELS};
    if (p->chain) {
        const uint32_t most = p->store->device->ops->info(p->store->device)->n_at_once;
        kernels.capacity = p->chain->n_queues < most ? p->chain->n_queues : most;
    }
    struct hr__meter *m = p->meters;
    m[HR_STAGE_READ] = source_meter(p, workers);
    m[HR_STAGE_DECODE] = m[HR_STAGE_ENCODE] = workers;
    m[HR_STAGE_H2D] = (struct hr__meter){.capacity = 1, .resource = RESOURCE_H2D};
    m[HR_STAGE_KERNEL] = kernels;
    m[HR_STAGE_D2H] = (struct hr__meter){.capacity = 1, .resource = RESOURCE_D2H};
    m[HR_STAGE_WRITE] = sink_meter(p, workers);
}

static void set_sizes(hr_pipeline *p, const struct hr_pipeline_config *c)
{
    const uint64_t longest = hr__ends_longest(p);
    p->depth = c->depth ? c->depth : default_depth(p);
    const size_t usual = default_chunk(p);
    p->chunk_size = (size_t)(c->chunk_size ? c->chunk_size : longest < usual ? longest : usual);
    p->connect_ns = c->connect_ms * 1000000ull;
    p->idle_ns = c->idle_ms * 1000000ull;
    p->max_wait_ns = c->max_wait_ms * 1000000ull;
    p->min_fill = (size_t)(c->min_fill < p->chunk_size ? c->min_fill : p->chunk_size);
}

static hr_status make_trace(hr_pipeline *p, const char *path, hr_error *error)
{
    const hr_status status = hr__trace_create(path, &p->trace, error);
    return status == HR_OK ? hr__ends_refuse_target(p, hr__trace_target(p->trace), error) : status;
}

hr_status hr__pipeline_plan(hr_pipeline *p, const struct hr_pipeline_config *c, hr_error *error)
{
    hr_status status = check_config(c, error);
    if (status == HR_OK && !p->loop) {
        p->owns_loop = true;
        status = hr_loop_create(NULL, NULL, &p->loop, error);
    }
    p->flags = c->flags;
    p->direct = (enum hr_direct)c->direct;
    if (status == HR_OK)
        status = set_codecs(p, c, error);
    if (status == HR_OK)
        status = hr__ends_open_inputs(p, c, error);
    if (status == HR_OK)
        status = hr__ends_open_sink(p, error);
    if (status == HR_OK)
        status = hr__ends_check_direct(p, error);
    if (status != HR_OK)
        return status;
    status = hr__device_ends_open(p, c, error);
    if (status != HR_OK)
        return status;
    set_sizes(p, c);
    status = make_chain(p, c, error);
    if (status == HR_OK)
        hr__order_plan(p, c->n_kernels);
    if (status == HR_OK)
        status = hr__device_ends_plan(p, error);
    if (status == HR_OK)
        status = hr__device_ends_refuse_overlap(p, error);
    p->encode.frame_size = frame_size(p, c->frame_size);
    if (status == HR_OK)
        status = make_lanes(p, error);
#if HR_HAVE_ZSTD
    if (status == HR_OK)
        status = prepare_codecs(p, error);
#endif
    if (status == HR_OK)
        status = make_checks(p, error);
    if (status == HR_OK && c->trace_path)
        status = make_trace(p, c->trace_path, error);
    if (status == HR_OK)
        set_meters(p);
    return status;
}
