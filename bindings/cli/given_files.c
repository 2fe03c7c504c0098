// SPDX-License-Identifier: Apache-2.0
/* The files that options name: a dictionary, a kernel, its arguments. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum { MOST_BYTES = 1 << 28 }; /* an endless file ends here */

static void *complain(const char *option, const char *path, const char *why)
{
    fprintf(stderr, "headrace: --%s %s: %s\n", option, path, why);
    return NULL;
}

/* Doubles the buffer until the end is found; a NUL, which *size does not count, follows. */
static char *read_stream(FILE *file, size_t *size)
{
    size_t room = 1 << 16;
    size_t used = 0;
    char *data = NULL;
    for (;;) {
        char *larger = realloc(data, room + 1);
        if (!larger)
            break;
        data = larger;
        used += fread(data + used, 1, room - used, file);
        if (used < room) {
            data[used] = '\0';
            *size = used;
            return data;
        }
        if (room >= MOST_BYTES)
            break;
        room *= 2;
    }
    free(data);
    return NULL;
}

static char *read_whole(const char *option, const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return complain(option, path, strerror(errno));
    errno = 0;
    char *data = read_stream(file, size);
    const int error = ferror(file) ? errno : 0;
    fclose(file);
    if (!data)
        return complain(option, path, "larger than 256 MiB, or memory is short");
    if (error) { /* a folder opens, too */
        free(data);
        return complain(option, path, strerror(error));
    }
    if (!*size) {
        free(data);
        return complain(option, path, "the file is empty");
    }
    return data;
}

static bool load_dictionary(struct options *o)
{
    size_t size = 0;
    if (!o->dict)
        return true;
    o->config.dict = read_whole("dict", o->dict, &size);
    o->config.dict_size = size;
    return o->config.dict;
}

static bool load_kernel(struct options *o)
{
    struct hr_kernel *kernel = o->compiles;
    size_t size = 0;
    if (!kernel)
        return true;
    const bool image = kernel->kind == HR_KERNEL_IMAGE;
    char *data = read_whole(image ? "kernel-image" : "kernel-source", o->kernel_file, &size);
    if (image) {
        kernel->image = data;
        kernel->image_size = size;
    } else {
        kernel->text = data;
        if (data && strlen(data) != size)
            data = complain("kernel-source", o->kernel_file, "not a text: it has a NUL byte");
    }
    return data;
}

static bool load_arguments(struct options *o)
{
    size_t size = 0;
    if (!o->kernel_args)
        return true;
    unsigned char *bytes = malloc(strlen(o->kernel_args) + 1);
    if (bytes && parse_hex(o->kernel_args, bytes)) {
        size = strlen(o->kernel_args) / 2;
    } else {
        free(bytes);
        bytes = (unsigned char *)read_whole("kernel-args", o->kernel_args, &size);
    }
    o->compiles->args = bytes;
    o->compiles->args_size = (uint32_t)size;
    return bytes;
}

bool load_given_files(struct options *o)
{
    return load_dictionary(o) && load_kernel(o) && load_arguments(o);
}
