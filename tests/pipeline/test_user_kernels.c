// SPDX-License-Identifier: Apache-2.0
/* Kernels that are functions of the user, and everything that is wrong with a kernel or a device:
 * what is said of it, what was delivered before, and that the loop serves the next pipeline. */
#include <criterion/criterion.h>
#include <headrace.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "chains.h"
#include "engines.h"

static hr_loop *loops[2];
static unsigned n_loops;

static void make_loops(void)
{
    n_loops = test_loops(loops);
}

static void free_loops(void)
{
    for (unsigned i = 0; i < n_loops; i++)
        hr_loop_free(loops[i]);
}

TestSuite(user_kernels, .init = make_loops, .fini = free_loops, .timeout = 60);

enum { SIZE = 30000, CHUNK = 1000 };

/* What the functions saw. Several may run at once. */
struct seen {
    atomic_uint n_calls;
    atomic_ullong n_units;
    atomic_uint n_wrong;
    uint64_t fail_unit; /* the call that has this unit returns fail_with */
    int32_t fail_with;
    uint32_t unit;               /* bytes */
    const unsigned char *stream; /* what the kernel reads, all of it */
};

static int32_t look(struct seen *seen, const struct hr_kernel_call *call)
{
    const uint64_t first = call->first_unit;
    seen->n_calls++;
    seen->n_units += call->n_units;
    seen->n_wrong += call->struct_size != sizeof *call || call->n_in != 1 || call->n_units == 0;
    seen->n_wrong += seen->stream && memcmp(call->in[0], seen->stream + first * seen->unit,
                                            (size_t)call->n_units * seen->unit) != 0;
    const bool bad = first <= seen->fail_unit && seen->fail_unit < first + call->n_units;
    return bad ? seen->fail_with : 0;
}

/* Three bytes become five: their sum twice, and themselves. */
static int32_t three_to_five(void *user, const struct hr_kernel_call *call)
{
    const unsigned char *in = call->in[0];
    unsigned char *out = call->out;
    struct seen *seen = user;
    const int32_t rc = look(seen, call);
    seen->n_wrong += !out || out == in; /* never in place */
    for (uint64_t i = 0; i < call->n_units; i++, in += 3, out += 5) {
        out[0] = out[1] = (unsigned char)(in[0] + in[1] + in[2]);
        memcpy(out + 2, in, 3);
    }
    return rc;
}

static int32_t only_look(void *user, const struct hr_kernel_call *call)
{
    struct seen *seen = user;
    seen->n_wrong += call->out != NULL;
    return look(seen, call);
}

/* Two of five bytes. */
static int32_t five_to_two(void *user, const struct hr_kernel_call *call)
{
    const unsigned char *in = call->in[0];
    unsigned char *out = call->out;
    for (uint64_t i = 0; i < call->n_units; i++) {
        out[2 * i] = in[5 * i];
        out[2 * i + 1] = in[5 * i + 4];
    }
    return look(user, call);
}

/* Keeps units of four bytes whose first is even. */
static int32_t keep_even(void *user, const struct hr_kernel_call *call)
{
    const unsigned char *in = call->in[0];
    unsigned char *out = call->out;
    uint64_t kept = 0;
    for (uint64_t i = 0; i < call->n_units; i++)
        if (in[4 * i] % 2 == 0)
            memcpy(out + 4 * kept++, in + 4 * i, 4);
    *call->count = kept;
    return look(user, call);
}

/* The same of the whole stream. */
static size_t even_of(const unsigned char *data, size_t size, unsigned char *kept)
{
    size_t n = 0;
    for (size_t i = 0; i + 4 <= size; i += 4)
        if (data[i] % 2 == 0) {
            memcpy(kept + n, data + i, 4);
            n += 4;
        }
    return n;
}

static int32_t claim_more(void *user, const struct hr_kernel_call *call)
{
    *call->count = call->n_units + 1 + call->chunk * 1000000;
    return look(user, call);
}

