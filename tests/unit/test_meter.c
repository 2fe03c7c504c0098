// SPDX-License-Identifier: Apache-2.0
/* Times are made up: the meter has no clock of its own. */
#include <criterion/criterion.h>
#include <stdint.h>

#include "meter.h"

/* Of a meter of I/O. */
static void expect_times(const struct hr__meter *meter, uint64_t now_ns, uint64_t busy_ns,
                         uint64_t starved_ns, uint64_t blocked_ns)
{
    struct hr_stage_stats s;
    hr__meter_read(meter, now_ns, &s);
    cr_assert(s.service_ns == busy_ns && s.starved_ns == starved_ns && s.blocked_ns == blocked_ns,
              "at %llu: busy %llu, starved %llu, blocked %llu", (unsigned long long)now_ns,
              (unsigned long long)s.service_ns, (unsigned long long)s.starved_ns,
              (unsigned long long)s.blocked_ns);
}

Test(meter, a_meter_that_was_never_called_counts_no_time)
{
    const struct hr__meter m = {.capacity = 4, .resource = 3, .is_io = true};
    expect_times(&m, 0, 0, 0, 0);
    expect_times(&m, UINT64_MAX, 0, 0, 0);
    struct hr_stage_stats s;
    hr__meter_read(&m, 5, &s);
    cr_assert_eq(s.capacity, 4);
    cr_assert_eq(s.resource, 3);
}

Test(meter, the_first_call_starts_the_count)
{
    struct hr__meter begun = {.is_io = true};
    hr__meter_begin(&begun, 1000);
    expect_times(&begun, 1000, 0, 0, 0);
    expect_times(&begun, 1001, 1, 0, 0);
    struct hr__meter blocked = {.is_io = true};
    hr__meter_idle(&blocked, 1000, HR__IDLE_BLOCKED);
    expect_times(&blocked, 1001, 0, 0, 1);
    struct hr__meter at_zero = {.is_io = true};
    hr__meter_begin(&at_zero, 0);
    expect_times(&at_zero, 7, 7, 0, 0);
}

Test(meter, operations_at_once_are_busy_time_once)
{
    struct hr__meter m = {.is_io = true};
    hr__meter_begin(&m, 10);
    hr__meter_begin(&m, 12);
    hr__meter_end(&m, 15);
    hr__meter_begin(&m, 15);
    hr__meter_end(&m, 20);
    hr__meter_end(&m, 30);
    expect_times(&m, 30, 20, 0, 0);
    expect_times(&m, 31, 20, 1, 0); /* nothing was told yet */
}

Test(meter, every_moment_is_busy_starved_or_blocked)
{
    struct hr__meter m = {.is_io = true};
    hr__meter_idle(&m, 100, HR__IDLE_STARVED);
    hr__meter_idle(&m, 110, HR__IDLE_STARVED);
    hr__meter_begin(&m, 120);
    hr__meter_idle(&m, 125, HR__IDLE_BLOCKED); /* while it is busy: for later */
    hr__meter_end(&m, 150);
    hr__meter_idle(&m, 153, HR__IDLE_STARVED);
    hr__meter_idle(&m, 160, HR__IDLE_BLOCKED);
    hr__meter_begin(&m, 200);
    hr__meter_end(&m, 200);
    expect_times(&m, 201, 30, 20 + 7, 3 + 40 + 1);
}

Test(meter, reading_changes_nothing)
{
    struct hr__meter m = {.is_io = true};
    hr__meter_begin(&m, 10);
    expect_times(&m, 50, 40, 0, 0);
    expect_times(&m, 20, 10, 0, 0);
    hr__meter_end(&m, 30);
    expect_times(&m, 30, 20, 0, 0);
    expect_times(&m, 35, 20, 5, 0);
    expect_times(&m, 30, 20, 0, 0);
}

Test(meter, time_never_runs_backwards)
{
    struct hr__meter m = {.is_io = true};
    hr__meter_begin(&m, 100);
    hr__meter_end(&m, 90);
    hr__meter_idle(&m, 80, HR__IDLE_BLOCKED);
    expect_times(&m, 0, 0, 0, 0);
    hr__meter_begin(&m, 110);
    hr__meter_end(&m, 105);
    expect_times(&m, 109, 0, 0, 10);
    expect_times(&m, 111, 0, 0, 11);
}

Test(meter, service_of_workers_is_what_they_told)
{
    struct hr__meter m = {.capacity = 2};
    hr__meter_begin(&m, 0);
    hr__meter_begin(&m, 0);
    hr__meter_serve(&m, 70);
    hr__meter_end(&m, 100);
    hr__meter_serve(&m, 90);
    hr__meter_end(&m, 100);
    hr__meter_idle(&m, 100, HR__IDLE_BLOCKED);
    expect_times(&m, 130, 160, 0, 30);
}

Test(meter, counts_are_kept_in_64_bits)
{
    struct hr__meter m = {0};
    for (int i = 0; i < 3; i++) {
        hr__meter_bytes(&m, UINT32_MAX, (uint64_t)UINT32_MAX << 8);
        hr__meter_chunk(&m);
    }
    hr__meter_bytes(&m, 0, 1);
    struct hr_stage_stats s;
    hr__meter_read(&m, 0, &s);
    cr_assert_eq(s.chunks, 3);
    cr_assert_eq(s.bytes_in, 3 * (uint64_t)UINT32_MAX);
    cr_assert_eq(s.bytes_out, 3 * ((uint64_t)UINT32_MAX << 8) + 1);
    hr__meter_begin(&m, 0);
    hr__meter_end(&m, UINT64_MAX);
    cr_assert_eq(m.busy_ns, UINT64_MAX);
}

/* ---- The summary --------------------------------------------------------------------------- */

static void expect_summary(const struct hr_stage_stats *stages, uint64_t wall_ns, double overlap,
                           double gain, uint32_t bottleneck)
{
    double found_overlap = -1;
    double found_gain = -1;
    uint32_t found = UINT32_MAX;
    hr__meters_summary(stages, wall_ns, &found_overlap, &found_gain, &found);
    cr_assert_float_eq(found_overlap, overlap, 1e-12, "overlap %.17g", found_overlap);
    cr_assert_float_eq(found_gain, gain, 1e-12, "gain %.17g", found_gain);
    cr_assert_eq(found, bottleneck, "bottleneck %u", found);
}

Test(meters_summary, nothing_ran_or_no_time_went_by)
{
    struct hr_stage_stats stages[HR_STAGE_COUNT] = {0};
    expect_summary(stages, 0, 0, 0, HR_STAGE_NONE);
    expect_summary(stages, 100, 0, 0, HR_STAGE_NONE);
    stages[HR_STAGE_READ] = (struct hr_stage_stats){.service_ns = 5, .capacity = 1, .resource = 1};
    expect_summary(stages, 0, 0, 0, HR_STAGE_NONE);
    expect_summary(stages, 1, 5, 5, HR_STAGE_READ);
}

Test(meters_summary, stages_of_one_resource_share_its_capacity)
{
    struct hr_stage_stats stages[HR_STAGE_COUNT] = {
        [HR_STAGE_READ] = {.service_ns = 60, .capacity = 1, .resource = 1},
        [HR_STAGE_DECODE] = {.service_ns = 100, .capacity = 4, .resource = 2},
        [HR_STAGE_ENCODE] = {.service_ns = 220, .capacity = 4, .resource = 2},
        [HR_STAGE_WRITE] = {.service_ns = 40, .capacity = 1, .resource = 3},
    };
    /* the workers: 320 / 4 = 80, more than the 60 of reading */
    expect_summary(stages, 100, 0.8, 1.8, HR_STAGE_ENCODE);
    stages[HR_STAGE_DECODE].service_ns = 220;
    stages[HR_STAGE_ENCODE].service_ns = 100;
    expect_summary(stages, 100, 0.8, 1.8, HR_STAGE_DECODE);
    stages[HR_STAGE_READ].service_ns = 81;
    expect_summary(stages, 100, 0.81, 2.01, HR_STAGE_READ);
}

Test(meters_summary, one_after_the_other_gains_nothing)
{
    const struct hr_stage_stats stages[HR_STAGE_COUNT] = {
        [HR_STAGE_READ] = {.service_ns = 50, .capacity = 1, .resource = 1},
        [HR_STAGE_H2D] = {.service_ns = 20, .capacity = 1, .resource = 2},
        [HR_STAGE_WRITE] = {.service_ns = 30, .capacity = 1, .resource = 3},
    };
    expect_summary(stages, 100, 0.5, 1, HR_STAGE_READ);
    expect_summary(stages, 50, 1, 2, HR_STAGE_READ);
}

Test(meters_summary, stages_that_are_not_there_take_no_part)
{
    /* all zeros, as resource 0, which is in use too */
    const struct hr_stage_stats stages[HR_STAGE_COUNT] = {
        [HR_STAGE_NONE] = {.service_ns = 1000, .capacity = 1, .resource = 1},
        [HR_STAGE_KERNEL] = {.service_ns = 90, .capacity = 3, .resource = 0},
        [HR_STAGE_WRITE] = {.service_ns = 20, .capacity = 0, .resource = 1},
    };
    expect_summary(stages, 100, 0.3, 0.5, HR_STAGE_KERNEL);
}

Test(meters_summary, of_equals_the_first_is_named)
{
    const struct hr_stage_stats stages[HR_STAGE_COUNT] = {
        [HR_STAGE_H2D] = {.service_ns = 20, .capacity = 2, .resource = 7},
        [HR_STAGE_KERNEL] = {.service_ns = 20, .capacity = 1, .resource = 5},
        [HR_STAGE_D2H] = {.service_ns = 20, .capacity = 2, .resource = 7},
    };
    expect_summary(stages, 100, 0.2, 0.4, HR_STAGE_H2D);
}
