// SPDX-License-Identifier: Apache-2.0
/* Whole pipelines on a device, compared with the host's: every end, every kind of kernel, loans,
 * errors, many at once, and again and again.
 *
 *     run_pipelines DEVICE [--cycles N] [--quick] [GROUP]...
 *
 * A plain main for machines without Criterion. Prints a line for each group; what differs is told
 * in lines before it. Where the device is not there, it is skipped with exit status 77; but if the
 * environment variable HR_REQUIRE names the device's backend, as in HR_REQUIRE=cuda, it fails.
 * HR_TEST_IO names the I/O engine. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "transfers.h"
#include "trials.h"
#ifdef HR_OVER_FAKE_CUDA
#include "fake_cuda.h"
#endif

enum { SKIPPED = 77, USAGE = 2, LIMIT_S = 290, GPU_LIMIT_S = 3000 };

static const struct group {
    const char *name;
    void (*run)(struct bed *bed);
} groups[] = {
    {"ends", group_ends},     {"device ends", group_device_ends},
    {"zstd", group_zstd},     {"kernels", group_kernels},
    {"cuts", group_cuts},     {"loans", group_loans},
    {"errors", group_errors}, {"misuse", group_misuse},
    {"many", group_many},     {"cycles", group_cycles},
};
enum { N_GROUPS = sizeof groups / sizeof groups[0] };

static bool is_required(const char *device)
{
    const char *required = getenv("HR_REQUIRE");
    const size_t n = strcspn(device, ":");
    return required && strlen(required) == n && memcmp(required, device, n) == 0;
}

static bool is_chosen(const char *group, int n, char **names)
{
    bool chosen = n == 0;
    for (int i = 0; i < n; i++)
        chosen = chosen || strcmp(group, names[i]) == 0;
    return chosen;
}

/* Takes the options out of the arguments; the rest are groups. */
static int read_options(struct bed *bed, int argc, char **argv)
{
    int n = 0;
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--cycles") == 0 && i + 1 < argc)
            bed->n_cycles = (unsigned)strtoul(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--quick") == 0)
            bed->is_quick = true;
        else
            argv[n++] = argv[i];
    }
    return n;
}

/* The smallest pipeline that needs the device. */
static hr_status try_device(struct bed *bed, hr_error *error)
{
    void *memory = NULL;
    const hr_status status = hr_device_alloc(bed->context, bed->device, 1, &memory, error);
    hr_device_free(bed->context, bed->device, memory);
    return status;
}

static int skip(const char *device, hr_status status, const hr_error *error)
{
    if (status == HR_EUNSUPPORTED && !is_required(device)) {
        printf("skip: %s\n", error->text);
        return SKIPPED;
    }
    printf("not ok the device: %s: %s\n", hr_status_name(status), error->text);
    return EXIT_FAILURE;
}

/* The fake driver counts what nobody gave back. HIP keeps its contexts, wherever it runs. */
static bool leaves_nothing(const char *device)
{
#ifdef HR_OVER_FAKE_CUDA
    struct fake_cuda_live live = fake_cuda_live();
    if (strncmp(device, "hip", strlen("hip")) == 0)
        live.contexts = 0;
    printf("# left: %d contexts, %d streams, %d events, %d allocations, %d pins, %d modules\n",
           live.contexts, live.streams, live.events, live.allocations, live.pins, live.modules);
    return !live.contexts && !live.streams && !live.events && !live.allocations && !live.pins &&
           !live.modules;
#else
    (void)device;
    return true;
#endif
}

static void run_group(struct bed *bed, const struct group *group)
{
    char name[64];
    bed->group = group->name;
    bed->n_trials = bed->n_differ = 0;
    limit_time(bed->is_gpu ? GPU_LIMIT_S : LIMIT_S, group->name);
    group->run(bed);
    snprintf(name, sizeof name, "%s: %u comparisons", group->name, bed->n_trials);
    check_that(bed->n_differ == 0 && bed->n_trials > 0, name, "%u differ", bed->n_differ);
}

int main(int argc, char **argv)
{
    struct bed bed = {.device = argc > 1 ? argv[1] : "host",
                      .n_cycles = 20,
                      .directory = "/tmp/headrace-test-XXXXXX"};
    const int n_names = argc > 2 ? read_options(&bed, argc - 2, argv + 2) : 0;
    hr_error error = {0};
    unsigned n_trials = 0;
    unsigned n_differ = 0;
    signal(SIGPIPE, SIG_IGN); /* a peer's end may be closed early */
    hr_status status = hr_context_create(NULL, &bed.context, &error);
    if (status == HR_OK)
        status = try_device(&bed, &error);
    if (status != HR_OK) {
        hr_context_free(bed.context);
        return skip(bed.device, status, &error);
    }
    bed.is_gpu = strcmp(bed.device, "host") != 0;
#ifdef HR_OVER_FAKE_CUDA
    bed.is_small = true;
#endif
    bed.loop = bed_loop(bed.context);
    if (!mkdtemp(bed.directory))
        return USAGE;
    for (size_t i = 0; i < N_GROUPS; i++) {
        if (!is_chosen(groups[i].name, n_names, argv + 2))
            continue;
        run_group(&bed, &groups[i]);
        n_trials += bed.n_trials;
        n_differ += bed.n_differ;
    }
    hr_loop_free(bed.loop);
    hr_context_free(bed.context);
    rmdir(bed.directory);
    check_that(leaves_nothing(bed.device), "nothing is left in the driver", "see above");
    check_that(!has_leaked(), "no leak", "memory was lost");
    printf("# %u comparisons, %u differ\n", n_trials, n_differ);
    return end_checks();
}