static int32_t say_no_count(void *user, const struct hr_kernel_call *call)
{
    return look(user, call);
}

static void add_function(struct chain *chain, hr_kernel_fn function, struct seen *seen,
                         struct hr_kernel kernel)
{
    seen->unit = kernel.unit_in ? kernel.unit_in : 1;
    kernel.kind = kernel.kind ? kernel.kind : HR_KERNEL_FUNCTION;
    kernel.function = function;
    kernel.user = seen;
    chain_add_kernel(chain, kernel);
}

static void start(struct chain *chain, const unsigned char *data, size_t size, unsigned i)
{
    static const uint64_t sizes[] = {CHUNK, 77, 1, 4096, 100000};
    chain_init(chain);
    chain_read_memory(chain, data, size);
    chain->config.chunk_size = sizes[i % 5];
    chain->config.depth = 1 + i % 4;
    chain->config.n_streams = 1 + i % 3;
}

static void assert_ok(struct chain *chain, hr_loop *loop)
{
    cr_assert_eq(chain_run(chain, loop), HR_OK, "%s", chain->error.text);
}

/* After a failure the loop and its context serve as before. */
static void assert_works(hr_loop *loop)
{
    struct chain chain;
    chain_init(&chain);
    chain_read_memory(&chain, "abcdef", 6);
    chain_add(&chain, "bswap:2");
    assert_ok(&chain, loop);
    cr_assert_eq(chain.n_out, 6);
    cr_assert_arr_eq(chain.out, "badcfe", 6);
    chain_reset(&chain);
}

/* ---- what functions do ---- */

Test(user_kernels, functions_change_the_number_of_bytes)
{
    unsigned char *data = test_bytes(SIZE);
    unsigned char *before = test_bytes(SIZE);
    for (unsigned i = 0; i < 10 * n_loops; i++) {
        struct seen first = {.fail_unit = UINT64_MAX, .stream = data};
        struct seen all = {.fail_unit = UINT64_MAX};
        struct seen last = {.fail_unit = UINT64_MAX};
        const size_t size = i / n_loops % 5 == 2 ? 300 : SIZE;
        struct chain chain;
        start(&chain, data, size, i / n_loops);
        add_function(&chain, three_to_five, &first,
                     (struct hr_kernel){.unit_in = 3, .unit_out = 5});
        add_function(&chain, only_look, &all, (struct hr_kernel){.unit_in = 1});
        add_function(&chain, five_to_two, &last, (struct hr_kernel){.unit_in = 5, .unit_out = 2});
        assert_ok(&chain, loops[i % n_loops]);
        cr_assert_eq(chain.n_out, size / 3 * 2);
        for (size_t k = 0; k < size / 3; k++) {
            const unsigned char *in = data + 3 * k;
            cr_assert_eq(chain.out[2 * k], (unsigned char)(in[0] + in[1] + in[2]));
            cr_assert_eq(chain.out[2 * k + 1], in[2]);
        }
        cr_assert_eq(first.n_units, size / 3);
        cr_assert_eq(all.n_units, size / 3 * 5);
        cr_assert_eq(last.n_units, size / 3);
        cr_assert_eq(first.n_wrong + all.n_wrong + last.n_wrong, 0);
        chain_reset(&chain);
    }
    cr_assert_arr_eq(data, before, SIZE, "the user's memory was written to");
    free(before);
    free(data);
}

