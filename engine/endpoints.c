// SPDX-License-Identifier: Apache-2.0
#include "endpoints.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sched.h"
#include "status.h"

static const struct hr__where nowhere;

static hr_status bad(hr_error *error, const char *what)
{
    return hr__fail(error, HR_EINVAL, nowhere, "pipeline: %s", what);
}

static hr_status no_memory(hr_error *error)
{
    return hr__fail(error, HR_ENOMEM, nowhere, "pipeline: out of memory");
}

/* ---- sources ---- */

/* Ranges of one descriptor, of which there may be thousands, share what is opened for it. The last
 * one closes it. */
static hr_status open_descriptor(struct hr__input *in, hr_error *error)
{
    for (struct hr__input *other = in; other-- > in->pipeline->inputs;) {
        if (other->config.kind == HR_FD && other->config.fd == in->config.fd) {
            in->file = other->file;
            other->file.lent_on = true;
            return HR_OK;
        }
    }
    return hr__file_from_fd(in->config.fd, HR_STAGE_READ, in->pipeline->direct, &in->file, error);
}

static hr_status open_source_file(struct hr__input *in, hr_error *error)
{
    if (in->config.kind == HR_FD)
        return open_descriptor(in, error);
    if (!in->config.path)
        return bad(error, "a source of kind HR_FILE or HR_SOCKET has no path");
    in->path = strdup(in->config.path);
    if (!in->path)
        return no_memory(error);
    if (in->config.kind == HR_FILE)
        return hr__file_open(in->path, in->pipeline->direct, &in->file, error);
    const hr_status status = hr__stream_open(in->path, HR_STAGE_READ, &in->opening.opener, error);
    in->opening.pending = status == HR_OK;
    return status;
}

/* Where the source begins and ends: the range cut to what is there. Of a source that is, or may be,
 * encoded, all is read and the range is counted behind the decoder. */
static void set_range(struct hr__input *in, uint64_t size)
{
    const bool range = in->config.flags & HR_RANGE;
    const uint64_t offset = range ? in->config.offset : 0;
    const uint64_t length = range ? in->config.length : UINT64_MAX;
    in->decoded_skip = 0;
    in->decoded_left = UINT64_MAX;
    const bool takes = in->in_order && in->config.kind != HR_CALLBACK;
    if (takes && in->codec == HR_CODEC_AUTO && offset < 4 && length < 4 - offset)
        in->codec = HR_CODEC_NONE; /* too few bytes to tell, and no more may be taken */
    if (in->codec != HR_CODEC_NONE) {
        in->decoded_skip = offset;
        in->decoded_left = length;
        const bool nothing = !length && in->codec == HR_CODEC_ZSTD;
        in->end = !in->in_order ? size : nothing ? 0 : UINT64_MAX;
        return;
    }
    if (in->in_order) { /* where it ends is not known: counted from the range's start */
        in->origin = offset;
        in->skip = in->config.kind == HR_CALLBACK ? 0 : offset;
        in->end = length;
        in->decoded_position = offset;
        return;
    }
    in->position = offset < size ? offset : size;
    in->end = length < size - in->position ? in->position + length : size;
    in->decoded_position = in->position;
}

static hr_status check_source(const struct hr__input *in, hr_error *error)
{
    const struct hr_source *source = &in->config;
    if (source->flags & ~(uint32_t)HR_RANGE)
        return bad(error, "a source has flags other than HR_RANGE");
    if (source->stream && source->kind != HR_DEVICE)
        return bad(error, "a source has a stream: that is for sources of kind HR_DEVICE");
    if (source->kind == HR_MEMORY && source->size && !source->data)
        return bad(error, "a source of kind HR_MEMORY has no data");
    if (source->kind == HR_CALLBACK && !source->read)
        return bad(error, "a source of kind HR_CALLBACK has no read function");
    if (source->kind == HR_DEVICE && source->size && !source->data)
        return bad(error, "a source of kind HR_DEVICE has no data");
    if (source->kind == HR_NULL || source->kind == HR_PULL || source->kind > HR_DEVICE)
        return bad(error, "a source's kind is none that can be read");
    return HR_OK;
}

