// SPDX-License-Identifier: Apache-2.0
#include "gpu_cases.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance_table.h"
#include "device_tools.h"

enum { GUARD = 64, GUARD_BYTE = 0xa5, FIRST_UNIT = 1234567 };

struct cases {
    const struct gpu_runner *runner;
    unsigned n_kernels;
    unsigned n_runs;
    unsigned n_differ;
};

/* One kernel on one input. */
struct one_case {
    const struct gpu_runner *runner;
    const char *text;
    struct hr__kernel_spec spec;
    struct hr__gpu_builtin builtin;
    enum gpu_content content;
    uint32_t n_blocks; /* 0: as many as the library takes */
    size_t n;
    const unsigned char *in;
};

static void *must(void *memory)
{
    if (!memory) {
        fputs("not ok: no memory\n", stderr);
        exit(2);
    }
    return memory;
}

void gpu_fill(enum hr__type type, enum gpu_content content, unsigned char *data, size_t n_bytes)
{
    const size_t element = hr__type_bytes(type);
    uint64_t random = 77;
    if (content == GPU_MIXED || content == GPU_SMALL)
        conformance_fill(type, data, n_bytes);
    if (content == GPU_SMALL) /* the element's first byte or two only: never an exponent */
        for (size_t i = 0; i < n_bytes; i++)
            data[i] = (unsigned char)(i % element + 1 == element ? 0x3c : device_random(&random));
    if (content == GPU_SAME)
        memset(data, 3, n_bytes);
    if (content != GPU_FINITE)
        return;
    for (size_t i = 0; i < n_bytes; i++)
        data[i] = (unsigned char)(device_random(&random) >> 11);
    if (type >= HR__TYPE_F16) /* a bit of the exponent is 0 in most; all ones in none */
        for (size_t i = element - 1; i < n_bytes; i += element)
            if ((data[i] & 0x7c) == 0x7c)
                data[i] &= 0xbf;
}

static uint32_t blocks_of(const struct one_case *c, size_t n_units)
{
    const uint64_t n_bytes = (uint64_t)n_units * c->spec.unit_in_bytes;
    return c->n_blocks ? c->n_blocks : hr__gpu_builtin_blocks(&c->builtin, n_bytes);
}

static bool run_part(const struct one_case *c, size_t at, size_t n, struct gpu_run *run)
{
    run->builtin = &c->builtin;
    run->n_blocks = blocks_of(c, n);
    run->in = c->in + at * c->spec.unit_in_bytes;
    run->in_bytes = n * c->spec.unit_in_bytes;
    run->n_units = n;
    run->first_unit = FIRST_UNIT + at;
    return c->runner->run(c->runner->user, run);
}

/* Two launches with one state, as two chunks of a stream, against one fold. */
static bool reduction_agrees(const struct one_case *c)
{
    const size_t size = c->spec.state_bytes;
    const size_t half = c->n / 2;
    void *expected = must(malloc(3 * size));
    void *state = (unsigned char *)expected + size;
    void *merged = (unsigned char *)expected + 2 * size;
    struct hr__reduce_result want;
    struct hr__reduce_result got;
    hr__reduce_init(&c->spec, expected);
    hr__reduce_init(&c->spec, state);
    hr__reduce_init(&c->spec, merged);
    struct gpu_run run = {.state = state};
    bool same = half == 0 || run_part(c, 0, half, &run);
    same = same && run_part(c, half, c->n - half, &run);
    hr__reduce_fold(&c->spec, expected, c->in, c->n, FIRST_UNIT);
    hr__reduce_merge(&c->spec, merged, state);
    same = same && memcmp(merged, expected, size) == 0;
    hr__reduce_finish(&c->spec, expected, &want);
    hr__reduce_finish(&c->spec, state, &got); /* without the merge, too */
    const size_t n_bytes = want.n_values * hr__type_bytes(want.type);
    same = same && got.n_units == want.n_units && got.n_values == want.n_values &&
           memcmp(got.data, want.data, n_bytes) == 0;
    free(expected);
    return same;
}