Test(user_kernels, counted_functions_and_what_follows_them)
{
    unsigned char *data = test_bytes(SIZE);
    unsigned char *kept = malloc(SIZE);
    for (unsigned i = 0; i < 10 * n_loops; i++) {
        const size_t size = i / n_loops % 5 == 2 ? 300 : SIZE;
        const size_t n_kept = even_of(data, size, kept);
        struct seen counted = {.fail_unit = UINT64_MAX, .stream = data};
        struct seen behind = {.fail_unit = UINT64_MAX, .stream = kept};
        struct chain chain;
        start(&chain, data, size, i / n_loops);
        add_function(&chain, keep_even, &counted,
                     (struct hr_kernel){
                         .flags = HR_KERNEL_COUNTED, .unit_in = 4, .unit_out = 4, .text = "even"});
        add_function(&chain, only_look, &behind, (struct hr_kernel){.unit_in = 2});
        assert_ok(&chain, loops[i % n_loops]);
        cr_assert_eq(chain.n_out, n_kept);
        cr_assert_arr_eq(chain.out, kept, n_kept);
        cr_assert_eq(counted.n_units, size / 4);
        cr_assert_eq(behind.n_units, n_kept / 2);
        cr_assert_eq(counted.n_wrong + behind.n_wrong, 0);
        chain_reset(&chain);
    }
    free(kept);
    free(data);
}

Test(user_kernels, a_function_that_says_no_count_keeps_nothing)
{
    unsigned char *data = test_bytes(SIZE);
    for (unsigned i = 0; i < n_loops; i++) {
        struct seen first = {.fail_unit = UINT64_MAX};
        struct seen second = {.fail_unit = UINT64_MAX};
        struct chain chain;
        start(&chain, data, SIZE, i);
        add_function(&chain, keep_even, &first,
                     (struct hr_kernel){.flags = HR_KERNEL_COUNTED, .unit_in = 4, .unit_out = 4});
        add_function(&chain, say_no_count, &second,
                     (struct hr_kernel){.flags = HR_KERNEL_COUNTED, .unit_in = 4, .unit_out = 4});
        assert_ok(&chain, loops[i]);
        cr_assert_eq(chain.n_out, 0);
        chain_reset(&chain);
    }
    free(data);
}

Test(user_kernels, a_count_of_more_units_than_there_were_is_an_error)
{
    unsigned char *data = test_bytes(SIZE);
    for (unsigned i = 0; i < 10 * n_loops; i++) {
        struct seen seen = {.fail_unit = UINT64_MAX};
        struct chain chain;
        start(&chain, data, SIZE, i / n_loops);
        add_function(
            &chain, claim_more, &seen,
            (struct hr_kernel){
                .flags = HR_KERNEL_COUNTED, .unit_in = 4, .unit_out = 4, .text = "boaster"});
        chain_add(&chain, "shuffle:2,1000");
        cr_assert_eq(chain_run(&chain, loops[i % n_loops]), HR_EDEVICE);
        cr_assert_eq(chain.error.stage, HR_STAGE_KERNEL);
        cr_assert_eq(chain.error.chunk, 0);
        cr_assert(strstr(chain.error.text, "kernel 0"), "%s", chain.error.text);
        cr_assert_eq(chain.n_out, 0);
        chain_reset(&chain);
        assert_works(loops[i % n_loops]);
    }
    free(data);
}

/* ---- functions that fail ---- */

static void assert_failed(const struct chain *chain, uint64_t chunk, int native, const char *name)
{
    const hr_error *error = &chain->error;
    cr_assert_eq(error->code, HR_EDEVICE, "%s", error->text);
    cr_assert_eq(error->stage, HR_STAGE_KERNEL);
    cr_assert_eq(error->native, native);
    cr_assert_eq(error->chunk, chunk, "chunk %zu, not %zu", (size_t)error->chunk, (size_t)chunk);
    cr_assert_eq(error->offset, chunk * CHUNK);
    cr_assert(strstr(error->text, name), "%s", error->text);
}

static void assert_delivered(const struct chain *chain, const unsigned char *bytes, size_t size)
{
    cr_assert_eq(chain->n_out, size, "%zu bytes before the failure, not %zu", chain->n_out, size);
    cr_assert(size == 0 || memcmp(chain->out, bytes, size) == 0);
}

