// SPDX-License-Identifier: Apache-2.0
/* Files past the page cache and through it: odd ranges, chunks and units, files that refuse, shrink
 * or are larger than 4 GiB, and where a descriptor stands afterwards; on both I/O engines. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <headrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engines.h"
#include "folder_suite.h"
#include "peers.h"

enum { SIZE = 3 * 262144 + 777 };

static unsigned char pattern[SIZE];
static unsigned char got[SIZE];
static hr_loop *loops[2];
static unsigned n_loops;

static void write_input(void)
{
    FILE *file = fopen(path_of("in"), "wb");
    cr_assert(file && fwrite(pattern, 1, SIZE, file) == SIZE && fclose(file) == 0);
}

static void set_up(void)
{
    make_directory();
    fill_pattern(pattern, SIZE);
    write_input();
    n_loops = test_loops(loops);
}

static void tear_down(void)
{
    for (unsigned i = 0; i < n_loops; i++)
        hr_loop_free(loops[i]);
    remove_directory();
}

TestSuite(direct, .init = set_up, .fini = tear_down, .timeout = 60);

static struct hr_source file_source(uint64_t offset, uint64_t length)
{
    return (struct hr_source){.struct_size = sizeof(struct hr_source),
                              .kind = HR_FILE,
                              .path = path_of("in"),
                              .flags = HR_RANGE,
                              .offset = offset,
                              .length = length};
}

static struct hr_sink file_sink(void)
{
    return (struct hr_sink){
        .struct_size = sizeof(struct hr_sink), .kind = HR_FILE, .path = path_of("out")};
}

static struct hr_sink memory_sink(void)
{
    memset(got, 0, sizeof got);
    return (struct hr_sink){
        .struct_size = sizeof(struct hr_sink), .kind = HR_MEMORY, .data = got, .size = sizeof got};
}

static struct hr_pipeline_config config_of(const struct hr_source *source, struct hr_sink sink,
                                           enum hr_direct direct)
{
    return (struct hr_pipeline_config){.struct_size = sizeof(struct hr_pipeline_config),
                                       .n_sources = 1,
                                       .sources = source,
                                       .sink = sink,
                                       .chunk_size = 65536,
                                       .depth = 4,
                                       .direct = direct};
}

static struct hr_stats run_well(hr_loop *loop, const struct hr_pipeline_config *config)
{
    struct hr_stats stats = {.struct_size = sizeof stats};
    hr_error error = {0};
    cr_assert_eq(run_config(loop, config, &stats, &error), HR_OK, "%s", error.text);
    return stats;
}

static size_t read_output(void)
{
    FILE *file = fopen(path_of("out"), "rb");
    cr_assert(file);
    const size_t n = fread(got, 1, sizeof got, file);
    fclose(file);
    return n;
}

/* ---- ranges and chunks ---- */

static const struct {
    uint64_t offset, length;
} ranges[] = {{0, SIZE},      {0, 1},          {1, SIZE - 1}, {511, 4096},      {4095, 4098},
              {4096, 131072}, {4097, 200000},  {0, 262144},   {262143, 262146}, {131072, 0},
              {SIZE - 1, 1},  {SIZE - 778, 9}, {12345, 4096}, {100, UINT64_MAX}};
enum { N_RANGES = sizeof ranges / sizeof ranges[0] };

Test(direct, odd_ranges_in_odd_chunks_are_right_in_every_mode)
{
    static const uint64_t chunks[] = {1000, 4095, 4096, 4097, 65536, 65537};
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned i = 0; i < N_RANGES * 6 * 3; i++) {
            const uint64_t offset = ranges[i / 18].offset;
            const uint64_t length =
                ranges[i / 18].length < SIZE - offset ? ranges[i / 18].length : SIZE - offset;
            const struct hr_source source = file_source(offset, ranges[i / 18].length);
            const enum hr_direct mode = (enum hr_direct)(i % 3);
            struct hr_pipeline_config config =
                config_of(&source, i % 2 ? file_sink() : memory_sink(), mode);
            config.chunk_size = chunks[i / 3 % 6];
            const struct hr_stats stats = run_well(loops[l], &config);
            cr_assert_eq(stats.stages[HR_STAGE_READ].bytes_out, length);
            cr_assert_eq(stats.stages[HR_STAGE_WRITE].bytes_out, length);
            cr_assert_leq(stats.direct_bytes, 2 * length);
            if (mode == HR_DIRECT_OFF)
                cr_assert_eq(stats.direct_bytes, 0);
            if (i % 2)
                cr_assert_eq(read_output(), length);
            cr_assert(memcmp(got, pattern + offset, length) == 0,
                      "range %u+%u, chunk %u, direct %u", (unsigned)offset, (unsigned)length,
                      (unsigned)config.chunk_size, mode);
        }
}

