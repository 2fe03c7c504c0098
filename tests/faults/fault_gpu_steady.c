// SPDX-License-Identifier: Apache-2.0
/* Steady state on a device: from the 200th chunk on nothing is allocated, and no call of the driver
 * makes, frees, registers or unregisters anything, until the last step that leaves work. A step in
 * which one more of the depth chunks was leased does not count. What is under way is asked after once
 * in a step, where each question costs a call of the driver. Until it is reached, no step pins more
 * than a slot of each kind: what was begun before goes on meanwhile. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "fake_cuda.h"
#include "faults.h"
#include "gpu_runs.h"
#include "transfers.h"

enum { CHUNK = 4096, N_CHUNKS = 700, N_WARM = 200, MIN_WATCHED = 300, MAX_RUNS = 3 };

#define SHAPE .size = N_CHUNKS * CHUNK, .chunk_size = CHUNK, .depth = 4, .n_streams = 2

static const struct gpu_shape shapes[] = {
    {.name = "file to file", .from = GPU_FILE, .to = GPU_FILE, .kernels = {"scale:u8,3,1"}, SHAPE},
    {.name = "memory to counted kernels to memory",
     .from = GPU_PLAIN,
     .to = GPU_PLAIN,
     .kernels = {"cast:u8,f32", "filter:f32,lt,128", "shuffle:4,12", "filter:f32,lt,64"},
     SHAPE},
    {.name = "memory to reductions to null",
     .from = GPU_PLAIN,
     .to = GPU_NULL,
     .kernels = {"sum:u8", "crc32", "histogram"},
     SHAPE},
    {.name = "pinned memory to pinned memory",
     .from = GPU_PINNED,
     .to = GPU_PINNED,
     .kernels = {"scale:u8,3,1"},
     SHAPE},
    {.name = "device to device",
     .from = GPU_DEVICE,
     .to = GPU_DEVICE,
     .kernels = {"scale:u8,3,1"},
     SHAPE},
    {.name = "memory, lent on the device",
     .from = GPU_PLAIN,
     .to = GPU_LENT,
     .kernels = {"scale:u8,3,1"},
     SHAPE},
};

/* Under the driver's lock. */
static unsigned n_slow_calls;
static const char *slow_call;
static unsigned n_questions; /* of the loop; the device's thread has its own */
static pthread_t loop_thread;
static unsigned n_pins;

static void see(const char *call)
{
    if (strstr(call, "EventQuery") && pthread_equal(pthread_self(), loop_thread))
        n_questions++;
    n_pins += strstr(call, "HostRegister") != NULL;
    static const char *const slow[] = {
        "cuMemAlloc",          "cuMemFree",         "cuMemHostRegister",
        "cuMemHostUnregister", "cuStreamCreate",    "cuEventCreate",
        "cuStreamDestroy",     "cuEventDestroy",    "cuModuleLoadDataEx",
        "hipMalloc",           "hipFree",           "hipHostRegister",
        "hipHostUnregister",   "hipStreamDestroy",  "hipStreamCreateWithFlags",
        "hipEventDestroy",     "hipModuleLoadData", "hipEventCreateWithFlags"};
    for (size_t i = 0; i < sizeof slow / sizeof slow[0]; i++) {
        if (strcmp(call, slow[i]) == 0) {
            n_slow_calls++;
            slow_call = slow[i];
        }
    }
}

struct watch {
    uint64_t n_allocated;
    uint64_t n_slow;
    uint64_t n_questions;
    uint64_t n_steps;
    unsigned most_pins; /* in a step */
    uint64_t first_chunk;
    uint64_t last_chunk;
    uint64_t leased_bytes;
    const char *slow_call;
};

