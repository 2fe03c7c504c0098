// SPDX-License-Identifier: Apache-2.0
/* Chunks lent in device memory go back while their user's streams, one or two, still have work with
 * them, slow work: neither the pipeline's next chunks, nor the next pipeline of the context, get the
 * memory before that is over. What the user copied shows it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_cuda.h"
#include "gpu_runs.h"
#include "transfers.h"

enum { CHUNK = 4096, N_CHUNKS = 9, SLOW_US = 3000, N_QUICK = 100, MAX_LEGS = 10 };

/* By the device's clock; of a user's work N_QUICK launches for each chunk are the most. */
static const struct fake_cuda_times times = {.copy_us = 10, .launch_us = 10, .wait_us = 1};

#define SHAPE .size = N_CHUNKS * CHUNK, .chunk_size = CHUNK, .depth = 3, .n_streams = 2

static const struct gpu_shape shapes[] = {
    {.name = "kernels", .from = GPU_FILE, .to = GPU_LENT, .kernels = {"scale:u8,3,1"}, SHAPE},
    {.name = "no kernels", .from = GPU_PLAIN, .to = GPU_LENT, SHAPE},
    {.name = "counted kernels",
     .from = GPU_PLAIN,
     .to = GPU_LENT,
     .kernels = {"filter:u8,lt,200", "scale:u8,1,5"},
     SHAPE},
    {.name = "a device source, kernels",
     .from = GPU_DEVICE,
     .to = GPU_LENT,
     .kernels = {"scale:u8,3,1"},
     SHAPE},
};

/* Other bytes in the same memory. */
static const struct gpu_shape next_shape = {
    .name = "next", .from = GPU_PLAIN, .to = GPU_LENT, .kernels = {"scale:u8,0,77"}, SHAPE};

/* The user's own: streams of the primary context, a kernel that takes its time, and one that is
 * launched many times. */
struct user {
    void *before; /* what was current */
    void *stream;
    void *other;
    bool has_two;
    void *image;
    void *module;
    void *slow;
    void *quick;
    unsigned char *copy;
    size_t n_copied;
};

static int be_slow(const struct fake_cuda_launch *launch)
{
    (void)launch;
    usleep(SLOW_US);
    return 0;
}

static int be_quick(const struct fake_cuda_launch *launch)
{
    (void)launch;
    return 0;
}

static void user_begin(struct user *user, size_t size, bool has_two)
{
    static const char image[] = "fake";
    const struct hr__gpu_driver *driver = gpu_driver();
    void *context;
    *user = (struct user){.copy = malloc(size),
                          .has_two = has_two,
                          .image = calloc(1, hr__gpu_image_room(sizeof image))};
    memcpy(user->image, image, sizeof image);
    if (driver->context_retain(0, &context) != 0 || driver->enter(context, &user->before) != 0 ||
        driver->stream_create(&user->stream) != 0 || driver->stream_create(&user->other) != 0 ||
        driver->module_load(&user->module, user->image, sizeof image, NULL, 0) != 0 ||
        driver->module_entry(&user->slow, user->module, "slow") != 0 ||
        driver->module_entry(&user->quick, user->module, "quick") != 0) {
        check_that(false, "the user's stream", "it cannot be made");
        exit(end_checks());
    }
}

static void user_end(struct user *user)
{
    const struct hr__gpu_driver *driver = gpu_driver();
    driver->module_unload(user->module);
    driver->stream_destroy(user->stream);
    driver->stream_destroy(user->other);
    driver->leave(user->before);
    driver->context_release(0);
    free(user->image);
    free(user->copy);
}

/* Queues slow work and then a copy of the chunk, and gives it back at once, by a stream with nothing
 * to do if there are two. */
