// SPDX-License-Identifier: Apache-2.0
/* Built-in kernels for GPUs: one source for nvcc, NVRTC, clang (to PTX and to AMD code objects),
 * hipcc and hipRTC, and for a C++ compiler under tests/support/gpu_emulation.cpp. The files of this
 * folder are joined in the order of builtin.cmake; none includes anything. C++11; contraction must be
 * off. What each kernel computes is told in host_kernels.h, whose functions are its oracle.
 *
 * No warp or wave operation is used: results do not depend on the wave's width, and phases are
 * parted by block barriers alone. Every entry is run with HR_BLOCK threads a block, any grid:
 *
 *     entry(in, out, n_units, first_unit, count, state, args)
 *
 * in and out are aligned to 16 bytes. Reductions fold into a state of reduce_state.h, here taken as
 * 64-bit words; filter's state is its scratch memory. */

typedef unsigned char u8;
typedef signed char i8;
typedef unsigned short u16;
typedef short i16;
typedef unsigned int u32;
typedef int i32;
typedef unsigned long long u64;
typedef long long i64;

#define HR_BLOCK 256u

/* ---- what differs between compilers ---- */

#if defined(HR_EMULATED) /* everything is there */
#elif defined(__AMDGCN__) || defined(__HIP__)
#ifndef __device__
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#endif
#define HR_KERNEL                                                                                  \
    extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(256, 256))) void
#define HR_FN static inline __device__ __attribute__((always_inline))
#define HR_MEMBER __device__ __attribute__((always_inline))
#pragma clang fp contract(off)
HR_FN u32 hr_thread()
{
    return __builtin_amdgcn_workitem_id_x();
}
HR_FN u32 hr_block()
{
    return __builtin_amdgcn_workgroup_id_x();
}
HR_FN u32 hr_n_blocks()
{
    return __builtin_amdgcn_grid_size_x() / HR_BLOCK;
}
HR_FN void hr_barrier()
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
#elif defined(__clang__) && defined(__CUDA__) && !defined(__CUDACC_RTC__) && !defined(__NVCC__)
#ifndef __device__
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#endif
#define HR_KERNEL extern "C" __attribute__((global)) __attribute__((launch_bounds(256))) void
#define HR_FN static inline __device__ __attribute__((always_inline))
#define HR_MEMBER __device__ __attribute__((always_inline))
#pragma clang fp contract(off)
HR_FN u32 hr_thread()
{
    return (u32)__nvvm_read_ptx_sreg_tid_x();
}
HR_FN u32 hr_block()
{
    return (u32)__nvvm_read_ptx_sreg_ctaid_x();
}
HR_FN u32 hr_n_blocks()
{
    return (u32)__nvvm_read_ptx_sreg_nctaid_x();
}
HR_FN void hr_barrier()
{
    __syncthreads();
}
#else /* nvcc, NVRTC */
#define HR_KERNEL extern "C" __global__ void __launch_bounds__(256)
#define HR_FN static __device__ __forceinline__
#define HR_MEMBER __device__ __forceinline__
#define HR_HAS_CUDA_ATOMICS
HR_FN u32 hr_thread()
{
    return threadIdx.x;
}
HR_FN u32 hr_block()
{
    return blockIdx.x;
}
HR_FN u32 hr_n_blocks()
{
    return gridDim.x;
}
HR_FN void hr_barrier()
{
    __syncthreads();
}
#endif

/* To be said of every shared variable, behind its declaration: other threads write to it. clang 14
 * sees that its address never leaves the function, concludes that no barrier can change it, and moves
 * loads over barriers (seen: filter's ticket, read by 255 threads before it was drawn). */
#if defined(__clang__) && !defined(HR_EMULATED) && !defined(HR_HAS_CUDA_ATOMICS)
HR_FN void hr_is_shared(void *variable)
{
    __asm__ volatile("" : : "r"(variable) : "memory");
}
#else
HR_FN void hr_is_shared(void *variable)
{
    (void)variable;
}
#endif

#if defined(HR_EMULATED)
#define HR_UNROLL
#define HR_NO_UNROLL
#else
#define HR_UNROLL _Pragma("unroll")
#define HR_NO_UNROLL _Pragma("unroll 1")
#endif

/* Atomic operations on device and shared memory, without an order of their own: what they guard is
 * in the word itself. Each gives the value before. */
#if defined(HR_HAS_CUDA_ATOMICS)
#define HR_ATOMIC(name, T, cuda, word)                                                             \
    HR_FN T name(T *p, T v)                                                                        \
    {                                                                                              \
        return cuda(p, v);                                                                         \
    }
#elif defined(__HIP__)
#define HR_ATOMIC(name, T, cuda, word)                                                             \
    HR_FN T name(T *p, T v)                                                                        \
    {                                                                                              \
        return __hip_atomic_fetch_##word(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);        \
    }
#else
#define HR_ATOMIC(name, T, cuda, word)                                                             \
    HR_FN T name(T *p, T v)                                                                        \
    {                                                                                              \
        return __atomic_fetch_##word(p, v, __ATOMIC_RELAXED);                                      \
    }
#endif
HR_ATOMIC(atomic_add, u32, atomicAdd, add)
HR_ATOMIC(atomic_add, u64, atomicAdd, add)
HR_ATOMIC(atomic_or, u64, atomicOr, or)
HR_ATOMIC(atomic_or, u32, atomicOr, or)
HR_ATOMIC(atomic_xor, u32, atomicXor, xor)
#if defined(HR_EMULATED)
static inline i64 atomic_min(i64 *p, i64 v)
{
    const i64 old = *p;
    *p = v < old ? v : old;
    return old;
}
static inline i64 atomic_max(i64 *p, i64 v)
{
    const i64 old = *p;
    *p = v > old ? v : old;
    return old;
}
#else
HR_ATOMIC(atomic_min, i64, atomicMin, min)
HR_ATOMIC(atomic_max, i64, atomicMax, max)
#endif

