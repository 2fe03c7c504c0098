// SPDX-License-Identifier: Apache-2.0
/* headrace: a pipelined streaming transfer engine.
 *
 *     source ─▶ read ─▶ (slots, one chunk each) ─▶ write ─▶ sink
 *
 * A pipeline moves a stream of bytes from its sources to its sink in chunks. Chunks are read ahead
 * into a bounded set of slots while earlier ones are written, so reading and writing overlap.
 *
 * Three objects, each optional but the last:
 *   context   shared by threads: CPU workers and the memory that slots are leased from
 *   loop      belongs to one thread: one I/O engine, one eventfd, any number of pipelines
 *   pipeline  one transfer, a state machine on one loop
 *
 * Minimal use:
 *
 *     struct hr_source source = { .struct_size = sizeof source, .kind = HR_FILE, .path = "in" };
 *     struct hr_pipeline_config config = {
 *         .struct_size = sizeof config, .sources = &source, .n_sources = 1,
 *         .sink = { .struct_size = sizeof config.sink, .kind = HR_FILE, .path = "out" },
 *     };
 *     hr_pipeline *pipeline = NULL;
 *     hr_error error;
 *     if (hr_pipeline_create(NULL, &config, &pipeline, &error) == HR_OK)
 *         hr_pipeline_run(pipeline, &error);
 *     hr_pipeline_free(pipeline);
 *
 * Conventions. Sizes of memory are size_t, offsets and totals uint64_t, both in bytes; ranges are
 * half-open. A transparent struct begins with struct_size, which the caller sets to its sizeof; 0
 * is the default of every other field. A shorter struct (of an older header) means zeros for the
 * rest; a longer one is accepted if what is beyond is zero. Functions fill *error, if it is not
 * NULL, only when they fail. The library has no global state, installs no signal handler, prints
 * nothing and never exits. */
#ifndef HEADRACE_H
#define HEADRACE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#define HR_MUST_CHECK __attribute__((warn_unused_result))
#else
#define HR_MUST_CHECK
#endif

#define HR_VERSION_MAJOR 0
#define HR_VERSION_MINOR 1
#define HR_VERSION_PATCH 0

/* ---- Status and errors --------------------------------------------------------------------- */

/* Negative: failed. Zero: done. Positive: not an error. */
typedef enum hr_status {
    HR_OK = 0,
    HR_AGAIN = 1,         /* the context's memory is all leased at present: try later */
    HR_PENDING = 2,       /* the transfer, or the step, has more to do */
    HR_EINVAL = -1,       /* an argument or a configuration that cannot be right */
    HR_ENOMEM = -2,       /* memory was short */
    HR_EIO = -3,          /* a system call on a source or sink failed: see native */
    HR_ETRUNCATED = -4,   /* a source ended before the length that it had, or that was asked for */
    HR_EUNSUPPORTED = -5, /* not offered by this system or this build */
    HR_ECANCELED = -6,    /* hr_pipeline_cancel was called */
    HR_EFORK = -7,   /* used in a child of the process that made it: start children by "spawn" */
    HR_ETHREAD = -8, /* a loop was stepped by a thread that does not own it */
    HR_ESPACE = -9   /* a memory sink is smaller than the stream */
} hr_status;

/* The places of a chunk's way, in order. */
enum hr_stage { HR_STAGE_NONE = 0, HR_STAGE_READ = 1, HR_STAGE_WRITE = 2, HR_STAGE_COUNT = 3 };

enum { HR_ERROR_TEXT = 512 };

/* What went wrong, where. text is one line that names the input or output, the position, the cause
 * and, where the user can do something, what. */
typedef struct hr_error {
    int32_t code;   /* hr_status */
    int32_t stage;  /* enum hr_stage */
    int32_t native; /* errno of the system call, 0 if none */
    int32_t reserved;
    uint64_t chunk;  /* index of the chunk in the stream */
    uint64_t offset; /* byte in the stream at which the failing operation stood */
    char text[HR_ERROR_TEXT];
} hr_error;

/* The name of a status as in this header, "HR_EIO"; "unknown status" for any other number.
 * Owns: a constant string. Thread: any. */
const char *hr_status_name(hr_status status);

/* The version of the library in use, "0.1.0". Owns: a constant string. Thread: any. */
const char *hr_version(void);

/* ---- Context ------------------------------------------------------------------------------- */

typedef struct hr_context hr_context;

