// SPDX-License-Identifier: Apache-2.0
/* Every call of the driver fails: the first time, the second, in the middle and at the end of a
 * pipeline's life, from the device's opening to the context's end, with one status after the other.
 * The pipeline is made and runs, or ends with an error that tells stage, cause and the driver's
 * number; what was delivered is right; nothing is left. Then a second one on the same context: it
 * works, unless the device is dead, which it says at once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_driver.h"
#include "fake_cuda.h"
#include "gpu_runs.h"
#include "hip_driver.h"
#include "transfers.h"

enum { CHUNK = 4096, MAX_CALLS = 64, N_TIMES = 4 };

/* Of these times, under ThreadSanitizer, which takes ten times as long, the first and the last. */
#if defined(__SANITIZE_THREAD__)
enum { STEP = N_TIMES - 1 };
#else
enum { STEP = 1 };
#endif

/* Of both vendors. */
enum {
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    INVALID_IMAGE = 200,
    NO_BINARY_FOR_GPU = 209,
    INVALID_FILE = 218,
    ILLEGAL_ADDRESS = 700,
    LAUNCH_FAILURE = 719,
    UNKNOWN = 999
};

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
     .kernels = {"min:u8", "scale:u8,1,7", GPU_PLUS_ONE},
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

/* ---- the calls ---- */

struct call {
    const char *name;
    unsigned n; /* in a run of which nothing fails */
    unsigned n_failed;
};

/* Of all runs, in their order; under the driver's lock. */
static struct call calls[MAX_CALLS];
static size_t n_calls;

static void count_call(const char *name)
{
    size_t i = 0;
    while (i < n_calls && strcmp(calls[i].name, name) != 0)
        i++;
    if (i == MAX_CALLS)
        abort();
    if (i == n_calls)
        calls[n_calls++] = (struct call){.name = name};
    calls[i].n++;
}

static bool is_one_of(const char *name, const char *const *names)
{
    while (*names && strcmp(*names, name) != 0)
        names++;
    return *names;
}

/* What fails in a look at an event may be the failure of work, so it is the device's end: one for
 * this context. */
static bool ends_device(const char *call)
{
    static const char *const names[] = {
        "cuEventQuery",        "cuEventSynchronize", "cuCtxPushCurrent", "hipEventQuery",
        "hipEventSynchronize", "hipGetDevice",       "hipSetDevice",     NULL};
    return is_one_of(call, names);
}

static bool starts_driver(const char *call)
{
    static const char *const names[] = {"cuInit", "cuDeviceGetCount", "hipGetDeviceCount", NULL};
    return is_one_of(call, names);
}

static bool loads_image(const char *call)
{
    static const char *const names[] = {"cuModuleLoadDataEx", "hipModuleLoadData", NULL};
    return is_one_of(call, names);
}

/* HIP's way to say that it does not know the memory. */
static bool is_answer(const char *call, int status)
{
    return status == INVALID_VALUE && strcmp(call, "hipPointerGetAttributes") == 0;
}

/* The next one of those that the call may fail with. */
static int next_status(struct call *call)
{
    static const int statuses[] = {OUT_OF_MEMORY,  ILLEGAL_ADDRESS,   UNKNOWN,      INVALID_VALUE,
                                   LAUNCH_FAILURE, NO_BINARY_FOR_GPU, INVALID_FILE, INVALID_IMAGE};
    enum { N = sizeof statuses / sizeof statuses[0], N_OF_IMAGES = 3 };
    const unsigned n = loads_image(call->name) ? N : N - N_OF_IMAGES;
    const int status = statuses[call->n_failed++ % n];
    return is_answer(call->name, status) ? next_status(call) : status;
}

/* ---- verdicts ---- */

static bool is_code_of(const char *call, int status, int32_t code)
{
    if (starts_driver(call))
        return code == HR_EUNSUPPORTED;
    if (status == OUT_OF_MEMORY)
        return code == HR_ENOMEM || (ends_device(call) && code == HR_EDEVICE);
    if (status == NO_BINARY_FOR_GPU || status == INVALID_FILE || status == INVALID_IMAGE)
        return code == HR_EUNSUPPORTED;
    return code == HR_EDEVICE;
}

