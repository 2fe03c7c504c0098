// SPDX-License-Identifier: Apache-2.0
/* ---- CRC-32 ----
 *
 * A byte b at position p of the stream adds b x^(-8 p) to the state (reduce_kernels.c; b in the low
 * byte of a bit-reflected register). Bytes add up in any order:
 * 1. a block takes rows of 16 bytes a thread; thread t the bytes from 16 t on of each. From row to
 *    row its register is multiplied by x^(8 ROW): as in slicing, the register joins the row's first
 *    four bytes, and each byte is looked up in a table that holds its product already;
 * 2. the threads' registers are combined pairwise: the right one's lies 16, 32, ... bytes further;
 * 3. the block's position is a product of powers chosen by the bits of a number, one in each of 32
 *    threads.
 * What lies behind the data counts as zeros, which add nothing. */

HR_FN u32 times_x(u32 b)
{
    return b >> 1 ^ (b & 1u) * 0xedb88320u;
}

HR_FN u32 times(u32 a, u32 b)
{
    u32 product = 0;
    HR_UNROLL
    for (int i = 31; i >= 0; i--) {
        product ^= (a >> i & 1u) * b;
        b = times_x(b);
    }
    return product;
}

enum { ROW = 16 * HR_BLOCK };

/* table[j][b] = b x^(8 (ROW - j)). */
HR_FN void make_tables(u32 (*table)[256], const CrcArgs &args)
{
    HR_UNROLL
    for (u32 j = 0; j < 16; j++) {
        for (u32 b = hr_thread(); b < 256; b += HR_BLOCK) {
            u32 power = args.row[j];
            u32 product = 0;
            HR_UNROLL
            for (int i = 7; i >= 0; i--) {
                product ^= (b >> i & 1u) * power;
                power = times_x(power);
            }
            table[j][b] = product;
        }
    }
}

HR_FN void load_part(const u8 *in, u64 at, u64 n, u32 *w)
{
    HR_UNROLL
    for (u32 i = 0; i < 16; i++) {
        const u32 byte = at + i < n ? in[at + i] : 0;
        w[i / 4] |= byte << (8 * (i % 4));
    }
}

HR_FN u32 next_row(const u32 (*table)[256], u32 crc, Chunk<16> row)
{
    u32 next = 0;
    row.w[0] ^= crc;
    HR_UNROLL
    for (int j = 0; j < 16; j++)
        next ^= table[j][row.w[j / 4] >> (8 * (j % 4)) & 0xffu];
    return next;
}

/* x^(-8 n), n < 2^32. All threads take part; thread 0 has the result. */
HR_FN u32 inverse_power(u32 *slot, const CrcArgs &args, u32 n)
{
    const u32 t = hr_thread();
    HR_UNROLL
    for (u32 i = 0; i < 32; i++)
        if (t == i)
            slot[t] = n >> i & 1u ? args.inverse[i] : 0x80000000u;
    hr_barrier();
    HR_NO_UNROLL
    for (u32 half = 16; half > 0; half /= 2) {
        if (t < half)
            slot[t] = times(slot[t], slot[t + half]);
        hr_barrier();
    }
    return slot[0];
}

/* All threads take part; thread 0 has the result. */
HR_FN u32 combined(u32 *slot, const CrcArgs &args, u32 crc)
{
    const u32 t = hr_thread();
    slot[t] = crc;
    hr_barrier();
    HR_UNROLL
    for (u32 i = 8; i-- > 0;) {
        const u32 half = 1u << i;
        if (t < half)
            slot[t] ^= times(slot[t + half], args.level[i]);
        hr_barrier();
    }
    return slot[0];
}

HR_FN void fold_crc(const u8 *in, u64 n, u64 first, u64 *state, const CrcArgs &args)
{
    __shared__ u32 table[16][256];
    hr_is_shared((void *)&table);
    __shared__ u32 slot[HR_BLOCK];
    hr_is_shared((void *)&slot);
    __shared__ u32 power_slot[32];
    hr_is_shared((void *)&power_slot);
    const u64 n_rows = (n + ROW - 1) / ROW;
    const u64 per_block = (n_rows + hr_n_blocks() - 1) / hr_n_blocks();
    const u64 begin = hr_block() * per_block;
    const u64 end = begin + per_block < n_rows ? begin + per_block : n_rows;
    add_n_units(state, n);
    if (begin >= end)
        return; /* the whole block */
    make_tables(table, args);
    hr_barrier();
    u32 crc = 0;
    HR_NO_UNROLL
    for (u64 row = begin; row < end; row++) {
        const u64 at = row * ROW + 16 * hr_thread();
        Chunk<16> chunk;
        chunk.clear();
        if (at + 16 <= n)
            load_words(chunk, in, at / 16);
        else
            load_part(in, at, n, chunk.w);
        crc = next_row(table, crc, chunk);
    }
    const u64 order = 0xffffffffull;
    const u32 position = (u32)((first % order + end * ROW) % order);
    const u32 power = inverse_power(power_slot, args, position);
    crc = combined(slot, args, crc);
    if (hr_thread() == 0)
        atomic_xor((u32 *)(state + STATE_VALUE), times(crc, power));
}
