// SPDX-License-Identifier: Apache-2.0
#ifndef HR__HOST_KERNELS_H
#define HR__HOST_KERNELS_H

/*
 * Built-in kernels, host versions.
 *
 * These are the reference ("oracle") of every built-in kernel: a device version is right when it
 * gives the same bytes. All functions are pure: no globals and no locks; they may run in any
 * number of threads on different data. Data pointers need no alignment; input and output must
 * not overlap. The floating-point environment must be the default one (round to nearest even,
 * subnormals kept), and the code must be compiled with contraction off.
 *
 * Values
 *   to an integer      from a float: round to nearest even, then saturate; NaN gives 0.
 *                      From an integer: saturate.
 *   to a float         round once to nearest even, whatever the source (f64 to f16 does not pass
 *                      through f32; i64 to bf16 does not pass through f64); overflow gives an
 *                      infinity; subnormals are kept; every NaN becomes the canonical quiet one:
 *                      f16 0x7e00, bf16 0x7fc0, f32 0x7fc00000, f64 0x7ff8000000000000.
 *   to the same type   a plain copy; a NaN keeps its bits.
 *   scale              x * MUL, rounded, then + ADD, rounded; never fused. Integers are computed in
 *                      f64, then rounded and saturated as above; an i64 beyond 2^53 is first
 *                      rounded to f64. f64 is computed in f64. f32, f16 and bf16 are computed in
 *                      f32 with MUL and ADD rounded to f32; f16 and bf16 are then rounded to their
 *                      own type. NaN results are canonical.
 *   sum                integers: modulo 2^64, as i64 for signed types and u64 for unsigned ones.
 *                      Floats: the exact sum, rounded once to f64; an exact zero is +0. Any NaN, or
 *                      infinities of both signs, give the canonical NaN.
 *   mean               f64: the exact sum divided by the number of units, rounded once. It does not
 *                      overflow where the sum would. Of no units: the canonical NaN.
 *   min, max           of the type itself. NaN is ignored unless there is nothing else, as by
 *                      numpy.fmin and numpy.fmax; then the result is the canonical NaN. -0 < +0, so
 *                      that the result does not depend on order. Of no units: n_values is 0.
 *   histogram          BINS bins over [LO, HI]. The element is converted to f64. Bin i holds
 *                      edge(i) <= x < edge(i + 1), the last bin HI too; edge(i) = LO + i * step in
 *                      f64 (a rounding after the product and after the sum), step =
 *                      (HI - LO) / BINS, edge(BINS) = HI: as numpy.histogram. Elements outside and
 *                      NaN are not counted. Without parameters: u8, one bin per value.
 *   count, filter      the element compared with VALUE as real numbers, no rounding; NaN satisfies
 *                      only `ne`. filter copies the elements that satisfy, in order, bit by bit.
 *   shuffle            within each block of BLOCK bytes: byte j of all the elements of WIDTH bytes,
 *                      for j = 0, 1, ... unshuffle is the inverse.
 *   crc32              as zlib's crc32().
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Element types. The first HR__N_DATA_TYPES may be named in a kernel's text; the others appear only
 * as the type of a result. */
enum hr__type {
    HR__TYPE_U8,
    HR__TYPE_I8,
    HR__TYPE_U16,
    HR__TYPE_I16,
    HR__TYPE_I32,
    HR__TYPE_I64,
    HR__TYPE_F16,
    HR__TYPE_BF16,
    HR__TYPE_F32,
    HR__TYPE_F64,
    HR__TYPE_U32,
    HR__TYPE_U64,
};
enum { HR__N_DATA_TYPES = HR__TYPE_F64 + 1 };

enum hr__kernel_kind {
    HR__KERNEL_CAST,
    HR__KERNEL_SCALE,
    HR__KERNEL_BSWAP,
    HR__KERNEL_SHUFFLE,
    HR__KERNEL_UNSHUFFLE,
    HR__KERNEL_FILTER,
    HR__KERNEL_SUM, /* from here on: reductions */
    HR__KERNEL_MIN,
    HR__KERNEL_MAX,
    HR__KERNEL_MEAN,
    HR__KERNEL_HISTOGRAM,
    HR__KERNEL_COUNT,
    HR__KERNEL_CRC32,
};

/* A comparison with VALUE, without a branch on the operator:
 * satisfied = ((x < v) & lt | (x == v) & eq | (x > v) & gt) ^ invert. */
struct hr__compare {
    bool lt;
    bool eq;
    bool gt;
    bool invert;
    int64_t int_value;  /* for integer types */
    double float_value; /* for float types */
};

/* A parsed kernel. Plain data: copy it freely. */
struct hr__kernel_spec {
    enum hr__kernel_kind kind;
    enum hr__type from;      /* element type read; U8 for byte kernels */
    enum hr__type to;        /* element type written, or of the result of a reduction */
    uint32_t unit_in_bytes;  /* a unit never straddles two calls */
    uint32_t unit_out_bytes; /* bytes written per unit; per unit kept for filter; 0: reduction */
    bool is_reduction;
    bool is_counted;      /* the output size is known only afterwards (filter) */
    uint64_t state_bytes; /* of a reduction's state, aligned to 8; 0 otherwise */
    /* parameters; those of other kinds are 0 */
    double mul;
    double add;
    double lo;
    double hi;
    uint32_t n_bins;
    uint32_t width_bytes; /* bswap, shuffle, unshuffle */
    struct hr__compare compare;
};

