// SPDX-License-Identifier: Apache-2.0
/* Transfers from and to a device, beside what its driver reaches alone with the same memory: each
 * ceiling and each pipeline in turn, round by round until the time is over. A first round, which
 * does not count, warms up and compares the contents after every run. In a round a pipeline runs next
 * to the ceiling that it is compared with, before it or after it in turn, and behind one of its own
 * that does not count. Prints JSON. A timeline of one more run goes to FOLDER.
 *
 * Usage: gpu_transfers DEVICE[,PEER] FILE FRAMES MIB SECONDS FOLDER [ONLY]...
 *   DEVICE  cuda:N; another one (host) is measured without ceilings
 *   PEER    another backend's name of the same GPU: each pipeline runs by both in turn
 *   FILE    a cached file of at most MIB MiB
 *   FRAMES  the same bytes in many zstd frames; "-": there is none
 *   MIB     size of the transfers between memory and device
 *   SECONDS for all rounds; there are at least 5
 *   ONLY    name of a pipeline: these alone, without ceilings and timeline */
#include "gpu_transfers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "gpu_parts.h"
#include "gpu_samples.h"
#include "gpu_ways.h"

enum { LEAST_ROUNDS = 5, MAX_ROUNDS = 100 };

struct bench {
    struct areas areas;
    hr_context *context;
    hr_loop *loop;
    const char *device;
    const char *peer; /* NULL: none */
    const char *folder;
    char *const *only; /* n_only names; none: all */
    int n_only;
    double seconds;
    unsigned n_rounds;
    struct sample ceilings[N_CEILINGS][MAX_ROUNDS];
    struct sample ways[N_WAYS][MAX_ROUNDS];
    struct sample beside[N_WAYS][MAX_ROUNDS]; /* of the ceiling of each */
    struct sample peers[N_WAYS][MAX_ROUNDS];
};

void stop(const char *what, const char *why)
{
    fprintf(stderr, "gpu_transfers: %s: %s\n", what, why);
    exit(1);
}

/* ---- set-up ---- */

static unsigned char *touched(uint64_t size, bool huge)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        stop("memory", strerror(errno));
    if (huge)
        madvise(memory, size, MADV_HUGEPAGE); /* some systems have none */
    set_bytes(memory, 1, size);
    return memory;
}

static unsigned char *pinned(const struct bench *b)
{
    hr_error error = {0};
    unsigned char *memory = touched(b->areas.size, true);
    if (hr_pin(b->context, b->device, memory, b->areas.size, &error) != HR_OK)
        stop("pin", error.text);
    return memory;
}

static unsigned char *on_device(const struct bench *b)
{
    hr_error error = {0};
    void *memory = NULL;
    if (hr_device_alloc(b->context, b->device, b->areas.size, &memory, &error) != HR_OK)
        stop("device memory", error.text);
    return memory;
}

/* Floats that are whole numbers from -2^20 to 2^20. */
static void fill(const struct areas *a)
{
    float *floats = (float *)(void *)a->in;
    uint32_t state = 1;
    for (uint64_t i = 0; i < a->size / sizeof *floats; i++) {
        state = state * 1664525U + 1013904223U; /* Numerical Recipes, ranqd1 */
        floats[i] = (float)((int32_t)(state >> 11) - (1 << 20));
    }
    memcpy(a->pageable, a->in, a->size);
}

static void map_file(struct areas *a)
{
    struct stat about;
    const int fd = open(a->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &about) != 0)
        stop(a->path, strerror(errno));
    a->file_size = (uint64_t)about.st_size;
    if (a->file_size == 0 || a->file_size > a->size)
        stop(a->path, "it is empty, or larger than MIB");
    void *memory = mmap(NULL, a->file_size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (memory == MAP_FAILED)
        stop(a->path, strerror(errno));
    a->file = memory;
    close(fd);
}

static void set_up(struct bench *b)
{
    hr_error error = {0};
    struct areas *a = &b->areas;
    if (hr_context_create(NULL, &b->context, &error) != HR_OK ||
        hr_loop_create(b->context, NULL, &b->loop, &error) != HR_OK)
        stop("begin", error.text);
    map_file(a);
    a->in = pinned(b);
    a->out = pinned(b);
    a->pageable = touched(a->size, false);
    a->there = on_device(b);
    a->there_too = on_device(b);
    fill(a);
    if (strncmp(b->device, "cuda:", strlen("cuda:")) == 0)
        driver_open(b->device);
}

