#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Which GPU a word means, on a machine of two: those of a driver that is made for tests. HEADRACE
# names the command, HR_TEST_TOOLS the folder that the driver is in.
# shellcheck disable=SC2317 # the checks are called by name
headrace=$(realpath "${HEADRACE:-build/test/bin/headrace}") || exit 1
tools=$(realpath "${HR_TEST_TOOLS:-build/test/tests}") || exit 1
work=$(mktemp -d) || exit 1
trap 'cd /; rm -rf "$work"' EXIT
cd "$work" || exit 1
export LC_ALL=C HR_LIBCUDA=$tools/fake_cuda/libcuda.so.1 HR_LIBAMDHIP64=/nowhere/libamdhip64.so
unset CUDA_VISIBLE_DEVICES
[ -e "$HR_LIBCUDA" ] || exit 77
bad=0
head -c 100000 /dev/urandom >in

check() { # NAME COMMAND...
    local name=$1
    shift
    "$@" >log 2>&1 && echo "ok $name" && return
    echo "not ok $name"
    head -n 8 log | sed 's/^/    /'
    bad=1
}
hr() { timeout -k 2 20 "$headrace" "$@"; }
# says STATUS TEXT DEVICE: what a run on this device ends with.
says() {
    hr run in null: --device "$3" 2>said
    [ $? = "$1" ] && grep -qF -e "$2" said && return
    echo "wanted for $3: status $1 and '$2'" | cat - said >&2
    return 1
}

both_are_listed() {
    hr devices >list && grep -qxE 'cuda:0 +present +Fake GPU 0, .*' list &&
        grep -qxE 'cuda:1 +present +Fake GPU 1, .*' list
}
is_known() { # whatever the run then says of it
    hr run in null: --device "$1" --stats text 2>said
    [ $? -le 1 ] && ! grep -E 'not there|not known|wanted' said
}
names_are_known() {
    is_known cuda:1 && is_known cuda:GPU-b0 && is_known cuda:0000:18:00.0 &&
        is_known cuda:GPU-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadaeaf
}
others_are_not_there() {
    says 1 "\"cuda:2\" is not there: the last one is cuda:1" cuda:2 &&
        says 1 "none of the 2 that are visible is it" cuda:GPU-c0 &&
        says 1 "none of the 2 that are visible is it" cuda:0000:19:00.0 &&
        says 1 "library not found: tried /nowhere/libamdhip64.so" hip:GPU-b0 || return
    for word in cuda:GPU- cuda:GPU cuda:b0 cuda:0000:18:zz.0 cuda:1x GPU-b0 0000:18:00.0; do
        says 2 "or for N a UUID (GPU-...) or a PCI address" "$word" || return
    done
}
hidden_ones_are_told() {
    CUDA_VISIBLE_DEVICES='' says 1 'CUDA_VISIBLE_DEVICES is ""' cuda:GPU-b0 &&
        CUDA_VISIBLE_DEVICES='' hr devices | grep -q '^cuda  *absent .*devices hidden'
}

for name in both_are_listed names_are_known others_are_not_there hidden_ones_are_told; do
    check $name $name
done
exit $bad
