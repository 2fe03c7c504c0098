// SPDX-License-Identifier: Apache-2.0
/* ---- element types ----
 *
 * An element is loaded into its wide type without loss; `of` rounds a wide value to the element's
 * own type, once. The formulas are those of host_numbers.h, where each is explained. */

HR_FN float canonical(float x)
{
    const u32 u = bits_of(x);
    return f32_of((u & 0x7fffffffu) > 0x7f800000u ? 0x7fc00000u : u);
}

HR_FN double canonical(double x)
{
    return f64_of(x != x ? 0x7ff8000000000000ull : bits_of(x));
}

HR_FN float f32_rounded_to_odd(double x)
{
    const float f = (float)x;
    const u32 u = bits_of(f);
    const double ax = f64_of(bits_of(x) & 0x7fffffffffffffffull);
    const double ab = f64_of(bits_of((double)f) & 0x7fffffffffffffffull);
    const u32 even = ~u & 1u;
    const u32 up = (u32)(ax > ab) & even;
    const u32 down = (u32)(ax < ab) & even;
    return f32_of(u + up - down);
}

HR_FN i32 clamp(i32 x, i32 lo, i32 hi)
{
    x = x < lo ? lo : x;
    return x > hi ? hi : x;
}

HR_FN i32 i32_of(i64 x)
{
    x = x < -2147483647ll - 1 ? -2147483647ll - 1 : x;
    return (i32)(x > 2147483647ll ? 2147483647ll : x);
}

HR_FN i32 rounded(float x, float lo, float hi)
{
    x = x == x ? x : 0.0f;
    x = x > lo ? x : lo;
    x = x < hi ? x : hi;
    return (i32)(bits_of(x + 12582912.0f) - 0x4b400000u); /* + 1.5 * 2^23 */
}

HR_FN i32 rounded(double x, double lo, double hi)
{
    x = x == x ? x : 0.0;
    x = x > lo ? x : lo;
    x = x < hi ? x : hi;
    return (i32)(u32)bits_of(x + 6755399441055744.0); /* + 1.5 * 2^52 */
}

HR_FN i64 rounded_i64(double x)
{
    const double two_52 = 4503599627370496.0;
    const double two_63 = 9223372036854775808.0;
    const double big = f64_of((bits_of(x) & 0x8000000000000000ull) | 0x4330000000000000ull);
    const double r = x > -two_52 && x < two_52 ? (x + big) - big : x;
    if (!(r >= -two_63))
        return r == r ? -9223372036854775807ll - 1 : 0;
    return r < two_63 ? (i64)r : 9223372036854775807ll;
}

/* An integer of up to 16 bits. KEY: of min and max. */
#define NARROW_INT(NAME, RAW, T, LO, HI)                                                           \
    struct NAME {                                                                                  \
        typedef RAW Raw;                                                                           \
        typedef i32 Wide;                                                                          \
        typedef double Scaled;                                                                     \
        static const bool is_float = false;                                                        \
        static const i64 least_key = LO;                                                           \
        static const i64 most_key = HI;                                                            \
        static HR_MEMBER Wide load(Raw r)                                                          \
        {                                                                                          \
            return (T)r;                                                                           \
        }                                                                                          \
        static HR_MEMBER i64 key(Raw r, i64)                                                       \
        {                                                                                          \
            return (T)r;                                                                           \
        }                                                                                          \
        static HR_MEMBER Raw of(i32 x)                                                             \
        {                                                                                          \
            return (Raw)clamp(x, LO, HI);                                                          \
        }                                                                                          \
        static HR_MEMBER Raw of(i64 x)                                                             \
        {                                                                                          \
            return of(i32_of(x));                                                                  \
        }                                                                                          \
        static HR_MEMBER Raw of(float x)                                                           \
        {                                                                                          \
            return (Raw)rounded(x, (float)(LO), (float)(HI));                                      \
        }                                                                                          \
        static HR_MEMBER Raw of(double x)                                                          \
        {                                                                                          \
            return (Raw)rounded(x, (double)(LO), (double)(HI));                                    \
        }                                                                                          \
    };