Test(user_kernels, a_function_fails_and_all_before_its_chunk_was_delivered)
{
    static const uint64_t bad[] = {0, 1, CHUNK / 4 - 1, CHUNK / 4, 7 * CHUNK / 4 + 5, SIZE / 4 - 1};
    unsigned char *data = test_bytes(SIZE);
    unsigned char *kept = malloc(SIZE);
    for (unsigned i = 0; i < 6 * 4 * n_loops; i++) {
        const bool counted = i / n_loops / 6 % 2;
        const uint64_t chunk = bad[i / n_loops % 6] * 4 / CHUNK;
        struct seen seen = {.fail_unit = bad[i / n_loops % 6], .fail_with = 42 + (int32_t)i};
        struct chain chain;
        start(&chain, data, SIZE, 0);
        chain.config.depth = 1 + i % 7;
        chain.config.n_streams = 1 + i % 3;
        chain_add(&chain, "crc32");
        add_function(&chain, counted ? keep_even : only_look, &seen,
                     (struct hr_kernel){.flags = counted ? HR_KERNEL_COUNTED : 0,
                                        .unit_in = 4,
                                        .unit_out = counted ? 4 : 0,
                                        .text = "shaky"});
        chain_add(&chain, "sum:u8");
        chain_run(&chain, loops[i % n_loops]);
        assert_failed(&chain, chunk, seen.fail_with, "shaky");
        const size_t n_kept = even_of(data, (size_t)chunk * CHUNK, kept);
        assert_delivered(&chain, counted ? kept : data, counted ? n_kept : chunk * CHUNK);
        struct hr_result result = {.struct_size = sizeof result};
        cr_assert_eq(hr_pipeline_result(chain.pipeline, 0, &result, NULL), HR_EDEVICE);
        chain_reset(&chain);
        assert_works(loops[i % n_loops]);
    }
    free(kept);
    free(data);
}

/* ---- launch functions ---- */

enum { MAX_WORK = 64 };

struct work {
    unsigned char *out;
    const unsigned char *in;
    uint64_t n;
    unsigned char add;
};

struct launcher {
    struct seen seen;
    struct work work[MAX_WORK];
    unsigned n_work;
    int32_t call_fails_with;
    uint64_t call_fails_at; /* chunk */
};

static int32_t copy_work(void *argument)
{
    const struct work *work = argument;
    memcpy(work->out, work->in, (size_t)work->n);
    return 0;
}

static int32_t add_work(void *argument)
{
    struct work *work = argument;
    for (uint64_t i = 0; i < work->n; i++)
        work->out[i] = (unsigned char)(work->out[i] + work->add);
    return 0;
}

static int32_t fail_work(void *argument)
{
    return ((const struct launcher *)argument)->call_fails_with;
}

/* On the loop's thread; what it enqueues runs in its order. */
static int32_t launch(void *user, const struct hr_kernel_call *call)
{
    struct launcher *l = user;
    const int32_t rc = look(&l->seen, call);
    if (rc)
        return rc;
    if (l->call_fails_with && call->chunk == l->call_fails_at)
        return hr_host_stream_call(call->stream, fail_work, l);
    struct work *work = &l->work[l->n_work++ % MAX_WORK];
    *work = (struct work){.out = call->out, .in = call->in[0], .n = call->n_units, .add = 3};
    int32_t enqueued = hr_host_stream_call(call->stream, copy_work, work);
    for (int i = 0; i < 3 && !enqueued; i++)
        enqueued = hr_host_stream_call(call->stream, add_work, work);
    return enqueued;
}

static void add_launcher(struct chain *chain, struct launcher *l)
{
    add_function(chain, launch, &l->seen,
                 (struct hr_kernel){.kind = HR_KERNEL_LAUNCH, .unit_out = 1, .text = "rocket"});
    chain->kernels[chain->config.n_kernels - 1].user = l;
}

