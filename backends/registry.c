// SPDX-License-Identifier: Apache-2.0
/* Which backends there are, and which device a name means. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "cuda_driver.h"
#include "hip_driver.h"
#include "host_device.h"
#include "status.h"

const struct hr__backend *const hr__backends[] = {
    &hr__cuda_backend,
    &hr__hip_backend,
    &hr__host_backend,
    NULL,
};

static bool is_gpu(const struct hr__backend *backend)
{
    return backend != &hr__host_backend;
}

/* NULL: no backend has this name of n characters. */
static const struct hr__backend *find(const char *name, size_t n)
{
    for (size_t i = 0; hr__backends[i]; i++) {
        const char *known = hr__backends[i]->name;
        if (strlen(known) == n && memcmp(known, name, n) == 0)
            return hr__backends[i];
    }
    return NULL;
}

/* What stands behind the colon: nothing, a number, or an identity as its maker's tools print it. */
enum which { WHICH_FIRST, WHICH_NUMBER, WHICH_IDENTITY, WHICH_WRONG };

static enum which read_which(const char *text, unsigned *index)
{
    enum { MAX_DIGITS = 6, LEAST_IDENTITY = 5 };
    static const char uuid[] = "GPU-";
    *index = 0;
    if (*text == '\0')
        return WHICH_FIRST;
    const char *word = text + 1;
    const size_t n = strlen(word);
    if (n > 0 && n <= MAX_DIGITS && strspn(word, "0123456789") == n) {
        *index = (unsigned)strtoul(word, NULL, 10);
        return WHICH_NUMBER;
    }
    if (n >= LEAST_IDENTITY && strncmp(word, uuid, sizeof uuid - 1) == 0)
        return WHICH_IDENTITY;
    const bool is_pci = strchr(word, ':') && strspn(word, "0123456789abcdefABCDEF:.") == n;
    return is_pci ? WHICH_IDENTITY : WHICH_WRONG;
}

static hr_status refuse(const char *name, hr_error *error)
{
    return hr__fail(error, HR_EINVAL, (struct hr__where){0},
                    "device \"%s\" is not known: it can be auto, host, cuda, hip, or with a number "
                    "from 0, as in cuda:0 and hip:1, a UUID (GPU-...) or a PCI address",
                    name);
}

static hr_status open_named(const char *name, struct hr__device **out, hr_error *error)
{
    char why[HR_ERROR_TEXT / 2] = "";
    unsigned index = 0;
    const size_t n = strcspn(name, ":");
    const struct hr__backend *backend = find(name, n);
    const enum which which = backend ? read_which(name + n, &index) : WHICH_WRONG;
    if (which == WHICH_WRONG || (which != WHICH_FIRST && !is_gpu(backend)))
        return refuse(name, error);
    const unsigned n_devices = backend->count(why, sizeof why);
    if (n_devices == 0)
        return hr__fail(error, HR_EUNSUPPORTED, (struct hr__where){0},
                        "device \"%s\" is not there: %s; \"host\" always is", name, why);
    if (which == WHICH_IDENTITY && !backend->find(n_devices, name + n + 1, &index))
        return hr__fail(error, HR_EUNSUPPORTED, (struct hr__where){0},
                        "device \"%s\" is not there: none of the %u that are visible is it", name,
                        n_devices);
    if (index >= n_devices)
        return hr__fail(error, HR_EUNSUPPORTED, (struct hr__where){0},
                        "device \"%s\" is not there: the last one is %s:%u", name, backend->name,
                        n_devices - 1);
    return backend->open(index, out, error);
}

/* Appends "NAME: reason" to what why already says. */
static void add_reason(char *why, size_t why_size, const char *name, const char *reason)
{
    const size_t n = strlen(why);
    if (n + 1 < why_size)
        snprintf(why + n, why_size - n, "%s%s: %s", n > 0 ? "; " : "", name, reason);
}

/* A GPU that is there but cannot be opened is a reason, too. */
static bool open_gpu(struct hr__device **out, char *why, size_t why_size)
{
    for (size_t i = 0; hr__backends[i] && is_gpu(hr__backends[i]); i++) {
        char reason[HR_ERROR_TEXT / 2] = "";
        hr_error failure;
        const unsigned n_devices = hr__backends[i]->count(reason, sizeof reason);
        if (n_devices > 0 && hr__backends[i]->open(0, out, &failure) == HR_OK)
            return true;
        add_reason(why, why_size, hr__backends[i]->name, n_devices > 0 ? failure.text : reason);
    }
    return false;
}

hr_status hr__device_open(const char *name, struct hr__device **out, char *why, size_t why_size,
                          hr_error *error)
{
    assert(why_size > 0);
    why[0] = '\0';
    if (strcmp(name, "auto") != 0)
        return open_named(name, out, error);
    if (open_gpu(out, why, why_size)) {
        why[0] = '\0';
        return HR_OK;
    }
    return hr__host_backend.open(0, out, error);
}
