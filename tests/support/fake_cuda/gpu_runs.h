// SPDX-License-Identifier: Apache-2.0
/* Pipelines over a fake driver for plain test programs: a shape is made real, run through the public
 * header, and what was delivered compared with what the host device gives for the same bytes.
 *
 * The programs take the device, cuda (if none is named) or hip. HIP's library is the fake one that
 * HR_LIBAMDHIP64 names. */
#ifndef GPU_RUNS_H
#define GPU_RUNS_H

#include <headrace.h>
#include <stdbool.h>

#include "gpu_driver.h"

enum gpu_end {
    GPU_PLAIN,  /* memory of the host */
    GPU_PINNED, /* the driver knows it, if it takes it */
    GPU_FILE,
    GPU_PIPE,
    GPU_DEVICE,
    GPU_GROWING, /* sink: device memory that the pipeline allocates */
    GPU_NULL,
    GPU_LENT, /* sink: the pull form, chunks in device memory */
};

enum { GPU_KERNELS = 6 };

/* A source of the user's in the place of a built-in kernel; the host has "scale:u8,1,1" for it. */
#define GPU_PLUS_ONE "plus_one"

struct gpu_shape {
    const char *name;
    enum gpu_end from;
    enum gpu_end to;
    const char *kernels[GPU_KERNELS]; /* built-in ones, or GPU_ADD_ONE; NULL: no more */
    size_t size;                      /* of the source; at most what a pipe holds, if it is one */
    size_t tail; /* bytes of it that come from device memory, a second source, behind the others */
    size_t chunk_size;
    uint32_t depth;
    uint32_t n_streams;
    uint32_t flags; /* enum hr_pipeline_flag */
    bool gaps;      /* most chunks have nothing that a filter "lt 128" keeps */
};

struct gpu_expected {
    unsigned char *in;
    unsigned char *out;
    size_t n_out;
    size_t n_cap;
    struct hr_result results[GPU_KERNELS];
    unsigned char values[GPU_KERNELS][2048]; /* of reductions */
};

struct gpu_run {
    const struct gpu_shape *shape;
    const struct gpu_expected *expected;
    hr_context *context;
    hr_loop *loop;
    struct hr_kernel kernels[GPU_KERNELS];
    struct hr_source sources[2];
    struct hr_pipeline_config config;
    char path_in[64];
    char path_out[64];
    int near_in;
    void *device_in; /* memory of the device */
    void *device_out;
    unsigned char *host_in;
    unsigned char *host_out;
    size_t n_pulled;
    hr_pipeline *pipeline;
    hr_status status;
    hr_error error;
    struct hr_stats stats;
};

/* From main's arguments; the program ends if the device is not there. */
void gpu_use(int n_args, char **args);
/* For struct hr_pipeline_config, and what its backend calls. */
const char *gpu_name(void);
const struct hr__gpu_driver *gpu_driver(void);

/* Of bytes for the shape, in no order that a kernel could like; what counted kernels keep of them is
 * whole units of 12. */
void gpu_expect(struct gpu_expected *expected, const struct gpu_shape *shape);
void gpu_forget(struct gpu_expected *expected);

/* Makes ends and pipeline. What the driver refuses is in run->status and run->error, as all that
 * fails. */
void gpu_run_create(struct gpu_run *run, const struct gpu_shape *shape,
                    const struct gpu_expected *expected, hr_context *context, hr_loop *loop);
/* Polls the loop once, or takes one chunk that is lent. HR_PENDING: it has more to do; else
 * run->status is what came of it. */
hr_status gpu_run_step(struct gpu_run *run);
/* Runs it to its end. */
void gpu_run_finish(struct gpu_run *run);
/* NULL, or what is wrong with the outcome. */
const char *gpu_run_judge(struct gpu_run *run);
/* Frees the pipeline and the ends. */
void gpu_run_free(struct gpu_run *run);

/* A context of one worker, and a loop on it, on devices that live; the program ends if they cannot be
 * made. */
void gpu_begin(hr_context **context, hr_loop **loop);

/* What the driver still has; "" if it is nothing. In a static buffer. */
const char *gpu_left(void);

#endif
