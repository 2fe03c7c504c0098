#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The self-test of a device: that it passes on the host and over drivers that are made for tests, and
# that it fails, and says so, where something is wrong. HEADRACE names the command, HR_TEST_TOOLS the
# folder that these drivers are in, with a command that is linked with one.
# shellcheck disable=SC2317 # the checks are called by name
headrace=$(realpath "${HEADRACE:-build/test/bin/headrace}") || exit 1
tools=$(realpath "${HR_TEST_TOOLS:-build/test/tests}") || exit 1
work=$(mktemp -d) || exit 1
trap 'cd /; rm -rf "$work"' EXIT
cd "$work" || exit 1
export LC_ALL=C HR_LIBCUDA=/nowhere/libcuda.so.1 HR_LIBAMDHIP64=/nowhere/libamdhip64.so
unset CUDA_VISIBLE_DEVICES HR_FAKE_FAULT
fake=$tools/fake_cuda
bad=0

check() { # NAME COMMAND...
    local name=$1
    shift
    "$@" >log 2>&1 && echo "ok $name" && return
    echo "not ok $name"
    head -n 12 log | sed 's/^/    /'
    bad=1
}
# runs STATUS COMMAND [OPTION...]: the report is in the file report.
runs() {
    local status=$1
    shift
    timeout -k 2 100 "${@:1:1}" devices "${@:2}" >report 2>said
    local got=$?
    [ "$got" = "$status" ] && return
    echo "wanted status $status of $*, got $got" >&2
    grep -a '^not ok' report | head -n 4 >&2
    tail -n 1 report >&2
    cat said >&2
    return 1
}
# over_fake STATUS LIBRARY [OPTION...]: the command itself, with this library as CUDA's driver.
over_fake() {
    local status=$1 library=$2
    shift 2
    HR_LIBCUDA=$library LD_LIBRARY_PATH=$fake${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
        runs "$status" "$headrace" "$@"
}
# with_fake STATUS [OPTION...]: the command that has kernels for the fake driver.
with_fake() {
    local status=$1
    shift
    LD_LIBRARY_PATH=$fake${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} HR_LIBCUDA=$fake/libcuda.so.1 \
        runs "$status" "$tools/cli/headrace_fake_gpu" "$@"
}
# says LINE...: the report has each of these lines; a part of it is enough.
says() {
    local line
    for line; do
        grep -qF -e "$line" report && continue
        echo "the report lacks '$line'" >&2
        grep -a '^not ok' report | head -n 4 >&2
        return 1
    done
}
# counts PASSED FAILED SKIPPED: patterns for the last line.
counts() {
    tail -n 1 report | grep -qxE "$1 passed, $2 failed, $3 skipped" && return
    tail -n 1 report >&2
    return 1
}

host_passes() {
    runs 0 "$headrace" --selftest=host && counts 240 0 4 &&
        says '# headrace: 0.' '# cpu: ' '# devices asked: host' '# devices cuda: absent: library not' \
            'ok 1 the device opens' 'cast:f64,bf16 (' 'ok 12 67108864 bytes there and back, pageable (' \
            'zstd, kernel, zstd (' 'cancelled in the middle (' '# rates overlap: ' \
            '# environment HR_LIBCUDA: /nowhere/libcuda.so.1' &&
        ! grep -qvE '^(# |(ok|skip) [0-9]+ |[0-9]+ passed)' report
}
# Behind each check is the time that it took.
same_for_auto() {
    sed -nE 's/ \([0-9.]+ ms\)$//p' report >once &&
        runs 0 "$headrace" --selftest && says '# devices asked: auto' '# device: host' &&
        sed -nE 's/ \([0-9.]+ ms\)$//p' report | cmp - once
}
json_is_whole() {
    runs 0 "$headrace" --selftest=host --json && python3 - <<'END'
import json
report = json.load(open("report"))
checks = report["checks"]
assert [c["n"] for c in checks] == list(range(1, len(checks) + 1))
assert all(c["outcome"] in ("passed", "skipped") and c["ms"] >= 0 for c in checks)
assert all(bool(c["why"]) == (c["outcome"] == "skipped") for c in checks)
assert report["passed"] == sum(c["outcome"] == "passed" for c in checks) > 200
assert report["failed"] == 0 and report["device"] == "host"
assert report["devices"]["hip"].startswith("absent: library not found")
assert report["environment"]["HR_LIBAMDHIP64"] == "/nowhere/libamdhip64.so"
assert report["rates"]["both_gb_per_s"] > 0 and "notes" in report and "libraries" in report
END
}
absent_device_is_told() {
    runs 1 "$headrace" --selftest=hip:0 && counts 1 1 0 && ! grep -q '# rates' report &&
        says 'not ok 1 the device opens: opening it: HR_EUNSUPPORTED: ' \
            'library not found: tried /nowhere/libamdhip64.so' &&
        runs 1 "$headrace" --selftest=cuda:0 --json &&
        python3 -c 'import json
check = json.load(open("report"))["checks"][0]
assert check["outcome"] == "failed" and "/nowhere/libcuda.so.1" in check["why"], check'
}
wrong_words_are_told() {
    local word
    for word in --selftest=cuda:x --selftest=gpu --selftest= '--selftest hip:0' --limit=5 \
        '--selftest --limit=0' '--selftest --limit=x'; do
        # shellcheck disable=SC2086 # two words
        runs 2 "$headrace" $word || return
        [ ! -s report ] && grep -q 'wanted\|too much\|goes with' said || return
    done
}

fake_gpu_passes() {
    with_fake 0 --selftest=cuda:1 && counts 244 0 0 &&
        says '# device: cuda:1' '# libraries libcuda.so.1: ' \
            '# compiler_said: kernel "headrace_selftest": NVRTC for sm_90: '
}
hip_passes() { # ROCm's number
    local library=$tools/fake_hip_$1/libamdhip64.so.$1
    HR_LIBAMDHIP64=$library LD_LIBRARY_PATH=$tools/fake_hip_$1 with_fake 0 --selftest=hip:0 &&
        counts 244 0 0 && says "/fake_hip_$1/libamdhip64.so.$1" "HIP $1.2" 'hipRTC for gfx90a'
}
missing_kernels_are_told() {
    over_fake 1 "$fake/libcuda.so.1" --selftest=cuda && counts '[0-9]+' '2[0-9][0-9]' 0 &&
        says 'ok 20 67108864 bytes there and back, pinned (' \
            'not ok 21 cast:u8,u8: 30011 bytes on cuda:0: HR_EINVAL: cuda:0: kernel "hr_copy_8"' \
            'not ok 236 a kernel from source text: ' 'ok 238 a source that is wrong'
}
wrong_copies_are_told() {
    over_fake 1 "$fake/libcuda_wrong.so" --selftest=cuda:0 &&
        says 'ok 9 4096 bytes there and back, pageable (' \
            'not ok 10 4097 bytes there and back, pageable: came back: expected 0x' \
            ', got 0x5a at byte 4096 of 4097; 1 byte is wrong (' \
            'not ok 18 4097 bytes there and back, pinned: '
}
wrong_results_are_told() {
    HR_FAKE_FAULT=kernel with_fake 1 --selftest=cuda:0 && counts 243 1 0 &&
        says 'not ok 236 a kernel from source text: a kernel of a source: expected 0x' \
            ' at byte 100 of 1000003; '
}
refused_pins_are_skipped() {
    HR_FAKE_FAULT=pins with_fake 0 --selftest=cuda:0 && counts 235 0 9 &&
        says 'skip 4 pinning and unpinning: the driver refused: ' '# rates memory: pageable'
}
no_end_is_told() {
    HR_FAKE_FAULT=hang with_fake 1 --selftest=cuda:0 --limit=2 --json &&
        python3 -c 'import json
report = json.load(open("report"))
last = report["checks"][-1]
assert report["passed"] == 235 and report["failed"] == 1 and last["outcome"] == "failed", report
assert last["n"] == 236 and last["why"].startswith("no end after 2 s; "), last'
}
crash_is_told() {
    HR_FAKE_FAULT=abort with_fake 1 --selftest=cuda:0 && counts 235 1 0 &&
        says 'not ok 236 a kernel from source text: the process was aborted (SIGABRT)'
}

for name in host_passes same_for_auto json_is_whole absent_device_is_told \
    wrong_words_are_told; do
    check $name $name
done
if [ -x "$tools/cli/headrace_fake_gpu" ]; then
    for rocm in 6 7; do
        check "hip_passes $rocm" hip_passes $rocm
    done
    for name in fake_gpu_passes missing_kernels_are_told wrong_copies_are_told \
        wrong_results_are_told refused_pins_are_skipped no_end_is_told crash_is_told; do
        check $name $name
    done
else
    echo 'skip the fake drivers: not built'
fi
exit $bad
