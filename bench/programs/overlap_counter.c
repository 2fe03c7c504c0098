// SPDX-License-Identifier: Apache-2.0
/* What must not count: workers that have nothing to do, work that waits for a CPU or in a queue, and
 * a user who is away. */
#include <sched.h>
#include <stdlib.h>

#include "overlap_cases.h"
#include "overlap_checks.h"
#include "overlap_codecs.h"
#include "overlap_line.h"

enum { CHUNK = 1 << 16 };

/* One long frame is decoded by one worker. */
static void one_of_16_workers(void)
{
    struct hr_source source;
    struct outcome outcome;
    uint64_t size;
    case_begin("one of 16 workers busy");
    plain_text(&size);
    const struct packed packed = pack(size);
    struct hr_pipeline_config config = codec_config(&source, packed.bytes, packed.size);
    config.decode = HR_CODEC_ZSTD;
    run_config("one frame, 16 workers", 16, &config, &outcome);
    free(packed.bytes);
    /* the loop's thread brings the frame to where it is decoded, which takes some of the wall */
    const double used = (double)outcome.workers_cpu_ns / 16 / (double)outcome.wall_ns;
    check("overlap efficiency", used, outcome.stats.overlap, WITHIN, 2 * TRUTH_MARGIN);
    check("overlap efficiency: one of 16", 1.0 / 16, outcome.stats.overlap, AT_MOST, TRUTH_MARGIN);
    check("gain", 1.0 / 16, outcome.stats.gain, AT_MOST, 2 * TRUTH_MARGIN);
    check_stage("bottleneck", HR_STAGE_DECODE, (enum hr_stage)outcome.stats.bottleneck);
}

/* All of the process's threads to come, on one CPU, or where they were. */
static void use_cpus(const cpu_set_t *cpus)
{
    if (sched_setaffinity(0, sizeof *cpus, cpus) != 0)
        stop("sched_setaffinity", "refused");
}

static cpu_set_t one_of(const cpu_set_t *cpus)
{
    cpu_set_t one;
    size_t cpu = 0;
    while (!CPU_ISSET(cpu, cpus))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return one;
}

static void two_stages_burn(void)
{
    struct line line = {.name = "source and kernel burn",
                        .read = {.ns = 3000000, .burns = true},
                        .kernel = {.ns = 3000000, .burns = true},
                        .n_chunks = 60,
                        .chunk_bytes = CHUNK,
                        .depth = 6,
                        .n_threads = 4};
    const struct outcome outcome = run_line(&line);
    check("gain: source and kernel", 1.05, outcome.stats.gain, AT_MOST, 0);
}

static void kernel_and_encode_burn(void)
{
    struct hr_source source;
    struct outcome outcome;
    uint64_t size;
    const unsigned char *text = plain_text(&size);
    const struct hr_kernel kernel = {.struct_size = sizeof kernel, .text = "crc32"};
    struct hr_pipeline_config config = codec_config(&source, text, size);
    config.kernels = &kernel;
    config.n_kernels = 1;
    config.n_streams = 1;
    config.device = "host";
    config.encode = HR_CODEC_ZSTD;
    run_config("kernel and encode burn", 1, &config, &outcome);
    check("gain: kernel and encode", 1.05, outcome.stats.gain, AT_MOST, 0);
}

static void two_stages_on_one_core(void)
{
    cpu_set_t all;
    case_begin("two CPU-bound stages on one core");
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        stop("sched_getaffinity", "refused");
    const cpu_set_t one = one_of(&all);
    use_cpus(&one);
    two_stages_burn();
    kernel_and_encode_burn();
    use_cpus(&all);
}

/* Many frames wait for one worker while the first is encoded. */
static void queued_work(void)
{
    struct hr_source source;
    struct outcome outcome;
    uint64_t size;
    case_begin("frames that are queued for a worker");
    const unsigned char *text = plain_text(&size);
    struct hr_pipeline_config config = codec_config(&source, text, size);
    config.encode = HR_CODEC_ZSTD;
    config.frame_size = 1 << 18;
    config.depth = 24;
    run_config("queued frames", 1, &config, &outcome);
    check("service of encode, s", (double)outcome.workers_cpu_ns / 1e9,
          (double)outcome.stats.stages[HR_STAGE_ENCODE].service_ns / 1e9, WITHIN, TRUTH_MARGIN);
}

/* Who pulls chunks and works on each: reads behind it are soon done, however long he takes. */
static void user_is_away(void)
{
    enum { N = 30, AWAY_NS = 5000000 };
    struct load users = {.ns = AWAY_NS};
    struct hr_source source = {.struct_size = sizeof source,
                               .kind = HR_FILE,
                               .path = "/dev/zero",
                               .flags = HR_RANGE,
                               .length = (uint64_t)N * CHUNK};
    const struct hr_pipeline_config config = {
        .struct_size = sizeof config,
        .n_sources = 1,
        .sources = &source,
        .sink = {.struct_size = sizeof config.sink, .kind = HR_PULL},
        .chunk_size = CHUNK};
    hr_pipeline *pipeline = NULL;
    struct hr_chunk chunk = {.struct_size = sizeof chunk};
    struct outcome outcome = {.stats = {.struct_size = sizeof outcome.stats}};
    hr_error error;
    hr_status status;
    case_begin("a user who pulls, and takes his time");
    if (hr_pipeline_create(NULL, &config, &pipeline, &error) != HR_OK)
        stop("pulling", error.text);
    const uint64_t begun = now_ns();
    while ((status = hr_pipeline_next(pipeline, -1, &chunk, &error)) == HR_OK) {
        work(&users);
        hr_chunk_release(&chunk, NULL);
    }
    outcome.wall_ns = now_ns() - begun;
    if (status != HR_END || hr_pipeline_stats(pipeline, &outcome.stats) != HR_OK)
        stop("pulling", error.text);
    hr_pipeline_free(pipeline);
    keep_run("pulling", &outcome.stats, outcome.wall_ns);
    outcome.truth.service_ns[HR_STAGE_WRITE] = (double)users.spent_ns;
    /* the user lost the CPU while a chunk was his: that is no work of his */
    outcome.is_disturbed = outcome.wall_ns > N * (uint64_t)AWAY_NS * 105 / 100;
    const double read_ns = (double)outcome.stats.stages[HR_STAGE_READ].service_ns;
    check("utilisation of read", 0.1, read_ns / (double)outcome.wall_ns, AT_MOST, 0);
    check_truth(&outcome, TRUTH_MARGIN);
    check_stage("bottleneck", HR_STAGE_WRITE, (enum hr_stage)outcome.stats.bottleneck);
}

void host_counter_examples(void)
{
    one_of_16_workers();
    two_stages_on_one_core();
    queued_work();
    user_is_away();
}