Test(user_kernels, launch_functions_enqueue_calls)
{
    unsigned char *data = test_bytes(SIZE);
    for (unsigned i = 0; i < 5 * n_loops; i++) {
        struct launcher l = {.seen = {.fail_unit = UINT64_MAX, .stream = data}};
        struct chain chain;
        start(&chain, data, i / n_loops % 5 == 2 ? 300 : SIZE, i / n_loops);
        add_launcher(&chain, &l);
        chain_add(&chain, "crc32");
        assert_ok(&chain, loops[i % n_loops]);
        for (size_t k = 0; k < chain.n_out; k++)
            cr_assert_eq(chain.out[k], (unsigned char)(data[k] + 9));
        cr_assert_eq(chain.n_out, l.seen.n_units);
        cr_assert_eq(l.seen.n_wrong, 0);
        chain_reset(&chain);
    }
    free(data);
}

Test(user_kernels, launch_functions_and_their_calls_fail)
{
    unsigned char *data = test_bytes(SIZE);
    for (unsigned i = 0; i < 12 * n_loops; i++) {
        const uint64_t chunk = i / n_loops % 6 * 5;
        struct launcher l = {.seen = {.fail_unit = UINT64_MAX}};
        if (i / n_loops / 6 % 2) {
            l.call_fails_at = chunk;
            l.call_fails_with = -7;
        } else {
            l.seen.fail_unit = chunk * CHUNK;
            l.seen.fail_with = -7;
        }
        struct chain chain;
        start(&chain, data, SIZE, 0);
        chain.config.depth = 1 + i % 5;
        chain.config.n_streams = 1 + i % 3;
        add_launcher(&chain, &l);
        chain_run(&chain, loops[i % n_loops]);
        assert_failed(&chain, chunk, -7, "rocket");
        cr_assert_eq(chain.n_out, chunk * CHUNK);
        chain_reset(&chain);
        assert_works(loops[i % n_loops]);
    }
    free(data);
}

Test(user_kernels, a_host_stream_is_only_for_launch_functions)
{
    cr_assert_neq(hr_host_stream_call(NULL, copy_work, NULL), 0);
}

/* ---- kernels and devices that cannot be ---- */

static void assert_refused(struct hr_kernel kernel, hr_status status, const char *names,
                           const char *accepts)
{
    struct chain chain;
    chain_init(&chain);
    chain_read_memory(&chain, "abcd", 4);
    chain_add(&chain, "crc32");
    chain_add_kernel(&chain, kernel);
    const char *text = chain.error.text;
    cr_assert_eq(chain_create(&chain, loops[0]), status, "%s: %s", names, text);
    cr_assert_null(chain.pipeline);
    cr_assert_eq(chain.error.stage, HR_STAGE_KERNEL, "%s: stage %d", text, chain.error.stage);
    cr_assert(strstr(text, names), "\"%s\" does not name %s", text, names);
    cr_assert(strstr(text, accepts), "\"%s\" does not say %s", text, accepts);
}

Test(user_kernels, wrong_words_are_named_with_what_is_accepted)
{
    static const struct {
        const char *text, *names, *accepts;
    } wrong[] = {
        {"", "\"\"", "crc32"},
        {"sun:f32", "sun", "histogram"},
        {"sum", "\"sum\"", "sum:f32"},
        {"sum:u7", "u7", "bf16"},
        {"sum:u64", "u64", "i64"},
        {"cast:f32", "cast:f32", "a TO is missing"},
        {"cast:f32,u8,u8", "cast:f32,u8,u8", "cast:FROM,TO"},
        {"scale:f32,x,1", "\"x\"", "a number"},
        {"scale:f32,1,nan", "nan", "a number"},
        {"bswap:3", "\"3\"", "2, 4"},
        {"shuffle:4,13", "13", "multiple"},
        {"shuffle:0,16", "\"0\"", ""},
        {"filter:i32,is,3", "is", "lt le gt ge eq ne"},
        {"filter:i32,lt,3.5", "3.5", "integer"},
        {"histogram:f32,1,0,10", "histogram", "LO"},
        {"histogram:f32,0,1,0", "\"0\"", ""},
        {"crc32:u8", "crc32:u8", "crc32"},
    };
    for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_refused((struct hr_kernel){.text = wrong[i].text}, HR_EINVAL, wrong[i].names,
                       wrong[i].accepts);
    assert_works(loops[0]);
}

