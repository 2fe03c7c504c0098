// SPDX-License-Identifier: Apache-2.0
/* Built-in kernels through pipelines against plain C over the whole stream: the same bytes and
 * results whatever the chunk size, depth, streams, sources and the kernels around. */
#include <criterion/criterion.h>
#include <headrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if HR_HAVE_ZSTD
#include <zstd.h>
#endif

#include "chains.h"
#include "engines.h"
#include "kernel_models.h"

static hr_loop *loops[2];
static unsigned n_loops;

static void make_loops(void)
{
    n_loops = test_loops(loops);
}

static void free_loops(void)
{
    for (unsigned i = 0; i < n_loops; i++)
        hr_loop_free(loops[i]);
}

TestSuite(kernel_chain, .init = make_loops, .fini = free_loops, .timeout = 120);

/* ---- what the whole stream should become ---- */

struct expected {
    unsigned char *bytes;
    size_t size;
    struct model_result results[CHAIN_KERNELS];
};

/* Units that are unfinished at the end are left out. */
static struct expected expect(const struct chain *chain, const unsigned char *data, size_t size)
{
    struct expected e = {.bytes = malloc(size + 1), .size = size};
    if (size)
        memcpy(e.bytes, data, size);
    for (uint32_t i = 0; i < chain->config.n_kernels; i++) {
        const struct model *model = model_of(chain->kernels[i].text);
        const size_t n = e.size / model->unit;
        if (!model->map) {
            model->reduce(e.bytes, n, &e.results[i]);
            continue;
        }
        unsigned char *next = malloc(n * model->most + 1);
        e.size = model->map(e.bytes, n, next);
        free(e.bytes);
        e.bytes = next;
    }
    return e;
}

static void assert_bytes(const struct chain *chain, const struct expected *e, const char *what)
{
    cr_assert(!chain->out_of_order, "%s", what);
    cr_assert_eq(chain->n_out, e->size, "%s: %zu bytes, not %zu", what, chain->n_out, e->size);
    for (size_t i = 0; i < e->size; i++)
        cr_assert_eq(chain->out[i], e->bytes[i], "%s: byte %zu differs", what, i);
}

static void assert_results(struct chain *chain, const struct expected *e, const char *what)
{
    for (uint32_t i = 0; i < chain->config.n_kernels; i++) {
        struct hr_result result = {.struct_size = sizeof result};
        const struct model_result *r = &e->results[i];
        const hr_status status = hr_pipeline_result(chain->pipeline, i, &result, NULL);
        if (model_of(chain->kernels[i].text)->map) {
            cr_assert_eq(status, HR_EINVAL, "%s: kernel %u has a result", what, i);
            continue;
        }
        cr_assert_eq(status, HR_OK, "%s: kernel %u", what, i);
        cr_assert_eq(result.n_units, r->n_units, "%s: kernel %u: %zu units, not %zu", what, i,
                     (size_t)result.n_units, (size_t)r->n_units);
        cr_assert_eq(result.n_values, r->n_values, "%s: kernel %u", what, i);
        cr_assert(!r->n_values || memcmp(result.data, r->data, r->size) == 0,
                  "%s: kernel %u found something else", what, i);
    }
}

static const char *describe(const struct chain *chain, size_t size)
{
    static char what[512];
    int n =
        snprintf(what, sizeof what, "%zu bytes, chunks of %zu, depth %u, %u streams:", size,
                 (size_t)chain->config.chunk_size, chain->config.depth, chain->config.n_streams);
    for (uint32_t i = 0; i < chain->config.n_kernels; i++)
        n += snprintf(what + n, sizeof what - (size_t)n, " %s", chain->kernels[i].text);
    return what;
}

/* Runs the chain, whose sources together hold the data, and compares everything. */
static void assert_chain(struct chain *chain, hr_loop *loop, const unsigned char *data, size_t size)
{
    const char *what = describe(chain, size);
    struct expected e = expect(chain, data, size);
    const hr_status status = chain_run(chain, loop);
    cr_assert_eq(status, HR_OK, "%s: %s", what, chain->error.text);
    assert_bytes(chain, &e, what);
    assert_results(chain, &e, what);
    free(e.bytes);
    chain_reset(chain);
}

