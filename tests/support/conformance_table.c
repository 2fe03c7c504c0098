// SPDX-License-Identifier: Apache-2.0
#include "conformance_table.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "device_tools.h"

/* An asterisk stands for the type. */
static const char *const for_all_types[] = {
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
    "scale:*,1,0",
    "scale:*,-2.5,0.125",
    "scale:*,1e30,7",
    "sum:*",
    "mean:*",
    "min:*",
    "max:*",
    "histogram:*,-10,100,7",
    "histogram:*,0,256,256",
    "filter:*,lt,3",
    "filter:*,le,3",
    "filter:*,gt,3",
    "filter:*,ge,3",
    "filter:*,eq,3",
    "filter:*,ne,3",
    "count:*,lt,3",
    "count:*,le,3",
    "count:*,gt,3",
    "count:*,ge,3",
    "count:*,eq,3",
    "count:*,ne,3",
};
static const char *const for_signed_types[] = {"filter:*,ge,-7", "count:*,lt,-1"};
static const char *const for_floats[] = {"filter:*,lt,-0.25", "filter:*,lt,inf", "count:*,eq,0",
                                         "count:*,gt,1e300", "histogram:*,-0.3,0.3,1000"};
static const char *const for_bytes[] = {
    "bswap:2",
    "bswap:4",
    "bswap:8",
    "shuffle:1,5",
    "shuffle:2,4",
    "shuffle:3,9",
    "shuffle:4,4",
    "shuffle:4,64",
    "shuffle:8,4096",
    "shuffle:256,65536",
    "unshuffle:1,5",
    "unshuffle:2,4",
    "unshuffle:3,9",
    "unshuffle:4,4",
    "unshuffle:4,64",
    "unshuffle:8,4096",
    "unshuffle:256,65536",
    "histogram",
    "crc32",
};

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

static void expand(const char *const *templates, size_t n, enum hr__type type,
                   void (*fn)(void *user, const char *text), void *user)
{
    for (size_t i = 0; i < n; i++) {
        char text[64];
        const char *rest = strchr(templates[i], '*');
        snprintf(text, sizeof text, "%.*s%s%s", (int)(rest - templates[i]), templates[i],
                 hr__type_name(type), rest + 1);
        fn(user, text);
    }
}

void conformance_each_kernel(void (*fn)(void *user, const char *text), void *user)
{
    for (unsigned i = 0; i < HR__N_DATA_TYPES; i++) {
        const enum hr__type type = (enum hr__type)i;
        expand(for_all_types, LENGTH(for_all_types), type, fn, user);
        if (type != HR__TYPE_U8 && type != HR__TYPE_U16)
            expand(for_signed_types, LENGTH(for_signed_types), type, fn, user);
        if (type >= HR__TYPE_F16)
            expand(for_floats, LENGTH(for_floats), type, fn, user);
    }
    for (size_t i = 0; i < LENGTH(for_bytes); i++)
        fn(user, for_bytes[i]);
}

static double some_number(uint64_t random)
{
    static const double special[] = {
        0.0,     -0.0,     INFINITY,  -INFINITY, NAN,     1.0,     -1.0,     0.5,    1.5,   2.5,
        255.5,   -128.5,   3.0,       65504.0,   65520.0, 0x1p31,  -0x1p31,  0x1p63, 1e300, 0x1p-24,
        0x1p-25, 0x1p-149, 0x1p-1074, 0x1.001p0, 256.0,   32767.5, -32768.5, 99.99,  -10.0, 100.0,
    };
    if (random % 3 == 0)
        return special[(random >> 8) % LENGTH(special)];
    return ((double)((random >> 8) % 2401) - 1200.0) / 4;
}

void conformance_fill(enum hr__type type, unsigned char *data, size_t n_bytes)
{
    enum { BLOCK = 256 };
    char text[32];
    struct hr__kernel_spec cast;
    uint64_t state = (uint64_t)type + 1;
    const size_t element = hr__type_bytes(type);
    snprintf(text, sizeof text, "cast:f64,%s", hr__type_name(type));
    const int rc = hr__kernel_parse(text, &cast, NULL, 0);
    assert(rc == 0);
    (void)rc;
    for (size_t at = 0; at + element <= n_bytes; at += BLOCK * element) {
        double numbers[BLOCK];
        unsigned char elements[BLOCK * sizeof(double)];
        for (size_t i = 0; i < BLOCK; i++)
            numbers[i] = some_number(device_random(&state));
        hr__kernel_map(&cast, numbers, elements, BLOCK);
        for (size_t i = 0; i < BLOCK; i += 4) { /* every fourth: any bits */
            const uint64_t bits = device_random(&state);
            memcpy(elements + i * element, &bits, element);
        }
        const size_t left = n_bytes - at;
        memcpy(data + at, elements, left < BLOCK * element ? left : BLOCK * element);
    }
}
