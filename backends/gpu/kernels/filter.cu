// SPDX-License-Identifier: Apache-2.0
/* ---- filter ----
 *
 * One launch, in order:
 * 1. each block takes the next segment of the input by a ticket, so that those of all segments
 *    before are running or done and may be waited for;
 * 2. it counts what it will keep, and publishes the number;
 * 3. it adds up the numbers of the segments before: where its output begins;
 * 4. it reads its segment again (from the cache, for the most part) and writes.
 * The scratch memory is zero before the first launch, and left so for the next. */

enum { SCRATCH_TICKET = 0, SCRATCH_DONE = 1, SCRATCH_COUNTS = 2 };

/* Exclusive sum over the block's threads; total gets that of all. */
HR_FN u32 block_scan(u32 (*slot)[HR_BLOCK], u32 v, u32 &total)
{
    const u32 t = hr_thread();
    u32 from = 0;
    slot[0][t] = v;
    hr_barrier();
    for (u32 by = 1; by < HR_BLOCK; by *= 2) {
        slot[1 - from][t] = slot[from][t] + (t >= by ? slot[from][t - by] : 0u);
        from = 1 - from;
        hr_barrier();
    }
    total = slot[from][HR_BLOCK - 1];
    return slot[from][t] - v;
}

/* A segment's elements [begin, end), begin a multiple of a tile. */
template <class T> struct Filter {
    typedef typename T::Raw Raw;
    static const int N = 16 / (int)sizeof(Raw); /* elements of a thread in a tile */
    static const u32 TILE = HR_BLOCK * (u32)N;
    const Raw *in;
    Raw *out;
    u64 begin;
    u64 end;
    Satisfies<T, T::is_float> satisfies;

    HR_MEMBER Filter(const void *from, void *to, const Args &args)
        : in((const Raw *)from), out((Raw *)to), begin(0), end(0), satisfies(args)
    {
    }

    HR_MEMBER void take_segment(u64 segment, u64 n)
    {
        const u64 tiles = (n + TILE - 1) / TILE;
        const u64 per_block = (tiles + hr_n_blocks() - 1) / hr_n_blocks() * TILE;
        begin = segment * per_block < n ? segment * per_block : n;
        end = begin + per_block < n ? begin + per_block : n;
    }

    /* Bit i: the thread's element i at `at` is kept. */
    HR_MEMBER u32 flags(u64 at, Chunk<16> &chunk) const
    {
        u32 kept = 0;
        if (at + N <= end) {
            load_words(chunk, in, at / N);
            HR_UNROLL
            for (int i = 0; i < N; i++) {
                Raw raw;
                chunk.get(i, raw);
                kept |= satisfies(raw) << i;
            }
            return kept;
        }
        chunk.clear();
        HR_UNROLL
        for (int i = 0; i < N; i++) {
            if (at + (u64)i < end) {
                chunk.put(i, in[at + (u64)i]);
                kept |= satisfies(in[at + (u64)i]) << i;
            }
        }
        return kept;
    }

    static HR_MEMBER u32 n_bits(u32 v)
    {
        v = v - (v >> 1 & 0x55555555u);
        v = (v & 0x33333333u) + (v >> 2 & 0x33333333u);
        return ((v + (v >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24;
    }

    HR_MEMBER u64 count() const
    {
        u64 n = 0;
        HR_NO_UNROLL
        for (u64 tile = begin; tile < end; tile += TILE) {
            Chunk<16> chunk;
            n += n_bits(flags(tile + hr_thread() * (u64)N, chunk));
        }
        return block_reduce<Sum64>(n);
    }

    /* By way of shared memory, so that neighbours write neighbouring elements. */
    HR_MEMBER void compact(u64 to) const
    {
        __shared__ u32 scan[2][HR_BLOCK];
        hr_is_shared((void *)&scan);
        __shared__ Raw stage[TILE];
        hr_is_shared((void *)&stage);
        HR_NO_UNROLL
        for (u64 tile = begin; tile < end; tile += TILE) {
            Chunk<16> chunk;
            u32 total = 0;
            const u32 kept = flags(tile + hr_thread() * (u64)N, chunk);
            u32 into = block_scan(scan, n_bits(kept), total);
            HR_UNROLL
            for (int i = 0; i < N; i++) {
                Raw raw;
                chunk.get(i, raw);
                if (kept >> i & 1u)
                    stage[into++] = raw;
            }
            hr_barrier();
            for (u32 i = hr_thread(); i < total; i += HR_BLOCK)
                out[to + i] = stage[i];
            to += total;
            hr_barrier();
        }
    }
};

/* Kept in the segments before; a published number is one more than what it tells. */
HR_FN u64 sum_before(const u64 *counts, u64 segment)
{
    u64 sum = 0;
    for (u64 i = hr_thread(); i < segment; i += HR_BLOCK) {
        u64 published = 0;
        while (published == 0)
            published = *(const volatile u64 *)(counts + i);
        sum += published - 1;
    }
    return block_reduce<Sum64>(sum);
}

/* The last block to come here knows that no other reads the scratch memory any more. */
HR_FN void leave_zero(u64 *scratch)
{
    __shared__ u32 is_last;
    hr_is_shared((void *)&is_last);
    if (hr_thread() == 0)
        is_last = atomic_add(scratch + SCRATCH_DONE, (u64)1) == hr_n_blocks() - 1;
    hr_barrier();
    if (is_last)
        for (u32 i = hr_thread(); i < SCRATCH_COUNTS + hr_n_blocks(); i += HR_BLOCK)
            scratch[i] = 0;
}

template <class T>
HR_FN void filter(const void *in, void *out, u64 n, u64 *count, u64 *scratch, const Args &args)
{
    __shared__ u64 segment;
    hr_is_shared((void *)&segment);
    if (hr_thread() == 0)
        segment = atomic_add(scratch + SCRATCH_TICKET, (u64)1);
    hr_barrier();
    Filter<T> fn(in, out, args);
    fn.take_segment(segment, n);
    const u64 kept = fn.count();
    if (hr_thread() == 0)
        *(volatile u64 *)(scratch + SCRATCH_COUNTS + segment) = kept + 1;
    hr_barrier();
    const u64 before = sum_before(scratch + SCRATCH_COUNTS, segment);
    hr_barrier();
    if (hr_thread() == 0 && segment == hr_n_blocks() - 1)
        *count = before + kept;
    fn.compact(before);
    leave_zero(scratch);
}
