// SPDX-License-Identifier: Apache-2.0
/* The device, or the driver, has no memory to give: too little on the device, no pins, a fork. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake_cuda.h"
#include "gpu_runs.h"
#include "quiet_fork.h"
#include "transfers.h"

enum { MIB = 1 << 20, ALL = 1 << 30 };

static const struct gpu_shape small = {.name = "small",
                                       .from = GPU_PLAIN,
                                       .to = GPU_PLAIN,
                                       .kernels = {"scale:u8,3,1"},
                                       .size = 3 * MIB / 2,
                                       .chunk_size = MIB / 4,
                                       .depth = 2};
/* With other sizes, so that what is kept of the small one does not fit. */
static const struct gpu_shape large = {.name = "large",
                                       .from = GPU_PLAIN,
                                       .to = GPU_PLAIN,
                                       .kernels = {"scale:u8,3,1"},
                                       .size = 3 * MIB / 2,
                                       .chunk_size = MIB / 2,
                                       .depth = 2};
static const struct gpu_shape lent = {.name = "lent",
                                      .from = GPU_FILE,
                                      .to = GPU_LENT,
                                      .size = MIB,
                                      .chunk_size = MIB / 8,
                                      .depth = 3};
/* Memory of 60 KiB at the end, behind 8 chunks. */
static const struct gpu_shape growing = {.name = "growing",
                                         .from = GPU_PIPE,
                                         .to = GPU_GROWING,
                                         .size = 60 << 10,
                                         .chunk_size = 4 << 10,
                                         .depth = 2};

static struct gpu_expected of_small;
static struct gpu_expected of_large;
static struct gpu_expected of_lent;
static struct gpu_expected of_growing;

struct rig {
    hr_context *context;
    hr_loop *loop;
};

static void end(struct rig *rig, const char *name, const char *wrong, const hr_error *error)
{
    fake_cuda_set_memory(ALL);
    hr_loop_free(rig->loop);
    hr_context_free(rig->context);
    if (!wrong && *gpu_left())
        wrong = gpu_left();
    check_that(!wrong, name, "%s: %s: %s", wrong, hr_status_name(error->code), error->text);
}

/* Runs all of it; NULL, or what is wrong. */
static const char *run_whole(struct rig *rig, const struct gpu_shape *shape,
                             const struct gpu_expected *expected, hr_error *error)
{
    struct gpu_run run;
    gpu_run_create(&run, shape, expected, rig->context, rig->loop);
    gpu_run_finish(&run);
    const char *wrong = run.status != HR_OK ? "it fails" : gpu_run_judge(&run);
    *error = run.error;
    gpu_run_free(&run);
    return wrong;
}

static void too_little_at_creation(void)
{
    struct rig rig;
    struct gpu_run run;
    char bytes[32];
    snprintf(bytes, sizeof bytes, "%d bytes", 2 * (2 * MIB / 2 + 256));
    limit_time(10, "too little at creation");
    gpu_begin(&rig.context, &rig.loop);
    fake_cuda_set_memory(MIB);
    gpu_run_create(&run, &large, &of_large, rig.context, rig.loop);
    const bool told = run.status == HR_ENOMEM && strstr(run.error.text, bytes) &&
                      strstr(run.error.text, "chunk_size") && strstr(run.error.text, "depth");
    gpu_run_free(&run);
    end(&rig, "too little memory at creation", told ? NULL : "not told", &run.error);
}

static void kept_memory_makes_room(const struct gpu_shape *shape,
                                   const struct gpu_expected *expected, size_t more)
{
    struct rig rig;
    hr_error error = {0};
    char name[100];
    snprintf(name, sizeof name, "memory kept of one pipeline makes room for %s", shape->name);
    limit_time(10, name);
    gpu_begin(&rig.context, &rig.loop);
    const char *wrong = run_whole(&rig, &small, &of_small, &error);
    fake_cuda_set_memory(fake_cuda_used() + more);
    if (!wrong)
        wrong = run_whole(&rig, shape, expected, &error);
    end(&rig, name, wrong, &error);
}

static void kept_memory_makes_room_for_users(void)
{
    struct rig rig;
    hr_error error = {0};
    void *memory = NULL;
    gpu_begin(&rig.context, &rig.loop);
    const char *wrong = run_whole(&rig, &small, &of_small, &error);
    fake_cuda_set_memory(fake_cuda_used() + MIB / 2);
    if (!wrong && hr_device_alloc(rig.context, gpu_name(), MIB, &memory, &error) != HR_OK)
        wrong = "no memory";
    hr_device_free(rig.context, gpu_name(), memory);
    end(&rig, "memory kept makes room for the user's", wrong, &error);
}

/* ---- pins ---- */

static unsigned n_pin_lines;

static void note_line(void *user, const char *line)
{
    (void)user;
    n_pin_lines += strstr(line, "pin") != NULL;
}

static void begin_logged(struct rig *rig)
{
    const struct hr_context_config config = {
        .struct_size = sizeof config, .n_threads = 1, .log = note_line};
    n_pin_lines = 0;
    if (hr_context_create(&config, &rig->context, NULL) != HR_OK ||
        hr_loop_create(rig->context, NULL, &rig->loop, NULL) != HR_OK)
        exit(1);
}

