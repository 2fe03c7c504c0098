// SPDX-License-Identifier: Apache-2.0
/* One read is held back until all else that can be done is done. Where the bytes' places at the sink
 * are known, all others are delivered meanwhile; where somebody sees the order, none is. Then it ends,
 * or it fails, or others have failed before: the first error in the stream is reported, all that
 * precedes it was delivered, and nothing behind it is said to be. On the host and over a fake driver.
 *
 * The test stands between the loop and its I/O engine: what it holds or fails it knows by its
 * offset, so nothing depends on time. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engines.h"
#include "fake_cuda.h"
#include "gpu_runs.h"
#include "loop.h"
#include "pipeline.h"
#include "transfers.h"
#include "wake.h"

enum { CHUNK = 4096, N_CHUNKS = 24, SIZE = N_CHUNKS * CHUNK + 12, DEPTH = 4, FIRST = 6 * CHUNK };

/* ---- the door before the I/O engine ---- */

static struct {
    hr_loop *loop;
    const struct hr__io_ops *real;
    struct hr__io_ops ops;
    enum hr__io_op holding;
    uint64_t held_at; /* that operation at this offset is held; UINT64_MAX: none */
    enum hr__io_op failing;
    uint64_t fails_at; /* that operation at this offset fails, with */
    int error;
    struct hr__io_request *held;
    struct hr__io_request *ended; /* a list: not by the engine */
    size_t sizes[3];              /* of the first reads */
    unsigned n_reads;
} door;

static void end_request(struct hr__io_request *request, int64_t result)
{
    request->result = result;
    request->next = door.ended;
    door.ended = request;
    hr__wake(door.loop->event_fd);
}

static void submit(struct hr__io *io, struct hr__io_request *request)
{
    const bool reads = request->op == HR__IO_READ;
    if (reads && door.n_reads < 3)
        door.sizes[door.n_reads] = request->size;
    door.n_reads += reads;
    if (request->op == door.holding && request->offset == door.held_at) {
        door.held = request;
        door.held_at = UINT64_MAX;
    } else if (door.error && request->op == door.failing && request->offset == door.fails_at) {
        end_request(request, -door.error);
    } else {
        door.real->submit(io, request);
    }
}

static void cancel(struct hr__io *io, struct hr__io_request *request)
{
    if (request == door.held) {
        door.held = NULL;
        end_request(request, -ECANCELED);
        return;
    }
    for (const struct hr__io_request *ended = door.ended; ended; ended = ended->next)
        if (ended == request)
            return;
    door.real->cancel(io, request);
}

static unsigned reap(struct hr__io *io)
{
    unsigned n = 0;
    for (struct hr__io_request *request; (request = door.ended); n++) {
        door.ended = request->next;
        request->done(request);
    }
    return n + door.real->reap(io);
}

/* The loop's engine is the loop's until it is freed. */
static void stand_before(hr_loop *loop)
{
    memset(&door, 0, sizeof door);
    door.loop = loop;
    door.held_at = UINT64_MAX;
    door.real = loop->io->ops;
    door.ops = *door.real;
    door.ops.submit = submit;
    door.ops.cancel = cancel;
    door.ops.reap = reap;
    loop->io->ops = &door.ops;
}

/* Result 0: it is read now. */
static void let_go(int64_t result)
{
    struct hr__io_request *held = door.held;
    door.held = NULL;
    if (held && result)
        end_request(held, result);
    else if (held)
        door.real->submit(door.loop->io, held);
    hr__wake(door.loop->event_fd); /* whose next step hands it on */
}

/* Until nothing is under way but what is held. */
static void settle(hr_pipeline *p)
{
    do {
        if (hr_loop_poll(p->loop, p->in_flight > (door.held != NULL) ? -1 : 0, NULL) < 0)
            return;
    } while (!p->finished && (p->marked || p->in_flight > (door.held != NULL)));
}

