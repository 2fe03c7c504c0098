// SPDX-License-Identifier: Apache-2.0
#include "cover.h"

#include <string.h>

/* Pieces [first, last) give way to n of them. */
static void replace(struct hr__cover *cover, unsigned first, unsigned last, unsigned n)
{
    memmove(&cover->pieces[first + n], &cover->pieces[last],
            (cover->n - last) * sizeof cover->pieces[0]);
    cover->n = cover->n - (last - first) + n;
}

/* Room for one more: the gap behind the oldest is given up. */
static void join_oldest(struct hr__cover *cover)
{
    cover->pieces[1].from = cover->pieces[0].from;
    replace(cover, 0, 1, 0);
}

uint64_t hr__cover_add(struct hr__cover *cover, uint64_t from, uint64_t until)
{
    if (until <= from)
        return 0;
    if (cover->n == HR__COVER_PIECES)
        join_oldest(cover);
    unsigned first = cover->n;
    while (first > 0 && cover->pieces[first - 1].until >= from)
        first--;
    unsigned last = first;
    uint64_t known = 0;
    struct hr__cover_piece all = {from, until};
    for (; last < cover->n && cover->pieces[last].from <= all.until; last++) {
        known += cover->pieces[last].until - cover->pieces[last].from;
        if (cover->pieces[last].from < all.from)
            all.from = cover->pieces[last].from;
        if (cover->pieces[last].until > all.until)
            all.until = cover->pieces[last].until;
    }
    replace(cover, first, last, 1);
    cover->pieces[first] = all;
    return all.until - all.from - known;
}
