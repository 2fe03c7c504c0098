// SPDX-License-Identifier: Apache-2.0
/* Every built-in kernel, for every type, on the device and on the host: the same bytes and the same
 * findings, of nothing, of one element, and of some thousand small and wild ones. */
#include <stdlib.h>
#include <string.h>

#include "selftest.h"

enum { N_ELEMENTS = 30011, CHUNK = 32768, N_BYTES = 3 * 65536 };

static const char *const types[] = {"u8",  "i8",  "u16",  "i16", "i32",
                                    "i64", "f16", "bf16", "f32", "f64"};
enum { N_TYPES = sizeof types / sizeof types[0] };

/* An asterisk stands for the type. */
static const char *const of_types[] = {
    "cast:*,u8",
    "cast:*,i8",
    "cast:*,u16",
    "cast:*,i16",
    "cast:*,i32",
    "cast:*,i64",
    "cast:*,f16",
    "cast:*,bf16",
    "cast:*,f32",
    "cast:*,f64",
    "scale:*,-2.5,0.125",
    "filter:*,lt,3",
    "filter:*,ne,3",
    "count:*,ge,3",
    "sum:*",
    "mean:*",
    "min:*",
    "max:*",
    "histogram:*,-10,100,7",
};

static const struct {
    const char *text;
    uint64_t unit; /* bytes */
} of_bytes[] = {
    {"bswap:2", 2},
    {"bswap:4", 4},
    {"bswap:8", 8},
    {"shuffle:2,4", 4},
    {"shuffle:4,64", 64},
    {"shuffle:8,4096", 4096},
    {"shuffle:256,65536", 65536},
    {"unshuffle:2,4", 4},
    {"unshuffle:4,64", 64},
    {"unshuffle:8,4096", 4096},
    {"unshuffle:256,65536", 65536},
    {"histogram", 1},
    {"crc32", 1},
};

/* What one check works on: elements of one type. */
struct elements {
    const char *kernel;
    const unsigned char *data[2]; /* small, wild */
    uint64_t size;                /* of each */
    uint64_t unit;
};

static void run_kernel(struct selftest *t, const void *what)
{
    const struct elements *e = what;
    const uint64_t sizes[] = {e->size, e->unit, 0};
    if (e->size == 0)
        fail(t, "the host makes no elements of this type");
    for (int i = 0; i < 2; i++)
        for (size_t k = 0; k < sizeof sizes / sizeof sizes[0] && !t->why[0]; k++)
            compare_flow(t, (struct flow){.source = from_memory(e->data[i], sizes[k]),
                                          .kernels = {e->kernel},
                                          .chunk_size = CHUNK});
}

static void check_type(struct selftest *t, const char *type, unsigned char *const data[2])
{
    char name[64];
    struct elements elements = {.kernel = name, .data = {data[0], data[1]}};
    elements.size = fill_elements(t, type, false, data[0], N_ELEMENTS);
    elements.unit = elements.size / N_ELEMENTS;
    fill_elements(t, type, true, data[1], N_ELEMENTS);
    for (size_t i = 0; i < sizeof of_types / sizeof of_types[0]; i++) {
        const char *star = strchr(of_types[i], '*');
        snprintf(name, sizeof name, "%.*s%s%s", (int)(star - of_types[i]), of_types[i], type,
                 star + 1);
        check(t, name, run_kernel, &elements);
    }
}

void selftest_kernels(struct selftest *t)
{
    const uint64_t size = 8 * (uint64_t)N_ELEMENTS;
    unsigned char *const data[] = {take_memory(size), take_memory(size)};
    for (int i = 0; i < N_TYPES; i++)
        check_type(t, types[i], data);
    fill_random(data[0], N_BYTES, 1);
    for (size_t i = 0; i < sizeof of_bytes / sizeof of_bytes[0]; i++) {
        const uint64_t unit = of_bytes[i].unit;
        const uint64_t n = (N_BYTES / unit - 1) | 1; /* odd */
        const struct elements elements = {of_bytes[i].text, {data[0], data[1]}, n * unit, unit};
        check(t, of_bytes[i].text, run_kernel, &elements);
    }
    free(data[0]);
    free(data[1]);
}
