// SPDX-License-Identifier: Apache-2.0
/* The bundle that the build made, put here by the assembler: as an array in C, megabytes take the
 * compiler longer than everything else. HR_BUNDLE is its path; without code objects it is empty. */
#include "hip_bundle.h"

#if __SIZEOF_SIZE_T__ == 8
#define WORD ".quad "
#else
#define WORD ".long "
#endif

__asm__(".pushsection .rodata\n"
        ".balign 16\n"
        ".global hr__hip_bundle\n"
        ".hidden hr__hip_bundle\n"
        ".type hr__hip_bundle, %object\n"
        "hr__hip_bundle:\n"
        ".incbin \"" HR_BUNDLE "\"\n"
        ".Lhr__hip_bundle_end:\n"
        ".size hr__hip_bundle, .Lhr__hip_bundle_end - hr__hip_bundle\n"
        ".balign 8\n"
        ".global hr__hip_bundle_size\n"
        ".hidden hr__hip_bundle_size\n"
        ".type hr__hip_bundle_size, %object\n"
        "hr__hip_bundle_size:\n" WORD ".Lhr__hip_bundle_end - hr__hip_bundle\n"
        ".size hr__hip_bundle_size, . - hr__hip_bundle_size\n"
        ".popsection\n");
