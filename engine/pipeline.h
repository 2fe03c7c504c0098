// SPDX-License-Identifier: Apache-2.0
/* A pipeline and its slots. Only the scheduler changes what is said here after creation. */
#ifndef HR_PIPELINE_H
#define HR_PIPELINE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "file_io.h"
#include "headrace.h"
#include "host_kernels.h"
#include "io.h"
#include "lease.h"
#include "loop.h"
#include "queue.h"

/* The state names the owner of the slot and of the bytes it refers to. */
enum hr__slot_state {
    HR__SLOT_FREE,    /* nobody */
    HR__SLOT_FILLING, /* scheduler: holds some bytes of a pipe, waits for more */
    HR__SLOT_READING, /* the I/O engine, or the worker in a read callback */
    HR__SLOT_READY,   /* scheduler: waits for its turn at the sink */
    HR__SLOT_FAILED,  /* scheduler: has no bytes, but the error that ends the stream here */
    HR__SLOT_WRITING, /* the I/O engine or a worker */
};

struct hr__slot {
    enum hr__slot_state state;
    hr_pipeline *pipeline;
    struct hr__slot *next_free;
    struct hr__region *region; /* NULL until first leased; kept until the pipeline has ended */
    const char *data;          /* the chunk: in the region, or a user's memory */
    size_t size;               /* bytes of the chunk that are there */
    size_t wanted;             /* bytes that the read is to bring */
    size_t moved;              /* bytes that the read or the write under way has moved */
    uint64_t chunk;            /* index in the stream */
    uint64_t stream_offset;
    struct hr__input *input;
    uint64_t input_offset; /* of the chunk, counted from its source's origin */
    struct hr__io_request request;
    struct hr__job job;
    int64_t job_result;
    void *reduction; /* state of the null sink's CRC-32 of this chunk */
    hr_error error;  /* HR__SLOT_FAILED */
};

struct hr__input {
    hr_pipeline *pipeline;
    struct hr_source config;
    char *path;
    struct hr__file file;
    uint64_t origin;   /* byte of the source from which position and end are counted */
    uint64_t position; /* next byte to ask for */
    uint64_t end;      /* UINT64_MAX: where it ends is not known */
    uint64_t skip;     /* bytes still to drop, on what cannot seek */
    bool in_order;     /* a pipe or callback: one read at a time */
    bool readable;     /* a pipe has something, as far as is known */
    bool polling;      /* poll is with the I/O engine */
    struct hr__io_request poll;
};

/* Time in which a stage has at least one operation under way. */
struct hr__busy {
    unsigned n;
    uint64_t since_ns;
};

struct hr_pipeline {
    /* constant after create */
    hr_pipeline *next; /* in the loop's list */
    hr_loop *loop;
    bool owns_loop;
    struct hr__input *inputs;
    unsigned n_inputs;
    struct hr_sink sink;
    char *sink_path; /* NULL: no file */
    size_t chunk_size;
    unsigned depth;

    /* owner thread */
    struct hr__target target;
    struct hr__slot *slots;  /* depth of them */
    struct hr__slot **order; /* by chunk % depth: from next_write to next_read */
    struct hr__slot *free_leased;
    struct hr__slot *free_empty; /* without memory so far */
    unsigned n_leased;
    unsigned in_flight; /* requests and jobs not yet done */
    unsigned current;   /* input that is read */
    bool input_ended;
    uint64_t next_read;  /* chunk */
    uint64_t next_write; /* chunk */
    uint64_t read_offset;
    uint64_t write_offset;
    unsigned writing; /* chunks at the sink */
    bool marked;      /* something came back since the last pump */
    bool committing;
    bool finished;
    hr_status status; /* HR_PENDING until finished */
    bool failed;
    hr_error error; /* of the lowest position, when failed */
    struct hr__job commit_job;
    hr_error commit_error;
    struct hr__kernel_spec crc_spec;
    char *reductions; /* the null sink's: depth + 1 states, the last is the stream's */
    uint64_t start_ns;
    uint64_t end_ns;
    struct hr__busy busy[HR_STAGE_COUNT];
    struct hr_stage_stats stages[HR_STAGE_COUNT];

    atomic_bool cancelled; /* any thread; relaxed: the eventfd orders it */
};

/* The state of the null sink's CRC-32 of the whole stream. */
void *hr__pipeline_crc(const hr_pipeline *pipeline);
/* Closes the sources and gives the memory back: nothing is in flight any more. */
void hr__pipeline_let_go(hr_pipeline *pipeline);

#endif
