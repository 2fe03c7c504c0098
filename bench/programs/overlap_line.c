// SPDX-License-Identifier: Apache-2.0
#include "overlap_line.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "overlap_cases.h"
#include "overlap_checks.h"

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec at;
    clock_gettime(clock, &at);
    return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

uint64_t now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

static uint64_t others_cpu_ns(void)
{
    return clock_ns(CLOCK_PROCESS_CPUTIME_ID) - clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* ---- loads ---- */

static uint64_t sleep_for(uint64_t ns)
{
    const uint64_t begun = now_ns();
    const uint64_t until = begun + ns;
    const struct timespec at = {.tv_sec = (time_t)(until / 1000000000u),
                                .tv_nsec = (long)(until % 1000000000u)};
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0); /* of this thread; else a sleep is 50 us longer */
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        ;
    return now_ns() - begun;
}

static uint64_t burn(uint64_t ns)
{
    const uint64_t begun = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    uint64_t spent = 0;
    while (spent < ns)
        spent = clock_ns(CLOCK_THREAD_CPUTIME_ID) - begun;
    return spent;
}

void work(struct load *load)
{
    const uint64_t begun = now_ns();
    if (load->ns)
        load->spent_ns += load->burns ? burn(load->ns) : sleep_for(load->ns);
    load->wall_ns += now_ns() - begun;
}

/* ---- ends and kernels ---- */

static int64_t read_late(void *user, void *buffer, size_t size, uint64_t offset)
{
    struct line *line = user;
    (void)buffer; /* whatever is in it */
    if (offset >= line->n_chunks * line->chunk_bytes)
        return 0;
    work(&line->read);
    return (int64_t)size;
}

static int64_t write_late(void *user, const void *buffer, size_t size, uint64_t offset)
{
    struct line *line = user;
    (void)buffer;
    (void)offset;
    work(&line->write);
    return (int64_t)size;
}

static int32_t run_late(void *user, const struct hr_kernel_call *call)
{
    (void)call;
    work(user);
    return 0;
}

/* ---- runs ---- */

static hr_loop *open_loop(unsigned n_threads)
{
    const struct hr_context_config config = {.struct_size = sizeof config, .n_threads = n_threads};
    hr_context *context = NULL;
    hr_loop *loop = NULL;
    hr_error error;
    if (hr_context_create(&config, &context, &error) != HR_OK ||
        hr_loop_create(context, NULL, &loop, &error) != HR_OK)
        stop("a loop", error.text);
    hr_context_free(context); /* the loop keeps it */
    return loop;
}

static hr_status run(hr_pipeline *pipeline, struct outcome *outcome, hr_error *error)
{
    const uint64_t cpu_ns = others_cpu_ns();
    const uint64_t begun = now_ns();
    const hr_status status = hr_pipeline_run(pipeline, error);
    outcome->wall_ns = now_ns() - begun;
    outcome->workers_cpu_ns = others_cpu_ns() - cpu_ns;
    outcome->stats.struct_size = sizeof outcome->stats;
    if (hr_pipeline_stats(pipeline, &outcome->stats) != HR_OK)
        stop("statistics", "HR_EINVAL");
    return status;
}

hr_status run_on(hr_loop *loop, const char *name, const struct hr_pipeline_config *config,
                 struct outcome *outcome, hr_error *error)
{
    hr_pipeline *pipeline = NULL;
    *outcome = (struct outcome){0};
    hr_status status = hr_pipeline_create(loop, config, &pipeline, error);
    if (status != HR_OK)
        return status;
    status = run(pipeline, outcome, error);
    hr_pipeline_free(pipeline);
    if (status == HR_OK)
        keep_run(name, &outcome->stats, outcome->wall_ns);
    return status;
}

void run_config(const char *name, unsigned n_threads, const struct hr_pipeline_config *config,
                struct outcome *outcome)
{
    hr_error error;
    hr_loop *loop = open_loop(n_threads);
    if (run_on(loop, name, config, outcome, &error) != HR_OK)
        stop(name, error.text);
    hr_loop_free(loop);
}

static void reset(struct load *load)
{
    load->spent_ns = load->wall_ns = 0;
}

/* Of a virtual machine that is quiet, sleeps end up to 0.1 ms late. */
static bool is_disturbed(const struct load *load, uint64_t n_chunks)
{
    const double late_ns = load->burns ? 1e4 : 1e5;
    return (double)load->wall_ns > (double)n_chunks * (1.01 * (double)load->ns + late_ns);
}

static void reset_loads(struct line *line)
{
    reset(&line->read);
    reset(&line->kernel);
    reset(&line->write);
}

static void take_loads(const struct line *line, struct outcome *outcome)
{
    double *service_ns = outcome->truth.service_ns;
    service_ns[HR_STAGE_READ] = (double)line->read.spent_ns;
    service_ns[HR_STAGE_KERNEL] = (double)line->kernel.spent_ns;
    service_ns[HR_STAGE_WRITE] = (double)line->write.spent_ns;
    outcome->is_disturbed = is_disturbed(&line->read, line->n_chunks) ||
                            is_disturbed(&line->kernel, line->n_chunks) ||
                            is_disturbed(&line->write, line->n_chunks);
}

struct outcome run_line(struct line *line)
{
    struct hr_source source = {
        .struct_size = sizeof source, .kind = HR_CALLBACK, .read = read_late, .user = line};
    const struct hr_kernel kernel = {.struct_size = sizeof kernel,
                                     .kind = HR_KERNEL_FUNCTION,
                                     .unit_in = 1,
                                     .unit_out = 1,
                                     .function = run_late,
                                     .user = &line->kernel};
    const struct hr_pipeline_config config = {
        .struct_size = sizeof config,
        .n_sources = 1,
        .sources = &source,
        .sink = {.struct_size = sizeof config.sink,
                 .kind = HR_CALLBACK,
                 .write = write_late,
                 .user = line},
        .chunk_size = line->chunk_bytes,
        .depth = line->depth,
        .kernels = &kernel,
        .n_kernels = 1,
        .n_streams = 1,
        .device = "host",
    };
    struct outcome outcome;
    reset_loads(line);
    run_config(line->name, line->n_threads, &config, &outcome);
    take_loads(line, &outcome);
    return outcome;
}

