// SPDX-License-Identifier: Apache-2.0
/* headrace: a pipelined streaming transfer engine.
 *
 *     source ─▶ read ─▶ decode ─▶ H2D ─▶ kernels ─▶ D2H ─▶ encode ─▶ write ─▶ sink
 *               I/O     CPU pool  device streams           CPU pool  I/O
 *
 * A pipeline moves a stream of bytes from its sources to its sink in chunks. All stages work at
 * once, each on another chunk, in memory that is leased from a bounded store and used again.
 *
 * Three objects, each optional but the last:
 *   context   shared by threads: CPU workers, devices, and the memory that chunks are leased from
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
 * NULL, only when they fail, and with HR_AGAIN; *out is set only when they succeed. Handles are not
 * NULL, but where it is said. The library has no global state, installs no signal handler, prints
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
    HR_END = 3,           /* hr_pipeline_next: the last chunk was handed out before */
    HR_EINVAL = -1,       /* an argument or a configuration that cannot be right */
    HR_ENOMEM = -2,       /* memory was short */
    HR_EIO = -3,          /* a system call on a source or sink failed: see native */
    HR_ETRUNCATED = -4,   /* a source ended before the length that it had, or inside of a frame or
                             of a kernel's unit */
    HR_EUNSUPPORTED = -5, /* not offered by this system or this build */
    HR_ECANCELED = -6,    /* hr_pipeline_cancel was called */
    HR_EFORK = -7,      /* used in a child of the process that made it: start children by "spawn" */
    HR_ETHREAD = -8,    /* a loop was stepped by a thread that does not own it */
    HR_ESPACE = -9,     /* a memory sink is smaller than the stream */
    HR_ECORRUPT = -10,  /* encoded data are damaged, no zstd, or need another dictionary */
    HR_ELIMIT = -11,    /* data ask for more than a limit allows: the text names the option */
    HR_EDEVICE = -12,   /* a device, its driver, or a kernel failed */
    HR_ETIMEDOUT = -13, /* connect_ms or idle_ms went by */
    HR_ELOANED = -14    /* hr_pipeline_next: every chunk is on loan, release one first */
} hr_status;

/* The places of a chunk's way, in order. */
enum hr_stage {
    HR_STAGE_NONE = 0,
    HR_STAGE_READ = 1,
    HR_STAGE_DECODE = 2,
    HR_STAGE_H2D = 3,
    HR_STAGE_KERNEL = 4,
    HR_STAGE_D2H = 5,
    HR_STAGE_ENCODE = 6,
    HR_STAGE_WRITE = 7,
    HR_STAGE_COUNT = 8
};

/* The word for a stage in tables and messages: "read", "decode", ...
 * Owns: a constant string. Thread: any. */
const char *hr_stage_name(enum hr_stage stage);

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

/* One line about a fall-back or a choice that a user may want to know of: which I/O engine and why,
 * direct I/O refused, memory not registered, "auto" found no GPU. No newline at the end.
 * Called on any thread, one call at a time for each context; it must not call the library. */
typedef void (*hr_log_fn)(void *user, const char *line);

struct hr_context_config {
    uint32_t struct_size;
    uint32_t n_threads;  /* CPU workers; 0: one for each CPU the process may use */
    uint64_t max_memory; /* bytes that all chunks together may lease; 0: 1 GiB */
    hr_log_fn log;       /* NULL: no lines */
    void *log_user;
};

/* Makes a context. config may be NULL.
 * Owns: the caller frees it. Loops keep it alive, so it may be freed before them.
 * Fails: HR_EINVAL, HR_ENOMEM. */
hr_status hr_context_create(const struct hr_context_config *config, hr_context **out,
                            hr_error *error) HR_MUST_CHECK;

/* One more hold for the caller, to be given up by hr_context_free: for memory of hr_device_alloc, say,
 * that outlives who made the context. Thread: any. Blocks: never. */
void hr_context_hold(hr_context *context);

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

