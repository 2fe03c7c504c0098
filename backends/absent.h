// SPDX-License-Identifier: Apache-2.0
/* Backends that this build has not: they have no devices, and say why. */
#ifndef HR_ABSENT_H
#define HR_ABSENT_H

#include "backend.h"

extern const struct hr__backend hr__hip_absent;

#endif
