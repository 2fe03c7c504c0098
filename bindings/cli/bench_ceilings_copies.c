// SPDX-License-Identifier: Apache-2.0
/* Ceilings of a GPU: the driver's bare copies from pinned memory, as the library measures them
 * without a pipeline. All four are measured at once, once in each turn. */
#include "bench.h"

static const uint64_t most_copied = 64 << 20;

static bool measure(struct bench *b, char *error)
{
    hr_error why = {0};
    const uint64_t size = b->size < most_copied ? b->size : most_copied;
    if (b->rates.struct_size && b->rates_turn == b->turn)
        return true;
    b->rates = (struct hr_device_rates){.struct_size = sizeof b->rates};
    b->rates_turn = b->turn;
    if (hr_device_measure(b->pool.context, b->device, size, &b->rates, &why) == HR_OK)
        return true;
    b->rates.struct_size = 0;
    snprintf(error, HR_ERROR_TEXT, "%s", why.text);
    return false;
}

/* The thread does nothing but wait: no CPU time is told. */
static bool take_rate(struct bench *b, const double *rate, struct way *way, struct sample *sample,
                      char *error)
{
    if (!measure(b, error))
        return false;
    *sample = (struct sample){.rate = *rate, .wall_s = (double)way->bytes / *rate};
    return true;
}

bool run_h2d(struct bench *b, struct way *way, struct sample *sample, char *error)
{
    return take_rate(b, &b->rates.h2d, way, sample, error);
}

bool run_d2h(struct bench *b, struct way *way, struct sample *sample, char *error)
{
    return take_rate(b, &b->rates.d2h, way, sample, error);
}

bool run_both(struct bench *b, struct way *way, struct sample *sample, char *error)
{
    return take_rate(b, &b->rates.both, way, sample, error);
}

bool run_d2d(struct bench *b, struct way *way, struct sample *sample, char *error)
{
    return take_rate(b, &b->rates.d2d, way, sample, error);
}
