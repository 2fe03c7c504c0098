// SPDX-License-Identifier: Apache-2.0
/* How errors are written: whoever decides an error writes it, with the values; callers pass it on
 * untouched. The one header of the engine that io/, compress/ and backends/ may include. */
#ifndef HR_STATUS_H
#define HR_STATUS_H

#include "headrace.h"

/* What is known of a failure beside its text. Zero is "not known". */
struct hr__where {
    enum hr_stage stage;
    int native;      /* errno of the system call, 0 if none */
    uint64_t chunk;  /* index in the stream */
    uint64_t offset; /* byte in the stream of the stage named */
};

/* Fills err (may be NULL) and returns code, so that a failing path reads `return hr__fail(...)`. */
hr_status hr__fail(hr_error *err, hr_status code, struct hr__where where, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
