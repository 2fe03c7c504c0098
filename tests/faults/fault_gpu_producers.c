// SPDX-License-Identifier: Apache-2.0
/* Ends in device memory of which a user's streams still have something to do, slow work, when the
 * pipeline is made and run: what it reads is what the source's stream wrote at last, and what the
 * sink's stream reads is what was there before. Nobody waits for these streams on the host. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_cuda.h"
#include "gpu_runs.h"
#include "transfers.h"

enum { CHUNK = 4096, BYTES = 5 * CHUNK + 16, SLOW_US = 20000, BEFORE = 0xb0, UNKNOWN = 999 };

enum sink { TO_MEMORY, TO_DEVICE, TO_GROWING, TO_LENT };

static const struct trial {
    const char *name;
    enum sink to;
    const char *kernel;
    bool by_default_stream; /* of the source */
    bool two_sources;       /* the other has another stream, which is idle */
} trials[] = {
    {.name = "to host memory", .to = TO_MEMORY},
    {.name = "to host memory, kernel", .to = TO_MEMORY, .kernel = "scale:u8,3,1"},
    {.name = "to host memory, counted", .to = TO_MEMORY, .kernel = "filter:u8,lt,200"},
    {.name = "to host memory, default stream", .to = TO_MEMORY, .by_default_stream = true},
    {.name = "to host memory, two sources", .to = TO_MEMORY, .two_sources = true},
    {.name = "to device memory", .to = TO_DEVICE},
    {.name = "to device memory, kernel", .to = TO_DEVICE, .kernel = "scale:u8,3,1"},
    {.name = "growing", .to = TO_GROWING},
    {.name = "lent", .to = TO_LENT},
    {.name = "lent, kernel", .to = TO_LENT, .kernel = "scale:u8,3,1"},
};

/* The user's own. */
static struct {
    void *before; /* what was current */
    void *image;
    void *module;
} user;
static void *streams[2];
static void *slow;
static unsigned char in[BYTES];
static unsigned char expected[BYTES];
static unsigned char was_there[BYTES];
static unsigned char got[BYTES];

struct run {
    const struct trial *trial;
    hr_context *context;
    hr_loop *loop;
    void *from;
    void *to;
    struct hr_source sources[2];
    hr_pipeline *pipeline;
    size_t n_expected;
    size_t n_got;
    hr_error error;
};

static int be_slow(const struct fake_cuda_launch *launch)
{
    (void)launch;
    usleep(SLOW_US);
    return 0;
}

static void *on_device(struct run *run)
{
    void *memory = NULL;
    if (hr_device_alloc(run->context, gpu_name(), BYTES, &memory, &run->error) == HR_OK)
        memset(fake_cuda_host((uintptr_t)memory, BYTES), BEFORE, BYTES);
    return memory;
}

/* The source's bytes come late, and what was in the sink is read late. */
static void queue_work(const struct run *run, void *producer, void *reader)
{
    const struct hr__gpu_driver *driver = gpu_driver();
    driver->launch(slow, 1, 1, producer, NULL);
    driver->copy_h2d((uintptr_t)run->from, in, BYTES, producer);
    memset(was_there, 0, BYTES);
    driver->launch(slow, 1, 1, reader, NULL);
    driver->copy_d2h(was_there, (uintptr_t)run->to, BYTES, reader);
}

static size_t expect(const struct trial *trial)
{
    size_t n = 0;
    for (size_t i = 0; i < BYTES; i++) {
        const bool is_kept = !trial->kernel || trial->kernel[0] != 'f' || in[i] < 200;
        const unsigned scaled = in[i] * 3u + 1u;
        if (is_kept)
            expected[n++] = trial->kernel && trial->kernel[0] == 's'
                                ? (unsigned char)(scaled < 255 ? scaled : 255)
                                : in[i];
    }
    return n;
}

