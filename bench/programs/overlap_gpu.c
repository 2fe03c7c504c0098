// SPDX-License-Identifier: Apache-2.0
/* On a GPU: copies between pinned memory and the device, whose length the driver alone was measured
 * with, and kernels that spin for a known time by the device's own clock. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "overlap_bare.h"
#include "overlap_cases.h"
#include "overlap_checks.h"
#include "overlap_line.h"

#define COPY_MARGIN 0.10 /* copies of both directions slow each other down */
#define STEADY 0.015     /* before and after a run, a bare copy takes as long: within that */

/* Large, so that handing a chunk over, up to a millisecond after a long wait, is little beside its
 * copies: at depth 1 nothing hides it. */
enum { CHUNK = 512 << 20, N_CHUNKS = 12, DEPTH = 6, MAX_TRIES = 9 };

/* Kernels this many times as long as a copy leave room for both copies of a chunk beside one, so
 * that directions seldom slow each other down; and four at once still take longer than copies. */
enum { LONGEST = 3, LONGEST_OF_FOUR = 6 };

/* One thread spins, so that kernels of several streams run side by side. globaltimer is in
 * nanoseconds (PTX ISA, special registers); wall_clock64 counts 100 MHz (HIP, hardware timers). */
#define SPIN_HEAD                                                                                  \
    "extern \"C\" __global__ void spin(const void *const *in, unsigned n_in, void *out,\n"         \
    "    unsigned long long n_units, unsigned long long first_unit, const void *args)\n"           \
    "{\n"                                                                                          \
    "    if (blockIdx.x || threadIdx.x)\n"                                                         \
    "        return;\n"                                                                            \
    "    const unsigned long long ns = *(const unsigned long long *)args;\n"                       \
    "    unsigned long long begun, now;\n"
static const char spin_cuda[] =
    SPIN_HEAD "    asm volatile(\"mov.u64 %0, %%globaltimer;\" : \"=l\"(begun));\n"
              "    do {\n"
              "        asm volatile(\"mov.u64 %0, %%globaltimer;\" : \"=l\"(now));\n"
              "    } while (now - begun < ns);\n"
              "}\n";
static const char spin_hip[] = SPIN_HEAD "    begun = wall_clock64();\n"
                                         "    do {\n"
                                         "        now = wall_clock64();\n"
                                         "    } while ((now - begun) * 10 < ns);\n"
                                         "}\n";

static struct {
    const char *device;
    hr_context *context;
    hr_loop *loop;
    unsigned char *host; /* pinned: source and sink, in place */
    void *there;         /* the same on the device */
    struct bare_lengths bare;
} gpu;

static const uint64_t size = (uint64_t)CHUNK * N_CHUNKS; /* of each of the two memories */

/* ---- set-up ---- */

/* Of the memory that a run copies, all of it: places may differ. */
static void measure_copies(bool to_device, bool from_device)
{
    gpu.bare =
        measure_bare(gpu.device, gpu.host, gpu.there, CHUNK, N_CHUNKS, to_device, from_device);
}

static void tell_copies(const struct outcome *outcome)
{
    const double in_ns = outcome->truth.service_ns[HR_STAGE_H2D];
    const double out_ns = outcome->truth.service_ns[HR_STAGE_D2H];
    if (in_ns > 0)
        tell("a bare copy, H2D: GB/s", 0, (double)size / in_ns);
    if (out_ns > 0)
        tell("a bare copy, D2H: GB/s", 0, (double)size / out_ns);
}

static void open_gpu(const char *device)
{
    const struct hr_context_config config = {.struct_size = sizeof config, .max_memory = 4 * size};
    hr_error error;
    gpu.device = device;
    if (hr_context_create(&config, &gpu.context, &error) != HR_OK ||
        hr_loop_create(gpu.context, NULL, &gpu.loop, &error) != HR_OK ||
        hr_device_alloc(gpu.context, device, size, &gpu.there, &error) != HR_OK)
        stop(device, error.text);
    if (posix_memalign((void **)&gpu.host, 1 << 21, size) != 0)
        stop("memory", "none");
    memset(gpu.host, 1, size);
    if (hr_pin(gpu.context, device, gpu.host, size, &error) != HR_OK)
        stop("pinned memory", error.text);
    measure_copies(true, true);
    tell("a bare copy, H2D: GB/s", 0, CHUNK / gpu.bare.to_device_ns);
    tell("a bare copy, D2H: GB/s", 0, CHUNK / gpu.bare.from_device_ns);
}

