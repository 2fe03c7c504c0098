// SPDX-License-Identifier: Apache-2.0
/* The driver's library, which is found when the program runs, and why there is no device. */
#ifndef HR_GPU_LIBRARY_H
#define HR_GPU_LIBRARY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* Opens the first of the names that there is; loaded ones first: two copies of a driver in one
 * process do not bear each other. It stays for ever: drivers leave threads and handlers behind.
 * NULL: none; why gets the names. */
void *hr__gpu_library_open(const char *const *names, char *why, size_t why_size);

/* Sets a pointer to a function, NULL if the library has not got it. */
bool hr__gpu_library_find(void *library, const char *symbol, void *field);

/* Which process started the driver first; 0: none that this library knows of. A child inherits
 * it, and cannot use the driver. */
struct hr__gpu_starter {
    atomic_int pid;
};
void hr__gpu_note_start(struct hr__gpu_starter *starter);
/* True in a child of the process that started it, with the reason in why. */
bool hr__gpu_started_before_fork(struct hr__gpu_starter *starter, char *why, size_t why_size);
void hr__gpu_tell_fork(char *why, size_t why_size);

/* Drivers hide the devices that a variable does not name, and say nothing of it. The first of the
 * variables that is set is told; false: none is. */
bool hr__gpu_tell_hidden(const char *const *variables, char *why, size_t why_size);

#endif
