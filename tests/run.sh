#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds headrace in build/ and runs every test. The last line counts them; the exit status is 0 if
# none failed, 1 if some did, 2 if the tools are not there.
set -u
export LC_ALL=C.UTF-8
cd "$(dirname "$0")/.." || exit 2
. tests/support/run_lib.sh

need_packages || exit 2
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1}

# The sources
check 'layers' bash tests/support/check_layers.sh
check 'format' check_format
header=engine/include/headrace.h
strict=(-Wall -Wextra -Wpedantic -Werror -fsyntax-only)
check 'header as C11' gcc -std=c11 "${strict[@]}" -x c "$header"
check 'header as C17' gcc -std=c17 "${strict[@]}" -x c "$header"
check 'header as C++17' g++ -std=c++17 "${strict[@]}" -x c++ "$header"

# gcc, as it is shipped
build test all -DCMAKE_C_COMPILER=gcc -DHR_TESTS=ON
run_criterion test unit
run_criterion test pipeline
run_mains test conformance
run_kernels_numpy
run_replay test
run_cli test
check 'README example' bash tests/support/readme_example.sh build/test

# AddressSanitizer and UndefinedBehaviorSanitizer, with the asserts of a debug build
build asan all -DCMAKE_C_COMPILER=gcc -DHR_TESTS=ON -DHR_SANITIZE=address \
    -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS=-O1
run_criterion asan unit
run_criterion asan pipeline
run_mains asan conformance
run_replay asan

# ThreadSanitizer; some kernels place memory where it does not expect it, hence setarch
if [ -n "$(sources tests/stress/*.c)" ]; then
    build tsan stress_tests -DCMAKE_C_COMPILER=gcc -DHR_TESTS=ON -DHR_SANITIZE=thread \
        -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS=-O1
    plain_layout=()
    ! setarch "$(uname -m)" -R true 2>/dev/null || plain_layout=(setarch "$(uname -m)" -R)
    run_mains tsan stress "${plain_layout[@]}"
fi

# The other compiler, and neither of the optional libraries
build clang all -DCMAKE_C_COMPILER=clang -DHR_TESTS=ON
build bare all -DCMAKE_C_COMPILER=gcc -DHR_TESTS=OFF -DHR_URING=OFF -DHR_ZSTD=OFF

echo "$n_passed passed, $n_failed failed, $n_skipped skipped"
[ "$n_failed" -eq 0 ]
