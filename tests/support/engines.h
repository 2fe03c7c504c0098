// SPDX-License-Identifier: Apache-2.0
#ifndef HR_TEST_ENGINES_H
#define HR_TEST_ENGINES_H

#include <headrace.h>
#include <stdint.h>

/* The I/O engines to test, as enum hr_io_choice: the one that HR_TEST_IO names ("uring", "threads",
 * "auto"), else both; io_uring only if the system does not refuse it. Returns how many. */
unsigned test_engines(uint32_t engines[2]);

/* A loop on each of them, on a context of its own; returns how many. Aborts if there is none. */
unsigned test_loops(hr_loop *loops[2]);

#endif