enum hr_loop_flag {
    HR_LOOP_SHARED = 1 /* hr_loop_take also while operations are under way: for threads that take
                          turns. io_uring is a little slower so */
};

struct hr_loop_config {
    uint32_t struct_size;
    uint32_t io;         /* enum hr_io_choice */
    uint32_t io_entries; /* requests on files in the kernel at once; 0: 64 */
    uint32_t io_threads; /* of the thread engine, at most; 0: as the context's, from 4 to 16 */
    uint32_t flags;      /* enum hr_loop_flag */
};

/* Makes a loop on a context (NULL: a private one). config may be NULL.
 * Thread: the loop belongs to the thread that first steps it.
 * Owns: the caller frees it, after its pipelines. Fails: HR_EINVAL, HR_ENOMEM, HR_EUNSUPPORTED,
 * HR_EFORK. */
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

/* Makes the calling thread the owner of the loop. The former owner does not use it any more, and
 * what it did is visible to the caller (a join, a lock). Fails: HR_EFORK; HR_EINVAL while
 * operations are under way, without HR_LOOP_SHARED. */
hr_status hr_loop_take(hr_loop *loop, hr_error *error) HR_MUST_CHECK;

/* The descriptor that becomes readable when an armed loop has work, or a time limit is reached. While
 * it is waited for, epoll_wait(2) may end with EINTR, as io_uring starts workers of the kernel's.
 * Owns: the loop; poll it, do not read or close it. */
int hr_loop_fd(const hr_loop *loop);

/* Sleeps until there is something to do, for at most timeout_ms (negative: without limit), and
 * steps. Returns and fails like hr_loop_step. */
hr_status hr_loop_poll(hr_loop *loop, int timeout_ms, hr_error *error) HR_MUST_CHECK;

/* ---- Sources and sinks --------------------------------------------------------------------- */

enum hr_end_kind {
    HR_NULL = 0,     /* sink only: reads every byte for its CRC-32 and drops it */
    HR_FILE = 1,     /* path; as long as it is when it is opened, but one that says it is empty (a
                        file of /proc, say) is read to its end. A FIFO is waited for while the loop
                        runs: as a source for its first writer, as a sink for a reader */
    HR_FD = 2,       /* fd: read or written from its position on; never closed, its flags left. A
                        socket is a stream (SOCK_STREAM) that does not listen, else HR_EINVAL. The
                        pipeline has a duplicate of it: the caller may close it at any time */
    HR_MEMORY = 3,   /* data, size: used in place, must stay until the pipeline ended. A source and
                        the sink may begin at one address, where no chunk grows. Between it
                        and a GPU bytes go directly where the memory is pinned (hr_pin, or
                        the vendor's own allocator), else through the pipeline's pinned slots */
    HR_CALLBACK = 4, /* read or write, user */
    HR_SOCKET = 5,   /* path is an address: tcp://HOST:PORT, tcp-listen://HOST:PORT, unix:PATH,
                        unix-listen:PATH. HOST may be [IPv6], and for listening empty or * (all).
                        A listener takes one connection and closes. Connecting goes on while the
                        loop runs: creation does not wait for it, but for the name to be resolved.
                        As a sink also "peer:", the connection of the first source */
    HR_PULL = 6,     /* sink only: chunks are fetched by hr_pipeline_next */
    HR_DEVICE = 7    /* data, size: memory of the pipeline's device. A source streams it out; data
                        are aligned to 16 bytes, and the units of the kernels are whole in it. A
                        sink gathers the stream in it (at any address); with data NULL in memory
                        that it allocates, of at most size bytes (0: no limit): see
                        hr_pipeline_gathered. Such memory does not count to max_memory */
};

