// SPDX-License-Identifier: Apache-2.0
/* ---- element by element ---- */

/* Each thread takes as many elements as fill 16 bytes on the wider side, so that on both sides
 * neighbours access neighbouring memory. */
template <class Op> HR_FN void map(const void *in, void *out, u64 n, Op op)
{
    typedef typename Op::In In;
    typedef typename Op::Out Out;
    const int WIDER = sizeof(In) > sizeof(Out) ? (int)sizeof(In) : (int)sizeof(Out);
    const int N = 16 / WIDER;
    const int BATCH = 2;
    const u64 n_chunks = n / N;
    const u64 stride = n_threads();
    const u64 rest = n_chunks * N + first_index();
    HR_NO_UNROLL
    for (u64 at = first_index(); at < n_chunks; at += BATCH * stride) {
        Chunk<N *(int)sizeof(In)> from[BATCH];
        HR_UNROLL
        for (int b = 0; b < BATCH; b++)
            if (at + (u64)b * stride < n_chunks)
                load_words(from[b], in, at + (u64)b * stride);
        HR_UNROLL
        for (int b = 0; b < BATCH; b++) {
            Chunk<N *(int)sizeof(Out)> to;
            if (at + (u64)b * stride >= n_chunks)
                break;
            to.clear();
            HR_UNROLL
            for (int i = 0; i < N; i++) {
                In raw;
                from[b].get(i, raw);
                to.put(i, op(raw));
            }
            store_words(to, out, at + (u64)b * stride);
        }
    }
    if (rest < n)
        ((Out *)out)[rest] = op(((const In *)in)[rest]);
}

template <class From, class To> struct Cast {
    typedef typename From::Raw In;
    typedef typename To::Raw Out;
    HR_MEMBER Out operator()(In raw) const
    {
        return To::of(From::load(raw));
    }
};

template <class Raw> struct Copy {
    typedef Raw In;
    typedef Raw Out;
    HR_MEMBER Raw operator()(Raw raw) const
    {
        return raw;
    }
};

template <class T> struct Scale {
    typedef typename T::Raw In;
    typedef typename T::Raw Out;
    typedef typename T::Scaled Number;
    Number mul;
    Number add;
    HR_MEMBER Out operator()(In raw) const
    {
        const Number product = (Number)T::load(raw) * mul;
        return T::of(product + add);
    }
};

template <class T> HR_FN Scale<T> scale_of(const Args &args)
{
    Scale<T> op;
    op.mul = (typename T::Scaled)args.mul;
    op.add = (typename T::Scaled)args.add;
    return op;
}

HR_FN u16 swapped(u16 v)
{
    return (u16)(v << 8 | v >> 8);
}
HR_FN u32 swapped(u32 v)
{
    return v << 24 | (v << 8 & 0xff0000u) | (v >> 8 & 0xff00u) | v >> 24;
}
HR_FN u64 swapped(u64 v)
{
    return (u64)swapped((u32)v) << 32 | swapped((u32)(v >> 32));
}

template <class Raw> struct Swap {
    typedef Raw In;
    typedef Raw Out;
    HR_MEMBER Raw operator()(Raw raw) const
    {
        return swapped(raw);
    }
};

/* ---- shuffle and unshuffle ---- */

/* Four rows of WIDTH bytes in rows[], WIDTH planes of four bytes in planes[]. */
template <int WIDTH> HR_FN void rows_to_planes(const u32 *rows, u32 *planes)
{
    HR_UNROLL
    for (int j = 0; j < WIDTH; j++) {
        u32 plane = 0;
        HR_UNROLL
        for (int i = 0; i < 4; i++)
            plane |= (rows[(i * WIDTH + j) / 4] >> (8 * ((i * WIDTH + j) % 4)) & 0xffu) << (8 * i);
        planes[j] = plane;
    }
}

template <int WIDTH> HR_FN void planes_to_rows(const u32 *planes, u32 *rows)
{
    HR_UNROLL
    for (int k = 0; k < WIDTH; k++) {
        u32 row = 0;
        HR_UNROLL
        for (int b = 0; b < 4; b++)
            row |= (planes[(4 * k + b) % WIDTH] >> (8 * ((4 * k + b) / WIDTH)) & 0xffu) << (8 * b);
        rows[k] = row;
    }
}

/* Blocks of a multiple of 4 * WIDTH bytes: each thread turns four elements at a time. */
template <int WIDTH, bool BACK>
HR_FN void shuffle_fours(const u8 *in, u8 *out, u64 n_units, u32 block_bytes)
{
    const u32 fours = block_bytes / (4 * WIDTH);
    const u64 n = n_units * fours;
    const int SIDE = 4 * WIDTH > 16 ? 16 : 4 * WIDTH;
    HR_NO_UNROLL
    for (u64 at = first_index(); at < n; at += n_threads()) {
        const u64 block = at / fours;
        const u64 planes_at = block * (block_bytes / 4) + (at - block * fours);
        u32 rows[WIDTH];
        u32 planes[WIDTH];
        Chunk<SIDE> side;
        HR_UNROLL
        for (int j = 0; j < WIDTH; j++) {
            if (BACK)
                planes[j] = ((const u32 *)in)[planes_at + (u64)j * fours];
            else if (j % (SIDE / 4) == 0)
                load_words(side, in, at * (4 * WIDTH / SIDE) + (u64)(j / (SIDE / 4)));
            if (!BACK)
                rows[j] = side.w[j % (SIDE / 4)];
        }
        if (BACK)
            planes_to_rows<WIDTH>(planes, rows);
        else
            rows_to_planes<WIDTH>(rows, planes);
        HR_UNROLL
        for (int j = 0; j < WIDTH; j++) {
            side.w[j % (SIDE / 4)] = rows[j];
            if (!BACK)
                ((u32 *)out)[planes_at + (u64)j * fours] = planes[j];
            else if (j % (SIDE / 4) == SIDE / 4 - 1)
                store_words(side, out, at * (4 * WIDTH / SIDE) + (u64)(j / (SIDE / 4)));
        }
    }
}

/* Any width and block: by bytes in the order of the planes. */
template <bool BACK>
HR_FN void shuffle_bytes(const u8 *in, u8 *out, u64 n_units, u32 width, u32 block_bytes)
{
    const u32 n = block_bytes / width;
    const u64 n_bytes = n_units * block_bytes;
    HR_NO_UNROLL
    for (u64 at = first_index(); at < n_bytes; at += n_threads()) {
        const u64 base = at / block_bytes * block_bytes;
        const u32 in_block = (u32)(at - base);
        const u32 plane = in_block / n;
        const u64 row_at = base + (u64)(in_block - plane * n) * width + plane;
        if (BACK)
            out[row_at] = in[at];
        else
            out[at] = in[row_at];
    }
}

template <bool BACK> HR_FN void shuffle(const void *in, void *out, u64 n_units, const Args &args)
{
    const u8 *from = (const u8 *)in;
    u8 *to = (u8 *)out;
    const bool is_fours = args.block_bytes % (4 * args.width) == 0;
    if (is_fours && args.width == 2)
        shuffle_fours<2, BACK>(from, to, n_units, args.block_bytes);
    else if (is_fours && args.width == 4)
        shuffle_fours<4, BACK>(from, to, n_units, args.block_bytes);
    else if (is_fours && args.width == 8)
        shuffle_fours<8, BACK>(from, to, n_units, args.block_bytes);
    else
        shuffle_bytes<BACK>(from, to, n_units, args.width, args.block_bytes);
}
