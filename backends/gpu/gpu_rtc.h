// SPDX-License-Identifier: Apache-2.0
/* Run-time compilers. Those of the vendors have the same calls and numbers, and differ in names and
 * options; what is done with them is here, once. */
#ifndef HR_GPU_RTC_H
#define HR_GPU_RTC_H

#include "gpu_driver.h"

enum { HR__GPU_RTC_OUT_OF_MEMORY = 1, HR__GPU_RTC_INVALID_OPTION = 5, HR__GPU_RTC_COMPILATION = 6 };

/* Result, name in the library, name of its field, parameters. CODE is the vendor's word for code of
 * the device.
 * Declarations take no parentheses: NOLINTBEGIN(bugprone-macro-parentheses) */
#define HR__GPU_RTC_CALLS(CALL, PREFIX, CODE, RESULT, PROGRAM, STRINGS)                            \
    CALL(RESULT, PREFIX##CreateProgram, create_program,                                            \
         (PROGRAM * out, const char *source, const char *name, int n_headers, STRINGS headers,     \
          STRINGS header_names))                                                                   \
    CALL(RESULT, PREFIX##DestroyProgram, destroy_program, (PROGRAM * program))                     \
    CALL(RESULT, PREFIX##CompileProgram, compile_program,                                          \
         (PROGRAM program, int n_options, STRINGS options))                                        \
    CALL(RESULT, PREFIX##Get##CODE##Size, get_code_size, (PROGRAM program, size_t * size))         \
    CALL(RESULT, PREFIX##Get##CODE, get_code, (PROGRAM program, char *image))                      \
    CALL(RESULT, PREFIX##GetProgramLogSize, get_program_log_size,                                  \
         (PROGRAM program, size_t * size))                                                         \
    CALL(RESULT, PREFIX##GetProgramLog, get_program_log, (PROGRAM program, char *log))             \
    CALL(const char *, PREFIX##GetErrorString, get_error_string, (RESULT result))

enum { HR__GPU_RTC_WHY = 256 };

#define HR__GPU_RTC_FIELD(type, symbol, field, params) type(*field) params;
/* NOLINTEND(bugprone-macro-parentheses) */
struct hr__gpu_rtc {
    const char *name;         /* for messages */
    const char *arch_option;  /* the architecture follows */
    const char *exact_option; /* no contraction of products and sums */

    /* set once, by the vendor */
    HR__GPU_RTC_CALLS(HR__GPU_RTC_FIELD, rtc, Code, int, void *, const char *const *)
    bool is_loaded;
    char why_not[HR__GPU_RTC_WHY];
};
#undef HR__GPU_RTC_FIELD

/* See struct hr__gpu_compiler. */
hr_status hr__gpu_rtc_compile(const struct hr__gpu_rtc *rtc, const struct hr__gpu_source *source,
                              void **image, size_t *size, hr_error *error);

#endif
