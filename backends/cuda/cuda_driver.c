// SPDX-License-Identifier: Apache-2.0
/* The CUDA driver as a struct hr__gpu_driver: each call in the driver's own words. */
#include "cuda_driver.h"

#include <stdio.h>
#include <stdlib.h>

#include "gpu_builtin.h"

/* The table is there: nothing is called before count() has found a device. */
static const struct hr__cuda_calls *cuda(void)
{
    return hr__cuda_load(NULL, 0);
}

/* ---- statuses ---- */

static enum hr__gpu_class classify(int status)
{
    switch (status) {
    case HR__CUDA_SUCCESS:
        return HR__GPU_DONE;
    case HR__CUDA_NOT_READY:
        return HR__GPU_NOT_READY;
    case HR__CUDA_OUT_OF_MEMORY:
        return HR__GPU_NO_MEMORY;
    case HR__CUDA_ALREADY_REGISTERED:
        return HR__GPU_ALREADY_PINNED;
    case HR__CUDA_INVALID_IMAGE:
    case HR__CUDA_NO_BINARY_FOR_GPU:
    case HR__CUDA_INVALID_PTX:
    case HR__CUDA_UNSUPPORTED_PTX_VERSION:
        return HR__GPU_NO_CODE;
    case HR__CUDA_NOT_FOUND:
        return HR__GPU_NO_ENTRY;
    case HR__CUDA_NOT_INITIALIZED: /* what a forked child is told */
        return HR__GPU_FORKED;
    case HR__CUDA_CONTAINED:
    case HR__CUDA_ILLEGAL_ADDRESS:
    case HR__CUDA_LAUNCH_TIMEOUT:
    case HR__CUDA_CONTEXT_IS_DESTROYED:
    case HR__CUDA_ASSERT:
    case HR__CUDA_HARDWARE_STACK_ERROR:
    case HR__CUDA_ILLEGAL_INSTRUCTION:
    case HR__CUDA_MISALIGNED_ADDRESS:
    case HR__CUDA_INVALID_ADDRESS_SPACE:
    case HR__CUDA_INVALID_PC:
    case HR__CUDA_LAUNCH_FAILED:
    case HR__CUDA_TENSOR_MEMORY_LEAK:
        return HR__GPU_DEAD;
    case HR__CUDA_DEVICE_UNAVAILABLE:
    case HR__CUDA_ECC_UNCORRECTABLE:
    case HR__CUDA_NVLINK_UNCORRECTABLE:
    case HR__CUDA_EXTERNAL_DEVICE:
        return HR__GPU_LOST;
    default:
        return HR__GPU_FAILED;
    }
}

static const char *text(int status)
{
    const char *words = NULL;
    if (cuda()->get_error_string(status, &words) != 0 || !words)
        return "an error that the driver has no words for";
    return words;
}

/* ---- devices ---- */

static int version(char *out, size_t size)
{
    int number = 0;
    const int status = cuda()->driver_get_version(&number); /* 1000 * major + 10 * minor */
    if (status == 0)
        snprintf(out, size, "CUDA %d.%d", number / 1000, number % 1000 / 10);
    return status;
}

static int get_device(unsigned index, int *device)
{
    return cuda()->device_get(device, (int)index);
}

static int device_title(unsigned index, char *out, size_t size)
{
    int device;
    const int status = get_device(index, &device);
    return status != 0 ? status : cuda()->device_get_name(out, (int)size, device);
}

static int device_memory(unsigned index, uint64_t *bytes)
{
    int device;
    size_t total = 0;
    int status = get_device(index, &device);
    if (status == 0)
        status = cuda()->device_total_mem(&total, device);
    *bytes = total;
    return status;
}

/* The values of n attributes, in their order. */
static int get_attributes(unsigned index, const int *attributes, size_t n, int *values)
{
    int device;
    int status = get_device(index, &device);
    for (size_t i = 0; i < n && status == 0; i++)
        status = cuda()->device_get_attribute(&values[i], attributes[i], device);
    return status;
}

