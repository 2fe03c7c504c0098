// SPDX-License-Identifier: Apache-2.0
/* ---- reductions ----
 *
 * Each thread folds elements into registers, each block its threads' values, and one thread of the
 * block the block's into the state, by atomic operations that commute. */

/* The state's 64-bit words; see reduce_state.h. */
enum { STATE_N_UNITS = 0, STATE_VALUE = 2, STATE_SPECIALS = 72, N_LIMBS = 70 };

HR_FN void add_n_units(u64 *state, u64 n_units)
{
    if (first_index() == 0)
        atomic_add(state + STATE_N_UNITS, n_units);
}

/* ---- min and max ---- */

struct Min {
    typedef i64 Value;
    static HR_MEMBER i64 combine(i64 a, i64 b)
    {
        return b < a ? b : a;
    }
};

struct Max {
    typedef i64 Value;
    static HR_MEMBER i64 combine(i64 a, i64 b)
    {
        return b > a ? b : a;
    }
};

template <class T, class Op> struct Best {
    i64 worst;
    i64 best;
    HR_MEMBER void operator()(typename T::Raw raw)
    {
        best = Op::combine(best, T::key(raw, worst));
    }
};

template <class T> HR_FN void fold_min(const void *in, u64 n, u64 *state)
{
    Best<T, Min> fn = {T::most_key, T::most_key};
    each<T, 2>(in, n, fn);
    const i64 best = block_reduce<Min>(fn.best);
    add_n_units(state, n);
    if (hr_thread() == 0)
        atomic_min((i64 *)state + STATE_VALUE, best);
}

template <class T> HR_FN void fold_max(const void *in, u64 n, u64 *state)
{
    Best<T, Max> fn = {T::least_key, T::least_key};
    each<T, 2>(in, n, fn);
    const i64 best = block_reduce<Max>(fn.best);
    add_n_units(state, n);
    if (hr_thread() == 0)
        atomic_max((i64 *)state + STATE_VALUE, best);
}

/* ---- sums of integers, of 128 bits ---- */

struct Wide128 {
    u64 low;
    u64 high;
};

struct Sum128 {
    typedef Wide128 Value;
    static HR_MEMBER Wide128 combine(Wide128 a, Wide128 b)
    {
        const u64 low = a.low + b.low;
        const Wide128 sum = {low, a.high + b.high + (low < a.low ? 1u : 0u)};
        return sum;
    }
};

/* Of up to 2^31 values of 32 bits in 64 bits. */
template <class T> struct IntSum {
    i64 sum;
    HR_MEMBER void operator()(typename T::Raw raw)
    {
        sum += T::load(raw);
    }
    HR_MEMBER Wide128 value() const
    {
        const Wide128 v = {(u64)sum, (u64)(sum >> 63)};
        return v;
    }
};

template <> struct IntSum<I64> {
    i64 sum; /* high word */
    u64 low;
    HR_MEMBER void operator()(u64 raw)
    {
        low += raw;
        sum += ((i64)raw >> 63) + (low < raw ? 1 : 0);
    }
    HR_MEMBER Wide128 value() const
    {
        const Wide128 v = {low, (u64)sum};
        return v;
    }
};

template <class T> HR_FN void fold_int_sum(const void *in, u64 n, u64 *state)
{
    IntSum<T> fn = IntSum<T>();
    each<T, 2>(in, n, fn);
    const Wide128 sum = block_reduce<Sum128>(fn.value());
    add_n_units(state, n);
    if (hr_thread() != 0)
        return;
    const u64 before = atomic_add(state + STATE_VALUE, sum.low);
    const u64 high = sum.high + (before + sum.low < before ? 1u : 0u);
    if (high != 0)
        atomic_add(state + STATE_VALUE + 1, high);
}

/* ---- comparisons ---- */

struct Sum64 {
    typedef u64 Value;
    static HR_MEMBER u64 combine(u64 a, u64 b)
    {
        return a + b;
    }
};

template <class T, bool IS_FLOAT> struct Satisfies { /* of floats */
    double value;
    u32 lt, eq, gt, invert;
    HR_MEMBER explicit Satisfies(const Args &args)
        : value(args.float_value), lt(args.lt), eq(args.eq), gt(args.gt), invert(args.invert)
    {
    }
    HR_MEMBER u32 operator()(typename T::Raw raw) const
    {
        const double x = (double)T::load(raw);
        return (((u32)(x < value) & lt) | ((u32)(x == value) & eq) | ((u32)(x > value) & gt)) ^
               invert;
    }
};

