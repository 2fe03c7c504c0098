// SPDX-License-Identifier: Apache-2.0
/* Images on the device, loaded once for each content: pipelines come and go, and compiling takes
 * longer than most of them. Modules stay until the device is closed. */
#include <stdlib.h>
#include <string.h>

#include "gpu_device.h"
#include "status.h"

enum { LOG_BYTES = 4096 };

struct hr__gpu_module {
    struct hr__gpu_module *next;
    void *content; /* what it was made from; a 0 follows, which drivers want behind text */
    size_t size;
    bool is_source;
    bool exact;
    char *define;
    void *image; /* of a source: compiled. The driver may read it as long as the module is there */
    size_t image_size;
    void *handle;
};

static const struct hr__where here = {.stage = HR_STAGE_KERNEL};

size_t hr__gpu_image_room(size_t size)
{
    enum { HEAD_BYTES = 4096 }; /* a driver may read so much of an image to see what it is */
    return size < HEAD_BYTES ? HEAD_BYTES : size + 1;
}

static const char *define_of(const struct hr__gpu_code *code)
{
    return code->define ? code->define : "";
}

/* Few have the same size, and those differ early: a hash of half a megabyte would take longer. */
static struct hr__gpu_module *find(const struct hr__gpu_device *device,
                                   const struct hr__gpu_code *code)
{
    for (struct hr__gpu_module *m = device->modules; m; m = m->next) {
        if (m->size == code->size && m->is_source == code->is_source && m->exact == code->exact &&
            strcmp(m->define, define_of(code)) == 0 &&
            memcmp(m->content, code->bytes, code->size) == 0)
            return m;
    }
    return NULL;
}

static void free_module(struct hr__gpu_module *module)
{
    if (module->is_source)
        free(module->image);
    free(module->define);
    free(module->content);
    free(module);
}

static hr_status compile(const struct hr__gpu_device *device, const struct hr__gpu_code *code,
                         struct hr__gpu_module *module, hr_error *error)
{
    const struct hr__gpu_source source = {
        .text = module->content,
        .name = code->entry,
        .arch = device->shape.arch,
        .define = code->define,
        .exact = code->exact,
    };
    return device->compiler->compile(&source, &module->image, &module->image_size, error);
}

/* The first lines of a log, made one: messages are. */
static void flatten(char *log)
{
    for (char *end = log + strlen(log); end > log && end[-1] == '\n';)
        *--end = '\0';
    for (char *at = strchr(log, '\n'); at; at = strchr(at, '\n'))
        *at = ' ';
}

static hr_status load(const struct hr__gpu_device *device, const struct hr__gpu_code *code,
                      struct hr__gpu_module *module, hr_error *error)
{
    char *log = calloc(1, LOG_BYTES);
    if (!log)
        return hr__fail(error, HR_ENOMEM, here, "kernel \"%s\": out of memory", code->entry);
    const int native = device->driver->module_load(&module->handle, module->image,
                                                   module->image_size, log, LOG_BYTES);
    hr_status status = HR_OK;
    flatten(log);
    if (native != 0)
        status = hr__gpu_fail(device, HR_STAGE_KERNEL, native, error,
                              "kernel \"%.60s\": loading its image for %s: %.120s%s", code->entry,
                              device->shape.arch, log, log[0] ? "" : "the driver says no more");
    free(log);
    return status;
}

static hr_status make(struct hr__gpu_device *device, const struct hr__gpu_code *code,
                      struct hr__gpu_module **out, hr_error *error)
{
    struct hr__gpu_module *module = calloc(1, sizeof *module);
    hr_status status = HR_OK;
    if (module) {
        module->is_source = code->is_source;
        module->content = calloc(1, hr__gpu_image_room(code->size));
        module->define = strdup(define_of(code));
    }
    if (!module || !module->content || !module->define) {
        if (module)
            free_module(module);
        return hr__fail(error, HR_ENOMEM, here, "kernel \"%s\": out of memory", code->entry);
    }
    memcpy(module->content, code->bytes, code->size);
    module->size = module->image_size = code->size;
    module->exact = code->exact;
    if (code->is_source)
        status = compile(device, code, module, error);
    else
        module->image = module->content;
    if (status == HR_OK)
        status = load(device, code, module, error);
    if (status != HR_OK) {
        free_module(module);
        return status;
    }
    module->next = device->modules;
    device->modules = *out = module;
    return HR_OK;
}

hr_status hr__gpu_module_entry(struct hr__gpu_device *device, const struct hr__gpu_code *code,
                               void **entry, hr_error *error)
{
    hr_status status = HR_OK;
    pthread_mutex_lock(&device->modules_lock);
    struct hr__gpu_module *module = find(device, code);
    if (!module)
        status = make(device, code, &module, error);
    pthread_mutex_unlock(&device->modules_lock);
    if (status != HR_OK)
        return status;
    const int native = device->driver->module_entry(entry, module->handle, code->entry);
    if (native != 0)
        status = hr__gpu_fail(device, HR_STAGE_KERNEL, native, error,
                              "kernel \"%.60s\": finding it in its image (C++ needs extern \"C\")",
                              code->entry);
    return status;
}

void hr__gpu_modules_free(struct hr__gpu_device *device)
{
    while (device->modules) {
        struct hr__gpu_module *module = device->modules;
        device->modules = module->next;
        device->driver->module_unload(module->handle);
        free_module(module);
    }
}
