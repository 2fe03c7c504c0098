// SPDX-License-Identifier: Apache-2.0
/* The decode stage, between its files. It finds the frames in what was read and gives them to
 * workers: consecutive whole frames, as many as one span holds, are one job; a frame that is larger
 * gets a larger span, and one that is too large for that is streamed, part by part. Spans are
 * placed in stream order and decoded side by side.
 *
 *     blocks  |...........|...........|......            read so far
 *                ^run  ^frame     ^cursor                walked so far
 *     a run   = whole frames that wait until one more would not fit
 *     a frame = the one under way; when it is whole it joins the run
 *
 * A job leases what its frames can give at most before it starts, and jobs start in order, so the
 * oldest never waits for a younger one. The walk also looks at a block that is still filling:
 * frames of a pipe are decoded as soon as they are whole, and when a pipe is silent inside of a
 * frame, what is there of it is streamed.
 *
 * decode_stage.c, which source comes next, calls decode_walk.c, which finds its frames and calls
 * decode_spans.c, which places them; that calls decode_job.c, which decodes. Beside them,
 * decode_probe.c tells whether a source is encoded, decode_table.c what its seek table says, and
 * decode_error.c what is wrong. Functions that return bool and do not say more tell whether they
 * changed anything; if not, they wait for bytes, a slot or memory. */
#ifndef HR_DECODE_H
#define HR_DECODE_H

#include "pipeline.h"

/* ---- the walk ---- */

/* Bytes of a block that are there to be walked, though it may be filling still. */
size_t hr__decode_available(const struct hr__slot *block);

/* Walks on in the block, at the cursor. */
bool hr__decode_walk(hr_pipeline *pipeline, struct hr__slot *block);
/* Nothing more can be walked at present: the run or the frame under way may not have to wait. */
bool hr__decode_wait(hr_pipeline *pipeline);
/* The frame under way is whole: it joins the run, or is streamed, or gives nothing. */
bool hr__decode_admit_frame(hr_pipeline *pipeline);
void hr__decode_forget_frame(struct hr__decode_stage *decode);
/* Ends the input with the walk's error. */
bool hr__decode_stop_walk(hr_pipeline *pipeline);
/* Gives back the blocks that neither the walk nor a stream needs any more. */
bool hr__decode_release_blocks(hr_pipeline *pipeline);

/* ---- spans, in stream order ---- */

/* Bytes of a block that are not decoded, with its error. */
bool hr__decode_place_block(hr_pipeline *pipeline, struct hr__slot *block);
bool hr__decode_place_error(hr_pipeline *pipeline, const hr_error *error);

/* The frame under way becomes part of the run. */
void hr__decode_join_run(struct hr__decode_stage *decode);
bool hr__decode_submit_run(hr_pipeline *pipeline);

/* The frame under way is decoded as it comes. */
bool hr__decode_begin_stream(hr_pipeline *pipeline);
bool hr__decode_stream_part(hr_pipeline *pipeline);
/* The walk says that the frame is whole: then the decoder must come to its end too. */
bool hr__decode_check_stream(hr_pipeline *pipeline);

/* True: what was walked before this point is with the workers, and a stream is done as far as it
 * goes. Else *changed tells whether it came nearer to that. */
bool hr__decode_drain(hr_pipeline *pipeline, bool *changed);

/* ---- jobs ---- */

/* Gives the placed span's job to a worker: whole frames (from run), or the next part of the frame
 * that is streamed. The blocks that it reads are held until it is done. */
void hr__decode_run_job(struct hr__slot *span);
void hr__decode_stream_job(struct hr__slot *span);

/* The streamed frame is done, or failed: its decoder is given back. */
void hr__decode_end_stream(hr_pipeline *pipeline, bool failed);

/* One for the caller, to be fed whole frames or piece by piece. */
struct hr__codec_entry *hr__decode_take_decoder(hr_pipeline *pipeline, bool streams,
                                                struct hr__codec_error *error);

/* ---- beside them ---- */

/* Decides by the first bytes that came whether the input is encoded. False: they do not tell yet.
 */
bool hr__decode_find_codec(hr_pipeline *pipeline);

/* What the seek table, if it is used, says of the frame that the walk is in: how many bytes it
 * gives (UINT64_MAX: no table is used), and whether it is as long as the walk found. */
uint64_t hr__decode_table_gives(const struct hr__input *input);
bool hr__decode_table_fits(const struct hr__decode_stage *decode);
/* The next entry of the table is the next frame's. */
void hr__decode_table_pass(struct hr__input *input);

/* Fill *error. `origin` is the byte of the source where the walk began. */
void hr__decode_fail(struct hr__input *input, const struct hr__decode_work *work, hr_error *error);
void hr__decode_fail_walk(struct hr__input *input, const struct hr__walk *walk, uint64_t origin,
                          hr_error *error);
void hr__decode_fail_table(struct hr__input *input, uint64_t byte, hr_error *error);

#endif
