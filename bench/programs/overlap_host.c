// SPDX-License-Identifier: Apache-2.0
/* Lines of a source, a kernel and a sink that sleep or burn CPU time, each one call at a time.
 * What sleeps has its length on a busy machine, too. */
#include <stdio.h>

#include "overlap_cases.h"
#include "overlap_checks.h"
#include "overlap_line.h"

enum { N_CHUNKS = 30, CHUNK = 1 << 16, DEPTH = 6, N_THREADS = 4 };

struct shape {
    const char *name;
    unsigned read_us;
    unsigned kernel_us;
    unsigned write_us;
    enum hr_stage longest; /* HR_STAGE_NONE: several are */
};

/* Milliseconds, so that handing a chunk over, which wakes two threads, is little beside them. */
static const struct shape shapes[] = {
    {"bound by read", 8000, 1500, 2000, HR_STAGE_READ},
    {"bound by kernels", 2000, 8000, 1500, HR_STAGE_KERNEL},
    {"bound by write", 2000, 1500, 8000, HR_STAGE_WRITE},
    {"read and write equal", 7000, 700, 7000, HR_STAGE_NONE},
    {"read and kernel equal", 7000, 7000, 700, HR_STAGE_NONE},
    {"all equal", 7000, 7000, 7000, HR_STAGE_NONE},
};

/* Lengths as they were: a sleep is a little longer than asked for. */
static void check_model(const struct outcome *outcome)
{
    const double n = N_CHUNKS;
    const double *total = outcome->truth.service_ns;
    const double lengths[] = {total[HR_STAGE_READ] / n, total[HR_STAGE_KERNEL] / n,
                              total[HR_STAGE_WRITE] / n};
    const double wall = model_wall_ns(lengths, 3, N_CHUNKS);
    double longest = 0;
    double serial = 0;
    for (unsigned i = 0; i < 3; i++) {
        longest = lengths[i] > longest ? lengths[i] : longest;
        serial += lengths[i];
    }
    tell("wall_s by the model", wall / 1e9, (double)outcome->stats.wall_ns / 1e9);
    check_undisturbed(outcome, "overlap efficiency by the model", n * longest / wall,
                      outcome->stats.overlap, TRUTH_MARGIN);
    check_undisturbed(outcome, "gain by the model", n * serial / wall, outcome->stats.gain,
                      TRUTH_MARGIN);
}

static double serial_ns(const struct outcome *outcome)
{
    double sum = 0;
    for (unsigned i = HR_STAGE_READ; i < HR_STAGE_COUNT; i++)
        sum += outcome->truth.service_ns[i];
    return sum;
}

/* Loads of the two runs differ a little: both are told for those of the deep one. */
static void check_gain(struct line *line, const struct outcome *deep)
{
    line->depth = 1;
    struct outcome shallow = run_rounds(line);
    const double wall_ns = (double)shallow.wall_ns * serial_ns(deep) / serial_ns(&shallow);
    shallow.is_disturbed |= deep->is_disturbed;
    check_undisturbed(&shallow, "gain against depth 1", wall_ns / (double)deep->wall_ns,
                      deep->stats.gain, GAIN_MARGIN);
    check_undisturbed(&shallow, "gain told at depth 1", 1, shallow.stats.gain, GAIN_MARGIN);
}

static void run_shape(const struct shape *shape, bool burns)
{
    struct line line = {
        .name = shape->name,
        .read = {.ns = shape->read_us * 1000u},
        .kernel = {.ns = shape->kernel_us * 1000u, .burns = burns},
        .write = {.ns = shape->write_us * 1000u},
        .n_chunks = N_CHUNKS,
        .chunk_bytes = CHUNK,
        .depth = DEPTH,
        .n_threads = N_THREADS,
    };
    const struct outcome outcome = run_rounds(&line);
    check_truth(&outcome, TRUTH_MARGIN);
    check_model(&outcome);
    if (shape->longest)
        check_stage("bottleneck", shape->longest, (enum hr_stage)outcome.stats.bottleneck);
    check_gain(&line, &outcome);
}

void host_lines(void)
{
    static char names[2][sizeof shapes / sizeof shapes[0]][64];
    for (unsigned burns = 0; burns < 2; burns++)
        for (unsigned i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            snprintf(names[burns][i], sizeof names[0][0], "%s, %s", shapes[i].name,
                     burns ? "kernel burns" : "all sleep");
            case_begin(names[burns][i]);
            run_shape(&shapes[i], burns);
        }
}
