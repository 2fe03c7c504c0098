// SPDX-License-Identifier: Apache-2.0
/* A kernel that the test holds up. */
#ifndef GPU_GATE_H
#define GPU_GATE_H

#include <pthread.h>

#include "gpu_rig.h"

static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_opened = PTHREAD_COND_INITIALIZER;
static bool gate_is_open;
static int gate_result;

static inline int pass_gate(const struct fake_cuda_launch *launch)
{
    (void)launch;
    pthread_mutex_lock(&gate_lock);
    while (!gate_is_open)
        pthread_cond_wait(&gate_opened, &gate_lock);
    const int result = gate_result;
    pthread_mutex_unlock(&gate_lock);
    return result;
}

static inline void open_gate(int result)
{
    pthread_mutex_lock(&gate_lock);
    gate_is_open = true;
    gate_result = result;
    pthread_cond_broadcast(&gate_opened);
    pthread_mutex_unlock(&gate_lock);
}

static inline struct hr__kernel *new_gate(void)
{
    static const size_t sizes[] = {8, 4, 8, 8, 8, 8, 0};
    static const char image[] = "fake gate";
    fake_cuda_kernel("gate", pass_gate, sizes);
    return new_kernel((struct hr_kernel){
        .kind = HR_KERNEL_IMAGE, .entry = "gate", .image = image, .image_size = sizeof image});
}

static const struct hr__launch one_unit = {.n_units = 1};

#endif