template <class T> struct Satisfies<T, false> {
    i64 value;
    u32 lt, eq, gt, invert;
    HR_MEMBER explicit Satisfies(const Args &args)
        : value(args.int_value), lt(args.lt), eq(args.eq), gt(args.gt), invert(args.invert)
    {
    }
    HR_MEMBER u32 operator()(typename T::Raw raw) const
    {
        const i64 x = T::load(raw);
        return (((u32)(x < value) & lt) | ((u32)(x == value) & eq) | ((u32)(x > value) & gt)) ^
               invert;
    }
};

template <class T> struct Count {
    Satisfies<T, T::is_float> satisfies;
    u64 n;
    HR_MEMBER explicit Count(const Args &args) : satisfies(args), n(0)
    {
    }
    HR_MEMBER void operator()(typename T::Raw raw)
    {
        n += satisfies(raw);
    }
};

template <class T> HR_FN void fold_count(const void *in, u64 n, u64 *state, const Args &args)
{
    Count<T> fn(args);
    each<T, 2>(in, n, fn);
    const u64 kept = block_reduce<Sum64>(fn.n);
    add_n_units(state, n);
    if (hr_thread() == 0)
        atomic_add(state + STATE_VALUE, kept);
}

/* ---- histogram ---- */

enum { MAX_BLOCK_BINS = 4096 };

/* The edges decide; the estimate only tells where to begin. */
struct Bins {
    double lo, hi, step, bins_per_one;
    u32 n_bins;
    HR_MEMBER explicit Bins(const Args &args)
        : lo(args.lo), hi(args.hi), step(args.step), bins_per_one(args.bins_per_one),
          n_bins(args.n_bins)
    {
    }
    HR_MEMBER double edge(u32 i) const
    {
        const double offset = i * step;
        return i == n_bins ? hi : lo + offset;
    }
    HR_MEMBER u32 of(double x) const
    {
        const u32 last = n_bins - 1;
        if (!(x >= lo && x <= hi))
            return n_bins;
        const double estimate = (x - lo) * bins_per_one;
        u32 i = estimate < last ? (u32)estimate : last;
        while (i > 0 && x < edge(i))
            i--;
        while (i < last && x >= edge(i + 1))
            i++;
        return i;
    }
};

template <class T> struct ByBin {
    Bins bins;
    u32 *in_block; /* or null */
    u64 *in_state;
    HR_MEMBER ByBin(const Args &args, u32 *block_bins, u64 *state_bins)
        : bins(args), in_block(block_bins), in_state(state_bins)
    {
    }
    HR_MEMBER void operator()(typename T::Raw raw)
    {
        const u32 i = bins.of((double)T::load(raw));
        if (i >= bins.n_bins)
            return;
        if (bins.n_bins <= MAX_BLOCK_BINS)
            atomic_add(in_block + i, 1u);
        else
            atomic_add(in_state + i, (u64)1);
    }
};

template <class T> HR_FN void fold_histogram(const void *in, u64 n, u64 *state, const Args &args)
{
    __shared__ u32 block_bins[MAX_BLOCK_BINS];
    hr_is_shared((void *)&block_bins);
    const u32 n_block_bins = args.n_bins <= MAX_BLOCK_BINS ? args.n_bins : 0;
    for (u32 i = hr_thread(); i < n_block_bins; i += HR_BLOCK)
        block_bins[i] = 0;
    hr_barrier();
    ByBin<T> fn(args, block_bins, state + STATE_VALUE);
    each<T, 1>(in, n, fn);
    hr_barrier();
    for (u32 i = hr_thread(); i < n_block_bins; i += HR_BLOCK)
        if (block_bins[i] != 0)
            atomic_add(state + STATE_VALUE + i, (u64)block_bins[i]);
    add_n_units(state, n);
}

/* Bytes are counted by value, in eight tables lest equal neighbours wait for each other; the 256
 * values are then put into bins. */
enum { N_TABLES = 8 };

struct ByValue {
    u32 *table;
    HR_MEMBER void operator()(u8 raw)
    {
        atomic_add(table + raw, 1u);
    }
};

template <class T>
HR_FN void fold_byte_histogram(const void *in, u64 n, u64 *state, const Args &args)
{
    __shared__ u32 seen[N_TABLES][257]; /* 257: equal values in different banks */
    hr_is_shared((void *)&seen);
    const u32 t = hr_thread();
    for (u32 i = t; i < N_TABLES * 256; i += HR_BLOCK)
        seen[i / 256][i % 256] = 0;
    hr_barrier();
    ByValue fn = {seen[t % N_TABLES]};
    each<T, 1>(in, n, fn);
    hr_barrier();
    const Bins bins(args);
    for (u32 v = t; v < 256; v += HR_BLOCK) {
        u64 count = 0;
        for (u32 i = 0; i < N_TABLES; i++)
            count += seen[i][v];
        const u32 bin = bins.of((double)T::load((u8)v));
        if (count != 0 && bin < args.n_bins)
            atomic_add(state + STATE_VALUE + bin, count);
    }
    add_n_units(state, n);
}
