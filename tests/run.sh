#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds headrace in build/ and runs every test. The last line counts them; the exit status is 0 if
# none failed, 1 if some did, 2 if the tools are not there. HR_TEST_IO limits the tests to one I/O
# engine: uring, threads or auto.
set -u
export LC_ALL=C.UTF-8
cd "$(dirname "$0")/.." || exit 2
. tests/support/run_lib.sh
. tests/support/run_python.sh

need_packages || exit 2
need_amd_clang
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
run_main 'test: conformance/conformance, cuda over a fake driver' \
    build/test/tests/conformance/conformance_fake_cuda cuda
run_gpu test
run_hip test 5
over_hip test 6 conformance/conformance_fake_cuda
over_hip test 5 conformance/conformance_fake_cuda 11
over_hip test 7 conformance/conformance_fake_cuda 11
run_hip_over_cuda test
run_kernels_numpy
run_python test
run_pip test
run_replay test
run_scripts test cli
run_mains test faults
run_scripts test faults
check 'README example' bash tests/support/readme_example.sh build/test

# Other circumstances: io_uring refused as containers do, an ordinary user, a single CPU
if build/test/tests/no_uring 1 true; then
    HR_TEST_IO=auto in_variant 'without io_uring' build/test/tests/no_uring 1
else
    count 0 0 1 'test without io_uring: the system takes no filter'
fi
as_ordinary_user
variant=' on one CPU'
wrapper=(taskset -c "$(taskset -cp $$ | sed -E 's/.*: *([0-9]+).*/\1/')")
run_criterion test pipeline
wrapper=() variant=''
run_tidy

# AddressSanitizer and UndefinedBehaviorSanitizer, with the asserts of a debug build
build asan all -DCMAKE_C_COMPILER=gcc -DHR_TESTS=ON -DHR_SANITIZE=address \
    -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS=-O1
run_criterion asan unit
run_criterion asan pipeline
run_mains asan conformance
run_main 'asan: gpu/emulate_builtin' build/asan/tests/gpu/emulate_builtin
run_main 'asan: conformance/conformance, cuda over a fake driver' \
    build/asan/tests/conformance/conformance_fake_cuda cuda 5
run_main 'asan: gpu/run_pipelines, cuda over a fake driver' \
    build/asan/tests/gpu/pipelines_fake_gpu cuda --quick
run_hip asan 6
for rocm in 5 6 7; do
    over_hip asan "$rocm" conformance/conformance_fake_cuda 31
done
run_mains asan faults
run_replay asan

# ThreadSanitizer; some kernels place memory where it does not expect it, hence setarch
if [ -n "$(sources tests/stress/*.c)" ]; then
    build tsan 'stress_tests faults_tests pipelines_fake_gpu' -DCMAKE_C_COMPILER=gcc \
        -DHR_TESTS=ON -DHR_SANITIZE=thread -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS=-O1
    plain_layout=()
    ! setarch "$(uname -m)" -R true 2>/dev/null || plain_layout=(setarch "$(uname -m)" -R)
    wrapper=("${plain_layout[@]}")
    run_mains tsan stress
    run_main 'tsan: faults/fault_cancel' build/tsan/tests/faults/fault_cancel
    run_main 'tsan: faults/fault_signals' build/tsan/tests/faults/fault_signals
    run_main 'tsan: gpu/run_pipelines, cuda over a fake driver' \
        build/tsan/tests/gpu/pipelines_fake_gpu cuda --quick
    for source in tests/faults/fault_gpu_*.c; do
        name=$(program_name "$source")
        run_main "tsan: faults/$name" "build/tsan/tests/faults/$name"
    done
    run_hip tsan 7 kernels loans errors many
    wrapper=()
fi

# The other compiler, and neither of the optional libraries
build clang all -DCMAKE_C_COMPILER=clang -DHR_TESTS=ON
build bare all -DCMAKE_C_COMPILER=gcc -DHR_TESTS=OFF -DHR_URING=OFF -DHR_ZSTD=OFF

# The other processor: its tools are installed only where HR_TEST_CROSS=install says so
run_cross ${HR_TEST_CROSS:+--"$HR_TEST_CROSS"}

echo "$n_passed passed, $n_failed failed, $n_skipped skipped"
[ "$n_failed" -eq 0 ]
