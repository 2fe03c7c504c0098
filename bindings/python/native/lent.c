// SPDX-License-Identifier: Apache-2.0
#include "lent.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000 /* linux/mman.h from 4.17 on; before, a mere hint */
#endif

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list; held while forking */
static struct hrp__lent *first;
static atomic_uint n_forks; /* relaxed: changes while there is one thread */

static void *map(void *at, size_t size, int flags)
{
    return mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

static void drop_copies(void)
{
    for (struct hrp__lent *lent = first; lent; lent = lent->next)
        if (lent->copy)
            munmap(lent->copy, lent->size);
}

/* ---- around a fork ---- */

static void before(void)
{
    pthread_mutex_lock(&lock);
    for (struct hrp__lent *lent = first; lent; lent = lent->next) {
        lent->copy = map(NULL, lent->size, 0);
        if (lent->copy == MAP_FAILED)
            lent->copy = NULL;
        else
            memcpy(lent->copy, lent->data, lent->size);
    }
}

static void in_parent(void)
{
    drop_copies();
    pthread_mutex_unlock(&lock);
}

/* Where something is there already it is a source's own memory, which the child has anyhow. */
static void put_back(const struct hrp__lent *lent)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    union {
        const char *data;
        char *at;
    } to = {lent->data};
    const size_t ahead = (uintptr_t)to.at % page;
    char *start = to.at - ahead;
    const size_t size = (ahead + lent->size + page - 1) / page * page;
    char *mapped = map(start, size, MAP_FIXED_NOREPLACE);
    if (mapped == start)
        memcpy(to.at, lent->copy, lent->size);
    else if (mapped != MAP_FAILED)
        munmap(mapped, size);
}

static void in_child(void)
{
    atomic_fetch_add_explicit(&n_forks, 1, memory_order_relaxed);
    for (const struct hrp__lent *lent = first; lent; lent = lent->next)
        if (lent->copy)
            put_back(lent);
    drop_copies();
    pthread_mutex_unlock(&lock); /* the child's only thread has it */
}

static void register_all(void)
{
    pthread_atfork(before, in_parent, in_child);
}

unsigned hrp__n_forks(void)
{
    pthread_once(&once, register_all);
    return atomic_load_explicit(&n_forks, memory_order_relaxed);
}

/* ---- the list ---- */

void hrp__lent_add(struct hrp__lent *lent)
{
    pthread_once(&once, register_all);
    pthread_mutex_lock(&lock);
    lent->before = NULL;
    lent->next = first;
    if (first)
        first->before = lent;
    first = lent;
    pthread_mutex_unlock(&lock);
}

void hrp__lent_remove(struct hrp__lent *lent)
{
    pthread_mutex_lock(&lock);
    if (lent->before)
        lent->before->next = lent->next;
    else
        first = lent->next;
    if (lent->next)
        lent->next->before = lent->before;
    pthread_mutex_unlock(&lock);
}
