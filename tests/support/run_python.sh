# SPDX-License-Identifier: Apache-2.0
# Functions of tests/run.sh for what is written in Python, or tested by it. All use one virtual
# environment, build/venv.

# need_python LABEL: counts LABEL as skipped if the environment cannot be made.
need_python() {
    local packages=(numpy cffi pytest hypothesis mypy safetensors ml_dtypes tqdm)
    if [ ! -e build/venv/complete ]; then
        rm -rf build/venv
        { python3 -m venv build/venv && build/venv/bin/pip install -q "${packages[@]}" &&
            : >build/venv/complete; } >build/venv.log 2>&1 || {
            count 0 0 1 "$1: no virtual environment with ${packages[*]} (build/venv.log)"
            return 1
        }
    fi
}

# run_pytest LABEL PYTEST-ARGUMENT...: each of its tests counts.
run_pytest() {
    local label=$1 passed failed skipped said
    shift
    said=$(timeout "$time_limit" build/venv/bin/python -m pytest -q -p no:cacheprovider "$@" 2>&1)
    number() { tail -n 1 <<<"$said" | sed -nE "s/.*\b([0-9]+) $1.*/\1/p"; }
    passed=$(number passed) failed=$(number failed) skipped=$(number skipped)
    [[ $said != *error* ]] || [ -n "$failed" ] || failed=$(number error)
    [ -n "$passed$failed$skipped" ] || failed=1
    count "${passed:-0}" "${failed:-0}" "${skipped:-0}" "$label"
    [ -z "$failed" ] || tail -n 60 <<<"$said"
}

# run_kernels_numpy: the host kernels alone in a shared object, against NumPy.
run_kernels_numpy() {
    local label='python/test_kernels_numpy' object=build/kernels.so
    need_python "$label" || return
    check 'kernels as a shared object' gcc -std=c11 -D_GNU_SOURCE -O3 -ffp-contract=off -fPIC \
        -shared -o "$object" backends/host/*_kernels.c \
        backends/host/{crc32,crc32_x86,exact_sum,kernel_spec}.c
    HR_KERNELS_SO=$PWD/$object run_pytest "$label" tests/python/test_kernels_numpy.py
}

# run_python BUILD: the package over the libraries of a build, and its types.
run_python() {
    need_python python/package || return
    HEADRACE_LIBRARY_DIR=$PWD/build/$1 PYTHONPATH=bindings/python time_limit=600 \
        run_pytest "$1: python/package" tests/python --ignore=tests/python/test_kernels_numpy.py
    check "$1: python/types" env HEADRACE_LIBRARY_DIR="$PWD/build/$1" \
        build/venv/bin/mypy --config-file bindings/python/pyproject.toml bindings/python/headrace
}

# installs_by_pip BUILD: in an environment of its own, as a user has it; it then needs no tool, and
# nothing of this folder. The code objects are the build's.
installs_by_pip() {
    local home python
    home=$(mktemp -d) python=$home/venv/bin/python
    python3 -m venv "$home/venv" &&
        "$python" -m pip install -q -C "cmake.define.HR_AMD_BUNDLE=$PWD/build/$1/gpu/builtin_kernels.hipfb" \
            ./bindings/python &&
        (cd "$home" && PATH=/nonexistent "$python" -m doctest \
            "$("$python" -c 'import headrace; print(headrace.__file__)')")
    local status=$?
    rm -rf "$home"
    return "$status"
}

run_pip() {
    need_python python/pip || return
    check "$1: python/pip install" installs_by_pip "$1"
}
