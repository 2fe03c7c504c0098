// SPDX-License-Identifier: Apache-2.0
/* Decoders and encoders of a context: they are large and slow to make, so they are kept for the
 * next job of the same kind, of whichever pipeline. There are at most as many of a kind as workers.
 */
#ifndef HR_CODECS_H
#define HR_CODECS_H

#include <pthread.h>
#include <stdbool.h>

#include "codec.h"

/* What makes two of them alike. */
struct hr__codec_kind {
    bool encoder;
    int level;           /* encoders */
    unsigned window_log; /* decoders */
    bool streams;     /* decoders that are fed piece by piece: only they need a window's memory */
    const void *dict; /* a pipeline's own copy, or NULL */
    size_t dict_size;
};

struct hr__codec_entry {
    struct hr__codec_kind kind;
    struct hr__decoder *decoder;
    struct hr__encoder *encoder;
    struct hr__codec_entry *next;
};

struct hr__codecs {
    pthread_mutex_t lock;
    unsigned max_kept;            /* of a kind; constant */
    struct hr__codec_entry *kept; /* under lock */
};

void hr__codecs_init(struct hr__codecs *codecs, unsigned n_workers);
void hr__codecs_destroy(struct hr__codecs *codecs);

/* Makes as many of the kind as are kept at most, less those that are. Thread: any. */
enum hr__codec_code hr__codecs_prepare(struct hr__codecs *codecs, struct hr__codec_kind kind,
                                       struct hr__codec_error *error);

/* One of this kind, for the caller alone; NULL: error says why. Thread: any. */
struct hr__codec_entry *hr__codecs_take(struct hr__codecs *codecs, struct hr__codec_kind kind,
                                        struct hr__codec_error *error);
void hr__codecs_return(struct hr__codecs *codecs, struct hr__codec_entry *entry);
/* Frees those that were made for the dictionary, which is about to go. */
void hr__codecs_forget(struct hr__codecs *codecs, const void *dict);

#endif
