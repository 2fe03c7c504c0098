// SPDX-License-Identifier: Apache-2.0
/*
 * CRC-32 (IEEE 802.3, reflected polynomial 0xedb88320, as zlib's): slicing-by-8 tables (Kounavis
 * and Berry, 2005), the choice of a faster path where the processor has one, and the arithmetic of
 * pieces.
 *
 * Arithmetic is in GF(2)[x] / P, bit-reflected: bit 31 is x^0.
 */
#include "crc32.h"
#include "host_kernels.h"
#include "host_numbers.h"

#define POLY 0xedb88320u

/* The tables are linear in the byte, so each is spanned by the entries of the eight single bits:
 * BASIS_k lists those for a byte followed by k zero bytes, and the compiler works out the rest. */
#define BIT(i, b, v) ((((i) >> (b)) & 1u) * (v))
#define SPAN(i, a, b, c, d, e, f, g, h)                                                            \
    (BIT(i, 0, a) ^ BIT(i, 1, b) ^ BIT(i, 2, c) ^ BIT(i, 3, d) ^ BIT(i, 4, e) ^ BIT(i, 5, f) ^     \
     BIT(i, 6, g) ^ BIT(i, 7, h))
#define BASIS_0(i)                                                                                 \
    SPAN(i, 0x77073096u, 0xee0e612cu, 0x076dc419u, 0x0edb8832u, 0x1db71064u, 0x3b6e20c8u,          \
         0x76dc4190u, 0xedb88320u)
#define BASIS_1(i)                                                                                 \
    SPAN(i, 0x191b3141u, 0x32366282u, 0x646cc504u, 0xc8d98a08u, 0x4ac21251u, 0x958424a2u,          \
         0xf0794f05u, 0x3b83984bu)
#define BASIS_2(i)                                                                                 \
    SPAN(i, 0x01c26a37u, 0x0384d46eu, 0x0709a8dcu, 0x0e1351b8u, 0x1c26a370u, 0x384d46e0u,          \
         0x709a8dc0u, 0xe1351b80u)
#define BASIS_3(i)                                                                                 \
    SPAN(i, 0xb8bc6765u, 0xaa09c88bu, 0x8f629757u, 0xc5b428efu, 0x5019579fu, 0xa032af3eu,          \
         0x9b14583du, 0xed59b63bu)
#define BASIS_4(i)                                                                                 \
    SPAN(i, 0x3d6029b0u, 0x7ac05360u, 0xf580a6c0u, 0x30704bc1u, 0x60e09782u, 0xc1c12f04u,          \
         0x58f35849u, 0xb1e6b092u)
#define BASIS_5(i)                                                                                 \
    SPAN(i, 0xcb5cd3a5u, 0x4dc8a10bu, 0x9b914216u, 0xec53826du, 0x03d6029bu, 0x07ac0536u,          \
         0x0f580a6cu, 0x1eb014d8u)
#define BASIS_6(i)                                                                                 \
    SPAN(i, 0xa6770bb4u, 0x979f1129u, 0xf44f2413u, 0x33ef4e67u, 0x67de9cceu, 0xcfbd399cu,          \
         0x440b7579u, 0x8816eaf2u)
#define BASIS_7(i)                                                                                 \
    SPAN(i, 0xccaa009eu, 0x4225077du, 0x844a0efau, 0xd3e51bb5u, 0x7cbb312bu, 0xf9766256u,          \
         0x299dc2edu, 0x533b85dau)

#define LIST_4(F, i) F((i)), F((i) + 1u), F((i) + 2u), F((i) + 3u)
#define LIST_16(F, i) LIST_4(F, (i)), LIST_4(F, (i) + 4u), LIST_4(F, (i) + 8u), LIST_4(F, (i) + 12u)
#define LIST_64(F, i)                                                                              \
    LIST_16(F, i), LIST_16(F, (i) + 16u), LIST_16(F, (i) + 32u), LIST_16(F, (i) + 48u)
#define LIST_256(F)                                                                                \
    {                                                                                              \
        LIST_64(F, 0u), LIST_64(F, 64u), LIST_64(F, 128u), LIST_64(F, 192u)                        \
    }

