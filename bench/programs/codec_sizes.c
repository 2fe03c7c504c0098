// SPDX-License-Identifier: Apache-2.0
/* What a context of libzstd holds after one frame: prints the bytes of one that encoded a frame of
 * 1 MiB at level 3, and of one that decoded FILE's first frame as a stream.
 * Usage: codec_sizes FILE */
#include <stdio.h>
#include <stdlib.h>
#include <zstd.h>

enum { FRAME_SIZE = 1 << 20 };

static size_t encoder_size(void)
{
    size_t room = ZSTD_compressBound(FRAME_SIZE);
    ZSTD_CCtx *context = ZSTD_createCCtx();
    void *plain = calloc(1, FRAME_SIZE);
    void *packed = malloc(room);
    size_t size = 0;
    if (context != NULL && plain != NULL && packed != NULL &&
        !ZSTD_isError(ZSTD_compressCCtx(context, packed, room, plain, FRAME_SIZE, 3)))
        size = ZSTD_sizeof_CCtx(context);
    ZSTD_freeCCtx(context);
    free(plain);
    free(packed);
    return size;
}

/* pzstd's files begin with a skippable frame, so the first call may not reach a real one. */
static size_t decoder_size(FILE *file)
{
    static char in_block[1 << 17];
    static char out_block[1 << 17];
    ZSTD_DCtx *context = ZSTD_createDCtx();
    ZSTD_inBuffer in = {.src = in_block, .size = fread(in_block, 1, sizeof in_block, file)};
    ZSTD_outBuffer out = {.dst = out_block, .size = sizeof out_block};
    size_t left = 0;
    while (out.pos == 0 && in.pos < in.size && !ZSTD_isError(left))
        left = ZSTD_decompressStream(context, &out, &in);
    size_t size = ZSTD_isError(left) ? 0 : ZSTD_sizeof_DCtx(context);
    ZSTD_freeDCtx(context);
    return size;
}

int main(int argc, char **argv)
{
    FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
    if (file == NULL)
        return 2;
    size_t encoder = encoder_size();
    size_t decoder = decoder_size(file);
    printf("%zu %zu\n", encoder, decoder);
    fclose(file);
    return encoder == 0 || decoder == 0;
}
