// SPDX-License-Identifier: Apache-2.0
/* Finds libraries of drivers and compilers, and tells what commonly keeps devices away. */
#include "gpu_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void append(char *text, size_t size, const char *more)
{
    const size_t n = strlen(text);
    if (n + 1 < size)
        snprintf(text + n, size - n, "%s", more);
}

void *hr__gpu_library_open(const char *const *names, char *why, size_t why_size)
{
    void *library = NULL;
    for (size_t i = 0; names[i] && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD | RTLD_NODELETE);
    for (size_t i = 0; names[i] && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library || why_size == 0)
        return library;
    snprintf(why, why_size, "library not found: tried %s", names[0]);
    for (size_t i = 1; names[i]; i++) {
        append(why, why_size, ", ");
        append(why, why_size, names[i]);
    }
    return NULL;
}

/* POSIX: what dlsym returns may be read as a pointer to a function, which ISO C cannot cast to. */
bool hr__gpu_library_find(void *library, const char *symbol, void *field)
{
    void *address = dlsym(library, symbol);
    memcpy(field, &address, sizeof address);
    return address;
}

void hr__gpu_note_start(struct hr__gpu_starter *starter)
{
    int nobody = 0;
    atomic_compare_exchange_strong(&starter->pid, &nobody, (int)getpid());
}

void hr__gpu_tell_fork(char *why, size_t why_size)
{
    snprintf(why, why_size,
             "the driver was started before a fork, which it does not survive: start children by "
             "\"spawn\"");
}

bool hr__gpu_started_before_fork(struct hr__gpu_starter *starter, char *why, size_t why_size)
{
    const int pid = atomic_load_explicit(&starter->pid, memory_order_relaxed);
    if (pid == 0 || pid == (int)getpid())
        return false;
    hr__gpu_tell_fork(why, why_size);
    return true;
}

bool hr__gpu_tell_hidden(const char *const *variables, char *why, size_t why_size)
{
    for (size_t i = 0; variables[i]; i++) {
        const char *visible = getenv(variables[i]);
        if (!visible)
            continue;
        snprintf(why, why_size, "devices hidden: %s is \"%.64s\"", variables[i], visible);
        return true;
    }
    return false;
}
