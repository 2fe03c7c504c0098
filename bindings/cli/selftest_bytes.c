// SPDX-License-Identifier: Apache-2.0
/* The memory that the checks work with, and the bytes in it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "selftest.h"

unsigned char *take_memory(uint64_t size)
{
    enum { PAGE = 4096 };
    const size_t all = ((size_t)size / PAGE + 1) * PAGE;
    unsigned char *memory = aligned_alloc(PAGE, all);
    if (!memory) {
        fprintf(stderr, "headrace: no memory for a check\n");
        exit(EXIT_TRANSFER);
    }
    memset(memory, PAINT, all);
    return memory;
}

void expect_guard(struct selftest *t, const char *what, const unsigned char *memory, uint64_t size)
{
    for (uint64_t i = 0; i < GUARD; i++)
        if (memory[size + i] != PAINT)
            fail(t, "%s: byte %llu behind the %llu was written", what, (unsigned long long)i,
                 (unsigned long long)size);
}

/* splitmix64, with the numbers of its author's code. */
uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

void fill_random(unsigned char *data, uint64_t size, uint64_t seed)
{
    for (uint64_t at = 0; at < size; at += sizeof(uint64_t)) {
        const uint64_t bits = next_random(&seed);
        const uint64_t left = size - at;
        memcpy(data + at, &bits, left < sizeof bits ? (size_t)left : sizeof bits);
    }
}

/* ---- elements ---- */

/* Quarters from -300 to 300; wild: between them what has gone wrong somewhere before. */
static double some_number(uint64_t random, bool wild)
{
    static const double special[] = {
        0.0,
        -0.0,
        (double)INFINITY,
        -(double)INFINITY,
        (double)NAN,
        255.5,
        -128.5,
        65504.0,
        65520.0,
        0x1p31,
        -0x1p31,
        0x1p63,
        1e300,
        -1e300,
        0x1p-24,
        -0x1p-25,
        0x1p-149,
        0x1p-1074,
        0x1.001p0,
        32767.5,
        -32768.5,
        0x1p-126,
        -0x1p-1022,
        256.0,
        0x1p53,
        65535.0,
        0.5,
        1.5,
    };
    if (wild && random % 3 == 0)
        return special[(random >> 8) % (sizeof special / sizeof special[0])];
    return ((double)((random >> 8) % 2401) - 1200.0) / 4;
}

uint64_t fill_elements(struct selftest *t, const char *type, bool wild, unsigned char *data,
                       uint32_t n)
{
    enum { SEED = 20 };
    char cast[32];
    double *numbers = (double *)(void *)take_memory((uint64_t)n * sizeof *numbers);
    uint64_t state = SEED + wild;
    struct outcome got;
    snprintf(cast, sizeof cast, "cast:f64,%s", type);
    for (uint32_t i = 0; i < n; i++)
        numbers[i] = some_number(next_random(&state), wild);
    const struct flow flow = {.device = "host",
                              .source = from_memory(numbers, (uint64_t)n * sizeof *numbers),
                              .sink = to_memory(data, (uint64_t)n * sizeof *numbers),
                              .kernels = {cast}};
    const bool made = must_run(t, &flow, &got);
    free(numbers);
    if (!made || n == 0)
        return 0;
    const uint64_t bytes = got.size / n;
    for (uint32_t i = 0; wild && i < n; i += 4) { /* every fourth: any bits */
        const uint64_t bits = next_random(&state);
        memcpy(data + i * bytes, &bits, (size_t)bytes);
    }
    return got.size;
}
