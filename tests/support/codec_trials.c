// SPDX-License-Identifier: Apache-2.0
#include "codec_trials.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zstd.h>

static void must(bool holds, const char *what)
{
    if (holds)
        return;
    printf("not ok the test itself: %s: %s\n", what, strerror(errno));
    abort();
}

/* ---- frames ---- */

void add_sample(struct buffer *b, size_t size, unsigned seed)
{
    unsigned char *at = buffer_room(b, size + 1);
    uint32_t x = seed * 2654435761u + 12345;
    for (size_t i = 0; i < size; i++) {
        x = x * 1664525u + 1013904223u;
        at[i] = (unsigned char)(i / 3000 % 2 ? x >> 24 : 'a' + (x >> 30));
    }
    b->size += size;
}

static void add_content(struct buffer *plain, enum frame_kind kind, size_t size)
{
    unsigned char *at = buffer_room(plain, size + 1);
    uint32_t x = (uint32_t)plain->size + 1;
    if (kind == FRAME_ZEROS) {
        memset(at, 0, size);
        plain->size += size;
    } else if (kind == FRAME_NOISE) {
        for (size_t i = 0; i < size; i++)
            at[i] = (unsigned char)((x = x * 1664525u + 1013904223u) >> 24);
        plain->size += size;
    } else {
        add_sample(plain, size, x);
    }
}

static void compress(struct buffer *packed, enum frame_kind kind, const void *bytes, size_t size)
{
    ZSTD_CCtx *c = ZSTD_createCCtx();
    must(c != NULL, "memory");
    ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, kind != FRAME_BARE);
    ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, 1);
    const size_t step = kind == FRAME_PIPED ? 30000 : size;
    const size_t most = ZSTD_compressBound(size) + size / 1000 + 64;
    ZSTD_outBuffer out = {.dst = buffer_room(packed, most), .size = most};
    ZSTD_inBuffer in = {.src = bytes};
    size_t left = 0;
    if (kind != FRAME_PIPED)
        ZSTD_CCtx_setPledgedSrcSize(c, size);
    do {
        in.size = size - in.pos < step ? size : in.pos + step;
        left = ZSTD_compressStream2(c, &out, &in,
                                    kind == FRAME_PIPED ? ZSTD_e_flush : ZSTD_e_continue);
        must(!ZSTD_isError(left), ZSTD_getErrorName(left));
    } while (in.pos < size);
    left = ZSTD_compressStream2(c, &out, &in, ZSTD_e_end);
    must(left == 0, "ZSTD_e_end");
    packed->size += out.pos;
    ZSTD_freeCCtx(c);
}

void add_skippable(struct frames *f, unsigned variant, size_t size)
{
    buffer_add_le(&f->packed, 0x184D2A50u + variant, 4); /* RFC 8878, 3.1.2 */
    buffer_add_le(&f->packed, size, 4);
    add_content(&f->packed, FRAME_NOISE, size);
}

void add_frame(struct frames *f, enum frame_kind kind, size_t size)
{
    if (kind == FRAME_SKIPPABLE) {
        add_skippable(f, (unsigned)size % 16, size);
        return;
    }
    const size_t before = f->plain.size;
    add_content(&f->plain, kind, size);
    compress(&f->packed, kind, f->plain.data + before, size);
}

void add_seek_table(struct buffer *packed, const uint32_t (*entries)[2], uint32_t n,
                    uint32_t n_said, unsigned descriptor)
{
    buffer_add_le(packed, 0x184D2A5Eu, 4);
    buffer_add_le(packed, n * 8 + 9, 4);
    for (uint32_t i = 0; i < n; i++) {
        buffer_add_le(packed, entries[i][0], 4);
        buffer_add_le(packed, entries[i][1], 4);
    }
    buffer_add_le(packed, n_said, 4);
    buffer_add_le(packed, descriptor, 1);
    buffer_add_le(packed, 0x8F92EAB1u, 4);
}

