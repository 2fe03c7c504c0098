#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# on_gpu.sh BUILD OUT [PART]...: what there is to test on a machine with an NVIDIA GPU, from a build
# folder with its tests built; nothing else needs to be installed. Parts: plain memcheck racecheck
# initcheck synccheck; all of them if none is named. OUT gets a log for each part and table.txt, which
# is printed at the end. Exit status 0 if every step passed, 1 if one failed, 2 for a wrong call.
#
# HR_STEP_SECONDS limits each step (240), HR_GPU names the device (cuda:0).
set -u
export LC_ALL=C.UTF-8 XDG_CONFIG_HOME=/dev/null

[ $# -ge 2 ] && [ -d "$1" ] && mkdir -p "$2" || {
    sed -n '3,8s/^# //p' "$0" >&2
    exit 2
}
. "$(dirname "$0")/steps.sh"
build=$(cd "$1" && pwd)
out=$(cd "$2" && pwd)
shift 2
parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(plain memcheck racecheck initcheck synccheck)

device=${HR_GPU:-cuda:0}
limit=${HR_STEP_SECONDS:-240}
cycles=1000
export HR_REQUIRE=cuda
export LD_LIBRARY_PATH=$build${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
table=$out/table.txt
: >"$table"

run_plain() {
    local tests=$build/tests
    ! has_program conformance/conformance || step conformance "$tests/conformance/conformance" "$device"
    ! has_program conformance/user_kernels ||
        step user_kernels "$tests/conformance/user_kernels" "$device"
    ! has_program gpu/run_lend || step run_lend "$tests/gpu/run_lend"
    ! has_program gpu/run_builtin || step run_builtin "$tests/gpu/run_builtin"
    ! has_program gpu/compile_nvrtc || step compile_nvrtc "$tests/gpu/compile_nvrtc"
    has_program gpu/run_pipelines || return
    step run_pipelines "$tests/gpu/run_pipelines" "$device" --cycles "$cycles"
    step 'run_pipelines with threads' env HR_TEST_IO=threads "$tests/gpu/run_pipelines" "$device"
}

# Not misuse, whose calls fail on purpose, which counts as an error here; nor cycles, which look at
# the memory of a process that the sanitizer shares.
run_watched() { # TOOL
    local watch=("$sanitizer" --tool "$1" --error-exitcode 9 --print-limit 20) tests=$build/tests
    ! has_program conformance/conformance ||
        step conformance "${watch[@]}" "$tests/conformance/conformance" "$device" 29
    ! has_program gpu/run_pipelines ||
        step run_pipelines "${watch[@]}" "$tests/gpu/run_pipelines" "$device" --quick \
            ends 'device ends' zstd kernels cuts loans errors many
}

sanitizer=$(find_sanitizer)
for part in "${parts[@]}"; do
    : >"$out/$part.log"
    case $part in
    plain) run_plain ;;
    memcheck | racecheck | initcheck | synccheck)
        if [ -n "$sanitizer" ]; then
            run_watched "$part"
        else
            cannot all 'compute-sanitizer is neither in /usr/local/cuda*/bin nor in the PATH'
        fi
        ;;
    *)
        note 'not ok' "$part/all" - - 'there is no such part'
        ;;
    esac
done
echo
cat "$table"
! grep -q '^not ok' "$table"