enum hr_end_flag {
    HR_RANGE = 1,      /* source: offset and length count, even if length is 0 */
    HR_FSYNC = 2,      /* sink: a file is on stable storage before the pipeline is done */
    HR_LEND_DEVICE = 4 /* HR_PULL: chunks are lent where the device has them */
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
    /* HR_RANGE: the first byte, counted in decoded bytes; what precedes it is skipped by seeking
     * where the source has offsets (encoded: where it has a seek table), else read and dropped. */
    uint64_t offset;
    uint64_t length; /* HR_RANGE: decoded bytes; UINT64_MAX: to the end; a range beyond the end
                        gives what is there */
    /* HR_DEVICE: the bytes are read after what is queued on this stream by now, that is when the
     * pipeline is created (named as for hr_chunk_wait; NULL: nothing is). No thread waits for it.
     * On the host it says nothing. */
    void *stream;
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
    /* HR_DEVICE, with data: they are written after what is queued on this stream by now, as for a
     * source. When the pipeline has ended, all is written. */
    void *stream;
};

/* ---- Kernels ------------------------------------------------------------------------------- */

enum hr_kernel_kind {
    HR_KERNEL_BUILTIN = 0,  /* text: one of the specifications below */
    HR_KERNEL_FUNCTION = 1, /* function: called on the host device's threads, several at once */
    HR_KERNEL_LAUNCH = 2,   /* function: called on the loop's thread; enqueues work on call->stream
                               and returns without waiting for it */
    HR_KERNEL_SOURCE = 3,   /* text: CUDA C++ or HIP, compiled at run time; entry */
    HR_KERNEL_IMAGE = 4     /* image, image_size: PTX, cubin or code object; entry */
};

enum hr_kernel_flag {
    HR_KERNEL_COUNTED = 1 /* gives at most as many units as it gets, and says how many */
};

/* What a function is called with. in, out and count are addresses of the device's memory (on the
 * host: plain memory, of any alignment). A unit never straddles two calls. */
struct hr_kernel_call {
    uint32_t struct_size;
    uint32_t n_in;         /* 1 */
    const void *const *in; /* n_in inputs, n_units each */
    void *out;             /* room for n_units units of unit_out bytes; NULL if unit_out is 0 */
    uint64_t n_units;
    uint64_t first_unit; /* index of the first unit in the stream that this kernel reads */
    uint64_t *count;     /* HR_KERNEL_COUNTED: where to store how many units were written */
    void *stream;        /* CUstream, hipStream_t; on the host an hr_host_stream */
    uint64_t chunk;      /* index in the stream */
};

/* Returns 0, or an error number that ends the pipeline with HR_EDEVICE. Functions of kind
 * HR_KERNEL_FUNCTION share the host device's threads, one for each usable CPU: they compute, and do
 * not wait for one another. */
typedef int32_t (*hr_kernel_fn)(void *user, const struct hr_kernel_call *call);

/* Built-in kernels, by text. TYPE, FROM, TO: u8 i8 u16 i16 i32 i64 f16 bf16 f32 f64; numbers are
 * little-endian as the machine's; OP: lt le gt ge eq ne.
 *
 *   cast:FROM,TO            to an integer: round to nearest even, saturate, NaN gives 0; to a float:
 *                           one rounding to nearest even, overflow gives an infinity, NaN the
 *                           canonical quiet one; to the same type: a copy
 *   scale:TYPE,MUL,ADD      x * MUL + ADD with a rounding after each; integers in f64, f16 and bf16
 *                           in f32, then as cast
 *   bswap:2|4|8             reverses the bytes of each element
 *   shuffle:WIDTH,BLOCK     within each block of BLOCK bytes: byte j of all elements of WIDTH bytes,
 *   unshuffle:WIDTH,BLOCK   for j = 0, 1, ...; and the inverse
 *   filter:TYPE,OP,VALUE    the elements that satisfy, in order; compared as real numbers, NaN
 *                           satisfies only ne
 *
 * Reductions pass their input on, so they may stand anywhere in a chain; hr_pipeline_result tells
 * what they found. Results have the same bits whatever the chunk size, depth and streams:
 *
 *   sum:TYPE                integers modulo 2^64 (i64 or u64); floats: the exact sum, rounded to f64
 *   mean:TYPE               the exact sum divided by the number of elements, rounded to f64
 *   min:TYPE  max:TYPE      NaN counts only if there is nothing else; -0 is below +0
 *   histogram[:TYPE,LO,HI,BINS]  counts as numpy.histogram; without parameters: u8, 256 bins
 *   count:TYPE,OP,VALUE     how many satisfy
 *   crc32                   of the bytes, as zlib's
 *
 * An unfinished element at the end of the stream is HR_ETRUNCATED. */