static void close_gpu(void)
{
    hr_loop_free(gpu.loop);
    hr_unpin(gpu.context, gpu.device, gpu.host);
    free(gpu.host);
    hr_device_free(gpu.context, gpu.device, gpu.there);
    hr_context_free(gpu.context);
}

/* ---- transfers ---- */

struct transfer {
    const char *name;
    bool from_host;
    bool to_host;
    uint64_t spin_ns; /* 0: no kernel */
    unsigned depth;
    unsigned n_streams;
};

static bool is_steady(double before_ns, double after_ns)
{
    const double apart_ns = before_ns > after_ns ? before_ns - after_ns : after_ns - before_ns;
    return apart_ns <= STEADY * after_ns;
}

/* What copies took meanwhile is known if they took as long before as after it. */
static void take_copies(struct outcome *outcome, const struct bare_lengths *before,
                        const struct bare_lengths *after)
{
    double *service_ns = outcome->truth.service_ns;
    service_ns[HR_STAGE_H2D] = N_CHUNKS * (before->to_device_ns + after->to_device_ns) / 2;
    service_ns[HR_STAGE_D2H] = N_CHUNKS * (before->from_device_ns + after->from_device_ns) / 2;
    if (!is_steady(before->to_device_ns, after->to_device_ns))
        snprintf(outcome->doubt, sizeof outcome->doubt,
                 "a bare H2D took %.2f ms before, %.2f after", before->to_device_ns / 1e6,
                 after->to_device_ns / 1e6);
    else if (!is_steady(before->from_device_ns, after->from_device_ns))
        snprintf(outcome->doubt, sizeof outcome->doubt,
                 "a bare D2H took %.2f ms before, %.2f after", before->from_device_ns / 1e6,
                 after->from_device_ns / 1e6);
}

/* Between two measurements of bare copies, the first of which is there. */
static hr_status run_once(const struct transfer *t, struct outcome *outcome, hr_error *error)
{
    struct hr_source source = {.struct_size = sizeof source,
                               .kind = t->from_host ? HR_MEMORY : HR_DEVICE,
                               .data = t->from_host ? gpu.host : gpu.there,
                               .size = size};
    const struct hr_kernel kernel = {
        .struct_size = sizeof kernel,
        .kind = HR_KERNEL_SOURCE,
        .text = strncmp(gpu.device, "hip", 3) == 0 ? spin_hip : spin_cuda,
        .entry = "spin",
        .unit_in = 1,
        .unit_out = t->to_host, /* what it wrote would come back: whatever is there */
        .args = &t->spin_ns,
        .args_size = sizeof t->spin_ns};
    const struct hr_pipeline_config config = {.struct_size = sizeof config,
                                              .n_sources = 1,
                                              .sources = &source,
                                              .sink = {.struct_size = sizeof config.sink,
                                                       .kind = t->to_host ? HR_MEMORY : HR_DEVICE,
                                                       .data = t->to_host ? gpu.host : gpu.there,
                                                       .size = size},
                                              .chunk_size = CHUNK,
                                              .depth = t->depth,
                                              .kernels = &kernel,
                                              .n_kernels = t->spin_ns > 0,
                                              .n_streams = t->n_streams,
                                              .device = gpu.device};
    const struct bare_lengths before = gpu.bare;
    const hr_status status = run_on(gpu.loop, t->name, &config, outcome, error);
    measure_copies(t->from_host, t->to_host);
    take_copies(outcome, &before, &gpu.bare);
    struct truth *truth = &outcome->truth;
    /* to some microseconds, which a launch takes beside it */
    truth->service_ns[HR_STAGE_KERNEL] = (double)(N_CHUNKS * t->spin_ns);
    /* copies within the device, to the sink's place: little, and not known better */
    truth->service_ns[HR_STAGE_WRITE] = (double)outcome->stats.stages[HR_STAGE_WRITE].service_ns;
    if (t->from_host && t->to_host)
        truth->margins[HR_STAGE_H2D] = truth->margins[HR_STAGE_D2H] = COPY_MARGIN;
    return status;
}

/* The median of rounds in which copies were steady, which are tried for some times; where there was
 * none, the last one with its doubt. */
static struct outcome run_transfer(const struct transfer *t)
{
    struct outcome steady[N_ROUNDS];
    struct outcome last = {0};
    unsigned n = 0;
    hr_error error;
    measure_copies(t->from_host, t->to_host);
    for (unsigned i = 0; i < MAX_TRIES && n < N_ROUNDS; i++) {
        if (run_once(t, &last, &error) != HR_OK)
            stop(t->name, error.text);
        if (!last.doubt[0])
            steady[n++] = last;
    }
    tell("rounds with steady copies", N_ROUNDS, n);
    return n ? median_by_wall(steady, n) : last;
}