static hr_status open_input(struct hr__input *in, const void *user_source, hr_error *error)
{
    if (!hr__copy_struct(&in->config, sizeof in->config, user_source))
        return bad(error, "a source's struct_size is not set, or it has fields that are not known");
    hr_status status = check_source(in, error);
    if (status < 0)
        return status;
    uint64_t size = in->config.size;
    in->codec = in->pipeline->decoding;
    if (in->config.kind == HR_MEMORY) {
        in->in_order = false;
    } else if (in->config.kind == HR_DEVICE) {
        in->in_order = false;
        if (in->codec == HR_CODEC_AUTO)
            in->codec = HR_CODEC_NONE; /* the host cannot look at it */
    } else if (in->config.kind == HR_CALLBACK) {
        in->in_order = true;
    } else {
        status = open_source_file(in, error);
        size = in->file.size;
        in->in_order = !in->file.positional;
    }
    if (status < 0)
        return status;
    set_range(in, size);
#if HR_HAVE_ZSTD
    if (in->codec != HR_CODEC_NONE && !in->in_order)
        status = hr__probe_input(in, size, error);
    if (status == HR_OK && in->codec == HR_CODEC_NONE && !in->in_order && in->position < in->end)
        set_range(in, size); /* it is raw: no byte of an encoded one is in an empty range */
#endif
    in->total = in->end == UINT64_MAX ? UINT64_MAX : in->end - in->position;
    return status;
}

/* Where the first bytes of all sources are known, they may tell that there is nothing to decode. */
static bool any_encoded(const hr_pipeline *p)
{
    for (unsigned i = 0; i < p->n_inputs; i++)
        if (p->inputs[i].codec != HR_CODEC_NONE)
            return true;
    return false;
}

hr_status hr__ends_open_inputs(hr_pipeline *p, const struct hr_pipeline_config *config,
                               hr_error *error)
{
    if (!config->n_sources)
        return bad(error, "there is no source");
    if (!config->sources)
        return bad(error, "sources is NULL and n_sources is not 0");
    p->inputs = calloc(config->n_sources, sizeof *p->inputs);
    if (!p->inputs)
        return no_memory(error);
    const size_t stride = config->sources[0].struct_size;
    const char *at = (const char *)config->sources;
    for (uint32_t i = 0; i < config->n_sources; i++, at += stride) {
        struct hr__input *in = &p->inputs[i];
        in->pipeline = in->opening.pipeline = p;
        in->file.fd = -1;
        p->n_inputs = i + 1;
        const hr_status status = open_input(in, at, error);
        if (status < 0)
            return status;
    }
    if (!any_encoded(p))
        p->decoding = HR_CODEC_NONE;
    return HR_OK;
}

/* Direct I/O that was asked for and refused is told, or, where nothing may be silent, an error. */
static hr_status check_direct(hr_pipeline *p, const struct hr__file *file, const char *name,
                              hr_error *error)
{
    if (p->direct != HR_DIRECT_ON || !*file->direct.why)
        return HR_OK;
    if (p->flags & HR_STRICT)
        return hr__fail(error, HR_EUNSUPPORTED, nowhere, "direct I/O of %s: %s", name,
                        file->direct.why);
    hr__context_log(p->loop->context, "no direct I/O of %s: %s", name, file->direct.why);
    return HR_OK;
}

hr_status hr__ends_check_direct(hr_pipeline *p, hr_error *error)
{
    char name[256];
    hr_status status = HR_OK;
    for (unsigned i = 0; i < p->n_inputs && status == HR_OK; i++)
        status = check_direct(p, &p->inputs[i].file,
                              hr__sched_name(&p->inputs[i], name, sizeof name), error);
    return status == HR_OK
               ? check_direct(p, &p->target.file, p->sink_path ? p->sink_path : "the sink", error)
               : status;
}

uint64_t hr__ends_longest(const hr_pipeline *p)
{
    uint64_t longest = 1;
    for (unsigned i = 0; i < p->n_inputs; i++) {
        const struct hr__input *in = &p->inputs[i];
        const uint64_t left = in->codec ? UINT64_MAX : in->end - in->position;
        if (left > longest)
            longest = left;
    }
    return longest;
}

/* ---- the sink ---- */

