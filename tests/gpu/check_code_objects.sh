#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The code objects that the build made of the kernels of GPUs for AMD's: each is for its
# architecture, has every kernel of the table with the parameters that a launch passes, waves of the
# architecture's width, and spills no register; and other folders give the same bytes. Arguments are
# the architectures to compile again for that, gfx90a and gfx1100 without any. HR_GPU_MADE names the
# build's folder of them, HR_LIST_BUILTIN the program that lists the kernels.
set -u
made=${HR_GPU_MADE:-build/test/gpu}
list_builtin=${HR_LIST_BUILTIN:-build/test/tests/gpu/list_builtin}
source=$made/builtin_kernels.cu
bundle=$made/builtin_kernels.hipfb
[ $# -gt 0 ] || set -- gfx90a gfx1100
failed=0
prefix=hipv4-amdgcn-amd-amdhsa--

for tool in clang-offload-bundler-19 llvm-readelf-19 llvm-objdump-19; do
    if ! command -v $tool >/dev/null; then
        echo "skip code objects: no $tool"
        exit 77
    fi
done
if [ ! -s "$bundle" ] || [ ! -s "$made/code_object_command" ]; then
    echo 'skip code objects: built without a clang for them'
    exit 77
fi
mapfile -t compile <"$made/code_object_command"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

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

# A line for each kernel: name, bytes of parameters, width of a wave, then what has to be 0:
# registers spilled, and memory of each thread.
kernels_of() { # OBJECT
    llvm-readelf-19 --notes "$1" | awk '
        function tell() {
            if (".name" in v)
                print v[".name"], v[".kernarg_segment_size"], v[".wavefront_size"],
                    v[".sgpr_spill_count"] + v[".vgpr_spill_count"] + v[".private_segment_fixed_size"]
            delete v
        }
        /^  - / { tell() }
        /^    \./ { key = $1; sub(":", "", key); v[key] = $2 }
        END { tell() }' | sort
}

# Arithmetic on floats as it is written: these kernels multiply and add, and convert nothing that
# the compiler itself does by fused operations.
not_fused() { # OBJECT
    ! llvm-objdump-19 -d "$1" | awk '
        /^[0-9a-f]+ <.*>:/ { kernel = $2 }
        kernel ~ /hr_(scale|sum|histogram)_B?F/ && $1 ~ /^v_(pk_|dual_)?(fma|mad|mac)[a-z]*_(mix|f)/ {
            print "fused:", kernel, $1
        }' | grep -m 3 .
}

# What a wave's width could change.
no_wave_operations() { # SOURCE
    local cuda='shfl|ballot|vote|__any|__all|activemask|syncwarp|warpsize'
    ! grep -nEi -m 3 "$cuda|wavefront|readlane|readfirst|dpp|permute|swizzle" "$1"
}

same_lines() { # FILE FILE
    diff "$1" "$2" | head -n 5
    cmp -s "$1" "$2"
}

mkdir "$scratch/elsewhere" "$scratch/code"
cp "$source" "$scratch/elsewhere/kernels.cu"
mapfile -t archs < <(clang-offload-bundler-19 --list --type=o --input="$bundle" |
    sed -n "s/^$prefix//p" | sort)
check "ten architectures: ${archs[*]}" [ ${#archs[@]} -eq 10 ]
"$list_builtin" | sort -u >"$scratch/table"
check "170 kernels in the table" [ "$(wc -l <"$scratch/table")" -eq 170 ]
check 'no kernel uses operations of a wave' no_wave_operations "$source"

for arch in "${archs[@]}"; do
    object=$scratch/code/$arch.co
    wave=32
    [[ $arch != gfx9* ]] || wave=64
    check "$arch compiles without a warning" "${compile[@]}" --offload-arch="$arch" -Werror \
        -fsyntax-only "$source"
    clang-offload-bundler-19 --unbundle --type=o --targets="$prefix$arch" --input="$bundle" \
        --output="$object"
    target=$(llvm-readelf-19 --notes "$object" | sed -n 's/^amdhsa.target: *//p')
    check "$arch is for $target" [ "$target" = "amdgcn-amd-amdhsa--$arch" ]
    sed "s/\$/ $wave 0/" "$scratch/table" >"$scratch/expected"
    kernels_of "$object" >"$scratch/found"
    check "$arch has all kernels, their parameters, waves of $wave, no spills" \
        same_lines "$scratch/expected" "$scratch/found"
    check "$arch fuses nothing" not_fused "$object"
done
for arch in "$@"; do
    "${compile[@]}" --offload-arch="$arch" --no-gpu-bundle-output "$scratch/elsewhere/kernels.cu" \
        -o "$scratch/elsewhere/$arch.co"
    check "$arch has the same bytes in another folder" \
        cmp "$scratch/code/$arch.co" "$scratch/elsewhere/$arch.co"
done
exit "$failed"
