// SPDX-License-Identifier: Apache-2.0
/* The input in memory, and in files of a temporary folder. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench_tools.h"

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
        bench_told(error, b->folder ? b->folder : "memory");
        free(b->folder);
        b->folder = NULL;
        return false;
    }
    b->in_path = path_in(b->folder, "in");
    b->packed_path = path_in(b->folder, "packed");
    b->out_path = path_in(b->folder, "out");
    return (b->in_path && b->packed_path && b->out_path) || bench_told(error, b->folder);
}

static bool write_file(const char *path, const unsigned char *data, uint64_t size, char *error)
{
    FILE *file = fopen(path, "wb");
    const bool written = file && fwrite(data, 1, size, file) == size;
    if (file && fclose(file) == 0 && written)
        return true;
    return bench_told(error, path);
}

/* Cases that need packed data tell the reason if this fails; the others go on. */
static bool pack(struct bench *b, char *error)
{
    struct hr_stats stats;
    const struct hr_source source = {
        .struct_size = sizeof source, .kind = HR_MEMORY, .data = b->data, .size = b->packed_of};
    const struct hr_pipeline_config config = {
        .struct_size = sizeof config,
        .n_sources = 1,
        .sources = &source,
        .sink = {.struct_size = sizeof config.sink,
                 .kind = HR_MEMORY,
                 .data = b->room,
                 .size = b->room_size},
        .encode = HR_CODEC_ZSTD,
    };
    if (!bench_transfer(b->pool.loop, &config, &stats, NULL, error))
        return false;
    b->packed_size = stats.stages[HR_STAGE_WRITE].bytes_out;
    b->packed = malloc(b->packed_size);
    if (!b->packed)
        return bench_told(error, "memory for the encoded data");
    memcpy(b->packed, b->room, b->packed_size);
    return true;
}

void bench_make_files(struct bench *b)
{
    pack(b, b->no_packed);
    if (!make_folder(b, b->no_files) || !write_file(b->in_path, b->data, b->size, b->no_files))
        return;
    if (!b->no_packed[0])
        write_file(b->packed_path, b->packed, b->packed_size, b->no_packed);
}

void bench_touch_pages(struct bench *b, uint64_t n)
{
    char error[HR_ERROR_TEXT];
    if (!b->no_files[0])
        write_file(b->out_path, b->data, n, error); /* who measures it will tell */
}

static void drop(char *path)
{
    if (path)
        unlink(path);
    free(path);
}

void bench_drop_files(struct bench *b)
{
    drop(b->in_path);
    drop(b->packed_path);
    drop(b->out_path);
    if (b->folder)
        rmdir(b->folder);
    free(b->folder);
    free(b->packed);
}
