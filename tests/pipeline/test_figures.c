// SPDX-License-Identifier: Apache-2.0
/* What a pipeline tells of its work: statistics, while it runs too, and the timeline. */
#include <criterion/criterion.h>
#include <headrace.h>
#include <stdatomic.h>
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

/* CPU work may take longer than its CPU time. */
static void assert_not_too_busy(const struct hr_stats *stats)
{
    const double slack = 0.02 * (double)stats->wall_ns + 2e6;
    const double wall = (double)stats->wall_ns;
    for (int i = HR_STAGE_READ; i < HR_STAGE_COUNT; i++) {
        const struct hr_stage_stats *s = &stats->stages[i];
        const double idle = (double)s->starved_ns + (double)s->blocked_ns;
        if (s->capacity)
            cr_assert_lt((double)s->service_ns / s->capacity + idle, wall + slack,
                         "%s: %zu ns / %u and %.0f of %.0f", hr_stage_name((enum hr_stage)i),
                         (size_t)s->service_ns, s->capacity, idle, wall);
    }
    cr_assert_leq(stats->overlap, 1.01, "overlap %f", stats->overlap);
    cr_assert_geq(stats->overlap, 0);
    cr_assert_geq(stats->gain, stats->overlap);
}

/* Each moment of an I/O stage counts once. */
static void assert_adds_up(const struct hr_stats *stats)
{
    static const enum hr_stage of_io[] = {HR_STAGE_READ, HR_STAGE_WRITE};
    const double least = 0.98 * (double)stats->wall_ns - 2e6;
    assert_not_too_busy(stats);
    for (unsigned i = 0; i < 2; i++) {
        const struct hr_stage_stats *s = &stats->stages[of_io[i]];
        const double sum = (double)s->service_ns + (double)s->starved_ns + (double)s->blocked_ns;
        cr_assert_gt(sum, least, "%s: %.0f ns in %zu", hr_stage_name(of_io[i]), sum,
                     (size_t)stats->wall_ns);
    }
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

/* ---- whom all wait for ---- */

enum { N_WAITS = 5, WAIT_US = 10000 }; /* far more than the rest of the work takes */
static const char zeros[N_WAITS * CHUNK];
static const uint64_t waited_ns = N_WAITS * WAIT_US * 1000ull;

static void assert_waited_for(const struct chain *chain, enum hr_stage stage)
{
    const struct hr_stats stats = stats_of(chain);
    assert_not_too_busy(&stats);
    cr_assert_eq(stats.bottleneck, stage, "it is %s",
                 hr_stage_name((enum hr_stage)stats.bottleneck));
    cr_assert_geq(stats.wall_ns, waited_ns);
    for (int i = HR_STAGE_READ; i < HR_STAGE_COUNT; i++)
        if (i != (int)stage)
            cr_assert_lt(stats.stages[i].service_ns, stats.wall_ns / 2, "%s: %zu ns",
                         hr_stage_name((enum hr_stage)i), (size_t)stats.stages[i].service_ns);
}

static int64_t read_late(void *user, void *buffer, size_t size, uint64_t offset)
{
    (void)user;
    if (offset >= N_WAITS * CHUNK)
        return 0;
    usleep(WAIT_US);
    memset(buffer, 1, size);
    return (int64_t)size;
}

static int64_t write_late(void *user, const void *buffer, size_t size, uint64_t offset)
{
    (void)user;
    (void)buffer;
    (void)offset;
    usleep(WAIT_US);
    return (int64_t)size;
}

static int32_t run_late(void *user, const struct hr_kernel_call *call)
{
    (void)user;
    (void)call;
    usleep(WAIT_US);
    return 0;
}

/* A user's code that sleeps is at work: it may wait for a server, say. */
Test(figures, calls_that_wait_are_waited_for)
{
    for (unsigned i = 0; i < 3 * n_loops; i++) {
        static const enum hr_stage stages[] = {HR_STAGE_READ, HR_STAGE_KERNEL, HR_STAGE_WRITE};
        const enum hr_stage stage = stages[i % 3];
        struct chain chain;
        chain_init(&chain);
        chain_read_memory(&chain, zeros, sizeof zeros);
        chain.config.chunk_size = CHUNK;
        chain.config.n_streams = 1;
        if (stage == HR_STAGE_READ)
            chain.sources[0] = (struct hr_source){
                .struct_size = sizeof(struct hr_source), .kind = HR_CALLBACK, .read = read_late};
        else if (stage == HR_STAGE_KERNEL)
            chain_add_kernel(&chain,
                             (struct hr_kernel){.kind = HR_KERNEL_FUNCTION, .function = run_late});
        else
            chain.config.sink.write = write_late;
        cr_assert_eq(chain_run(&chain, loops[i / 3]), HR_OK, "%s", chain.error.text);
        assert_waited_for(&chain, stage);
        const struct hr_stats stats = stats_of(&chain);
        cr_assert_eq(stats.stages[stage].capacity, 1);
        cr_assert_geq(stats.stages[stage].service_ns, waited_ns);
        chain_reset(&chain);
    }
}

/* What he does with a chunk is the work of the sink. */
Test(figures, whoever_pulls_is_the_sink)
{
    for (unsigned i = 0; i < n_loops; i++) {
        struct chain chain;
        struct hr_chunk chunk = {.struct_size = sizeof chunk};
        hr_status status;
        chain_init(&chain);
        chain_read_memory(&chain, zeros, sizeof zeros);
        chain.config.chunk_size = CHUNK;
        chain.config.sink =
            (struct hr_sink){.struct_size = sizeof(struct hr_sink), .kind = HR_PULL};
        cr_assert_eq(chain_create(&chain, loops[i]), HR_OK, "%s", chain.error.text);
        struct hr_stats before = stats_of(&chain);
        while ((status = hr_pipeline_next(chain.pipeline, 20000, &chunk, &chain.error)) == HR_OK) {
            usleep(WAIT_US);
            const struct hr_stats now = stats_of(&chain);
            assert_went_on(&now, &before);
            before = now;
            hr_chunk_release(&chunk, NULL);
        }
        cr_assert_eq(status, HR_END, "%s", chain.error.text);
        assert_waited_for(&chain, HR_STAGE_WRITE);
        const struct hr_stats end = stats_of(&chain);
        assert_went_on(&end, &before);
        cr_assert_geq(end.stages[HR_STAGE_WRITE].service_ns, waited_ns);
        chain_reset(&chain);
    }
}

/* A peer that sends nothing is what all wait for, but nobody is at work. */
Test(figures, a_silent_pipe_is_waited_for_and_serves_nothing)
{
    for (unsigned i = 0; i < n_loops; i++) {
        struct chain chain;
        int ends[2];
        cr_assert_eq(pipe(ends), 0);
        chain_init(&chain);
        chain_read_fd(&chain, ends[0]);
        chain_add(&chain, "crc32");
        cr_assert_eq(chain_create(&chain, loops[i]), HR_OK, "%s", chain.error.text);
        cr_assert_geq(hr_loop_step(loops[i], NULL), 0);
        usleep(N_WAITS * WAIT_US);
        cr_assert_eq(write(ends[1], "x", 1), 1);
        close(ends[1]);
        cr_assert_eq(hr_pipeline_run(chain.pipeline, &chain.error), HR_OK, "%s", chain.error.text);
        assert_waited_for(&chain, HR_STAGE_READ);
        const struct hr_stats stats = stats_of(&chain);
        cr_assert_leq(stats.stages[HR_STAGE_READ].service_ns + waited_ns, stats.wall_ns);
        chain_reset(&chain);
        close(ends[0]);
    }
}

/* ---- depth 1 ---- */

static atomic_int n_at_work;
static atomic_int most_at_work;

/* Long enough for another stage to begin, if one may. */
static void be_at_work(void)
{
    const int n = ++n_at_work;
    if (n > most_at_work)
        most_at_work = n;
    usleep(500);
    n_at_work--;
}

static int64_t read_alone(void *user, void *buffer, size_t size, uint64_t offset)
{
    (void)user;
    be_at_work();
    memset(buffer, 1, size);
    return offset < 20 * CHUNK ? (int64_t)size : 0;
}

static int64_t write_alone(void *user, const void *buffer, size_t size, uint64_t offset)
{
    (void)user;
    (void)buffer;
    (void)offset;
    be_at_work();
    return (int64_t)size;
}

static int32_t run_alone(void *user, const struct hr_kernel_call *call)
{
    (void)user;
    be_at_work();
    memcpy(call->out, call->in[0], (size_t)call->n_units);
    return 0;
}

/* It is what a gain is measured against. The kernel gives the memory of its input back early. */
Test(figures, of_depth_1_one_stage_at_a_time_works)
{
    for (unsigned i = 0; i < n_loops; i++) {
        struct chain chain;
        chain_init(&chain);
        chain.config.n_sources = 1;
        chain.sources[0] = (struct hr_source){
            .struct_size = sizeof(struct hr_source), .kind = HR_CALLBACK, .read = read_alone};
        chain.config.chunk_size = CHUNK;
        chain.config.depth = 1;
        chain.config.sink.write = write_alone;
        chain_add_kernel(
            &chain,
            (struct hr_kernel){.kind = HR_KERNEL_FUNCTION, .function = run_alone, .unit_out = 1});
        most_at_work = 0;
        cr_assert_eq(chain_run(&chain, loops[i]), HR_OK, "%s", chain.error.text);
        cr_assert_eq(most_at_work, 1, "%d at once", most_at_work);
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
