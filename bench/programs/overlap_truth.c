// SPDX-License-Identifier: Apache-2.0
/* What hr_stats tells of pipelines whose stages have known lengths, beside what follows from these
 * lengths and from a wall that was measured outside. Prints JSON; see overlap_checks.h.
 * Usage: overlap_truth DEVICE: "host", or a GPU, on which copies and kernels come to it. */
#include <stdio.h>
#include <string.h>

#include "overlap_cases.h"
#include "overlap_checks.h"

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    host_lines();
    host_codecs();
    host_pipes();
    host_counter_examples();
    if (strcmp(argv[1], "host") != 0) {
        gpu_cases(argv[1]);
    } else {
        not_here("bound by H2D", "a GPU copies, the host does not");
        not_here("bound by D2H", "a GPU copies, the host does not");
        not_here("copies that are queued", "a GPU copies, the host does not");
    }
    print_all(argv[1]);
    return 0;
}
