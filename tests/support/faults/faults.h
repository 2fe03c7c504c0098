// SPDX-License-Identifier: Apache-2.0
/* Faults made on purpose, below the library: its calls of the C library and of liburing come here
 * first, because a program (or a preloaded library) that defines a function is found before the
 * library that does. Linked into a program, the functions below steer it; preloaded as
 * libhr_faults.so, the environment does (faults_env.c).
 *
 *   allocations   malloc calloc realloc reallocarray aligned_alloc posix_memalign strdup strndup
 *                 mmap pthread_create
 *   reads         read pread preadv2 recv, io_uring's READ READ_FIXED RECV
 *   writes        write pwrite pwritev2 send, io_uring's WRITE WRITE_FIXED SEND
 *
 * Reads and writes count on files, pipes, sockets and devices, not on an eventfd. Under io_uring a
 * request is changed just before it is submitted: a cap shortens it, and a failure makes it a NOP
 * with that result, which the kernel offers since 6.10. */
#ifndef HR_FAULTS_H
#define HR_FAULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hr_fault { HR_FAULT_ALLOC, HR_FAULT_READ, HR_FAULT_WRITE, HR_FAULT_COUNT };

/* From now on the nth operation of a kind (1: the next) and the times - 1 after it fail with error,
 * an errno; nth 0: none does. Allocations fail with ENOMEM, threads with EAGAIN, whatever error. */
void hr_faults_fail(enum hr_fault kind, uint64_t nth, uint64_t times, int error);

/* Whether an operation failed since hr_faults_fail. */
bool hr_faults_struck(enum hr_fault kind);

/* Every read and write moves at most a random number of bytes from 1 to most; 0: as asked for.
 * Returns how many were shortened since the last call. */
uint64_t hr_faults_cap(size_t most, uint32_t seed);

/* How many allocations were made, by all threads, since the last call. */
uint64_t hr_faults_mark(void);

/* What the calling thread does from now on neither counts nor fails. Returns what was before. */
bool hr_faults_exempt(bool exempt);

/* Whether the kernel offers what a failure under io_uring needs. */
bool hr_faults_can_fail_uring(void);

/* ---- For the functions that stand in ------------------------------------------------------- */

/* Counts an operation. Its error if it is to fail, else 0. */
int hr_faults_strike(enum hr_fault kind);

/* The same for a read or write of *size bytes, which may become fewer. */
int hr_faults_strike_io(enum hr_fault kind, int fd, size_t *size);

/* Stores in *function the next definition of name; ends the program if there is none. */
void hr_faults_find(void *function, const char *name);

#endif
