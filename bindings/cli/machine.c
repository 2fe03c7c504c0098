// SPDX-License-Identifier: Apache-2.0
/* What figures must be read with: the machine they come from; and its clock. */
#include <sched.h>
#include <stdlib.h>
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
    *m = (struct machine){.cpu = "unknown CPU", .system = "unknown system", .host = "localhost"};
    find_cpu_model(m->cpu, sizeof m->cpu);
    if (uname(&name) == 0) {
        snprintf(m->system, sizeof m->system, "%.80s %.80s %.80s", name.sysname, name.release,
                 name.machine);
        snprintf(m->kernel, sizeof m->kernel, "%.80s", name.release);
        if (name.nodename[0])
            snprintf(m->host, sizeof m->host, "%.64s", name.nodename);
    }
    if (getloadavg(m->load, 3) != 3)
        m->load[0] = m->load[1] = m->load[2] = 0;
    m->n_cpus = sched_getaffinity(0, sizeof usable, &usable) == 0 ? CPU_COUNT(&usable)
                                                                  : sysconf(_SC_NPROCESSORS_ONLN);
    m->memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* As the library takes names: without a number the first one; a UUID may be its begin. */
static bool is_named(const struct hr_device *d, const char *name)
{
    const size_t n = strcspn(name, ":");
    const bool is_gpu = strcmp(d->name, "host") != 0;
    if (!d->present || strcmp(name, "auto") == 0)
        return d->present; /* GPUs come first */
    if (strcmp(d->name, name) == 0)
        return true;
    if (!is_gpu || strncmp(d->name, name, n) != 0 || d->name[n] != ':')
        return false;
    if (!name[n])
        return true;
    return strncasecmp(d->uuid, name + n + 1, strlen(name + n + 1)) == 0 ||
           strcasecmp(d->pci, name + n + 1) == 0;
}

bool find_listed_device(const char *name, struct hr_device *out)
{
    static struct hr_device devices[MAX_DEVICES];
    size_t n = MAX_DEVICES;
    devices[0].struct_size = sizeof devices[0];
    if (hr_devices(devices, &n, NULL) != HR_OK)
        return false;
    for (size_t i = 0; i < n && i < MAX_DEVICES; i++)
        if (is_named(&devices[i], name)) {
            *out = devices[i];
            return true;
        }
    return false;
}

uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
