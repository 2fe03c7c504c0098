// SPDX-License-Identifier: Apache-2.0
/* What the conformance tests of a device share: its streams and events, memory on both sides, and
 * the verdict on the test that runs. */
#ifndef HR_CONFORMANCE_RIG_H
#define HR_CONFORMANCE_RIG_H

#include "conformance_body.h"

enum {
    N_STREAMS = 3,
    MAX_PIECES = 7,
    MAX_GROWTH = 8, /* u8 to f64 */
    CHUNK = 65536,
    LARGE = 1 << 20,
    MAX_IN = LARGE + 2 * CHUNK,
    MARGIN = 4096, /* around the output; more than any shift of an address */
    MAX_OUT = MAX_IN * MAX_GROWTH + 2 * MARGIN,
    PAINT = 0xa5,
};

/* How a stream of units is laid out and cut; shifts in units of the device's alignment. */
struct cut {
    unsigned in_shift;
    unsigned out_shift;
    unsigned n_pieces;
    unsigned n_streams;
};

struct rig {
    struct hr__device *device;
    const struct hr__device_ops *ops;
    size_t alignment;

    struct hr__stream *h2d;
    struct hr__stream *streams[N_STREAMS];
    struct hr__stream *d2h;
    struct hr__event *loaded;
    struct hr__event *computed[N_STREAMS];
    struct hr__event *done;

    unsigned char *device_in;
    unsigned char *device_out;
    uint64_t *device_counts; /* MAX_PIECES */
    unsigned char *in;       /* host memory */
    unsigned char *out;
    unsigned char *expected;
    enum hr__type in_type; /* what `in` is filled with */

    /* The test that runs. */
    struct hr__kernel *kernel;
    const struct hr__kernel_info *info;
    struct cut cut;
    uint64_t n_units;
    uint64_t counts[MAX_PIECES]; /* brought back from device_counts */
    void *device_states[N_STREAMS];
    unsigned char *states[N_STREAMS];
    hr_error error;
    char why[HR_ERROR_TEXT + 128]; /* "": it passed so far */

    struct conformance_counts *counters;
};

void rig_make(struct rig *rig);
void rig_free(struct rig *rig);

/* The first failure of a test is the one that is told. */
void rig_fail(struct rig *rig, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Fails unless the status is HR_OK. */
void rig_must(struct rig *rig, hr_status status);
/* Fails at the first byte that differs; what: which bytes these are. */
void rig_expect_bytes(struct rig *rig, const char *what, const unsigned char *got,
                      const unsigned char *expected, size_t n);
/* Prints the line of the test that ran, and counts it. */
void rig_conclude(struct rig *rig, const char *name);

void rig_copy(struct rig *rig, struct hr__stream *stream, void *to, const void *from, size_t size,
              enum hr__copy_kind kind);
/* Records the event and makes the other stream wait for it. */
void rig_hand_over(struct rig *rig, struct hr__stream *from, struct hr__event *event,
                   struct hr__stream *to);

/* Tests one built-in kernel, for conformance_each_kernel(); rig is a struct rig. */
void rig_test_kernel(void *rig, const char *text);

#endif