/* Whether the error is of the call that failed: its number, also in the words. */
static const char *judge_told(const hr_error *error, int status)
{
    char number[16];
    const char *call = fake_cuda_failed_call();
    snprintf(number, sizeof number, "(%d)", status);
    if (error->code == HR_OK)
        return NULL;
    if (!call)
        return "it fails, and no call did";
    if (!strstr(error->text, number) || (error->native != status && !starts_driver(call)))
        return "the driver's number is not told";
    return is_code_of(call, status, error->code) ? NULL : "the error has a wrong code";
}

static const char *judge_second(const struct gpu_run *run, const char *call, bool dead)
{
    if (run->status == HR_OK && dead)
        return "a second one works on a dead device";
    if (run->status == HR_OK || dead || ends_device(call))
        return NULL;
    return "a second one does not work";
}

/* ---- trials ---- */

struct trial {
    const unsigned *shapes; /* of the pipelines that run at once */
    unsigned n;
    const char *call; /* that fails; NULL: none */
    unsigned nth;
    int status;
};

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

static const char *run_all(const struct trial *trial, hr_context *context, hr_loop *loop,
                           hr_error *error)
{
    struct gpu_run runs[2];
    const char *wrong = NULL;
    for (unsigned i = 0; i < trial->n; i++)
        gpu_run_create(&runs[i], &shapes[trial->shapes[i]], &expected[trial->shapes[i]], context,
                       loop);
    for (unsigned i = 0; i < trial->n; i++) {
        gpu_run_finish(&runs[i]);
        *error = wrong ? *error : runs[i].error;
        wrong = wrong ? wrong : gpu_run_judge(&runs[i]);
        wrong = wrong ? wrong : judge_told(&runs[i].error, trial->status);
    }
    for (unsigned i = 0; i < trial->n; i++)
        gpu_run_free(&runs[i]);
    return wrong;
}

/* NULL, or what is wrong. */
static const char *try(const struct trial *trial, hr_error *error)
{
    hr_context *context;
    hr_loop *loop;
    gpu_begin(&context, &loop);
    fake_cuda_fail_call(trial->call, trial->nth, trial->status);
    const char *wrong = run_all(trial, context, loop, error);
    if (!wrong && fake_cuda_failed_call())
        wrong = run_again(trial->shapes[0], context, loop, error);
    hr_loop_free(loop);
    hr_context_free(context);
    if (!wrong && trial->nth == 1 && !fake_cuda_failed_call())
        wrong = "it is not called";
    fake_cuda_fail(0, 0);
    return wrong ? wrong : *gpu_left() ? gpu_left() : NULL;
}

/* How often each is called if none fails. */
static const char *count_calls(const struct trial *base, hr_error *error)
{
    struct trial trial = *base;
    for (size_t i = 0; i < n_calls; i++)
        calls[i].n = 0;
    trial.call = NULL;
    trial.nth = 0;
    fake_cuda_watch(count_call);
    const char *wrong = try(&trial, error);
    fake_cuda_watch(NULL);
    return wrong;
}

/* Times at which a call is to fail, of n; returns how many. */
static unsigned choose_times(unsigned n, unsigned times[N_TIMES])
{
    const unsigned wanted[N_TIMES] = {1, 2, n / 2, n};
    unsigned n_chosen = 0;
    for (size_t i = 0; i < N_TIMES; i += STEP)
        if (wanted[i] <= n && (n_chosen == 0 || wanted[i] > times[n_chosen - 1]))
            times[n_chosen++] = wanted[i];
    return n == 0 ? 0 : n_chosen;
}

static const char *fail_call(struct trial *trial, struct call *call, char *name, size_t name_size,
                             hr_error *error)
{
    unsigned times[N_TIMES];
    const char *wrong = NULL;
    const unsigned n = choose_times(call->n, times);
    trial->call = call->name;
    for (unsigned i = 0; i < n && !wrong; i++) {
        trial->nth = times[i];
        trial->status = next_status(call);
        snprintf(name, name_size, "%s%s, %s returns %d at call %u of %u",
                 shapes[trial->shapes[0]].name, trial->n > 1 ? ", and another" : "", call->name,
                 trial->status, trial->nth, call->n);
        limit_time(20, name);
        *error = (hr_error){0};
        wrong = try(trial, error);
    }
    return wrong;
}

