// SPDX-License-Identifier: Apache-2.0
/* What a GPU vendor fills in: a table of driver calls, and of a run-time compiler. All logic is in
 * this directory, once; the vendor's directory has prototypes, numbers and texts.
 *
 * Calls return the driver's own status, 0 when they succeeded. Device addresses are uint64_t,
 * handles void *. All but those on devices expect that enter() made the device's context current on
 * the calling thread. Any thread may call. */
#ifndef HR_GPU_DRIVER_H
#define HR_GPU_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend.h"

/* What a status means to the logic. */
enum hr__gpu_class {
    HR__GPU_DONE,
    HR__GPU_NOT_READY,      /* an event's work is under way */
    HR__GPU_NO_MEMORY,      /* of the device, or of the host for the driver */
    HR__GPU_ALREADY_PINNED, /* somebody registered this memory, or a part of it, before */
    HR__GPU_NO_CODE,        /* an image without code for this device, or no image */
    HR__GPU_NO_ENTRY,       /* an image without this entry */
    HR__GPU_FORKED,         /* the driver was started by a parent of this process */
    HR__GPU_DEAD,           /* a kernel's fault: the context executes nothing any more */
    HR__GPU_LOST,           /* the device itself failed */
    HR__GPU_FAILED,
};

enum { HR__GPU_ARCH = 64, HR__GPU_IDENTITY = 64 };

struct hr__gpu_shape {
    char arch[HR__GPU_ARCH]; /* as the run-time compiler takes it */
    uint32_t n_processors;
};

/* Memory, as the driver knows it. */
struct hr__gpu_home {
    enum hr__memory_kind kind;
    uint64_t begin; /* of the allocation or registration; HR__MEMORY_PLAIN: 0 */
};

/* Code for the device. */
struct hr__gpu_image {
    const void *bytes;
    size_t size;
    void *owned; /* is for free(); NULL: the bytes are the library's own */
};

struct hr__gpu_driver {
    const char *name; /* of the backend: device names begin with it */

    enum hr__gpu_class (*classify)(int status);
    /* The status' name and meaning. Owns: static, or the driver's. */
    const char *(*text)(int status);

    int (*version)(char *out, size_t size); /* of the driver, in words */
    int (*device_title)(unsigned index, char *out, size_t size);
    int (*device_memory)(unsigned index, uint64_t *bytes);
    int (*device_shape)(unsigned index, struct hr__gpu_shape *out);
    int (*device_uuid)(unsigned index, char *out, size_t size); /* as the vendor's tools print it */
    int (*device_pci)(unsigned index, char *out, size_t size);  /* "0000:17:00.0" */

    /* The context that all users of the device in this process share. */
    int (*context_retain)(unsigned index, void **context);
    int (*context_release)(unsigned index);
    /* Makes it current; *before is for leave(), which restores what the thread had. */
    int (*enter)(void *context, void **before);
    int (*leave)(void *before);

    int (*memory_info)(uint64_t *free_bytes, uint64_t *total_bytes);
    int (*alloc)(uint64_t *out, size_t size); /* aligned to 256 bytes at least */
    int (*free)(uint64_t memory);
    /* A refusal leaves no trace that a later call could report. */
    int (*pin)(void *memory, size_t size);
    int (*unpin)(void *memory);
    /* What the byte at this address is to the device of this index. Memory that the driver does not
     * know, of other devices, or that it moves to and fro is plain. */
    int (*memory_home)(unsigned index, const void *memory, struct hr__gpu_home *out);

    int (*stream_create)(void **out); /* not ordered with the default stream */
    int (*stream_destroy)(void *stream);
    int (*stream_synchronize)(void *stream);
    int (*stream_wait)(void *stream, void *event);

    int (*event_create)(void **out); /* with timing */
    int (*event_destroy)(void *event);
    int (*event_record)(void *event, void *stream);
    int (*event_query)(void *event);
    int (*event_synchronize)(void *event);
    int (*event_elapsed)(float *ms, void *from, void *to);

    int (*copy_h2d)(uint64_t to, const void *from, size_t size, void *stream);
    int (*copy_d2h)(void *to, uint64_t from, size_t size, void *stream);
    int (*copy_d2d)(uint64_t to, uint64_t from, size_t size, void *stream);
    int (*fill)(uint64_t to, uint32_t word, size_t n_words, void *stream);

    /* This build's image that has the built-in entry, for devices of the architecture. False: there
     * is none, and the source has to be compiled. */
    bool (*builtin_image)(const char *arch, const char *entry, struct hr__gpu_image *out);
    /* The image stays where it is, in memory of its own of hr__gpu_image_room() bytes, until the
     * module is unloaded. log: what the driver's own compiler said, if it failed; "" else. */
    int (*module_load)(void **out, const void *image, size_t size, char *log, size_t log_size);
    int (*module_unload)(void *module);
    int (*module_entry)(void **out, void *module, const char *name);
    int (*entry_max_threads)(uint32_t *out, void *entry); /* of a block */
    int (*launch)(void *entry, uint32_t n_blocks, uint32_t n_threads, void *stream, void **params);
};

/* Bytes of memory for an image of so many: drivers read more of it than there is. */
size_t hr__gpu_image_room(size_t size);

/* A source to compile. */
struct hr__gpu_source {
    const char *text;
    const char *name; /* for messages of the compiler */
    const char *arch;
    const char *define; /* "NAME=VALUE"; NULL: none */
    bool exact;         /* no contraction of products and sums: built-in kernels */
};

struct hr__gpu_compiler {
    /* *image is for free(), and has hr__gpu_image_room() bytes. Fails: HR_EUNSUPPORTED without a
     * compiler (the names that were tried), HR_EINVAL with what the compiler says of the source,
     * HR_ENOMEM. */
    hr_status (*compile)(const struct hr__gpu_source *source, void **image, size_t *size,
                         hr_error *error);
};

#endif
