// SPDX-License-Identifier: Apache-2.0
/* The time in which any of several operations was at work, told by their begins and ends in any
 * order. Kernels of several streams, say: what they do at once counts once. */
#ifndef HR_COVER_H
#define HR_COVER_H

#include <stdint.h>

/* More than operations that may be under way at once. */
enum { HR__COVER_PIECES = 64 };

/* Zero in all fields: nothing is covered. */
struct hr__cover {
    unsigned n;
    struct hr__cover_piece {
        uint64_t from;
        uint64_t until;
    } pieces[HR__COVER_PIECES]; /* the youngest, which do not touch, in their order */
};

/* Returns how much of [from, until) was not covered before; it is now. What is far older than other
 * operations, by as many gaps as there are pieces, counts as covered. */
uint64_t hr__cover_add(struct hr__cover *cover, uint64_t from, uint64_t until);

#endif
