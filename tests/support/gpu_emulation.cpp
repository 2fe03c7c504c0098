// SPDX-License-Identifier: Apache-2.0
/* The kernels' source compiled as C++, and the fibers that run it. */
#include <assert.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "gpu_emulation.h"

enum { N_FIBERS = 256, STACK_BYTES = 128 << 10 };

static struct {
    ucontext_t home;
    ucontext_t fiber[N_FIBERS];
    bool is_done[N_FIBERS];
    uint32_t thread;
    uint32_t block;
    uint32_t n_blocks;
    bool is_on_fiber;
    bool has_barrier;
} grid;

static unsigned hr_thread()
{
    return grid.thread;
}

static unsigned hr_block()
{
    return grid.block;
}

static unsigned hr_n_blocks()
{
    return grid.n_blocks;
}

static void hr_barrier()
{
    assert(grid.is_on_fiber);
    grid.has_barrier = true;
    swapcontext(&grid.fiber[grid.thread], &grid.home);
}

#define HR_EMULATED
#define HR_KERNEL extern "C" void
#define HR_FN static inline
#define HR_MEMBER
#define __shared__ static
#include "builtin_kernels.cu"

static_assert(HR_BLOCK == N_FIBERS, "a fiber for each thread");

static struct {
    void *entry;
    gpu_launch launch;
    Args args;
    CrcArgs crc_args;
    bool is_crc;
} call;

template <class A> static void call_with(const A &args)
{
    typedef void entry_fn(const void *, void *, u64, u64, u64 *, void *, A);
    const gpu_launch &l = call.launch;
    entry_fn *entry = reinterpret_cast<entry_fn *>(call.entry);
    entry(l.in, l.out, l.n_units, l.first_unit, reinterpret_cast<u64 *>(l.count), l.state, args);
}

static void run_fiber()
{
    if (call.is_crc)
        call_with(call.crc_args);
    else
        call_with(call.args);
    grid.is_done[grid.thread] = true;
}

static void start_fiber(char *stacks, unsigned i)
{
    grid.is_done[i] = false;
    getcontext(&grid.fiber[i]);
    grid.fiber[i].uc_stack.ss_sp = stacks + (size_t)i * STACK_BYTES;
    grid.fiber[i].uc_stack.ss_size = STACK_BYTES;
    grid.fiber[i].uc_link = &grid.home;
    makecontext(&grid.fiber[i], run_fiber, 0);
}

/* Each thread up to its next barrier. False: all have ended. */
static bool run_phase()
{
    bool any = false;
    for (unsigned i = 0; i < N_FIBERS; i++) {
        if (grid.is_done[i])
            continue;
        grid.thread = i;
        swapcontext(&grid.home, &grid.fiber[i]);
        any = any || !grid.is_done[i];
    }
    return any;
}

/* If the first thread meets no barrier, none does, and the others need no fibers. */
static void run_block(char *stacks)
{
    grid.is_on_fiber = true;
    grid.has_barrier = false;
    grid.thread = 0;
    start_fiber(stacks, 0);
    swapcontext(&grid.home, &grid.fiber[0]);
    grid.is_on_fiber = grid.has_barrier;
    for (unsigned i = 1; i < N_FIBERS; i++) {
        grid.thread = i;
        if (grid.has_barrier) {
            start_fiber(stacks, i);
            swapcontext(&grid.home, &grid.fiber[i]);
        } else {
            run_fiber();
        }
    }
    while (grid.has_barrier && run_phase())
        ;
}

bool gpu_emulate(const char *entry, const void *args, size_t args_size, uint32_t n_blocks,
                 const struct gpu_launch *launch)
{
    static char *stacks = static_cast<char *>(malloc((size_t)N_FIBERS * STACK_BYTES));
    assert(stacks);
    call.entry = dlsym(RTLD_DEFAULT, entry);
    if (!call.entry)
        return false;
    call.launch = *launch;
    call.is_crc = args_size == sizeof call.crc_args;
    if (call.is_crc)
        memcpy(&call.crc_args, args, sizeof call.crc_args);
    else
        memcpy(&call.args, args, sizeof call.args);
    grid.n_blocks = n_blocks;
    for (grid.block = 0; grid.block < n_blocks; grid.block++)
        run_block(stacks);
    return true;
}
