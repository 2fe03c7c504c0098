// SPDX-License-Identifier: Apache-2.0
/* Every byte that a pipeline delivered, beside what plain code of the host makes of its source. */
#include <stdio.h>
#include <string.h>

#include "gpu_ceilings.h"
#include "gpu_parts.h"
#include "gpu_ways.h"

union block {
    float floats[PART_UNIT / sizeof(float)];
    uint16_t words[PART_UNIT / sizeof(uint16_t)];
    uint8_t bytes[PART_UNIT];
};

/* From whole numbers below 2^21 to others, so that the arithmetic is exact in any order. */
static void scale(float *out, const float *in, size_t n, float mul, float add)
{
    for (size_t i = 0; i < n; i++)
        out[i] = in[i] * mul + add;
}

static void halve(uint8_t *out, const uint16_t *in, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (uint8_t)(in[i] < UINT8_MAX ? in[i] : UINT8_MAX);
}

static void double_width(uint16_t *out, const uint8_t *in, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = in[i];
}

/* n bytes at an offset of the output, as the host computes them: in the block or where they lie. */
static const void *expected(const struct way *way, const struct areas *a, uint64_t at, size_t n,
                            union block *block)
{
    const void *in = way_is_of_file(way) ? a->file + at : a->in + at;
    switch (way->law) {
    case SAME:
    case COUNTED:
        return in;
    case TURNED:
        scale(block->floats, in, n / sizeof(float), -2, 1);
        break;
    case RAISED:
        scale(block->floats, in, n / sizeof(float), 1, (float)way->n_kernels);
        break;
    case HALVED:
        halve(block->bytes, (const void *)(a->in + 2 * at), n);
        break;
    case DOUBLED:
        double_width(block->words, a->in + at / 2, n / sizeof(uint16_t));
        break;
    }
    return block;
}

static void verify_count(const struct way *way, const struct areas *a, uint64_t n_negative)
{
    const float *floats = (const float *)(const void *)a->in;
    uint64_t n = 0;
    for (uint64_t i = 0; i < a->size / sizeof *floats; i++)
        n += floats[i] < 0;
    if (n != n_negative)
        stop(way->name, "the reduction has another result than the host's");
}

struct arrival {
    const struct way *way;
    const struct areas *areas;
    const unsigned char *bytes;
};

static void verify_part(const void *work, uint64_t begin, uint64_t end)
{
    union block block;
    const struct arrival *got = work;
    for (uint64_t at = begin; at < end; at += PART_UNIT) {
        const size_t n = end - at < PART_UNIT ? end - at : PART_UNIT;
        if (memcmp(got->bytes + at, expected(got->way, got->areas, at, n, &block), n) != 0) {
            char text[64];
            snprintf(text, sizeof text, "wrong bytes between %llu and %llu", (unsigned long long)at,
                     (unsigned long long)(at + n));
            stop(got->way->name, text);
        }
    }
}

void way_verify(const struct way *way, const struct areas *a, const struct sample *sample)
{
    const uint64_t size = way_bytes_out(way, a);
    const struct arrival arrival = {
        .way = way, .areas = a, .bytes = way->to == PAGEABLE ? a->pageable : a->out};
    if (way->to == ON_DEVICE)
        there_get(a->out, a->there, size);
    in_parts(verify_part, &arrival, size);
    if (way->law == COUNTED)
        verify_count(way, a, sample->n_negative);
}