static void refused_pins(const struct gpu_shape *shape, const struct gpu_expected *expected)
{
    struct rig rig;
    struct gpu_run run;
    char name[100];
    snprintf(name, sizeof name, "pins refused, %s", shape->name);
    limit_time(10, name);
    begin_logged(&rig);
    fake_cuda_refuse_pins(true);
    gpu_run_create(&run, shape, expected, rig.context, rig.loop);
    gpu_run_finish(&run);
    const char *wrong = run.status != HR_OK ? "it fails" : gpu_run_judge(&run);
    if (!wrong &&
        (run.stats.unpinned_bytes == 0 || run.stats.unpinned_bytes > run.stats.leased_bytes))
        wrong = "unpinned_bytes are not told";
    if (!wrong && n_pin_lines != 1)
        wrong = "not one line in the log";
    gpu_run_free(&run);
    fake_cuda_refuse_pins(false);
    end(&rig, name, wrong, &run.error);
}

static void refused_pins_are_an_error_if_strict(void)
{
    struct rig rig;
    struct gpu_run run;
    struct gpu_shape strict = small;
    strict.flags = HR_STRICT;
    gpu_begin(&rig.context, &rig.loop);
    fake_cuda_refuse_pins(true);
    gpu_run_create(&run, &strict, &of_small, rig.context, rig.loop);
    const bool told = run.status == HR_EUNSUPPORTED && strstr(run.error.text, "ulimit -l");
    gpu_run_free(&run);
    fake_cuda_refuse_pins(false);
    end(&rig, "pins refused, HR_STRICT", told ? NULL : "not told", &run.error);
}

/* ---- fork ---- */

/* In the child. How many things are wrong. */
static int use_in_child(struct rig *rig, struct gpu_run *run)
{
    hr_error error = {0};
    hr_pipeline *pipeline = NULL;
    hr_loop *loop = NULL;
    void *memory = NULL;
    int n_wrong = 0;
    alarm(10);
    n_wrong += hr_pipeline_create(rig->loop, &run->config, &pipeline, &error) != HR_EFORK;
    n_wrong += !strstr(error.text, "spawn");
    n_wrong += hr_loop_create(rig->context, NULL, &loop, &error) != HR_EFORK;
    n_wrong += hr_device_alloc(rig->context, gpu_name(), 1, &memory, &error) != HR_EFORK;
    n_wrong += hr_loop_poll(rig->loop, 0, &error) != HR_EFORK;
    hr_device_free(rig->context, gpu_name(), run->device_in);
    hr_unpin(rig->context, gpu_name(), run->host_in);
    hr_pipeline_free(run->pipeline);
    hr_loop_free(rig->loop);
    hr_context_free(rig->context);
    return n_wrong;
}

/* After so many steps of a pipeline; UINT32_MAX: behind its end. */
static void fork_after(unsigned n_steps)
{
    struct rig rig;
    struct gpu_run run;
    char name[100];
    int state = -1;
    snprintf(name, sizeof name, "forked %s",
             n_steps == UINT32_MAX ? "behind the end" : "while a pipeline runs");
    limit_time(20, name);
    gpu_begin(&rig.context, &rig.loop);
    gpu_run_create(&run, &small, &of_small, rig.context, rig.loop);
    for (unsigned i = 0; i < n_steps && gpu_run_step(&run) == HR_PENDING; i++)
        ;
    fflush(stdout);
    const pid_t child = fork_when_quiet();
    if (child == 0)
        _exit(use_in_child(&rig, &run));
    waitpid(child, &state, 0);
    if (n_steps != UINT32_MAX)
        gpu_run_finish(&run);
    const char *wrong = run.status != HR_OK ? "it fails" : gpu_run_judge(&run);
    if (state != 0)
        wrong = WIFEXITED(state) ? "something is wrong in the child" : "the child hangs or dies";
    gpu_run_free(&run);
    end(&rig, name, wrong, &run.error);
}

int main(int n_args, char **args)
{
    gpu_use(n_args, args);
    gpu_expect(&of_small, &small);
    gpu_expect(&of_large, &large);
    gpu_expect(&of_lent, &lent);
    gpu_expect(&of_growing, &growing);
    too_little_at_creation();
    kept_memory_makes_room(&large, &of_large, 5 * MIB / 4);
    kept_memory_makes_room(&lent, &of_lent, 0);
    kept_memory_makes_room(&growing, &of_growing, 70 << 10);
    kept_memory_makes_room_for_users();
    refused_pins(&small, &of_small);
    refused_pins(&lent, &of_lent);
    refused_pins_are_an_error_if_strict();
    fork_after(3);
    fork_after(UINT32_MAX);
    gpu_forget(&of_small);
    gpu_forget(&of_large);
    gpu_forget(&of_lent);
    gpu_forget(&of_growing);
    check_that(!has_leaked(), "no memory is lost", "it is");
    return end_checks();
}
