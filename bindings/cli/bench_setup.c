// SPDX-License-Identifier: Apache-2.0
/* The bytes that the cases move, in memory and in files of a temporary folder. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

static bool told(char *error, const char *what)
{
    snprintf(error, HR_ERROR_TEXT, "%s: %s", what, strerror(errno));
    return false;
}

/* A slow wave with noise in the low bits: packs to a good half, as measured values do. */
static void fill(struct bench *b)
{
    uint32_t noise = 2463534242u;
    uint32_t wave = 0;
    for (uint64_t i = 0; i + 4 <= b->size; i += 4) {
        noise ^= noise << 13; /* xorshift32, with the shifts of its author's paper */
        noise ^= noise >> 17;
        noise ^= noise << 5;
        wave += noise & 0xff;
        const uint32_t word = 0x3f800000u | (wave & 0x007ff000u) | (noise >> 20);
        const uint32_t other = __builtin_bswap32(word);
        memcpy(b->data + i, &word, sizeof word);
        memcpy(b->swapped + i, &other, sizeof other);
    }
}

static bool get_memory(struct bench *b, char *error)
{
    b->room_size = b->size + b->size / 8 + (1 << 20); /* packed bytes may be more */
    b->data = malloc(b->size);
    b->swapped = malloc(b->size);
    b->packed = malloc(b->room_size);
    b->room = malloc(b->room_size);
    if (!b->data || !b->swapped || !b->packed || !b->room)
        return told(error, "memory for the data, choose a smaller --size");
    memset(b->room, 1, b->room_size); /* touched, so that no case pays for its pages */
    memset(b->packed, 1, b->room_size);
    fill(b);
    return true;
}

static char *path_in(const char *folder, const char *name)
{
    char *path = NULL;
    return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

static bool make_folder(struct bench *b, char *error)
{
    const char *parent = getenv("TMPDIR");
    b->folder = path_in(parent && *parent ? parent : "/tmp", "headrace-bench-XXXXXX");
    if (!b->folder || !mkdtemp(b->folder)) {
        told(error, b->folder ? b->folder : "memory");
        free(b->folder);
        b->folder = NULL;
        return false;
    }
    b->in_path = path_in(b->folder, "in");
    b->packed_path = path_in(b->folder, "packed");
    b->out_path = path_in(b->folder, "out");
    return (b->in_path && b->packed_path && b->out_path) || told(error, b->folder);
}

static bool write_file(const char *path, const unsigned char *data, uint64_t size, char *error)
{
    FILE *file = fopen(path, "wb");
    const bool written = file && fwrite(data, 1, size, file) == size;
    if (file && fclose(file) == 0 && written)
        return true;
    return told(error, path);
}

/* The stream that the null sink sees is checked against nothing but itself: the same bytes must
 * give the same CRC-32 by every other way. */
static bool get_crc(struct bench *b, unsigned char *data, uint32_t *crc, char *error)
{
    const struct bench_case check = {.name = "check", .from = FROM_MEMORY, .to = TO_NULL};
    struct bench view = *b;
    struct sample sample;
    view.data = data;
    if (!bench_run(&view, &check, 0, &sample, error))
        return false;
    *crc = sample.crc;
    return true;
}

/* Cases that need packed data tell the reason if this fails; the others go on. */
static void pack(struct bench *b)
{
    const struct bench_case encode = {.from = FROM_MEMORY, .to = TO_MEMORY, .encode = true};
    struct sample sample;
    if (!bench_run(b, &encode, 0, &sample, b->packing_failed))
        return;
    b->packed_size = sample.out_bytes;
    memcpy(b->packed, b->room, b->packed_size);
    write_file(b->packed_path, b->packed, b->packed_size, b->packing_failed);
}

bool bench_set_up(struct bench *b, uint64_t size, char *error)
{
    hr_error why = {0};
    const struct hr_context_config config = {.struct_size = sizeof config,
                                             .max_memory = UINT64_MAX};
    *b = (struct bench){.size = size};
    hr_status status = hr_context_create(&config, &b->context, &why);
    if (status == HR_OK)
        status = hr_loop_create(b->context, NULL, &b->loop, &why);
    if (status != HR_OK) {
        snprintf(error, HR_ERROR_TEXT, "%s", why.text);
        return false;
    }
    if (!get_memory(b, error) || !make_folder(b, error) ||
        !write_file(b->in_path, b->data, b->size, error) || !get_crc(b, b->data, &b->crc, error) ||
        !get_crc(b, b->swapped, &b->swapped_crc, error))
        return false;
    pack(b);
    return true;
}

static void drop(char *path)
{
    if (path)
        unlink(path);
    free(path);
}

void bench_tear_down(struct bench *b)
{
    drop(b->in_path);
    drop(b->packed_path);
    drop(b->out_path);
    if (b->folder)
        rmdir(b->folder);
    free(b->folder);
    free(b->data);
    free(b->swapped);
    free(b->packed);
    free(b->room);
    hr_loop_free(b->loop);
    hr_context_free(b->context);
}