static hr_status open_sink_path(hr_pipeline *p, bool sync, hr_error *error)
{
    const struct hr_sink *sink = &p->sink;
    if (!sink->path)
        return bad(error, "the sink is of kind HR_FILE or HR_SOCKET and has no path");
    p->sink_path = strdup(sink->path);
    if (!p->sink_path)
        return no_memory(error);
    p->sink_opening.pipeline = p;
    if (sink->kind == HR_FILE) {
        const hr_status opened = hr__target_open(sink->path, sync, p->direct, &p->target, error);
        p->sink_opening.pending = opened == HR_PENDING;
        return opened < 0 ? opened : HR_OK;
    }
    p->sink_is_peer = hr__stream_is_peer(sink->path) && p->inputs[0].config.kind == HR_SOCKET;
    if (p->sink_is_peer)
        return HR_OK;
    const hr_status status =
        hr__stream_open(p->sink_path, HR_STAGE_WRITE, &p->sink_opening.opener, error);
    p->sink_opening.pending = status == HR_OK;
    return status;
}

static hr_status refuse_same_file(const hr_pipeline *p, hr_error *error)
{
    for (unsigned i = 0; i < p->n_inputs; i++)
        if (hr__file_same(&p->inputs[i].file, &p->target.file))
            return hr__fail(error, HR_EINVAL, (struct hr__where){.stage = HR_STAGE_WRITE},
                            "pipeline: source %u and the sink are the same file (%s); write to "
                            "another name",
                            i, p->inputs[i].path ? p->inputs[i].path : "a descriptor");
    return HR_OK;
}

hr_status hr__ends_refuse_target(const hr_pipeline *p, const struct hr__target *target,
                                 hr_error *error)
{
    bool same =
        hr__file_same(&p->target.file, &target->file) || hr__target_same(&p->target, target);
    for (unsigned i = 0; i < p->n_inputs; i++)
        same |= hr__file_same(&p->inputs[i].file, &target->file);
    return same ? hr__fail(error, HR_EINVAL, nowhere,
                           "pipeline: the trace would replace a source or the sink (%s); write it "
                           "to another name",
                           target->target)
                : HR_OK;
}

hr_status hr__ends_open_sink(hr_pipeline *p, hr_error *error)
{
    const struct hr_sink *sink = &p->sink;
    const bool sync = sink->flags & HR_FSYNC;
    hr_status status = HR_OK;
    if (sink->flags & ~(uint32_t)(HR_FSYNC | HR_LEND_DEVICE))
        return bad(error, "the sink has flags that are not known");
    if ((sink->flags & HR_LEND_DEVICE) && sink->kind != HR_PULL)
        return bad(error, "HR_LEND_DEVICE is for sinks of kind HR_PULL");
    if (sink->stream && sink->kind != HR_DEVICE)
        return bad(error, "the sink has a stream: that is for a sink of kind HR_DEVICE");
    switch (sink->kind) {
    case HR_NULL:
    case HR_PULL:
        return HR_OK;
    case HR_FILE:
    case HR_SOCKET:
        status = open_sink_path(p, sync, error);
        break;
    case HR_FD:
        p->target.fsync = sync;
        status = hr__file_from_fd(sink->fd, HR_STAGE_WRITE, p->direct, &p->target.file, error);
        break;
    case HR_DEVICE:
        return p->encoding ? hr__fail(error, HR_EUNSUPPORTED, nowhere,
                                      "pipeline: what is encoded is on the host: it does not go to "
                                      "a sink of kind HR_DEVICE")
                           : HR_OK;
    case HR_MEMORY:
        return sink->data || !sink->size ? HR_OK : bad(error, "the memory sink has no data");
    case HR_CALLBACK:
        return sink->write ? HR_OK : bad(error, "the callback sink has no write function");
    default:
        return bad(error, "the sink's kind is none that can be written");
    }
    return status == HR_OK ? refuse_same_file(p, error) : status;
}

/* ---- connecting ---- */

static void poll_done(struct hr__io_request *request)
{
    struct hr__opening *opening = request->owner;
    opening->waiting = false;
    opening->pipeline->in_flight--;
    opening->pipeline->n_polling--;
    opening->pipeline->marked = true;
}

static void wait_for(struct hr__opening *opening, enum hr__io_op op, int fd)
{
    hr_pipeline *p = opening->pipeline;
    struct hr__io *io = p->loop->io;
    opening->poll = (struct hr__io_request){
        .op = op, .fd = fd, .region = -1, .done = poll_done, .owner = opening};
    opening->waiting = true;
    p->in_flight++;
    p->n_polling++;
    io->ops->submit(io, &opening->poll);
}