/* ---- parameters: the same as in gpu_builtin.h ---- */

struct Args {
    double mul;
    double add;
    double lo;
    double hi;
    double step;         /* of the histogram's edges */
    double bins_per_one; /* about 1 / step; infinite if step is tiny */
    double float_value;
    i64 int_value;
    u32 lt; /* of a comparison, see struct hr__compare: 0 or 1 each */
    u32 eq;
    u32 gt;
    u32 invert;
    u32 n_bins;
    u32 width;       /* shuffle, unshuffle */
    u32 block_bytes; /* theirs */
    u32 unused;
};

/* Powers of x modulo the polynomial, bit-reflected. */
struct CrcArgs {
    u32 row[16];     /* x^(8 (ROW - j) + 24), ROW = 16 HR_BLOCK */
    u32 level[8];    /* x^(-8 * 16 * 2^i) */
    u32 inverse[32]; /* x^(-8 * 2^i) */
};

/* ---- words ---- */

union Bits32 {
    u32 u;
    float f;
};
union Bits64 {
    u64 u;
    double f;
};

HR_FN u32 bits_of(float x)
{
    Bits32 b;
    b.f = x;
    return b.u;
}
HR_FN u64 bits_of(double x)
{
    Bits64 b;
    b.f = x;
    return b.u;
}
HR_FN float f32_of(u32 u)
{
    Bits32 b;
    b.u = u;
    return b.f;
}
HR_FN double f64_of(u64 u)
{
    Bits64 b;
    b.u = u;
    return b.f;
}

struct alignas(16) Four {
    u32 a, b, c, d;
};
struct alignas(8) Two {
    u32 a, b;
};

/* BYTES bytes in registers, loaded and stored at once. */
template <int BYTES> struct Chunk {
    u32 w[(BYTES + 3) / 4];

    /* Element i. */
    HR_MEMBER void get(int i, u8 &out) const
    {
        out = (u8)(w[i / 4] >> (8 * (i % 4)));
    }
    HR_MEMBER void get(int i, u16 &out) const
    {
        out = (u16)(w[i / 2] >> (16 * (i % 2)));
    }
    HR_MEMBER void get(int i, u32 &out) const
    {
        out = w[i];
    }
    HR_MEMBER void get(int i, u64 &out) const
    {
        out = w[2 * i] | (u64)w[2 * i + 1] << 32;
    }
    HR_MEMBER void clear()
    {
        HR_UNROLL
        for (int i = 0; i < (BYTES + 3) / 4; i++)
            w[i] = 0;
    }
    /* Into a cleared one. */
    HR_MEMBER void put(int i, u8 v)
    {
        w[i / 4] |= (u32)v << (8 * (i % 4));
    }
    HR_MEMBER void put(int i, u16 v)
    {
        w[i / 2] |= (u32)v << (16 * (i % 2));
    }
    HR_MEMBER void put(int i, u32 v)
    {
        w[i] = v;
    }
    HR_MEMBER void put(int i, u64 v)
    {
        w[2 * i] = (u32)v;
        w[2 * i + 1] = (u32)(v >> 32);
    }
};

#define HR_CHUNK_ACCESS(BYTES, MEMORY, FROM_MEMORY, TO_MEMORY)                                     \
    HR_FN void load_words(Chunk<BYTES> &c, const void *p, u64 index)                               \
    {                                                                                              \
        const MEMORY v = ((const MEMORY *)p)[index];                                               \
        FROM_MEMORY;                                                                               \
    }                                                                                              \
    HR_FN void store_words(const Chunk<BYTES> &c, void *p, u64 index)                              \
    {                                                                                              \
        const MEMORY v = TO_MEMORY;                                                                \
        ((MEMORY *)p)[index] = v;                                                                  \
    }

HR_CHUNK_ACCESS(2, u16, c.w[0] = v, (u16)c.w[0])
HR_CHUNK_ACCESS(4, u32, c.w[0] = v, c.w[0])
HR_CHUNK_ACCESS(8, Two, (c.w[0] = v.a, c.w[1] = v.b), (Two{c.w[0], c.w[1]}))
HR_CHUNK_ACCESS(16, Four, (c.w[0] = v.a, c.w[1] = v.b, c.w[2] = v.c, c.w[3] = v.d),
                (Four{c.w[0], c.w[1], c.w[2], c.w[3]}))

HR_FN u64 first_index()
{
    return (u64)hr_block() * HR_BLOCK + hr_thread();
}

HR_FN u64 n_threads()
{
    return (u64)hr_n_blocks() * HR_BLOCK;
}

/* Combines the values of a block's threads; thread 0 gets all. */
template <class Op> HR_FN typename Op::Value block_reduce(typename Op::Value v)
{
    __shared__ typename Op::Value slot[HR_BLOCK];
    hr_is_shared((void *)&slot);
    const u32 t = hr_thread();
    slot[t] = v;
    hr_barrier();
    for (u32 half = HR_BLOCK / 2; half > 0; half /= 2) {
        if (t < half)
            slot[t] = Op::combine(slot[t], slot[t + half]);
        hr_barrier();
    }
    return slot[0];
}