static uint64_t written(hr_pipeline *p)
{
    struct hr_stats stats = {.struct_size = sizeof stats};
    return hr_pipeline_stats(p, &stats) == HR_OK ? stats.stages[HR_STAGE_WRITE].bytes_out : 0;
}

/* ---- on the host ---- */

struct trial {
    const char *name;
    enum place from; /* PLACE_FILE is 0 */
    enum place to;
    bool by_fd; /* of a file: HR_FD */
    bool lent;
    bool two; /* sources, the first of FIRST + 5 bytes */
    uint32_t flags;
    const char *kernel;
    bool in_order;
};

static const struct trial trials[] = {
    {.name = "memory", .to = PLACE_MEMORY},
    {.name = "a file", .to = PLACE_FILE},
    {.name = "a descriptor of a file", .to = PLACE_FILE, .by_fd = true},
    {.name = "null", .to = PLACE_NULL},
    {.name = "two sources to memory", .to = PLACE_MEMORY, .two = true},
    {.name = "a callback", .to = PLACE_CALLBACK, .in_order = true},
    {.name = "a pipe", .to = PLACE_PIPE, .in_order = true},
    {.name = "a kernel to memory", .to = PLACE_MEMORY, .kernel = "crc32", .in_order = true},
    {.name = "a kernel to memory, in any order",
     .to = PLACE_MEMORY,
     .kernel = "crc32",
     .flags = HR_UNORDERED},
    {.name = "units of 12 to memory, in any order",
     .to = PLACE_MEMORY,
     .kernel = "shuffle:1,12",
     .flags = HR_UNORDERED},
};

struct bench {
    const struct trial *trial;
    struct transfer t;
    struct hr_source sources[2];
    int fd;
    hr_status status;
    hr_error error;
    struct hr_stats stats;
    uint32_t crc; /* of the kernel */
};

static void must(bool holds, const char *what)
{
    if (holds)
        return;
    printf("not ok the test itself: %s\n", what);
    exit(1);
}

static void open_fd(struct bench *b)
{
    b->fd = open(b->t.out, O_RDWR | O_CREAT, 0600);
    must(b->fd >= 0, "no file");
    b->t.config.sink = (struct hr_sink){.struct_size = sizeof b->t.config.sink, .kind = HR_FD};
    b->t.config.sink.fd = b->fd;
}

static void split(struct bench *b)
{
    for (unsigned i = 0; i < 2; i++)
        b->sources[i] = b->t.source;
    b->sources[0].flags = b->sources[1].flags = HR_RANGE;
    b->sources[0].length = b->sources[1].offset = FIRST + 5;
    b->sources[1].length = UINT64_MAX;
    b->t.config.sources = b->sources;
    b->t.config.n_sources = 2;
}

static void begin(struct bench *b, const struct trial *trial, uint32_t io, uint32_t depth,
                  uint64_t room)
{
    const struct shape shape = {.from = trial->from,
                                .to = trial->to,
                                .size = SIZE,
                                .chunk_size = CHUNK,
                                .depth = depth,
                                .io = io,
                                .kernel = trial->kernel};
    *b = (struct bench){.trial = trial, .fd = -1};
    transfer_open(&b->t, &shape);
    if (trial->by_fd)
        open_fd(b);
    if (trial->two)
        split(b);
    if (room)
        b->t.config.sink.size = room;
    if (trial->lent)
        b->t.config.sink.kind = HR_PULL;
    b->t.config.flags = trial->flags;
    b->t.config.direct = trial->to == PLACE_NULL ? HR_DIRECT_ON : HR_DIRECT_OFF;
    b->status = transfer_create(&b->t, &b->error);
    must(b->status == HR_OK, b->error.text);
    stand_before(b->t.loop);
}

