// SPDX-License-Identifier: Apache-2.0
/* Host memory of chunks on loan, in a forked child.
 *
 * What chunks lie in is not inherited (MADV_DONTFORK): a page that the system or a driver has pinned
 * for input must stay the parent's, and copy on write may give it to the child (open(2), NOTES on
 * O_DIRECT and fork). But a child of multiprocessing may well have a view of a chunk, which it then
 * reads. So the bytes on loan at that moment are copied, and put where they were in the child: a few
 * megabytes for each fork, and nothing for each chunk. */
#ifndef HRP_LENT_H
#define HRP_LENT_H

#include <stddef.h>

/* Part of who holds the loan. */
struct hrp__lent {
    const char *data;
    size_t size;
    char *copy; /* while the process forks; NULL: there was no memory for it */
    struct hrp__lent *next;
    struct hrp__lent *before;
};

void hrp__lent_add(struct hrp__lent *lent);
void hrp__lent_remove(struct hrp__lent *lent);

/* How many forks are between the process that used this library first, and this one: what was made
 * under another number is a parent's. For every chunk, where getpid(2) is a system call each time. */
unsigned hrp__n_forks(void);

#endif
