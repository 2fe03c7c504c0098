// SPDX-License-Identifier: Apache-2.0
/*
 * Filter and count by threshold. Each element is widened without loss and compared with VALUE; the
 * operator is three masks and an inversion, so the loops have no branch.
 */
#include <assert.h>

#include "host_kernels.h"
#include "host_numbers.h"

static inline unsigned int_satisfies(struct hr__compare c, int64_t x)
{
    const unsigned any = ((unsigned)(x < c.int_value) & c.lt) |
                         ((unsigned)(x == c.int_value) & c.eq) |
                         ((unsigned)(x > c.int_value) & c.gt);
    return any ^ c.invert;
}

static inline unsigned float_satisfies(struct hr__compare c, double x)
{
    const unsigned any = ((unsigned)(x < c.float_value) & c.lt) |
                         ((unsigned)(x == c.float_value) & c.eq) |
                         ((unsigned)(x > c.float_value) & c.gt);
    return any ^ c.invert;
}

/* In the filter, out[kept] is written whether kept or not: kept <= i, so it is in bounds. */
#define FILTER_LOOPS(T, SATISFIES)                                                                 \
    static uint64_t count_##T(struct hr__compare c, const void *in, size_t n)                      \
    {                                                                                              \
        const hr__raw_##T *from = in;                                                              \
        uint64_t kept = 0;                                                                         \
        for (size_t i = 0; i < n; i++)                                                             \
            kept += SATISFIES(c, hr__load_##T(from + i));                                          \
        return kept;                                                                               \
    }                                                                                              \
    static uint64_t filter_##T(struct hr__compare c, const void *restrict in, void *restrict out,  \
                               size_t n)                                                           \
    {                                                                                              \
        const hr__raw_##T *restrict from = in;                                                     \
        unsigned char *restrict to = out;                                                          \
        size_t kept = 0;                                                                           \
        for (size_t i = 0; i < n; i++) {                                                           \
            memcpy(to + kept * sizeof *from, from + i, sizeof *from);                              \
            kept += SATISFIES(c, hr__load_##T(from + i));                                          \
        }                                                                                          \
        return kept;                                                                               \
    }
#define FILTER_INT(T, ENUM, W) FILTER_LOOPS(T, int_satisfies)
#define FILTER_FLOAT(T, ENUM, W) FILTER_LOOPS(T, float_satisfies)

HR__INT_TYPES(FILTER_INT)
HR__FLOAT_TYPES(FILTER_FLOAT)

typedef uint64_t count_fn(struct hr__compare c, const void *in, size_t n);
typedef uint64_t filter_fn(struct hr__compare c, const void *restrict in, void *restrict out,
                           size_t n);

#define COUNT_ROW(T, ENUM, W) [HR__TYPE_##ENUM] = count_##T,
#define FILTER_ROW(T, ENUM, W) [HR__TYPE_##ENUM] = filter_##T,

static count_fn *const count_table[HR__N_DATA_TYPES] = {HR__ALL_TYPES(COUNT_ROW)};
static filter_fn *const filter_table[HR__N_DATA_TYPES] = {HR__ALL_TYPES(FILTER_ROW)};

uint64_t hr__count(const struct hr__kernel_spec *spec, const void *in, size_t n)
{
    return count_table[spec->from](spec->compare, in, n);
}

uint64_t hr__kernel_filter(const struct hr__kernel_spec *spec, const void *in, void *out,
                           size_t n_units)
{
    assert(spec->kind == HR__KERNEL_FILTER);
    return filter_table[spec->from](spec->compare, in, out, n_units);
}
