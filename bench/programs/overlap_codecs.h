// SPDX-License-Identifier: Apache-2.0
/* Data for zstd, and pipelines of it. */
#ifndef OVERLAP_CODECS_H
#define OVERLAP_CODECS_H

#include <headrace.h>

struct packed {
    unsigned char *bytes; /* the caller frees them */
    uint64_t size;
    uint64_t room;
};

/* Bytes like text; the program's. */
const unsigned char *plain_text(uint64_t *size);
/* The text in frames of this many bytes. */
struct packed pack(uint64_t frame_size);
/* From memory to a callback that drops what comes. The source is where it stays. */
struct hr_pipeline_config codec_config(struct hr_source *source, const void *data, uint64_t size);

#endif
