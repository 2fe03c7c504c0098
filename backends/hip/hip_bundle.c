// SPDX-License-Identifier: Apache-2.0
/* A bundle of code objects read. Whatever its numbers say, nothing outside of it is touched. */
#include "hip_bundle.h"

#include <stdint.h>
#include <string.h>

static const char magic[] = "__CLANG_OFFLOAD_BUNDLE__";
static const char prefix[] = "hipv4-amdgcn-amd-amdhsa--";

enum { MAGIC = sizeof magic - 1, PREFIX = sizeof prefix - 1 };

/* What is left to read. */
struct rest {
    const unsigned char *at;
    size_t size;
};

static bool take(struct rest *rest, uint64_t size, const unsigned char **out)
{
    if (size > rest->size)
        return false;
    *out = rest->at;
    rest->at += size;
    rest->size -= size;
    return true;
}

static bool take_number(struct rest *rest, uint64_t *out)
{
    const unsigned char *bytes;
    if (!take(rest, sizeof *out, &bytes))
        return false;
    memcpy(out, bytes, sizeof *out);
    return true;
}

struct entry {
    uint64_t offset; /* of the code, in the bundle */
    uint64_t size;
    uint64_t length; /* of the name */
    const unsigned char *name;
};

static bool take_entry(struct rest *rest, struct entry *out)
{
    return take_number(rest, &out->offset) && take_number(rest, &out->size) &&
           take_number(rest, &out->length) && take(rest, out->length, &out->name);
}

static bool has_word(const char *words, const char *word, size_t size)
{
    for (const char *at = words; *at;) {
        const size_t n = strcspn(at, ":");
        if (n == size && memcmp(at, word, n) == 0)
            return true;
        at += n + (at[n] == ':');
    }
    return false;
}

/* Code runs where the processor and each feature that it names are the device's: what it does not
 * name it does not depend on. */
static bool serves(const struct entry *entry, const char *arch)
{
    if (entry->length <= PREFIX || memcmp(entry->name, prefix, PREFIX) != 0)
        return false;
    const char *at = (const char *)entry->name + PREFIX;
    const char *end = (const char *)entry->name + entry->length;
    while (at < end) {
        const char *colon = memchr(at, ':', (size_t)(end - at));
        const char *stop = colon ? colon : end;
        if (!has_word(arch, at, (size_t)(stop - at)))
            return false;
        at = colon ? colon + 1 : end;
    }
    return true;
}

bool hr__hip_bundle_find(const unsigned char *bundle, size_t size, const char *arch,
                         const void **code, size_t *code_size)
{
    struct rest rest = {.at = bundle, .size = size};
    const unsigned char *begin;
    struct entry entry;
    uint64_t n = 0;
    if (!take(&rest, MAGIC, &begin) || memcmp(begin, magic, MAGIC) != 0 || !take_number(&rest, &n))
        return false;
    while (n-- > 0 && take_entry(&rest, &entry)) {
        if (!serves(&entry, arch))
            continue;
        if (entry.offset > size || entry.size > size - entry.offset || entry.size == 0)
            return false;
        *code = bundle + entry.offset;
        *code_size = (size_t)entry.size;
        return true;
    }
    return false;
}