struct hr_kernel {
    uint32_t struct_size;
    uint32_t kind;     /* enum hr_kernel_kind */
    uint32_t flags;    /* enum hr_kernel_flag */
    uint32_t unit_in;  /* bytes of a unit; 0: 1. Built-in kernels know theirs */
    uint32_t unit_out; /* bytes written for each unit; 0: none, the input passes on unchanged */
    uint32_t args_size;
    const char *text;  /* copied, as all that is pointed to but user; of functions: a name for
                          messages, or NULL */
    const char *entry; /* name of the __global__ function */
    const void *image;
    uint64_t image_size;
    const void *args; /* for compiled kernels: the last parameter points to a copy on the device */
    hr_kernel_fn function;
    void *user;
};

/* A stream of the host device, in which a launch function enqueues host functions. */
typedef struct hr_host_stream hr_host_stream;

/* Enqueues function(argument), to be called on a thread of the host device after what was enqueued
 * on the stream before. Returns 0, or an error number that a launch function passes on.
 * Thread: the one that the stream was given to, during the launch function. */
int32_t hr_host_stream_call(hr_host_stream *stream, int32_t (*function)(void *argument),
                            void *argument);

/* ---- Devices ------------------------------------------------------------------------------- */

enum { HR_DEVICE_NAME = 32, HR_DEVICE_TITLE = 128, HR_DEVICE_IDENTITY = 64 };

struct hr_device {
    uint32_t struct_size;
    uint32_t present;              /* 0: why tells the reason */
    char name[HR_DEVICE_NAME];     /* "cuda:0": what hr_pipeline_config.device takes */
    char title[HR_DEVICE_TITLE];   /* as its maker calls it */
    char version[HR_DEVICE_TITLE]; /* of driver and runtime */
    uint64_t memory_bytes;
    char why[HR_ERROR_TEXT];       /* library not found, no device, devices hidden, ... */
    char uuid[HR_DEVICE_IDENTITY]; /* of a GPU, as its maker's tools print it: "GPU-..." */
    char pci[HR_DEVICE_IDENTITY]; /* its address on the bus: "0000:17:00.0". Either may stand in the
                                      place of N in a name; "" if it is not told */
};

/* Lists the devices of this machine; each backend without one stands in the list with its reason.
 * *n: in, how many fit into devices (devices[0].struct_size is set, and the stride); out, how many
 * there are. Starts no driver context. Thread: any. Fails: HR_EINVAL. */
hr_status hr_devices(struct hr_device *devices, size_t *n, hr_error *error) HR_MUST_CHECK;

/* Memory of a device, aligned to 256 bytes; on the host plain memory. The device is opened if it is
 * not yet, and is of the context as long as that lives.
 * Owns: the caller, until hr_device_free. Thread: any. Blocks: as long as the driver does.
 * Fails: as a pipeline that names the device; HR_ENOMEM. */
hr_status hr_device_alloc(hr_context *context, const char *device, uint64_t size, void **out,
                          hr_error *error) HR_MUST_CHECK;
/* Nothing that was enqueued still touches it; the context and the device are those that it was made
 * with, under any of the device's names. memory NULL is allowed. Thread: any. Blocks: drivers wait
 * for all work of the device. */
void hr_device_free(hr_context *context, const char *device, void *memory);

