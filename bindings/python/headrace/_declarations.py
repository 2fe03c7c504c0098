# SPDX-License-Identifier: Apache-2.0
# Made by generate.py from headrace.h, headrace_python.h: change these instead.
"""The C interfaces, as cffi reads them."""

DECLARATIONS = """
typedef enum hr_status {
    HR_OK = 0,
    HR_AGAIN = 1,
    HR_PENDING = 2,
    HR_END = 3,
    HR_EINVAL = -1,
    HR_ENOMEM = -2,
    HR_EIO = -3,
    HR_ETRUNCATED = -4,
    HR_EUNSUPPORTED = -5,
    HR_ECANCELED = -6,
    HR_EFORK = -7,
    HR_ETHREAD = -8,
    HR_ESPACE = -9,
    HR_ECORRUPT = -10,
    HR_ELIMIT = -11,
    HR_EDEVICE = -12,
    HR_ETIMEDOUT = -13,
    HR_ELOANED = -14
} hr_status;
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
const char *hr_stage_name(enum hr_stage stage);
enum { HR_ERROR_TEXT = 512 };
typedef struct hr_error {
    int32_t code;
    int32_t stage;
    int32_t native;
    int32_t reserved;
    uint64_t chunk;
    uint64_t offset;
    char text[HR_ERROR_TEXT];
} hr_error;
const char *hr_status_name(hr_status status);
const char *hr_version(void);
typedef struct hr_context hr_context;
typedef void (*hr_log_fn)(void *user, const char *line);
struct hr_context_config {
    uint32_t struct_size;
    uint32_t n_threads;
    uint64_t max_memory;
    hr_log_fn log;
    void *log_user;
};
hr_status hr_context_create(const struct hr_context_config *config, hr_context **out,
                            hr_error *error);
void hr_context_hold(hr_context *context);
void hr_context_free(hr_context *context);
typedef struct hr_loop hr_loop;
enum hr_io_choice {
    HR_IO_AUTO = 0,
    HR_IO_URING = 1,
    HR_IO_THREADS = 2
};
enum hr_loop_flag {
    HR_LOOP_SHARED = 1
};
struct hr_loop_config {
    uint32_t struct_size;
    uint32_t io;
    uint32_t io_entries;
    uint32_t io_threads;
    uint32_t flags;
};
hr_status hr_loop_create(hr_context *context, const struct hr_loop_config *config, hr_loop **out,
                         hr_error *error);
void hr_loop_free(hr_loop *loop);
const char *hr_loop_io(const hr_loop *loop, const char **why);
hr_status hr_loop_step(hr_loop *loop, hr_error *error);
hr_status hr_loop_arm(hr_loop *loop);
hr_status hr_loop_take(hr_loop *loop, hr_error *error);
int hr_loop_fd(const hr_loop *loop);
hr_status hr_loop_poll(hr_loop *loop, int timeout_ms, hr_error *error);
enum hr_end_kind {
    HR_NULL = 0,
    HR_FILE = 1,
    HR_FD = 2,
    HR_MEMORY = 3,
    HR_CALLBACK = 4,
    HR_SOCKET = 5,
    HR_PULL = 6,
    HR_DEVICE = 7
};
enum hr_end_flag {
    HR_RANGE = 1,
    HR_FSYNC = 2,
    HR_LEND_DEVICE = 4
};
typedef int64_t (*hr_read_fn)(void *user, void *buffer, size_t size, uint64_t offset);
typedef int64_t (*hr_write_fn)(void *user, const void *buffer, size_t size, uint64_t offset);
struct hr_source {
    uint32_t struct_size;
    uint32_t kind;
    uint32_t flags;
    int32_t fd;
    const char *path;
    const void *data;
    uint64_t size;
    hr_read_fn read;
    void *user;
    uint64_t offset;
    uint64_t length;
    void *stream;
};
struct hr_sink {
    uint32_t struct_size;
    uint32_t kind;
    uint32_t flags;
    int32_t fd;
    const char *path;
    void *data;
    uint64_t size;
    hr_write_fn write;
    void *user;
    void *stream;
};
enum hr_kernel_kind {
    HR_KERNEL_BUILTIN = 0,
    HR_KERNEL_FUNCTION = 1,
    HR_KERNEL_LAUNCH = 2,
    HR_KERNEL_SOURCE = 3,
    HR_KERNEL_IMAGE = 4
};
enum hr_kernel_flag {
    HR_KERNEL_COUNTED = 1
};
struct hr_kernel_call {
    uint32_t struct_size;
    uint32_t n_in;
    const void *const *in;
    void *out;
    uint64_t n_units;
    uint64_t first_unit;
    uint64_t *count;
    void *stream;
    uint64_t chunk;
};
typedef int32_t (*hr_kernel_fn)(void *user, const struct hr_kernel_call *call);
struct hr_kernel {
    uint32_t struct_size;
    uint32_t kind;
    uint32_t flags;
    uint32_t unit_in;
    uint32_t unit_out;
    uint32_t args_size;
    const char *text;
    const char *entry;
    const void *image;
    uint64_t image_size;
    const void *args;
    hr_kernel_fn function;
    void *user;
};
typedef struct hr_host_stream hr_host_stream;
int32_t hr_host_stream_call(hr_host_stream *stream, int32_t (*function)(void *argument),
                            void *argument);
enum { HR_DEVICE_NAME = 32, HR_DEVICE_TITLE = 128, HR_DEVICE_IDENTITY = 64 };
struct hr_device {
    uint32_t struct_size;
    uint32_t present;
    char name[HR_DEVICE_NAME];
    char title[HR_DEVICE_TITLE];
    char version[HR_DEVICE_TITLE];
    uint64_t memory_bytes;
    char why[HR_ERROR_TEXT];
    char uuid[HR_DEVICE_IDENTITY];
    char pci[HR_DEVICE_IDENTITY];
};
hr_status hr_devices(struct hr_device *devices, size_t *n, hr_error *error);
hr_status hr_device_alloc(hr_context *context, const char *device, uint64_t size, void **out,
                          hr_error *error);
void hr_device_free(hr_context *context, const char *device, void *memory);
hr_status hr_pin(hr_context *context, const char *device, void *memory, uint64_t size,
                 hr_error *error);
void hr_unpin(hr_context *context, const char *device, void *memory);
struct hr_device_rates {
    uint32_t struct_size;
    uint32_t
        is_pinned;
    double h2d;
    double d2h;
    double both;
    double d2d;
};
hr_status hr_device_measure(hr_context *context, const char *device, uint64_t size,
                            struct hr_device_rates *rates, hr_error *error);
typedef struct hr_pipeline hr_pipeline;
enum hr_codec {
    HR_CODEC_NONE = 0,
    HR_CODEC_ZSTD = 1,
    HR_CODEC_AUTO = 2
};
enum hr_direct {
    HR_DIRECT_AUTO = 0,
    HR_DIRECT_OFF = 1,
    HR_DIRECT_ON = 2
};
enum hr_pipeline_flag {
    HR_UNORDERED = 1,
    HR_STRICT = 2
};
struct hr_pipeline_config {
    uint32_t struct_size;
    uint32_t n_sources;
    const struct hr_source *sources;
    struct hr_sink sink;
    uint64_t chunk_size;
    uint32_t
        depth;
    uint32_t flags;
    const struct hr_kernel *kernels;
    uint32_t n_kernels;
    uint32_t n_streams;
    const char *device;
    uint32_t decode;
    uint32_t window_log;
    const void *dict;
    uint64_t dict_size;
    uint32_t encode;
    int32_t encode_level;
    uint64_t frame_size;
    uint32_t direct;
    uint32_t connect_ms;
    uint32_t idle_ms;
    uint32_t max_wait_ms;
    uint64_t min_fill;
    const char *trace_path;
};
hr_status hr_pipeline_create(hr_loop *loop, const struct hr_pipeline_config *config,
                             hr_pipeline **out, hr_error *error);
hr_status hr_pipeline_run(hr_pipeline *pipeline, hr_error *error);
hr_status hr_pipeline_state(const hr_pipeline *pipeline, hr_error *error);
void hr_pipeline_cancel(hr_pipeline *pipeline);
void hr_pipeline_free(hr_pipeline *pipeline);
hr_status hr_pipeline_gathered(hr_pipeline *pipeline, void **memory, uint64_t *size,
                               hr_error *error);
enum hr_chunk_flag {
    HR_CHUNK_FIRST = 1,
    HR_CHUNK_LAST = 2,
    HR_CHUNK_VERIFIED = 4,
    HR_CHUNK_DEVICE = 8
};
struct hr_chunk {
    uint32_t struct_size;
    uint32_t flags;
    const void *data;
    uint64_t size;
    uint64_t index;
    uint64_t stream_offset;
    uint64_t source_offset;
    uint64_t n_units;
    uint32_t source;
    uint32_t reserved;
    void *ready;
    void *loan;
};
hr_status hr_pipeline_next(hr_pipeline *pipeline, int timeout_ms, struct hr_chunk *chunk,
                           hr_error *error);
hr_status hr_chunk_wait(const struct hr_chunk *chunk, void *stream, hr_error *error);
void hr_chunk_used(struct hr_chunk *chunk, void *stream);
void hr_chunk_release(struct hr_chunk *chunk, void *stream);
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
    uint32_t type;
    uint64_t n_values;
    uint64_t n_units;
    const void *data;
};
hr_status hr_pipeline_result(hr_pipeline *pipeline, uint32_t kernel, struct hr_result *result,
                             hr_error *error);
struct hr_stage_stats {
    uint64_t chunks;
    uint64_t bytes_in;
    uint64_t bytes_out;
    uint64_t service_ns;
    uint64_t starved_ns;
    uint64_t blocked_ns;
    uint32_t capacity;
    uint32_t resource;
};
struct hr_stats {
    uint32_t struct_size;
    uint32_t depth;
    uint64_t wall_ns;
    uint64_t chunk_size;
    uint64_t leased_bytes;
    struct hr_stage_stats stages[HR_STAGE_COUNT];
    double overlap;
    double gain;
    uint32_t bottleneck;
    uint32_t crc32;
    uint32_t n_streams;
    uint32_t reserved;
    uint64_t n_frames_in;
    uint64_t dropped_bytes;
    uint64_t direct_bytes;
    uint64_t total_bytes_in;
    char device[HR_DEVICE_NAME];
    uint64_t device_bytes;
    uint64_t unpinned_bytes;
};
hr_status hr_pipeline_stats(const hr_pipeline *pipeline, struct hr_stats *stats);
typedef struct hrp_box hrp_box;
hr_status hrp_box_open(hr_context *context, const struct hr_loop_config *loop_config,
                       const struct hr_pipeline_config *config, hrp_box **out, hr_error *error);
void hrp_box_close(hrp_box **box);
void hrp_box_move(hrp_box **from, hrp_box **to);
hr_loop *hrp_box_loop(const hrp_box *box);
hr_pipeline *hrp_box_pipeline(const hrp_box *box);
unsigned hrp_box_n_users(const hrp_box *box);
typedef struct hrp_hold hrp_hold;
hr_status hrp_box_next(hrp_box *box, struct hr_chunk *chunk, hrp_hold **out, hr_error *error);
hr_status hrp_box_gathered(hrp_box *box, hr_context *context, uint64_t *size, hrp_hold **out,
                           hr_error *error);
hr_status hrp_hold_alloc(hr_context *context, const char *device, uint64_t size, hrp_hold **out,
                         hr_error *error);
void *hrp_hold_memory(const hrp_hold *hold);
int hrp_hold_note_stream(hrp_hold *hold, void *stream);
void hrp_hold_retain(hrp_hold *hold, hrp_hold **out);
void hrp_hold_end(hrp_hold **hold);
const char *hrp_hold_device(const hrp_hold *hold);
long hrp_n_holds(void);
void hrp_context_end(hr_context **context);
struct hrp_dl_tensor {
    void *data;
    int32_t device_type;
    int32_t device_id;
    int32_t ndim;
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
    int64_t *shape;
    int64_t *strides;
    uint64_t byte_offset;
};
struct hrp_dl_managed {
    struct hrp_dl_tensor tensor;
    void *context;
    void (*deleter)(struct hrp_dl_managed *self);
};
enum { HRP_DL_READ_ONLY = 1, HRP_DL_COPIED = 2 };
struct hrp_dl_versioned {
    uint32_t major;
    uint32_t minor;
    void *context;
    void (*deleter)(struct hrp_dl_versioned *self);
    uint64_t flags;
    struct hrp_dl_tensor tensor;
};
void *hrp_dlpack_export(const struct hrp_dl_tensor *tensor, hrp_hold *hold, int is_versioned,
                        uint64_t flags);
void hrp_capsule_destructor(void *capsule);
void *hrp_dlpack_capsule(const struct hrp_dl_tensor *tensor, hrp_hold *hold, int is_versioned,
                         uint64_t flags);
struct hrp_dl_owner {
    void *managed;
    int is_versioned;
};
void hrp_dlpack_consume(void *capsule, int is_versioned, struct hrp_dl_owner *out);
void hrp_dlpack_end(struct hrp_dl_owner *owner);
hr_status hrp_loop_work(hr_loop *loop, int moment_ms, int at_most_ms, hr_error *error);
int32_t hrp_no_work(void *user, const struct hr_kernel_call *call);
"""
