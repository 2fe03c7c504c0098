// SPDX-License-Identifier: Apache-2.0
/* Prints the entry of each kernel of the table, and the bytes of the parameters that a launch
 * passes: six of 8 bytes, and the arguments. */
#include <stdio.h>

#include "conformance_table.h"
#include "gpu_builtin.h"

static void list(void *user, const char *text)
{
    struct hr__kernel_spec spec;
    struct hr__gpu_builtin builtin;
    bool *ok = user;
    if (hr__kernel_parse(text, &spec, NULL, 0) != 0 || hr__gpu_builtin(&spec, &builtin) != HR_OK)
        *ok = false;
    else
        printf("%s %zu\n", builtin.entry, 6 * sizeof(uint64_t) + builtin.args_size);
}

int main(void)
{
    bool ok = true;
    conformance_each_kernel(list, &ok);
    return !ok;
}