/* Registers host memory with the device's driver, so that copies from and to it are direct and
 * overlap; on the host nothing has to be done. Registering takes time: do it once, for long-lived
 * memory. The range may not overlap with another one that is registered.
 * Owns: memory stays the caller's, who unpins it before it is freed. Thread: any.
 * Fails: as a pipeline that names the device; HR_EUNSUPPORTED: the driver refused. */
hr_status hr_pin(hr_context *context, const char *device, void *memory, uint64_t size,
                 hr_error *error) HR_MUST_CHECK;
void hr_unpin(hr_context *context, const char *device, void *memory);

/* What the driver's bare copies reach, in bytes a second: what no pipeline on the device exceeds. Of
 * a few runs the fastest; each is several copies back to back on a stream, timed by the clock on the
 * wall from the first call to the driver to the end of the wait for the last copy. */
struct hr_device_rates {
    uint32_t struct_size;
    uint32_t
        is_pinned; /* 0: the driver refused to register the host's memory, so copies are slow */
    double h2d;    /* 0 on the host, as the next two: nothing has to go there */
    double d2h;
    double both; /* there and back at once, the sum of both */
    double d2d;  /* within the device, where each byte is read and written: what a kernel that is
                    bound by memory can reach; on the host one thread's memcpy */
};

/* Measures copies of size bytes each (0: 64 MiB), for which it takes twice as much memory of the host
 * and of the device; that they give the right bytes is checked before. rates->struct_size is set by
 * the caller. Thread: any, but other work on the device slows what is measured. Blocks: for some tens
 * of milliseconds, and as long as the memory takes.
 * Fails: as a pipeline that names the device; HR_EINVAL, HR_ENOMEM; HR_EDEVICE also if the bytes
 * came back changed. */
hr_status hr_device_measure(hr_context *context, const char *device, uint64_t size,
                            struct hr_device_rates *rates, hr_error *error) HR_MUST_CHECK;

/* ---- Pipeline ------------------------------------------------------------------------------ */

typedef struct hr_pipeline hr_pipeline;

enum hr_codec {
    HR_CODEC_NONE = 0,
    HR_CODEC_ZSTD = 1,
    /* By the first four bytes of each source. A range of fewer bytes of a pipe is taken as plain: to
     * look at more would take them from who reads next. */
    HR_CODEC_AUTO = 2
};

enum hr_direct {
    HR_DIRECT_AUTO = 0, /* O_DIRECT for what the page cache does not hold */
    HR_DIRECT_OFF = 1,
    HR_DIRECT_ON = 2 /* wherever the system takes it */
};

enum hr_pipeline_flag {
    HR_UNORDERED = 1, /* chunks go on as they are read, and are delivered as they get done: a file,
                         memory or null sink still has each at its place; kernels, pipes, sockets,
                         callbacks and the pull form get them in any order. Not with encode, nor with
                         counted kernels. Where a stream is only moved, and sources and sink have
                         places for its bytes, it is so without the flag: nobody sees the order */
    HR_STRICT = 2     /* what would be a silent fall-back fails: direct I/O refused where asked for,
                         "auto" without a GPU, a seek table that does not fit, memory that the
                         device's driver does not pin */
};

struct hr_pipeline_config {
    uint32_t struct_size;
    uint32_t n_sources;
    const struct hr_source *sources; /* one stream, in this order; stride: sources[0].struct_size */
    struct hr_sink sink;
    /* Decoded bytes; 0: 4 MiB; 2 MiB where bytes are only moved, 512 KiB if they come from pipes or
     * sockets; 16 MiB where a GPU reads and writes the ends' own memory; less where kernels write
     * more than twice what they read, or if the stream is known to be shorter. The first chunks of a
     * long stream that is only moved are smaller. */
    uint64_t chunk_size;
    uint32_t
        depth; /* chunks on their way at once, at least 1; 0: what workers and device need, 4 to 40 */
    uint32_t flags; /* enum hr_pipeline_flag */