/* ---- each kernel ---- */

struct way {
    uint64_t chunk_size;
    uint32_t depth;
    uint32_t n_streams;
    size_t n_units; /* of 12 bytes, about */
};

static const struct way ways[] = {{1, 3, 2, 30},       {7, 2, 1, 50},        {13, 8, 8, 60},
                                  {100, 1, 1, 900},    {1000, 4, 3, 900},    {4096, 3, 2, 3000},
                                  {4097, 16, 8, 3000}, {5003, 5, 4, 3000},   {0, 0, 0, 3000},
                                  {65536, 2, 2, 900},  {12289, 64, 64, 5000}};
enum { N_WAYS = sizeof ways / sizeof ways[0] };

static void set_way(struct chain *chain, const struct way *way)
{
    chain->config.chunk_size = way->chunk_size;
    chain->config.depth = way->depth;
    chain->config.n_streams = way->n_streams;
}

static void run_all_ways(const struct model *model)
{
    for (unsigned i = 0; i < N_WAYS * n_loops; i++) {
        const struct way *way = &ways[i / n_loops];
        const size_t n = 1 + way->n_units * 12 / model->unit;
        unsigned char *data = test_bytes(n * model->unit);
        struct chain chain;
        chain_init(&chain);
        chain_add(&chain, model->text);
        chain_read_memory(&chain, data, n * model->unit);
        set_way(&chain, way);
        assert_chain(&chain, loops[i % n_loops], data, n * model->unit);
        free(data);
    }
}

Test(kernel_chain, every_built_in_kernel_is_what_plain_c_says)
{
    for (size_t i = 0; i < n_kernel_models; i++)
        run_all_ways(&kernel_models[i]);
}

Test(kernel_chain, no_bytes_go_through_every_kernel)
{
    for (size_t i = 0; i < n_kernel_models * n_loops; i++) {
        struct chain chain;
        int fd;
        struct feeder *feeder = feeder_start("", 0, 1, &fd);
        chain_init(&chain);
        chain_add(&chain, kernel_models[i / n_loops].text);
        chain_read_memory(&chain, "", 0);
        chain_read_fd(&chain, fd);
        assert_chain(&chain, loops[i % n_loops], NULL, 0);
        feeder_join(feeder);
    }
}

/* ---- chains ---- */

static const char *const six[] = {"cast:i16,i32",     "sum:i32",   "filter:i32,gt,1000",
                                  "scale:i32,3,-1.5", "histogram", "crc32"};

/* The n-th order of them. */
static void add_in_order(struct chain *chain, unsigned n)
{
    const char *left[6];
    memcpy(left, six, sizeof six);
    for (unsigned i = 6; i > 0; n /= i, i--) {
        const unsigned which = n % i;
        chain_add(chain, left[which]);
        left[which] = left[i - 1];
    }
}

Test(kernel_chain, six_kernels_in_every_order)
{
    enum { N_ORDERS = 720, SIZE = 6000 };
    unsigned char *data = test_bytes(SIZE);
    for (unsigned n = 0; n < N_ORDERS; n++) {
        struct chain chain;
        chain_init(&chain);
        add_in_order(&chain, n);
        chain_read_memory(&chain, data, SIZE);
        chain.config.chunk_size = 100 + n * 7 % 1999;
        chain.config.depth = 1 + n % 7;
        chain.config.n_streams = 1 + n % 3;
        assert_chain(&chain, loops[n % n_loops], data, SIZE);
    }
    free(data);
}

