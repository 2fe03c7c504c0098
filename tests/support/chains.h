// SPDX-License-Identifier: Apache-2.0
/* Chains of kernels on the host device for tests of the public header: a few sources, kernels by
 * their text or as functions, run to the end into memory that grows. */
#ifndef HR_TEST_CHAINS_H
#define HR_TEST_CHAINS_H

#include <headrace.h>
#include <stdbool.h>
#include <stddef.h>

enum { CHAIN_KERNELS = 8, CHAIN_SOURCES = 40 };

struct chain {
    struct hr_pipeline_config config; /* chunk_size, depth, flags, ...: the test sets what it likes;
                                         the device is "host" */
    struct hr_source sources[CHAIN_SOURCES];
    struct hr_kernel kernels[CHAIN_KERNELS];

    hr_pipeline *pipeline; /* after chain_run, for results and statistics */
    hr_error error;
    unsigned char *out; /* what was delivered, in order */
    size_t n_out;
    size_t cap;
    bool out_of_order;
};

/* A chain without kernels that gives to a callback. */
void chain_init(struct chain *chain);
/* A built-in kernel. */
void chain_add(struct chain *chain, const char *text);
/* Any other; struct_size is set here. */
void chain_add_kernel(struct chain *chain, struct hr_kernel kernel);
void chain_read_memory(struct chain *chain, const void *data, size_t size);
void chain_read_fd(struct chain *chain, int fd);
void chain_read_file(struct chain *chain, const char *path);

/* Only creates the pipeline. */
hr_status chain_create(struct chain *chain, hr_loop *loop);
/* Creates it and runs it to its end; HR_ETIMEDOUT if that takes longer than half a minute. */
hr_status chain_run(struct chain *chain, hr_loop *loop);
/* Frees the pipeline and the output; the chain may be run again. */
void chain_reset(struct chain *chain);

/* Bytes in no order that a kernel could like, the same for the same size. The caller frees them. */
unsigned char *test_bytes(size_t size);

/* A thread that writes bytes to a descriptor in pieces of at most `piece`, and closes it. */
struct feeder;
/* *out is the end to read from. */
struct feeder *feeder_start(const void *data, size_t size, size_t piece, int *out);
/* Closes the end to read from, too. */
void feeder_join(struct feeder *feeder);

#endif