Test(user_kernels, fields_that_do_not_go_together)
{
    assert_refused((struct hr_kernel){0}, HR_EINVAL, "built-in", "text");
    assert_refused((struct hr_kernel){.kind = 5, .text = "crc32"}, HR_EINVAL, "5", "LAUNCH");
    assert_refused((struct hr_kernel){.kind = HR_KERNEL_FUNCTION}, HR_EINVAL, "function",
                   "needs function");
    assert_refused((struct hr_kernel){.text = "crc32", .flags = 2}, HR_EINVAL, "0x2", "COUNTED");
    assert_refused((struct hr_kernel){.text = "sum:i32", .unit_in = 8}, HR_EINVAL, "sum:i32",
                   "4 bytes");
    assert_refused((struct hr_kernel){.kind = HR_KERNEL_FUNCTION,
                                      .function = only_look,
                                      .flags = HR_KERNEL_COUNTED},
                   HR_EINVAL, "COUNTED", "unit_out");
    assert_refused((struct hr_kernel){.kind = HR_KERNEL_FUNCTION,
                                      .function = only_look,
                                      .unit_in = UINT32_MAX,
                                      .unit_out = 1},
                   HR_EINVAL, "units", "1 GiB");
    assert_refused((struct hr_kernel){.kind = HR_KERNEL_FUNCTION,
                                      .function = only_look,
                                      .unit_out = UINT32_MAX},
                   HR_EINVAL, "kernel 1", "4 GiB");
}

Test(user_kernels, compiled_kernels_want_a_gpu)
{
    assert_refused((struct hr_kernel){.kind = HR_KERNEL_SOURCE, .text = "code", .entry = "f"},
                   HR_EUNSUPPORTED, "\"f\"", "GPU");
    assert_refused(
        (struct hr_kernel){.kind = HR_KERNEL_IMAGE, .image = "code", .image_size = 4, .entry = "f"},
        HR_EUNSUPPORTED, "\"f\"", "GPU");
    assert_refused((struct hr_kernel){.kind = HR_KERNEL_SOURCE, .text = "code"}, HR_EINVAL,
                   "source", "entry");
}

static hr_status create_on(struct chain *chain, const char *device, uint32_t flags, bool kernel)
{
    chain_init(chain);
    chain_read_memory(chain, "abcd", 4);
    if (kernel)
        chain_add(chain, "crc32");
    chain->config.device = device;
    chain->config.flags = flags;
    return chain_create(chain, loops[0]);
}

static void assert_device(const char *device, bool kernel, const char *name)
{
    struct chain chain;
    struct hr_stats stats = {.struct_size = sizeof stats};
    cr_assert_eq(create_on(&chain, device, 0, kernel), HR_OK, "%s", chain.error.text);
    cr_assert_eq(hr_pipeline_stats(chain.pipeline, &stats), HR_OK);
    cr_assert_str_eq(stats.device, name);
    chain_reset(&chain);
}

static bool has_gpu(void)
{
    struct hr_device devices[16] = {{.struct_size = sizeof devices[0]}};
    size_t n = 16;
    cr_assert_eq(hr_devices(devices, &n, NULL), HR_OK);
    return devices[0].present && strcmp(devices[0].name, "host") != 0;
}

Test(user_kernels, names_of_devices)
{
    struct chain chain;
    assert_device("host", true, "host");
    assert_device(NULL, false, "");
    if (!has_gpu()) {
        assert_device("auto", true, "host");
        assert_device(NULL, true, "host");
    }
    static const char *const nonsense[] = {"gpu",    "",     "cuda:",  "cuda:x",
                                           "host:0", "HOST", "cuda:-1"};
    for (unsigned i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++) {
        cr_assert_eq(create_on(&chain, nonsense[i], 0, true), HR_EINVAL, "%s", nonsense[i]);
        cr_assert(strstr(chain.error.text, "auto, host"), "%s", chain.error.text);
    }
    static const char *const absent[] = {"cuda:99", "hip:99"};
    for (unsigned i = 0; i < 2; i++) {
        cr_assert_eq(create_on(&chain, absent[i], 0, true), HR_EUNSUPPORTED);
        cr_assert(strstr(chain.error.text, absent[i]), "%s", chain.error.text);
    }
}

