// SPDX-License-Identifier: Apache-2.0
/* Which order is kept. Most streams go in order from end to end. But where each chunk's place in the
 * stream is known before it is read, and nobody sees the order, or the user does not want it, a chunk
 * does not wait for a slower one before it:
 *
 *     read      [0 ......................][1 ..][2 ...][3 ..][5 ..]...
 *     sink                            1  2   3   5  ...  0
 *
 * An error ends the stream at its place all the same: what precedes it is delivered, and what the sink
 * has beyond it does not count. */
#ifndef HR_ORDER_H
#define HR_ORDER_H

#include <stdbool.h>

#include "headrace.h"

struct hr__slot;

/* Decides it, once ends, chain and sizes are known. */
void hr__order_plan(hr_pipeline *pipeline, uint32_t n_kernels);

/* The number of the chunk that is cut from a block, where each is one; the marks between are none. */
uint64_t hr__order_number(const struct hr__slot *block);

/* Whether some that stand before the failing piece may still be on their way: they are delivered all
 * the same, unless the user cancelled. */
bool hr__order_owes(const hr_pipeline *pipeline);
/* Whether the pipeline failed, and the piece of that number is not delivered any more. */
bool hr__order_passes_over(const hr_pipeline *pipeline, uint64_t number);

/* The first piece of the output that was not given to the sink. */
struct hr__gap hr__order_first_left(const hr_pipeline *pipeline);
/* Where the output of a failed stream ends, of which nothing is under way. */
uint64_t hr__order_settle(hr_pipeline *pipeline);

#endif
