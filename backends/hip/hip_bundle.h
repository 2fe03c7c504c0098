// SPDX-License-Identifier: Apache-2.0
/* Code objects for several of AMD's architectures in one file, as clang-offload-bundler makes it:
 *
 *     "__CLANG_OFFLOAD_BUNDLE__"
 *     number of entries
 *     each entry: offset, size, length of its name; its name
 *     the code objects
 *
 * Numbers have 64 bits. A name is "hipv4-amdgcn-amd-amdhsa--" and the target: the processor and the
 * features on which the code depends, "gfx90a:xnack+". */
#ifndef HR_HIP_BUNDLE_H
#define HR_HIP_BUNDLE_H

#include <stdbool.h>
#include <stddef.h>

/* This build's, of the built-in kernels; size 0: none was made. */
extern const unsigned char hr__hip_bundle[];
extern const size_t hr__hip_bundle_size;

/* The code object that a device of this architecture runs, in the device's own words:
 * "gfx90a:sramecc+:xnack-". False: there is none. */
bool hr__hip_bundle_find(const unsigned char *bundle, size_t size, const char *arch,
                         const void **code, size_t *code_size);

#endif