static void fail_each(const unsigned *which, unsigned n)
{
    char name[300];
    hr_error error = {0};
    struct trial trial = {.shapes = which, .n = n};
    snprintf(name, sizeof name, "%s, nothing fails", shapes[which[0]].name);
    const char *wrong = count_calls(&trial, &error);
    for (size_t i = 0; i < n_calls && !wrong; i++)
        wrong = fail_call(&trial, &calls[i], name, sizeof name, &error);
    if (!wrong && has_leaked())
        wrong = "memory was lost";
    if (!wrong)
        snprintf(name, sizeof name, "%s%s, each call fails", shapes[which[0]].name,
                 n > 1 ? ", and another" : "");
    check_that(!wrong, name, "%s: %s: %s", wrong, hr_status_name(error.code), error.text);
}

/* An allocation that the device has no room for, and that is all that can be told. */
static void fail_to_tell_memory(void)
{
    static const char *const asking[] = {"cuMemGetInfo", "hipMemGetInfo"};
    const char *call = asking[strcmp(gpu_driver()->name, "hip") == 0];
    hr_context *context;
    hr_loop *loop;
    void *memory = NULL;
    hr_error error = {0};
    gpu_begin(&context, &loop);
    fake_cuda_fail_call(call, 1, UNKNOWN);
    fake_cuda_watch(count_call);
    const hr_status status = hr_device_alloc(context, gpu_name(), (size_t)1 << 40, &memory, &error);
    fake_cuda_watch(NULL);
    const bool failed = fake_cuda_failed_call();
    fake_cuda_fail(0, 0);
    hr_loop_free(loop);
    hr_context_free(context);
    for (size_t i = 0; i < n_calls; i++)
        calls[i].n_failed += strcmp(calls[i].name, call) == 0;
    check_that(status == HR_ENOMEM && failed && error.native == OUT_OF_MEMORY,
               "no memory, and how much there is fails, too", "%s", error.text);
}

/* ---- the table ---- */

static bool has_failed(const char *symbol)
{
    for (size_t i = 0; i < n_calls; i++) {
        const size_t length = strlen(calls[i].name);
        const bool is_it = strncmp(symbol, calls[i].name, length) == 0 &&
                           (symbol[length] == '\0' || strcmp(symbol + length, "_v2") == 0);
        if (is_it && calls[i].n_failed > 0)
            return true;
    }
    return false;
}

/* Those that have no status; and of two calls that fill properties, a version has use for one. */
static bool cannot_fail(const char *symbol)
{
    static const char *const names[] = {"cuGetErrorName",     "cuGetErrorString",
                                        "hipGetErrorString",  "hipGetLastError",
                                        "hipPeekAtLastError", NULL};
    if (strcmp(symbol, "hipGetDeviceProperties") == 0)
        return has_failed("hipGetDevicePropertiesR0600");
    if (strcmp(symbol, "hipGetDevicePropertiesR0600") == 0)
        return has_failed("hipGetDeviceProperties");
    return is_one_of(symbol, names);
}

static void find_all_of_table(void)
{
#define CUDA_NAME(symbol, field, params) #symbol,
    static const char *const of_cuda[] = {HR__CUDA_CALLS(CUDA_NAME) NULL};
#define HIP_NAME(type, symbol, field, params) #symbol,
    static const char *const of_hip[] = {HR__HIP_CALLS(HIP_NAME) HR__HIP_5_2_CALLS(HIP_NAME)
                                             HR__HIP_6_CALLS(HIP_NAME) NULL};
    const bool is_hip = strcmp(gpu_driver()->name, "hip") == 0;
    const char *missed = NULL;
    for (const char *const *name = is_hip ? of_hip : of_cuda; *name; name++)
        if (!has_failed(*name) && !cannot_fail(*name))
            missed = *name;
    check_that(!missed, "every call of the table failed", "not %s", missed);
}

int main(int n_args, char **args)
{
    static const unsigned both[] = {1, 3};
    gpu_use(n_args, args);
    fake_cuda_set_delay(0);
    for (unsigned i = 0; i < N_SHAPES; i++)
        gpu_expect(&expected[i], &shapes[i]);
    for (unsigned i = 0; i < N_SHAPES; i++)
        fail_each(&i, 1);
    fail_each(both, 2);
    fail_to_tell_memory();
    find_all_of_table();
    for (unsigned i = 0; i < N_SHAPES; i++)
        gpu_forget(&expected[i]);
    return end_checks();
}