static int by_wall(const void *left, const void *right)
{
    const uint64_t a = ((const struct outcome *)left)->wall_ns;
    const uint64_t b = ((const struct outcome *)right)->wall_ns;
    return (a > b) - (a < b);
}

struct outcome median_by_wall(struct outcome *outcomes, unsigned n)
{
    qsort(outcomes, n, sizeof *outcomes, by_wall);
    return outcomes[n / 2];
}

struct outcome run_rounds(struct line *line)
{
    struct outcome outcomes[N_ROUNDS];
    for (unsigned i = 0; i < N_ROUNDS; i++)
        outcomes[i] = run_line(line);
    return median_by_wall(outcomes, N_ROUNDS);
}

struct outcome run_calm(struct line *line)
{
    struct outcome outcome = run_line(line);
    for (unsigned i = 1; i < N_ROUNDS && outcome.is_disturbed; i++)
        outcome = run_line(line);
    return outcome;
}

/* ---- what follows from known lengths ---- */

/* A figure that needs the truth to be known. */
static void check_known(const struct outcome *outcome, const char *figure, double wanted,
                        double got, double margin)
{
    doubt(outcome->doubt[0] ? outcome->doubt : NULL);
    check(figure, wanted, got, WITHIN, margin);
    doubt(NULL);
}

/* How long the stage's resource was at work, by what is known. */
static double resource_ns(const struct hr_stats *stats, const struct truth *truth, unsigned stage)
{
    double service_ns = 0;
    for (unsigned i = HR_STAGE_READ; i < HR_STAGE_COUNT; i++)
        if (stats->stages[i].resource == stats->stages[stage].resource)
            service_ns += truth->service_ns[i];
    return stats->stages[stage].capacity ? service_ns / stats->stages[stage].capacity : 0;
}

static bool is_first(const struct hr_stats *stats, unsigned stage)
{
    for (unsigned i = HR_STAGE_READ; i < stage; i++)
        if (stats->stages[i].resource == stats->stages[stage].resource)
            return false;
    return true;
}

static void check_utilisation(const struct outcome *outcome, unsigned stage, double margin)
{
    const struct truth *truth = &outcome->truth;
    const struct hr_stage_stats *s = &outcome->stats.stages[stage];
    const double told_wall = (double)outcome->stats.wall_ns;
    char figure[64];
    if (truth->service_ns[stage] <= 0)
        return;
    if (truth->margins[stage] > 0)
        margin = truth->margins[stage];
    const double wanted = truth->service_ns[stage] / s->capacity / (double)outcome->wall_ns;
    /* a thread may lose its CPU between the two clocks of one call: of a short one, for longer */
    if (outcome->is_disturbed && margin * wanted < 0.05)
        margin = 0.05 / wanted;
    snprintf(figure, sizeof figure, "utilisation of %s", hr_stage_name((enum hr_stage)stage));
    check_known(outcome, figure, wanted, (double)s->service_ns / s->capacity / told_wall, margin);
}

void check_undisturbed(const struct outcome *outcome, const char *figure, double wanted, double got,
                       double margin)
{
    if (outcome->is_disturbed)
        doubt("threads did not run when they could");
    else if (outcome->doubt[0])
        doubt(outcome->doubt);
    check(figure, wanted, got, WITHIN, margin);
    doubt(NULL);
}

void check_truth(const struct outcome *outcome, double margin)
{
    margin *= outcome->is_disturbed ? 5 : 1;
    const struct truth *truth = &outcome->truth;
    const struct hr_stats *s = &outcome->stats;
    const double wall = (double)outcome->wall_ns;
    double serial = 0;
    double longest = 0;
    for (unsigned i = HR_STAGE_READ; i < HR_STAGE_COUNT; i++) {
        check_utilisation(outcome, i, margin);
        const double used = is_first(s, i) ? resource_ns(s, truth, i) : 0;
        serial += used;
        longest = used > longest ? used : longest;
    }
    check("wall_s", wall / 1e9, (double)s->wall_ns / 1e9, WITHIN, margin);
    check_known(outcome, "overlap efficiency", longest / wall, s->overlap, margin);
    check_known(outcome, "serial_s", serial / 1e9, s->gain * (double)s->wall_ns / 1e9, margin);
    check_known(outcome, "gain", serial / wall, s->gain, margin);
}

void check_model(const struct outcome *outcome, uint64_t n_chunks)
{
    const struct hr_stats *s = &outcome->stats;
    const double n = (double)n_chunks;
    double serial = 0;
    double longest = 0;
    for (unsigned i = HR_STAGE_READ; i < HR_STAGE_COUNT; i++) {
        serial += outcome->truth.service_ns[i];
        if (outcome->truth.service_ns[i] > longest)
            longest = outcome->truth.service_ns[i];
    }
    const double wall = (serial + (n - 1) * longest) / n;
    check_undisturbed(outcome, "wall_s by the model", wall / 1e9, (double)s->wall_ns / 1e9,
                      TRUTH_MARGIN);
    check_undisturbed(outcome, "overlap efficiency by the model", longest / wall, s->overlap,
                      TRUTH_MARGIN);
    check_undisturbed(outcome, "gain by the model", serial / wall, s->gain, TRUTH_MARGIN);
}
