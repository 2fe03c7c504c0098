// SPDX-License-Identifier: Apache-2.0
/* CUDA C++ to code for the device, by NVRTC: opened when the first source is compiled. It makes the
 * machine's code, not PTX: drivers refuse PTX that is newer than they are. */
#include "cuda_nvrtc.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_driver.h"
#include "status.h"

enum { WHY_BYTES = 256, OPTION_BYTES = 96 };

typedef int nvrtcResult;
typedef void *nvrtcProgram;

/* a declarator takes no parentheses: NOLINTNEXTLINE(bugprone-macro-parentheses) */
#define NVRTC_FIELD(type, symbol, field, params) type(*field) params;
struct nvrtc_calls {
    HR__NVRTC_CALLS(NVRTC_FIELD)
};
#undef NVRTC_FIELD

/* Set once. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct nvrtc_calls nvrtc;
static bool is_loaded;
static char reason[WHY_BYTES];

static const struct hr__where here = {.stage = HR_STAGE_KERNEL};

static bool find(void *library, const char *symbol, void *field)
{
    void *address = dlsym(library, symbol);
    memcpy(field, &address, sizeof address);
    if (!address)
        snprintf(reason, sizeof reason, "it is too old: it has no %s, that of CUDA 11.1 has",
                 symbol);
    return address;
}

/* The name's number is CUDA's major version; that of 11 stayed at 11.2. */
static void load(void)
{
    static const char *const names[] = {"libnvrtc.so.13",
                                        "libnvrtc.so.12",
                                        "libnvrtc.so.11.2",
                                        "libnvrtc.so.11.1",
                                        "libnvrtc.so",
                                        "/usr/local/cuda/lib64/libnvrtc.so",
                                        NULL};
    void *library = hr__cuda_open_library(names, reason, sizeof reason);
    if (!library)
        return;
#define FIND(type, symbol, field, params)                                                          \
    if (!find(library, #symbol, &nvrtc.field))                                                     \
        return;
    HR__NVRTC_CALLS(FIND)
#undef FIND
    is_loaded = true;
}

/* What the compiler printed, in one line; lines keep their numbers: "name(12): error: ...". */
static hr_status report(void *program, int result, const struct hr__gpu_source *source,
                        hr_error *error)
{
    size_t size = 0;
    char *log = NULL;
    const hr_status status = result == HR__NVRTC_OUT_OF_MEMORY    ? HR_ENOMEM
                             : result == HR__NVRTC_COMPILATION    ? HR_EINVAL
                             : result == HR__NVRTC_INVALID_OPTION ? HR_EUNSUPPORTED
                                                                  : HR_EDEVICE;
    const struct hr__where where = {.stage = HR_STAGE_KERNEL, .native = result};
    if (program && nvrtc.get_program_log_size(program, &size) == 0)
        log = calloc(1, size + 1);
    if (log && nvrtc.get_program_log(program, log) != 0)
        log[0] = '\0';
    for (char *at = log ? strchr(log, '\n') : NULL; at; at = strchr(at, '\n'))
        *at = ' ';
    hr__fail(error, status, where, "kernel \"%.60s\": NVRTC for %s: %s: %s", source->name,
             source->arch, nvrtc.get_error_string(result), log ? log : "");
    free(log);
    return status;
}

static int compile_program(void *program, const struct hr__gpu_source *source)
{
    char arch[OPTION_BYTES];
    char define[OPTION_BYTES];
    const char *options[4] = {arch, "--std=c++17"};
    int n = 2;
    snprintf(arch, sizeof arch, "--gpu-architecture=%s", source->arch);
    snprintf(define, sizeof define, "-D%s", source->define ? source->define : "");
    if (source->define)
        options[n++] = define;
    if (source->exact)
        options[n++] = "--fmad=false";
    return nvrtc.compile_program(program, n, options);
}

/* Returns 0 or NVRTC's number. */
static int take_image(void *program, void **image, size_t *size)
{
    int result = nvrtc.get_cubin_size(program, size);
    if (result != 0)
        return result;
    char *bytes = malloc(*size + 1);
    if (!bytes)
        return HR__NVRTC_OUT_OF_MEMORY;
    result = nvrtc.get_cubin(program, bytes);
    if (result == 0)
        *image = bytes;
    else
        free(bytes);
    return result;
}

static hr_status compile(const struct hr__gpu_source *source, void **image, size_t *size,
                         hr_error *error)
{
    void *program = NULL;
    hr_status status = HR_OK;
    pthread_once(&once, load);
    if (!is_loaded)
        return hr__fail(error, HR_EUNSUPPORTED, here,
                        "kernel \"%.60s\": sources are compiled by NVRTC, which cannot be used: %s",
                        source->name, reason);
    int result = nvrtc.create_program(&program, source->text, source->name, 0, NULL, NULL);
    if (result == 0)
        result = compile_program(program, source);
    if (result == 0)
        result = take_image(program, image, size);
    if (result != 0)
        status = report(program, result, source, error);
    if (program)
        nvrtc.destroy_program(&program);
    return status;
}

const struct hr__gpu_compiler hr__cuda_compiler = {.compile = compile};
