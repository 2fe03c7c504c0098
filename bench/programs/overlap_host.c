// SPDX-License-Identifier: Apache-2.0
/* Lines of a source, a kernel and a sink that sleep or burn CPU time, each one call at a time.
 * What sleeps has its length on a busy machine, too. */
#include <stdio.h>

#include "overlap_cases.h"
#include "overlap_checks.h"
#include "overlap_line.h"

enum { N_CHUNKS = 12, CHUNK = 1 << 16, DEPTH = 6, N_THREADS = 4 };

struct shape {
    const char *name;
    unsigned read_us;
    unsigned kernel_us;
    unsigned write_us;
    enum hr_stage longest; /* HR_STAGE_NONE: several are */
};

/* Long, so that handing a chunk over is little beside them: it wakes two threads, which takes
 * 0.3 ms on a virtual machine whose CPUs sleep. */
static const struct shape shapes[] = {
    {"bound by read", 24000, 4500, 6000, HR_STAGE_READ},
    {"bound by kernels", 6000, 24000, 4500, HR_STAGE_KERNEL},
    {"bound by write", 6000, 4500, 24000, HR_STAGE_WRITE},
    {"read and write equal", 21000, 2100, 21000, HR_STAGE_NONE},
    {"read and kernel equal", 21000, 21000, 2100, HR_STAGE_NONE},
    {"all equal", 21000, 21000, 21000, HR_STAGE_NONE},
};

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
    struct outcome shallow = run_calm(line);
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
    check_model(&outcome, N_CHUNKS);
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
