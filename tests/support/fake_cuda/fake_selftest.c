// SPDX-License-Identifier: Apache-2.0
/* For `headrace devices --selftest` over the fake driver: the kernel that its source text stands for,
 * and what goes wrong, as HR_FAKE_FAULT says: "kernel" (its results from byte 100 of a chunk on),
 * "hang" or "abort" (when it runs), "pins" (memory is not pinned). */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_cuda.h"

enum param { IN, N_IN, OUT, N_UNITS, FIRST_UNIT, ARGS };

static const char *fault = "";

static uint64_t number(const struct fake_cuda_launch *launch, enum param param)
{
    uint64_t value;
    memcpy(&value, launch->params[param], sizeof value);
    return value;
}

static int add(const struct fake_cuda_launch *launch)
{
    enum { GOOD_BYTES = 100 };
    const size_t n = (size_t)number(launch, N_UNITS);
    const uint64_t first = number(launch, FIRST_UNIT);
    const uint64_t *inputs = fake_cuda_host(number(launch, IN), sizeof *inputs);
    const unsigned char *in = fake_cuda_host(inputs[0], n);
    const unsigned char *args = fake_cuda_host(number(launch, ARGS), 1);
    unsigned char *out = fake_cuda_host(number(launch, OUT), n);
    while (strcmp(fault, "hang") == 0)
        pause();
    if (strcmp(fault, "abort") == 0)
        abort();
    for (size_t i = 0; i < n; i++)
        out[i] = (unsigned char)(in[i] + args[0] + first + i);
    if (strcmp(fault, "kernel") == 0 && n > GOOD_BYTES)
        out[GOOD_BYTES] ^= 1;
    return 0;
}

__attribute__((constructor)) static void set_up(void)
{
    static const size_t sizes[] = {8, 4, 8, 8, 8, 8, 0};
    const char *asked = getenv("HR_FAKE_FAULT");
    if (asked)
        fault = asked;
    fake_cuda_kernel("headrace_selftest", add, sizes);
    fake_cuda_refuse_pins(strcmp(fault, "pins") == 0);
}