static hr_status create(struct run *run, void *producer)
{
    const struct trial *trial = run->trial;
    static const uint32_t kinds[] = {HR_MEMORY, HR_DEVICE, HR_DEVICE, HR_PULL};
    const struct hr_kernel kernel = {.struct_size = sizeof kernel, .text = trial->kernel};
    const size_t half = trial->two_sources ? BYTES / 2 / 16 * 16 : BYTES;
    run->sources[0] = (struct hr_source){.struct_size = sizeof run->sources[0],
                                         .kind = HR_DEVICE,
                                         .data = run->from,
                                         .size = half,
                                         .stream = producer};
    run->sources[1] = run->sources[0];
    run->sources[1].data = (char *)run->from + half;
    run->sources[1].size = BYTES - half;
    if (trial->two_sources)
        run->sources[0].stream = streams[1]; /* idle when it is asked for, or slow as the other */
    struct hr_pipeline_config config = {
        .struct_size = sizeof config,
        .sources = run->sources,
        .n_sources = trial->two_sources ? 2 : 1,
        .sink = {.struct_size = sizeof config.sink, .kind = kinds[trial->to], .size = BYTES},
        .kernels = &kernel,
        .n_kernels = trial->kernel ? 1 : 0,
        .chunk_size = CHUNK,
        .depth = 3,
        .device = gpu_name()};
    if (trial->to == TO_MEMORY)
        config.sink.data = got;
    if (trial->to == TO_DEVICE) {
        config.sink.data = run->to;
        config.sink.stream = streams[1];
    }
    if (trial->to == TO_LENT)
        config.sink.flags = HR_LEND_DEVICE;
    return hr_pipeline_create(run->loop, &config, &run->pipeline, &run->error);
}

static void take(struct run *run, const void *memory, size_t size)
{
    if (size > BYTES - run->n_got)
        size = BYTES - run->n_got;
    if (size)
        memcpy(got + run->n_got, fake_cuda_host((uintptr_t)memory, size), size);
    run->n_got += size;
}

static hr_status pull_all(struct run *run)
{
    struct hr_chunk chunk = {.struct_size = sizeof chunk};
    hr_status status;
    while ((status = hr_pipeline_next(run->pipeline, -1, &chunk, &run->error)) == HR_OK) {
        status = hr_chunk_wait(&chunk, NULL, &run->error);
        take(run, chunk.data, (size_t)chunk.size);
        hr_chunk_release(&chunk, NULL);
        if (status != HR_OK)
            return status;
    }
    return status == HR_END ? HR_OK : status;
}

static hr_status finish(struct run *run)
{
    void *memory = NULL;
    uint64_t size = 0;
    if (run->trial->to == TO_LENT)
        return pull_all(run);
    hr_status status = hr_pipeline_run(run->pipeline, &run->error);
    if (status != HR_OK)
        return status;
    if (run->trial->to == TO_GROWING) {
        status = hr_pipeline_gathered(run->pipeline, &memory, &size, &run->error);
        take(run, memory, (size_t)size);
        hr_device_free(run->context, gpu_name(), memory);
    } else if (run->trial->to == TO_DEVICE) {
        take(run, run->to, BYTES);
    } else {
        run->n_got = run->n_expected;
    }
    return status;
}

static bool is_all(const unsigned char *bytes, unsigned char value)
{
    return bytes[0] == value && memcmp(bytes, bytes + 1, BYTES - 1) == 0;
}

static const char *judge(const struct run *run)
{
    if (run->n_got != run->n_expected || memcmp(got, expected, run->n_got) != 0)
        return "bytes were read before they were there";
    gpu_driver()->stream_synchronize(streams[1]);
    return is_all(was_there, BEFORE) ? NULL : "bytes were written before the old ones were read";
}

static void begin(struct run *run, void *producer)
{
    gpu_begin(&run->context, &run->loop);
    run->from = on_device(run);
    run->to = on_device(run);
    run->n_expected = expect(run->trial);
    memset(got, 0, BYTES);
    queue_work(run, producer, streams[1]);
}

static void end(struct run *run, void *producer)
{
    hr_pipeline_free(run->pipeline);
    gpu_driver()->stream_synchronize(producer);
    gpu_driver()->stream_synchronize(streams[1]);
    hr_device_free(run->context, gpu_name(), run->from);
    hr_device_free(run->context, gpu_name(), run->to);
    hr_loop_free(run->loop);
    hr_context_free(run->context);
}

static void run_trial(const struct trial *trial)
{
    void *const default_stream = (void *)2; /* of both vendors, the calling thread's */
    struct run run = {.trial = trial};
    void *producer = trial->by_default_stream ? default_stream : streams[0];
    limit_time(20, trial->name);
    begin(&run, producer);
    const char *wrong = create(&run, producer) == HR_OK ? NULL : "it is not made";
    if (!wrong && finish(&run) != HR_OK)
        wrong = "it fails";
    if (!wrong)
        wrong = judge(&run);
    end(&run, producer);
    check_that(!wrong, trial->name, "%s: %s", wrong, run.error.text);
}

