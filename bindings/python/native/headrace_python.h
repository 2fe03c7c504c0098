/* SPDX-License-Identifier: Apache-2.0 */
/* libheadrace_python: what the Python package needs in C, because it has to happen on any thread,
 * with or without an interpreter: memory that is given back when its last user is gone. There is no
 * Python in it; the package reaches it by cffi, as libheadrace.
 *
 *     Array, view ──┐
 *     DLPack user ──┼─▶ hold ─▶ a chunk on loan ─▶ box ─▶ pipeline, loop
 *     Pipeline ─────│──────────────────────────────┘
 *                   └─▶ hold ─▶ memory of a device ─▶ context
 *
 * Holds and boxes are counted. Nothing is given back in a forked child: there it is the parent's.
 * Functions that make something return NULL when there is no memory; then what they were given stays
 * the caller's. Thread: any, but where it is said. */
#ifndef HEADRACE_PYTHON_H
#define HEADRACE_PYTHON_H

#include <headrace.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* ---- Boxes: a pipeline with its loop --------------------------------------------------------- */

typedef struct hrp_box hrp_box;

/* Takes over both, which are freed with the last reference; this one is the caller's. The loop is of
 * HR_LOOP_SHARED, as any thread may be the last. Thread: the loop's. */
hrp_box *hrp_box_create(hr_loop *loop, hr_pipeline *pipeline);
/* NULL is allowed. The last one takes the loop, which nobody uses any more, ends the pipeline and
 * frees both. Blocks: until nothing is in flight, if it was the last. */
void hrp_box_drop(hrp_box *box);

/* How many references there are: 1 when no chunk is out, if the caller's is one. */
unsigned hrp_box_n_users(const hrp_box *box);

/* ---- Holds: memory in use -------------------------------------------------------------------- */

typedef struct hrp_hold hrp_hold;

/* Takes over a loan, and a reference of its own to the box of the chunk's pipeline. */
hrp_hold *hrp_hold_chunk(hrp_box *box, const struct hr_chunk *chunk);
/* Takes over memory of hr_device_alloc or hr_pipeline_gathered, and holds the context. memory may be
 * NULL. The last one frees it, which waits for what is queued on the device. */
hrp_hold *hrp_hold_memory(hr_context *context, const char *device, void *memory);
/* Notes that work on a stream (named as for hr_chunk_wait; NULL: none) uses the memory: it is used
 * again after what is queued there when the last hold is dropped; the stream lives until then.
 * Returns 0, or -1 without memory to note it. */
int hrp_hold_note_stream(hrp_hold *hold, void *stream);
hrp_hold *hrp_hold_retain(hrp_hold *hold);
/* NULL is allowed. Blocks: if it was the last, as long as giving back does. */
void hrp_hold_drop(hrp_hold *hold);
/* Where the memory is: "host", "cuda:0"; of a chunk in device memory the pipeline's device.
 * Owns: the hold. */
const char *hrp_hold_device(const hrp_hold *hold);
/* How many holds there are in the process: for tests. */
long hrp_n_holds(void);

/* ---- DLPack: tensors for and of other libraries ---------------------------------------------- */

/* The structs of DLPack 1.x, by its specification (dmlc.github.io/dlpack, "C API"), which is their
 * layout; enum values there: the device types kDLCPU 1, kDLCUDA 2, kDLCUDAHost 3, kDLROCM 10,
 * kDLROCMHost 11, kDLCUDAManaged 13. */
struct hrp_dl_tensor {
    void *data;
    int32_t device_type;
    int32_t device_id;
    int32_t ndim;
    uint8_t code; /* of the elements' type */
    uint8_t bits;
    uint16_t lanes;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL: C order */
    uint64_t byte_offset;
};

struct hrp_dl_managed {
    struct hrp_dl_tensor tensor;
    void *context; /* of who exports */
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

/* A tensor for another library: a struct hrp_dl_versioned with the flags, else (is_versioned 0) a
 * struct hrp_dl_managed. Shape and strides are copied. Retains the hold, until the deleter that is
 * in it is called; hold may be NULL: somebody else sees to the memory. */
void *hrp_dlpack_export(const struct hrp_dl_tensor *tensor, hrp_hold *hold, int is_versioned,
                        uint64_t flags);
/* Ends the use of a tensor, of whoever exported it. */
void hrp_dlpack_delete(void *managed, int is_versioned);
/* For PyCapsule_New: of a capsule that nobody has consumed, the tensor is deleted. */
void hrp_capsule_destructor(void *capsule);

/* ---- Driving --------------------------------------------------------------------------------- */

/* Steps the loop while there is work, or some comes within moment_ms, for about at_most_ms in all:
 * between the events of a busy transfer nothing goes back to the interpreter. Returns as
 * hr_loop_step; HR_PENDING, too, when there is nothing to do at present, a signal came or the time
 * went by. Thread: the loop's. Blocks: not longer than the two limits. */
hr_status hrp_loop_work(hr_loop *loop, int moment_ms, int at_most_ms, hr_error *error);

/* ---- Units ----------------------------------------------------------------------------------- */

/* A hr_kernel_fn that does nothing, on any device: of its stage only the unit counts. */
int32_t hrp_no_work(void *user, const struct hr_kernel_call *call);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif
