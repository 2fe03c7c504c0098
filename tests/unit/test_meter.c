// SPDX-License-Identifier: Apache-2.0
/* Times are made up: the meter has no clock of its own. */
#include <criterion/criterion.h>
#include <stdint.h>

#include "cover.h"
#include "loop.h"
#include "meter.h"

/* Of a meter of I/O. */
static void expect_times(const struct hr__meter *meter, uint64_t now_ns, uint64_t busy_ns,
                         uint64_t starved_ns, uint64_t blocked_ns)
{
    struct hr_stage_stats s;
    hr__meter_read(meter, now_ns, &s, NULL);
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
    hr__meter_read(&m, 5, &s, NULL);
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
    hr__meter_read(&m, 0, &s, NULL);
    cr_assert_eq(s.chunks, 3);
    cr_assert_eq(s.bytes_in, 3 * (uint64_t)UINT32_MAX);
    cr_assert_eq(s.bytes_out, 3 * ((uint64_t)UINT32_MAX << 8) + 1);
    hr__meter_begin(&m, 0);
    hr__meter_end(&m, UINT64_MAX);
    cr_assert_eq(m.busy_ns, UINT64_MAX);
}

Test(meter, a_silent_peer_is_waited_for_but_serves_nothing)
{
    struct hr__meter m = {.is_io = true};
    struct hr_stage_stats s;
    struct hr__meter_notes told;
    hr__meter_idle(&m, 0, HR__IDLE_SILENT);
    hr__meter_begin(&m, 900); /* while it sends, it is not silent */
    hr__meter_end(&m, 910);
    hr__meter_idle(&m, 915, HR__IDLE_STARVED);
    hr__meter_idle(&m, 930, HR__IDLE_SILENT);
    hr__meter_read(&m, 1000, &s, &told);
    cr_assert_eq(s.service_ns, 10);
    cr_assert_eq(s.starved_ns, 990);
    cr_assert_eq(told.silent_ns, 900 + 5 + 70);
    cr_assert_eq(told.most_at_once, 1);
}

/* ---- Operations at once -------------------------------------------------------------------- */

/* Adds both, in this order, to a new cover. */
static void expect_cover(uint64_t from, uint64_t until, uint64_t also_from, uint64_t also_until,
                         uint64_t second)
{
    struct hr__cover cover = {0};
    cr_assert_eq(hr__cover_add(&cover, from, until), until - from);
    const uint64_t found = hr__cover_add(&cover, also_from, also_until);
    cr_assert_eq(found, second, "[%zu, %zu) then [%zu, %zu): %zu", (size_t)from, (size_t)until,
                 (size_t)also_from, (size_t)also_until, (size_t)found);
}

Test(cover, each_moment_counts_once_in_any_order)
{
    expect_cover(10, 20, 20, 30, 10);
    expect_cover(10, 20, 15, 30, 10);
    expect_cover(10, 20, 12, 15, 0);
    expect_cover(10, 20, 10, 20, 0);
    expect_cover(20, 30, 10, 20, 10); /* the older one is told later: kernels of two streams */
    expect_cover(20, 30, 10, 25, 10);
    expect_cover(20, 30, 10, 40, 20); /* a short one within a long one */
    expect_cover(20, 30, 1, 2, 1);
    expect_cover(20, 30, 50, 60, 10);
    expect_cover(20, 30, 25, 25, 0);
    expect_cover(20, 30, 40, 35, 0);
}

Test(cover, streams_that_are_collected_one_after_the_other_lose_nothing)
{
    enum { N = 1000, STREAMS = 4, BATCH = 10 };
    struct hr__cover cover = {0};
    uint64_t sum = 0;
    for (uint64_t first = 0; first < N; first += STREAMS * BATCH)
        for (uint64_t stream = 0; stream < STREAMS; stream++)
            for (uint64_t i = first + stream; i < first + STREAMS * BATCH && i < N; i += STREAMS)
                sum += hr__cover_add(&cover, 10 * i, 10 * i + 9);
    cr_assert_eq(sum, 9 * N, "%zu", (size_t)sum);
    cr_assert_leq(cover.n, HR__COVER_PIECES);
}

Test(cover, what_is_too_old_counts_as_covered)
{
    struct hr__cover cover = {0};
    for (uint64_t i = 1; i <= HR__COVER_PIECES + 1; i++)
        cr_assert_eq(hr__cover_add(&cover, 10 * i, 10 * i + 5), 5);
    cr_assert_eq(hr__cover_add(&cover, 16, 19), 0, "the gap behind the oldest");
    cr_assert_eq(hr__cover_add(&cover, 36, 39), 3, "that behind it is not given up yet");
}

/* ---- Who looks when ------------------------------------------------------------------------ */

Test(looks, what_got_done_while_nobody_looked_was_done_before)
{
    const uint64_t ms = 1000000;
    hr_loop loop = {0};
    cr_assert_eq(hr__loop_done_ns(&loop, 7 * ms), 7 * ms, "the first step");
    loop.left_ns = 10 * ms;
    cr_assert_eq(hr__loop_done_ns(&loop, 10 * ms + 1000), 10 * ms + 1000, "steps in a row");
    cr_assert_eq(hr__loop_done_ns(&loop, 500 * ms), 10 * ms, "the user was away");
    cr_assert_eq(hr__loop_seen_ns(&loop, 500 * ms), 10 * ms, "statistics meanwhile");
    loop.armed = true;
    cr_assert_eq(hr__loop_done_ns(&loop, 500 * ms), 500 * ms, "he slept on the loop's descriptor");
    cr_assert_eq(hr__loop_seen_ns(&loop, 500 * ms), 500 * ms);
}

