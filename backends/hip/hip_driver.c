// SPDX-License-Identifier: Apache-2.0
/* HIP as a struct hr__gpu_driver: each call in its own words. Written from its headers and sources
 * and run without AMD's GPUs only, see README. */
#include "hip_driver.h"

#include <stdio.h>
#include <string.h>

#include "hip_bundle.h"

/* The table is there: nothing is called before count() has found a device. */
static const struct hr__hip_calls *hip(void)
{
    return hr__hip_load(NULL, 0);
}

/* See hip_calls.h. */
static bool is_rocm_6(void)
{
    return hip()->get_properties_6;
}

/* ---- statuses ---- */

/* A kernel that uses memory which is not its own is no status: the runtime ends the process. Nor is
 * a fork, which leaves a child with calls that fail in many ways: who opened a device knows. */
static enum hr__gpu_class classify(int status)
{
    switch (status) {
    case HR__HIP_SUCCESS:
        return HR__GPU_DONE;
    case HR__HIP_NOT_READY:
        return HR__GPU_NOT_READY;
    case HR__HIP_OUT_OF_MEMORY:
        return HR__GPU_NO_MEMORY;
    case HR__HIP_ALREADY_REGISTERED:
        return HR__GPU_ALREADY_PINNED;
    case HR__HIP_INVALID_IMAGE: /* which of these a missing architecture is differs by version */
    case HR__HIP_NO_BINARY_FOR_GPU:
    case HR__HIP_INVALID_KERNEL_FILE:
        return HR__GPU_NO_CODE;
    case HR__HIP_NOT_FOUND:
        return HR__GPU_NO_ENTRY;
    case HR__HIP_ILLEGAL_ADDRESS:
    case HR__HIP_LAUNCH_TIMEOUT:
    case HR__HIP_CONTEXT_IS_DESTROYED:
    case HR__HIP_ASSERT:
    case HR__HIP_LAUNCH_FAILURE:
        return HR__GPU_DEAD;
    case HR__HIP_ECC_NOT_CORRECTABLE:
        return HR__GPU_LOST;
    default:
        return HR__GPU_FAILED;
    }
}

static const char *text(int status)
{
    const char *words = hip()->get_error_string(status);
    return words ? words : "an error that the driver has no words for";
}

/* From ROCm 7 on, a thread's last error stays until somebody asks for it: one that is no failure
 * here must not be found by the user's own code. An error of the user's before it is left. */
static void forget_error(int before)
{
    if (before == HR__HIP_SUCCESS)
        hip()->get_last_error();
}

/* ---- devices: their handles are their indexes ---- */

static int version(char *out, size_t size)
{
    int major;
    int minor;
    hr__hip_version(hip(), &major, &minor);
    snprintf(out, size, "HIP %d.%d", major, minor);
    return major > 0 ? 0 : HR__HIP_NOT_SUPPORTED;
}

static int device_memory(unsigned index, uint64_t *bytes)
{
    size_t total = 0;
    const int status = hip()->device_total_mem(&total, (int)index);
    *bytes = total;
    return status;
}

/* The plain name fills the structure of ROCm 5 in all versions, the one with R0600 that of 6: each
 * is read as what it is. Words of other characters are none of an architecture, and would only
 * crash the compiler (see hip_rtc.c). */
static int get_arch(unsigned index, char *out, size_t size)
{
    static const char characters[] = "abcdefghijklmnopqrstuvwxyz0123456789:+-_";
    hipDeviceProp_t properties = {{0}};
    const int status = is_rocm_6() ? hip()->get_properties_6(&properties, (int)index)
                                   : hip()->get_properties(&properties, (int)index);
    const char *name = properties.bytes + (is_rocm_6() ? HR__HIP_6_ARCH_AT : HR__HIP_5_ARCH_AT);
    const size_t n = strnlen(name, HR__HIP_ARCH_BYTES);
    if (status != 0)
        return status;
    if (n == 0 || n >= size || strspn(name, characters) != n)
        return HR__HIP_NOT_SUPPORTED;
    memcpy(out, name, n + 1);
    return 0;
}

static int device_shape(unsigned index, struct hr__gpu_shape *out)
{
    int n = 0;
    int status = get_arch(index, out->arch, sizeof out->arch);
    if (status == 0)
        status = hip()->device_get_attribute(&n, HR__HIP_PROCESSOR_COUNT, (int)index);
    out->n_processors = (uint32_t)n;
    return status;
}

/* The name comes from a table that is not installed everywhere, and is empty without it. */
static int device_title(unsigned index, char *out, size_t size)
{
    out[0] = '\0';
    const int status = hip()->device_get_name(out, (int)size, (int)index);
    return status == 0 && out[0] == '\0' ? get_arch(index, out, size) : status;
}

