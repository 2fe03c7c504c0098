// SPDX-License-Identifier: Apache-2.0
/*
 * Exact sum of doubles, after the small superaccumulator of R. M. Neal, "Fast exact summation using
 * small and large superaccumulators", 2015, arXiv:1505.05571.
 *
 * The sum is one wide fixed-point number whose bit 0 weighs 2^-1074, the least subnormal:
 *
 *     limb[i] * 2^(32 * i - 1074),  i = 0 .. 69
 *
 * Limbs are spaced by 32 bits and hold 64, so that additions need no carry for a while:
 * 1. a double's 53 bits fall on two limbs: below 2^32 on the first, at most 2^52 on the second;
 * 2. after BLOCK doubles a limb is below 2^63; carries are then moved up, which leaves limbs in
 *    [0, 2^32) and the sign in the last: one form for each sum, so order cannot matter;
 * 3. at the end the magnitude is divided by n, limb by limb, and rounded once.
 * 2^64 doubles below 2^1024 need 1074 + 1024 + 64 bits, 68 limbs; the rest is headroom.
 */
#include "host_kernels.h"
#include "host_numbers.h"

enum { BLOCK = 1024, N_WIDE = HR__EXACT_LIMBS + 1 };
enum { PLUS_INF = 1, MINUS_INF = 2, IS_NAN = 4 };

__extension__ typedef unsigned __int128 uint128;

static void carry(int64_t *limb)
{
    int64_t up = 0;
    for (int i = 0; i < HR__EXACT_LIMBS - 1; i++) {
        const int64_t v = limb[i] + up;
        up = v >> 32;
        limb[i] = v & 0xffffffff;
    }
    limb[HR__EXACT_LIMBS - 1] += up;
}

static unsigned special(uint64_t bits)
{
    if (bits << 12 != 0)
        return IS_NAN;
    return bits >> 63 ? MINUS_INF : PLUS_INF;
}

static inline unsigned add_one(int64_t *limb, double x)
{
    const uint64_t bits = hr__f64_bits(x);
    const unsigned exponent = (unsigned)(bits >> 52) & 0x7ff;
    if (exponent == 0x7ff)
        return special(bits);
    const uint64_t is_normal = exponent != 0;
    const uint64_t m = (bits & 0xfffffffffffffu) | is_normal << 52;
    const unsigned shift = exponent - (unsigned)is_normal;
    const int64_t sign = -(int64_t)(bits >> 63);
    const int64_t low = (int64_t)(m << (shift & 31) & 0xffffffffu);
    const int64_t high = (int64_t)(m >> (32 - (shift & 31)));
    limb[shift >> 5] += (low ^ sign) - sign;
    limb[(shift >> 5) + 1] += (high ^ sign) - sign;
    return 0;
}