static bool use(struct user *user, struct hr_chunk *chunk, size_t room)
{
    const struct hr__gpu_driver *driver = gpu_driver();
    for (unsigned i = 0; i < N_QUICK; i++)
        if (driver->launch(user->quick, 1, 1, user->stream, NULL) != 0)
            return false;
    if (chunk->size > room - user->n_copied || hr_chunk_wait(chunk, user->stream, NULL) != HR_OK ||
        driver->launch(user->slow, 1, 1, user->stream, NULL) != 0 ||
        driver->copy_d2h(user->copy + user->n_copied, (uintptr_t)chunk->data, chunk->size,
                         user->stream) != 0)
        return false;
    user->n_copied += (size_t)chunk->size;
    if (user->has_two)
        hr_chunk_used(chunk, user->stream);
    hr_chunk_release(chunk, user->has_two ? user->other : user->stream);
    return true;
}

/* Its own is at most MAX_LEGS copies or launches a chunk; the user's, for whose memory it waits, is
 * ten times that. */
static bool counts_users_work(struct gpu_run *run)
{
    const uint64_t most_ns =
        (uint64_t)N_CHUNKS * MAX_LEGS * (times.launch_us + times.wait_us) * 1000;
    run->stats.struct_size = sizeof run->stats;
    return hr_pipeline_stats(run->pipeline, &run->stats) != HR_OK ||
           run->stats.stages[HR_STAGE_H2D].service_ns > most_ns ||
           run->stats.stages[HR_STAGE_KERNEL].service_ns > most_ns;
}

/* NULL, or what is wrong. It is freed with the user's work queued. */
static const char *lend_all(struct gpu_run *run, struct user *user)
{
    struct hr_chunk chunk = {.struct_size = sizeof chunk};
    const char *wrong = run->status != HR_OK ? "it is not made" : NULL;
    while (!wrong &&
           (run->status = hr_pipeline_next(run->pipeline, -1, &chunk, &run->error)) == HR_OK)
        if (!use(user, &chunk, run->expected->n_out))
            wrong = "the user's work is refused";
    if (!wrong && run->status != HR_END)
        wrong = "it fails";
    if (!wrong && counts_users_work(run))
        wrong = "its stages count the time in which they waited for the user's work";
    return wrong;
}

static void free_with_work(const struct gpu_shape *shape, bool has_two,
                           const struct gpu_expected *expected, const struct gpu_expected *of_next)
{
    hr_context *context;
    hr_loop *loop;
    struct gpu_run run;
    struct gpu_run next;
    struct user user;
    limit_time(20, shape->name);
    user_begin(&user, expected->n_out, has_two);
    gpu_begin(&context, &loop);
    gpu_run_create(&run, shape, expected, context, loop);
    const char *wrong = lend_all(&run, &user);
    gpu_run_free(&run);
    gpu_run_create(&next, &next_shape, of_next, context, loop);
    gpu_run_finish(&next);
    if (!wrong)
        wrong = next.status == HR_OK ? gpu_run_judge(&next) : "the next one fails";
    gpu_run_free(&next);
    gpu_driver()->stream_synchronize(user.stream);
    if (!wrong && (user.n_copied != expected->n_out ||
                   memcmp(user.copy, expected->out, expected->n_out) != 0))
        wrong = "the user's work saw other bytes";
    hr_loop_free(loop);
    hr_context_free(context);
    user_end(&user);
    if (!wrong && *gpu_left())
        wrong = gpu_left();
    check_that(!wrong, shape->name, "%s streams: %s: %s", has_two ? "two" : "one", wrong,
               run.error.text);
}

int main(int n_args, char **args)
{
    static const size_t no_parameters[] = {0};
    struct gpu_expected expected;
    struct gpu_expected of_next;
    gpu_use(n_args, args);
    fake_cuda_set_times(&times);
    fake_cuda_kernel("slow", be_slow, no_parameters);
    fake_cuda_kernel("quick", be_quick, no_parameters);
    gpu_expect(&of_next, &next_shape);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        gpu_expect(&expected, &shapes[i]);
        free_with_work(&shapes[i], false, &expected, &of_next);
        free_with_work(&shapes[i], true, &expected, &of_next);
        gpu_forget(&expected);
    }
    gpu_forget(&of_next);
    check_that(!has_leaked(), "no memory is lost", "it is");
    return end_checks();
}
