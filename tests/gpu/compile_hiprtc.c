// SPDX-License-Identifier: Apache-2.0
/* compile_hiprtc [ARCH]: AMD's run-time compiler, as the backend calls it, takes the embedded source
 * cut down to one entry, for waves of 64 and of 32, and says what is wrong with others. It needs no
 * GPU. Exits with 77 where the library is not installed.
 *
 * The architectures are those that the compiler of ROCm 5.2 knows, which is what Debian 12 has: one
 * that it does not know ends the process. HIP over CUDA takes one of NVIDIA's, as sm_90. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu_builtin.h"
#include "hip_driver.h"

static const char *archs[] = {"gfx906:sramecc+:xnack-", "gfx90a", "gfx1030"};
static size_t n_archs = sizeof archs / sizeof archs[0];

static bool has_entry(const void *image, size_t size, const char *entry)
{
    return size > 4 && memcmp(image, "\177ELF", 4) == 0 &&
           memmem(image, size, entry, strlen(entry) + 1);
}

static bool compile(const char *text, const char *arch)
{
    char only[64];
    struct hr__kernel_spec spec;
    struct hr__gpu_builtin builtin;
    void *image = NULL;
    size_t size = 0;
    hr_error error = {0};
    if (hr__kernel_parse(text, &spec, NULL, 0) != 0 || hr__gpu_builtin(&spec, &builtin) != HR_OK)
        return false;
    snprintf(only, sizeof only, "HR_ONLY=%s", builtin.only);
    const struct hr__gpu_source source = {.text = hr__gpu_builtin_source,
                                          .name = builtin.entry,
                                          .arch = arch,
                                          .define = only,
                                          .exact = true};
    const hr_status status = hr__hip_compiler.compile(&source, &image, &size, &error);
    const bool ok = status == HR_OK && has_entry(image, size, builtin.entry);
    printf("%s %s for %s: %zu bytes %s\n", ok ? "ok" : "not ok", text, arch, size, error.text);
    free(image);
    return ok;
}

/* A wrong source is HR_EINVAL, with the line that is wrong. */
static bool is_refused(void)
{
    static const char text[] =
        "extern \"C\" __global__ void f(int *p)\n{\n    *p = undeclared;\n}\n";
    void *image = NULL;
    size_t size = 0;
    hr_error error = {0};
    const struct hr__gpu_source source = {.text = text, .name = "f", .arch = archs[0]};
    const hr_status status = hr__hip_compiler.compile(&source, &image, &size, &error);
    const bool ok = status == HR_EINVAL && !image && strstr(error.text, "undeclared") &&
                    (strstr(error.text, ":3:") || strstr(error.text, "f(3): "));
    printf("%s a wrong source: %s\n", ok ? "ok" : "not ok", error.text);
    return ok;
}

/* HIP over CUDA is there where no NVRTC is. */
static bool has_compiler(void)
{
    static const char text[] = "extern \"C\" __global__ void f(int *p)\n{\n    *p = 1;\n}\n";
    void *image = NULL;
    size_t size = 0;
    hr_error error = {0};
    const struct hr__gpu_source source = {.text = text, .name = "f", .arch = archs[0]};
    const hr_status status = hr__hip_compiler.compile(&source, &image, &size, &error);
    free(image);
    return status == HR_OK || !strstr(error.text, "there is no NVRTC");
}

int main(int argc, char **argv)
{
    static const char *const texts[] = {
        "cast:f32,f16",   "cast:u8,u8", "bswap:4",        "scale:f32,2,1",   "shuffle:4,64",
        "sum:f64",        "sum:i64",    "min:f32",        "histogram",       "histogram:f32,0,1,16",
        "count:f32,lt,3", "crc32",      "filter:u8,lt,3", "filter:bf16,lt,3"};
    char why[256] = "";
    bool ok = true;
    if (argc > 1) {
        archs[0] = argv[1];
        n_archs = 1;
    }
    if (!hr__hip_load(why, sizeof why))
        return printf("# no hipRTC here: %s\n", why), 77;
    if (!has_compiler())
        return puts("# no NVRTC here"), 77;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        for (size_t j = 0; j < n_archs; j++)
            ok = compile(texts[i], archs[j]) && ok;
    }
    ok = is_refused() && ok;
    return !ok;
}
