// SPDX-License-Identifier: Apache-2.0
/* hip_abi ROCM: what HIP's library of this major version (5, 6 or 7) does otherwise than the others,
 * of the library that the HIP backend loads: so that those of our own stand in for the right one.
 * Exits with 77 where there is no device, unless HR_REQUIRE=hip. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device_tools.h"
#include "hip_abi.h"
#include "hip_driver.h"
#include "transfers.h"

enum { SKIPPED = 77, BYTES = 1 << 16, MARK = 0x77 };

static const struct hr__hip_calls *hip;
static int rocm;
static int n_devices;

static void expect(bool holds, const char *what)
{
    check_that(holds, what, "not as in ROCm %d", rocm);
}

/* ---- properties ---- */

static bool fills(const hipDeviceProp_t *properties, size_t size)
{
    return properties->bytes[size] == MARK && properties->bytes[size - 1] != MARK;
}

static void check_properties(void)
{
    hipDeviceProp_t old;
    hipDeviceProp_t new;
    memset(&old, MARK, sizeof old);
    memset(&new, MARK, sizeof new);
    expect(hip->get_properties(&old, 0) == 0 && fills(&old, HIP_ABI_OLD_BYTES),
           "the plain name fills the old properties");
    expect((hip->get_properties_6 != NULL) == (rocm >= 6),
           "the new properties are there from 6 on");
    expect(old.bytes[HR__HIP_5_ARCH_AT] != '\0', "the old ones tell the architecture");
    if (!hip->get_properties_6)
        return;
    expect(hip->get_properties_6(&new, 0) == 0 && fills(&new, HIP_ABI_NEW_BYTES),
           "the new properties are filled");
    expect(strcmp(old.bytes + HR__HIP_5_ARCH_AT, new.bytes + HR__HIP_6_ARCH_AT) == 0,
           "they tell the same architecture");
}

/* ---- memory ---- */

static bool is_type(const void *memory, int type)
{
    struct hr__hip_home home = {.type = -1};
    return hip->pointer_get_attributes(&home, memory) == 0 && home.type == type;
}

static bool is_unknown(const void *memory)
{
    struct hr__hip_home home = {.type = -1};
    return rocm < 6 ? hip->pointer_get_attributes(&home, memory) == HR__HIP_INVALID_VALUE
                    : is_type(memory, HR__HIP_6_TYPE_UNREGISTERED);
}

static void check_host_memory(void)
{
    const unsigned flags = HR__HIP_REGISTER_PORTABLE | HR__HIP_REGISTER_MAPPED;
    char *memory = aligned_alloc(4096, BYTES);
    void *begin = NULL;
    expect(is_unknown(memory), "memory that it does not know");
    expect(hip->pointer_get_attribute(&begin, HR__HIP_RANGE_START, memory) == HR__HIP_INVALID_VALUE,
           "such memory has no begin");
    expect(hip->host_register(memory, BYTES, flags) == 0 &&
               is_type(memory + 5, rocm < 6 ? HR__HIP_5_TYPE_HOST : HR__HIP_6_TYPE_HOST),
           "registered memory");
    expect(hip->pointer_get_attribute(&begin, HR__HIP_RANGE_START, memory + 5) == 0 &&
               begin == memory,
           "where it begins");
    expect(hip->host_register(memory, BYTES, flags) == 0, "memory is registered twice");
    expect(hip->host_unregister(memory) == 0 && is_unknown(memory), "unregistering ends both");
    free(memory);
}

/* On the last device while others are current, and back. */
static void check_device_memory(void)
{
    const int type = rocm < 6 ? HR__HIP_5_TYPE_DEVICE : HR__HIP_6_TYPE_DEVICE;
    struct hr__hip_home home = {0};
    void *first = NULL;
    void *last = NULL;
    expect(hip->mem_alloc(&first, BYTES) == 0 && hip->set_device(n_devices - 1) == 0 &&
               hip->mem_alloc(&last, BYTES) == 0 && hip->set_device(0) == 0,
           "memory of the first and of the last device");
    expect(is_type(first, type) && is_type(last, type), "a device's memory");
    expect(hip->pointer_get_attributes(&home, last) == 0 && home.device == n_devices - 1,
           "which device's it is");
    expect(hip->mem_free(first) == 0 && hip->mem_free(last) == 0, "both are freed");
}

/* ---- threads and errors ---- */

static void *ask_device(void *device)
{
    hip->get_device(device);
    return NULL;
}

static void check_threads(void)
{
    pthread_t thread;
    int device = -1;
    expect(hip->set_device(n_devices) == HR__HIP_INVALID_DEVICE, "a device that is not there");
    hip->set_device(n_devices - 1);
    pthread_create(&thread, NULL, ask_device, &device);
    pthread_join(thread, NULL);
    expect(device == 0, "a thread begins on the first device");
    expect(hip->get_device(&device) == 0 && device == n_devices - 1,
           "the others stay where they are");
    hip->set_device(0);
}

static void check_last_error(void)
{
    int device;
    const int kept = rocm < 7 ? HR__HIP_SUCCESS : HR__HIP_INVALID_DEVICE;
    hip->set_device(-1);
    expect(hip->peek_at_last_error() == HR__HIP_INVALID_DEVICE, "the last error");
    hip->get_device(&device);
    expect(hip->peek_at_last_error() == kept, "it stays from 7 on");
    expect(hip->get_last_error() == kept && hip->get_last_error() == 0, "until it is asked for");
}

int main(int argc, char **argv)
{
    char why[256] = "";
    int number = 0;
    rocm = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0;
    n_devices = (int)hr__hip_backend.count(why, sizeof why);
    if (n_devices == 0) {
        printf("%s: %s\n", device_is_required("hip") ? "not ok the device" : "skip", why);
        return device_is_required("hip") ? EXIT_FAILURE : SKIPPED;
    }
    hip = hr__hip_load(NULL, 0);
    expect(hip->runtime_get_version(&number) == 0 && number / 10000000 == rocm, "its version");
    check_properties();
    check_host_memory();
    check_device_memory();
    check_threads();
    check_last_error();
    return end_checks();
}
