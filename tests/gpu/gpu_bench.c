// SPDX-License-Identifier: Apache-2.0
#include "gpu_bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver_calls.h"
#include "gpu_cases.h"

enum { N_SAMPLES = 5 };
static const size_t sizes[] = {(size_t)8 << 20, (size_t)512 << 20};
enum { LARGEST = 512 << 20, WIDENING = 8 };

struct bench {
    void *module;
    void *begin;
    void *end;
    struct gpu_memory memory;
    enum hr__type filled_type;
    int filled_content; /* -1: nothing yet */
    double ceiling[2];
};

struct bench_kernel {
    void *function;
    struct hr__kernel_spec spec;
    struct hr__gpu_builtin builtin;
};

static const struct {
    const char *text;
    enum gpu_content content;
} benched[] = {
    {"cast:f32,f32", GPU_SMALL},
    {"cast:f32,f16", GPU_MIXED},
    {"cast:f16,f32", GPU_MIXED},
    {"cast:f32,bf16", GPU_MIXED},
    {"cast:bf16,f32", GPU_MIXED},
    {"cast:f64,f32", GPU_MIXED},
    {"cast:f64,f16", GPU_MIXED},
    {"cast:f32,u8", GPU_MIXED},
    {"cast:u8,f32", GPU_MIXED},
    {"cast:u8,f64", GPU_MIXED},
    {"cast:i64,bf16", GPU_MIXED},
    {"cast:i64,i8", GPU_MIXED},
    {"cast:u8,i8", GPU_MIXED},
    {"cast:f64,i64", GPU_MIXED},
    {"scale:f32,-2.5,0.125", 0},
    {"scale:f16,-2.5,0.125", 0},
    {"scale:u8,-2.5,0.125", 0},
    {"scale:i64,-2.5,0.125", 0},
    {"bswap:2", 0},
    {"bswap:4", 0},
    {"bswap:8", 0},
    {"shuffle:2,65536", 0},
    {"shuffle:4,65536", 0},
    {"shuffle:8,65536", 0},
    {"shuffle:3,65535", 0},
    {"shuffle:16,65536", 0},
    {"shuffle:256,65536", 0},
    {"unshuffle:2,65536", 0},
    {"unshuffle:4,65536", 0},
    {"unshuffle:8,65536", 0},
    {"unshuffle:16,65536", 0},
    {"unshuffle:256,65536", 0},
    {"sum:u8", GPU_MIXED},
    {"sum:i32", GPU_MIXED},
    {"sum:i64", GPU_MIXED},
    {"sum:f16", GPU_SMALL},
    {"sum:f32", GPU_SMALL},
    {"sum:f64", GPU_SMALL},
    {"sum:f16", GPU_FINITE},
    {"sum:bf16", GPU_FINITE},
    {"sum:f32", GPU_FINITE},
    {"sum:f64", GPU_FINITE},
    {"sum:f32", GPU_MIXED},
    {"sum:f64", GPU_MIXED},
    {"min:u8", GPU_MIXED},
    {"max:f16", GPU_MIXED},
    {"min:f32", GPU_MIXED},
    {"max:f64", GPU_MIXED},
    {"histogram", GPU_FINITE},
    {"histogram", GPU_SAME},
    {"histogram:f32,-10,100,7", 0},
    {"histogram:f32,0,256,256", GPU_MIXED},
    {"histogram:f32,-0.3,0.3,1000", GPU_SMALL},
    {"histogram:f64,0,256,256", GPU_MIXED},
    {"histogram:f32,-1000,1000,100000", GPU_MIXED},
    {"count:f32,lt,3", GPU_MIXED},
    {"count:u8,lt,3", GPU_MIXED},
    {"filter:f32,lt,3", GPU_MIXED},
    {"filter:f32,lt,-1e30", GPU_SMALL},
    {"filter:u8,lt,3", GPU_MIXED},
    {"filter:u8,ge,0", GPU_MIXED},
    {"filter:f64,ge,0", GPU_MIXED},
    {"crc32", GPU_FINITE},
};

/* 64 MiB made on the host, repeated on the device. */
static bool fill(struct bench *b, enum hr__type type, enum gpu_content content)
{
    enum { PART = 64 << 20 };
    if (b->filled_content == (int)content && b->filled_type == type)
        return true;
    unsigned char *data = malloc(PART);
    bool ok = data != NULL;
    if (ok)
        gpu_fill(type, content, data, PART);
    for (size_t at = 0; ok && at < LARGEST; at += PART)
        ok = cuda_ok(cuda.to_device(b->memory.in + at, data, PART), "input");
    free(data);
    b->filled_type = type;
    b->filled_content = (int)content;
    return ok;
}

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a;
    const float y = *(const float *)b;
    return (x > y) - (x < y);
}

bool gpu_enqueue(void *function, const struct hr__gpu_builtin *builtin, uint32_t n_blocks,
                 const struct gpu_memory *memory, uint64_t n_units, uint64_t first_unit)
{
    struct gpu_memory m = *memory;
    unsigned char args[HR__GPU_ARGS_SIZE];
    memcpy(args, builtin->args, sizeof args);
    void *parameters[] = {&m.in, &m.out, &n_units, &first_unit, &m.count, &m.state, args};
    return cuda_ok(
        cuda.launch(function, n_blocks, 1, 1, builtin->block, 1, 1, 0, NULL, parameters, NULL),
        builtin->entry);
}