/*
 * Parse the text of a built-in kernel:
 *
 *   cast:FROM,TO                scale:TYPE,MUL,ADD         bswap:2|4|8
 *   shuffle:WIDTH,BLOCK         unshuffle:WIDTH,BLOCK      filter:TYPE,OP,VALUE
 *   sum:TYPE  min:TYPE  max:TYPE  mean:TYPE                count:TYPE,OP,VALUE
 *   histogram[:TYPE,LO,HI,BINS]                            crc32
 *
 * TYPE, FROM, TO: u8 i8 u16 i16 i32 i64 f16 bf16 f32 f64. OP: lt le gt ge eq ne. BLOCK is a
 * multiple of WIDTH. Numbers are read in the C locale whatever the caller's.
 * Returns 0, or -1 with *out untouched and one line in why (if why_size > 0) naming the wrong word
 * and what is accepted.
 */
int hr__kernel_parse(const char *text, struct hr__kernel_spec *out, char *why, size_t why_size);

/* Bytes of one element. */
size_t hr__type_bytes(enum hr__type type);

/* The type's word, as in a kernel's text. Owns: static. */
const char *hr__type_name(enum hr__type type);

/* Kinds CAST to UNSHUFFLE: read n_units units, write n_units units. */
void hr__kernel_map(const struct hr__kernel_spec *spec, const void *in, void *out, size_t n_units);

/* Kind FILTER: write the units that satisfy and return how many. `out` has room for n_units; what
 * lies after those kept is unspecified. */
uint64_t hr__kernel_filter(const struct hr__kernel_spec *spec, const void *in, void *out,
                           size_t n_units);

/*
 * Reductions. A state is spec->state_bytes of memory aligned to 8, with no pointers in it: it may
 * be copied, and sent to another process of the same byte order. The result has the same bits for
 * every way of cutting the data into folds, and every order and grouping of folds and merges,
 * provided that each unit is folded exactly once with its own position in the stream.
 */
void hr__reduce_init(const struct hr__kernel_spec *spec, void *state);

/* Add n_units units, the first of which is unit `first_unit` of the stream. */
void hr__reduce_fold(const struct hr__kernel_spec *spec, void *state, const void *data,
                     size_t n_units, uint64_t first_unit);

/* Add what `from` holds to `into`; commutative and associative. */
void hr__reduce_merge(const struct hr__kernel_spec *spec, void *into, const void *from);

struct hr__reduce_result {
    enum hr__type type;
    uint32_t n_values; /* 1; BINS for histogram; 0 for min and max of no units */
    uint64_t n_units;  /* how many units were folded */
    const void *data;  /* n_values values of type, inside the state */
};

/* Give the result. Folding may go on afterwards; `result->data` is valid until then. */
void hr__reduce_finish(const struct hr__kernel_spec *spec, void *state,
                       struct hr__reduce_result *result);

/* CRC-32 as zlib's crc32(): start with crc = 0. */
uint32_t hr__crc32(uint32_t crc, const void *data, size_t n_bytes);

/* The same by tables only: the plain twin of the carry-less multiplication path. */
uint32_t hr__crc32_plain(uint32_t crc, const void *data, size_t n_bytes);

/* CRC-32 of A followed by B from those of A and of B, as zlib's crc32_combine(). */
uint32_t hr__crc32_combine(uint32_t crc_a, uint32_t crc_b, uint64_t b_bytes);

/* a(x) * x^(8 * n_bytes) mod P, bit-reflected; n_bytes taken modulo the order of x^8. With
 * `inverse`, the exponent is negative. */
uint32_t hr__crc32_shift(uint32_t a, uint64_t n_bytes, bool inverse);

/* Exact sum of doubles: see exact_sum.c. */
enum { HR__EXACT_LIMBS = 70 };
struct hr__exact {
    int64_t limb[HR__EXACT_LIMBS];
    uint64_t specials;
};

void hr__exact_add(struct hr__exact *acc, enum hr__type type, const void *data, size_t n);
void hr__exact_merge(struct hr__exact *into, const struct hr__exact *from);

/* The sum divided by n (n > 0), rounded once to nearest even. */
double hr__exact_quotient(const struct hr__exact *acc, uint64_t n);

/* The integer hi * 2^64 + lo (two's complement) divided by n (n > 0), rounded once. */
double hr__int128_quotient(uint64_t hi, uint64_t lo, uint64_t n);

/* For the dispatch inside this directory. */
void hr__cast(enum hr__type from, enum hr__type to, const void *in, void *out, size_t n);
void hr__scale(enum hr__type type, double mul, double add, const void *in, void *out, size_t n);
uint64_t hr__count(const struct hr__kernel_spec *spec, const void *in, size_t n);

#endif
