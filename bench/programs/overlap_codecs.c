// SPDX-License-Identifier: Apache-2.0
/* zstd on one worker. Source and sink cost next to nothing, so what the workers' threads use of the
 * CPU, as the process tells it, is the codec's; the loop's thread is this one. */
#include "overlap_codecs.h"

#include <stdlib.h>
#include <string.h>

#include "overlap_cases.h"
#include "overlap_checks.h"
#include "overlap_line.h"

enum { PLAIN_BYTES = 24 << 20, FRAME = 2 << 20, WORD = 8, N_WORDS = 4096, N_TIMES = 12 };

/* Words in no order, some often: packed to about a third. */
static void make_text(unsigned char *text)
{
    uint64_t state = 88172645463325252u; /* of Marsaglia's xorshift64 */
    for (size_t i = 0; i + WORD <= PLAIN_BYTES; i += WORD) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        const uint64_t word = state % 4 ? state % 64 : state % N_WORDS;
        const uint64_t letters = word * 0x9e3779b97f4a7c15u;
        memcpy(text + i, &letters, WORD);
    }
}

static int64_t keep(void *user, const void *buffer, size_t size, uint64_t offset)
{
    struct packed *packed = user;
    if (offset + size > packed->room)
        return -1;
    memcpy(packed->bytes + offset, buffer, size);
    packed->size = offset + size;
    return (int64_t)size;
}

static int64_t drop(void *user, const void *buffer, size_t size, uint64_t offset)
{
    (void)user;
    (void)buffer;
    (void)offset;
    return (int64_t)size;
}

struct hr_pipeline_config codec_config(struct hr_source *source, const void *data, uint64_t size)
{
    *source = (struct hr_source){
        .struct_size = sizeof *source, .kind = HR_MEMORY, .data = data, .size = size};
    return (struct hr_pipeline_config){
        .struct_size = sizeof(struct hr_pipeline_config),
        .n_sources = 1,
        .sources = source,
        .sink = {.struct_size = sizeof(struct hr_sink), .kind = HR_CALLBACK, .write = drop},
        .chunk_size = FRAME,
    };
}

const unsigned char *plain_text(uint64_t *size)
{
    static unsigned char *text;
    *size = PLAIN_BYTES;
    if (text)
        return text;
    if (!(text = malloc(PLAIN_BYTES)))
        stop("memory", "none");
    make_text(text);
    return text;
}

struct packed pack(uint64_t frame_size)
{
    struct packed packed = {.room = PLAIN_BYTES};
    struct hr_source source;
    struct outcome outcome;
    uint64_t size;
    const unsigned char *text = plain_text(&size);
    struct hr_pipeline_config config = codec_config(&source, text, size);
    if (!(packed.bytes = malloc(packed.room)))
        stop("memory", "none");
    config.sink.write = keep;
    config.sink.user = &packed;
    config.encode = HR_CODEC_ZSTD;
    config.frame_size = frame_size;
    run_config("packing", 0, &config, &outcome);
    return packed;
}

static void check_codec(const struct hr_pipeline_config *config, enum hr_stage stage)
{
    struct outcome outcome;
    run_config(hr_stage_name(stage), 1, config, &outcome);
    outcome.truth.service_ns[stage] = (double)outcome.workers_cpu_ns;
    check_truth(&outcome, TRUTH_MARGIN);
    check_stage("bottleneck", stage, (enum hr_stage)outcome.stats.bottleneck);
}

void host_codecs(void)
{
    struct hr_source source;
    uint64_t size;
    const unsigned char *text = plain_text(&size);
    case_begin("bound by decode");
    const struct packed packed = pack(FRAME);
    struct hr_pipeline_config config = codec_config(&source, packed.bytes, packed.size);
    struct hr_source again[N_TIMES];
    for (unsigned i = 0; i < N_TIMES; i++)
        again[i] = source;
    config.sources = again;
    config.n_sources = N_TIMES;
    config.decode = HR_CODEC_ZSTD;
    check_codec(&config, HR_STAGE_DECODE);
    case_begin("bound by encode");
    config = codec_config(&source, text, size);
    config.encode = HR_CODEC_ZSTD;
    check_codec(&config, HR_STAGE_ENCODE);
    case_begin("decode and encode share a worker");
    config = codec_config(&source, packed.bytes, packed.size);
    config.decode = HR_CODEC_ZSTD;
    config.encode = HR_CODEC_ZSTD;
    struct outcome outcome;
    run_config("decode and encode", 1, &config, &outcome);
    check("efficiency: CPU time of both", (double)outcome.workers_cpu_ns / (double)outcome.wall_ns,
          outcome.stats.overlap, WITHIN, TRUTH_MARGIN);
    check("gain", 1, outcome.stats.gain, AT_MOST, TRUTH_MARGIN);
    check_stage("bottleneck", HR_STAGE_ENCODE, (enum hr_stage)outcome.stats.bottleneck);
    free(packed.bytes);
}
