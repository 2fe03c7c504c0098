// SPDX-License-Identifier: Apache-2.0
/* What overlap_truth found: figures that are wanted and got, the runs they come from, and what could
 * not be run. All is printed as JSON at the end. */
#ifndef OVERLAP_CHECKS_H
#define OVERLAP_CHECKS_H

#include <headrace.h>
#include <stdint.h>

enum relation { WITHIN, AT_MOST, AT_LEAST };

/* Begins a case: what follows is of it, until the next one. */
void case_begin(const char *name);
/* WITHIN: got is from wanted by at most this part of it; AT_MOST and AT_LEAST allow that, too. */
void check(const char *figure, double wanted, double got, enum relation relation, double margin);
/* From here on, until it is NULL again, figures are only told, and why they are not judged. */
void doubt(const char *why);
/* A figure that stands beside the others and is not judged. */
void tell(const char *figure, double wanted, double got);
void check_stage(const char *figure, enum hr_stage wanted, enum hr_stage got);
/* What a pipeline told, and the wall as a clock outside of it saw it: for whom a check fails. */
void keep_run(const char *name, const struct hr_stats *stats, uint64_t wall_ns);
void not_here(const char *name, const char *why);

void print_all(const char *device);
/* Ends the program with a line. */
_Noreturn void stop(const char *what, const char *why);

#endif
