// SPDX-License-Identifier: Apache-2.0
/* What the driver's copies reach, without any pipeline: pinned memory of the host and memory of the
 * device, two areas each, and a stream for each direction.
 *
 *     from ──H2D──▶ there ──D2D──▶ there_too ──D2H──▶ back
 *
 * First once along this way, and back must be what from is. Then each leg alone, and H2D with D2H,
 * which share no area. */
#include <string.h>
#include <sys/mman.h>

#include "clock.h"
#include "gpu_device.h"
#include "status.h"

enum { N_RUNS = 3, N_COPIES = 4, N_COPIES_WITHIN = 16 /* which are short */ };

struct rig {
    struct hr__device *device;
    size_t size;
    unsigned char *from; /* and back behind it, in one mapping */
    unsigned char *back;
    void *there; /* of the device */
    void *there_too;
    bool is_pinned;
    struct hr__stream *in;
    struct hr__stream *out;
    struct hr__event *in_done;
    struct hr__event *out_done;
};

/* What one run enqueues. */
struct run {
    bool in;
    bool out;
    bool within;
    unsigned n_copies;
};

/* ---- memory and streams ---- */

static hr_status map_host(struct rig *r, hr_error *error)
{
    void *memory =
        mmap(NULL, 2 * r->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return hr__fail(error, HR_ENOMEM, (struct hr__where){0},
                        "no memory of the host to measure copies of %zu bytes", r->size);
    madvise(memory, 2 * r->size, MADV_HUGEPAGE);
    r->from = memory;
    r->back = r->from + r->size;
    for (size_t i = 0; i < r->size; i++) /* no two pages alike */
        r->from[i] = (unsigned char)((i >> 12) * 31 + i * 7);
    memset(r->back, 0, r->size);
    r->is_pinned = hr__gpu_pin(r->device, r->from, 2 * r->size);
    return HR_OK;
}

static hr_status set_up(struct rig *r, hr_error *error)
{
    hr_status status = hr__gpu_alloc(r->device, r->size, &r->there, error);
    if (status == HR_OK)
        status = hr__gpu_alloc(r->device, r->size, &r->there_too, error);
    if (status == HR_OK)
        status = map_host(r, error);
    if (status == HR_OK)
        status = hr__gpu_stream_create(r->device, HR__STREAM_H2D, &r->in, error);
    if (status == HR_OK)
        status = hr__gpu_stream_create(r->device, HR__STREAM_D2H, &r->out, error);
    if (status == HR_OK)
        status = hr__gpu_event_create(r->device, &r->in_done, error);
    if (status == HR_OK)
        status = hr__gpu_event_create(r->device, &r->out_done, error);
    return status;
}

/* Streams first: they wait for what is enqueued. */
static void tear_down(struct rig *r)
{
    hr__gpu_stream_destroy(r->in);
    hr__gpu_stream_destroy(r->out);
    hr__gpu_event_destroy(r->in_done);
    hr__gpu_event_destroy(r->out_done);
    hr__gpu_free(r->device, r->there);
    hr__gpu_free(r->device, r->there_too);
    if (r->is_pinned)
        hr__gpu_unpin(r->device, r->from);
    if (r->from)
        munmap(r->from, 2 * r->size);
}

/* ---- runs ---- */

static hr_status enqueue(const struct rig *r, const struct run *run, hr_error *error)
{
    hr_status status = HR_OK;
    if (run->in)
        status = hr__gpu_stream_copy(r->in, r->there, r->from, r->size, HR__COPY_H2D, error);
    if (status == HR_OK && run->within)
        status = hr__gpu_stream_copy(r->in, r->there_too, r->there, r->size, HR__COPY_D2D, error);
    if (status == HR_OK && run->out)
        status = hr__gpu_stream_copy(r->out, r->back, r->there_too, r->size, HR__COPY_D2H, error);
    return status;
}

static hr_status await(const struct rig *r, hr_error *error)
{
    hr_status status = hr__gpu_stream_record(r->in, r->in_done, error);
    if (status == HR_OK)
        status = hr__gpu_stream_record(r->out, r->out_done, error);
    if (status == HR_OK)
        status = hr__gpu_event_await(r->in_done, error);
    if (status == HR_OK)
        status = hr__gpu_event_await(r->out_done, error);
    return status;
}

static hr_status run_once(const struct rig *r, const struct run *run, hr_error *error)
{
    hr_status status = HR_OK;
    for (unsigned i = 0; i < run->n_copies && status == HR_OK; i++)
        status = enqueue(r, run, error);
    return status == HR_OK ? await(r, error) : status;
}

/* The rate counts what goes in and what comes out. */
static hr_status measure_one(const struct rig *r, const struct run *run, double *rate,
                             hr_error *error)
{
    const double bytes = (double)r->size * run->n_copies * (run->in && run->out ? 2 : 1);
    hr_status status = HR_OK;
    for (int i = 0; i < N_RUNS && status == HR_OK; i++) {
        const uint64_t start = hr__now_ns();
        status = run_once(r, run, error);
        const uint64_t took = hr__now_ns() - start;
        const double reached = bytes * 1e9 / (double)(took ? took : 1);
        *rate = reached > *rate ? reached : *rate;
    }
    return status;
}

static hr_status prove(const struct rig *r, hr_error *error)
{
    static const struct run there = {.in = true, .within = true, .n_copies = 1};
    static const struct run back = {.out = true, .n_copies = 1};
    const struct hr__device_info *info = r->device->ops->info(r->device);
    hr_status status = run_once(r, &there, error);
    if (status == HR_OK)
        status = run_once(r, &back, error);
    if (status == HR_OK && memcmp(r->from, r->back, r->size) != 0)
        status = hr__fail(error, HR_EDEVICE, (struct hr__where){.stage = HR_STAGE_D2H},
                          "%s: of %zu bytes that were copied there and back, other bytes came back",
                          info->name, r->size);
    return status;
}

hr_status hr__gpu_measure(struct hr__device *device, size_t size, struct hr_device_rates *out,
                          hr_error *error)
{
    static const struct run in = {.in = true, .n_copies = N_COPIES};
    static const struct run back = {.out = true, .n_copies = N_COPIES};
    static const struct run both = {.in = true, .out = true, .n_copies = N_COPIES};
    static const struct run within = {.within = true, .n_copies = N_COPIES_WITHIN};
    struct rig rig = {.device = device, .size = size};
    hr_status status = set_up(&rig, error);
    *out = (struct hr_device_rates){.is_pinned = rig.is_pinned};
    if (status == HR_OK)
        status = prove(&rig, error);
    if (status == HR_OK)
        status = measure_one(&rig, &in, &out->h2d, error);
    if (status == HR_OK)
        status = measure_one(&rig, &back, &out->d2h, error);
    if (status == HR_OK)
        status = measure_one(&rig, &both, &out->both, error);
    if (status == HR_OK)
        status = measure_one(&rig, &within, &out->d2d, error);
    tear_down(&rig);
    return status;
}