    const struct hr_kernel *kernels; /* a chain, in this order; stride: kernels[0].struct_size */
    uint32_t n_kernels;
    uint32_t n_streams; /* kernels that run at once, in each part of a chain between counted ones;
                           0: what suits the device */
    /* "auto", "host", "cuda:N", "hip:N"; for N also a UUID, or its begin, or a PCI address. NULL:
     * auto if there are kernels or an end is HR_DEVICE, else bytes visit no device. A GPU that is
     * named is visited without kernels, too. */
    const char *device;

    uint32_t decode;     /* enum hr_codec, for all sources */
    uint32_t window_log; /* frames that need a longer window are refused; 0: 27, that is 128 MiB */
    const void *dict;    /* zstd dictionary for both directions; copied */
    uint64_t dict_size;
    uint32_t encode;      /* HR_CODEC_NONE or HR_CODEC_ZSTD */
    int32_t encode_level; /* as zstd counts; 0: 3 */
    uint64_t frame_size;  /* decoded bytes of a frame written; 0: 1 MiB */

    uint32_t direct;      /* enum hr_direct, for files on both ends */
    uint32_t connect_ms;  /* limit for HR_SOCKET to connect or be connected, and for the FIFO
                             of a sink to be read; 0: none */
    uint32_t idle_ms;     /* limit for a socket or pipe to move no byte; 0: none */
    uint32_t max_wait_ms; /* with min_fill: how long a chunk waits for it; 0: without limit */
    /* Bytes: a chunk of a socket or pipe with fewer does not leave early; 0: 1. */
    uint64_t min_fill;
    const char *trace_path; /* a regular file: a timeline in Trace Event JSON, whole at the end */
};

/* Opens the ends and leases memory for one chunk (more is leased as used, up to depth).
 * loop NULL: a private loop and context.
 * Blocks: to resolve the name of a host, to read the first and last bytes of a file that is to be
 * decoded, to start a device.
 * Owns: the caller frees it. The config is copied; memory and callbacks must stay.
 * Returns HR_AGAIN if the context's memory is all leased.
 * Fails: HR_EINVAL (also when the sink is one of the sources, or the trace is either; stage KERNEL:
 * a kernel's text is wrong), HR_ENOMEM (also when max_memory is less than it ever needs), HR_EIO,
 * HR_EUNSUPPORTED (a device that is not there, a codec that this build lacks), HR_EDEVICE, HR_EFORK.
 */
hr_status hr_pipeline_create(hr_loop *loop, const struct hr_pipeline_config *config,
                             hr_pipeline **out, hr_error *error) HR_MUST_CHECK;

/* Runs the loop until this pipeline has ended; other pipelines of the loop advance too.
 * Thread: the loop's. Blocks: yes. Returns like hr_pipeline_state. Fails: HR_EINVAL when a
 * chunk waits to be fetched by hr_pipeline_next. */
hr_status hr_pipeline_run(hr_pipeline *pipeline, hr_error *error) HR_MUST_CHECK;

/* HR_PENDING while it runs, HR_OK when every byte has been delivered, else why it failed.
 * Everything before the failing position was delivered (with HR_UNORDERED, to a file, memory or null
 * sink); what a sink may have got beyond it counts nowhere. Thread: the loop's. Blocks: never. */
hr_status hr_pipeline_state(const hr_pipeline *pipeline, hr_error *error) HR_MUST_CHECK;

/* Ends the transfer early with HR_ECANCELED; what is in flight drains first. Of the user's functions
 * none is called any more, but those that are under way end first.
 * Thread: any, also a signal handler; not during hr_pipeline_free. */
void hr_pipeline_cancel(hr_pipeline *pipeline);

/* Frees it; cancels it and drains first if it runs. NULL is allowed. Thread: the loop's.
 * Blocks: until nothing is in flight: a callback that runs is waited for. Called from a thread that
 * does not own the loop, or in a forked child, it leaves a running pipeline as it is. */
void hr_pipeline_free(hr_pipeline *pipeline);

