// SPDX-License-Identifier: Apache-2.0
/* Built-in kernels of GPUs: entries, parameters and grids. What they compute is tested in
 * tests/gpu. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "conformance_table.h"
#include "gpu_builtin.h"

static struct hr__gpu_builtin builtin_of(const char *text)
{
    struct hr__kernel_spec spec;
    struct hr__gpu_builtin builtin;
    cr_assert_eq(hr__kernel_parse(text, &spec, NULL, 0), 0, "%s", text);
    cr_assert_eq(hr__gpu_builtin(&spec, &builtin), HR_OK, "%s", text);
    return builtin;
}

static void find_in_both(void *user, const char *text)
{
    const struct hr__gpu_builtin builtin = builtin_of(text);
    const char *ptx = (const char *)hr__gpu_builtin_ptx;
    char *cut = user;
    cr_expect(strlen(builtin.only) > 0, "%s", text);
    if (hr__gpu_builtin_ptx_size == 0)
        return;
    const size_t n = hr__gpu_builtin_cut(ptx, builtin.entry, cut, hr__gpu_builtin_ptx_size + 1);
    cr_expect(n > 0 && n == strlen(cut), "%s: %s", text, builtin.entry);
    const char *first = strstr(cut, ".visible .entry ");
    cr_expect(first && strstr(first, builtin.entry), "%s", text);
    cr_expect(first && !strstr(first + 1, ".visible .entry "), "%s: one entry only", text);
}

Test(gpu_builtin, every_kernel_has_an_entry_in_the_module)
{
    char *cut = malloc(hr__gpu_builtin_ptx_size + 1);
    conformance_each_kernel(find_in_both, cut);
    free(cut);
}

Test(gpu_builtin, an_entry_that_is_not_there_and_too_little_room)
{
    const char *ptx =
        ".version 6.0\n.visible .entry a(\n)\n{\n}\n.visible .entry ab(\n)\n{\nx\n}\n";
    char out[128];
    cr_assert_eq(hr__gpu_builtin_cut(ptx, "b", out, sizeof out), 0);
    cr_assert_eq(hr__gpu_builtin_cut("", "a", out, sizeof out), 0);
    cr_assert_gt(hr__gpu_builtin_cut(ptx, "ab", out, sizeof out), 0);
    cr_assert_str_eq(out, ".version 6.0\n.visible .entry ab(\n)\n{\nx\n}\n");
    const size_t n = strlen(out);
    cr_assert_eq(hr__gpu_builtin_cut(ptx, "ab", out, n + 1), n);
    cr_assert_eq(hr__gpu_builtin_cut(ptx, "ab", out, n), 0);
}

Test(gpu_builtin, a_cut_does_not_take_a_longer_name)
{
    const char *ptx = ".visible .entry ab(\n)\n{\nlong\n}\n.visible .entry a(\n)\n{\nshort\n}\n";
    char out[128];
    cr_assert_gt(hr__gpu_builtin_cut(ptx, "a", out, sizeof out), 0);
    cr_assert_not_null(strstr(out, "short"));
    cr_assert_null(strstr(out, "long"));
}

Test(gpu_builtin, grids_are_never_empty_nor_too_large)
{
    static const char *const texts[] = {"cast:u8,f32", "sum:f32", "filter:f32,lt,0", "crc32"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const struct hr__gpu_builtin b = builtin_of(texts[i]);
        cr_expect_eq(hr__gpu_builtin_blocks(&b, 1), 1);
        cr_expect_eq(hr__gpu_builtin_blocks(&b, b.bytes_per_block), 1);
        cr_expect_eq(hr__gpu_builtin_blocks(&b, (uint64_t)b.bytes_per_block + 1), 2);
        cr_expect_eq(hr__gpu_builtin_blocks(&b, UINT64_C(1) << 50), b.max_blocks);
    }
}

Test(gpu_builtin, states_are_those_of_the_host_and_filters_have_scratch_memory)
{
    cr_expect_eq(builtin_of("cast:u8,f32").state_bytes, 0);
    const struct hr__gpu_builtin filter = builtin_of("filter:f32,lt,0");
    cr_expect_geq(filter.state_bytes, (2 + (size_t)filter.max_blocks) * sizeof(uint64_t));
    struct hr__kernel_spec spec;
    cr_assert_eq(hr__kernel_parse("sum:f32", &spec, NULL, 0), 0);
    cr_expect_eq(builtin_of("sum:f32").state_bytes, spec.state_bytes);
}
