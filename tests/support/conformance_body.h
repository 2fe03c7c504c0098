// SPDX-License-Identifier: Apache-2.0
/* What every device must do: one body of tests for all of them, over backend.h alone. */
#ifndef HR_CONFORMANCE_BODY_H
#define HR_CONFORMANCE_BODY_H

#include "backend.h"

struct conformance_counts {
    unsigned stride; /* each so manyth kernel is tested: 1 for all */
    unsigned n_kernels;
    unsigned n_passed;
    unsigned n_failed;
};

/* Runs all tests on the device and prints a line for each, "ok NAME" or "not ok NAME: why". */
void conformance_run(struct hr__device *device, struct conformance_counts *counts);

#endif
