// SPDX-License-Identifier: Apache-2.0
/*
 * CRC-32 by carry-less multiplication, 128, 256 or 512 bits at a time (Gopal et al., "Fast CRC
 * Computation for Generic Polynomials Using PCLMULQDQ", Intel, 2009).
 *
 * Four accumulators a to d go over the data side by side. A step multiplies each by x^D mod P, D
 * being the bits of a step, and adds what lies there:
 *
 *     data  │ a │ b │ c │ d │ a │ b │ c │ d │ ... │ a │ b │ c │ d │ rest │
 *             └──── x^D ────▶                       └─────┬─────┘
 *                                     congruent to all that was read, and so read in its place
 *
 * by the narrowest path, and the rest after it. A lane of 128 bits is multiplied in two halves, by
 * x^(D+32) and x^(D-32) mod P. The constants are these, reflected and shifted left by one bit as a
 * reflected product needs; those for D = 512 and 128 are in the paper's appendix, the others follow
 * by the same rule.
 */
#include "crc32.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET_128 __attribute__((target("pclmul,sse4.1")))
#define TARGET_256 __attribute__((target("pclmul,avx2,vpclmulqdq")))
#define TARGET_512 __attribute__((target("pclmul,avx512f,vpclmulqdq")))

/* ---- 128 bits: D = 512 ---- */

enum { STEP_128 = 64 };

TARGET_128 static inline __m128i load_128(const uint8_t *p)
{
    return _mm_loadu_si128((const void *)p);
}

TARGET_128 static inline __m128i fold_128(__m128i acc, __m128i k, __m128i next)
{
    const __m128i lo = _mm_clmulepi64_si128(acc, k, 0x00);
    const __m128i hi = _mm_clmulepi64_si128(acc, k, 0x11);
    return _mm_xor_si128(_mm_xor_si128(lo, hi), next);
}

/* The narrowest path folds its accumulators into one, D = 128, and leaves that to the tables. */
TARGET_128 static uint32_t update_128(uint32_t crc, const uint8_t *p, size_t n)
{
    const __m128i k_step = _mm_set_epi64x(0x1c6e41596, 0x154442bd4);
    const __m128i k_lane = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
    __m128i a = _mm_xor_si128(load_128(p), _mm_cvtsi32_si128((int)crc));
    __m128i b = load_128(p + 16);
    __m128i c = load_128(p + 32);
    __m128i d = load_128(p + 48);
    for (p += STEP_128, n -= STEP_128; n >= STEP_128; p += STEP_128, n -= STEP_128) {
        a = fold_128(a, k_step, load_128(p));
        b = fold_128(b, k_step, load_128(p + 16));
        c = fold_128(c, k_step, load_128(p + 32));
        d = fold_128(d, k_step, load_128(p + 48));
    }
    a = fold_128(fold_128(fold_128(a, k_lane, b), k_lane, c), k_lane, d);
    for (; n >= 16; p += 16, n -= 16)
        a = fold_128(a, k_lane, load_128(p));
    uint8_t held[16];
    _mm_storeu_si128((void *)held, a);
    return hr__crc32_by_tables(hr__crc32_by_tables(0, held, sizeof held), p, n);
}

static bool has_128(void)
{
    return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
}

const struct hr__crc32_path hr__crc32_clmul_128 = {
    .name = "PCLMULQDQ, 128 bits",
    .min_bytes = STEP_128,
    .supported = has_128,
    .update = update_128,
};

/* What a wider path leaves: its accumulators, then fewer bytes than its step. */
static uint32_t finish(const uint8_t *held, size_t n_held, const uint8_t *p, size_t n)
{
    const uint32_t crc = update_128(0, held, n_held);
    return n >= STEP_128 ? update_128(crc, p, n) : hr__crc32_by_tables(crc, p, n);
}

/* ---- 256 bits: D = 1024 ---- */

enum { STEP_256 = 128 };

TARGET_256 static inline __m256i load_256(const uint8_t *p)
{
    return _mm256_loadu_si256((const void *)p);
}