static int device_shape(unsigned index, struct hr__gpu_shape *out)
{
    static const int attributes[] = {HR__CUDA_ARCH_MAJOR, HR__CUDA_ARCH_MINOR,
                                     HR__CUDA_PROCESSOR_COUNT};
    int values[3] = {0};
    const int status = get_attributes(index, attributes, 3, values);
    snprintf(out->arch, sizeof out->arch, "sm_%d%d", values[0], values[1]);
    out->n_processors = (uint32_t)values[2];
    return status;
}

/* As nvidia-smi prints it: GPU-, then 8-4-4-4-12 digits. */
static int device_uuid(unsigned index, char *out, size_t size)
{
    static const bool begins_group[] = {
        [0] = true, [4] = true, [6] = true, [8] = true, [10] = true, [15] = false};
    CUuuid uuid;
    int device;
    int status = get_device(index, &device);
    if (status == 0)
        status = cuda()->device_get_uuid(&uuid, device);
    if (status != 0)
        return status;
    size_t n = (size_t)snprintf(out, size, "GPU");
    for (unsigned i = 0; i < sizeof uuid.bytes && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%02x", begins_group[i] ? "-" : "",
                              (unsigned)(unsigned char)uuid.bytes[i]);
    return 0;
}

static int device_pci(unsigned index, char *out, size_t size)
{
    static const int attributes[] = {HR__CUDA_PCI_DOMAIN, HR__CUDA_PCI_BUS, HR__CUDA_PCI_DEVICE};
    int values[3] = {0};
    const int status = get_attributes(index, attributes, 3, values);
    snprintf(out, size, "%04x:%02x:%02x.0", (unsigned)values[0], (unsigned)values[1],
             (unsigned)values[2]);
    return status;
}

/* ---- the context: the primary one, which other libraries in the process use, too ---- */

static int context_retain(unsigned index, void **context)
{
    int device;
    const int status = get_device(index, &device);
    return status != 0 ? status : cuda()->primary_ctx_retain(context, device);
}

/* cuda.h: device handles are the ordinals;. */
static int context_release(unsigned index)
{
    return cuda()->primary_ctx_release((int)index);
}

/* The driver keeps a stack for each thread, so there is nothing to note. */
static int enter(void *context, void **before)
{
    *before = NULL;
    return cuda()->ctx_push_current(context);
}

static int leave(void *before)
{
    return cuda()->ctx_pop_current(&before);
}

/* ---- memory ---- */

static int memory_info(uint64_t *free_bytes, uint64_t *total_bytes)
{
    size_t available = 0;
    size_t total = 0;
    const int status = cuda()->mem_get_info(&available, &total);
    *free_bytes = available;
    *total_bytes = total;
    return status;
}

static int alloc(uint64_t *out, size_t size)
{
    CUdeviceptr memory = 0;
    const int status = cuda()->mem_alloc(&memory, size);
    *out = memory;
    return status;
}

static int free_memory(uint64_t memory)
{
    return cuda()->mem_free(memory);
}

/* Portable: other contexts of the process know it as pinned, too. The driver remembers no error. */
static int pin(void *memory, size_t size)
{
    return cuda()->mem_host_register(memory, size, HR__CUDA_REGISTER_PORTABLE);
}

static int unpin(void *memory)
{
    return cuda()->mem_host_unregister(memory);
}

/* cuda.h: in memory that it does not know, values are 0 or left as they are. Managed memory says
 * that it is of a device, wherever it is just now. */
static int memory_home(unsigned index, const void *memory, struct hr__gpu_home *out)
{
    CUpointer_attribute attributes[] = {HR__CUDA_MEMORY_TYPE, HR__CUDA_DEVICE_ORDINAL,
                                        HR__CUDA_IS_MANAGED, HR__CUDA_RANGE_START};
    unsigned type = 0;
    int ordinal = -1;
    unsigned is_managed = 0;
    CUdeviceptr begin = 0;
    void *values[] = {&type, &ordinal, &is_managed, &begin};
    const int status =
        cuda()->pointer_get_attributes(4, attributes, values, (CUdeviceptr)(uintptr_t)memory);
    *out = (struct hr__gpu_home){.kind = HR__MEMORY_PLAIN};
    if (status != 0 || is_managed)
        return status;
    if (type == HR__CUDA_TYPE_HOST)
        *out = (struct hr__gpu_home){.kind = HR__MEMORY_PINNED, .begin = begin};
    if (type == HR__CUDA_TYPE_DEVICE && ordinal == (int)index)
        *out = (struct hr__gpu_home){.kind = HR__MEMORY_DEVICE, .begin = begin};
    return 0;
}