/* Whether the file system of the tests takes direct I/O at all. */
static bool is_offered(void)
{
    const int fd = open(path_of("in"), O_RDONLY | O_DIRECT | O_CLOEXEC);
    close(fd);
    return fd >= 0;
}

Test(direct, statistics_count_what_went_past_the_page_cache)
{
    if (!is_offered())
        cr_skip_test("no O_DIRECT here");
    for (unsigned l = 0; l < n_loops; l++) {
        const struct hr_source source = file_source(0, 262144);
        struct hr_pipeline_config config = config_of(&source, memory_sink(), HR_DIRECT_ON);
        cr_assert_eq(run_well(loops[l], &config).direct_bytes, 262144);
        config.sink = file_sink();
        cr_assert_eq(run_well(loops[l], &config).direct_bytes, 2 * 262144);
        config.flags = HR_STRICT;
        cr_assert_eq(run_well(loops[l], &config).direct_bytes, 2 * 262144);
        config.direct = HR_DIRECT_OFF;
        cr_assert_eq(run_well(loops[l], &config).direct_bytes, 0);
    }
}

static int32_t copy_units(void *user, const struct hr_kernel_call *call)
{
    memcpy(call->out, call->in[0], call->n_units * *(const size_t *)user);
    return 0;
}

Test(direct, units_of_12_bytes_from_an_odd_start)
{
    size_t unit = 12;
    const struct hr_kernel kernel = {.struct_size = sizeof kernel,
                                     .kind = HR_KERNEL_FUNCTION,
                                     .unit_in = 12,
                                     .unit_out = 12,
                                     .function = copy_units,
                                     .user = &unit};
    static const uint64_t offsets[] = {0, 1, 4095, 4097};
    static const uint64_t chunks[] = {12, 1000, 4097, 65536};
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned i = 0; i < 16; i++) {
            const uint64_t length = 12 * (i % 4 ? 20000u : 200u);
            const struct hr_source source = file_source(offsets[i / 4], length);
            struct hr_pipeline_config config = config_of(&source, memory_sink(), HR_DIRECT_ON);
            config.kernels = &kernel;
            config.n_kernels = 1;
            config.chunk_size = chunks[i % 4];
            cr_assert_eq(run_well(loops[l], &config).stages[HR_STAGE_WRITE].bytes_out, length);
            cr_assert(memcmp(got, pattern + offsets[i / 4], length) == 0);
        }
}

/* ---- refusals ---- */

Test(direct, what_refuses_is_buffered_or_with_strict_an_error)
{
    char mounted[128];
    snprintf(mounted, sizeof mounted, "%s", path_of("refuses"));
    cr_assert_eq(mkdir(mounted, 0700), 0);
    if (mount("none", mounted, "ramfs", 0, NULL) != 0) { /* it has no direct I/O */
        rmdir(mounted);
        cr_skip_test("ramfs cannot be mounted");
    }
    char path[160];
    snprintf(path, sizeof path, "%s/file", mounted);
    for (unsigned l = 0; l < n_loops; l++) {
        hr_error error = {0};
        const struct hr_source source = file_source(5, 100000);
        struct hr_pipeline_config config = config_of(&source, file_sink(), HR_DIRECT_ON);
        config.sink.path = path;
        run_well(loops[l], &config);
        const struct hr_source back = {.struct_size = sizeof back, .kind = HR_FILE, .path = path};
        config = config_of(&back, memory_sink(), HR_DIRECT_ON);
        cr_assert_eq(run_well(loops[l], &config).direct_bytes, 0);
        cr_assert(memcmp(got, pattern + 5, 100000) == 0);
        config.flags = HR_STRICT;
        cr_assert_eq(run_config(loops[l], &config, NULL, &error), HR_EUNSUPPORTED);
        cr_assert(strstr(error.text, path), "%s", error.text);
        config.sources = &source;
        config.sink.kind = HR_FILE;
        config.sink.path = path;
        cr_assert_eq(run_config(loops[l], &config, NULL, &error), HR_EUNSUPPORTED);
    }
    cr_assert_eq(umount(mounted), 0);
    cr_assert_eq(rmdir(mounted), 0);
}

/* ---- descriptors ---- */

