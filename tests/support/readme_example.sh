#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The C lines of README compile and do what README says. Usage: readme_example.sh BUILD_FOLDER
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
library=$(dirname "$(find "$(realpath "$1")" -name libheadrace.so -print -quit)")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
sed -n '/^```c$/,/^```$/p' "$root/README.md" | sed '/^```/d' >example.c
gcc -std=c11 -Wall -Wextra -Werror -I"$root/engine/include" example.c -o example \
    -L"$library" -lheadrace -Wl,-rpath,"$library"
if ./example 2>said; then
    echo "it succeeded without an input" >&2
    exit 1
fi
grep -q 'open in: No such file' said
seq 1000000 >in
./example
cmp <(dd if=in conv=swab status=none) out
