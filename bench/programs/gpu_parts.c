// SPDX-License-Identifier: Apache-2.0
#include "gpu_parts.h"

#include <pthread.h>
#include <string.h>

#include "gpu_transfers.h"

enum { N_THREADS = 8 };

struct part {
    part_fn run;
    const void *work;
    uint64_t begin;
    uint64_t end;
    pthread_t thread;
};

static void *run_part(void *argument)
{
    const struct part *part = argument;
    part->run(part->work, part->begin, part->end);
    return NULL;
}

void in_parts(part_fn run, const void *work, uint64_t size)
{
    struct part parts[N_THREADS];
    const uint64_t n_units = size / PART_UNIT + (size % PART_UNIT > 0);
    for (uint64_t i = 0; i < N_THREADS; i++) {
        const uint64_t end = n_units * (i + 1) / N_THREADS * PART_UNIT;
        parts[i] = (struct part){.run = run,
                                 .work = work,
                                 .begin = n_units * i / N_THREADS * PART_UNIT,
                                 .end = end < size ? end : size};
        const int error = pthread_create(&parts[i].thread, NULL, run_part, &parts[i]);
        if (error)
            stop("a thread", strerror(error));
    }
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(parts[i].thread, NULL);
}

struct setting {
    unsigned char *memory;
    unsigned char byte;
};

static void set_part(const void *work, uint64_t begin, uint64_t end)
{
    const struct setting *setting = work;
    memset(setting->memory + begin, setting->byte, end - begin);
}

void set_bytes(unsigned char *memory, unsigned char byte, uint64_t size)
{
    const struct setting setting = {.memory = memory, .byte = byte};
    in_parts(set_part, &setting, size);
}
