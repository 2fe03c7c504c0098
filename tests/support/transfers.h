// SPDX-License-Identifier: Apache-2.0
/* Transfers for plain test programs: a shape (from where, to where, how much) is made real with
 * files, pipes and threads that feed and drain them, run through the public header, and looked at.
 * The threads of a transfer say at their start whose they are, by transfer_helper. */
#ifndef HR_TEST_TRANSFERS_H
#define HR_TEST_TRANSFERS_H

#include <headrace.h>
#include <pthread.h>
#include <stdbool.h>

enum place {
    PLACE_FILE,
    PLACE_PIPE,
    PLACE_SOCKET, /* one of a socketpair, as HR_FD */
    PLACE_MEMORY,
    PLACE_CALLBACK,
    PLACE_NULL
};

struct shape {
    enum place from;
    enum place to;
    uint64_t size;
    uint64_t chunk_size;
    uint32_t depth;
    uint32_t io;         /* enum hr_io_choice */
    uint32_t sink_flags; /* enum hr_end_flag */
    uint64_t frame_in;   /* the source is zstd in frames of so many bytes; 0: as it is */
    uint32_t encode;     /* enum hr_codec */
    const char *kernel;  /* built-in, of the host; NULL: none. It passes its input on unchanged */
};

/* Whether the output is as it may be after the transfer. */
enum outcome {
    OUTCOME_ABSENT, /* no file; of other places, nothing arrived */
    OUTCOME_PREFIX, /* the first n_got bytes, and they are right */
    OUTCOME_WHOLE,
    OUTCOME_WRONG
};

struct transfer {
    struct shape shape;
    char directory[64];
    char in[96];
    char out[96];
    unsigned char *bytes;  /* the stream, decoded */
    unsigned char *packed; /* the stream as the source holds it */
    uint64_t packed_size;
    unsigned char *got;
    uint64_t n_got;
    uint64_t got_size;
    struct hr_source source;
    struct hr_kernel kernel;
    struct hr_pipeline_config config;
    int near_in; /* the library's end, -1 if there is none */
    int near_out;
    int far_in; /* the test's end */
    int far_out;
    pthread_t feeder;
    pthread_t drainer;
    hr_loop *loop;
    hr_pipeline *pipeline;
};

/* Called first in each thread that feeds or drains; NULL: nothing is. */
extern void (*transfer_helper)(void);

const char *transfer_name(const struct shape *shape); /* in a static buffer */
void transfer_open(struct transfer *t, const struct shape *shape);
/* Makes loop and pipeline. */
hr_status transfer_create(struct transfer *t, hr_error *error);
/* Frees pipeline and loop, if there are any. */
void transfer_free(struct transfer *t);
/* All of it, to the end. */
hr_status transfer_run(struct transfer *t, hr_error *error);
/* Ends the threads and closes what the library may not close; n_got is right then. */
enum outcome transfer_finish(struct transfer *t);
void transfer_close(struct transfer *t);

/* Prints "ok NAME" or "not ok NAME: why"; end_checks is main's exit status. */
void check_that(bool holds, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int end_checks(void);
/* Ends the program as failed unless it is called again within so many seconds; 0: no limit. */
void limit_time(unsigned seconds, const char *doing);

unsigned count_open_files(void);

/* Whether a program of AddressSanitizer has lost memory by now; false in others. */
bool has_leaked(void);

#endif
