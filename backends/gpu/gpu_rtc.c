// SPDX-License-Identifier: Apache-2.0
/* From a source to code for the device: options, the compiler's calls, and what it printed. */
#include "gpu_rtc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "status.h"

enum { OPTION_BYTES = 96 };

/* What the compiler printed, in one line; lines keep their numbers: "name(12): error: ...". */
static hr_status report(const struct hr__gpu_rtc *rtc, void *program, int result,
                        const struct hr__gpu_source *source, hr_error *error)
{
    size_t size = 0;
    char *log = NULL;
    const hr_status status = result == HR__GPU_RTC_OUT_OF_MEMORY    ? HR_ENOMEM
                             : result == HR__GPU_RTC_COMPILATION    ? HR_EINVAL
                             : result == HR__GPU_RTC_INVALID_OPTION ? HR_EUNSUPPORTED
                                                                    : HR_EDEVICE;
    const struct hr__where where = {.stage = HR_STAGE_KERNEL, .native = result};
    if (program && rtc->get_program_log_size(program, &size) == 0)
        log = calloc(1, size + 1);
    if (log && rtc->get_program_log(program, log) != 0)
        log[0] = '\0';
    for (char *at = log ? strchr(log, '\n') : NULL; at; at = strchr(at, '\n'))
        *at = ' ';
    hr__fail(error, status, where, "kernel \"%.60s\": %s for %s: %s: %s", source->name, rtc->name,
             source->arch, rtc->get_error_string(result), log ? log : "");
    free(log);
    return status;
}

static int compile_program(const struct hr__gpu_rtc *rtc, void *program,
                           const struct hr__gpu_source *source)
{
    char arch[OPTION_BYTES];
    char define[OPTION_BYTES];
    const char *options[4] = {arch, "--std=c++17"};
    int n = 2;
    snprintf(arch, sizeof arch, "%s%s", rtc->arch_option, source->arch);
    snprintf(define, sizeof define, "-D%s", source->define ? source->define : "");
    if (source->define)
        options[n++] = define;
    if (source->exact)
        options[n++] = rtc->exact_option;
    return rtc->compile_program(program, n, options);
}

/* Returns 0 or the compiler's number. */
static int take_image(const struct hr__gpu_rtc *rtc, void *program, void **image, size_t *size)
{
    int result = rtc->get_code_size(program, size);
    if (result != 0)
        return result;
    char *bytes = calloc(1, hr__gpu_image_room(*size));
    if (!bytes)
        return HR__GPU_RTC_OUT_OF_MEMORY;
    result = rtc->get_code(program, bytes);
    if (result == 0)
        *image = bytes;
    else
        free(bytes);
    return result;
}

hr_status hr__gpu_rtc_compile(const struct hr__gpu_rtc *rtc, const struct hr__gpu_source *source,
                              void **image, size_t *size, hr_error *error)
{
    void *program = NULL;
    hr_status status = HR_OK;
    if (!rtc->is_loaded)
        return hr__fail(error, HR_EUNSUPPORTED, (struct hr__where){.stage = HR_STAGE_KERNEL},
                        "kernel \"%.60s\": sources are compiled by %s, which cannot be used: %s",
                        source->name, rtc->name, rtc->why_not);
    int result = rtc->create_program(&program, source->text, source->name, 0, NULL, NULL);
    if (result == 0)
        result = compile_program(rtc, program, source);
    if (result == 0)
        result = take_image(rtc, program, image, size);
    if (result != 0)
        status = report(rtc, program, result, source, error);
    if (program)
        rtc->destroy_program(&program);
    return status;
}
