// SPDX-License-Identifier: Apache-2.0
/* What a report must be read with: the system, the devices, the libraries that were loaded, and what
 * the environment does to them. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "selftest.h"

enum { LINE_BYTES = 512 };

/* ---- the system ---- */

/* The line of a file that begins with these words, without them; the first one if they are "". */
static bool find_line(const char *path, const char *begin, char line[LINE_BYTES])
{
    FILE *file = fopen(path, "r");
    const size_t length = strlen(begin);
    bool found = false;
    while (file && !found && fgets(line, LINE_BYTES, file)) {
        found = strncmp(line, begin, length) == 0;
        line[strcspn(line, "\n")] = '\0';
    }
    if (found)
        memmove(line, line + length, strlen(line + length) + 1);
    if (file)
        fclose(file);
    return found;
}

/* Where systems and drivers say which ones they are. */
static void tell_versions(struct selftest *t)
{
    static const struct {
        const char *key;
        const char *path;
        const char *begin;
    } files[] = {
        {"os", "/etc/os-release", "PRETTY_NAME="},
        {"amdgpu", "/sys/module/amdgpu/version", ""},
        {"rocm", "/opt/rocm/.info/version", ""},
        {"nvidia", "/proc/driver/nvidia/version", ""},
    };
    char line[LINE_BYTES];
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        if (!find_line(files[i].path, files[i].begin, line))
            continue;
        const size_t length = strlen(line);
        if (length > 1 && line[0] == '"' && line[length - 1] == '"') {
            line[length - 1] = '\0';
            tell_text(t, files[i].key, line + 1);
        } else {
            tell_text(t, files[i].key, line);
        }
    }
}

static void tell_locked_limit(struct selftest *t)
{
    struct rlimit limit;
    char text[HUMAN_SIZE] = "unlimited";
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0)
        return;
    if (limit.rlim_cur != RLIM_INFINITY)
        human_bytes((double)limit.rlim_cur, text);
    tell_text(t, "locked_memory_limit", text);
}

/* Variables that the drivers and their loaders read, whatever their names are. */
static void tell_environment(struct selftest *t)
{
    static const char *const begins[] = {"CUDA_", "NVIDIA_",    "HIP_", "ROCR_",
                                         "ROCM_", "HSA_",       "GPU_", "AMD_",
                                         "ROCP_", "LD_PRELOAD", "HR_",  "LD_LIBRARY_PATH"};
    char name[128];
    tell_group(t, "environment");
    for (char **variable = environ; *variable; variable++)
        for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++) {
            const char *equals = strchr(*variable, '=');
            if (!equals || strncmp(*variable, begins[i], strlen(begins[i])) != 0)
                continue;
            snprintf(name, sizeof name, "%.*s", (int)(equals - *variable), *variable);
            tell_text(t, name, equals + 1);
        }
    tell_group_end(t);
}

void tell_machine(struct selftest *t)
{
    struct machine machine;
    const char *why = "";
    look_at_machine(&machine);
    tell_text(t, "headrace", hr_version());
    tell_versions(t);
    tell_text(t, "system", machine.system);
    tell_text(t, "cpu", machine.cpu);
    tell_number(t, "usable_cpus", (double)machine.n_cpus, 0);
    tell_number(t, "memory_bytes", (double)machine.memory_bytes, 0);
    tell_locked_limit(t);
    tell_text(t, "io", hr_loop_io(t->loop, &why));
    tell_text(t, "io_why", why);
    tell_environment(t);
}

/* ---- the devices ---- */

static void tell_device(struct selftest *t, const struct hr_device *d)
{
    char text[LINE_BYTES + sizeof *d];
    if (d->present)
        snprintf(text, sizeof text, "present: %s; %s; %s; %s; %llu bytes", d->title, d->version,
                 d->pci, d->uuid, (unsigned long long)d->memory_bytes);
    else
        snprintf(text, sizeof text, "absent: %s", d->why);
    tell_text(t, d->name, text);
}

void tell_devices(struct selftest *t)
{
    static struct hr_device devices[MAX_DEVICES];
    size_t n = MAX_DEVICES;
    hr_error error = {0};
    devices[0].struct_size = sizeof devices[0];
    begin_step(t, "listing the devices");
    const hr_status status = hr_devices(devices, &n, &error);
    watch_no_check();
    tell_group(t, "devices");
    tell_text(t, "asked", t->asked);
    if (status != HR_OK)
        tell_text(t, "failed", error.text);
    for (size_t i = 0; status == HR_OK && i < n && i < MAX_DEVICES; i++)
        tell_device(t, &devices[i]);
    tell_group_end(t);
}

/* ---- the libraries ---- */

static bool is_of_interest(const char *name)
{
    static const char *const begins[] = {"libamdhip64", "libhiprtc", "libamd_comgr", "libhsa-",
                                         "libcuda.",    "libnvrtc",  "libnvidia-",   "libheadrace",
                                         "liburing",    "libzstd"};
    for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++)
        if (strncmp(name, begins[i], strlen(begins[i])) == 0)
            return true;
    return false;
}

/* What was told stays told. */
static bool is_new(const char *path)
{
    enum { MAX_TOLD = 32 };
    static char *told[MAX_TOLD];
    unsigned n = 0;
    while (n < MAX_TOLD && told[n] && strcmp(told[n], path) != 0)
        n++;
    if (n == MAX_TOLD || told[n])
        return false;
    told[n] = strdup(path);
    return true;
}

void tell_libraries(struct selftest *t, const char *group)
{
    char line[LINE_BYTES + 4096];
    FILE *file = fopen("/proc/self/maps", "r");
    tell_group(t, group);
    while (file && fgets(line, sizeof line, file)) {
        const char *path = strchr(line, '/');
        line[strcspn(line, "\n")] = '\0';
        const char *name = path ? strrchr(path, '/') + 1 : "";
        if (is_of_interest(name) && is_new(path))
            tell_text(t, name, path);
    }
    tell_group_end(t);
    if (file)
        fclose(file);
}