static bool is_guarded(const unsigned char *p)
{
    for (size_t i = 0; i < GUARD; i++)
        if (p[i] != GUARD_BYTE)
            return false;
    return true;
}

/* Of a filter: in turn with the one scratch memory, which must be left zero. */
static bool output_agrees(const struct one_case *c)
{
    const size_t size = c->n * c->spec.unit_out_bytes;
    unsigned char *expected = must(malloc(size + 1));
    unsigned char *out = must(malloc(size + GUARD));
    unsigned char *scratch = must(calloc(1, c->builtin.state_bytes + 1));
    size_t n_kept = c->n;
    memset(out, GUARD_BYTE, size + GUARD);
    if (c->spec.is_counted)
        n_kept = hr__kernel_filter(&c->spec, c->in, expected, c->n);
    else
        hr__kernel_map(&c->spec, c->in, expected, c->n);
    struct gpu_run run = {
        .out = out,
        .out_bytes = size + GUARD,
        .count = c->n,
        .state = c->spec.is_counted ? scratch : NULL,
    };
    bool same = run_part(c, 0, c->n, &run) && run.count == n_kept;
    same = same && memcmp(out, expected, n_kept * c->spec.unit_out_bytes) == 0;
    same = same && is_guarded(out + size);
    for (size_t i = 0; i < c->builtin.state_bytes && c->spec.is_counted; i++)
        same = same && scratch[i] == 0;
    free(expected);
    free(out);
    free(scratch);
    return same;
}

static bool agrees(const struct one_case *c)
{
    const bool same = c->spec.is_reduction ? reduction_agrees(c) : output_agrees(c);
    if (!same)
        printf("# %s (%s): %zu units, content %d, %u blocks\n", c->text, c->builtin.entry, c->n,
               (int)c->content, blocks_of(c, c->n));
    return same;
}

/* Sizes about the vectors, tiles and segments of the kernels, each with some grid. */
static bool content_agrees(struct one_case *c, unsigned *n_runs)
{
    static const struct {
        size_t n;
        uint32_t n_blocks;
    } shapes[] = {{1, 1},    {2, 2},     {15, 1},    {17, 1},    {255, 1},    {1024, 1},
                  {4097, 3}, {10007, 0}, {20001, 3}, {70001, 7}, {262145, 0}, {3000017, 0}};
    bool same = true;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        c->n = shapes[i].n;
        c->n_blocks = shapes[i].n_blocks;
        if (c->n * c->spec.unit_in_bytes > c->runner->max_bytes)
            break;
        same = agrees(c) && same;
        ++*n_runs;
    }
    return same;
}

static void check_kernel(void *user, const char *text)
{
    struct cases *cases = user;
    struct one_case c = {.runner = cases->runner, .text = text};
    unsigned char *in = must(malloc(cases->runner->max_bytes));
    bool same = hr__kernel_parse(text, &c.spec, NULL, 0) == 0;
    same = same && hr__gpu_builtin(&c.spec, &c.builtin) == HR_OK;
    c.in = in;
    for (int content = 0; same && content < cases->runner->n_contents; content++) {
        c.content = (enum gpu_content)content;
        gpu_fill(c.spec.from, c.content, in, cases->runner->max_bytes);
        same = content_agrees(&c, &cases->n_runs);
    }
    if (!same) {
        printf("not ok %s\n", text);
        cases->n_differ++;
    }
    cases->n_kernels++;
    free(in);
}

unsigned gpu_cases(const struct gpu_runner *runner)
{
    struct cases cases = {.runner = runner};
    conformance_each_kernel(check_kernel, &cases);
    printf("%s %u kernels as the host's, %u differ, %u runs\n", cases.n_differ ? "not ok" : "ok",
           cases.n_kernels - cases.n_differ, cases.n_differ, cases.n_runs);
    return cases.n_differ;
}
