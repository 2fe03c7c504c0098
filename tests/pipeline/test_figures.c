// SPDX-License-Identifier: Apache-2.0
/* What a pipeline tells of its work: statistics, while it runs too, and the timeline. */
#include <criterion/criterion.h>
#include <headrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "chains.h"
#include "engines.h"

static hr_loop *loops[2];
static unsigned n_loops;
static char directory[64];
static char in_path[96];
static char out_path[96];
static char trace_path[96];

enum { CHUNK = 100000, N_CHUNKS = 60, SIZE = CHUNK * N_CHUNKS };

static void make_loops(void)
{
    n_loops = test_loops(loops);
    strcpy(directory, "/tmp/headrace-figures-XXXXXX");
    cr_assert(mkdtemp(directory));
    snprintf(in_path, sizeof in_path, "%s/in", directory);
    snprintf(out_path, sizeof out_path, "%s/out", directory);
    snprintf(trace_path, sizeof trace_path, "%s/a \"trace\".json", directory);
    unsigned char *bytes = test_bytes(SIZE);
    FILE *file = fopen(in_path, "wb");
    cr_assert(file && fwrite(bytes, 1, SIZE, file) == SIZE && fclose(file) == 0);
    free(bytes);
}

static void free_loops(void)
{
    for (unsigned i = 0; i < n_loops; i++)
        hr_loop_free(loops[i]);
    unlink(in_path);
    unlink(out_path);
    unlink(trace_path);
    cr_assert_eq(rmdir(directory), 0, "something was left beside");
}

TestSuite(figures, .init = make_loops, .fini = free_loops, .timeout = 60);

static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Works for a time that the user gives, in nanoseconds of its thread. */
static int32_t work_for(void *user, const struct hr_kernel_call *call)
{
    const uint64_t until = cpu_ns() + *(const uint64_t *)user;
    memcpy(call->out, call->in[0], (size_t)call->n_units);
    while (cpu_ns() < until)
        ;
    return 0;
}

/* From file to file, through a kernel that takes so long for each chunk. */
static void start(struct chain *chain, uint64_t *kernel_ns)
{
    chain_init(chain);
    chain_read_file(chain, in_path);
    chain->config.chunk_size = CHUNK;
    chain->config.depth = 4;
    chain->config.n_streams = 1;
    chain->config.direct = HR_DIRECT_OFF;
    chain->config.sink.kind = HR_FILE;
    chain->config.sink.path = out_path;
    chain_add(chain, "crc32");
    chain_add_kernel(chain, (struct hr_kernel){.kind = HR_KERNEL_FUNCTION,
                                               .function = work_for,
                                               .unit_out = 1,
                                               .user = kernel_ns});
}

static struct hr_stats stats_of(const struct chain *chain)
{
    struct hr_stats stats = {.struct_size = sizeof stats};
    cr_assert_eq(hr_pipeline_stats(chain->pipeline, &stats), HR_OK);
    return stats;
}

static void assert_not_less(uint64_t now, uint64_t before, const char *what, int stage)
{
    cr_assert_geq(now, before, "%s of stage %s went from %zu to %zu", what,
                  hr_stage_name((enum hr_stage)stage), (size_t)before, (size_t)now);
}

static void assert_went_on(const struct hr_stats *now, const struct hr_stats *before)
{
    assert_not_less(now->wall_ns, before->wall_ns, "wall", 0);
    assert_not_less(now->leased_bytes, before->leased_bytes, "leased_bytes", 0);
    for (int i = 1; i < HR_STAGE_COUNT; i++) {
        const struct hr_stage_stats *a = &before->stages[i];
        const struct hr_stage_stats *b = &now->stages[i];
        assert_not_less(b->chunks, a->chunks, "chunks", i);
        assert_not_less(b->bytes_in, a->bytes_in, "bytes_in", i);
        assert_not_less(b->bytes_out, a->bytes_out, "bytes_out", i);
        assert_not_less(b->service_ns, a->service_ns, "service_ns", i);
        assert_not_less(b->starved_ns, a->starved_ns, "starved_ns", i);
        assert_not_less(b->blocked_ns, a->blocked_ns, "blocked_ns", i);
    }
}

