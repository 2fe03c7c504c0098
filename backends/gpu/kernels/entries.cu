// SPDX-License-Identifier: Apache-2.0
/* ---- entries ----
 *
 * HR_ONLY, if defined, is the one entry to compile, such as HR_CAST(F32, U8): the run-time
 * compilers take long over all of them. */

#define HR_PARAMETERS(ARGS)                                                                        \
    const void *in, void *out, u64 n_units, u64 first_unit, u64 *count, void *state,               \
        const struct ARGS args
#define HR_UNUSED                                                                                  \
    (void)in, (void)out, (void)n_units, (void)first_unit, (void)count, (void)state, (void)args

#define HR_ENTRY(name, ARGS, call)                                                                 \
    HR_KERNEL name(HR_PARAMETERS(ARGS))                                                            \
    {                                                                                              \
        HR_UNUSED;                                                                                 \
        call;                                                                                      \
    }

#define HR_CAST(F, T) HR_ENTRY(hr_cast_##F##_##T, Args, (map(in, out, n_units, Cast<F, T>())))
#define HR_COPY(BITS) HR_ENTRY(hr_copy_##BITS, Args, map(in, out, n_units, Copy<u##BITS>()))
#define HR_SCALE(T) HR_ENTRY(hr_scale_##T, Args, map(in, out, n_units, scale_of<T>(args)))
#define HR_BSWAP(BITS) HR_ENTRY(hr_bswap_##BITS, Args, map(in, out, n_units, Swap<u##BITS>()))
#define HR_SHUFFLE HR_ENTRY(hr_shuffle, Args, shuffle<false>(in, out, n_units, args))
#define HR_UNSHUFFLE HR_ENTRY(hr_unshuffle, Args, shuffle<true>(in, out, n_units, args))
#define HR_FILTER(T)                                                                               \
    HR_ENTRY(hr_filter_##T, Args, filter<T>(in, out, n_units, count, (u64 *)state, args))
#define HR_SUM_INT(T) HR_ENTRY(hr_sum_##T, Args, fold_int_sum<T>(in, n_units, (u64 *)state))
#define HR_SUM_FLOAT(T) HR_ENTRY(hr_sum_##T, Args, fold_exact_sum<T>(in, n_units, (u64 *)state))
#define HR_MIN(T) HR_ENTRY(hr_min_##T, Args, fold_min<T>(in, n_units, (u64 *)state))
#define HR_MAX(T) HR_ENTRY(hr_max_##T, Args, fold_max<T>(in, n_units, (u64 *)state))
#define HR_HISTOGRAM(T)                                                                            \
    HR_ENTRY(hr_histogram_##T, Args, fold_histogram<T>(in, n_units, (u64 *)state, args))
#define HR_HISTOGRAM_BYTES(T)                                                                      \
    HR_ENTRY(hr_histogram_##T, Args, fold_byte_histogram<T>(in, n_units, (u64 *)state, args))
#define HR_COUNT(T) HR_ENTRY(hr_count_##T, Args, fold_count<T>(in, n_units, (u64 *)state, args))
#define HR_CRC32                                                                                   \
    HR_ENTRY(hr_crc32, CrcArgs, fold_crc((const u8 *)in, n_units, first_unit, (u64 *)state, args))

#if defined(HR_ONLY)
HR_ONLY
#else

#define HR_INTS(X) X(U8) X(I8) X(U16) X(I16) X(I32) X(I64)
#define HR_FLOATS(X) X(F16) X(BF16) X(F32) X(F64)
#define HR_WIDE_TYPES(X) X(U16) X(I16) X(I32) X(I64) HR_FLOATS(X)
#define HR_TYPES(X) HR_INTS(X) HR_FLOATS(X)
#define HR_CASTS(F, A, B, C, D, E, G, H, I, J)                                                     \
    HR_CAST(F, A)                                                                                  \
    HR_CAST(F, B)                                                                                  \
    HR_CAST(F, C)                                                                                  \
    HR_CAST(F, D)                                                                                  \
    HR_CAST(F, E)                                                                                  \
    HR_CAST(F, G)                                                                                  \
    HR_CAST(F, H)                                                                                  \
    HR_CAST(F, I)                                                                                  \
    HR_CAST(F, J)

HR_CASTS(U8, I8, U16, I16, I32, I64, F16, BF16, F32, F64)
HR_CASTS(I8, U8, U16, I16, I32, I64, F16, BF16, F32, F64)
HR_CASTS(U16, U8, I8, I16, I32, I64, F16, BF16, F32, F64)
HR_CASTS(I16, U8, I8, U16, I32, I64, F16, BF16, F32, F64)
HR_CASTS(I32, U8, I8, U16, I16, I64, F16, BF16, F32, F64)
HR_CASTS(I64, U8, I8, U16, I16, I32, F16, BF16, F32, F64)
HR_CASTS(F16, U8, I8, U16, I16, I32, I64, BF16, F32, F64)
HR_CASTS(BF16, U8, I8, U16, I16, I32, I64, F16, F32, F64)
HR_CASTS(F32, U8, I8, U16, I16, I32, I64, F16, BF16, F64)
HR_CASTS(F64, U8, I8, U16, I16, I32, I64, F16, BF16, F32)
HR_COPY(8)
HR_COPY(16)
HR_COPY(32)
HR_COPY(64)
HR_TYPES(HR_SCALE)
HR_BSWAP(16)
HR_BSWAP(32)
HR_BSWAP(64)
HR_SHUFFLE
HR_UNSHUFFLE
HR_TYPES(HR_FILTER)
HR_INTS(HR_SUM_INT)
HR_FLOATS(HR_SUM_FLOAT)
HR_TYPES(HR_MIN)
HR_TYPES(HR_MAX)
HR_HISTOGRAM_BYTES(U8)
HR_HISTOGRAM_BYTES(I8)
HR_WIDE_TYPES(HR_HISTOGRAM)
HR_TYPES(HR_COUNT)
HR_CRC32

#endif
