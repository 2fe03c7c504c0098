// SPDX-License-Identifier: Apache-2.0
#include "transfers.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#if HR_HAVE_ZSTD
#include <zstd.h>
#endif

#include "peers.h"

void (*transfer_helper)(void);

static void must(bool holds, const char *what)
{
    if (holds)
        return;
    printf("not ok the test itself: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* ---- Feeding and draining ------------------------------------------------------------------ */

static ssize_t write_some(int fd, const void *bytes, size_t size)
{
    ssize_t n;
    do
        n = write(fd, bytes, size);
    while (n < 0 && errno == EINTR);
    return n;
}

static void *feed(void *argument)
{
    struct transfer *t = argument;
    if (transfer_helper)
        transfer_helper();
    for (uint64_t at = 0; at < t->packed_size;) {
        const ssize_t n = write_some(t->far_in, t->packed + at, (size_t)(t->packed_size - at));
        if (n <= 0)
            break; /* the library's end was closed */
        at += (uint64_t)n;
    }
    close(t->far_in);
    return NULL;
}

static void *drain(void *argument)
{
    struct transfer *t = argument;
    if (transfer_helper)
        transfer_helper();
    while (t->n_got < t->got_size) {
        const ssize_t n = read(t->far_out, t->got + t->n_got, (size_t)(t->got_size - t->n_got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        t->n_got += (uint64_t)n;
    }
    close(t->far_out);
    return NULL;
}

static int64_t give(void *user, void *buffer, size_t size, uint64_t offset)
{
    const struct transfer *t = user;
    const uint64_t left = offset < t->packed_size ? t->packed_size - offset : 0;
    const size_t n = left < size ? (size_t)left : size;
    memcpy(buffer, t->packed + offset, n);
    return (int64_t)n;
}

static int64_t take(void *user, const void *buffer, size_t size, uint64_t offset)
{
    struct transfer *t = user;
    if (offset != t->n_got || size > t->got_size - t->n_got)
        return -EPROTO;
    memcpy(t->got + offset, buffer, size);
    t->n_got += size;
    return (int64_t)size;
}

/* ---- Making one ---------------------------------------------------------------------------- */

static void pack(struct transfer *t)
{
    const struct shape *shape = &t->shape;
    t->packed = t->bytes;
    t->packed_size = shape->size;
#if HR_HAVE_ZSTD
    if (shape->frame_in == 0)
        return;
    const size_t n_frames = (size_t)((shape->size + shape->frame_in - 1) / shape->frame_in);
    const size_t most = n_frames * ZSTD_compressBound((size_t)shape->frame_in) + 1;
    t->packed = malloc(most);
    must(t->packed != NULL, "memory");
    t->packed_size = 0;
    for (uint64_t at = 0; at < shape->size; at += shape->frame_in) {
        const uint64_t left = shape->size - at;
        const size_t n =
            ZSTD_compress(t->packed + t->packed_size, most - (size_t)t->packed_size, t->bytes + at,
                          (size_t)(left < shape->frame_in ? left : shape->frame_in), 1);
        must(!ZSTD_isError(n), "ZSTD_compress");
        t->packed_size += n;
    }
#endif
}

static void connect_ends(enum place place, int *near, int *far, bool in)
{
    int ends[2];
    if (place == PLACE_PIPE)
        must(pipe2(ends, O_CLOEXEC) == 0, "pipe");
    else
        must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
    *near = ends[in ? 0 : 1];
    *far = ends[in ? 1 : 0];
}

static void write_input(const struct transfer *t)
{
    FILE *file = fopen(t->in, "wb");
    must(file && fwrite(t->packed, 1, (size_t)t->packed_size, file) == t->packed_size &&
             fclose(file) == 0,
         t->in);
}

static void make_source(struct transfer *t)
{
    struct hr_source *source = &t->source;
    source->struct_size = sizeof *source;
    switch (t->shape.from) {
    case PLACE_FILE:
        source->kind = HR_FILE;
        source->path = t->in;
        write_input(t);
        break;
    case PLACE_PIPE:
    case PLACE_SOCKET:
        connect_ends(t->shape.from, &t->near_in, &t->far_in, true);
        source->kind = HR_FD;
        source->fd = t->near_in;
        break;
    case PLACE_MEMORY:
        source->kind = HR_MEMORY;
        source->data = t->packed;
        source->size = t->packed_size;
        break;
    case PLACE_CALLBACK:
    case PLACE_NULL:
        source->kind = HR_CALLBACK;
        source->read = give;
        source->user = t;
        break;
    }
}

static void make_sink(struct transfer *t)
{
    struct hr_sink *sink = &t->config.sink;
    sink->struct_size = sizeof *sink;
    sink->flags = t->shape.sink_flags;
    switch (t->shape.to) {
    case PLACE_FILE:
        sink->kind = HR_FILE;
        sink->path = t->out;
        break;
    case PLACE_PIPE:
    case PLACE_SOCKET:
        connect_ends(t->shape.to, &t->near_out, &t->far_out, false);
        sink->kind = HR_FD;
        sink->fd = t->near_out;
        break;
    case PLACE_MEMORY:
        sink->kind = HR_MEMORY;
        sink->data = t->got;
        sink->size = t->got_size;
        break;
    case PLACE_CALLBACK:
        sink->kind = HR_CALLBACK;
        sink->write = take;
        sink->user = t;
        break;
    case PLACE_NULL:
        break;
    }
}

static void make_config(struct transfer *t)
{
    const struct shape *shape = &t->shape;
    struct hr_pipeline_config *config = &t->config;
    config->struct_size = sizeof *config;
    config->n_sources = 1;
    config->sources = &t->source;
    config->chunk_size = shape->chunk_size;
    config->depth = shape->depth;
    config->decode = shape->frame_in ? HR_CODEC_ZSTD : HR_CODEC_NONE;
    config->encode = shape->encode;
    config->frame_size = shape->chunk_size;
    if (shape->kernel) {
        t->kernel = (struct hr_kernel){.struct_size = sizeof t->kernel, .text = shape->kernel};
        config->kernels = &t->kernel;
        config->n_kernels = 1;
        config->device = "host";
    }
}

void transfer_open(struct transfer *t, const struct shape *shape)
{
    *t = (struct transfer){.shape = *shape, .near_in = -1, .near_out = -1};
    signal(SIGPIPE, SIG_IGN); /* a feeder's end may be closed early */
    strcpy(t->directory, "/tmp/headrace-test-XXXXXX");
    must(mkdtemp(t->directory) != NULL, t->directory);
    snprintf(t->in, sizeof t->in, "%s/in", t->directory);
    snprintf(t->out, sizeof t->out, "%s/out", t->directory);
    t->bytes = malloc((size_t)shape->size + 1);
    t->got_size = shape->size + 1 + (shape->encode ? shape->size / 8 + 65536 : 0);
    t->got = malloc((size_t)t->got_size);
    must(t->bytes && t->got, "memory");
    fill_pattern(t->bytes, (size_t)shape->size);
    memset(t->got, 0xa5, (size_t)t->got_size);
    pack(t);
    make_source(t);
    make_sink(t);
    make_config(t);
    if (t->near_in >= 0)
        must(pthread_create(&t->feeder, NULL, feed, t) == 0, "thread");
    if (t->near_out >= 0)
        must(pthread_create(&t->drainer, NULL, drain, t) == 0, "thread");
}

/* ---- Running one --------------------------------------------------------------------------- */

hr_status transfer_create(struct transfer *t, hr_error *error)
{
    const struct hr_loop_config config = {.struct_size = sizeof config, .io = t->shape.io};
    const hr_status status = hr_loop_create(NULL, &config, &t->loop, error);
    return status == HR_OK ? hr_pipeline_create(t->loop, &t->config, &t->pipeline, error) : status;
}

void transfer_free(struct transfer *t)
{
    hr_pipeline_free(t->pipeline);
    hr_loop_free(t->loop);
    t->pipeline = NULL;
    t->loop = NULL;
}

hr_status transfer_run(struct transfer *t, hr_error *error)
{
    hr_status status = transfer_create(t, error);
    if (status == HR_OK)
        status = hr_pipeline_run(t->pipeline, error);
    transfer_free(t);
    return status;
}

/* ---- Looking at the output ----------------------------------------------------------------- */

static void read_output(struct transfer *t)
{
    FILE *file = fopen(t->out, "rb");
    if (!file)
        return;
    t->n_got = fread(t->got, 1, (size_t)t->got_size, file);
    fclose(file);
}

/* Memory does not tell how much was written: up to the last byte that is not the filling. */
static void measure_memory(struct transfer *t)
{
    t->n_got = t->got_size;
    while (t->n_got > 0 && t->got[t->n_got - 1] == 0xa5)
        t->n_got--;
    if (t->n_got < t->shape.size && t->bytes[t->n_got] == 0xa5)
        t->n_got++; /* the stream has that byte too */
}

static bool decode_got(struct transfer *t)
{
#if HR_HAVE_ZSTD
    unsigned char *decoded = malloc((size_t)t->shape.size + 1);
    must(decoded != NULL, "memory");
    const size_t n = ZSTD_decompress(decoded, (size_t)t->shape.size + 1, t->got, (size_t)t->n_got);
    const bool whole = n == t->shape.size && memcmp(decoded, t->bytes, n) == 0;
    free(decoded);
    return whole;
#else
    (void)t;
    return false;
#endif
}

enum outcome transfer_finish(struct transfer *t)
{
    if (t->near_in >= 0) {
        close(t->near_in);
        pthread_join(t->feeder, NULL);
    }
    if (t->near_out >= 0) {
        close(t->near_out);
        pthread_join(t->drainer, NULL);
    }
    t->near_in = t->near_out = -1;
    if (t->shape.to == PLACE_NULL)
        return OUTCOME_WHOLE;
    const bool absent = t->shape.to == PLACE_FILE && access(t->out, F_OK) != 0;
    if (t->shape.to == PLACE_FILE)
        read_output(t);
    if (t->shape.to == PLACE_MEMORY)
        measure_memory(t);
    if (absent || (t->n_got == 0 && t->shape.size > 0 && t->shape.to != PLACE_FILE))
        return OUTCOME_ABSENT;
    if (t->shape.encode)
        return decode_got(t) ? OUTCOME_WHOLE : OUTCOME_PREFIX;
    if (t->n_got > t->shape.size || memcmp(t->got, t->bytes, (size_t)t->n_got) != 0)
        return OUTCOME_WRONG;
    return t->n_got == t->shape.size ? OUTCOME_WHOLE : OUTCOME_PREFIX;
}

void transfer_close(struct transfer *t)
{
    unlink(t->in);
    unlink(t->out);
    if (rmdir(t->directory) != 0)
        check_that(false, transfer_name(&t->shape), "something is left beside the output");
    if (t->packed != t->bytes)
        free(t->packed);
    free(t->bytes);
    free(t->got);
}

const char *transfer_name(const struct shape *shape)
{
    static const char *const places[] = {"file", "pipe", "socket", "memory", "callback", "null"};
    static const char *const engines[] = {"auto", "uring", "threads"};
    static char name[160];
    snprintf(name, sizeof name, "%s: %s%s%s%s%s to %s%s", engines[shape->io],
             shape->frame_in >= shape->size && shape->size ? "one frame of " : "",
             shape->frame_in && shape->frame_in < shape->size ? "many frames of " : "",
             places[shape->from], shape->kernel ? " through " : "",
             shape->kernel ? shape->kernel : "", places[shape->to],
             shape->encode                  ? ", encoded"
             : shape->sink_flags & HR_FSYNC ? ", fsync"
                                            : "");
    return name;
}