NARROW_INT(U8, u8, u8, 0, 255)
NARROW_INT(I8, u8, i8, -128, 127)
NARROW_INT(U16, u16, u16, 0, 65535)
NARROW_INT(I16, u16, i16, -32768, 32767)

struct I32 {
    typedef u32 Raw;
    typedef i32 Wide;
    typedef double Scaled;
    static const bool is_float = false;
    static const i64 least_key = -2147483647ll - 1;
    static const i64 most_key = 2147483647ll;
    static HR_MEMBER Wide load(Raw r)
    {
        return (i32)r;
    }
    static HR_MEMBER i64 key(Raw r, i64)
    {
        return (i32)r;
    }
    static HR_MEMBER Raw of(i32 x)
    {
        return (Raw)x;
    }
    static HR_MEMBER Raw of(i64 x)
    {
        return (Raw)i32_of(x);
    }
    static HR_MEMBER Raw of(double x)
    {
        return (Raw)rounded(x, -2147483648.0, 2147483647.0);
    }
    static HR_MEMBER Raw of(float x)
    {
        return of((double)x);
    }
};

struct I64 {
    typedef u64 Raw;
    typedef i64 Wide;
    typedef double Scaled;
    static const bool is_float = false;
    static const i64 least_key = -9223372036854775807ll - 1;
    static const i64 most_key = 9223372036854775807ll;
    static HR_MEMBER Wide load(Raw r)
    {
        return (i64)r;
    }
    static HR_MEMBER i64 key(Raw r, i64)
    {
        return (i64)r;
    }
    static HR_MEMBER Raw of(i32 x)
    {
        return (Raw)(i64)x;
    }
    static HR_MEMBER Raw of(i64 x)
    {
        return (Raw)x;
    }
    static HR_MEMBER Raw of(float x)
    {
        return (Raw)rounded_i64((double)x);
    }
    static HR_MEMBER Raw of(double x)
    {
        return (Raw)rounded_i64(x);
    }
};

/* A float's bits as an integer that orders as the numbers do; see reduce_kernels.c. */
template <int N_BITS> HR_FN i64 float_key(u64 bits, u64 inf, i64 if_nan)
{
    const u64 sign = 1ull << (N_BITS - 1);
    const i64 magnitude = (i64)(bits & (sign - 1));
    const i64 key = bits & sign ? ~magnitude : magnitude;
    return magnitude > (i64)inf ? if_nan : key;
}

struct F16 {
    typedef u16 Raw;
    typedef float Wide;
    typedef float Scaled;
    static const bool is_float = true;
    static const i64 least_key = -32768;
    static const i64 most_key = 32767;
    static HR_MEMBER Wide load(Raw r)
    {
        const u32 magnitude = (r & 0x7fffu) << 13;
        const u32 normal = magnitude + (112u << 23);
        const u32 small = bits_of(f32_of(magnitude + (113u << 23)) - 6.103515625e-05f);
        const u32 top = magnitude + (224u << 23);
        u32 u = magnitude < (1u << 23) ? small : normal;
        u = magnitude >= (31u << 23) ? top : u;
        return f32_of(u | (r & 0x8000u) << 16);
    }
    static HR_MEMBER i64 key(Raw r, i64 if_nan)
    {
        return float_key<16>(r, 0x7c00, if_nan);
    }
    static HR_MEMBER Raw of(float x)
    {
        const u32 u = bits_of(x);
        const u32 a = u & 0x7fffffffu;
        const u32 sign = (u >> 16) & 0x8000u;
        const u32 small = bits_of(f32_of(a) + 0.5f) - 0x3f000000u;
        const u32 normal = (a - (112u << 23) + 0xfffu + ((a >> 13) & 1u)) >> 13;
        u32 h = a < 0x38800000u ? small : normal;
        h = a >= 0x47800000u ? 0x7c00u : h;
        h |= sign;
        return (Raw)(a > 0x7f800000u ? 0x7e00u : h);
    }
    static HR_MEMBER Raw of(double x)
    {
        return of(f32_rounded_to_odd(x));
    }
    static HR_MEMBER Raw of(i32 x)
    {
        return of((float)clamp(x, -(1 << 20), 1 << 20));
    }
    static HR_MEMBER Raw of(i64 x)
    {
        return of(i32_of(x));
    }
};