/* Two accumulators in turn, or neighbours of like size would wait for each other's stores. */
#define ADD_LOOP(T, ENUM, W)                                                                       \
    static unsigned add_##T(int64_t(*limb)[HR__EXACT_LIMBS], const void *data, size_t n)           \
    {                                                                                              \
        const hr__raw_##T *p = data;                                                               \
        unsigned specials = 0;                                                                     \
        for (size_t i = 0; i < n; i++)                                                             \
            specials |= add_one(limb[i & 1], (double)hr__load_##T(p + i));                         \
        return specials;                                                                           \
    }

HR__FLOAT_TYPES(ADD_LOOP)

static unsigned add_block(enum hr__type type, int64_t (*limb)[HR__EXACT_LIMBS], const void *data,
                          size_t n)
{
    if (type == HR__TYPE_F16)
        return add_f16(limb, data, n);
    if (type == HR__TYPE_BF16)
        return add_bf16(limb, data, n);
    if (type == HR__TYPE_F32)
        return add_f32(limb, data, n);
    return add_f64(limb, data, n);
}

void hr__exact_add(struct hr__exact *acc, enum hr__type type, const void *data, size_t n)
{
    int64_t limb[2][HR__EXACT_LIMBS] = {{0}};
    const unsigned char *p = data;
    while (n > 0) {
        const size_t part = n < BLOCK ? n : BLOCK;
        acc->specials |= add_block(type, limb, p, part);
        carry(limb[0]);
        carry(limb[1]);
        p += part * hr__type_bytes(type);
        n -= part;
    }
    for (int i = 0; i < HR__EXACT_LIMBS; i++)
        acc->limb[i] += limb[0][i] + limb[1][i];
    carry(acc->limb);
}

void hr__exact_merge(struct hr__exact *into, const struct hr__exact *from)
{
    for (int i = 0; i < HR__EXACT_LIMBS; i++)
        into->limb[i] += from->limb[i];
    carry(into->limb);
    into->specials |= from->specials;
}

static unsigned bit_at(const uint32_t *wide, unsigned i)
{
    return wide[i / 32] >> (i % 32) & 1u;
}

/*
 * Divide the magnitude in wide[] by n and round. Bit 0 of wide[] weighs 2^-1106: one limb more than
 * the accumulator, so that a bit below the least subnormal is there to round by. With the last bit
 * kept at index `last`, the biased exponent is last - 32 + 1, or 0 with last = 32 for subnormals;
 * adding the significand, leading bit included, to (last - 32) << 52 gives both.
 */
static double divide_and_round(uint32_t *wide, bool negative, uint64_t n)
{
    uint64_t rest = 0;
    unsigned top = 0;
    for (unsigned i = N_WIDE; i-- > 0;) {
        const uint128 v = (uint128)rest << 32 | wide[i];
        wide[i] = (uint32_t)(v / n);
        rest = (uint64_t)(v % n);
        if (top == 0 && wide[i] != 0)
            top = i * 32 + 31 - (unsigned)__builtin_clz(wide[i]);
    }
    const unsigned last = top > 32 + 52 ? top - 52 : 32;
    uint64_t kept = 0;
    for (unsigned i = last + 53; i-- > last;)
        kept = kept << 1 | (i <= top ? bit_at(wide, i) : 0);
    bool below = rest != 0;
    for (unsigned i = 0; i < last - 1 && !below; i++)
        below = bit_at(wide, i) != 0;
    kept += bit_at(wide, last - 1) & ((unsigned)below | (kept & 1u));
    uint64_t bits = ((uint64_t)(last - 32) << 52) + kept;
    if (last - 32 >= 0x7ff || bits > 0x7ff0000000000000u)
        bits = 0x7ff0000000000000u;
    return hr__bits_f64(bits | (uint64_t)negative << 63);
}

double hr__exact_quotient(const struct hr__exact *acc, uint64_t n)
{
    const uint64_t s = acc->specials;
    if (s & IS_NAN || (s & PLUS_INF && s & MINUS_INF))
        return hr__bits_f64(0x7ff8000000000000u);
    if (s != 0)
        return hr__bits_f64(s & PLUS_INF ? 0x7ff0000000000000u : 0xfff0000000000000u);
    struct hr__exact copy = *acc;
    carry(copy.limb); /* a GPU's kernel leaves that */
    const bool negative = copy.limb[HR__EXACT_LIMBS - 1] < 0;
    bool is_zero = true;
    for (int i = 0; i < HR__EXACT_LIMBS; i++) {
        copy.limb[i] = negative ? -copy.limb[i] : copy.limb[i];
        is_zero &= copy.limb[i] == 0;
    }
    if (is_zero)
        return 0.0;
    carry(copy.limb);
    uint32_t wide[N_WIDE] = {0};
    for (int i = 0; i < HR__EXACT_LIMBS; i++)
        wide[i + 1] = (uint32_t)copy.limb[i];
    return divide_and_round(wide, negative, n);
}

/* The integer's bit 0 weighs 2^0: index 1106 = 34 * 32 + 18. */
double hr__int128_quotient(uint64_t hi, uint64_t lo, uint64_t n)
{
    const bool negative = hi >> 63 != 0;
    uint128 v = (uint128)hi << 64 | lo;
    if (negative)
        v = -v;
    if (v == 0)
        return 0.0;
    uint32_t wide[N_WIDE] = {0};
    for (int i = 0; i < 4; i++) {
        const uint64_t part = (uint64_t)(uint32_t)(v >> (32 * i)) << 18;
        wide[34 + i] |= (uint32_t)part;
        wide[35 + i] = (uint32_t)(part >> 32);
    }
    return divide_and_round(wide, negative, n);
}