static void tear_down(struct bench *b)
{
    struct areas *a = &b->areas;
    driver_close();
    hr_device_free(b->context, b->device, a->there);
    hr_device_free(b->context, b->device, a->there_too);
    hr_unpin(b->context, b->device, a->in);
    hr_unpin(b->context, b->device, a->out);
    hr_loop_free(b->loop);
    hr_context_free(b->context);
}

/* ---- measuring ---- */

static bool is_wanted(const struct bench *b, const struct way *way)
{
    for (int i = 0; i < b->n_only; i++)
        if (strcmp(b->only[i], way->name) == 0)
            return true;
    return b->n_only == 0 && (way->from != FROM_FRAMES || b->areas.frames_path);
}

static void need_way(const char *name)
{
    for (int i = 0; i < N_WAYS; i++)
        if (strcmp(name, ways[i].name) == 0)
            return;
    stop(name, "there is no pipeline of this name");
}

static bool has_ceilings(const struct bench *b)
{
    return driver_is_open() && b->n_only == 0;
}

static uint64_t clock_ns(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000000000U + (uint64_t)at.tv_nsec;
}

static uint64_t time_ns(struct timeval t)
{
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_usec * 1000U;
}

static uint64_t cpu_ns(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return time_ns(used.ru_utime) + time_ns(used.ru_stime);
}

static void begin_clock(struct sample *s)
{
    s->cpu_ns = cpu_ns();
    s->wall_ns = clock_ns();
}

static void end_clock(struct sample *s)
{
    s->wall_ns = clock_ns() - s->wall_ns;
    s->cpu_ns = cpu_ns() - s->cpu_ns;
}

/* verifies: clears before what is written, and compares the contents. */
static void measure_way(const struct bench *b, const struct way *way, const char *device,
                        bool verifies, struct sample *s)
{
    /* The one before may have had other sizes: now the context holds what this one leases. */
    way_run(way, &b->areas, b->loop, device, NULL, s);
    if (verifies)
        way_prepare(way, &b->areas);
    begin_clock(s);
    way_run(way, &b->areas, b->loop, device, NULL, s);
    end_clock(s);
    if (verifies)
        way_verify(way, &b->areas, s);
}

static void measure_ceiling(const struct bench *b, const struct ceiling *ceiling, bool verifies,
                            struct sample *s)
{
    if (verifies)
        ceiling_prepare(ceiling, &b->areas);
    begin_clock(s);
    ceiling_run(ceiling, &b->areas);
    end_clock(s);
    if (verifies)
        ceiling_verify(ceiling, &b->areas);
}

/* The pipeline beside its ceiling; odd rounds begin with the pipeline. */
static void measure_pair(struct bench *b, int i, unsigned round, bool verifies)
{
    const bool has_beside = has_ceilings(b) && ways[i].beside;
    if (has_beside && round % 2 == 0)
        measure_ceiling(b, ways[i].beside, false, &b->beside[i][round]);
    measure_way(b, &ways[i], b->device, verifies, &b->ways[i][round]);
    if (has_beside && round % 2 == 1)
        measure_ceiling(b, ways[i].beside, false, &b->beside[i][round]);
    if (b->peer)
        measure_way(b, &ways[i], b->peer, verifies, &b->peers[i][round]);
}

/* Odd rounds go backwards, so that neighbours that are compared come first in turn. */
static void measure_round(struct bench *b, unsigned round, bool verifies)
{
    for (int i = 0; has_ceilings(b) && i < N_CEILINGS; i++)
        measure_ceiling(b, &ceilings[i], verifies, &b->ceilings[i][round]);
    for (int i = 0; i < N_WAYS; i++) {
        const int at = round % 2 ? N_WAYS - 1 - i : i;
        if (is_wanted(b, &ways[at]))
            measure_pair(b, at, round, verifies);
    }
}