/* The memory that a sink of kind HR_DEVICE without data has gathered the stream in, and its bytes. If
 * their number is not known beforehand (zstd, pipes, filters), the memory doubles as it fills: what
 * is there is copied meanwhile, for which the loop waits.
 * Owns: the caller from now on, who frees it with hr_device_free; before this call the pipeline.
 * Thread: the loop's. Returns HR_PENDING before the pipeline is done. *memory is NULL if the stream
 * was empty, or was asked for before. Fails: HR_EINVAL for another sink, like hr_pipeline_state. */
hr_status hr_pipeline_gathered(hr_pipeline *pipeline, void **memory, uint64_t *size,
                               hr_error *error) HR_MUST_CHECK;

/* ---- Pull form ----------------------------------------------------------------------------- */

enum hr_chunk_flag {
    HR_CHUNK_FIRST = 1,
    HR_CHUNK_LAST = 2, /* if that is known by then: of a pipe the end may come as HR_END alone */
    HR_CHUNK_VERIFIED = 4, /* decoded from frames whose checksums were checked */
    HR_CHUNK_DEVICE = 8    /* data is memory of a device whose memory is not the host's: use it on a
                              stream after hr_chunk_wait */
};

/* A chunk on loan. A forked child does not inherit its memory. */
struct hr_chunk {
    uint32_t struct_size;
    uint32_t flags; /* enum hr_chunk_flag */
    const void *data;
    uint64_t size;          /* bytes */
    uint64_t index;         /* in the stream */
    uint64_t stream_offset; /* of its first byte in the stream that enters the kernels */
    uint64_t source_offset; /* decoded byte of its source where its first byte was */
    uint64_t n_units;       /* of the last kernel's output; bytes without kernels */
    uint32_t source;        /* index */
    uint32_t reserved;
    void *ready; /* HR_CHUNK_DEVICE: the event (CUevent, hipEvent_t) after which data are there;
                    else NULL */
    void *loan;  /* the library's own */
};

/* Lends the next chunk of a pipeline whose sink is HR_PULL; chunk->struct_size is set by the caller.
 * Other pipelines of the loop advance too: a foreign event loop looks at their states after it.
 * Owns: the library; valid until hr_chunk_release. Thread: the loop's. Blocks: until a chunk is
 * there, for at most timeout_ms (negative: without limit; 0: never); not for chunks on loan, which
 * other threads may release: then HR_ELOANED comes at once.
 * Returns HR_END after the last one, HR_PENDING when the time went by.
 * Fails: like hr_pipeline_state; HR_ELOANED if all that could hold a chunk is on loan. */
hr_status hr_pipeline_next(hr_pipeline *pipeline, int timeout_ms, struct hr_chunk *chunk,
                           hr_error *error) HR_MUST_CHECK;

/* Makes a stream of the chunk's device (a CUstream, hipStream_t of its primary context) wait until
 * the data are there; without a stream (NULL) the calling thread. A default stream is named by its
 * constant, CU_STREAM_LEGACY or CU_STREAM_PER_THREAD. On the host, and for chunks in host memory,
 * there is nothing to wait for.
 * Thread: any, one for each chunk. Blocks: only without a stream. Fails: HR_EDEVICE, HR_EINVAL. */
hr_status hr_chunk_wait(const struct hr_chunk *chunk, void *stream, hr_error *error) HR_MUST_CHECK;

/* Notes that what is queued on a stream by now (named as for hr_chunk_wait) uses the chunk, for users
 * with more than one stream: device memory is used again after all that was noted, and after what
 * hr_chunk_release names. A stream that is noted behind another one waits for it from then on. Host
 * memory, and NULL for a stream: nothing is noted.
 * Thread: any, one for each chunk. Blocks: never, unless the device's driver fails. */
void hr_chunk_used(struct hr_chunk *chunk, void *stream);

