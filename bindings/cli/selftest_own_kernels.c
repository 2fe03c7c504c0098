// SPDX-License-Identifier: Apache-2.0
/* Kernels of the user: a source that the device's compiler takes, one that it must refuse with the
 * line, an entry that is not there, and a launch function. */
#include <stdlib.h>
#include <string.h>

#include "selftest.h"

enum { SIZE = 1000003, CHUNK = 65536, ADDED = 5 };

/* As the header of kernels tells their parameters; the same text is CUDA C++ and HIP. */
static const char source[] =
    "typedef unsigned char u8;\n"
    "typedef unsigned long long u64;\n"
    "extern \"C\" __global__ void headrace_selftest(const u8 *const *in, unsigned n_in, u8 *out,\n"
    "                                             u64 n, u64 first, const u8 *args)\n"
    "{\n"
    "    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < n;\n"
    "         i += gridDim.x * (u64)blockDim.x)\n"
    "        out[i] = in[0][i] + args[0] + (u8)(first + i);\n"
    "}\n";
static const char broken[] = "typedef int just_a_line;\n\n#error the third line is wrong\n";

static const unsigned char args[] = {ADDED};

static struct hr_kernel kernel_of(const char *text, const char *entry)
{
    return (struct hr_kernel){.struct_size = sizeof(struct hr_kernel),
                              .kind = HR_KERNEL_SOURCE,
                              .unit_out = 1,
                              .text = text,
                              .entry = entry,
                              .args = args,
                              .args_size = sizeof args};
}

/* Hosts have no compiler, and where a GPU's is not installed that is no fault of the device. */
static bool has_compiler(struct selftest *t, const struct outcome *got)
{
    if (got->status == HR_EUNSUPPORTED)
        skip(t, "%s", got->error.text);
    return got->status != HR_EUNSUPPORTED;
}

static void run_own(struct selftest *t, const struct hr_kernel *kernel, unsigned char *data,
                    unsigned char *memory, struct outcome *got)
{
    const struct flow flow = {.device = t->device,
                              .source = from_memory(data, SIZE),
                              .sink = to_memory(memory, SIZE),
                              .own = kernel,
                              .chunk_size = CHUNK,
                              .n_streams = 3};
    fill_random(data, SIZE, 7);
    run_flow(t, &flow, got);
}

static void run_source(struct selftest *t, const void *unused)
{
    const struct hr_kernel kernel = kernel_of(source, "headrace_selftest");
    unsigned char *data = take_memory(SIZE);
    unsigned char *memory = take_memory(SIZE);
    struct outcome got;
    (void)unused;
    run_own(t, &kernel, data, memory, &got);
    if (has_compiler(t, &got) && expect_ok(t, "a kernel of a source", got.status, &got.error)) {
        for (uint32_t i = 0; i < SIZE; i++)
            data[i] = (unsigned char)(data[i] + ADDED + i);
        expect_bytes(t, "a kernel of a source", memory, data, SIZE);
    }
    free(data);
    free(memory);
}

/* What must be refused, with a word of the reason. */
struct refusal {
    const char *text;
    const char *entry;
    const char *words[2]; /* either */
};

static void run_refused(struct selftest *t, const void *what)
{
    const struct refusal *refusal = what;
    const struct hr_kernel kernel = kernel_of(refusal->text, refusal->entry);
    unsigned char *data = take_memory(SIZE);
    struct outcome got;
    run_own(t, &kernel, data, data, &got);
    if (has_compiler(t, &got)) {
        const char *text = got.error.text;
        if (got.status != HR_EINVAL ||
            (!strstr(text, refusal->words[0]) && !strstr(text, refusal->words[1])))
            fail(t, "expected HR_EINVAL and '%s' or '%s', got %s: %s", refusal->words[0],
                 refusal->words[1], hr_status_name(got.status), text);
        snprintf(t->compiler, sizeof t->compiler, "%s", text);
    }
    free(data);
}

/* ---- a launch function, which enqueues nothing: its input passes on ---- */

struct calls {
    uint64_t n_units;
    bool had_no_stream;
};

static int32_t count_units(void *user, const struct hr_kernel_call *call)
{
    struct calls *calls = user;
    calls->n_units += call->n_units;
    calls->had_no_stream = calls->had_no_stream || !call->stream;
    return 0;
}

static void run_launch(struct selftest *t, const void *unused)
{
    struct calls calls = {0};
    const struct hr_kernel kernel = {.struct_size = sizeof kernel,
                                     .kind = HR_KERNEL_LAUNCH,
                                     .function = count_units,
                                     .user = &calls};
    unsigned char *data = take_memory(SIZE);
    unsigned char *memory = take_memory(SIZE);
    struct outcome got;
    (void)unused;
    run_own(t, &kernel, data, memory, &got);
    if (expect_ok(t, "a launch function", got.status, &got.error))
        expect_bytes(t, "passed on", memory, data, SIZE);
    if (calls.n_units != SIZE || calls.had_no_stream)
        fail(t, "expected %d units, each with a stream, got %llu%s", SIZE,
             (unsigned long long)calls.n_units, calls.had_no_stream ? ", some without" : "");
    free(data);
    free(memory);
}

void selftest_own_kernels(struct selftest *t)
{
    static const struct refusal wrong = {broken, "headrace_selftest", {"(3)", ":3:"}};
    static const struct refusal absent = {
        source, "no_such_entry", {"no_such_entry", "no_such_entry"}};
    check(t, "a kernel from source text", run_source, NULL);
    check(t, "an entry that is not there", run_refused, &absent);
    check(t, "a source that is wrong, told with its line", run_refused, &wrong);
    check(t, "a launch function", run_launch, NULL);
}