/* Bytes of which filter:u8,lt,77 keeps n_kept; they are not spread evenly. */
static unsigned char *bytes_to_keep(size_t size, size_t n_kept)
{
    unsigned char *data = test_bytes(size);
    size_t n = 0;
    for (size_t i = 0; i < size; i++)
        n += data[i] < 77;
    for (size_t i = 0; i < size && n != n_kept; i++) {
        const bool kept = data[i] < 77;
        if (kept == (n > n_kept)) {
            data[i] = kept ? 200 : 7;
            n = kept ? n - 1 : n + 1;
        }
    }
    cr_assert_eq(n, n_kept);
    return data;
}

static void run_behind_filter(const char *const texts[], size_t size, size_t n_kept)
{
    unsigned char *data = bytes_to_keep(size, n_kept);
    for (unsigned i = 0; i < N_WAYS * n_loops; i++) {
        struct chain chain;
        chain_init(&chain);
        for (unsigned k = 0; texts[k]; k++)
            chain_add(&chain, texts[k]);
        chain_read_memory(&chain, data, size);
        set_way(&chain, &ways[i / n_loops]);
        assert_chain(&chain, loops[i % n_loops], data, size);
    }
    free(data);
}

/* The larger units are joined from what many chunks keep, some of which keep nothing. */
Test(kernel_chain, units_are_carried_behind_a_filter)
{
    static const char *const large[] = {"crc32",          "filter:u8,lt,77", "crc32",
                                        "shuffle:2,1000", "crc32",           NULL};
    static const char *const twice[] = {
        "filter:u8,lt,77", "shuffle:4,12", "sum:i32",     "filter:i32,gt,1000",
        "bswap:4",         "min:i32",      "cast:i32,u8", NULL};
    static const char *const growing[] = {
        "filter:u8,lt,77", "cast:u8,f32", "filter:u8,ge,0", "shuffle:4,12", "mean:i16",
        "crc32",           NULL};
    run_behind_filter(large, 2000, 0);
    run_behind_filter(large, 3000, 1000);
    run_behind_filter(large, 9001, 3000);
    run_behind_filter(twice, 4999, 12 * 100);
    run_behind_filter(growing, 3001, 3 * 300);
}

Test(kernel_chain, filters_that_keep_nothing_or_everything)
{
    static const char *const nothing[] = {"filter:u8,lt,0", "crc32",        "shuffle:2,1000",
                                          "min:i32",        "cast:i16,i32", NULL};
    static const char *const everything[] = {"crc32",    "filter:u8,ge,0", "crc32", "shuffle:4,12",
                                             "mean:i16", "filter:u8,ge,0", "crc32", NULL};
    run_behind_filter(nothing, 2003, 11);
    run_behind_filter(everything, 12 * 211, 500);
}

/* ---- joint units ---- */

/* The stream is dealt out to a file, memory (twice, one byte), nothing, and a pipe. */
static void run_over_sources(const char *const texts[], size_t piece, const struct way *way,
                             hr_loop *loop)
{
    enum { FILE_BYTES = 5003, MEMORY_BYTES = 2017, PIPE_BYTES = 977, ONE = 1 };
    enum { SIZE = FILE_BYTES + MEMORY_BYTES + ONE + PIPE_BYTES + ONE + 1 };
    unsigned char *data = test_bytes(SIZE); /* 8000 */
    char path[] = "/tmp/headrace-chain-XXXXXX";
    const int file = mkstemp(path);
    cr_assert(file >= 0 && write(file, data, FILE_BYTES) == FILE_BYTES && close(file) == 0);
    const unsigned char *rest = data + FILE_BYTES;
    int fd;
    struct feeder *feeder = feeder_start(rest + MEMORY_BYTES + ONE, PIPE_BYTES, piece, &fd);
    struct chain chain;
    chain_init(&chain);
    for (unsigned k = 0; texts[k]; k++)
        chain_add(&chain, texts[k]);
    chain_read_file(&chain, path);
    chain_read_memory(&chain, rest, MEMORY_BYTES);
    chain_read_memory(&chain, rest, 0);
    chain_read_memory(&chain, rest + MEMORY_BYTES, ONE);
    chain_read_fd(&chain, fd);
    chain_read_memory(&chain, data + SIZE - 2, 2);
    set_way(&chain, way);
    assert_chain(&chain, loop, data, SIZE);
    feeder_join(feeder);
    unlink(path);
    free(data);
}

