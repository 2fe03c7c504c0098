// SPDX-License-Identifier: Apache-2.0
/* Ceilings of zstd. Each thread takes one piece of the data after the other and puts it through a
 * pipeline of one worker, in which nothing else is done. Nobody waits for another one's bytes, nor for
 * their order, and a thread that is held up takes fewer pieces: whatever a pipeline does besides, it
 * cannot use more of the CPUs. What comes out is lent and dropped; in the round that verifies it is
 * compared. */
#include <stdlib.h>
#include <string.h>

#include "bench_tools.h"

enum { PIECES = 4 }; /* for each thread */

static const uint64_t frame = 1 << 20; /* decoded bytes: hr_pipeline_config.frame_size */

/* Of a sample; threads share it. */
struct zstd_work {
    bool encode;
    uint64_t bytes;
    uint64_t piece; /* decoded bytes: whole frames */
    pthread_mutex_t lock;
    uint64_t next;             /* under lock */
    unsigned n_joined;         /* under lock */
    char error[HR_ERROR_TEXT]; /* under lock: of the first that failed */
};

/* One thread's piece. */
struct piece {
    const struct bench *bench;
    uint64_t begin;
    uint64_t size;
    unsigned char *kept; /* NULL: the bytes that come are compared */
    uint64_t came;
};

/* ---- a piece ---- */

/* Where a piece that is encoded is kept to be verified: a bit more than the piece. */
static unsigned char *place_of(const struct bench *b, uint64_t begin)
{
    return b->room + begin / 8 * 9;
}

static bool look(void *argument, const struct hr_chunk *chunk, char *error)
{
    struct piece *piece = argument;
    const uint64_t at = piece->came;
    piece->came += chunk->size;
    if (!piece->kept)
        return verify_bytes(piece->bench, chunk->data, piece->begin + at, chunk->size, false,
                            error);
    if (piece->came <= piece->size / 8 * 9)
        memcpy(piece->kept + at, chunk->data, chunk->size);
    return true;
}

/* A frame for each chunk, so that the worker always has the next ones. */
static bool move(hr_loop *loop, struct hr_source source, bool encode, struct piece *piece,
                 char *error)
{
    const struct hr_pipeline_config config = {
        .struct_size = sizeof config,
        .n_sources = 1,
        .sources = &source,
        .sink = {.struct_size = sizeof config.sink, .kind = HR_PULL},
        .chunk_size = frame,
        .decode = encode ? HR_CODEC_NONE : HR_CODEC_ZSTD,
        .encode = encode ? HR_CODEC_ZSTD : HR_CODEC_NONE,
    };
    return bench_pull(loop, &config, piece ? look : NULL, piece, NULL, error);
}

static bool came_whole(const struct piece *piece, char *error)
{
    if (piece->came == piece->size)
        return true;
    snprintf(error, HR_ERROR_TEXT, "%llu bytes came of %llu", (unsigned long long)piece->came,
             (unsigned long long)piece->size);
    return false;
}

static bool decode_piece(const struct bench *b, hr_loop *loop, struct piece *piece, char *error)
{
    struct hr_source source = bench_memory(b->packed, b->packed_size);
    source.flags = HR_RANGE;
    source.offset = piece->begin;
    source.length = piece->size;
    if (!is_verifying(b))
        return move(loop, source, false, NULL, error);
    return move(loop, source, false, piece, error) && came_whole(piece, error);
}

static bool encode_piece(const struct bench *b, hr_loop *loop, struct piece *piece, char *error)
{
    const struct hr_source source = bench_memory(b->data + piece->begin, piece->size);
    struct piece again = *piece;
    if (!is_verifying(b))
        return move(loop, source, true, NULL, error);
    piece->kept = place_of(b, piece->begin);
    again.kept = NULL;
    return move(loop, source, true, piece, error) &&
           move(loop, bench_memory(piece->kept, piece->came), false, &again, error) &&
           came_whole(&again, error);
}

/* ---- threads ---- */

static bool take_piece(struct zstd_work *work, struct piece *piece)
{
    pthread_mutex_lock(&work->lock);
    const uint64_t left = work->bytes - work->next;
    piece->begin = work->next;
    piece->size = left < work->piece ? left : work->piece;
    work->next += piece->size;
    pthread_mutex_unlock(&work->lock);
    return piece->size > 0;
}

static struct pool *take_pool(struct bench *b)
{
    pthread_mutex_lock(&b->zstd->lock);
    struct pool *pool = &b->singles[b->zstd->n_joined++];
    pthread_mutex_unlock(&b->zstd->lock);
    return pool;
}

/* Made in the round that verifies. Its loop was another thread's, which has ended. */
static bool own_pool(struct pool *pool, char *error)
{
    hr_error why = {0};
    if (!bench_make_pool(pool, 1, 0, error))
        return false;
    if (hr_loop_take(pool->loop, &why) == HR_OK)
        return true;
    snprintf(error, HR_ERROR_TEXT, "%s", why.text);
    return false;
}

static void tell(struct zstd_work *work, const char *error)
{
    pthread_mutex_lock(&work->lock);
    if (!work->error[0])
        snprintf(work->error, HR_ERROR_TEXT, "%s", error);
    pthread_mutex_unlock(&work->lock);
}

/* The pieces are dealt as they are wanted, not by the thread's slice. */
static bool take_pieces(struct bench *b, int fd, unsigned char *buffer, uint64_t begin,
                        uint64_t end)
{
    (void)fd;
    (void)buffer;
    (void)begin;
    (void)end;
    char error[HR_ERROR_TEXT] = "";
    struct pool *pool = take_pool(b);
    struct piece piece = {.bench = b};
    bool done = own_pool(pool, error);
    while (done && take_piece(b->zstd, &piece)) {
        piece.came = 0;
        done = b->zstd->encode ? encode_piece(b, pool->loop, &piece, error)
                               : decode_piece(b, pool->loop, &piece, error);
    }
    if (!done)
        tell(b->zstd, error);
    return done;
}

/* ---- a sample ---- */

static bool run_zstd(struct bench *b, bool encode, struct way *way, struct sample *sample,
                     char *error)
{
    const uint64_t share = way->bytes / (PIECES * (uint64_t)way->width);
    struct zstd_work work = {
        .encode = encode, .bytes = way->bytes, .piece = (share + frame - 1) / frame * frame};
    if (b->no_packed[0]) {
        snprintf(error, HR_ERROR_TEXT, "%s", b->no_packed);
        return false;
    }
    if (!b->singles && !(b->singles = calloc((size_t)b->n_cpus, sizeof *b->singles)))
        return bench_told(error, "zstd");
    b->zstd = &work;
    pthread_mutex_init(&work.lock, NULL);
    const bool done = on_threads(b, way, take_pieces, -1, "zstd", sample, error);
    pthread_mutex_destroy(&work.lock);
    b->zstd = NULL;
    if (work.error[0])
        snprintf(error, HR_ERROR_TEXT, "%s", work.error);
    return done;
}

bool run_decode(struct bench *b, struct way *way, struct sample *sample, char *error)
{
    return run_zstd(b, false, way, sample, error);
}

bool run_encode(struct bench *b, struct way *way, struct sample *sample, char *error)
{
    return run_zstd(b, true, way, sample, error);
}