/* Runs it to its end. */
static enum outcome end(struct bench *b, const char **wrong)
{
    struct transfer *t = &b->t;
    b->status = hr_pipeline_run(t->pipeline, &b->error);
    b->stats.struct_size = sizeof b->stats;
    must(hr_pipeline_stats(t->pipeline, &b->stats) == HR_OK, "no statistics");
    struct hr_result result = {.struct_size = sizeof result};
    if (hr_pipeline_result(t->pipeline, 0, &result, NULL) == HR_OK)
        memcpy(&b->crc, result.data, sizeof b->crc);
    if (door.held || door.ended)
        *wrong = "it ends while a read is under way";
    transfer_free(t);
    const off_t at = b->fd >= 0 ? lseek(b->fd, 0, SEEK_CUR) : 0;
    if (b->fd >= 0 && (uint64_t)at != b->stats.stages[HR_STAGE_WRITE].bytes_out && !*wrong)
        *wrong = "the descriptor is left elsewhere";
    if (b->fd >= 0)
        close(b->fd);
    const enum outcome outcome = transfer_finish(t);
    return outcome;
}

static const char *name_of(const struct trial *trial, uint32_t io, const char *what)
{
    static char name[200];
    snprintf(name, sizeof name, "%s: %s: %s", io == HR_IO_THREADS ? "threads" : "uring",
             trial->name, what);
    limit_time(20, name);
    return name;
}