/* What was done since the last step, and how far it is now. */
static void look(struct watch *watch, const struct gpu_run *run)
{
    const uint64_t n = hr_faults_mark();
    const uint64_t chunk = run->stats.stages[HR_STAGE_WRITE].chunks;
    fake_cuda_watch(NULL); /* the lock is behind: what was counted is seen */
    if (watch->first_chunk > 0 && run->stats.leased_bytes == watch->leased_bytes) {
        watch->n_allocated += n;
        watch->n_slow += n_slow_calls;
        watch->slow_call = n_slow_calls ? slow_call : watch->slow_call;
    }
    if (watch->first_chunk > 0) {
        watch->n_questions += n_questions;
        watch->n_steps++;
    }
    if (watch->most_pins < n_pins)
        watch->most_pins = n_pins;
    n_slow_calls = n_questions = n_pins = 0;
    if (watch->first_chunk == 0 && chunk >= N_WARM)
        watch->first_chunk = chunk;
    watch->last_chunk = chunk;
    watch->leased_bytes = run->stats.leased_bytes;
    fake_cuda_watch(see);
}

/* NULL, or what is wrong. */
static const char *run_watched(const struct gpu_shape *shape, const struct gpu_expected *expected,
                               struct watch *watch)
{
    static struct gpu_run run; /* its error is told */
    hr_context *context;
    hr_loop *loop;
    *watch = (struct watch){0};
    gpu_begin(&context, &loop);
    gpu_run_create(&run, shape, expected, context, loop);
    n_pins = 0;
    fake_cuda_watch(see);
    while (run.status == HR_OK && gpu_run_step(&run) == HR_PENDING)
        look(watch, &run);
    fake_cuda_watch(NULL);
    const char *wrong = run.status == HR_OK ? gpu_run_judge(&run) : run.error.text;
    gpu_run_free(&run);
    hr_loop_free(loop);
    hr_context_free(context);
    return wrong;
}

static bool watched_enough(const struct watch *watch)
{
    return watch->last_chunk - watch->first_chunk >= MIN_WATCHED;
}

/* In a step the oldest of each of four streams that is still under way; for each chunk the end of
 * its three legs; and where one is begun, whether its stream works on what it has: five more, behind
 * each of which, if that is done, the next one is asked after. */
static bool asked_too_often(const struct gpu_shape *shape, const struct watch *watch)
{
    const uint64_t n_chunks = watch->last_chunk - watch->first_chunk;
    return shape->from == GPU_PINNED && shape->to == GPU_PINNED &&
           watch->n_questions > 4 * watch->n_steps + (3 + 5 + 5) * n_chunks;
}

/* Again where the machine was so busy that the steps were few and large. */
static void expect_steady(const struct gpu_shape *shape)
{
    struct gpu_expected expected;
    struct watch watch = {0};
    const char *wrong = NULL;
    gpu_expect(&expected, shape);
    for (int i = 0; i < MAX_RUNS && !wrong && !watched_enough(&watch); i++) {
        limit_time(30, shape->name);
        wrong = run_watched(shape, &expected, &watch);
    }
    gpu_forget(&expected);
    if (!wrong && !watched_enough(&watch))
        wrong = "too few chunks were watched";
    if (!wrong && watch.n_allocated + watch.n_slow > 0)
        wrong = "it is no steady state";
    if (!wrong && asked_too_often(shape, &watch))
        wrong = "the driver is asked too often";
    if (!wrong && watch.most_pins > 2 && shape->to != GPU_LENT) /* a chunk lent takes many steps */
        wrong = "too much was pinned in one step";
    check_that(!wrong, shape->name,
               "%s: %u allocations, %u calls of the driver, %s, and %u questions in %u steps, from "
               "chunk %u to %u",
               wrong, (unsigned)watch.n_allocated, (unsigned)watch.n_slow,
               watch.slow_call ? watch.slow_call : "none", (unsigned)watch.n_questions,
               (unsigned)watch.n_steps, (unsigned)watch.first_chunk, (unsigned)watch.last_chunk);
}

int main(int n_args, char **args)
{
    gpu_use(n_args, args);
    loop_thread = pthread_self();
    fake_cuda_set_delay(10);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        expect_steady(&shapes[i]);
    return end_checks();
}
