// SPDX-License-Identifier: Apache-2.0
/* What a seek table, where a range uses one, says of the frame that the walk is in. */
#include <assert.h>

#include "decode.h"

uint64_t hr__decode_table_gives(const struct hr__input *in)
{
    const struct hr__seek_index *seek = &in->seek;
    const size_t i = in->seek_frame;
    if (!seek->n_frames)
        return UINT64_MAX;
    return i < seek->n_frames ? seek->out_offset[i + 1] - seek->out_offset[i] : 0;
}

bool hr__decode_table_fits(const struct hr__decode_stage *d)
{
    assert(d->input);
    const struct hr__seek_index *seek = &d->input->seek;
    const size_t i = d->input->seek_frame;
    if (!seek->n_frames)
        return true;
    return i < seek->n_frames &&
           seek->in_offset[i + 1] - seek->in_offset[i] == d->walk.frame.in_size;
}

void hr__decode_table_pass(struct hr__input *in)
{
    in->seek_frame += in->seek_frame < in->seek.n_frames ? 1 : 0;
}