/* As rocminfo prints it: GPU-, then the 16 digits, which HIP gives as text. */
static int device_uuid(unsigned index, char *out, size_t size)
{
    hipUUID uuid = {{0}};
    if (!hip()->device_get_uuid)
        return HR__HIP_NOT_SUPPORTED;
    const int status = hip()->device_get_uuid(&uuid, (int)index);
    const size_t n = strnlen(uuid.bytes, sizeof uuid.bytes);
    char digits[sizeof uuid.bytes + 1] = "";
    memcpy(digits, uuid.bytes, n);
    if (status == 0 && (n == 0 || strspn(digits, "0123456789abcdefABCDEF") != n))
        return HR__HIP_NOT_SUPPORTED;
    snprintf(out, size, "GPU-%s", digits);
    return status;
}

static int device_pci(unsigned index, char *out, size_t size)
{
    return hip()->device_get_pci(out, (int)size, (int)index);
}

/* ---- the context: HIP has one for each device, and a current device for each thread ---- */

static int context_retain(unsigned index, void **context)
{
    *context = (void *)(uintptr_t)index;
    return 0;
}

static int context_release(unsigned index)
{
    (void)index;
    return 0;
}

static int enter(void *context, void **before)
{
    int device = 0;
    const int status = hip()->get_device(&device);
    *before = (void *)(intptr_t)device;
    return status != 0 ? status : hip()->set_device((int)(intptr_t)context);
}

static int leave(void *before)
{
    return hip()->set_device((int)(intptr_t)before);
}

/* ---- memory ---- */

static int memory_info(uint64_t *free_bytes, uint64_t *total_bytes)
{
    size_t available = 0;
    size_t total = 0;
    const int status = hip()->mem_get_info(&available, &total);
    *free_bytes = available;
    *total_bytes = total;
    return status;
}

/* Not hipMallocAsync, which in some versions succeeds without memory, and whose memory hipFree does
 * not wait for from ROCm 7 on. */
static int alloc(uint64_t *out, size_t size)
{
    void *memory = NULL;
    const int status = hip()->mem_alloc(&memory, size);
    *out = (uint64_t)(uintptr_t)memory;
    return status == 0 && !memory ? HR__HIP_OUT_OF_MEMORY : status;
}

static int free_memory(uint64_t memory)
{
    return hip()->mem_free((void *)(uintptr_t)memory);
}

/* *known false: HIP does not know it, which is an error up to ROCm 5 and a type from 6 on. Whether
 * NULL is an error changed, too. */
static int find_home(const void *memory, struct hr__hip_home *home, bool *known)
{
    *known = false;
    *home = (struct hr__hip_home){0};
    if (!memory)
        return 0;
    const int before = hip()->peek_at_last_error();
    const int status = hip()->pointer_get_attributes(home, memory);
    if (status == HR__HIP_INVALID_VALUE) {
        forget_error(before);
        return 0;
    }
    *known = status == 0 && !(is_rocm_6() && home->type == HR__HIP_6_TYPE_UNREGISTERED);
    return status;
}

static bool is_known(const void *memory)
{
    struct hr__hip_home home;
    bool known;
    find_home(memory, &home, &known);
    return known;
}

/* HIP takes memory that it knows a second time and says nothing, and the first unregistering ends
 * both: whether it knows it is asked before. Portable and mapped: all devices know it, and it stays
 * coherent, which the first flag alone would end for memory that HIP allocates. */
static int pin(void *memory, size_t size)
{
    const char *begin = memory;
    if (is_known(begin) || is_known(begin + (size > 0 ? size - 1 : 0)))
        return HR__HIP_ALREADY_REGISTERED;
    const int before = hip()->peek_at_last_error();
    const int status =
        hip()->host_register(memory, size, HR__HIP_REGISTER_PORTABLE | HR__HIP_REGISTER_MAPPED);
    if (status != 0)
        forget_error(before);
    return status;
}

static int unpin(void *memory)
{
    return hip()->host_unregister(memory);
}

/* Managed memory goes to and fro; other types are arrays. Registered memory is all devices'. */
static enum hr__memory_kind kind_of(const struct hr__hip_home *home, unsigned index)
{
    const int host = is_rocm_6() ? HR__HIP_6_TYPE_HOST : HR__HIP_5_TYPE_HOST;
    const int device = is_rocm_6() ? HR__HIP_6_TYPE_DEVICE : HR__HIP_5_TYPE_DEVICE;
    if (home->is_managed)
        return HR__MEMORY_PLAIN;
    if (home->type == host)
        return HR__MEMORY_PINNED;
    return home->type == device && home->device == (int)index ? HR__MEMORY_DEVICE
                                                              : HR__MEMORY_PLAIN;
}

static int memory_home(unsigned index, const void *memory, struct hr__gpu_home *out)
{
    struct hr__hip_home home;
    bool known;
    void *begin = NULL;
    *out = (struct hr__gpu_home){.kind = HR__MEMORY_PLAIN};
    int status = find_home(memory, &home, &known);
    if (!known || kind_of(&home, index) == HR__MEMORY_PLAIN)
        return status;
    status = hip()->pointer_get_attribute(&begin, HR__HIP_RANGE_START, (void *)(uintptr_t)memory);
    if (status == 0)
        *out = (struct hr__gpu_home){.kind = kind_of(&home, index),
                                     .begin = (uint64_t)(uintptr_t)begin};
    return status;
}