/* Each moment of an I/O stage counts once; CPU work may take longer than its CPU time. */
static void assert_adds_up(const struct hr_stats *stats)
{
    const double slack = 0.02 * (double)stats->wall_ns + 2e6;
    const double wall = (double)stats->wall_ns;
    for (int i = HR_STAGE_READ; i < HR_STAGE_COUNT; i++) {
        const struct hr_stage_stats *s = &stats->stages[i];
        const double idle = (double)s->starved_ns + (double)s->blocked_ns;
        const double sum = (double)s->service_ns / (s->capacity ? s->capacity : 1) + idle;
        const char *name = hr_stage_name((enum hr_stage)i);
        if (s->capacity)
            cr_assert_lt(sum, wall + slack, "%s: %.0f ns in %.0f", name, sum, wall);
        if (i == HR_STAGE_READ || i == HR_STAGE_WRITE)
            cr_assert_gt(sum, wall - slack, "%s: %.0f ns in %.0f", name, sum, wall);
    }
    cr_assert_leq(stats->overlap, 1.01, "overlap %f", stats->overlap);
    cr_assert_geq(stats->overlap, 0);
    cr_assert_geq(stats->gain, stats->overlap);
}

Test(figures, statistics_only_grow_and_add_up)
{
    uint64_t kernel_ns = 500000;
    for (unsigned i = 0; i < n_loops; i++) {
        struct chain chain;
        start(&chain, &kernel_ns);
        cr_assert_eq(chain_create(&chain, loops[i]), HR_OK, "%s", chain.error.text);
        struct hr_stats before = stats_of(&chain);
        cr_assert_eq(before.wall_ns, 0);
        cr_assert_eq(before.bottleneck, HR_STAGE_NONE);
        cr_assert_eq(before.total_bytes_in, SIZE);
        unsigned n_looks = 0;
        while (hr_pipeline_state(chain.pipeline, &chain.error) == HR_PENDING) {
            cr_assert_geq(hr_loop_poll(loops[i], 1, NULL), 0);
            const struct hr_stats now = stats_of(&chain);
            assert_went_on(&now, &before);
            before = now;
            n_looks++;
        }
        cr_assert_eq(hr_pipeline_state(chain.pipeline, &chain.error), HR_OK, "%s",
                     chain.error.text);
        cr_assert_gt(n_looks, 5);
        usleep(1000);
        const struct hr_stats end = stats_of(&chain);
        cr_assert_eq(end.wall_ns, before.wall_ns, "it has ended");
        assert_adds_up(&end);
        for (int stage = HR_STAGE_READ; stage <= HR_STAGE_WRITE; stage++) {
            const struct hr_stage_stats *s = &end.stages[stage];
            const bool used =
                stage == HR_STAGE_READ || stage == HR_STAGE_KERNEL || stage == HR_STAGE_WRITE;
            cr_assert_eq(s->bytes_in, used ? SIZE : 0, "stage %d", stage);
            cr_assert_eq(s->bytes_out, used ? SIZE : 0, "stage %d", stage);
            cr_assert_eq(s->chunks, used ? N_CHUNKS : 0, "stage %d", stage);
        }
        chain_reset(&chain);
    }
}

Test(figures, the_bottleneck_is_named)
{
    uint64_t kernel_ns = 2000000;
    for (unsigned i = 0; i < n_loops; i++) {
        struct chain chain;
        start(&chain, &kernel_ns);
        cr_assert_eq(chain_run(&chain, loops[i]), HR_OK, "%s", chain.error.text);
        const struct hr_stats stats = stats_of(&chain);
        assert_adds_up(&stats);
        cr_assert_eq(stats.bottleneck, HR_STAGE_KERNEL, "it is %s",
                     hr_stage_name((enum hr_stage)stats.bottleneck));
        const uint64_t service_ns = stats.stages[HR_STAGE_KERNEL].service_ns;
        cr_assert_geq(service_ns, kernel_ns * N_CHUNKS);
        cr_assert_lt(service_ns, 2 * kernel_ns * N_CHUNKS);
        cr_assert_gt(stats.stages[HR_STAGE_READ].blocked_ns,
                     stats.stages[HR_STAGE_READ].starved_ns);
        cr_assert_str_eq(stats.device, "host");
        cr_assert_eq(stats.n_streams, 1);
        chain_reset(&chain);
    }
}

