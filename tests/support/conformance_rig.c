// SPDX-License-Identifier: Apache-2.0
#include "conformance_rig.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance_table.h"

void rig_make(struct rig *rig)
{
    const struct hr__device_ops *ops = rig->ops;
    struct hr__device *device = rig->device;
    void *memory = NULL;
    rig->in = malloc(MAX_IN);
    rig->out = malloc(MAX_OUT);
    rig->expected = malloc(MAX_OUT);
    rig_must(rig, ops->alloc(device, MAX_IN + MARGIN, &memory, &rig->error));
    rig->device_in = memory;
    rig_must(rig, ops->alloc(device, MAX_OUT, &memory, &rig->error));
    rig->device_out = memory;
    rig_must(rig, ops->alloc(device, sizeof rig->counts, &memory, &rig->error));
    rig->device_counts = memory;
    rig_must(rig, ops->stream_create(device, HR__STREAM_H2D, &rig->h2d, &rig->error));
    rig_must(rig, ops->stream_create(device, HR__STREAM_D2H, &rig->d2h, &rig->error));
    rig_must(rig, ops->event_create(device, &rig->loaded, &rig->error));
    rig_must(rig, ops->event_create(device, &rig->done, &rig->error));
    for (int i = 0; i < N_STREAMS; i++) {
        rig_must(rig,
                 ops->stream_create(device, HR__STREAM_KERNELS, &rig->streams[i], &rig->error));
        rig_must(rig, ops->event_create(device, &rig->computed[i], &rig->error));
    }
    rig->in_type = HR__TYPE_U8;
    conformance_fill(rig->in_type, rig->in, MAX_IN);
}

void rig_free(struct rig *rig)
{
    rig->ops->stream_destroy(rig->h2d);
    rig->ops->stream_destroy(rig->d2h);
    for (int i = 0; i < N_STREAMS; i++) {
        rig->ops->stream_destroy(rig->streams[i]);
        rig->ops->event_destroy(rig->computed[i]);
    }
    rig->ops->event_destroy(rig->loaded);
    rig->ops->event_destroy(rig->done);
    rig->ops->free(rig->device, rig->device_in);
    rig->ops->free(rig->device, rig->device_out);
    rig->ops->free(rig->device, rig->device_counts);
    free(rig->in);
    free(rig->out);
    free(rig->expected);
}

void rig_fail(struct rig *rig, const char *format, ...)
{
    va_list args;
    if (rig->why[0] != '\0')
        return; /* the first reason counts */
    va_start(args, format);
    vsnprintf(rig->why, sizeof rig->why, format, args);
    va_end(args);
}

void rig_must(struct rig *rig, hr_status status)
{
    if (status == HR_PENDING)
        rig_fail(rig, "an event was not done after ten seconds");
    else if (status != HR_OK)
        rig_fail(rig, "%s: %s", hr_status_name(status), rig->error.text);
}

void rig_expect_bytes(struct rig *rig, const char *what, const unsigned char *got,
                      const unsigned char *expected, size_t n)
{
    size_t i = 0;
    if (n == 0 || memcmp(got, expected, n) == 0)
        return;
    while (got[i] == expected[i])
        i++;
    rig_fail(rig, "%llu units in %u pieces, %s: byte %zu of %zu is 0x%02x, expected 0x%02x",
             (unsigned long long)rig->n_units, rig->cut.n_pieces, what, i, n, got[i], expected[i]);
}

void rig_conclude(struct rig *rig, const char *name)
{
    if (rig->why[0] == '\0') {
        printf("ok %s\n", name);
        rig->counters->n_passed++;
    } else {
        printf("not ok %s: %s\n", name, rig->why);
        rig->counters->n_failed++;
    }
    rig->why[0] = '\0';
}

void rig_copy(struct rig *rig, struct hr__stream *stream, void *to, const void *from, size_t size,
              enum hr__copy_kind kind)
{
    rig_must(rig, rig->ops->copy(stream, to, from, size, kind, &rig->error));
}

void rig_hand_over(struct rig *rig, struct hr__stream *from, struct hr__event *event,
                   struct hr__stream *to)
{
    rig_must(rig, rig->ops->record(from, event, &rig->error));
    rig_must(rig, rig->ops->wait(to, event, &rig->error));
}
