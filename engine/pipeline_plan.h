// SPDX-License-Identifier: Apache-2.0
#ifndef HR_PIPELINE_PLAN_H
#define HR_PIPELINE_PLAN_H

#include "pipeline.h"

/* Makes all that the config asks for in a pipeline of zeros. What it made before it failed is the
 * pipeline's, to be destroyed with it. */
hr_status hr__pipeline_plan(hr_pipeline *pipeline, const struct hr_pipeline_config *config,
                            hr_error *error) HR_MUST_CHECK;

#endif