/* ---- cases ---- */

static void check_transfer(struct transfer t, enum hr_stage longest)
{
    case_begin(t.name);
    const struct outcome deep = run_transfer(&t);
    tell_copies(&deep);
    check_truth(&deep, TRUTH_MARGIN);
    check_model(&deep, N_CHUNKS);
    if (longest)
        check_stage("bottleneck", longest, (enum hr_stage)deep.stats.bottleneck);
    t.depth = 1;
    const struct outcome shallow = run_transfer(&t);
    check_undisturbed(deep.doubt[0] ? &deep : &shallow, "gain against depth 1",
                      (double)shallow.wall_ns / (double)deep.wall_ns, deep.stats.gain, GAIN_MARGIN);
}

/* Copies are enqueued as soon as there is memory, and wait there for kernels that are in the way. */
static void queued_copies(uint64_t spin_ns)
{
    const struct transfer t = {.name = "copies that are queued",
                               .from_host = true,
                               .to_host = true,
                               .spin_ns = spin_ns,
                               .depth = N_CHUNKS,
                               .n_streams = 1};
    case_begin(t.name);
    const struct outcome outcome = run_transfer(&t);
    tell_copies(&outcome);
    const struct hr_stage_stats *in = &outcome.stats.stages[HR_STAGE_H2D];
    const struct hr_stage_stats *out = &outcome.stats.stages[HR_STAGE_D2H];
    check_undisturbed(&outcome, "service of H2D, s", outcome.truth.service_ns[HR_STAGE_H2D] / 1e9,
                      (double)in->service_ns / 1e9, COPY_MARGIN);
    check_undisturbed(&outcome, "service of D2H, s", outcome.truth.service_ns[HR_STAGE_D2H] / 1e9,
                      (double)out->service_ns / 1e9, COPY_MARGIN);
}

/* Kernels that run side by side have the device once. */
static void side_by_side(uint64_t spin_ns)
{
    const struct transfer t = {.name = "kernels of four streams side by side",
                               .from_host = true,
                               .spin_ns = spin_ns,
                               .depth = DEPTH,
                               .n_streams = 4};
    case_begin(t.name);
    const struct outcome outcome = run_transfer(&t);
    const double service = (double)outcome.stats.stages[HR_STAGE_KERNEL].service_ns;
    check("utilisation of kernel", 1, service / (double)outcome.wall_ns, AT_MOST, 0.01);
    check("service of kernel, s", (double)(N_CHUNKS * spin_ns) / 4 / 1e9, service / 1e9, AT_LEAST,
          TRUTH_MARGIN);
    check_stage("bottleneck", HR_STAGE_KERNEL, (enum hr_stage)outcome.stats.bottleneck);
}

static bool has_spin(void)
{
    const struct transfer t = {
        .name = "warm-up", .from_host = true, .spin_ns = 1000000, .depth = 2, .n_streams = 1};
    struct outcome outcome;
    hr_error error;
    if (run_once(&t, &outcome, &error) == HR_OK)
        return true;
    not_here("kernels of known length", error.text);
    return false;
}

void gpu_cases(const char *device)
{
    case_begin("bare copies");
    open_gpu(device);
    const uint64_t in_ns = (uint64_t)gpu.bare.to_device_ns;
    const uint64_t out_ns = (uint64_t)gpu.bare.from_device_ns;
    const bool spins = has_spin();
    struct transfer t = {.name = "bound by H2D",
                         .from_host = true,
                         .spin_ns = spins ? in_ns / 3 : 0,
                         .depth = DEPTH,
                         .n_streams = 1};
    check_transfer(t, HR_STAGE_H2D);
    t = (struct transfer){.name = "bound by D2H",
                          .to_host = true,
                          .spin_ns = spins ? out_ns / 3 : 0,
                          .depth = DEPTH,
                          .n_streams = 1};
    check_transfer(t, HR_STAGE_D2H);
    if (spins) {
        t = (struct transfer){.name = "bound by kernels, on the GPU",
                              .from_host = true,
                              .to_host = true,
                              .spin_ns = LONGEST * in_ns,
                              .depth = DEPTH,
                              .n_streams = 1};
        check_transfer(t, HR_STAGE_KERNEL);
        t = (struct transfer){.name = "H2D and kernel equal",
                              .from_host = true,
                              .spin_ns = in_ns,
                              .depth = DEPTH,
                              .n_streams = 1};
        check_transfer(t, HR_STAGE_NONE);
        queued_copies(LONGEST * in_ns);
        side_by_side(LONGEST_OF_FOUR * in_ns);
    }
    close_gpu();
}