struct hr_context_config {
    uint32_t struct_size;
    uint32_t n_threads;  /* CPU workers; 0: one for each CPU the process may use */
    uint64_t max_memory; /* bytes that all slots together may lease; 0: 1 GiB */
};

/* Makes a context. config may be NULL.
 * Owns: the caller frees it. Loops keep it alive, so it may be freed before them.
 * Fails: HR_EINVAL, HR_ENOMEM. */
hr_status hr_context_create(const struct hr_context_config *config, hr_context **out,
                            hr_error *error) HR_MUST_CHECK;

/* Gives up the caller's hold. NULL is allowed. Thread: any. Blocks: until the CPU workers ended, if
 * it was the last hold. */
void hr_context_free(hr_context *context);

/* ---- Loop ---------------------------------------------------------------------------------- */

typedef struct hr_loop hr_loop;

enum hr_io_choice {
    HR_IO_AUTO = 0,   /* io_uring, else threads */
    HR_IO_URING = 1,  /* io_uring, or creation fails with the reason */
    HR_IO_THREADS = 2 /* pread and pwrite in threads, epoll for pipes and sockets */
};

struct hr_loop_config {
    uint32_t struct_size;
    uint32_t io;         /* enum hr_io_choice */
    uint32_t io_entries; /* requests in the kernel at once; 0: 64 */
    uint32_t io_threads; /* of the thread engine; 0: 4 */
};

/* Makes a loop on a context (NULL: a private one). config may be NULL.
 * Thread: the loop belongs to the thread that first steps it.
 * Owns: the caller frees it, after its pipelines. Fails: HR_EINVAL, HR_ENOMEM, HR_EUNSUPPORTED. */
hr_status hr_loop_create(hr_context *context, const struct hr_loop_config *config, hr_loop **out,
                         hr_error *error) HR_MUST_CHECK;

/* Frees a loop that has no pipelines. NULL is allowed. */
void hr_loop_free(hr_loop *loop);

/* Which engine serves the loop, "uring" or "threads", and why the other does not ("" if it was
 * forced or is the first choice). Owns: strings of the loop. why may be NULL. */
const char *hr_loop_io(const hr_loop *loop, const char **why);

/* Does what can be done at once. Blocks: never.
 * Returns HR_PENDING while a pipeline is unfinished, HR_OK when none is.
 * Fails: HR_ETHREAD, HR_EFORK. A pipeline's failure is its own: hr_pipeline_state. */
hr_status hr_loop_step(hr_loop *loop, hr_error *error) HR_MUST_CHECK;

/* For foreign event loops: step until hr_loop_arm says HR_OK, then sleep until hr_loop_fd is
 * readable, then step again. HR_PENDING: there is work, do not sleep. Blocks: never. */
hr_status hr_loop_arm(hr_loop *loop) HR_MUST_CHECK;

/* The descriptor (an eventfd) that becomes readable when an armed loop has work.
 * Owns: the loop; do not read or close it. */
int hr_loop_fd(const hr_loop *loop);

/* Sleeps until there is something to do, for at most timeout_ms (negative: without limit), and
 * steps. Returns and fails like hr_loop_step. */
hr_status hr_loop_poll(hr_loop *loop, int timeout_ms, hr_error *error) HR_MUST_CHECK;

/* ---- Sources and sinks --------------------------------------------------------------------- */

enum hr_end_kind {
    HR_NULL = 0,    /* sink only: reads every byte for its CRC-32 and drops it */
    HR_FILE = 1,    /* path */
    HR_FD = 2,      /* fd: read or written from its position on; never closed, its flags left */
    HR_MEMORY = 3,  /* data, size: used in place, must stay until the pipeline ended */
    HR_CALLBACK = 4 /* read or write, user */
};

enum hr_end_flag {
    HR_RANGE = 1, /* source: offset and length count, even if length is 0 */
    HR_FSYNC = 2  /* sink: a file is on stable storage before the pipeline is done */
};

/* Like pread(2): fills at most size bytes from offset, returns how many, 0 at the end, -errno on
 * failure. Called on a CPU worker, one call at a time for each pipeline. */
typedef int64_t (*hr_read_fn)(void *user, void *buffer, size_t size, uint64_t offset);

/* Like pwrite(2): takes at most size bytes for offset, returns how many (more than 0), -errno on
 * failure. Called on a CPU worker, one call at a time for each pipeline, in stream order. */