Test(direct, a_descriptor_keeps_its_flags_and_stands_behind_what_was_moved)
{
    const int extra[] = {0, O_DIRECT};
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned i = 0; i < 6; i++) {
            const int in = open(path_of("in"), O_RDONLY | O_CLOEXEC | extra[i % 2]);
            const int out =
                open(path_of("out"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | extra[i % 2], 0600);
            if (in < 0 || out < 0)
                cr_skip_test("no O_DIRECT here");
            const int before[] = {fcntl(in, F_GETFL), fcntl(out, F_GETFL)};
            cr_assert(lseek(in, 4097, SEEK_SET) == 4097 && lseek(out, 100, SEEK_SET) == 100);
            struct hr_source source = file_source(3, 200000);
            source.kind = HR_FD;
            source.fd = in;
            struct hr_sink sink = file_sink();
            sink.kind = HR_FD;
            sink.fd = out;
            const struct hr_pipeline_config config =
                config_of(&source, sink, (enum hr_direct)(i / 2));
            run_well(loops[l], &config);
            cr_assert_eq(fcntl(in, F_GETFL), before[0]);
            cr_assert_eq(fcntl(out, F_GETFL), before[1]);
            cr_assert_eq(lseek(in, 0, SEEK_CUR), 4097 + 3 + 200000);
            cr_assert_eq(lseek(out, 0, SEEK_CUR), 100 + 200000);
            close(in);
            close(out);
            cr_assert_eq(read_output(), 100 + 200000);
            cr_assert(memcmp(got + 100, pattern + 4100, 200000) == 0);
            unlink(path_of("out"));
        }
}

struct stopper {
    uint64_t at;
    int truncates; /* a descriptor that becomes shorter then; -1: the sink fails */
    uint64_t to;
    uint64_t n_bytes;
};

static int64_t stop_there(void *user, const void *bytes, size_t size, uint64_t offset)
{
    struct stopper *s = user;
    if (memcmp(bytes, pattern + offset, size) != 0)
        return -EPROTO;
    s->n_bytes = offset + size;
    if (offset + size < s->at)
        return (int64_t)size;
    if (s->truncates < 0)
        return -EIO;
    return ftruncate(s->truncates, (off_t)s->to) == 0 ? (int64_t)size : -EPROTO;
}

static struct hr_sink stopper_sink(struct stopper *stopper)
{
    return (struct hr_sink){.struct_size = sizeof(struct hr_sink),
                            .kind = HR_CALLBACK,
                            .write = stop_there,
                            .user = stopper};
}

Test(direct, after_a_failure_a_source_stands_within_what_it_has)
{
    for (unsigned l = 0; l < n_loops; l++) {
        const int in = open(path_of("in"), O_RDONLY | O_CLOEXEC);
        struct stopper stopper = {.at = 65536, .truncates = -1};
        hr_error error = {0};
        struct hr_source source = file_source(0, SIZE);
        source.kind = HR_FD;
        source.fd = in;
        const struct hr_pipeline_config config =
            config_of(&source, stopper_sink(&stopper), HR_DIRECT_AUTO);
        cr_assert_eq(run_config(loops[l], &config, NULL, &error), HR_EIO);
        cr_assert_eq(error.stage, HR_STAGE_WRITE);
        const off_t position = lseek(in, 0, SEEK_CUR);
        cr_assert(position >= 65536 && position <= SIZE, "%lld", (long long)position);
        close(in);
    }
}

/* ---- files that change, or are large ---- */

Test(direct, a_file_that_shrinks_is_an_error_at_its_new_end)
{
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned mode = 0; mode < 3; mode++) {
            const int fd = open(path_of("in"), O_RDWR | O_CLOEXEC);
            struct stopper stopper = {.at = 65536, .truncates = fd, .to = 300001};
            hr_error error = {0};
            const struct hr_source source = file_source(0, UINT64_MAX);
            struct hr_pipeline_config config =
                config_of(&source, stopper_sink(&stopper), (enum hr_direct)mode);
            config.depth = 1;
            cr_assert_eq(run_config(loops[l], &config, NULL, &error), HR_ETRUNCATED);
            cr_assert_eq(error.stage, HR_STAGE_READ);
            cr_assert_eq(error.offset, 300001);
            cr_assert_eq(stopper.n_bytes, 300001, "what is there is delivered");
            cr_assert(strstr(error.text, "became shorter"), "%s", error.text);
            close(fd);
            write_input();
        }
}