/* The nth call of making the pipeline is refused. False: there were not so many. */
static bool fail_call(const struct trial *trial, unsigned nth)
{
    struct run run = {.trial = trial};
    limit_time(20, trial->name);
    begin(&run, streams[0]);
    fake_cuda_fail(nth, UNKNOWN);
    hr_status status = create(&run, streams[0]);
    const char *failed = fake_cuda_failed_call();
    fake_cuda_fail(0, 0);
    if (status == HR_OK)
        status = finish(&run);
    const char *wrong = status == HR_OK ? judge(&run) : failed ? NULL : "it fails by itself";
    end(&run, streams[0]);
    check_that(!wrong, trial->name, "call %u, %s: %s: %s", nth, failed, wrong, run.error.text);
    return failed;
}

/* Freed at once, it still waits: its streams are others' afterwards. */
static void free_unrun(void)
{
    static const struct trial trial = {.name = "freed before it runs", .to = TO_DEVICE};
    struct run run = {.trial = &trial};
    limit_time(20, trial.name);
    begin(&run, streams[0]);
    const hr_status status = create(&run, streams[0]);
    hr_pipeline_free(run.pipeline);
    run.pipeline = NULL;
    const bool has_waited = memcmp(fake_cuda_host((uintptr_t)run.from, BYTES), in, BYTES) == 0;
    end(&run, streams[0]);
    check_that(status == HR_OK && has_waited, trial.name, "%s", run.error.text);
}

static void refuse_elsewhere(void)
{
    struct hr_source source = {.struct_size = sizeof source, .kind = HR_MEMORY};
    struct hr_pipeline_config config = {.struct_size = sizeof config,
                                        .sources = &source,
                                        .n_sources = 1,
                                        .sink = {.struct_size = sizeof config.sink}};
    hr_pipeline *pipeline = NULL;
    hr_error error;
    source.stream = streams[0];
    check_that(hr_pipeline_create(NULL, &config, &pipeline, &error) == HR_EINVAL &&
                   strstr(error.text, "stream"),
               "a stream of a source in host memory is refused", "%s", error.text);
    source.stream = NULL;
    config.sink.stream = streams[0];
    check_that(hr_pipeline_create(NULL, &config, &pipeline, &error) == HR_EINVAL &&
                   strstr(error.text, "stream"),
               "a stream of a null sink is refused", "%s", error.text);
}

static bool user_begin(void)
{
    static const char image[] = "fake";
    const struct hr__gpu_driver *driver = gpu_driver();
    void *context;
    user.image = calloc(1, hr__gpu_image_room(sizeof image));
    memcpy(user.image, image, sizeof image);
    return driver->context_retain(0, &context) == 0 && driver->enter(context, &user.before) == 0 &&
           driver->stream_create(&streams[0]) == 0 && driver->stream_create(&streams[1]) == 0 &&
           driver->module_load(&user.module, user.image, sizeof image, NULL, 0) == 0 &&
           driver->module_entry(&slow, user.module, "slow") == 0;
}

static void user_end(void)
{
    const struct hr__gpu_driver *driver = gpu_driver();
    driver->module_unload(user.module);
    driver->stream_destroy(streams[0]);
    driver->stream_destroy(streams[1]);
    driver->leave(user.before);
    driver->context_release(0);
    free(user.image);
}

int main(int n_args, char **args)
{
    static const size_t no_parameters[] = {0};
    gpu_use(n_args, args);
    fake_cuda_kernel("slow", be_slow, no_parameters);
    for (size_t i = 0; i < BYTES; i++)
        in[i] = (unsigned char)(i * 7 + i / 251);
    if (!user_begin())
        check_that(false, "the user's streams", "they cannot be made");
    for (size_t i = 0; i < sizeof trials / sizeof trials[0]; i++)
        run_trial(&trials[i]);
    const struct trial failing = {.name = "a call fails", .to = TO_DEVICE, .two_sources = true};
    for (unsigned nth = 1; fail_call(&failing, nth); nth++)
        ;
    free_unrun();
    refuse_elsewhere();
    user_end();
    check_that(!*gpu_left(), "nothing is left", "%s", gpu_left());
    return end_checks();
}
