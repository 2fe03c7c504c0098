#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# hip_over_cuda.sh BUILD OUT [PART]...: the HIP backend on a machine with an NVIDIA GPU, over the
# libraries of tests/support/hip_over_cuda, which stand in for those of ROCm 5, 6 and 7. It needs
# NVRTC, which compiles all kernels. Parts: plain cycles memcheck racecheck initcheck; all of them
# if none is named. OUT gets a log for each part and version, and table.txt, which is printed at the
# end. Exit status 0 if every step passed, 1 if one failed or was skipped, 2 for a wrong call.
#
# The versions run at once, but for cycles, which look at the GPU's memory. HR_STEP_SECONDS limits
# each step (240), HR_ROCM names the versions ("5 6 7"), HR_ARCH what is only compiled for (sm_90).
set -u
export LC_ALL=C.UTF-8 XDG_CONFIG_HOME=/dev/null

[ $# -ge 2 ] && [ -d "$1" ] && mkdir -p "$2" || {
    sed -n '3,10s/^# //p' "$0" >&2
    exit 2
}
. "$(dirname "$0")/steps.sh"
build=$(cd "$1" && pwd)
out=$(cd "$2" && pwd)
shift 2
parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(plain cycles memcheck racecheck initcheck)

device=hip:0
limit=${HR_STEP_SECONDS:-240}
groups=(ends 'device ends' zstd kernels cuts loans errors many)
tests=$build/tests
export HR_REQUIRE=hip # what is skipped has failed
libraries=$build${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
table=$out/table.txt
: >"$table"

run_plain() {
    local name
    for name in conformance/conformance conformance/user_kernels gpu/run_lend; do
        ! has_program "$name" || step "${name#*/}" "$tests/$name" "$device"
    done
    ! has_program gpu/hip_abi || step hip_abi "$tests/gpu/hip_abi" "$rocm"
    ! has_program gpu/compile_hiprtc ||
        step compile_hiprtc "$tests/gpu/compile_hiprtc" "${HR_ARCH:-sm_90}"
    ! has_program gpu/run_pipelines ||
        step run_pipelines "$tests/gpu/run_pipelines" "$device" "${groups[@]}" misuse
}

run_cycles() {
    ! has_program gpu/run_pipelines ||
        step run_pipelines "$tests/gpu/run_pipelines" "$device" --cycles 100 cycles
}

# Not misuse, whose calls fail on purpose, which counts as an error here.
run_watched() { # TOOL
    local watch=("$sanitizer" --tool "$1" --error-exitcode 9 --print-limit 20)
    ! has_program conformance/conformance ||
        step conformance "${watch[@]}" "$tests/conformance/conformance" "$device" 29
    ! has_program gpu/run_pipelines ||
        step run_pipelines "${watch[@]}" "$tests/gpu/run_pipelines" "$device" --quick "${groups[@]}"
}

run_part() { # PART ROCM
    part=$1-$2
    rocm=$2
    local folder=$tests/hip_over_cuda_$rocm
    export HR_LIBAMDHIP64=$folder/libamdhip64.so.$rocm LD_LIBRARY_PATH=$folder:$libraries
    : >"$out/$part.log"
    case $1 in
    plain | cycles) "run_$1" ;;
    memcheck | racecheck | initcheck)
        if [ -n "$sanitizer" ]; then
            run_watched "$1"
        else
            cannot all 'compute-sanitizer is neither in /usr/local/cuda*/bin nor in the PATH'
        fi
        ;;
    *) note 'not ok' "$part/all" - - 'there is no such part' ;;
    esac
}

sanitizer=$(find_sanitizer)
for name in "${parts[@]}"; do
    for rocm in ${HR_ROCM:-5 6 7}; do
        run_part "$name" "$rocm" &
        [ "$name" != cycles ] || wait
    done
    wait
done
sort -o "$table" "$table"
echo
cat "$table"
! grep -qE '^(not ok|skip)' "$table"
