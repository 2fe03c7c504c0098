#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds headrace for arm64 with Debian's cross compiler and runs the command's tests and the plain
# test programs under qemu, which offers no io_uring. With --install, and as root, the packages are
# fetched first. Prints a line for each program and a count; exit status 77: the tools are not here.
set -u
export LC_ALL=C.UTF-8
cd "$(dirname "$0")/.." || exit 2
. tests/support/run_lib.sh

packages=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static pkg-config make cmake)
libraries=(liburing-dev:arm64 libzstd-dev:arm64)
installs=(env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends)
present() {
    command -v aarch64-linux-gnu-gcc >/dev/null && command -v qemu-aarch64-static >/dev/null
}

if [ "${1:-}" = --install ] && ! present; then
    { apt-get update && "${installs[@]}" "${packages[@]}"; } >/dev/null 2>&1
    { dpkg --add-architecture arm64 && apt-get update && "${installs[@]}" "${libraries[@]}"; } \
        >/dev/null 2>&1 # without them, a build without io_uring and zstd
fi
if ! present; then
    echo "to be installed: ${packages[*]}; if they can be, ${libraries[*]}"
    exit "$skip_status"
fi

# The libraries of the foreign architecture where dpkg puts them, else the cross compiler's.
root=/usr/aarch64-linux-gnu
[ ! -e /lib/ld-linux-aarch64.so.1 ] || root=/
qemu=(qemu-aarch64-static -L "$root")
export PKG_CONFIG_LIBDIR=/usr/lib/aarch64-linux-gnu/pkgconfig PKG_CONFIG_PATH=
export LD_LIBRARY_PATH=$PWD/build/aarch64

targets=headrace_cli
for suite in conformance stress faults fuzz; do
    [ -z "$(sources tests/$suite/*.c)" ] || targets+=" ${suite}_tests"
done
build aarch64 "$targets" -DCMAKE_SYSTEM_NAME=Linux \
    -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc \
    -DHR_TESTS=ON
wrapper=("${qemu[@]}")
variant=' under qemu'
time_limit=600
run_mains aarch64 conformance
run_mains aarch64 stress
run_mains aarch64 faults 'fault_gpu_*' # the fake driver's hundreds of threads take minutes there
run_replay aarch64

# The scripts run the command by its name.
command=build/aarch64/headrace_by_qemu
printf '#!/bin/sh\nexec %s %s "$@"\n' "${qemu[*]}" "$PWD/build/aarch64/bin/headrace" >"$command"
chmod +x "$command"
wrapper=(env HEADRACE="$PWD/$command" HR_TEST_IO=threads)
run_scripts aarch64 cli test_bench

echo "$n_passed passed, $n_failed failed, $n_skipped skipped"
[ "$n_failed" -eq 0 ]