TARGET_256 static inline __m256i fold_256(__m256i acc, __m256i k, __m256i next)
{
    const __m256i lo = _mm256_clmulepi64_epi128(acc, k, 0x00);
    const __m256i hi = _mm256_clmulepi64_epi128(acc, k, 0x11);
    return _mm256_xor_si256(_mm256_xor_si256(lo, hi), next);
}

TARGET_256 static uint32_t update_256(uint32_t crc, const uint8_t *p, size_t n)
{
    const __m256i k = _mm256_set_epi64x(0x14a7fe880, 0x1e88ef372, 0x14a7fe880, 0x1e88ef372);
    __m256i a = _mm256_xor_si256(load_256(p), _mm256_set_epi32(0, 0, 0, 0, 0, 0, 0, (int)crc));
    __m256i b = load_256(p + 32);
    __m256i c = load_256(p + 64);
    __m256i d = load_256(p + 96);
    for (p += STEP_256, n -= STEP_256; n >= STEP_256; p += STEP_256, n -= STEP_256) {
        a = fold_256(a, k, load_256(p));
        b = fold_256(b, k, load_256(p + 32));
        c = fold_256(c, k, load_256(p + 64));
        d = fold_256(d, k, load_256(p + 96));
    }
    uint8_t held[STEP_256];
    _mm256_storeu_si256((void *)held, a);
    _mm256_storeu_si256((void *)(held + 32), b);
    _mm256_storeu_si256((void *)(held + 64), c);
    _mm256_storeu_si256((void *)(held + 96), d);
    return finish(held, sizeof held, p, n);
}

static bool has_256(void)
{
    return has_128() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("vpclmulqdq");
}

const struct hr__crc32_path hr__crc32_clmul_256 = {
    .name = "VPCLMULQDQ, 256 bits",
    .min_bytes = (size_t)4 * STEP_256, /* below, the narrower path ends sooner */
    .supported = has_256,
    .update = update_256,
};

/* ---- 512 bits: D = 2048 ---- */

enum { STEP_512 = 256 };

TARGET_512 static inline __m512i load_512(const uint8_t *p)
{
    return _mm512_loadu_si512((const void *)p);
}

TARGET_512 static inline __m512i fold_512(__m512i acc, __m512i k, __m512i next)
{
    enum { XOR_OF_THREE = 0x96 };
    const __m512i lo = _mm512_clmulepi64_epi128(acc, k, 0x00);
    const __m512i hi = _mm512_clmulepi64_epi128(acc, k, 0x11);
    return _mm512_ternarylogic_epi64(lo, hi, next, XOR_OF_THREE);
}

TARGET_512 static uint32_t update_512(uint32_t crc, const uint8_t *p, size_t n)
{
    const __m512i k = _mm512_set4_epi64(0x1322d1430, 0x11542778a, 0x1322d1430, 0x11542778a);
    const __m512i first = _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc));
    __m512i a = _mm512_xor_si512(load_512(p), first);
    __m512i b = load_512(p + 64);
    __m512i c = load_512(p + 128);
    __m512i d = load_512(p + 192);
    for (p += STEP_512, n -= STEP_512; n >= STEP_512; p += STEP_512, n -= STEP_512) {
        a = fold_512(a, k, load_512(p));
        b = fold_512(b, k, load_512(p + 64));
        c = fold_512(c, k, load_512(p + 128));
        d = fold_512(d, k, load_512(p + 192));
    }
    uint8_t held[STEP_512];
    _mm512_storeu_si512(held, a);
    _mm512_storeu_si512(held + 64, b);
    _mm512_storeu_si512(held + 128, c);
    _mm512_storeu_si512(held + 192, d);
    return finish(held, sizeof held, p, n);
}

static bool has_512(void)
{
    return has_128() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq");
}

const struct hr__crc32_path hr__crc32_clmul_512 = {
    .name = "VPCLMULQDQ, 512 bits",
    .min_bytes = (size_t)4 * STEP_512,
    .supported = has_512,
    .update = update_512,
};
#endif
