// SPDX-License-Identifier: Apache-2.0
/* How fast bytes go to the device, back, and both ways at once, from pinned memory: for information,
 * as what is fast enough depends on the machine. */
#include <stdlib.h>

#include "selftest.h"

enum { N_RUNS = 3 };
static const uint64_t size = 64 << 20;

/* GB/s of the fastest run, whose statistics are left in got. */
static double measure(struct selftest *t, const struct flow *flow, struct outcome *got)
{
    double most = 0;
    struct outcome run;
    for (int i = 0; i < N_RUNS; i++) {
        if (!must_run(t, flow, &run))
            return 0;
        const double rate = (double)size / (double)(run.stats.wall_ns ? run.stats.wall_ns : 1);
        if (rate > most) {
            most = rate;
            *got = run;
        }
    }
    return most;
}

static void measure_all(struct selftest *t, unsigned char *const memory[2], void *on_device)
{
    struct outcome got = {0};
    const struct flow there = {.device = t->device,
                               .source = from_memory(memory[0], size),
                               .sink = to_device(on_device, size)};
    const struct flow back = {.device = t->device,
                              .source = from_device(on_device, size),
                              .sink = to_memory(memory[1], size)};
    const struct flow through = {.device = t->device,
                                 .source = from_memory(memory[0], size),
                                 .sink = to_memory(memory[1], size)};
    t->rates.to_device = measure(t, &there, &got);
    t->rates.from_device = measure(t, &back, &got);
    t->rates.both = measure(t, &through, &got);
    t->rates.overlap = got.stats.overlap;
    t->rates.gain = got.stats.gain;
}

static void run_rates(struct selftest *t, const void *unused)
{
    unsigned char *const memory[] = {take_memory(size), take_memory(size)};
    void *on_device = NULL;
    bool is_pinned[2];
    hr_error error = {0};
    (void)unused;
    t->rates.is_pinned = true;
    for (int i = 0; i < 2; i++) {
        is_pinned[i] = hr_pin(t->context, t->device, memory[i], size, &error) == HR_OK;
        t->rates.is_pinned = t->rates.is_pinned && is_pinned[i];
    }
    if (expect_ok(t, "allocating", hr_device_alloc(t->context, t->device, size, &on_device, &error),
                  &error))
        measure_all(t, memory, on_device);
    hr_device_free(t->context, t->device, on_device);
    for (int i = 0; i < 2; i++) {
        if (is_pinned[i])
            hr_unpin(t->context, t->device, memory[i]);
        free(memory[i]);
    }
}

void selftest_rates(struct selftest *t)
{
    check(t, "64 MiB each way, for the rates", run_rates, NULL);
}

void tell_rates(struct selftest *t)
{
    tell_group(t, "rates");
    tell_text(t, "memory", t->rates.is_pinned ? "pinned" : "pageable");
    tell_number(t, "h2d_gb_per_s", t->rates.to_device, 2);
    tell_number(t, "d2h_gb_per_s", t->rates.from_device, 2);
    tell_number(t, "both_gb_per_s", t->rates.both, 2);
    tell_number(t, "overlap", t->rates.overlap, 2);
    tell_number(t, "gain", t->rates.gain, 2);
    tell_group_end(t);
}
