#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds headrace and streams a real file (FILE, or a tar of this machine's files) through it: to
# null: with its CRC-32, to a file, and through pipes. Checks each by stock tools; prints the stages.
# Usage: bash bench/quickstart.sh [FILE]
set -eu
export LC_ALL=C.UTF-8
input=${1:+$(realpath "$1")}
cd "$(dirname "$0")/.."
. tests/support/run_lib.sh

need_packages
cmake -S . -B build/quickstart -DHR_TESTS=OFF >/dev/null
cmake --build build/quickstart -j"$(nproc)" >/dev/null
headrace=$PWD/build/quickstart/bin/headrace

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if [ -z "$input" ]; then
    input=$folder/system.tar
    echo "Packing at least 1 GiB of /usr with tar ..."
    # tar ends with SIGPIPE when head has enough: only head's own failure counts
    (set +e; while :; do tar -C / -cf - usr 2>/dev/null || break; done) |
        head -c 1200M >"$input"
fi

echo "== $input -> null: ($(stat -c %s "$input") bytes)"
crc=$("$headrace" run "$input" null: --stats text 2>&1 | tee /dev/stderr | sed -n 's/^crc32 //p')
expected=$(gzip -1 -c "$input" | tail -c 8 | head -c 4 | od -An -tx4 | tr -d ' ')
[ "$crc" = "$expected" ] || { echo "CRC-32 differs: $crc, gzip says $expected" >&2; exit 1; }
echo "CRC-32 $crc, as gzip computes it"

echo "== $input -> file"
"$headrace" run "$input" "$folder/copy" --stats text
cmp "$input" "$folder/copy"
echo "The copy is the same."

echo "== pipe -> pipe"
cat "$input" | "$headrace" run - - --stats text | cmp - "$input"
echo "What came through the pipes is the same."
