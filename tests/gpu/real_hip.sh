#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The system's own HIP library where it finds no device, as Debian's does on every machine without
# one of AMD's: it is absent, for a reason, and all else works. HEADRACE names the command. Exits
# with 77 where there is no such library, or a device.
# shellcheck disable=SC2317 # the checks are called by name
headrace=$(realpath "${HEADRACE:-build/test/bin/headrace}") || exit 1
work=$(mktemp -d) || exit 1
trap 'cd /; rm -rf "$work"' EXIT
cd "$work" || exit 1
export LC_ALL=C XDG_CONFIG_HOME=/dev/null
unset HR_LIBAMDHIP64 HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES GPU_DEVICE_ORDINAL \
    CUDA_VISIBLE_DEVICES
hr() { timeout -k 2 20 "$headrace" "$@"; }
state=$(hr devices 2>said | grep -E '^hip' | head -n 1)
case $state in
*'library not found'*) echo "HIP's library is not installed" && exit 77 ;;
*present*) echo "HIP has a device: $state" && exit 77 ;;
esac
bad=0
head -c 300000 /dev/urandom >in

check() { # NAME COMMAND...
    local name=$1
    shift
    if "$@" >log 2>&1 && ! grep -qE 'Sanitizer|runtime error' log said; then
        echo "ok $name" && return
    fi
    echo "not ok $name"
    head -n 20 log said | sed 's/^/    /'
    bad=1
}
fails() { # TEXT ARGUMENT...
    ! hr "${@:2}" 2>said && grep -qF -e "$1" said
}

it_is_absent_with_its_reason() {
    hr devices 2>said >list && grep -qE '^hip +absent .*no device' list
}
naming_it_says_why() {
    fails 'device "hip" is not there: no device' run in out --device hip && [ ! -e out ]
}
hidden_devices_are_told() {
    HIP_VISIBLE_DEVICES='' fails 'HIP_VISIBLE_DEVICES is ""' run in out --device hip:0
}
the_host_works() {
    hr run in out --device host --kernel scale:u8,1,0 2>said && cmp in out
}
any_device_does_without() {
    hr run in copy --kernel scale:u8,1,0 2>said && cmp in copy
}

for name in it_is_absent_with_its_reason naming_it_says_why hidden_devices_are_told \
    the_host_works any_device_does_without; do
    check "${name//_/ }" "$name"
done
exit $bad