Test(user_kernels, where_nothing_may_be_silent_auto_does_not_fall_to_the_host)
{
    struct chain chain;
    cr_assert_eq(create_on(&chain, "host", HR_STRICT, true), HR_OK);
    chain_reset(&chain);
    if (has_gpu())
        cr_skip("a GPU is there");
    cr_assert_eq(create_on(&chain, "auto", HR_STRICT, true), HR_EUNSUPPORTED);
    cr_assert(strstr(chain.error.text, "host"), "%s", chain.error.text);
    cr_assert_eq(create_on(&chain, NULL, HR_STRICT, true), HR_EUNSUPPORTED);
    cr_assert_eq(create_on(&chain, NULL, HR_STRICT, false), HR_OK, "it needs no device");
    chain_reset(&chain);
}

/* ---- sizes and results ---- */

Test(user_kernels, a_unit_larger_than_the_chunk_makes_the_chunk_larger)
{
    unsigned char *data = test_bytes(SIZE);
    for (unsigned i = 0; i < n_loops; i++) {
        struct seen seen = {.fail_unit = UINT64_MAX, .stream = data};
        struct hr_stats stats = {.struct_size = sizeof stats};
        struct chain chain;
        start(&chain, data, SIZE, 0);
        add_function(&chain, only_look, &seen, (struct hr_kernel){.unit_in = 10000});
        assert_ok(&chain, loops[i]);
        cr_assert_eq(hr_pipeline_stats(chain.pipeline, &stats), HR_OK);
        cr_assert_eq(stats.chunk_size, 10000);
        cr_assert_eq(seen.n_units, 3);
        cr_assert_eq(seen.n_wrong, 0);
        cr_assert_arr_eq(chain.out, data, SIZE);
        chain_reset(&chain);
    }
    free(data);
}

Test(user_kernels, results_are_told_when_they_are_there)
{
    struct hr_result result = {.struct_size = sizeof result};
    hr_error error = {0};
    struct chain chain;
    chain_init(&chain);
    chain_read_memory(&chain, "abcd", 4);
    chain_add(&chain, "bswap:2");
    chain_add(&chain, "sum:u8");
    cr_assert_eq(chain_create(&chain, loops[0]), HR_OK);
    cr_assert_eq(hr_pipeline_result(chain.pipeline, 1, &result, &error), HR_PENDING);
    cr_assert_eq(hr_pipeline_run(chain.pipeline, &error), HR_OK);
    cr_assert_eq(hr_pipeline_result(chain.pipeline, 0, &result, &error), HR_EINVAL);
    cr_assert(strstr(error.text, "kernel 0"), "%s", error.text);
    cr_assert_eq(hr_pipeline_result(chain.pipeline, 2, &result, &error), HR_EINVAL);
    cr_assert_eq(hr_pipeline_result(chain.pipeline, 1, NULL, &error), HR_EINVAL);
    for (int again = 0; again < 2; again++) {
        cr_assert_eq(hr_pipeline_result(chain.pipeline, 1, &result, &error), HR_OK);
        cr_assert_eq(*(const uint64_t *)result.data, 'a' + 'b' + 'c' + 'd');
        cr_assert_eq(result.type, HR_TYPE_U64);
        cr_assert_eq(result.n_units, 4);
    }
    chain_reset(&chain);
    cr_assert_eq(create_on(&chain, NULL, 0, false), HR_OK);
    cr_assert_eq(hr_pipeline_result(chain.pipeline, 0, &result, &error), HR_EINVAL);
    chain_reset(&chain);
}
