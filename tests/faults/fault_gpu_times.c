// SPDX-License-Identifier: Apache-2.0
/* Service times by a device's own clock, which here is not that of the host: copies and kernels of
 * known lengths, on streams that wait for each other. The wait is no service, nor is the time until
 * a stream knows that it is over. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_cuda.h"
#include "gpu_runs.h"
#include "transfers.h"

enum { CHUNK = 4096, N_CHUNKS = 6, TOLERANCE_NS = 1000 };

static const struct fake_cuda_times times = {.copy_us = 3000, .launch_us = 1000, .wait_us = 1000};

/* Holds the user's stream, and with it all others, until every kernel is enqueued. */
static atomic_uint n_launched;

static void count_launch(const char *call)
{
    if (strstr(call, "LaunchKernel"))
        n_launched++;
}

static int hold(const struct fake_cuda_launch *launch)
{
    (void)launch;
    while (n_launched < N_CHUNKS + 1)
        usleep(100);
    return 0;
}

struct user {
    void *before; /* what was current */
    void *stream;
    void *module;
    void *image;
};

static void user_begin(struct user *user)
{
    static const char image[] = "fake";
    const struct hr__gpu_driver *driver = gpu_driver();
    void *context;
    void *entry;
    user->image = calloc(1, hr__gpu_image_room(sizeof image));
    memcpy(user->image, image, sizeof image);
    if (driver->context_retain(0, &context) != 0 || driver->enter(context, &user->before) != 0 ||
        driver->stream_create(&user->stream) != 0 ||
        driver->module_load(&user->module, user->image, sizeof image, NULL, 0) != 0 ||
        driver->module_entry(&entry, user->module, "hold") != 0 ||
        driver->launch(entry, 1, 1, user->stream, NULL) != 0) {
        check_that(false, "the user's stream", "it cannot be made");
        exit(end_checks());
    }
}

static void user_end(struct user *user)
{
    const struct hr__gpu_driver *driver = gpu_driver();
    driver->module_unload(user->module);
    driver->stream_destroy(user->stream);
    driver->leave(user->before);
    driver->context_release(0);
    free(user->image);
}

static hr_status run(hr_loop *loop, void *stream, struct hr_stats *stats, hr_error *error)
{
    static unsigned char in[N_CHUNKS * CHUNK];
    struct hr_source source = {
        .struct_size = sizeof source, .kind = HR_MEMORY, .data = in, .size = sizeof in};
    const struct hr_kernel kernel = {
        .struct_size = sizeof kernel, .kind = HR_KERNEL_BUILTIN, .text = "scale:u8,3,1"};
    const struct hr_pipeline_config config = {
        .struct_size = sizeof config,
        .n_sources = 1,
        .sources = &source,
        .sink = {.struct_size = sizeof config.sink, .kind = HR_DEVICE, .stream = stream},
        .chunk_size = CHUNK,
        .depth = N_CHUNKS,
        .kernels = &kernel,
        .n_kernels = 1,
        .n_streams = 1,
        .device = gpu_name()};
    hr_pipeline *pipeline = NULL;
    hr_status status = hr_pipeline_create(loop, &config, &pipeline, error);
    if (status == HR_OK)
        status = hr_pipeline_run(pipeline, error);
    if (status == HR_OK)
        status = hr_pipeline_stats(pipeline, stats);
    n_launched = N_CHUNKS + 1; /* also if it failed before */
    hr_pipeline_free(pipeline);
    return status;
}

static void check_service(const struct hr_stats *stats, enum hr_stage stage, unsigned us)
{
    const long long wanted = (long long)N_CHUNKS * us * 1000;
    const long long got = (long long)stats->stages[stage].service_ns;
    check_that(llabs(got - wanted) < TOLERANCE_NS, hr_stage_name(stage),
               "its service is %lld ns, not %lld", got, wanted);
}

int main(int n_args, char **args)
{
    static const size_t no_parameters[] = {0};
    struct hr_stats stats = {.struct_size = sizeof stats};
    struct user user;
    hr_context *context;
    hr_loop *loop;
    hr_error error = {0};
    gpu_use(n_args, args);
    limit_time(20, "times");
    fake_cuda_set_times(&times);
    fake_cuda_kernel("hold", hold, no_parameters);
    gpu_begin(&context, &loop);
    fake_cuda_watch(count_launch);
    user_begin(&user);
    const hr_status status = run(loop, user.stream, &stats, &error);
    check_that(status == HR_OK, "the run", "%s", error.text);
    check_service(&stats, HR_STAGE_H2D, times.copy_us);
    check_service(&stats, HR_STAGE_KERNEL, times.launch_us);
    check_service(&stats, HR_STAGE_WRITE, times.copy_us);
    fake_cuda_watch(NULL);
    hr_loop_free(loop);
    hr_context_free(context);
    user_end(&user);
    check_that(!has_leaked(), "no memory is lost", "it is");
    return end_checks();
}