Test(direct, ranges_of_a_sparse_file_of_6_gib)
{
    static const uint64_t marks[] = {0,           0x7fffffff,        0x7ffff000,
                                     0xffffffffu, (uint64_t)4 << 30, (uint64_t)5 << 30};
    enum { N_MARKS = sizeof marks / sizeof marks[0], AROUND = 100000 };
    const int fd = open(path_of("in"), O_RDWR | O_CLOEXEC | O_TRUNC);
    cr_assert_eq(ftruncate(fd, (off_t)6 << 30), 0);
    for (unsigned i = 0; i < N_MARKS; i++)
        cr_assert_eq(pwrite(fd, pattern + 1 + i, 1, (off_t)marks[i]), 1);
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned i = 0; i < 3 * N_MARKS; i++) {
            const uint64_t mark = marks[i / 3];
            const uint64_t begin = mark > AROUND ? mark - AROUND : 0;
            const struct hr_source source = file_source(begin, 2 * AROUND);
            struct hr_pipeline_config config =
                config_of(&source, memory_sink(), (enum hr_direct)(i % 3));
            run_well(loops[l], &config);
            cr_assert_eq(got[mark - begin], pattern[1 + i / 3]);
            config.sink = (struct hr_sink){.struct_size = sizeof config.sink, .kind = HR_NULL};
            const struct hr_stats stats = run_well(loops[l], &config);
            cr_assert_eq(stats.stages[HR_STAGE_READ].bytes_in, 2 * AROUND);
            cr_assert_eq(stats.total_bytes_in, 2 * AROUND);
        }
    close(fd);
}

/* ---- block devices ---- */

/* A loop device over the input, with blocks of 4096 bytes; false: there is none to be had. */
static bool attach(char *device, int size)
{
    char command[256];
    snprintf(command, sizeof command, "losetup --find --show -b 4096 %s 2>/dev/null",
             path_of("in"));
    FILE *said = popen(command, "r");
    const bool named = said && fgets(device, size, said);
    if (said)
        pclose(said);
    device[strcspn(device, "\n")] = '\0';
    return named;
}

static void detach(const char *device)
{
    char command[256];
    snprintf(command, sizeof command, "losetup -d %s", device);
    cr_assert_eq(system(command), 0);
}

static void write_device(hr_loop *loop, const char *device, const void *bytes, uint64_t size,
                         enum hr_direct mode)
{
    const struct hr_source source = {
        .struct_size = sizeof source, .kind = HR_MEMORY, .data = bytes, .size = size};
    struct hr_pipeline_config config = config_of(&source, file_sink(), mode);
    config.sink.path = device;
    config.sink.flags = HR_FSYNC;
    run_well(loop, &config);
    struct stat st;
    cr_assert(stat(device, &st) == 0 && S_ISBLK(st.st_mode));
}

static void assert_device_holds(hr_loop *loop, const char *device, uint64_t offset, uint64_t size,
                                const void *bytes, enum hr_direct mode)
{
    struct hr_source source = file_source(offset, size);
    source.path = device;
    const struct hr_pipeline_config config = config_of(&source, memory_sink(), mode);
    cr_assert_eq(run_well(loop, &config).stages[HR_STAGE_WRITE].bytes_out, size);
    cr_assert(memcmp(got, bytes, size) == 0);
}

Test(direct, a_block_device_is_read_and_written_in_place)
{
    enum { WHOLE = SIZE / 4096 * 4096, SHIFT = 7 };
    char device[64] = "";
    cr_assert_eq(truncate(path_of("in"), WHOLE), 0);
    if (!attach(device, sizeof device))
        cr_skip_test("no loop device");
    for (unsigned l = 0; l < n_loops; l++)
        for (unsigned i = 0; i < 3 * N_RANGES; i++) {
            const enum hr_direct mode = (enum hr_direct)(i % 3);
            const uint64_t offset = ranges[i / 3].offset < WHOLE ? ranges[i / 3].offset : WHOLE;
            const uint64_t there = WHOLE - offset;
            const uint64_t size = ranges[i / 3].length < there ? ranges[i / 3].length : there;
            assert_device_holds(loops[l], device, offset, size, pattern + offset, mode);
            write_device(loops[l], device, pattern + SHIFT, size, mode);
            assert_device_holds(loops[l], device, 0, size, pattern + SHIFT, mode);
            assert_device_holds(loops[l], device, size, WHOLE - size, pattern + size, mode);
            write_device(loops[l], device, pattern, size, mode);
        }
    detach(device);
}

/* ---- the loop ---- */

Test(direct, a_loop_tells_which_engine_serves_it)
{
    const char *why = NULL;
    for (unsigned l = 0; l < n_loops; l++) {
        const char *name = hr_loop_io(loops[l], &why);
        cr_assert(strcmp(name, "uring") == 0 || strcmp(name, "threads") == 0);
        cr_assert(why && strcmp(name, hr_loop_io(loops[l], NULL)) == 0);
        if (strcmp(name, "uring") == 0)
            cr_assert_str_empty(why);
    }
}