/* A chain with filters keeps as many streams busy as its parts have. */
Test(figures, kernels_are_never_busier_than_they_can_be)
{
    for (unsigned i = 0; i < n_loops; i++) {
        struct chain chain;
        chain_init(&chain);
        chain_read_file(&chain, in_path);
        chain.config.chunk_size = CHUNK;
        chain.config.n_streams = 1;
        chain.config.sink.kind = HR_FILE;
        chain.config.sink.path = out_path;
        for (unsigned k = 0; k < 3; k++)
            chain_add(&chain, "filter:u8,ge,0");
        chain_add(&chain, "histogram");
        cr_assert_eq(chain_run(&chain, loops[i]), HR_OK, "%s", chain.error.text);
        const struct hr_stats stats = stats_of(&chain);
        assert_adds_up(&stats);
        chain_reset(&chain);
    }
}

/* ---- the timeline ---- */

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    cr_assert(file, "%s is not there", path);
    char *text = calloc(1, 1 << 20);
    cr_assert_lt(fread(text, 1, 1 << 20, file), 1 << 20);
    fclose(file);
    return text;
}

static void assert_json(const char *path)
{
    char command[300];
    if (system("command -v python3 >/dev/null 2>&1") != 0)
        return;
    snprintf(command, sizeof command, "python3 -m json.tool '%s' /dev/null", path);
    cr_assert_eq(system(command), 0, "it is no JSON");
}

static unsigned count_of(const char *text, const char *word)
{
    unsigned n = 0;
    while ((text = strstr(text, word))) {
        n++;
        text++;
    }
    return n;
}

Test(figures, a_timeline_has_a_track_for_each_stage)
{
    uint64_t kernel_ns = 1000;
    for (unsigned i = 0; i < n_loops; i++) {
        struct chain chain;
        start(&chain, &kernel_ns);
        chain.config.trace_path = trace_path;
        cr_assert_eq(chain_run(&chain, loops[i]), HR_OK, "%s", chain.error.text);
        chain_reset(&chain);
        assert_json(trace_path);
        char *text = read_text(trace_path);
        static const char *const tracks[] = {"\"read 0\"", "\"kernel 0\"", "\"write 0\""};
        for (unsigned k = 0; k < 3; k++)
            cr_assert_eq(count_of(text, tracks[k]), 1, "track %s", tracks[k]);
        cr_assert_eq(count_of(text, "\"name\":\"kernel\""), N_CHUNKS);
        cr_assert_geq(count_of(text, "\"name\":\"read\""), N_CHUNKS);
        cr_assert_geq(count_of(text, "\"name\":\"write\""), N_CHUNKS);
        free(text);
        unlink(trace_path);
    }
}

static int32_t fail(void *user, const struct hr_kernel_call *call)
{
    (void)user;
    return call->chunk == 3;
}

Test(figures, a_timeline_of_a_failure_and_one_that_cannot_be_written)
{
    uint64_t kernel_ns = 1000;
    for (unsigned i = 0; i < n_loops; i++) {
        struct chain chain;
        start(&chain, &kernel_ns);
        chain.config.trace_path = trace_path;
        chain_add_kernel(&chain, (struct hr_kernel){.kind = HR_KERNEL_FUNCTION, .function = fail});
        cr_assert_eq(chain_run(&chain, loops[i]), HR_EDEVICE, "%s", chain.error.text);
        chain_reset(&chain);
        assert_json(trace_path);
        unlink(trace_path);
        start(&chain, &kernel_ns);
        chain.config.trace_path = "/nowhere/trace";
        cr_assert_eq(chain_create(&chain, loops[i]), HR_EIO);
        cr_assert(strstr(chain.error.text, "/nowhere/trace"), "%s", chain.error.text);
        start(&chain, &kernel_ns); /* never run: no timeline */
        chain.config.trace_path = trace_path;
        cr_assert_eq(chain_create(&chain, loops[i]), HR_OK);
        chain_reset(&chain);
        cr_assert_neq(access(trace_path, F_OK), 0);
    }
}