struct BF16 {
    typedef u16 Raw;
    typedef float Wide;
    typedef float Scaled;
    static const bool is_float = true;
    static const i64 least_key = -32768;
    static const i64 most_key = 32767;
    static HR_MEMBER Wide load(Raw r)
    {
        return f32_of((u32)r << 16);
    }
    static HR_MEMBER i64 key(Raw r, i64 if_nan)
    {
        return float_key<16>(r, 0x7f80, if_nan);
    }
    static HR_MEMBER Raw of(float x)
    {
        const u32 u = bits_of(x);
        const u32 r = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
        return (Raw)((u & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : r);
    }
    static HR_MEMBER Raw of(double x)
    {
        return of(f32_rounded_to_odd(x));
    }
    static HR_MEMBER Raw of(i32 x)
    {
        const i32 odd = (x >> 8) | ((x & 0xff) != 0);
        const bool is_small = x > -(1 << 24) && x < 1 << 24;
        return of((float)(is_small ? x : odd) * (is_small ? 1.0f : 256.0f));
    }
    static HR_MEMBER Raw of(i64 x)
    {
        const i64 odd = (x >> 11) | ((x & 0x7ff) != 0);
        const bool is_small = x > -(1ll << 53) && x < 1ll << 53;
        return of((double)(is_small ? x : odd) * (is_small ? 1.0 : 2048.0));
    }
};

struct F32 {
    typedef u32 Raw;
    typedef float Wide;
    typedef float Scaled;
    static const bool is_float = true;
    static const i64 least_key = I32::least_key;
    static const i64 most_key = I32::most_key;
    static HR_MEMBER Wide load(Raw r)
    {
        return f32_of(r);
    }
    static HR_MEMBER i64 key(Raw r, i64 if_nan)
    {
        return float_key<32>(r, 0x7f800000, if_nan);
    }
    template <class Number> static HR_MEMBER Raw of(Number x)
    {
        return bits_of(canonical((float)x));
    }
};

struct F64 {
    typedef u64 Raw;
    typedef double Wide;
    typedef double Scaled;
    static const bool is_float = true;
    static const i64 least_key = I64::least_key;
    static const i64 most_key = I64::most_key;
    static HR_MEMBER Wide load(Raw r)
    {
        return f64_of(r);
    }
    static HR_MEMBER i64 key(Raw r, i64 if_nan)
    {
        return float_key<64>(r, 0x7ff0000000000000ull, if_nan);
    }
    template <class Number> static HR_MEMBER Raw of(Number x)
    {
        return bits_of(canonical((double)x));
    }
};

/* Elements visited by all threads of the grid together, 16 bytes at a time, BATCH loads under way
 * in each thread; fn gets raw elements. */
template <class T, int BATCH, class Fn> HR_FN void each(const void *in, u64 n, Fn &fn)
{
    typedef typename T::Raw Raw;
    const int N = 16 / (int)sizeof(Raw);
    const u64 n_chunks = n / N;
    const u64 stride = n_threads();
    HR_NO_UNROLL
    for (u64 at = first_index(); at < n_chunks; at += BATCH * stride) {
        Chunk<16> chunk[BATCH];
        HR_UNROLL
        for (int b = 0; b < BATCH; b++)
            if (at + (u64)b * stride < n_chunks)
                load_words(chunk[b], in, at + (u64)b * stride);
        HR_UNROLL
        for (int i = 0; i < BATCH * N; i++) {
            Raw raw;
            if (at + (u64)(i / N) * stride < n_chunks) {
                chunk[i / N].get(i % N, raw);
                fn(raw);
            }
        }
    }
    const u64 last = n_chunks * N + first_index();
    if (last < n)
        fn(((const Raw *)in)[last]);
}