/* Without a kernel: the copy. */
static bool enqueue(const struct bench *b, const struct bench_kernel *k, size_t n_bytes)
{
    if (!k)
        return cuda_ok(cuda.on_device(b->memory.out, b->memory.in, n_bytes, NULL), "copy");
    return gpu_enqueue(k->function, &k->builtin, hr__gpu_builtin_blocks(&k->builtin, n_bytes),
                       &b->memory, n_bytes / k->spec.unit_in_bytes, 0);
}

/* Milliseconds of one launch, the median; several launches in a sample where they are short. */
static bool measure(const struct bench *b, const struct bench_kernel *k, size_t n_bytes, float *ms)
{
    const int n = n_bytes < (size_t)64 << 20 ? 10 : 1;
    float sample[N_SAMPLES] = {0};
    bool ok = enqueue(b, k, n_bytes) && cuda_ok(cuda.synchronize(), "warm-up");
    for (int s = 0; ok && s < N_SAMPLES; s++) {
        ok = cuda_ok(cuda.event_record(b->begin, NULL), "event");
        for (int i = 0; ok && i < n; i++)
            ok = enqueue(b, k, n_bytes);
        ok = ok && cuda_ok(cuda.event_record(b->end, NULL), "event") &&
             cuda_ok(cuda.event_synchronize(b->end), "measured") &&
             cuda_ok(cuda.elapsed(&sample[s], b->begin, b->end), "time");
        sample[s] /= (float)n;
    }
    qsort(sample, N_SAMPLES, sizeof sample[0], by_value);
    *ms = sample[N_SAMPLES / 2];
    return ok;
}

static bool prepare(const struct bench *b, const char *text, struct bench_kernel *k)
{
    unsigned char *state = NULL;
    if (hr__kernel_parse(text, &k->spec, NULL, 0) != 0 ||
        hr__gpu_builtin(&k->spec, &k->builtin) != HR_OK) {
        printf("not ok # %s\n", text);
        return false;
    }
    state = calloc(1, k->builtin.state_bytes + 1);
    if (!state)
        return false;
    if (k->spec.is_reduction)
        hr__reduce_init(&k->spec, state);
    bool ok = cuda_ok(cuda.module_function(&k->function, b->module, k->builtin.entry), text);
    if (k->builtin.state_bytes > 0)
        ok = ok && cuda_ok(cuda.to_device(b->memory.state, state, k->builtin.state_bytes), "state");
    free(state);
    return ok;
}

static bool bench_one(struct bench *b, const char *text, enum gpu_content content)
{
    static const char *const contents[] = {"mixed", "finite", "small", "same"};
    enum { REGISTERS = 4, SHARED = 1, LOCAL = 3 }; /* CUfunction_attribute */
    struct bench_kernel k;
    int registers = 0;
    int shared = 0;
    int local = 0;
    if (!prepare(b, text, &k) || !fill(b, k.spec.from, content))
        return false;
    cuda.function_attribute(&registers, REGISTERS, k.function);
    cuda.function_attribute(&shared, SHARED, k.function);
    cuda.function_attribute(&local, LOCAL, k.function);
    printf("%-32s %-7s", text, contents[content]);
    for (int i = 0; i < 2; i++) {
        const size_t n_units = sizes[i] / k.spec.unit_in_bytes;
        float ms = 0;
        if (!measure(b, &k, n_units * k.spec.unit_in_bytes, &ms))
            return false;
        uint64_t n_out = n_units;
        if (k.spec.is_counted &&
            !cuda_ok(cuda.to_host(&n_out, b->memory.count, sizeof n_out), "count"))
            return false;
        const double moved =
            (double)n_units * k.spec.unit_in_bytes + (double)n_out * k.spec.unit_out_bytes;
        const double rate = moved / (double)ms / 1e6;
        printf(" %9.1f us %7.0f GB/s %5.2f", (double)ms * 1e3, rate, rate / b->ceiling[i]);
    }
    printf("   %3d registers %5d B shared %d B local\n", registers, shared, local);
    return true;
}

bool gpu_bench(void *module)
{
    struct bench b = {.module = module, .filled_content = -1};
    bool ok = cuda_ok(cuda.alloc(&b.memory.in, LARGEST), "memory") &&
              cuda_ok(cuda.alloc(&b.memory.out, (size_t)LARGEST * WIDENING), "memory") &&
              cuda_ok(cuda.alloc(&b.memory.state, (size_t)16 << 20), "memory") &&
              cuda_ok(cuda.alloc(&b.memory.count, 256), "memory") &&
              cuda_ok(cuda.event_create(&b.begin, 0), "event") &&
              cuda_ok(cuda.event_create(&b.end, 0), "event");
    printf("# GB/s of input and output, and the share of a copy's, on 8 and on 512 MiB of input\n");
    for (int i = 0; ok && i < 2; i++) {
        float ms = 0;
        ok = measure(&b, NULL, sizes[i], &ms);
        b.ceiling[i] = 2.0 * (double)sizes[i] / (double)ms / 1e6;
        printf("# copy of %zu MiB: %.1f us, %.0f GB/s\n", sizes[i] >> 20, (double)ms * 1e3,
               b.ceiling[i]);
    }
    for (size_t i = 0; ok && i < sizeof benched / sizeof benched[0]; i++)
        ok = bench_one(&b, benched[i].text, benched[i].content) && ok;
    printf("%s bench\n", ok ? "ok" : "not ok");
    return ok;
}
