// SPDX-License-Identifier: Apache-2.0
/* ---- exact sums of floats ----
 *
 * 1. A thread keeps its sum in three doubles. Adding one gives a rounded sum and, exactly, what the
 *    rounding lost (Knuth's TwoSum), which is added to the next double in turn.
 * 2. What the third loses, and what is too large for this, goes to the block's limbs: those of
 *    exact_sum.c, each here in two words of 32 bits, since shared memory adds such natively. A
 *    number falls on three limbs, less than 2^32 on each, so that 2^31 additions fit.
 * 3. A limb's lower word and the carry of the one below are added to the state's limb: less than
 *    2^33, so that 2^30 blocks fit. hr__exact_quotient() moves what carries remain. */

enum { FIRST_LARGE = 2000 }; /* biased exponent: 2^977; 2^46 of those below do not overflow */
enum { PLUS_INF = 1, MINUS_INF = 2, IS_NAN = 4 };

struct BlockLimbs {
    u32 low[N_LIMBS];
    u32 high[N_LIMBS];
    u32 specials;
};

HR_FN void add_part(BlockLimbs *limbs, u32 i, u32 part, u32 negative)
{
    const u32 addend = negative ? 0u - part : part;
    if (addend == 0)
        return;
    const u32 before = atomic_add(limbs->low + i, addend);
    const u32 carry = before + addend < before ? 1u : 0u;
    const u32 high = carry - negative; /* the upper word of a negative addend is -1 */
    if (high != 0)
        atomic_add(limbs->high + i, high);
}

/* Not a NaN nor an infinity. */
HR_FN void add_to_limbs(BlockLimbs *limbs, double x)
{
    const u64 bits = bits_of(x);
    const u32 exponent = (u32)(bits >> 52) & 0x7ffu;
    const u32 is_normal = exponent != 0;
    const u64 m = (bits & 0xfffffffffffffull) | (u64)is_normal << 52;
    const u32 shift = exponent - is_normal;
    const u32 negative = (u32)(bits >> 63);
    const u64 lower = (m & 0xffffffffu) << (shift & 31);
    const u64 upper = ((m >> 32) << (shift & 31)) + (lower >> 32);
    const u32 i = shift >> 5;
    add_part(limbs, i, (u32)lower, negative);
    add_part(limbs, i + 1, (u32)upper, negative);
    add_part(limbs, i + 2, (u32)(upper >> 32), negative);
}

template <class T> struct ExactSum {
    BlockLimbs *limbs;
    double a, b, c;
    u32 specials;

    /* sum becomes the rounded sum; returned: what it lost. */
    static HR_MEMBER double two_sum(double &sum, double x)
    {
        const double s = sum + x;
        const double was = s - x;
        const double lost = (sum - was) + (x - (s - was));
        sum = s;
        return lost;
    }
    HR_MEMBER void operator()(typename T::Raw raw)
    {
        const double x = (double)T::load(raw);
        const u32 exponent = (u32)(bits_of(x) >> 52) & 0x7ffu;
        double rest = x;
        if (exponent < FIRST_LARGE) {
            rest = two_sum(a, x);
            if (rest == 0)
                return;
            rest = two_sum(b, rest);
            if (rest == 0)
                return;
            rest = two_sum(c, rest);
            if (rest == 0)
                return;
        } else if (exponent == 0x7ff) {
            specials |= x != x ? (u32)IS_NAN : x > 0 ? (u32)PLUS_INF : (u32)MINUS_INF;
            return;
        }
        add_to_limbs(limbs, rest);
    }
};

HR_FN void add_block_to_state(const BlockLimbs *limbs, u64 *state)
{
    const u32 i = hr_thread();
    if (i < N_LIMBS) {
        const i64 carried = i > 0 ? (i64)(i32)limbs->high[i - 1] : 0;
        const u64 addend = (u64)((i64)limbs->low[i] + carried);
        if (addend != 0)
            atomic_add(state + STATE_VALUE + i, addend);
    } else if (i == N_LIMBS && limbs->specials != 0) {
        atomic_or(state + STATE_SPECIALS, (u64)limbs->specials);
    }
}

template <class T> HR_FN void fold_exact_sum(const void *in, u64 n, u64 *state)
{
    __shared__ BlockLimbs limbs;
    hr_is_shared((void *)&limbs);
    const u32 t = hr_thread();
    if (t < N_LIMBS) {
        limbs.low[t] = 0;
        limbs.high[t] = 0;
    } else if (t == N_LIMBS) {
        limbs.specials = 0;
    }
    hr_barrier();
    ExactSum<T> fn = {&limbs, 0, 0, 0, 0};
    each<T, 1>(in, n, fn);
    add_to_limbs(&limbs, fn.a);
    add_to_limbs(&limbs, fn.b);
    add_to_limbs(&limbs, fn.c);
    if (fn.specials != 0)
        atomic_or(&limbs.specials, fn.specials);
    hr_barrier();
    add_block_to_state(&limbs, state);
    add_n_units(state, n);
}
