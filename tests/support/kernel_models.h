// SPDX-License-Identifier: Apache-2.0
/* Built-in kernels once more, over a whole stream at once, in the plainest C: what pipelines are
 * compared with. Values are those that small formulas give exactly; the rounding of odd ones is the
 * unit tests' matter. */
#ifndef HR_TEST_KERNEL_MODELS_H
#define HR_TEST_KERNEL_MODELS_H

#include <stddef.h>
#include <stdint.h>

struct model_result {
    uint64_t n_units;
    uint64_t n_values;
    size_t size; /* bytes of data */
    unsigned char data[256 * 8];
};

struct model {
    const char *text;
    size_t unit; /* bytes that are read at once */
    size_t most; /* bytes given for a unit, at most */
    /* Of n whole units; returns the bytes given. NULL: a reduction. */
    size_t (*map)(const unsigned char *in, size_t n_units, unsigned char *out);
    void (*reduce)(const unsigned char *in, size_t n_units, struct model_result *out);
};

extern const struct model kernel_models[];
extern const size_t n_kernel_models;

const struct model *model_of(const char *text);

#endif
