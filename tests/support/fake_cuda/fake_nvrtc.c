// SPDX-License-Identifier: Apache-2.0
/* A run-time compiler for the fake driver: libnvrtc.so.13. A source that contains "#error" fails;
 * of every other the image is "fake:" and the options that it was compiled with. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_nvrtc.h"

enum { COMPILATION = 6, IMAGE_BYTES = 256 };

struct program {
    const char *source;
    const char *name;
    char image[IMAGE_BYTES];
    char log[IMAGE_BYTES];
};

int nvrtcCreateProgram(void **out, const char *source, const char *name, int n_headers,
                       const char *const *headers, const char *const *header_names)
{
    struct program *program = calloc(1, sizeof *program);
    (void)n_headers;
    (void)headers;
    (void)header_names;
    program->source = source;
    program->name = name;
    *out = program;
    return 0;
}

int nvrtcDestroyProgram(void **program)
{
    free(*program);
    *program = NULL;
    return 0;
}

int nvrtcCompileProgram(void *handle, int n_options, const char *const *options)
{
    struct program *program = handle;
    const char *error = strstr(program->source, "#error");
    unsigned line = 1;
    size_t n = (size_t)snprintf(program->image, IMAGE_BYTES, "fake:");
    for (int i = 0; i < n_options && n < IMAGE_BYTES; i++)
        n += (size_t)snprintf(program->image + n, IMAGE_BYTES - n, " %s", options[i]);
    if (!error)
        return 0;
    for (const char *at = program->source; at < error; at++)
        line += *at == '\n';
    snprintf(program->log, IMAGE_BYTES, "%s(%u): error: as asked for\n1 error\n", program->name,
             line);
    return COMPILATION;
}

int nvrtcGetCUBINSize(void *program, size_t *size)
{
    *size = strlen(((struct program *)program)->image) + 1;
    return 0;
}

int nvrtcGetCUBIN(void *program, char *image)
{
    strcpy(image, ((struct program *)program)->image);
    return 0;
}

int nvrtcGetProgramLogSize(void *program, size_t *size)
{
    *size = strlen(((struct program *)program)->log) + 1;
    return 0;
}

int nvrtcGetProgramLog(void *program, char *log)
{
    strcpy(log, ((struct program *)program)->log);
    return 0;
}

const char *nvrtcGetErrorString(int result)
{
    return result == COMPILATION ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR";
}
