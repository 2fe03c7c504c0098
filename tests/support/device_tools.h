// SPDX-License-Identifier: Apache-2.0
/* What tests of devices need again and again. */
#ifndef HR_DEVICE_TOOLS_H
#define HR_DEVICE_TOOLS_H

#include "backend.h"

/* Sleeps until the event is done, woken through a descriptor of its own. Returns what query() says:
 * HR_PENDING if ten seconds went by. */
hr_status device_finish(struct hr__device *device, struct hr__event *event, hr_error *error);

/* Records an event behind all that is enqueued and sleeps until it is done. */
hr_status device_drain(struct hr__device *device, struct hr__stream *stream, hr_error *error);

/* Whether a test must run: the environment variable HR_REQUIRE names the device's backend, as
 * HR_REQUIRE=cuda does for "cuda:0". */
bool device_is_required(const char *device);

/* A fixed pseudo-random sequence. */
uint64_t device_random(uint64_t *state);

#endif