Test(kernel_chain, units_lie_across_sources_and_what_a_pipe_gives_at_once)
{
    static const char *const shuffled[] = {"crc32", "bswap:8", "shuffle:2,1000", "crc32", NULL};
    static const char *const small[] = {"cast:i64,f64", "histogram", "bswap:8", NULL};
    static const size_t pieces[] = {1, 7, 4097};
    for (unsigned i = 0; i < 3 * N_WAYS * n_loops; i++) {
        const struct way *way = &ways[i / n_loops / 3];
        run_over_sources(shuffled, pieces[i / n_loops % 3], way, loops[i % n_loops]);
        run_over_sources(small, pieces[i / n_loops % 3], way, loops[i % n_loops]);
    }
}

Test(kernel_chain, twelve_bytes_a_unit_from_a_pipe)
{
    static const size_t pieces[] = {1, 7, 4097};
    for (unsigned i = 0; i < 3 * N_WAYS * n_loops; i++) {
        const size_t piece = pieces[i / n_loops % 3];
        const size_t size = piece == 1 ? 1200 : 12000;
        unsigned char *data = test_bytes(size);
        struct chain chain;
        int fd;
        struct feeder *feeder = feeder_start(data, size, piece, &fd);
        chain_init(&chain);
        chain_add(&chain, "unshuffle:4,12");
        chain_add(&chain, "crc32");
        chain_read_fd(&chain, fd);
        set_way(&chain, &ways[i / n_loops / 3]);
        assert_chain(&chain, loops[i % n_loops], data, size);
        feeder_join(feeder);
        free(data);
    }
}

/* Many odd pieces of memory: nearly every unit is joint, and there is hardly more memory than the
 * little that a pipeline is promised. */
static void run_in_little_memory(uint32_t depth, uint32_t decode, uint64_t n_pages)
{
    enum { PAGE = 4096, PIECE = 119, SIZE = 12 * 10 * CHAIN_SOURCES };
    const struct hr_context_config small = {
        .struct_size = sizeof small, .n_threads = 2, .max_memory = n_pages * PAGE};
    hr_context *context = NULL;
    hr_loop *loop = NULL;
    struct chain chain;
    unsigned char *data = test_bytes(SIZE);
    cr_assert_eq(hr_context_create(&small, &context, NULL), HR_OK);
    cr_assert_eq(hr_loop_create(context, NULL, &loop, NULL), HR_OK);
    chain_init(&chain);
    chain_add(&chain, "shuffle:4,12");
    for (size_t at = 0, i = 1; i <= CHAIN_SOURCES; i++, at += PIECE)
        chain_read_memory(&chain, data + at, i < CHAIN_SOURCES ? PIECE : SIZE - at);
    chain.config.depth = depth;
    chain.config.chunk_size = 240;
    chain.config.decode = decode;
    assert_chain(&chain, loop, data, SIZE);
    hr_loop_free(loop);
    hr_context_free(context);
    free(data);
}

Test(kernel_chain, units_across_many_pieces_of_memory_in_little_memory)
{
    for (uint32_t depth = 1; depth < 12; depth++)
        run_in_little_memory(depth, HR_CODEC_NONE, 4);
}

#if HR_HAVE_ZSTD
Test(kernel_chain, units_across_many_pieces_of_plain_memory_in_little_memory)
{
    for (uint32_t depth = 1; depth < 12; depth++)
        run_in_little_memory(depth, HR_CODEC_AUTO, 20);
}