static void draw_timeline(const struct bench *b, const struct way *way)
{
    struct sample once;
    char path[4096];
    snprintf(path, sizeof path, "%s/gpu_transfers.trace.json", b->folder);
    way_prepare(way, &b->areas);
    way_run(way, &b->areas, b->loop, b->device, path, &once);
    way_verify(way, &b->areas, &once);
}

static void measure(struct bench *b)
{
    for (int i = 0; i < N_WAYS; i++)
        if (ways[i].tuned && is_wanted(b, &ways[i]))
            way_tune(&ways[i], &b->areas, b->loop, b->device);
    measure_round(b, 0, true); /* the next one writes over it */
    const uint64_t until_ns = clock_ns() + (uint64_t)(b->seconds * 1e9);
    while (b->n_rounds < MAX_ROUNDS && (b->n_rounds < LEAST_ROUNDS || clock_ns() < until_ns)) {
        measure_round(b, b->n_rounds, false);
        b->n_rounds++;
    }
    for (int i = 0; i < N_WAYS; i++)
        if (ways[i].traced && b->n_only == 0)
            draw_timeline(b, &ways[i]);
}

/* ---- JSON ---- */

static void print_beside(const struct bench *b, int i)
{
    if (!has_ceilings(b) || !ways[i].beside)
        return;
    printf(", \"beside\": {\"ceiling\": \"%s\", ", ways[i].beside->name);
    print_number("bytes", ceiling_bytes(ways[i].beside, &b->areas));
    print_samples(b->beside[i], b->n_rounds, false);
    printf("}");
}

static void print_ways(const struct bench *b, const struct sample samples[][MAX_ROUNDS])
{
    const char *comma = "";
    for (int i = 0; i < N_WAYS; i++) {
        if (!is_wanted(b, &ways[i]))
            continue;
        printf("%s\n \"%s\": {", comma, ways[i].name);
        print_number("bytes_in", way_bytes_in(&ways[i], &b->areas));
        print_number("bytes_out", way_bytes_out(&ways[i], &b->areas));
        print_number("link_bytes", way_bytes_of_link(&ways[i], &b->areas));
        print_number("kernels", ways[i].n_kernels);
        print_samples(samples[i], b->n_rounds, true);
        print_beside(b, i);
        printf("}");
        comma = ",";
    }
}

static void print_all(const struct bench *b)
{
    const char *comma = "";
    printf("{\"device\": \"%s\", ", b->device);
    print_number("bytes", b->areas.size);
    print_number("file_bytes", b->areas.file_size);
    printf("\"ceilings\": {");
    for (int i = 0; has_ceilings(b) && i < N_CEILINGS; i++, comma = ",") {
        printf("%s\n \"%s\": {", comma, ceilings[i].name);
        print_number("bytes", ceiling_bytes(&ceilings[i], &b->areas));
        print_samples(b->ceilings[i], b->n_rounds, false);
        printf("}");
    }
    printf("}, \"pipelines\": {");
    print_ways(b, b->ways);
    if (b->peer) {
        printf("}, \"peer\": \"%s\", \"peer_pipelines\": {", b->peer);
        print_ways(b, b->peers);
    }
    printf("}}\n");
}

int main(int argc, char **argv)
{
    static struct bench b;
    if (argc < 7)
        stop("usage", "DEVICE[,PEER] FILE FRAMES MIB SECONDS FOLDER [ONLY]...");
    b.device = strtok(argv[1], ",");
    b.peer = strtok(NULL, ",");
    b.areas.path = argv[2];
    b.areas.frames_path = strcmp(argv[3], "-") == 0 ? NULL : argv[3];
    b.areas.size = strtoull(argv[4], NULL, 10) << 20;
    b.seconds = strtod(argv[5], NULL);
    b.folder = argv[6];
    b.only = argv + 7;
    b.n_only = argc - 7;
    if (b.areas.size == 0 || b.seconds <= 0)
        stop("usage", "MIB must be at least 1, SECONDS above 0");
    for (int i = 0; i < b.n_only; i++)
        need_way(b.only[i]);
    set_up(&b);
    measure(&b);
    print_all(&b);
    tear_down(&b);
    return 0;
}
