// SPDX-License-Identifier: Apache-2.0
/* For n = 1, 2, ... until nothing fails any more: the nth call of the driver fails, of all from the
 * device's opening to the context's end. The pipeline is made and runs, or ends with an error that
 * tells stage and cause; what was delivered is right; nothing is left. Then a second one on the same
 * context: it works, unless the device is dead, which it says at once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_cuda.h"
#include "gpu_runs.h"
#include "transfers.h"

enum { CHUNK = 4096, MAX_N = 5000, OUT_OF_MEMORY = 2, ILLEGAL_ADDRESS = 700, UNKNOWN = 999 };

/* Under a sanitizer each call fails with one status of the three, else with each. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { STRIDE = 3 };
#else
enum { STRIDE = 1 };
#endif

#define SHAPE .chunk_size = CHUNK, .depth = 2, .n_streams = 2

static const struct gpu_shape shapes[] = {
    {.name = "file to kernels to memory",
     .from = GPU_FILE,
     .to = GPU_PLAIN,
     .kernels = {"scale:u8,3,1", "bswap:4"},
     .size = 3 * CHUNK + 100,
     SHAPE},
    {.name = "memory to counted kernels to a file",
     .from = GPU_PLAIN,
     .to = GPU_FILE,
     .kernels = {"cast:u8,f32", "filter:f32,lt,128", "shuffle:4,12", "scale:f32,2,1"},
     .size = 3 * CHUNK + 101,
     SHAPE},
    {.name = "memory to reductions",
     .from = GPU_PLAIN,
     .to = GPU_NULL,
     .kernels = {"sum:u8", "crc32", "histogram"},
     .size = 3 * CHUNK + 1,
     SHAPE},
    {.name = "pinned memory, both ends",
     .from = GPU_PINNED,
     .to = GPU_PINNED,
     .kernels = {"min:u8", "scale:u8,1,7"},
     .size = 3 * CHUNK + 1,
     SHAPE},
    {.name = "device to kernels to device",
     .from = GPU_DEVICE,
     .to = GPU_DEVICE,
     .kernels = {"scale:u8,3,1"},
     .size = 3 * CHUNK + 16,
     SHAPE},
    {.name = "pipe to growing device memory",
     .from = GPU_PIPE,
     .to = GPU_GROWING,
     .size = 7 * CHUNK + 9,
     SHAPE},
    {.name = "file to kernels, lent on the device",
     .from = GPU_FILE,
     .to = GPU_LENT,
     .kernels = {"scale:u8,3,1"},
     .size = 3 * CHUNK + 5,
     SHAPE},
};

enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

static struct gpu_expected expected[N_SHAPES];

/* What fails in a look at an event may be the failure of work, so it is the device's end: one for
 * this context. */
static bool ends_device(const char *call)
{
    return strcmp(call, "cuEventQuery") == 0 || strcmp(call, "cuEventSynchronize") == 0 ||
           strcmp(call, "cuCtxPushCurrent") == 0;
}

static const char *judge_second(const struct gpu_run *run, const char *call, bool dead)
{
    if (run->status == HR_OK && dead)
        return "a second one works on a dead device";
    if (run->status == HR_OK || dead || ends_device(call))
        return NULL;
    return "a second one does not work";
}

/* On a context on which a call has failed. */
static const char *run_again(unsigned shape, hr_context *context, hr_loop *loop, hr_error *error)
{
    struct gpu_run run;
    const bool dead = fake_cuda_is_dead();
    const char *call = fake_cuda_failed_call();
    gpu_run_create(&run, &shapes[shape], &expected[shape], context, loop);
    gpu_run_finish(&run);
    const char *wrong = gpu_run_judge(&run);
    if (!wrong && call)
        wrong = judge_second(&run, call, dead);
    gpu_run_free(&run);
    *error = run.error;
    return wrong;
}

struct trial {
    const unsigned *shapes; /* of the pipelines that run at once */
    unsigned n;
    int status;
    unsigned first; /* call that fails */
};

/* NULL, or what is wrong. *call: which one failed, NULL if there were fewer. */
static const char *fail_nth(const struct trial *trial, unsigned nth, const char **call,
                            hr_error *error)
{
    struct gpu_run runs[2];
    hr_context *context;
    hr_loop *loop;
    const char *wrong = NULL;
    gpu_begin(&context, &loop);
    fake_cuda_fail(nth, trial->status);
    for (unsigned i = 0; i < trial->n; i++)
        gpu_run_create(&runs[i], &shapes[trial->shapes[i]], &expected[trial->shapes[i]], context,
                       loop);
    for (unsigned i = 0; i < trial->n; i++) {
        gpu_run_finish(&runs[i]);
        *error = wrong ? *error : runs[i].error;
        wrong = wrong ? wrong : gpu_run_judge(&runs[i]);
    }
    for (unsigned i = 0; i < trial->n; i++)
        gpu_run_free(&runs[i]);
    if (!wrong && fake_cuda_failed_call())
        wrong = run_again(trial->shapes[0], context, loop, error);
    hr_loop_free(loop);
    hr_context_free(context);
    *call = fake_cuda_failed_call();
    fake_cuda_fail(0, 0);
    return wrong ? wrong : *gpu_left() ? gpu_left() : NULL;
}

static void fail_each(const struct trial *trial)
{
    char name[300];
    const char *wrong = NULL;
    const char *call = "";
    hr_error error = {0};
    unsigned n = trial->first;
    for (; call && !wrong && n < MAX_N; n += STRIDE) {
        snprintf(name, sizeof name, "%s%s, call %u%s%s returns %d", shapes[trial->shapes[0]].name,
                 trial->n > 1 ? ", and another" : "", n, *call ? " after " : "", call,
                 trial->status);
        limit_time(20, name);
        error = (hr_error){0};
        wrong = fail_nth(trial, n, &call, &error);
    }
    if (!wrong && (call || n < 100))
        wrong = "the faults do not reach the library, or never end";
    if (!wrong && has_leaked())
        wrong = "memory was lost";
    check_that(!wrong, name, "%s; %s failed; %s: %s", wrong, call ? call : "nothing",
               hr_status_name(error.code), error.text);
}

int main(int n_args, char **args)
{
    static const int statuses[] = {OUT_OF_MEMORY, ILLEGAL_ADDRESS, UNKNOWN};
    static const unsigned both[] = {1, 3};
    const unsigned only = n_args > 1 ? (unsigned)strtoul(args[1], NULL, 10) : N_SHAPES;
    fake_cuda_set_delay(0);
    for (unsigned i = 0; i < N_SHAPES; i++)
        gpu_expect(&expected[i], &shapes[i]);
    for (unsigned s = 0; s < 3; s++) {
        for (unsigned i = 0; i < N_SHAPES; i++) {
            const struct trial trial = {
                .shapes = &i, .n = 1, .status = statuses[s], .first = 1 + s % STRIDE};
            if (only == N_SHAPES || only == i)
                fail_each(&trial);
        }
        const struct trial pair = {
            .shapes = both, .n = 2, .status = statuses[s], .first = 1 + s % STRIDE};
        if (only == N_SHAPES)
            fail_each(&pair);
    }
    for (unsigned i = 0; i < N_SHAPES; i++)
        gpu_forget(&expected[i]);
    return end_checks();
}