/* Frames of so many bytes of the data, one after the other. The caller frees them. */
static unsigned char *frames_of(const unsigned char *data, const size_t sizes[], size_t n,
                                size_t *packed)
{
    size_t cap = 0;
    for (size_t i = 0; i < n; i++)
        cap += ZSTD_compressBound(sizes[i]);
    unsigned char *out = malloc(cap);
    *packed = 0;
    for (size_t i = 0; i < n; data += sizes[i], i++) {
        *packed += ZSTD_compress(out + *packed, cap - *packed, data, sizes[i], 1);
        cr_assert_leq(*packed, cap);
    }
    return out;
}

Test(kernel_chain, units_lie_across_frames)
{
    static const size_t primes[] = {997, 13, 2, 1, 0, 4999, 65537, 3, 101, 7919, 5, 31};
    enum { N_PRIMES = sizeof primes / sizeof primes[0] };
    static const char *const texts[] = {"crc32", "shuffle:4,12", "unshuffle:4,12", "crc32"};
    size_t size = 0;
    for (size_t i = 0; i < N_PRIMES; i++)
        size += primes[i];
    size_t sizes[N_PRIMES + 1];
    memcpy(sizes, primes, sizeof primes);
    sizes[N_PRIMES] = 12 - size % 12;
    size += sizes[N_PRIMES];
    unsigned char *data = test_bytes(size);
    size_t packed_size;
    unsigned char *packed = frames_of(data, sizes, N_PRIMES + 1, &packed_size);
    for (unsigned i = 3 * n_loops; i < N_WAYS * n_loops; i++) {
        struct chain chain;
        chain_init(&chain);
        for (unsigned k = 0; k < 4; k++)
            chain_add(&chain, texts[k]);
        chain_read_memory(&chain, packed, packed_size);
        chain.config.decode = HR_CODEC_ZSTD;
        set_way(&chain, &ways[i / n_loops]);
        assert_chain(&chain, loops[i % n_loops], data, size);
    }
    free(packed);
    free(data);
}
#endif

/* ---- what is unfinished at the end ---- */

/* All whole units are delivered; then the error. */
static void assert_truncated(const char *const texts[], const unsigned char *data, size_t size,
                             const struct way *way, hr_loop *loop)
{
    struct chain chain;
    chain_init(&chain);
    for (unsigned k = 0; texts[k]; k++)
        chain_add(&chain, texts[k]);
    chain_read_memory(&chain, data, size);
    set_way(&chain, way);
    const char *what = describe(&chain, size);
    struct expected e = expect(&chain, data, size);
    cr_assert_eq(chain_run(&chain, loop), HR_ETRUNCATED, "%s", what);
    cr_assert_eq(chain.error.stage, HR_STAGE_KERNEL, "%s: stage %d", what, chain.error.stage);
    cr_assert(strstr(chain.error.text, "unit"), "%s: %s", what, chain.error.text);
    assert_bytes(&chain, &e, what);
    struct hr_result result = {.struct_size = sizeof result};
    hr_error error = {0};
    cr_assert_eq(hr_pipeline_result(chain.pipeline, 0, &result, &error), HR_ETRUNCATED);
    cr_assert_str_eq(error.text, chain.error.text);
    free(e.bytes);
    chain_reset(&chain);
}

Test(kernel_chain, an_unfinished_unit_is_an_error_behind_all_whole_ones)
{
    static const char *const first[] = {"crc32", "shuffle:4,12", NULL};
    static const char *const behind[] = {"crc32", "filter:u8,lt,77", "shuffle:4,12", NULL};
    static const char *const last[] = {
        "crc32",          "filter:u8,lt,77", "cast:u8,f32", "filter:u8,ge,0",
        "shuffle:2,1000", "crc32",           NULL};
    for (unsigned i = 0; i < N_WAYS * n_loops; i++) {
        const struct way *way = &ways[i / n_loops];
        hr_loop *loop = loops[i % n_loops];
        unsigned char *data = bytes_to_keep(1201, 301);
        assert_truncated(first, data, 1, way, loop);
        assert_truncated(first, data, 1201, way, loop);
        assert_truncated(behind, data, 1201, way, loop);
        assert_truncated(last, data, 1201, way, loop);
        free(data);
    }
}