static void take_connection(struct hr__opening *opening, struct hr__file *file)
{
    *file = (struct hr__file){.fd = hr__stream_take(&opening->opener),
                              .opened = true,
                              .size = UINT64_MAX,
                              .io_flags = HR__IO_SOCKET};
    hr__stream_close(&opening->opener);
    opening->pending = false;
    opening->pipeline->last_io_ns = 0;
}

/* True when the end is open. */
static bool advance(struct hr__opening *opening, struct hr__file *file)
{
    if (!opening->pending)
        return true;
    if (opening->waiting)
        return false;
    hr_error error;
    switch (hr__stream_advance(&opening->opener, &error)) {
    case HR__STREAM_READY:
        take_connection(opening, file);
        return true;
    case HR__STREAM_WAIT_IN:
        wait_for(opening, HR__IO_POLL, opening->opener.fd);
        break;
    case HR__STREAM_WAIT_OUT:
        wait_for(opening, HR__IO_POLL_OUT, opening->opener.fd);
        break;
    case HR__STREAM_FAILED:
        hr__sched_fail(opening->pipeline, 0, &error);
        break;
    }
    return false;
}

/* As advance, of a file: that is a FIFO, if it is not open. */
static bool advance_sink_file(hr_pipeline *p)
{
    struct hr__opening *opening = &p->sink_opening;
    if (!opening->pending || opening->waiting)
        return !opening->pending;
    hr_error error;
    const hr_status status = hr__target_open_fifo(&p->target, p->sink_path, &error);
    opening->pending = status == HR_PENDING;
    if (status == HR_PENDING)
        wait_for(opening, HR__IO_POLL, p->target.timer_fd);
    else if (status < 0)
        hr__sched_fail(p, 0, &error);
    return status == HR_OK;
}

static bool share_peer(hr_pipeline *p)
{
    hr_error error;
    int fd;
    if (hr__stream_share(p->inputs[0].file.fd, &fd, &error) < 0) {
        hr__sched_fail(p, 0, &error);
        return false;
    }
    p->target.file =
        (struct hr__file){.fd = fd, .opened = true, .size = UINT64_MAX, .io_flags = HR__IO_SOCKET};
    p->sink_is_peer = false;
    return true;
}

bool hr__ends_connect(hr_pipeline *p)
{
    bool all =
        p->sink.kind == HR_FILE ? advance_sink_file(p) : advance(&p->sink_opening, &p->target.file);
    for (unsigned i = 0; i < p->n_inputs; i++)
        all &= advance(&p->inputs[i].opening, &p->inputs[i].file);
    return all && !p->failed && (!p->sink_is_peer || share_peer(p));
}

void hr__ends_cancel(hr_pipeline *p)
{
    struct hr__io *io = p->loop->io;
    if (p->sink_opening.waiting)
        io->ops->cancel(io, &p->sink_opening.poll);
    for (unsigned i = 0; i < p->n_inputs; i++)
        if (p->inputs[i].opening.waiting)
            io->ops->cancel(io, &p->inputs[i].opening.poll);
}

/* ---- the end ---- */

static void close_opening(struct hr__opening *opening)
{
    if (opening->pending)
        hr__stream_close(&opening->opener);
    opening->pending = false;
}

/* A connection that both ends share is hung up by the source first: see stream_io.h. */
void hr__ends_close(hr_pipeline *p, bool whole)
{
    const bool socket_sink = p->sink.kind == HR_SOCKET;
    if (socket_sink && whole && p->target.file.fd >= 0)
        hr__stream_finish(p->target.file.fd);
    for (unsigned i = 0; i < p->n_inputs; i++) {
        struct hr__input *in = &p->inputs[i];
        close_opening(&in->opening);
        if (in->config.kind == HR_SOCKET && in->file.fd >= 0)
            hr__stream_hang_up(in->file.fd, whole);
        else
            hr__file_close(&in->file, in->position);
        in->file.fd = -1;
    }
    if (socket_sink)
        close_opening(&p->sink_opening);
    if (socket_sink && p->target.file.fd >= 0) {
        hr__stream_hang_up(p->target.file.fd, whole);
        p->target.file.fd = -1;
    }
}