/* ---- streams and events ---- */

static int stream_create(void **out)
{
    return cuda()->stream_create(out, HR__CUDA_STREAM_NON_BLOCKING);
}

static int stream_destroy(void *stream)
{
    return cuda()->stream_destroy(stream);
}

static int stream_synchronize(void *stream)
{
    return cuda()->stream_synchronize(stream);
}

static int stream_wait(void *stream, void *event)
{
    return cuda()->stream_wait_event(stream, event, 0);
}

static int event_create(void **out)
{
    return cuda()->event_create(out, HR__CUDA_EVENT_DEFAULT);
}

static int event_destroy(void *event)
{
    return cuda()->event_destroy(event);
}

static int event_record(void *event, void *stream)
{
    return cuda()->event_record(event, stream);
}

static int event_query(void *event)
{
    return cuda()->event_query(event);
}

static int event_synchronize(void *event)
{
    return cuda()->event_synchronize(event);
}

static int event_elapsed(float *ms, void *from, void *to)
{
    return cuda()->event_elapsed_time(ms, from, to);
}

/* ---- copies ---- */

static int copy_h2d(uint64_t to, const void *from, size_t size, void *stream)
{
    return cuda()->memcpy_h2d(to, from, size, stream);
}

static int copy_d2h(void *to, uint64_t from, size_t size, void *stream)
{
    return cuda()->memcpy_d2h(to, from, size, stream);
}

static int copy_d2d(uint64_t to, uint64_t from, size_t size, void *stream)
{
    return cuda()->memcpy_d2d(to, from, size, stream);
}

static int fill(uint64_t to, uint32_t word, size_t n_words, void *stream)
{
    return cuda()->memset_d32(to, word, n_words, stream);
}

/* ---- modules ---- */

/* The driver translates all that an image has, so it is cut down to the entry. */
static bool builtin_image(const char *arch, const char *entry, struct hr__gpu_image *out)
{
    size_t size = 0;
    (void)arch; /* the driver translates it for every one */
    if (hr__gpu_builtin_ptx_size == 0)
        return false;
    char *cut = malloc(hr__gpu_builtin_ptx_size + 1);
    if (cut)
        size = hr__gpu_builtin_cut((const char *)hr__gpu_builtin_ptx, entry, cut,
                                   hr__gpu_builtin_ptx_size + 1);
    if (size == 0) {
        free(cut);
        return false;
    }
    *out = (struct hr__gpu_image){.bytes = cut, .size = size, .owned = cut};
    return true;
}

/* The driver finds the size in the image itself. It takes integers as pointers for option values.
 */
static int module_load(void **out, const void *image, size_t size, char *log, size_t log_size)
{
    int options[] = {HR__CUDA_JIT_ERROR_LOG, HR__CUDA_JIT_ERROR_LOG_SIZE};
    void *values[] = {log, (void *)(uintptr_t)log_size};
    (void)size;
    return cuda()->module_load_data(out, image, 2, options, values);
}

static int module_unload(void *module)
{
    return cuda()->module_unload(module);
}

static int module_entry(void **out, void *module, const char *name)
{
    return cuda()->module_get_function(out, module, name);
}

static int entry_max_threads(uint32_t *out, void *entry)
{
    int value = 0;
    const int status = cuda()->func_get_attribute(&value, HR__CUDA_MAX_THREADS_PER_BLOCK, entry);
    *out = (uint32_t)value;
    return status;
}

static int launch(void *entry, uint32_t n_blocks, uint32_t n_threads, void *stream, void **params)
{
    return cuda()->launch_kernel(entry, n_blocks, 1, 1, n_threads, 1, 1, 0, stream, params, NULL);
}

const struct hr__gpu_driver hr__cuda_table = {
    .name = "cuda",
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
