// SPDX-License-Identifier: Apache-2.0
/* Bundles of code objects: which entry a device gets, of made ones and of the build's own; and that
 * none with wrong numbers is read beyond its end. */
#include <criterion/criterion.h>
#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "hip_bundle.h"

#define PREFIX "hipv4-amdgcn-amd-amdhsa--"

enum { ROOM = 4096, MAGIC = 24, CODE_AT = 2048, CODE_BYTES = 16 };

struct bundle {
    unsigned char bytes[ROOM];
    size_t size;
};

static void append(struct bundle *bundle, const void *bytes, size_t size)
{
    memcpy(bundle->bytes + bundle->size, bytes, size);
    bundle->size += size;
}

/* The code of name i are bytes i. */
static struct bundle make(const char *const *names)
{
    struct bundle bundle = {.size = 0};
    uint64_t n = 0;
    while (names[n])
        n++;
    append(&bundle, "__CLANG_OFFLOAD_BUNDLE__", MAGIC);
    append(&bundle, &n, sizeof n);
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t head[] = {CODE_AT + i * CODE_BYTES, CODE_BYTES, strlen(names[i])};
        append(&bundle, head, sizeof head);
        append(&bundle, names[i], strlen(names[i]));
        memset(bundle.bytes + head[0], (int)i, CODE_BYTES);
    }
    bundle.size = CODE_AT + n * CODE_BYTES;
    return bundle;
}

/* The name's index; -1: none. The memory ends with the bundle: AddressSanitizer sees the rest. */
static int find(const struct bundle *bundle, const char *arch)
{
    const void *code = NULL;
    size_t size = 0;
    int found = -1;
    unsigned char *exact = malloc(bundle->size > 0 ? bundle->size : 1);
    memcpy(exact, bundle->bytes, bundle->size);
    if (hr__hip_bundle_find(exact, bundle->size, arch, &code, &size)) {
        cr_expect_eq(size, CODE_BYTES);
        found = *(const unsigned char *)code;
    }
    free(exact);
    return found;
}

Test(hip_bundle, the_processor_decides)
{
    static const char *const names[] = {"host-x86_64-unknown-linux-gnu", PREFIX "gfx90a",
                                        PREFIX "gfx90", PREFIX "gfx1100", NULL};
    const struct bundle bundle = make(names);
    cr_expect_eq(find(&bundle, "gfx90a"), 1);
    cr_expect_eq(find(&bundle, "gfx90a:sramecc+:xnack-"), 1);
    cr_expect_eq(find(&bundle, "gfx90"), 2);
    cr_expect_eq(find(&bundle, "gfx1100"), 3);
    cr_expect_eq(find(&bundle, "gfx110"), -1);
    cr_expect_eq(find(&bundle, "gfx11000"), -1);
    cr_expect_eq(find(&bundle, "gfx942:sramecc+:xnack-"), -1);
    cr_expect_eq(find(&bundle, ""), -1);
}

Test(hip_bundle, features_that_code_names_are_the_devices)
{
    static const char *const names[] = {PREFIX "gfx90a:xnack+", PREFIX "gfx90a:sramecc+:xnack-",
                                        PREFIX "gfx906", NULL};
    const struct bundle bundle = make(names);
    cr_expect_eq(find(&bundle, "gfx90a:sramecc+:xnack+"), 0);
    cr_expect_eq(find(&bundle, "gfx90a:sramecc-:xnack+"), 0);
    cr_expect_eq(find(&bundle, "gfx90a:sramecc+:xnack-"), 1);
    cr_expect_eq(find(&bundle, "gfx90a:sramecc-:xnack-"), -1);
    cr_expect_eq(find(&bundle, "gfx90a"), -1);
    cr_expect_eq(find(&bundle, "gfx906:sramecc-:xnack+"), 2);
}

Test(hip_bundle, other_kinds_of_entries_are_passed_over)
{
    static const char *const names[] = {
        "openmp-amdgcn-amd-amdhsa--gfx906", PREFIX, "gfx906", "", PREFIX "gfx906", NULL};
    const struct bundle bundle = make(names);
    cr_expect_eq(find(&bundle, "gfx906"), 4);
}

Test(hip_bundle, one_that_is_cut_short_has_nothing)
{
    static const char *const names[] = {PREFIX "gfx906", PREFIX "gfx1030", NULL};
    struct bundle bundle = make(names);
    cr_expect_eq(find(&bundle, "gfx1030"), 1);
    while (bundle.size-- > 0)
        cr_expect_eq(find(&bundle, "gfx1030"), -1, "%zu bytes", bundle.size);
}

Test(hip_bundle, wrong_numbers_are_no_places)
{
    static const char *const names[] = {PREFIX "gfx906", NULL};
    static const uint64_t wrong[] = {UINT64_MAX, UINT64_MAX - CODE_AT, UINT64_C(1) << 63, ROOM};
    static const size_t places[] = {0, 8, 16}; /* offset, size, length of the name */
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        for (size_t j = 0; j < sizeof places / sizeof places[0]; j++) {
            struct bundle bundle = make(names);
            memcpy(bundle.bytes + MAGIC + 8 + places[j], &wrong[i], sizeof wrong[i]);
            cr_expect_eq(find(&bundle, "gfx906"), -1, "%zu %zu", i, j);
        }
        struct bundle bundle = make(names);
        memcpy(bundle.bytes + MAGIC, &wrong[i], sizeof wrong[i]); /* number of entries */
        cr_expect_eq(find(&bundle, "gfx1030"), -1, "%zu", i);
    }
    struct bundle bundle = make(names);
    bundle.bytes[0] = '-';
    cr_expect_eq(find(&bundle, "gfx906"), -1, "another magic");
}

Test(hip_bundle, the_builds_own_has_code_for_every_architecture)
{
    static const struct {
        const char *arch;
        unsigned machine; /* LLVM, "User Guide for AMDGPU Backend": the lowest byte of e_flags */
    } table[] = {
        {"gfx906", 0x2f},  {"gfx908", 0x30},  {"gfx90a", 0x3f},  {"gfx942", 0x4c},
        {"gfx1030", 0x36}, {"gfx1100", 0x41}, {"gfx1101", 0x46}, {"gfx1151", 0x4a},
        {"gfx1200", 0x48}, {"gfx1201", 0x4e},
    };
    if (hr__hip_bundle_size == 0)
        cr_skip_test("built without code objects");
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const void *code = NULL;
        size_t size = 0;
        Elf64_Ehdr header;
        cr_assert(
            hr__hip_bundle_find(hr__hip_bundle, hr__hip_bundle_size, table[i].arch, &code, &size),
            "%s", table[i].arch);
        cr_assert_gt(size, sizeof header);
        memcpy(&header, code, sizeof header);
        cr_expect(memcmp(header.e_ident, ELFMAG, SELFMAG) == 0, "%s", table[i].arch);
        cr_expect_eq(header.e_flags & 0xffu, table[i].machine, "%s: %x", table[i].arch,
                     header.e_flags);
        cr_expect_leq(header.e_shoff + (uint64_t)header.e_shnum * header.e_shentsize, size, "%s",
                      table[i].arch);
    }
}
