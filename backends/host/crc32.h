// SPDX-License-Identifier: Apache-2.0
#ifndef HR__CRC32_H
#define HR__CRC32_H

/*
 * The ways in which hr__crc32 can be computed, all to the same result. They carry the bare
 * register, without zlib's inversions before and after.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hr__crc32_path {
    const char *name;
    size_t min_bytes;        /* of one call */
    bool (*supported)(void); /* by this processor and system */
    uint32_t (*update)(uint32_t crc, const uint8_t *p, size_t n);
};

/* Path i, the fastest first, the tables last; NULL beyond them. */
const struct hr__crc32_path *hr__crc32_path(size_t i);

/* The tables' update: any length. */
uint32_t hr__crc32_by_tables(uint32_t crc, const uint8_t *p, size_t n);

#if defined(__x86_64__) /* crc32_x86.c */
extern const struct hr__crc32_path hr__crc32_clmul_128;
extern const struct hr__crc32_path hr__crc32_clmul_256;
extern const struct hr__crc32_path hr__crc32_clmul_512;
#endif

#endif
