#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The source of the kernels of GPUs compiled by clang for AMD's GPUs, of waves of 64 and of 32: one
# entry of each kind. HR_GPU_MADE names the build's folder of the source.
set -u
source=${HR_GPU_MADE:-build/test/gpu}/builtin_kernels.cu
failed=0
if ! clang --print-targets 2>/dev/null | grep -q amdgcn; then
    echo 'skip no clang for AMD'
    exit 77
fi
for only in 'HR_CAST(F32,F16)' 'HR_SCALE(I64)' 'HR_BSWAP(64)' HR_SHUFFLE 'HR_FILTER(BF16)' \
    'HR_SUM_FLOAT(F32)' 'HR_SUM_INT(I64)' 'HR_MIN(F64)' 'HR_HISTOGRAM(F32)' \
    'HR_HISTOGRAM_BYTES(U8)' 'HR_COUNT(I8)' HR_CRC32; do
    for gpu in gfx90a gfx1030; do
        if clang -x hip --cuda-device-only --offload-arch=$gpu -nogpuinc -nogpulib -O1 -S \
            -ffp-contract=off -Wall -Wextra -Werror -Wno-unused-function -Wno-unused-template \
            "-DHR_ONLY=$only" "$source" -o /dev/null; then
            echo "ok $only for $gpu"
        else
            echo "not ok $only for $gpu"
            failed=1
        fi
    done
done
exit "$failed"
