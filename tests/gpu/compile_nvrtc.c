// SPDX-License-Identifier: Apache-2.0
/* NVIDIA's run-time compiler takes the embedded source, whole and cut down to one entry by HR_ONLY.
 * It needs no GPU. Exits with 77 where the library is not installed. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "gpu_builtin.h"

/* X(field, symbol, parameters); each returns an nvrtcResult. */
#define NVRTC_CALLS(X)                                                                             \
    X(create, "nvrtcCreateProgram",                                                                \
      (void **, const char *, const char *, int, const char *const *, const char *const *))        \
    X(compile, "nvrtcCompileProgram", (void *, int, const char *const *))                          \
    X(log_size, "nvrtcGetProgramLogSize", (void *, size_t *))                                      \
    X(log, "nvrtcGetProgramLog", (void *, char *))                                                 \
    X(ptx_size, "nvrtcGetPTXSize", (void *, size_t *))                                             \
    X(destroy, "nvrtcDestroyProgram", (void **))

#define NVRTC_FIELD(field, symbol, parameters) int(*field) parameters;
static struct {
    NVRTC_CALLS(NVRTC_FIELD)
} nvrtc;

static bool find_calls(void *library)
{
    void *found = NULL;
#define NVRTC_FIND(field, symbol, parameters)                                                      \
    found = dlsym(library, symbol);                                                                \
    if (!found)                                                                                    \
        return false;                                                                              \
    memcpy(&nvrtc.field, &found, sizeof found);
    NVRTC_CALLS(NVRTC_FIND)
    return true;
}

static void print_log(void *program)
{
    static char log[65536];
    size_t size = 0;
    if (nvrtc.log_size(program, &size) == 0 && size <= sizeof log && nvrtc.log(program, log) == 0)
        printf("# %s\n", log);
}

static bool compile(const char *text)
{
    char only[64] = "";
    struct hr__kernel_spec spec;
    struct hr__gpu_builtin builtin;
    const char *options[] = {"--fmad=false", "--gpu-architecture=compute_75", only};
    void *program = NULL;
    size_t size = 0;
    bool ok = true;
    if (text) {
        ok = hr__kernel_parse(text, &spec, NULL, 0) == 0 &&
             hr__gpu_builtin(&spec, &builtin) == HR_OK;
        if (ok)
            snprintf(only, sizeof only, "-DHR_ONLY=%s", builtin.only);
    }
    ok = ok && nvrtc.create(&program, hr__gpu_builtin_source, "builtin.cu", 0, NULL, NULL) == 0;
    ok = ok && nvrtc.compile(program, text ? 3 : 2, options) == 0;
    if (program && !ok)
        print_log(program);
    ok = ok && nvrtc.ptx_size(program, &size) == 0;
    printf("%s %s: %zu bytes of PTX\n", ok ? "ok" : "not ok", text ? text : "all entries", size);
    if (program)
        nvrtc.destroy(&program);
    return ok;
}

int main(void)
{
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2",
                                        "libnvrtc.so"};
    static const char *const texts[] = {NULL,      "cast:f32,f16", "cast:u8,u8",
                                        "bswap:4", "sum:f64",      "sum:i64",
                                        "crc32",   "histogram",    "filter:u8,lt,3"};
    void *library = NULL;
    bool ok = true;
    for (size_t i = 0; !library && i < sizeof names / sizeof names[0]; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library || !find_calls(library))
        return puts("# no NVRTC here"), 77;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        ok = compile(texts[i]) && ok;
    return !ok;
}
