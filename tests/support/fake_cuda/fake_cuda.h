// SPDX-License-Identifier: Apache-2.0
/* A driver library for tests without a GPU: libcuda.so.1 with two devices.
 *
 * Each stream is a thread, which waits for random times, so that what different streams do is done
 * late and in any order. Device memory is host memory under other addresses: one that is taken for
 * the other is refused or crashes. Calls check that the right context is current, and end the
 * process on a stream or event that is no more. Kernels are functions of the test, registered by
 * name; any image that begins with "fake" has them all.
 *
 * A test links the library, and so the backend finds it loaded; or HR_LIBCUDA names it. */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Objects that are there. */
struct fake_cuda_live {
    int contexts; /* retained and not released */
    int streams;
    int events;
    int allocations;
    int pins;
    int modules;
};

enum { FAKE_CUDA_PARAMS = 8, FAKE_CUDA_PARAM_BYTES = 256 };

/* The parameters of a launch, as the kernel declared their sizes. */
struct fake_cuda_launch {
    unsigned n_blocks;
    unsigned n_threads;
    _Alignas(16) unsigned char params[FAKE_CUDA_PARAMS][FAKE_CUDA_PARAM_BYTES];
};

/* On the stream's thread. Returns 0, or the CUresult that kills the context. */
typedef int (*fake_cuda_kernel_fn)(const struct fake_cuda_launch *launch);

/* Registers a kernel; sizes ends with 0. name and sizes stay the caller's. */
void fake_cuda_kernel(const char *name, fake_cuda_kernel_fn fn, const size_t *sizes);
/* Where size bytes of device memory are in the host's; aborts if it is not all in one allocation.
 */
void *fake_cuda_host(uint64_t address, size_t size);

/* Before each operation a stream waits for up to so many microseconds. */
void fake_cuda_set_delay(unsigned max_us);
/* From now on events tell a time of the device's own. Each stream's goes on by what operations take;
 * what waits for an event goes on that much after the event's time. NULL: the host's clock. */
struct fake_cuda_times {
    unsigned copy_us;
    unsigned launch_us;
    unsigned wait_us;
};
void fake_cuda_set_times(const struct fake_cuda_times *times);
/* What each device has, for allocations from now on; 1 GiB before. */
void fake_cuda_set_memory(size_t bytes);
/* What is allocated of it, of all devices. */
size_t fake_cuda_used(void);
/* Whether memory of the host is refused to be pinned, as systems do that limit it. */
void fake_cuda_refuse_pins(bool refuse);
/* The nth call from now, counted from 1, returns status; 0: none does. Calls that give something
 * back do so all the same, as real drivers do. 700 and 719 kill the context that is current. */
void fake_cuda_fail(unsigned nth, int status);
/* The same for calls of this name, which stays the caller's, alone. */
void fake_cuda_fail_call(const char *call, unsigned nth, int status);
/* The name of the call that failed since then; NULL: none has yet. */
const char *fake_cuda_failed_call(void);
/* A status of HIP's allocations: success, and no memory, as some versions say it. */
enum { FAKE_CUDA_SILENT = -1 };
/* The first n looks at an event that is done say that it is not ready. */
void fake_cuda_storm(unsigned n);
/* Whether the first device's context is dead. */
bool fake_cuda_is_dead(void);
/* Dead contexts live again, as in a new process. */
void fake_cuda_heal(void);
/* From now on told of every call, under the driver's lock; NULL: nobody is. */
void fake_cuda_watch(void (*seen)(const char *call));
/* Copies since then whose host side is not pinned where it begins. */
unsigned fake_cuda_unpinned_copies(void);

struct fake_cuda_live fake_cuda_live(void);
/* The context of the calling thread, and how many are on its stack. */
void *fake_cuda_current(void);
unsigned fake_cuda_depth(void);

#endif