static const uint32_t table[8][256] = {
    LIST_256(BASIS_0), LIST_256(BASIS_1), LIST_256(BASIS_2), LIST_256(BASIS_3),
    LIST_256(BASIS_4), LIST_256(BASIS_5), LIST_256(BASIS_6), LIST_256(BASIS_7),
};

static uint32_t load_le32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

uint32_t hr__crc32_by_tables(uint32_t crc, const uint8_t *p, size_t n)
{
    for (; n >= 8; n -= 8, p += 8) {
        const uint32_t a = crc ^ load_le32(p);
        const uint32_t b = load_le32(p + 4);
        crc = table[7][a & 0xff] ^ table[6][a >> 8 & 0xff] ^ table[5][a >> 16 & 0xff] ^
              table[4][a >> 24] ^ table[3][b & 0xff] ^ table[2][b >> 8 & 0xff] ^
              table[1][b >> 16 & 0xff] ^ table[0][b >> 24];
    }
    for (; n > 0; n--, p++)
        crc = crc >> 8 ^ table[0][(crc ^ *p) & 0xff];
    return crc;
}

static bool always(void)
{
    return true;
}

static const struct hr__crc32_path tables = {
    .name = "tables",
    .supported = always,
    .update = hr__crc32_by_tables,
};

static const struct hr__crc32_path *const paths[] = {
#if defined(__x86_64__)
    &hr__crc32_clmul_512,
    &hr__crc32_clmul_256,
    &hr__crc32_clmul_128,
#endif
    &tables,
};

const struct hr__crc32_path *hr__crc32_path(size_t i)
{
    return i < sizeof paths / sizeof paths[0] ? paths[i] : NULL;
}

uint32_t hr__crc32(uint32_t crc, const void *data, size_t n_bytes)
{
    size_t i = 0;
    while (n_bytes < paths[i]->min_bytes || !paths[i]->supported())
        i++; /* the last one takes all */
    return ~paths[i]->update(~crc, data, n_bytes);
}

uint32_t hr__crc32_plain(uint32_t crc, const void *data, size_t n_bytes)
{
    return ~hr__crc32_by_tables(~crc, data, n_bytes);
}

static uint32_t multiply(uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (int i = 31; i >= 0; i--) {
        product ^= (a >> i & 1u) * b;
        b = b >> 1 ^ (b & 1u) * POLY;
    }
    return product;
}

/* x^(2^i). P is primitive, so x has order 2^32 - 1, and these 32 span every exponent. */
static const uint32_t x_power[32] = {
    0x40000000u, 0x20000000u, 0x08000000u, 0x00800000u, 0x00008000u, 0xedb88320u, 0xb1e6b092u,
    0xa06a2517u, 0xed627daeu, 0x88d14467u, 0xd7bbfe6au, 0xec447f11u, 0x8e7ea170u, 0x6427800eu,
    0x4d47bae0u, 0x09fe548fu, 0x83852d0fu, 0x30362f1au, 0x7b5a9cc3u, 0x31fec169u, 0x9fec022au,
    0x6c8dedc4u, 0x15d6874du, 0x5fde7a4eu, 0xbad90e37u, 0x2e4e5eefu, 0x4eaba214u, 0xa8a472c0u,
    0x429a969eu, 0x148d302au, 0xc40ba6d0u, 0xc4e22c3cu,
};

/* x^-e = x^(2^32 - 1 - e). */
uint32_t hr__crc32_shift(uint32_t a, uint64_t n_bytes, bool inverse)
{
    const uint64_t order = UINT32_MAX;
    uint64_t exponent = n_bytes % order * 8 % order;
    if (inverse)
        exponent = order - exponent;
    for (int i = 0; exponent != 0; exponent >>= 1, i++)
        if (exponent & 1u)
            a = multiply(a, x_power[i]);
    return a;
}

uint32_t hr__crc32_combine(uint32_t crc_a, uint32_t crc_b, uint64_t b_bytes)
{
    return hr__crc32_shift(crc_a, b_bytes, false) ^ crc_b;
}
