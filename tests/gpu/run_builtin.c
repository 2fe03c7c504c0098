// SPDX-License-Identifier: Apache-2.0
/* The shipped kernels on an NVIDIA GPU: how long the driver takes to load them, whether they agree
 * with the host's, and how fast they are beside a copy on the device.
 *
 *     run_builtin [--no-cases] [--no-bench] [IMAGE]     IMAGE: PTX or cubin instead of the built-in
 *
 * Exits with 77 where there is no GPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "driver_calls.h"
#include "gpu_bench.h"
#include "gpu_cases.h"

enum { MAX_BYTES = 4 << 20, ROOM = 16 };

struct rig {
    void *module;
    struct gpu_memory memory;
};

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static bool load(const void *image, const char *what, void **module)
{
    static char log[8192];
    int options[] = {5, 6}; /* CU_JIT_ERROR_LOG_BUFFER, .._SIZE_BYTES */
    void *values[] = {log, (void *)sizeof log};
    log[0] = '\0';
    const double begin = now_ms();
    if (!cuda_ok(cuda.module_load(module, image, 2, options, values), what)) {
        printf("# %s\n", log);
        return false;
    }
    printf("# %s: loaded in %.1f ms\n", what, now_ms() - begin);
    return true;
}

static bool launch(const struct rig *rig, const struct gpu_run *run)
{
    void *function = NULL;
    return cuda_ok(cuda.module_function(&function, rig->module, run->builtin->entry),
                   run->builtin->entry) &&
           gpu_enqueue(function, run->builtin, run->n_blocks, &rig->memory, run->n_units,
                       run->first_unit);
}

static bool run_on_gpu(void *user, struct gpu_run *run)
{
    const struct rig *rig = user;
    const size_t state_bytes = run->state ? run->builtin->state_bytes : 0;
    bool ok = cuda_ok(cuda.to_device(rig->memory.in, run->in, run->in_bytes), "input");
    if (run->out)
        ok = ok && cuda_ok(cuda.to_device(rig->memory.out, run->out, run->out_bytes), "output");
    if (run->state)
        ok = ok && cuda_ok(cuda.to_device(rig->memory.state, run->state, state_bytes), "state");
    ok = ok && cuda_ok(cuda.to_device(rig->memory.count, &run->count, sizeof run->count), "count");
    ok = ok && launch(rig, run);
    ok = ok && cuda_ok(cuda.synchronize(), run->builtin->entry);
    ok = ok &&
         cuda_ok(cuda.to_host(&run->count, rig->memory.count, sizeof run->count), "count back");
    if (run->out)
        ok = ok && cuda_ok(cuda.to_host(run->out, rig->memory.out, run->out_bytes), "output back");
    if (run->state)
        ok = ok && cuda_ok(cuda.to_host(run->state, rig->memory.state, state_bytes), "state back");
    return ok;
}

/* What a program with one kernel waits for. */
static bool load_cut(const char *entry)
{
    char *cut = malloc(hr__gpu_builtin_ptx_size + 1);
    void *module = NULL;
    void *function = NULL;
    const char *whole = (const char *)hr__gpu_builtin_ptx;
    bool ok = cut && hr__gpu_builtin_cut(whole, entry, cut, hr__gpu_builtin_ptx_size + 1) > 0;
    if (!ok)
        printf("not ok # %s is not in the PTX\n", entry);
    ok = ok && load(cut, entry, &module);
    ok = ok && cuda_ok(cuda.module_function(&function, module, entry), entry);
    if (module)
        cuda.module_unload(module);
    free(cut);
    return ok;
}

static bool test_cuts(void)
{
    static const char *const entries[] = {"hr_cast_F32_F16", "hr_cast_U8_F64", "hr_sum_F32",
                                          "hr_crc32",        "hr_filter_F32",  "hr_min_F32"};
    bool ok = true;
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++)
        ok = load_cut(entries[i]) && ok;
    printf("%s modules of one entry\n", ok ? "ok" : "not ok");
    return ok;
}

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *data = NULL;
    if (!file)
        return NULL;
    fseek(file, 0, SEEK_END);
    const long size = ftell(file);
    rewind(file);
    if (size > 0 && (data = calloc(1, (size_t)size + 1)) != NULL &&
        fread(data, 1, (size_t)size, file) != (size_t)size) {
        free(data);
        data = NULL;
    }
    fclose(file);
    return data;
}

static bool run_cases(struct rig *rig)
{
    const struct gpu_runner runner = {
        .run = run_on_gpu, .user = rig, .max_bytes = MAX_BYTES, .n_contents = GPU_N_CONTENTS};
    return cuda_ok(cuda.alloc(&rig->memory.in, MAX_BYTES), "memory") &&
           cuda_ok(cuda.alloc(&rig->memory.out, ROOM * (size_t)MAX_BYTES), "memory") &&
           cuda_ok(cuda.alloc(&rig->memory.state, MAX_BYTES), "memory") &&
           cuda_ok(cuda.alloc(&rig->memory.count, 256), "memory") && gpu_cases(&runner) == 0;
}

int main(int argc, char **argv)
{
    struct rig rig = {0};
    bool with_cases = true;
    bool with_bench = true;
    const void *image = hr__gpu_builtin_ptx;
    bool ok = true;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--no-cases") == 0)
            with_cases = false;
        else if (strcmp(argv[i], "--no-bench") == 0)
            with_bench = false;
        else if (!(image = read_file(argv[i])))
            return printf("not ok # %s cannot be read\n", argv[i]), 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!cuda_open())
        return 77;
    if (image == hr__gpu_builtin_ptx && hr__gpu_builtin_ptx_size == 0)
        return puts("# built without clang: no PTX"), 77;
    if (image == hr__gpu_builtin_ptx)
        ok = test_cuts();
    if (!load(image, "all entries", &rig.module))
        return 1;
    if (with_cases)
        ok = run_cases(&rig) && ok;
    if (with_bench)
        ok = gpu_bench(rig.module) && ok;
    puts(ok ? "ok all" : "not ok, see above");
    return !ok;
}