/* RFC 1952, section 8, bit by bit. */
static uint32_t crc_of(const unsigned char *bytes, size_t size)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < 8 * size; i++) {
        const uint32_t bit = crc ^ (uint32_t)(bytes[i / 8] >> i % 8);
        crc = crc >> 1 ^ (bit & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

static void the_first_comes_last(const struct trial *trial, uint32_t io)
{
    struct bench b;
    const char *name = name_of(trial, io, "the first read ends last");
    const char *wrong = NULL;
    begin(&b, trial, io, DEPTH, 0);
    door.held_at = 0;
    settle(b.t.pipeline);
    const uint64_t meanwhile = written(b.t.pipeline);
    if (meanwhile != (trial->in_order ? 0 : SIZE - b.t.pipeline->chunk_size))
        wrong = "other bytes are delivered meanwhile";
    let_go(0);
    const enum outcome outcome = end(&b, &wrong);
    if (b.status != HR_OK || (outcome != OUTCOME_WHOLE && !wrong))
        wrong = "the output is not whole";
    if (b.stats.stages[HR_STAGE_WRITE].bytes_out != SIZE && !wrong)
        wrong = "the bytes are miscounted";
    const bool has_crc = trial->kernel && strcmp(trial->kernel, "crc32") == 0;
    if ((has_crc || trial->to == PLACE_NULL) && !wrong &&
        (has_crc ? b.crc : b.stats.crc32) != crc_of(b.t.bytes, SIZE))
        wrong = "the CRC-32 is wrong";
    check_that(!wrong, name, "%s: %u bytes: %s", wrong, (unsigned)meanwhile, b.error.text);
    transfer_close(&b.t);
}

/* ---- errors ---- */

static const struct trial to_memory = {.name = "memory", .to = PLACE_MEMORY};
static const struct trial to_fd = {
    .name = "a descriptor of a file", .to = PLACE_FILE, .by_fd = true};
static const struct trial in_order_to_fd = {.name = "a callback to a descriptor of a file",
                                            .from = PLACE_CALLBACK,
                                            .to = PLACE_FILE,
                                            .by_fd = true};

struct blow {
    const char *name;
    const struct trial *trial;
    enum hr__io_op holding;
    uint64_t held_at;
    int64_t let_go; /* with this result; 0: it is read */
    enum hr__io_op failing;
    uint64_t fails_at;
    int error;       /* 0: nothing fails */
    uint64_t cut_to; /* the file, meanwhile; 0: it stays */
    uint64_t room;   /* of a memory sink; 0: enough */
    bool cancels;
    hr_status code;
    enum hr_stage stage;
    uint64_t offset;
};

static const struct blow blows[] = {
    {.name = "a read behind it fails",
     .trial = &to_memory,
     .failing = HR__IO_READ,
     .fails_at = 3 * CHUNK,
     .error = EIO,
     .code = HR_EIO,
     .stage = HR_STAGE_READ,
     .offset = 3 * CHUNK},
    {.name = "a read behind it fails, then itself",
     .trial = &to_memory,
     .let_go = -EREMOTEIO,
     .failing = HR__IO_READ,
     .fails_at = 3 * CHUNK,
     .error = EIO,
     .code = HR_EIO,
     .stage = HR_STAGE_READ},
    {.name = "a write behind it fails",
     .trial = &to_fd,
     .held_at = CHUNK,
     .failing = HR__IO_WRITE,
     .fails_at = 7 * CHUNK,
     .error = ENOSPC,
     .code = HR_EIO,
     .stage = HR_STAGE_WRITE,
     .offset = 7 * CHUNK},
    {.name = "a write behind it fails, then its own",
     .trial = &to_fd,
     .held_at = 2 * CHUNK,
     .let_go = -EREMOTEIO,
     .failing = HR__IO_WRITE,
     .fails_at = 7 * CHUNK,
     .error = ENOSPC,
     .code = HR_EIO,
     .stage = HR_STAGE_READ,
     .offset = 2 * CHUNK},
    {.name = "the file ends early",
     .trial = &to_memory,
     .held_at = 2 * CHUNK,
     .cut_to = 2 * CHUNK + 100,
     .code = HR_ETRUNCATED,
     .stage = HR_STAGE_READ,
     .offset = 2 * CHUNK + 100},
    {.name = "the file ends early, and the write behind that failed before",
     .trial = &to_fd,
     .held_at = 2 * CHUNK,
     .failing = HR__IO_WRITE,
     .fails_at = 3 * CHUNK,
     .error = ENOSPC,
     .cut_to = 2 * CHUNK + 100,
     .code = HR_ETRUNCATED,
     .stage = HR_STAGE_READ,
     .offset = 2 * CHUNK + 100},
    {.name = "the memory is too small",
     .trial = &to_memory,
     .held_at = CHUNK,
     .room = 5 * CHUNK + 7,
     .code = HR_ESPACE,
     .stage = HR_STAGE_WRITE,
     .offset = 5 * CHUNK},
    {.name = "a write fails last",
     .trial = &to_fd,
     .holding = HR__IO_WRITE,
     .held_at = 2 * CHUNK,
     .let_go = -ENOSPC,
     .code = HR_EIO,
     .stage = HR_STAGE_WRITE,
     .offset = 2 * CHUNK},
    {.name = "a write fails last",
     .trial = &in_order_to_fd,
     .holding = HR__IO_WRITE,
     .held_at = 2 * CHUNK,
     .let_go = -ENOSPC,
     .code = HR_EIO,
     .stage = HR_STAGE_WRITE,
     .offset = 2 * CHUNK},
    {.name = "a write behind it failed, and it is cancelled",
     .trial = &to_fd,
     .held_at = CHUNK,
     .failing = HR__IO_WRITE,
     .fails_at = 7 * CHUNK,
     .error = ENOSPC,
     .cancels = true,
     .code = HR_ECANCELED,
     .offset = CHUNK},
    {.name = "it is cancelled",
     .trial = &to_fd,
     .held_at = CHUNK,
     .cancels = true,
     .code = HR_ECANCELED,
     .offset = CHUNK},
};

static const char *judge_error(const struct bench *b, const struct blow *blow)
{
    const struct hr_stage_stats *write = &b->stats.stages[HR_STAGE_WRITE];
    if (b->status != blow->code || (!blow->cancels && b->error.stage != (int32_t)blow->stage))
        return "another error";
    if (b->error.offset != blow->offset || b->error.chunk != blow->offset / CHUNK)
        return "another place";
    if (write->bytes_out != blow->offset || write->bytes_in != blow->offset ||
        write->chunks != (blow->offset + CHUNK - 1) / CHUNK)
        return "not what precedes it is said to be delivered";
    if (b->trial->to == PLACE_MEMORY && memcmp(b->t.got, b->t.bytes, blow->offset) != 0)
        return "not what precedes it was delivered";
    return NULL;
}

static void strike(const struct blow *blow, uint32_t io)
{
    struct bench b;
    const char *name = name_of(blow->trial, io, blow->name);
    const char *wrong = NULL;
    begin(&b, blow->trial, io, blow->cut_to ? N_CHUNKS + 2 : DEPTH, blow->room);
    door.holding = blow->holding;
    door.held_at = blow->held_at;
    door.failing = blow->failing;
    door.fails_at = blow->fails_at;
    door.error = blow->error;
    settle(b.t.pipeline);
    if (b.t.pipeline->finished)
        wrong = "it ended before what is held did";
    if (blow->cut_to)
        must(truncate(b.t.in, (off_t)blow->cut_to) == 0, "truncate");
    if (blow->cancels)
        hr_pipeline_cancel(b.t.pipeline);
    else
        let_go(blow->let_go);
    end(&b, &wrong);
    if (!wrong)
        wrong = judge_error(&b, blow);
    check_that(!wrong, name, "%s: %s at byte %u of %u: %s", wrong, hr_status_name(b.status),
               (unsigned)b.error.offset, (unsigned)b.stats.stages[HR_STAGE_WRITE].bytes_out,
               b.error.text);
    transfer_close(&b.t);
}

/* ---- lent ---- */

static const char *judge_lent(const struct bench *b, const struct hr_chunk *chunk, unsigned *n_lent)
{
    const uint64_t n_first = FIRST / CHUNK + 1; /* the last of them is short */
    const bool second = chunk->index >= n_first;
    const uint64_t at =
        second ? FIRST + 5 + (chunk->index - n_first) * CHUNK : chunk->index * CHUNK;
    if (chunk->index >= N_CHUNKS + 2 || n_lent[chunk->index]++ > 0)
        return "a chunk is lent twice";
    if (chunk->stream_offset != at || chunk->source_offset != at || chunk->source != second)
        return "a chunk does not know its place";
    if (!!(chunk->flags & HR_CHUNK_FIRST) != (chunk->index == 0))
        return "another one is the first";
    return memcmp(chunk->data, b->t.bytes + at, chunk->size) == 0 ? NULL : "the bytes are wrong";
}

/* Takes what is there; returns how many bytes. */
static uint64_t take(struct bench *b, unsigned *n_lent, const char **wrong)
{
    uint64_t n = 0;
    for (;;) {
        struct hr_chunk chunk = {.struct_size = sizeof chunk};
        settle(b->t.pipeline);
        b->status = hr_pipeline_next(b->t.pipeline, 0, &chunk, &b->error);
        if (b->status != HR_OK)
            return n;
        n += chunk.size;
        if (!*wrong)
            *wrong = judge_lent(b, &chunk, n_lent);
        hr_chunk_release(&chunk, NULL);
    }
}

static void lend(uint32_t io)
{
    static const struct trial any = {.name = "lent in any order",
                                     .to = PLACE_NULL,
                                     .lent = true,
                                     .two = true,
                                     .flags = HR_UNORDERED};
    struct bench b;
    unsigned n_lent[N_CHUNKS + 2] = {0};
    const char *name = name_of(&any, io, "the first read ends last");
    const char *wrong = NULL;
    begin(&b, &any, io, DEPTH, 0);
    door.held_at = 0;
    const uint64_t meanwhile = take(&b, n_lent, &wrong);
    if (meanwhile != SIZE - CHUNK || b.status != HR_PENDING)
        wrong = "not all others are lent meanwhile";
    let_go(0);
    if (take(&b, n_lent, &wrong) != CHUNK || b.status != HR_END)
        wrong = "the last one is not lent";
    transfer_free(&b.t);
    transfer_finish(&b.t);
    check_that(!wrong, name, "%s: %u bytes: %s", wrong, (unsigned)meanwhile, b.error.text);
    transfer_close(&b.t);
}

/* ---- the first reads are short ---- */

static void ramp(enum place to, uint64_t size, bool ramps, uint32_t io)
{
    enum { MIB = 1 << 20, SHORT = 256 << 10 };
    const struct shape shape = {
        .from = PLACE_FILE, .to = to, .size = size, .chunk_size = MIB, .depth = 2, .io = io};
    struct bench b = {.fd = -1};
    char name[200];
    snprintf(name, sizeof name, "%s, %u bytes: the first reads are %s", transfer_name(&shape),
             (unsigned)size, ramps ? "short" : "as the others");
    limit_time(20, name);
    transfer_open(&b.t, &shape);
    b.t.config.direct = HR_DIRECT_OFF;
    must(transfer_create(&b.t, &b.error) == HR_OK, b.error.text);
    stand_before(b.t.loop);
    const char *wrong = NULL;
    if (end(&b, &wrong) != OUTCOME_WHOLE)
        wrong = "the output is wrong";
    if (door.sizes[0] != (ramps ? SHORT : MIB) || door.sizes[1] != (ramps ? 2 * SHORT : MIB) ||
        door.sizes[2] != MIB)
        wrong = "the first reads have other sizes";
    const uint64_t rest = ramps ? size - 3 * SHORT : size;
    const uint64_t n_chunks = (rest + MIB - 1) / MIB + (ramps ? 2 : 0);
    if (b.stats.stages[HR_STAGE_WRITE].chunks != n_chunks ||
        b.stats.stages[HR_STAGE_READ].chunks != n_chunks)
        wrong = "the chunks are miscounted";
    check_that(!wrong, name, "%s: %zu %zu %zu: %s", wrong, door.sizes[0], door.sizes[1],
               door.sizes[2], b.error.text);
    transfer_close(&b.t);
}

static void ramps(uint32_t io)
{
    ramp(PLACE_MEMORY, (8 << 20) + 7, true, io);
    ramp(PLACE_MEMORY, (8 << 20) - 1, false, io);
    ramp(PLACE_CALLBACK, (8 << 20) + 7, false, io);
}

/* ---- on a device ---- */

static bool is_hip(void)
{
    return strcmp(gpu_driver()->name, "hip") == 0;
}

static const struct gpu_case {
    struct gpu_shape shape;
    bool in_order;
} gpu_cases[] = {
    {{.name = "device memory", .to = GPU_DEVICE}, false},
    {{.name = "gathered", .to = GPU_GROWING}, false},
    {{.name = "pinned memory", .to = GPU_PINNED}, false},
    {{.name = "plain memory", .to = GPU_PLAIN}, false},
    {{.name = "a file", .to = GPU_FILE}, false},
    {{.name = "a kernel to device memory", .to = GPU_DEVICE, .kernels = {"scale:u8,3,1"}}, true},
    {{.name = "kernels to device memory, in any order",
      .to = GPU_DEVICE,
      .kernels = {"scale:u8,3,1", "crc32", "bswap:4", GPU_PLUS_ONE},
      .flags = HR_UNORDERED},
     false},
    {{.name = "kernels that shrink to pinned memory, in any order",
      .to = GPU_PINNED,
      .kernels = {"crc32", "cast:i16,u8", "crc32"},
      .flags = HR_UNORDERED},
     false},
};

struct gpu_bench {
    struct gpu_shape shape;
    struct gpu_expected expected;
    struct gpu_run run;
    hr_context *context;
    hr_loop *loop;
};

static void begin_on_gpu(struct gpu_bench *b, const struct gpu_case *gpu)
{
    b->shape = gpu->shape;
    b->shape.from = GPU_FILE;
    b->shape.size = SIZE;
    b->shape.chunk_size = CHUNK;
    b->shape.depth = DEPTH;
    b->shape.n_streams = 2;
    gpu_expect(&b->expected, &b->shape);
    gpu_begin(&b->context, &b->loop);
    gpu_run_create(&b->run, &b->shape, &b->expected, b->context, b->loop);
    must(b->run.status == HR_OK, b->run.error.text);
    stand_before(b->loop);
    door.held_at = 0;
}

static void end_on_gpu(struct gpu_bench *b, const char *name, const char *wrong)
{
    gpu_run_free(&b->run);
    hr_loop_free(b->loop);
    hr_context_free(b->context);
    gpu_forget(&b->expected);
    if (!wrong && *gpu_left())
        wrong = gpu_left();
    check_that(!wrong, name, "%s: %s at byte %u: %s", wrong, hr_status_name(b->run.status),
               (unsigned)b->run.error.offset, b->run.error.text);
}

static void the_first_comes_last_on_gpu(const struct gpu_case *gpu)
{
    struct gpu_bench b;
    char name[200];
    const char *wrong = NULL;
    snprintf(name, sizeof name, "%s: %s: the first read ends last", gpu_name(), gpu->shape.name);
    limit_time(20, name);
    begin_on_gpu(&b, gpu);
    settle(b.run.pipeline);
    const uint64_t part = b.expected.n_out - b.expected.n_out * CHUNK / SIZE;
    const uint64_t meanwhile = written(b.run.pipeline);
    if (gpu->in_order ? meanwhile != 0 : meanwhile < part || meanwhile >= b.expected.n_out)
        wrong = "other bytes are delivered meanwhile";
    let_go(0);
    gpu_run_finish(&b.run);
    if (!wrong)
        wrong = b.run.status != HR_OK ? "it fails" : gpu_run_judge(&b.run);
    end_on_gpu(&b, name, wrong);
}

/* A failure is a stream's last word, so the first chunk fails as well when it comes: that is told. */
static void a_copy_fails(const struct gpu_case *gpu, int status)
{
    struct gpu_bench b;
    char name[200];
    const char *wrong = NULL;
    snprintf(name, sizeof name, "%s: %s: a copy behind it fails with %d", gpu_name(),
             gpu->shape.name, status);
    limit_time(20, name);
    begin_on_gpu(&b, gpu);
    fake_cuda_fail_call(is_hip() ? "hipMemcpyAsync" : "cuMemcpyHtoDAsync", 3, status);
    settle(b.run.pipeline);
    if (b.run.pipeline->finished)
        wrong = "it ended before the first read did";
    let_go(0);
    gpu_run_finish(&b.run);
    fake_cuda_fail(0, 0);
    if (!wrong && b.run.status == HR_OK)
        wrong = "it does not fail";
    if (!wrong && (b.run.error.stage != HR_STAGE_H2D || b.run.error.offset != 0 ||
                   b.run.error.chunk != 0 || b.run.stats.stages[HR_STAGE_WRITE].bytes_out != 0))
        wrong = "another place, or not what precedes it is said to be delivered";
    if (!wrong)
        wrong = gpu_run_judge(&b.run);
    end_on_gpu(&b, name, wrong);
}

int main(int n_args, char **args)
{
    uint32_t engines[2];
    gpu_use(n_args, args);
    const unsigned n_engines = is_hip() ? 0 : test_engines(engines); /* the host, once */
    for (unsigned e = 0; e < n_engines; e++) {
        for (unsigned i = 0; i < sizeof trials / sizeof trials[0]; i++)
            the_first_comes_last(&trials[i], engines[e]);
        for (unsigned i = 0; i < sizeof blows / sizeof blows[0]; i++)
            strike(&blows[i], engines[e]);
        lend(engines[e]);
        ramps(engines[e]);
    }
    for (unsigned i = 0; i < sizeof gpu_cases / sizeof gpu_cases[0]; i++)
        the_first_comes_last_on_gpu(&gpu_cases[i]);
    for (unsigned i = 0; i < 3; i++) {
        a_copy_fails(&gpu_cases[i], 2);
        a_copy_fails(&gpu_cases[i], 700);
    }
    check_that(!has_leaked(), "no memory is lost", "it is");
    return end_checks();
}