void add_mixture(struct frames *f, size_t most)
{
    const size_t sizes[] = {0, 1, most / 100, most / 7, most};
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (unsigned kind = 0; kind < N_FRAME_KINDS; kind++)
            add_frame(f, (enum frame_kind)kind, sizes[i]);
}

void frames_free(struct frames *f)
{
    buffer_free(&f->packed);
    buffer_free(&f->plain);
}

/* ---- sources and the sink ---- */

struct giver {
    const struct buffer *in;
    size_t step;
    int fd;
};

static void *feed_pipe(void *argument)
{
    const struct giver *g = argument;
    for (size_t at = 0; at < g->in->size;) {
        const size_t left = g->in->size - at;
        const ssize_t n =
            write(g->fd, g->in->data + at, g->step && g->step < left ? g->step : left);
        if (n <= 0)
            break; /* the other end was closed */
        at += (size_t)n;
    }
    close(g->fd);
    return NULL;
}

static int64_t give(void *user, void *bytes, size_t size, uint64_t offset)
{
    const struct giver *g = user;
    const size_t left = offset < g->in->size ? g->in->size - (size_t)offset : 0;
    size_t n = left < size ? left : size;
    if (g->step && g->step < n)
        n = g->step;
    if (n)
        memcpy(bytes, g->in->data + offset, n);
    return (int64_t)n;
}

int64_t gather(void *user, const void *bytes, size_t size, uint64_t offset)
{
    struct buffer *got = user;
    if (offset != got->size)
        return -EPROTO;
    buffer_add(got, bytes, size);
    return (int64_t)size;
}

int64_t give_and_fail(void *user, void *bytes, size_t size, uint64_t offset)
{
    const struct failing *f = user;
    if (offset >= f->good) {
        usleep(f->wait_us);
        return -EREMOTEIO;
    }
    const size_t left = f->good - (size_t)offset;
    const size_t n = left < size ? left : size;
    memcpy(bytes, f->in->data + offset, n);
    return (int64_t)n;
}

static int file_of(const struct buffer *in)
{
    char path[] = "/tmp/headrace-test-XXXXXX";
    const int fd = mkstemp(path);
    must(fd >= 0 && unlink(path) == 0, path);
    for (size_t at = 0; at < in->size;) {
        const ssize_t n = pwrite(fd, in->data + at, in->size - at, (off_t)at);
        must(n > 0, path);
        at += (size_t)n;
    }
    return fd;
}

static int open_feed(const struct trial *t, struct giver *g, pthread_t *thread,
                     struct hr_source *source)
{
    int ends[2] = {-1, -1};
    switch (t->feed) {
    case FEED_MEMORY:
        source->kind = HR_MEMORY;
        source->data = g->in->data;
        source->size = g->in->size;
        break;
    case FEED_CALLBACK:
        source->kind = HR_CALLBACK;
        source->read = give;
        source->user = g;
        break;
    case FEED_FILE:
        source->kind = HR_FD;
        source->fd = ends[0] = file_of(g->in);
        break;
    case FEED_PIPE:
    case N_FEEDS:
        signal(SIGPIPE, SIG_IGN);
        must(pipe2(ends, O_CLOEXEC) == 0, "pipe");
        source->kind = HR_FD;
        source->fd = ends[0];
        g->fd = ends[1];
        must(pthread_create(thread, NULL, feed_pipe, g) == 0, "thread");
        break;
    }
    return ends[0];
}

/* ---- running ---- */

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

hr_status run_in_time(hr_loop *loop, hr_pipeline *pipeline, bool *hung, hr_error *error)
{
    enum { LIMIT_MS = 20000 };
    const uint64_t end = now_ms() + LIMIT_MS;
    *hung = false;
    while (hr_pipeline_state(pipeline, error) == HR_PENDING) {
        const hr_status status = hr_loop_poll(loop, 1000, error);
        if (status < 0)
            return status;
        if (now_ms() >= end && !*hung) {
            *hung = true;
            hr_pipeline_cancel(pipeline);
        }
    }
    return hr_pipeline_state(pipeline, error);
}