/* ---- The summary --------------------------------------------------------------------------- */

static struct hr__meter_notes notes[HR_STAGE_COUNT]; /* each test is a process of its own */

static void expect_summary(const struct hr_stage_stats *stages, uint64_t wall_ns, double overlap,
                           double gain, uint32_t bottleneck)
{
    const struct hr__summary found = hr__meters_summary(stages, notes, wall_ns);
    cr_assert_float_eq(found.overlap, overlap, 1e-12, "overlap %.17g", found.overlap);
    cr_assert_float_eq(found.gain, gain, 1e-12, "gain %.17g", found.gain);
    cr_assert_eq(found.bottleneck, bottleneck, "bottleneck %u", found.bottleneck);
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

/* ---- Counter-examples ---------------------------------------------------------------------- */

/* A pipeline of n chunks, each operation booked as the scheduler does it, on a clock of its own. */
static struct hr_stage_stats book(const struct hr__meter *meter, uint64_t now_ns, int stage)
{
    struct hr_stage_stats s;
    hr__meter_read(meter, now_ns, &s, &notes[stage]);
    return s;
}

Test(counter_examples, one_of_16_workers_busy)
{
    struct hr__meter decode = {.capacity = 16, .resource = 2};
    struct hr__meter read = {.capacity = 1, .resource = 1, .is_io = true};
    for (uint64_t at = 0; at < 1000; at += 100) {
        hr__meter_begin(&read, at);
        hr__meter_end(&read, at + 30);
        hr__meter_begin(&decode, at);
        hr__meter_serve(&decode, 100);
        hr__meter_end(&decode, at + 100);
    }
    const struct hr_stage_stats stages[HR_STAGE_COUNT] = {
        [HR_STAGE_READ] = book(&read, 1000, HR_STAGE_READ),
        [HR_STAGE_DECODE] = book(&decode, 1000, HR_STAGE_DECODE),
    };
    /* reading is used more, but it is the one worker that all wait for */
    expect_summary(stages, 1000, 0.3, 0.3 + 1.0 / 16, HR_STAGE_DECODE);
    const struct hr_stage_stats alone[HR_STAGE_COUNT] = {[HR_STAGE_DECODE] =
                                                             stages[HR_STAGE_DECODE]};
    expect_summary(alone, 1000, 1.0 / 16, 1.0 / 16, HR_STAGE_DECODE);
}

Test(counter_examples, a_silent_socket)
{
    struct hr__meter read = {.capacity = 1, .resource = 1, .is_io = true};
    hr__meter_idle(&read, 0, HR__IDLE_SILENT);
    struct hr_stage_stats stages[HR_STAGE_COUNT] = {[HR_STAGE_READ] =
                                                        book(&read, 1000, HR_STAGE_READ)};
    expect_summary(stages, 1000, 0, 0, HR_STAGE_READ);
    stages[HR_STAGE_KERNEL] =
        (struct hr_stage_stats){.service_ns = 400, .capacity = 1, .resource = 4};
    expect_summary(stages, 1000, 0.4, 0.4, HR_STAGE_READ);
}

/* Each has half of the core: 10 of CPU time in 20, one after the other in turns. */
Test(counter_examples, two_cpu_bound_stages_on_one_core)
{
    struct hr__meter kernel = {.capacity = 1, .resource = 4};
    struct hr__meter encode = {.capacity = 1, .resource = 2};
    for (uint64_t at = 0; at < 1000; at += 20) {
        hr__meter_begin(&kernel, at);
        hr__meter_begin(&encode, at);
        hr__meter_serve(&kernel, 10);
        hr__meter_serve(&encode, 10);
        hr__meter_end(&kernel, at + 20);
        hr__meter_end(&encode, at + 20);
    }
    const struct hr_stage_stats stages[HR_STAGE_COUNT] = {
        [HR_STAGE_KERNEL] = book(&kernel, 1000, HR_STAGE_KERNEL),
        [HR_STAGE_ENCODE] = book(&encode, 1000, HR_STAGE_ENCODE),
    };
    expect_summary(stages, 1000, 0.5, 1, HR_STAGE_KERNEL);
}

/* Forty copies are enqueued at once; the engine does one after the other. */
Test(counter_examples, copies_that_are_queued)
{
    enum { N = 40 };
    struct hr__meter copies = {.capacity = 1, .resource = 3};
    for (unsigned i = 0; i < N; i++)
        hr__meter_begin(&copies, 0);
    for (uint64_t i = 1; i <= N; i++) {
        hr__meter_serve(&copies, 7);
        hr__meter_end(&copies, 10 * i);
    }
    const struct hr_stage_stats stages[HR_STAGE_COUNT] = {[HR_STAGE_H2D] =
                                                              book(&copies, 10 * N, HR_STAGE_H2D)};
    expect_summary(stages, 10 * N, 0.7, 0.7, HR_STAGE_H2D);
}
