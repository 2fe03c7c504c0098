// SPDX-License-Identifier: Apache-2.0
/* Tensors of DLPack, and the end of their capsules. The deleters need no interpreter; the capsules'
 * destructor is called by one, whose functions are looked up in the process: the library is linked
 * with none, and so fits every version. */
#include <dlfcn.h>
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
    hrp_hold_drop(exported->hold);
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
    exported->hold = hold ? hrp_hold_retain(hold) : NULL;
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
void hrp_dlpack_delete(void *managed, int is_versioned)
{
    struct hrp_dl_managed *old = managed;
    struct hrp_dl_versioned *versioned = managed;
    if (is_versioned && versioned->deleter)
        versioned->deleter(versioned);
    else if (!is_versioned && old->deleter)
        old->deleter(old);
}

/* ---- capsules ---- */

typedef int is_valid_fn(void *capsule, const char *name);
typedef void *get_pointer_fn(void *capsule, const char *name);

/* A function by its name, as POSIX wants it read: dlsym gives a pointer to data. */
static void find(const char *name, void *function)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    memcpy(function, &found, sizeof found);
}

/* Who consumes a capsule gives it another name. */
void hrp_capsule_destructor(void *capsule)
{
    static const char *const names[] = {"dltensor", "dltensor_versioned"};
    is_valid_fn *is_valid;
    get_pointer_fn *get_pointer;
    find("PyCapsule_IsValid", &is_valid);
    find("PyCapsule_GetPointer", &get_pointer);
    for (int is_versioned = 0; is_valid && get_pointer && is_versioned < 2; is_versioned++)
        if (is_valid(capsule, names[is_versioned])) {
            hrp_dlpack_delete(get_pointer(capsule, names[is_versioned]), is_versioned);
            return;
        }
}