static struct hr_sink gather_into(struct buffer *got)
{
    got->size = 0;
    return (struct hr_sink){
        .struct_size = sizeof(struct hr_sink), .kind = HR_CALLBACK, .write = gather, .user = got};
}

hr_status run_gathering(hr_loop *loop, const struct hr_pipeline_config *config, struct buffer *got,
                        hr_error *error)
{
    struct hr_pipeline_config whole = *config;
    hr_pipeline *pipeline = NULL;
    bool hung;
    whole.sink = gather_into(got);
    hr_status status = hr_pipeline_create(loop, &whole, &pipeline, error);
    if (status != HR_OK)
        return status;
    status = run_in_time(loop, pipeline, &hung, error);
    hr_pipeline_free(pipeline);
    if (!hung)
        return status;
    snprintf(error->text, sizeof error->text, "it hung after %zu bytes", got->size);
    return HR_ETIMEDOUT;
}

struct canceller {
    hr_pipeline *pipeline;
    unsigned after_us;
};

static void *cancel_later(void *argument)
{
    const struct canceller *c = argument;
    usleep(c->after_us);
    hr_pipeline_cancel(c->pipeline);
    return NULL;
}

static void run_pipeline(hr_loop *loop, struct trial *t, hr_pipeline *pipeline)
{
    struct canceller canceller = {pipeline, t->cancel_after_us};
    pthread_t thread = pthread_self(); /* joined only where another one was started */
    if (t->cancel_after_us)
        must(pthread_create(&thread, NULL, cancel_later, &canceller) == 0, "thread");
    t->status = run_in_time(loop, pipeline, &t->hung, &t->error);
    if (t->cancel_after_us)
        pthread_join(thread, NULL);
    t->stats = (struct hr_stats){.struct_size = sizeof t->stats};
    must(hr_pipeline_stats(pipeline, &t->stats) == HR_OK, "hr_pipeline_stats");
    hr_pipeline_free(pipeline);
}

static struct hr_pipeline_config config_of(struct trial *t, const struct hr_source *source,
                                           const struct hr_kernel *kernel)
{
    return (struct hr_pipeline_config){
        .struct_size = sizeof(struct hr_pipeline_config),
        .n_sources = 1,
        .sources = source,
        .sink = gather_into(&t->got),
        .chunk_size = t->chunk_size,
        .depth = t->depth,
        .flags = t->flags,
        .decode = t->decode,
        .encode = t->encode,
        .encode_level = t->level,
        .frame_size = t->frame_size,
        .window_log = t->window_log,
        .dict = t->dict ? t->dict->data : NULL,
        .dict_size = t->dict ? t->dict->size : 0,
        .kernels = t->kernel ? kernel : NULL,
        .n_kernels = t->kernel ? 1 : 0,
        .device = t->kernel ? "host" : NULL,
    };
}

void run_trial(hr_loop *loop, struct trial *t, const struct buffer *in)
{
    struct giver giver = {.in = in, .step = t->step};
    pthread_t thread = pthread_self();
    struct hr_source source = {.struct_size = sizeof source,
                               .flags = t->range ? HR_RANGE : 0,
                               .offset = t->offset,
                               .length = t->length};
    const int fd = open_feed(t, &giver, &thread, &source);
    const struct hr_kernel kernel = {.struct_size = sizeof kernel, .text = t->kernel};
    const struct hr_pipeline_config config = config_of(t, &source, &kernel);
    hr_pipeline *pipeline = NULL;
    t->error = (hr_error){0};
    t->hung = false;
    t->status = hr_pipeline_create(loop, &config, &pipeline, &t->error);
    if (t->status == HR_OK)
        run_pipeline(loop, t, pipeline);
    if (fd >= 0)
        close(fd);
    if (t->feed == FEED_PIPE)
        pthread_join(thread, NULL);
}