typedef int64_t (*hr_write_fn)(void *user, const void *buffer, size_t size, uint64_t offset);

struct hr_source {
    uint32_t struct_size;
    uint32_t kind;  /* enum hr_end_kind */
    uint32_t flags; /* enum hr_end_flag */
    int32_t fd;
    const char *path; /* copied */
    const void *data;
    uint64_t size;
    hr_read_fn read;
    void *user;
    uint64_t
        offset; /* HR_RANGE: the first byte; on what cannot seek, bytes before it are dropped */
    uint64_t length; /* HR_RANGE: bytes; UINT64_MAX: to the end; a range beyond the end gives what
                        is there */
};

struct hr_sink {
    uint32_t struct_size;
    uint32_t kind;
    uint32_t flags;
    int32_t fd;
    /* A regular file is written beside its target and renamed when whole: a failure leaves the old
     * file, or none. Mode and (where allowed) owner are kept, symbolic links followed. Devices and
     * FIFOs are written in place. */
    const char *path;
    void *data;
    uint64_t size;
    hr_write_fn write;
    void *user;
};

/* ---- Pipeline ------------------------------------------------------------------------------ */

typedef struct hr_pipeline hr_pipeline;

struct hr_pipeline_config {
    uint32_t struct_size;
    uint32_t n_sources;
    const struct hr_source *sources; /* one stream, in this order; stride: sources[0].struct_size */
    struct hr_sink sink;
    uint64_t chunk_size; /* bytes; 0: 4 MiB, or less if the stream is known to be shorter */
    uint32_t depth;      /* chunks on their way at once, at least 1; 0: 8 */
    uint32_t reserved;
};

/* Opens the ends and leases memory for one chunk (more is leased as used, up to depth).
 * loop NULL: a private loop and context.
 * Blocks: only to open a FIFO whose other end is not open yet.
 * Owns: the caller frees it. The config is copied; memory and callbacks must stay.
 * Returns HR_AGAIN if the context's memory is all leased.
 * Fails: HR_EINVAL (also when the sink is one of the sources), HR_ENOMEM, HR_EIO. */
hr_status hr_pipeline_create(hr_loop *loop, const struct hr_pipeline_config *config,
                             hr_pipeline **out, hr_error *error) HR_MUST_CHECK;

/* Runs the loop until this pipeline has ended; other pipelines of the loop advance too.
 * Thread: the loop's. Blocks: yes. Returns like hr_pipeline_state. */
hr_status hr_pipeline_run(hr_pipeline *pipeline, hr_error *error) HR_MUST_CHECK;

/* HR_PENDING while it runs, HR_OK when every byte has been delivered, else why it failed.
 * Everything before the failing position was delivered. Thread: the loop's. Blocks: never. */
hr_status hr_pipeline_state(const hr_pipeline *pipeline, hr_error *error) HR_MUST_CHECK;

/* Ends the transfer early with HR_ECANCELED; what is in flight drains first.
 * Thread: any, also a signal handler; not during hr_pipeline_free. */
void hr_pipeline_cancel(hr_pipeline *pipeline);

/* Frees it; cancels it and drains first if it runs. NULL is allowed. Thread: the loop's.
 * Blocks: until nothing is in flight: a callback that runs is waited for. Called from a thread that
 * does not own the loop, or in a forked child, it leaves a running pipeline as it is. */
void hr_pipeline_free(hr_pipeline *pipeline);

/* ---- Statistics ---------------------------------------------------------------------------- */

struct hr_stage_stats {
    uint64_t chunks; /* finished */
    uint64_t bytes;  /* moved */
    uint64_t
        service_ns; /* time in which the stage had work under way, waiting for peers left out */
};

struct hr_stats {
    uint32_t struct_size;
    uint32_t depth;                               /* slots that were leased */
    uint64_t wall_ns;                             /* since the first step; stops at the end */
    uint64_t chunk_size;                          /* bytes */
    uint64_t leased_bytes;                        /* of slots */
    struct hr_stage_stats stages[HR_STAGE_COUNT]; /* by enum hr_stage */
    uint32_t crc32; /* of the stream, as zlib's, once it is done; HR_NULL sinks only */
    uint32_t reserved;
};

/* Fills stats, whose struct_size the caller has set. Thread: the loop's, also while it runs.
 * Fails: HR_EINVAL. */
hr_status hr_pipeline_stats(const hr_pipeline *pipeline, struct hr_stats *stats) HR_MUST_CHECK;

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif
