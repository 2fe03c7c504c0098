// SPDX-License-Identifier: Apache-2.0
/* What the files of the program gpu_transfers share: the memory that all copies go between. */
#ifndef GPU_TRANSFERS_H
#define GPU_TRANSFERS_H

#include <headrace.h>
#include <stdint.h>

/* size bytes each, all touched. */
struct areas {
    unsigned char *in;        /* pinned: floats, each a whole number */
    unsigned char *out;       /* pinned */
    unsigned char *pageable;  /* the bytes of in, between two runs */
    unsigned char *there;     /* memory of the device */
    unsigned char *there_too; /* the same */
    uint64_t size;

    const unsigned char *file; /* file_size bytes: the file, mapped */
    uint64_t file_size;        /* at most size */
    const char *path;          /* of the file */
    const char *frames_path;   /* the same bytes in zstd frames; NULL: not there */
};

/* Prints a line on stderr and ends the program: a figure of a failed run is none. */
_Noreturn void stop(const char *what, const char *why);

#endif
