// SPDX-License-Identifier: Apache-2.0
/* conformance [DEVICE [N]]: what every device must do, on the one named (default "host"), with each
 * Nth of the kernels (default 1, all: slow tools that watch the program need a part).
 *
 * A plain main, one process: the machines with GPUs have no Criterion, and a GPU context for each
 * test would be slow. Where the device is not there, it is skipped with exit status 77; but if the
 * environment variable HR_REQUIRE names the device's backend, as in HR_REQUIRE=cuda, it fails. */
#include <stdio.h>
#include <stdlib.h>

#include "backend.h"
#include "conformance_body.h"
#include "device_tools.h"

enum { SKIPPED = 77 };

static int skip(const char *device, const hr_error *error)
{
    if (device_is_required(device)) {
        printf("not ok open: %s\n0 passed, 1 failed, 0 skipped\n", error->text);
        return EXIT_FAILURE;
    }
    printf("skip: %s\n", error->text);
    return SKIPPED;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "host";
    char why[HR_ERROR_TEXT];
    struct hr__device *device = NULL;
    struct conformance_counts counts = {.stride = 1};
    hr_error error;
    const hr_status status = hr__device_open(name, &device, why, sizeof why, &error);
    if (status == HR_EUNSUPPORTED)
        return skip(name, &error);
    if (status != HR_OK) {
        printf("not ok open: %s\n0 passed, 1 failed, 0 skipped\n", error.text);
        return EXIT_FAILURE;
    }
    if (argc > 2 && atoi(argv[2]) > 1)
        counts.stride = (unsigned)atoi(argv[2]);
    conformance_run(device, &counts);
    device->ops->close(device);
    printf("%u passed, %u failed, 0 skipped\n", counts.n_passed, counts.n_failed);
    return counts.n_failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
