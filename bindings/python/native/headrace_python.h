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
 * Functions that make something put it into *out, which is empty (NULL) before and if they fail. The
 * interpreter has made out before, with a destructor (_close, _end), so that nothing is ever without
 * an owner: between two of its steps a signal's handler may raise. Thread: any, but where it is
 * said. */
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

/* Makes both, which are freed with the last reference; this one is the caller's. The loop is of
 * HR_LOOP_SHARED, as any thread may be the last. Returns and fails as hr_loop_create and
 * hr_pipeline_create, with HR_AGAIN, too. */
hr_status hrp_box_open(hr_context *context, const struct hr_loop_config *loop_config,
                       const struct hr_pipeline_config *config, hrp_box **out, hr_error *error);
/* Drops the reference in *box, if there is one, and empties it. The last one takes the loop, which
 * nobody uses any more, ends the pipeline and frees both. Blocks: until nothing is in flight, if it
 * was the last. */
void hrp_box_close(hrp_box **box);
/* The reference in *from goes to *to, which is empty. */
void hrp_box_move(hrp_box **from, hrp_box **to);
/* Owns: the box. */
hr_loop *hrp_box_loop(const hrp_box *box);
hr_pipeline *hrp_box_pipeline(const hrp_box *box);

/* How many references there are: 1 when no chunk is out, if the caller's is one. */
unsigned hrp_box_n_users(const hrp_box *box);

/* ---- Holds: memory in use -------------------------------------------------------------------- */

typedef struct hrp_hold hrp_hold;

/* hr_pipeline_next, which does not wait: with HR_OK the chunk is under *out, which has a reference of
 * its own to the box. Thread: the loop's. */
hr_status hrp_box_next(hrp_box *box, struct hr_chunk *chunk, hrp_hold **out, hr_error *error);
/* hr_pipeline_gathered: with HR_OK the memory is under *out, as of hrp_hold_alloc. Thread: the
 * loop's. */
hr_status hrp_box_gathered(hrp_box *box, hr_context *context, uint64_t *size, hrp_hold **out,
                           hr_error *error);
/* hr_device_alloc. It holds the context. The last one frees the memory, which waits for what is queued
 * on the device. */
hr_status hrp_hold_alloc(hr_context *context, const char *device, uint64_t size, hrp_hold **out,
                         hr_error *error);
/* Of hrp_hold_alloc and hrp_box_gathered; NULL: there are no bytes. Owns: the hold. */
void *hrp_hold_memory(const hrp_hold *hold);
/* Notes that work on a stream (named as for hr_chunk_wait; NULL: none) uses the memory: it is used
 * again after what is queued there when the last hold is dropped; the stream lives until then.
 * Returns 0, or -1 without memory to note it. */
int hrp_hold_note_stream(hrp_hold *hold, void *stream);
void hrp_hold_retain(hrp_hold *hold, hrp_hold **out);
/* Drops the reference in *hold, if there is one, and empties it. Blocks: if it was the last, as long
 * as giving back does. */
void hrp_hold_end(hrp_hold **hold);
/* Where the memory is: "host", "cuda:0"; of a chunk in device memory the pipeline's device.
 * Owns: the hold. */
const char *hrp_hold_device(const hrp_hold *hold);
/* How many holds there are in the process: for tests. */
long hrp_n_holds(void);

/* ---- Contexts -------------------------------------------------------------------------------- */

/* Gives up the hold in *context, if there is one, and empties it. Blocks: as hr_context_free. */
void hrp_context_end(hr_context **context);

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
 * in it is called; hold may be NULL: somebody else sees to the memory. NULL: there is no memory. */
void *hrp_dlpack_export(const struct hrp_dl_tensor *tensor, hrp_hold *hold, int is_versioned,
                        uint64_t flags);
/* For PyCapsule_New: of a capsule that nobody has consumed, the deleter is called. Thread: with the
 * interpreter's lock. */
void hrp_capsule_destructor(void *capsule);
/* It in a capsule, whose end calls the deleter, if nobody has consumed it. NULL: the interpreter's
 * error says why. Thread: with the interpreter's lock. */
void *hrp_dlpack_capsule(const struct hrp_dl_tensor *tensor, hrp_hold *hold, int is_versioned,
                         uint64_t flags);

/* A tensor of another library. */
struct hrp_dl_owner {
    void *managed; /* NULL: none */
    int is_versioned;
};

/* Takes the tensor out of a capsule that has one of this kind. Thread: with the interpreter's lock. */
void hrp_dlpack_consume(void *capsule, int is_versioned, struct hrp_dl_owner *out);
/* Ends the use of the tensor in it, and empties it. */
void hrp_dlpack_end(struct hrp_dl_owner *owner);

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