/* Gives a chunk back. Device memory (HR_CHUNK_DEVICE) is used again after what is queued on stream by
 * now (as for hr_chunk_wait; NULL: nothing is); host memory at once, so a copy from it is finished
 * first. Also after the pipeline ended, but before it is freed.
 * Thread: any. Blocks: never, unless the device's driver fails. */
void hr_chunk_release(struct hr_chunk *chunk, void *stream);

/* ---- Results of reductions ----------------------------------------------------------------- */

enum hr_type {
    HR_TYPE_I64 = 1,
    HR_TYPE_U64 = 2,
    HR_TYPE_F64 = 3,
    HR_TYPE_U8 = 4,
    HR_TYPE_I8 = 5,
    HR_TYPE_U16 = 6,
    HR_TYPE_I16 = 7,
    HR_TYPE_I32 = 8,
    HR_TYPE_F16 = 9,
    HR_TYPE_BF16 = 10,
    HR_TYPE_F32 = 11,
    HR_TYPE_U32 = 12
};

struct hr_result {
    uint32_t struct_size;
    uint32_t type;     /* enum hr_type, of each value */
    uint64_t n_values; /* BINS for a histogram; 0 for min and max of nothing; else 1 */
    uint64_t n_units;  /* elements that were looked at */
    const void *data;  /* n_values values. Owns: the pipeline */
};

/* What a reduction found: kernel is its index in the chain. result->struct_size is set by the
 * caller. Thread: the loop's. Returns HR_PENDING before the pipeline is done.
 * Fails: HR_EINVAL if the kernel is no reduction; like hr_pipeline_state if the pipeline failed. */
hr_status hr_pipeline_result(hr_pipeline *pipeline, uint32_t kernel, struct hr_result *result,
                             hr_error *error) HR_MUST_CHECK;

/* ---- Statistics ---------------------------------------------------------------------------- */

/* Service time is work really done: CPU time of workers, device time on a stream, for I/O the time in
 * which bytes were under way. Time in a queue and a receive on a silent socket do not count. */
struct hr_stage_stats {
    uint64_t chunks; /* finished: chunks; blocks, of encoded input; frames, when encoding */
    uint64_t bytes_in;
    uint64_t bytes_out;
    uint64_t service_ns;
    uint64_t starved_ns; /* idle, and nothing was there to work on */
    uint64_t blocked_ns; /* idle, because what it made could not go on */
    uint32_t capacity;   /* operations it can work on at once: workers, streams; 1 for I/O */
    uint32_t resource;   /* stages with the same number share their capacity: CPU workers */
};

struct hr_stats {
    uint32_t struct_size;
    uint32_t depth;                               /* chunks that may be on their way at once */
    uint64_t wall_ns;                             /* since the first step; stops at the end */
    uint64_t chunk_size;                          /* bytes */
    uint64_t leased_bytes;                        /* of host memory, at most so far */
    struct hr_stage_stats stages[HR_STAGE_COUNT]; /* by enum hr_stage */
    double overlap; /* highest utilisation of a resource, service / (capacity x wall): 1.00 means
                       that the slowest never waited */
    double gain;    /* sum over resources of service / capacity, divided by wall: how much longer
                       one after the other would take */
    uint32_t bottleneck; /* enum hr_stage */
    uint32_t crc32;      /* of the stream, as zlib's, once it is done; HR_NULL sinks only */
    uint32_t n_streams;
    uint32_t reserved;
    uint64_t n_frames_in;    /* zstd frames decoded, whole or in part */
    uint64_t dropped_bytes;  /* decoded, or read, only to get to the range */
    uint64_t direct_bytes;   /* read and written past the page cache */
    uint64_t total_bytes_in; /* that the sources hold, for a progress bar; 0: not known */

    char device[HR_DEVICE_NAME]; /* "" if bytes visit none */
    uint64_t device_bytes;       /* memory of the device that the chunks take; 0 on the host */
    uint64_t unpinned_bytes; /* of the leased memory: the driver refused to register it, so copies
                                are slow and overlap less */
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
