// SPDX-License-Identifier: Apache-2.0
/* The ends of a pipeline: opened at creation (sockets: while the loop runs), closed at the end. */
#ifndef HR_ENDPOINTS_H
#define HR_ENDPOINTS_H

#include "pipeline.h"

hr_status hr__ends_open_inputs(hr_pipeline *pipeline, const struct hr_pipeline_config *config,
                               hr_error *error) __attribute__((warn_unused_result));
hr_status hr__ends_open_sink(hr_pipeline *pipeline, hr_error *error)
    __attribute__((warn_unused_result));
/* HR_EINVAL, if this file would take the place of a source or of the sink. */
hr_status hr__ends_refuse_target(const hr_pipeline *pipeline, const struct hr__target *target,
                                 hr_error *error) __attribute__((warn_unused_result));

/* Whether direct I/O serves the files, if it was asked for. */
hr_status hr__ends_check_direct(hr_pipeline *pipeline, hr_error *error)
    __attribute__((warn_unused_result));

/* Bytes of the longest source; UINT64_MAX: one is not known, or will be decoded. */
uint64_t hr__ends_longest(const hr_pipeline *pipeline);

/* Goes on with connecting; true once all ends are open. A failure is the pipeline's. */
bool hr__ends_connect(hr_pipeline *pipeline);
/* Takes back what connecting waits for. */
void hr__ends_cancel(hr_pipeline *pipeline);

/* Nothing is in flight; whole: the transfer succeeded. */
void hr__ends_close(hr_pipeline *pipeline, bool whole);

#endif
