#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the build made of the kernels of GPUs, as text: PTX that old drivers and GPUs take, with no
# fused arithmetic, no call, and the same entries as the source; and the source itself: it includes
# nothing, and each entry can be compiled alone. HR_GPU_MADE names the build's folder of them.
set -u
made=${HR_GPU_MADE:-build/test/gpu}
ptx=$made/builtin_kernels.ptx
source=$made/builtin_kernels.cu
failed=0

check() { # WHAT COMMAND...
    local what=$1
    shift
    if "$@"; then
        echo "ok $what"
    else
        echo "not ok $what"
        failed=1
    fi
}

none() { # PATTERN FILE
    ! grep -nE -m 3 "$1" "$2"
}

at_most() { # LIMIT VALUE: as versions
    [ -n "$2" ] && [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | tail -n 1)" = "$1" ]
}

check 'the source includes nothing' none '^[[:space:]]*#[[:space:]]*include' "$source"
if [ ! -s "$ptx" ]; then
    echo 'skip PTX: built without clang'
    exit $((failed ? 1 : 77))
fi
version=$(sed -nE 's/^\.version ([0-9.]+)$/\1/p' "$ptx")
target=$(sed -nE 's/^\.target sm_([0-9]+)$/\1/p' "$ptx")
check ".version $version, at most 6.3" at_most 6.3 "$version"
check ".target sm_$target, at most sm_70" at_most 70 "$target"
check 'nothing is fused' none '\bfma\.|\bmad\.[a-z.]*f(32|64)' "$ptx"
check 'sums and products name their rounding, lest the driver fuse them' \
    none '\b(add|sub|mul)\.(ftz\.)?f(32|64)' "$ptx"
check 'subnormals are kept' none '\.ftz\b' "$ptx"
check 'entries call nothing' none '^[[:space:]]*call|^\.(weak |visible )?\.?func' "$ptx"
n=$(grep -c '^\.visible \.entry hr_' "$ptx")
check "170 entries, $n found" [ "$n" -eq 170 ]
exit "$failed"
