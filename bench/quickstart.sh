#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds headrace and gives it its main job on real input: FILE, or a tar of this machine's files,
# encoded by stock pzstd, is decoded, goes through two kernels on the best device (a histogram, and
# one that turns each byte x into 255 - x), and is encoded again, in one run. The same is done by
# stock zstd and a small filter in a shell pipe; both must give the same bytes and the same counts.
# Usage: bash bench/quickstart.sh [FILE]
set -euo pipefail
case ${1-} in
-h | --help)
    echo "Usage: bash bench/quickstart.sh [FILE]"
    exit 0
    ;;
esac
export LC_ALL=C.UTF-8
input=${1:+$(realpath -e -- "$1")}
cd "$(dirname "$0")/.."
. tests/support/run_lib.sh

tar_bytes=$((1200 << 20))

# need_space BYTES: on the disk of $folder.
need_space() {
    local free
    free=$(df --output=avail -B1 "$folder" | tail -n 1)
    [ "$free" -ge "$1" ] || {
        echo "$folder: $(($1 >> 20)) MiB are needed, $((free >> 20)) MiB are free; set TMPDIR" >&2
        exit 1
    }
}

build_command() {
    echo "== Building in build/quickstart"
    compile quickstart all -DHR_TESTS=OFF >"$folder/build.log" 2>&1 || {
        tail -n 40 "$folder/build.log" >&2
        exit 1
    }
    headrace=$PWD/build/quickstart/bin/headrace
    cc -std=c11 -D_GNU_SOURCE -O3 -o "$folder/invert" bench/programs/invert.c
}

# Sets input (if it is not the user's), and packed.
make_input() {
    if [ -z "$input" ]; then
        need_space $((3 * tar_bytes))
        input=$folder/system.tar
        echo "== Making a tar of real files"
        bash bench/make_tar.sh "$input" "$tar_bytes"
    fi
    need_space $((3 * $(stat -c %s "$input") + (1 << 20)))
    packed=$folder/in.zst
    echo "== Encoding $input ($(stat -c %s "$input") bytes) with pzstd"
    pzstd -q -p "$jobs" "$input" -o "$packed"
}

seconds() { # COMMAND...: runs it, sets took
    local begun=$EPOCHREALTIME
    "$@"
    took=$(awk -v a="$begun" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.2f", b - a }')
}

run_headrace() {
    "$headrace" run "$packed" "$folder/out.zst" --device auto --kernel histogram \
        --kernel scale:u8,-1,255 --encode zstd --stats text --result "$folder/result.json"
}

run_pipe() {
    zstd -q -dc "$packed" | "$folder/invert" "$folder/counts" |
        zstd -q -T"$jobs" -3 -o "$folder/expected.zst"
}

check_result() {
    cmp <(zstd -q -dc "$folder/out.zst") <("$folder/invert" <"$input") || {
        echo "FAIL: what stock zstd decodes of headrace's output is not the inverted input" >&2
        exit 1
    }
    diff -q <(grep -o '"values": *\[[^]]*\]' "$folder/result.json" | grep -oE '[0-9]+') \
        "$folder/counts" >/dev/null || {
        echo "FAIL: headrace's histogram is not the one that was counted by the filter" >&2
        exit 1
    }
}

need 'gcc make cmake pkg-config zstd pzstd cmp awk' 'liburing libzstd' \
    gcc make cmake pkg-config liburing-dev libzstd-dev zstd diffutils mawk
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
build_command
make_input

echo "== headrace: decode, histogram, 255 - x, encode"
seconds run_headrace
ours=$took
echo "== The same by zstd | filter | zstd"
seconds run_pipe
check_result

awk -v ours="$ours" -v pipe="$took" -v size="$(stat -c %s "$input")" \
    -v packed="$(stat -c %s "$folder/out.zst")" 'BEGIN {
    print "PASS: the same bytes and the same histogram as zstd | filter | zstd"
    if (ours > 0)
        printf("      headrace %.2f s, the pipe %.2f s: %.2f times as fast (one run each)\n",
            ours, pipe, pipe / ours)
    if (size > 0)
        printf("      %.0f MB in, %.0f MB out: encoded to %.0f %%\n", size / 1e6, packed / 1e6,
            100 * packed / size)
}'
