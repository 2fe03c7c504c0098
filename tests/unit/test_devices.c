// SPDX-License-Identifier: Apache-2.0
/* Names of devices, and the list of them. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"

static hr_error error;

Test(devices, names_open_a_device_or_tell_what_is_wrong)
{
    const struct {
        const char *name;
        hr_status status;
        const char *text;
    } cases[] = {
        {"host:0", HR_EINVAL, "auto, host, cuda, hip"},
        {"hos", HR_EINVAL, "\"hos\" is not known"},
        {"hostess", HR_EINVAL, "is not known"},
        {"", HR_EINVAL, "is not known"},
        {":", HR_EINVAL, "is not known"},
        {"cuda:", HR_EINVAL, "is not known"},
        {"cuda:-1", HR_EINVAL, "is not known"},
        {"cuda:x", HR_EINVAL, "is not known"},
        {"cuda:99999999999", HR_EINVAL, "is not known"},
        {"auto:0", HR_EINVAL, "is not known"},
        {"hip:x", HR_EINVAL, "as in cuda:0 and hip:1"},
    };
    char why[256];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hr__device *opened = NULL;
        cr_expect_eq(hr__device_open(cases[i].name, &opened, why, sizeof why, &error),
                     cases[i].status, "%s", cases[i].name);
        cr_expect(strstr(error.text, cases[i].text), "%s: %s", cases[i].name, error.text);
        cr_expect_null(opened);
        cr_expect_str_empty(why);
    }
}

Test(devices, a_backend_without_devices_gives_its_reason)
{
    for (size_t i = 0; hr__backends[i]; i++) {
        char reason[256] = "";
        char why[1024];
        struct hr__device *opened = NULL;
        if (hr__backends[i]->count(reason, sizeof reason) > 0)
            continue;
        cr_expect_gt(strlen(reason), 0);
        cr_expect_eq(hr__device_open(hr__backends[i]->name, &opened, why, sizeof why, &error),
                     HR_EUNSUPPORTED);
        cr_expect(strstr(error.text, reason), "%s", error.text);
        cr_expect(strstr(error.text, "\"host\" always is"), "%s", error.text);
        cr_assert_eq(hr__device_open("auto", &opened, why, sizeof why, &error), HR_OK);
        if (strcmp(opened->ops->info(opened)->name, "host") == 0)
            cr_expect(strstr(why, reason), "%s", why);
        opened->ops->close(opened);
    }
}

Test(devices, the_list_ends_with_the_host_and_explains_what_is_missing)
{
    size_t n = 0;
    cr_assert_eq(hr_devices(NULL, &n, &error), HR_OK);
    cr_assert_geq(n, 3);
    struct hr_device *all = calloc(n, sizeof *all);
    all[0].struct_size = sizeof *all;
    cr_assert_eq(hr_devices(all, &n, &error), HR_OK);
    for (size_t i = 0; i < n; i++) {
        cr_expect_eq(all[i].struct_size, sizeof *all);
        cr_expect_neq(all[i].present, all[i].why[0] != '\0', "%s: %s", all[i].name, all[i].why);
    }
    cr_expect_str_eq(all[n - 1].name, "host");
    cr_expect_eq(all[n - 1].present, 1);
    cr_expect_gt(strlen(all[n - 1].title), 0);
    cr_expect_gt(all[n - 1].memory_bytes, 0);
    free(all);
}

Test(devices, the_list_fits_older_and_newer_structs)
{
    enum { OLDER = offsetof(struct hr_device, title), NEWER = sizeof(struct hr_device) + 8 };
    const size_t strides[] = {OLDER, NEWER};
    for (size_t i = 0; i < 2; i++) {
        size_t n = 2;
        unsigned char *room = malloc(n * strides[i]);
        memset(room, 0xee, n * strides[i]);
        memcpy(room, &(uint32_t){(uint32_t)strides[i]}, sizeof(uint32_t));
        cr_assert_eq(hr_devices((struct hr_device *)(void *)room, &n, &error), HR_OK);
        cr_expect_geq(n, 3, "as many as there are, not as fit");
        cr_expect_str_eq((char *)room + offsetof(struct hr_device, name), hr__backends[0]->name);
        cr_expect_str_eq((char *)room + strides[i] + offsetof(struct hr_device, name),
                         hr__backends[1]->name);
        if (strides[i] == NEWER)
            cr_expect_eq(room[2 * NEWER - 1], 0);
        free(room);
    }
    size_t n = 1;
    struct hr_device one = {0};
    cr_expect_eq(hr_devices(&one, &n, &error), HR_EINVAL);
    cr_expect(strstr(error.text, "struct_size"), "%s", error.text);
    cr_expect_eq(hr_devices(NULL, &n, &error), HR_EINVAL);
    cr_expect_eq(hr_devices(&one, NULL, &error), HR_EINVAL);
}

/* On the host nothing is there to be copied to. */
Test(devices, what_copies_reach_on_the_host_is_measured)
{
    struct hr_device_rates rates = {.struct_size = sizeof rates, .both = 1};
    struct {
        struct hr_device_rates rates;
        uint64_t more;
    } longer = {.rates.struct_size = sizeof longer, .more = 1};
    hr_context *context = NULL;
    cr_assert_eq(hr_context_create(NULL, &context, &error), HR_OK);
    cr_expect_eq(hr_device_measure(context, "host", 4096, &rates, &error), HR_OK);
    cr_expect(rates.d2d > 0 && rates.h2d == 0 && rates.d2h == 0 && rates.both == 0);
    cr_expect_eq(rates.struct_size, sizeof rates);
    cr_expect_eq(hr_device_measure(context, "host", 1, &longer.rates, &error), HR_OK);
    cr_expect(longer.rates.struct_size == sizeof rates && longer.more == 1);
    rates = (struct hr_device_rates){.struct_size = offsetof(struct hr_device_rates, d2d)};
    cr_expect_eq(hr_device_measure(context, "host", 1, &rates, &error), HR_OK);
    cr_expect(rates.d2d == 0, "a shorter struct was written behind its end");
    rates.struct_size = 0;
    cr_expect_eq(hr_device_measure(context, "host", 1, &rates, &error), HR_EINVAL);
    cr_expect_eq(hr_device_measure(context, "host", 1, NULL, &error), HR_EINVAL);
    rates.struct_size = sizeof rates;
    cr_expect_eq(hr_device_measure(context, "host", UINT64_MAX, &rates, &error), HR_EINVAL);
    cr_expect_eq(hr_device_measure(context, "no such", 1, &rates, &error), HR_EINVAL);
    cr_expect_eq(hr_device_measure(NULL, "host", 1, &rates, &error), HR_EINVAL);
    hr_context_free(context);
}
