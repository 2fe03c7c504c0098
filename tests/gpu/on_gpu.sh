#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# on_gpu.sh BUILD OUT [PART]...: what there is to test on a machine with an NVIDIA GPU, from a build
# folder with its tests built; nothing else needs to be installed. Parts: plain memcheck racecheck
# initcheck synccheck; all of them if none is named. OUT gets a log for each part and table.txt, which
# is printed at the end. Exit status 0 if every step passed, 1 if one failed, 2 for a wrong call.
#
# HR_STEP_SECONDS limits each step (240), HR_GPU names the device (cuda:0).
set -u
export LC_ALL=C.UTF-8

[ $# -ge 2 ] && [ -d "$1" ] && mkdir -p "$2" || {
    sed -n '3,8s/^# //p' "$0" >&2
    exit 2
}
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
failed=0
: >"$table"

# note WORD STEP RC SECONDS REMARK
note() {
    printf '%-7s %-36s rc %3s %5s s  %s\n' "$@" | sed 's/ *$//' | tee -a "$table"
}

# last_line LOG: what a program said of itself in the end, or what went wrong first.
last_line() {
    local line
    line=$(grep -m 1 -aE '^not ok |ERROR SUMMARY: [1-9]' "$1")
    [ -n "$line" ] || line=$(grep -aE '^[0-9]+ passed|^ok |ERROR SUMMARY' "$1" | tail -n 1)
    printf '%.100s' "$line"
}

# step NAME COMMAND...: appends what it printed to the part's log.
step() {
    local name=$1 begin rc log
    shift
    log=$(mktemp)
    begin=$SECONDS
    timeout -k 10 "$limit" "$@" >"$log" 2>&1 </dev/null
    rc=$?
    local word=ok remark
    remark=$(last_line "$log")
    case $rc in
    0) ;;
    77) word='skip' remark=$(tail -n 1 "$log") ;;
    124 | 137) word='not ok' remark="it took longer than $limit s; $remark" ;;
    *) word='not ok' ;;
    esac
    [ "$word" != 'not ok' ] || failed=1
    note "$word" "$part/$name" "$rc" "$((SECONDS - begin))" "$remark"
    { printf '==== %s: %s (rc %s)\n' "$name" "$*" "$rc" && cat "$log"; } >>"$out/$part.log"
    rm -f "$log"
}

# cannot NAME WHY: a step that does not run.
cannot() {
    note skip "$part/$1" - - "$2"
}

# program NAME: its path below the build folder; a step that needs it says so if it is not built.
has_program() {
    [ -x "$build/tests/$1" ] || {
        cannot "${1##*/}" "$build/tests/$1 is not built"
        failed=1
        return 1
    }
}

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

find_sanitizer() {
    local candidate
    for candidate in /usr/local/cuda*/bin/compute-sanitizer \
        /usr/local/cuda*/compute-sanitizer/compute-sanitizer "$(command -v compute-sanitizer)"; do
        [ -x "$candidate" ] && echo "$candidate" && return
    done
    return 1
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
        cannot all 'there is no such part'
        failed=1
        ;;
    esac
done
echo
cat "$table"
exit "$failed"
