// SPDX-License-Identifier: Apache-2.0
/* What figures must be read with: the machine they come from; and its clock. */
#include <sched.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

/* Some architectures name no model there. */
static void find_cpu_model(char *out, size_t size)
{
    char line[512];
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        colon[1 + strcspn(colon + 1, "\n")] = '\0';
        snprintf(out, size, "%s", colon + 1 + strspn(colon + 1, " "));
        break;
    }
    if (file)
        fclose(file);
}

void look_at_machine(struct machine *m)
{
    struct utsname name;
    cpu_set_t usable;
    *m = (struct machine){.cpu = "unknown CPU", .system = "unknown system"};
    find_cpu_model(m->cpu, sizeof m->cpu);
    if (uname(&name) == 0)
        snprintf(m->system, sizeof m->system, "%.80s %.80s %.80s", name.sysname, name.release,
                 name.machine);
    m->n_cpus = sched_getaffinity(0, sizeof usable, &usable) == 0 ? CPU_COUNT(&usable)
                                                                  : sysconf(_SC_NPROCESSORS_ONLN);
    m->memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
