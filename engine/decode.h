// SPDX-License-Identifier: Apache-2.0
/* The decode stage, between its files: the walk that finds frames and gives them away
 * (decode_stage.c), the jobs that decode them (decode_job.c), the words for what goes wrong
 * (decode_error.c). */
#ifndef HR_DECODE_H
#define HR_DECODE_H

#include "pipeline.h"

/* Gives the placed span's job to a worker: whole frames (from run), or the next part of the frame
 * that is streamed. The blocks that it reads are held until it is done. */
void hr__decode_run_job(struct hr__slot *span);
void hr__decode_stream_job(struct hr__slot *span);

/* Whether the first n bytes of a source (up to 4) can be the begin of a frame. */
bool hr__decode_may_be_frame(const uint8_t *first, size_t n);

/* The streamed frame is done, or failed: its decoder is given back. */
void hr__decode_end_stream(hr_pipeline *pipeline, bool failed);

/* Fill *error. `origin` is the byte of the source where the walk began. */
void hr__decode_fail(struct hr__input *input, const struct hr__decode_work *work, hr_error *error);
void hr__decode_fail_walk(struct hr__input *input, const struct hr__walk *walk, uint64_t origin,
                          hr_error *error);
void hr__decode_fail_table(struct hr__input *input, uint64_t byte, hr_error *error);

/* One for the caller, to be fed whole frames or piece by piece. */
struct hr__codec_entry *hr__decode_take_decoder(hr_pipeline *pipeline, bool streams,
                                                struct hr__codec_error *error);

#endif
