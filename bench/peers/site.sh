#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Gathers the peers' packages for a machine without a registry: Python 3.12, x86-64, CUDA 13. Takes
# wheels only, without what they need in turn (PyTorch, NumPy and CuPy are to be there), and leaves
# out what is not needed to run. Prints what each takes.
# Usage: bash bench/peers/site.sh [FOLDER]     (build/peers_site of this tree)
set -eu
cd "$(dirname "$0")/../.."
site=${1:-build/peers_site}
packages="kvikio-cu13 libkvikio-cu13 rapids-logger fastsafetensors instanttensor
    runai-model-streamer nvidia-nvcomp-cu13 nvidia-libnvcomp-cu13 zstandard cffi pycparser humanize
    typer"
platforms=
for glibc in 39 35 34 31 28 27 24 17; do
    platforms="$platforms --platform manylinux_2_${glibc}_x86_64"
done
wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT
for package in $packages; do
    # shellcheck disable=SC2086 # the platforms are words
    python3 -m pip download -q --no-deps --only-binary=:all: --python-version 3.12 \
        --implementation cp $platforms --platform manylinux2014_x86_64 -d "$wheels" "$package" ||
        echo "$package: no wheel for this platform"
done
rm -rf "$site"
mkdir -p "$site"
# shellcheck disable=SC2086
python3 -m pip install -q --no-index --no-deps --no-compile --upgrade --target "$site" \
    --python-version 3.12 --implementation cp --only-binary=:all: \
    $platforms --platform manylinux2014_x86_64 "$wheels"/*.whl
cd "$site"
rm -rf bin nvidia/libnvcomp/bin
find . -depth \( -name include -o -name cmake -o -name tests -o -name '__pycache__' \) \
    -exec rm -rf {} +
find . -name '*.so' -path '*nvcomp_impl*' ! -name '*cpython-312-*' -delete
find . \( -name '*.a' -o -name '*.cpp' -o -name '*.hpp' \) -delete
find . \( -name '*.so' -o -name '*.so.*' \) -exec strip --strip-unneeded {} +
du -sm ./* | sort -n | tail -12
echo "$(du -sm . | cut -f1) MiB in $site"
