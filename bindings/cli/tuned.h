// SPDX-License-Identifier: Apache-2.0
/* Settings that were found to be the fastest on a machine and device, kept for `headrace run`. */
#ifndef HR_TUNED_H
#define HR_TUNED_H

#include "cli.h"

enum { MAX_TUNED = 64 };

/* 0: the default of each. */
struct tuned {
    char machine[65]; /* its host name, for a home folder may be shared */
    char device[HR_DEVICE_NAME];
    char kind[8];   /* of transfer that it was found for: "plain", or "zstd": it is decoded */
    uint64_t chunk; /* bytes */
    uint64_t depth;
    uint64_t streams;
    uint64_t threads;
    double gain; /* over the defaults, when it was found */
};

struct tuned_file {
    char *path; /* NULL: no folder is known for it */
    unsigned n;
    struct tuned all[MAX_TUNED];
};

/* ---- tuned_settings.c ---- */

/* The caller frees it. NULL: no folder is known. */
char *tuned_path(void);

/* No file is an empty one. False: it cannot be used; why, of HR_ERROR_TEXT bytes, says the reason.
 * Freed in either case. */
bool tuned_read(struct tuned_file *file, char *why);
void tuned_free(struct tuned_file *file);

/* Of this machine; NULL: none. */
const struct tuned *tuned_find(const struct tuned_file *file, const char *device, const char *kind);

/* Fills in the machine. False with the reason in why. */
bool tuned_save(struct tuned *tuned, char *why);

/* ---- tuned_use.c ---- */

/* "chunk 8 MiB, depth 12", or "the defaults"; gives out. */
enum { TUNED_TEXT = 128 };
const char *tuned_text(const struct tuned *tuned, char out[TUNED_TEXT]);

/* Takes what is kept for the device into options that were not given; only for transfers of the kind
 * that it was found with: regular files, that are not encoded, nor go through kernels on the host,
 * for which other settings are right. False: said why on stderr, for with --strict a file that cannot be used is an
 * error, and else a warning. */
bool use_tuned(struct options *options);

/* For `headrace devices`. */
void print_tuned_text(void);
void print_tuned_json(void);

#endif
