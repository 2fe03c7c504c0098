// SPDX-License-Identifier: Apache-2.0
/* Tensors of DLPack, and the end of their capsules. The deleters need no interpreter; the capsules'
 * destructor is called by one, whose functions are looked up in the process: the library is linked
 * with none, and so fits every version. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "headrace_python.h"

enum { MAJOR = 1, MINOR = 0 };

/* ---- export ---- */

/* One allocation: the tensor as others see it, what is held, then shape and strides. */
struct exported {
    union {
        struct hrp_dl_managed managed;
        struct hrp_dl_versioned versioned;
    };
    hrp_hold *hold;
    int64_t numbers[];
};

static void end(struct exported *exported)
{
    hrp_hold_end(&exported->hold);
    free(exported);
}

static void delete_managed(struct hrp_dl_managed *self)
{
    end(self->context);
}

static void delete_versioned(struct hrp_dl_versioned *self)
{
    end(self->context);
}

static void copy_tensor(struct exported *exported, struct hrp_dl_tensor *to,
                        const struct hrp_dl_tensor *from)
{
    const size_t n = (size_t)from->ndim;
    *to = *from;
    to->shape = exported->numbers;
    if (n > 0)
        memcpy(to->shape, from->shape, n * sizeof *to->shape);
    if (!from->strides)
        return;
    to->strides = exported->numbers + n;
    if (n > 0)
        memcpy(to->strides, from->strides, n * sizeof *to->strides);
}

void *hrp_dlpack_export(const struct hrp_dl_tensor *tensor, hrp_hold *hold, int is_versioned,
                        uint64_t flags)
{
    struct exported *exported =
        calloc(1, sizeof *exported + 2 * (size_t)tensor->ndim * sizeof(int64_t));
    if (!exported)
        return NULL;
    if (hold)
        hrp_hold_retain(hold, &exported->hold);
    if (!is_versioned) {
        copy_tensor(exported, &exported->managed.tensor, tensor);
        exported->managed.context = exported;
        exported->managed.deleter = delete_managed;
        return &exported->managed;
    }
    copy_tensor(exported, &exported->versioned.tensor, tensor);
    exported->versioned.major = MAJOR;
    exported->versioned.minor = MINOR;
    exported->versioned.context = exported;
    exported->versioned.deleter = delete_versioned;
    exported->versioned.flags = flags;
    return &exported->versioned;
}

/* An exporter may have no deleter. */
static void delete_tensor(void *managed, int is_versioned)
{
    struct hrp_dl_managed *old = managed;
    struct hrp_dl_versioned *versioned = managed;
    if (is_versioned && versioned->deleter)
        versioned->deleter(versioned);
    else if (!is_versioned && old->deleter)
        old->deleter(old);
}

/* ---- capsules ---- */

enum { DLTENSOR, DLTENSOR_VERSIONED, N_KINDS };

static const char *const names[N_KINDS] = {"dltensor", "dltensor_versioned"};
static const char *const used_names[N_KINDS] = {"used_dltensor", "used_dltensor_versioned"};

/* Functions of the interpreter's C interface. */
static struct {
    void *(*new)(void *pointer, const char *name, void (*destructor)(void *capsule));
    int (*is_valid)(void *capsule, const char *name);
    void *(*get_pointer)(void *capsule, const char *name);
    int (*set_name)(void *capsule, const char *name);
    void *(*no_memory)(void);
} python;

/* A function by its name, as POSIX wants it read: dlsym gives a pointer to data. */
static void find(const char *name, void *function)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    memcpy(function, &found, sizeof found);
}

static void find_all(void)
{
    find("PyCapsule_New", &python.new);
    find("PyCapsule_IsValid", &python.is_valid);
    find("PyCapsule_GetPointer", &python.get_pointer);
    find("PyCapsule_SetName", &python.set_name);
    find("PyErr_NoMemory", &python.no_memory);
}

/* Once: to look for a name takes about as long as to make a capsule. */
static void use_python(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_all);
}

/* Who consumes a capsule gives it another name. */
void hrp_capsule_destructor(void *capsule)
{
    use_python();
    for (int kind = DLTENSOR; kind < N_KINDS; kind++)
        if (python.is_valid(capsule, names[kind])) {
            delete_tensor(python.get_pointer(capsule, names[kind]), kind);
            return;
        }
}

void *hrp_dlpack_capsule(const struct hrp_dl_tensor *tensor, hrp_hold *hold, int is_versioned,
                         uint64_t flags)
{
    use_python();
    void *managed = hrp_dlpack_export(tensor, hold, is_versioned, flags);
    if (!managed)
        return python.no_memory();
    void *capsule = python.new(managed, names[is_versioned], hrp_capsule_destructor);
    if (!capsule)
        delete_tensor(managed, is_versioned);
    return capsule;
}

void hrp_dlpack_consume(void *capsule, int is_versioned, struct hrp_dl_owner *out)
{
    use_python();
    out->managed = python.get_pointer(capsule, names[is_versioned]);
    out->is_versioned = is_versioned;
    python.set_name(capsule, used_names[is_versioned]);
}

void hrp_dlpack_end(struct hrp_dl_owner *owner)
{
    if (owner->managed)
        delete_tensor(owner->managed, owner->is_versioned);
    owner->managed = NULL;
}