/* ---- streams and events: from ROCm 7 on, one that was destroyed is a crash, not an error ---- */

/* Streams that block are ordered with the default one, and so with each other. */
static int stream_create(void **out)
{
    return hip()->stream_create(out, HR__HIP_STREAM_NON_BLOCKING);
}

static int stream_destroy(void *stream)
{
    return hip()->stream_destroy(stream);
}

static int stream_synchronize(void *stream)
{
    return hip()->stream_synchronize(stream);
}

static int stream_wait(void *stream, void *event)
{
    return hip()->stream_wait_event(stream, event, 0);
}

static int event_create(void **out)
{
    return hip()->event_create(out, HR__HIP_EVENT_DEFAULT);
}

static int event_destroy(void *event)
{
    return hip()->event_destroy(event);
}

static int event_record(void *event, void *stream)
{
    return hip()->event_record(event, stream);
}

static int event_query(void *event)
{
    return hip()->event_query(event);
}

static int event_synchronize(void *event)
{
    return hip()->event_synchronize(event);
}

static int event_elapsed(float *ms, void *from, void *to)
{
    return hip()->event_elapsed_time(ms, from, to);
}

/* ---- copies: one end is device memory of the stream's device, or HIP would copy on the CPU, or on
 * the default stream of the other device ---- */

static int copy_h2d(uint64_t to, const void *from, size_t size, void *stream)
{
    return hip()->memcpy_async((void *)(uintptr_t)to, from, size, HR__HIP_COPY_H2D, stream);
}

static int copy_d2h(void *to, uint64_t from, size_t size, void *stream)
{
    return hip()->memcpy_async(to, (const void *)(uintptr_t)from, size, HR__HIP_COPY_D2H, stream);
}

static int copy_d2d(uint64_t to, uint64_t from, size_t size, void *stream)
{
    return hip()->memcpy_async((void *)(uintptr_t)to, (const void *)(uintptr_t)from, size,
                               HR__HIP_COPY_D2D, stream);
}

static int fill(uint64_t to, uint32_t word, size_t n_words, void *stream)
{
    return hip()->memset_d32((void *)(uintptr_t)to, (int)word, n_words, stream);
}

/* ---- modules ---- */

/* The one code object, which has all entries, rather than the bundle, which HIP takes, too: a tenth
 * of the memory for each device, and nothing is asked of the comgr library, whose versions differ. */
static bool builtin_image(const char *arch, const char *entry, struct hr__gpu_image *out)
{
    (void)entry;
    return hr__hip_bundle_find(hr__hip_bundle, hr__hip_bundle_size, arch, &out->bytes, &out->size);
}

/* For the current device. HIP finds the size in the image, copies nothing, and says no more than a
 * status. Were the image mapped from a file, as that of this library is, HIP would open the file by
 * its path: it is a copy, see gpu_module.c. */
static int module_load(void **out, const void *image, size_t size, char *log, size_t log_size)
{
    (void)size;
    (void)log;
    (void)log_size;
    return hip()->module_load_data(out, image);
}

static int module_unload(void *module)
{
    return hip()->module_unload(module);
}

static int module_entry(void **out, void *module, const char *name)
{
    return hip()->module_get_function(out, module, name);
}

static int entry_max_threads(uint32_t *out, void *entry)
{
    int value = 0;
    const int status = hip()->func_get_attribute(&value, HR__HIP_MAX_THREADS_PER_BLOCK, entry);
    *out = (uint32_t)value;
    return status;
}

/* The product of both numbers has to stay below 2^32: grids have some blocks for each processor. */
static int launch(void *entry, uint32_t n_blocks, uint32_t n_threads, void *stream, void **params)
{
    return hip()->launch_kernel(entry, n_blocks, 1, 1, n_threads, 1, 1, 0, stream, params, NULL);
}

const struct hr__gpu_driver hr__hip_table = {
    .name = "hip",
    .classify = classify,
    .text = text,
    .version = version,
    .device_title = device_title,
    .device_memory = device_memory,
    .device_shape = device_shape,
    .device_uuid = device_uuid,
    .device_pci = device_pci,
    .context_retain = context_retain,
    .context_release = context_release,
    .enter = enter,
    .leave = leave,
    .memory_info = memory_info,
    .alloc = alloc,
    .free = free_memory,
    .pin = pin,
    .unpin = unpin,
    .memory_home = memory_home,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_synchronize = stream_synchronize,
    .stream_wait = stream_wait,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_query = event_query,
    .event_synchronize = event_synchronize,
    .event_elapsed = event_elapsed,
    .copy_h2d = copy_h2d,
    .copy_d2h = copy_d2h,
    .copy_d2d = copy_d2d,
    .fill = fill,
    .builtin_image = builtin_image,
    .module_load = module_load,
    .module_unload = module_unload,
    .module_entry = module_entry,
    .entry_max_threads = entry_max_threads,
    .launch = launch,
};
