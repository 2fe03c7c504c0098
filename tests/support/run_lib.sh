# SPDX-License-Identifier: Apache-2.0
# Functions of tests/run.sh: they count every test in n_passed, n_failed and n_skipped, and print a
# line for each program; what a program printed is shown when it fails.

n_passed=0 n_failed=0 n_skipped=0
time_limit=300 # seconds, each program
jobs=$(nproc)
skip_status=77 # of a plain main that could not run here
wrapper=() # a command before each program of the tests
variant='' # what it does, behind the build's name in a line

# count PASSED FAILED SKIPPED LABEL
count() {
    n_passed=$((n_passed + $1)) n_failed=$((n_failed + $2)) n_skipped=$((n_skipped + $3))
    local word=ok
    [ "$3" -eq 0 ] || word=skip
    [ "$1" -eq 0 ] || word=ok
    [ "$2" -eq 0 ] || word='not ok'
    if [ $(($1 + $2 + $3)) -gt 1 ]; then
        printf '%s %s (%d passed, %d failed, %d skipped)\n' "$word" "$4" "$1" "$2" "$3"
    else
        printf '%s %s\n' "$word" "$4"
    fi
}

# check LABEL COMMAND...: one test, passed if the command succeeds.
check() {
    local label=$1 log
    shift
    log=$(mktemp)
    if "$@" >"$log" 2>&1 </dev/null; then
        count 1 0 0 "$label"
    else
        count 0 1 0 "$label"
        tail -n 60 "$log"
    fi
    rm -f "$log"
}

# need_packages: what the build and the tests use, installed if this user may.
need_packages() {
    need 'gcc g++ make cmake pkg-config zstd strace python3 clang clang-format clang-tidy' \
        'liburing libzstd criterion' gcc g++ make cmake pkg-config liburing-dev libzstd-dev \
        libcriterion-dev zstd strace python3 python3-venv clang clang-format clang-tidy || return
    python3 -c 'import ensurepip' 2>/dev/null || install_packages python3-venv || return
    [ -n "$(sources {/usr,/opt/rocm}/include/hip/hiprtc.h)" ] ||
        install_packages libamdhip64-dev >/dev/null 2>&1 || true # tests are skipped without
}

# need_amd_clang: the compiler of code objects for AMD's GPUs, where the distribution has it; what
# needs it is left out elsewhere.
need_amd_clang() {
    local packages=(clang-19 lld-19 clang-tools-19 llvm-19) log=build/amd_clang.log
    mkdir -p build
    need 'clang-19 ld.lld-19 clang-offload-bundler-19 llvm-readelf-19' '' \
        "${packages[@]}" >"$log" 2>&1 ||
        echo "No kernels for AMD's GPUs in this build: no ${packages[*]} ($log)"
}

# need TOOLS LIBRARIES PACKAGE...: if one of the tools or of pkg-config's libraries is missing, the
# packages are installed.
need() {
    local tool library
    for tool in $1; do
        command -v "$tool" >/dev/null || { install_packages "${@:3}"; return; }
    done
    for library in $2; do
        pkg-config --exists "$library" 2>/dev/null || { install_packages "${@:3}"; return; }
    done
}

# install_packages PACKAGE...: by apt, as root or by a sudo that does not ask; else says which.
install_packages() {
    local sudo=()
    if [ "$(id -u)" -ne 0 ]; then
        sudo=(sudo -n)
        sudo -n true 2>/dev/null || sudo=(false)
    fi
    if command -v apt-get >/dev/null && "${sudo[@]}" true &&
        "${sudo[@]}" apt-get update &&
        "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
            apt-get install -y --no-install-recommends "$@"; then
        return 0
    fi
    echo "Some of these packages are missing and could not be installed; please install them:" >&2
    echo "    apt-get install $*" >&2
    return 1
}

# The first build, "test", compiles the code objects, which takes a minute; the others take its, or
# have none.
configure() { # NAME CMAKE-OPTION...
    local dir=build/$1 made=$PWD/build/test/gpu/builtin_kernels.hipfb code=()
    if [ "$1" != test ]; then
        code=(-DHR_AMD_CLANG=OFF -DHR_AMD_BUNDLE=)
        if [ -s "$made" ] && [ -z "$(find backends/gpu/kernels -newer "$made")" ]; then
            code=(-DHR_AMD_BUNDLE="$made")
        fi
    fi
    shift
    cmake -S . -B "$dir" -G "Unix Makefiles" -DCMAKE_EXPORT_COMPILE_COMMANDS=ON "${code[@]}" "$@"
}

# compile NAME TARGETS [CMAKE-OPTION...]: configures and builds build/NAME; all that can be built is
# built, so that one broken file does not hide the rest.
compile() {
    local name=$1 target targets=()
    for target in $2; do
        targets+=(--target "$target")
    done
    shift 2
    configure "$name" "$@" || return
    cmake --build "build/$name" -j "$jobs" "${targets[@]}" -- -k
}

# build NAME TARGETS [CMAKE-OPTION...]: counts one test: it builds without a warning. If it does
# not, once more with warnings allowed, so that the programs can be run.
build() {
    local log=build/$1.log
    mkdir -p build
    if compile "$@" -DHR_WERROR=ON >"$log" 2>&1; then
        count 1 0 0 "build $1"
        return
    fi
    count 0 1 0 "build $1"
    grep -E -A 6 'error[: ]|Error|undefined reference' "$log" | head -n 60
    compile "$@" -DHR_WERROR=OFF >"$log" 2>&1
}

# sources GLOB...: the files that there are.
sources() {
    local file
    for file in "$@"; do
        [ ! -e "$file" ] || echo "$file"
    done
}

program_name() { # SOURCE
    basename "${1%.*}"
}

# run_criterion BUILD SUITE: the programs of tests/SUITE; each of their tests counts.
run_criterion() {
    local source program log status line tested passing skipped failed leaks
    for source in $(sources "tests/$2"/test_*.c); do
        program=build/$1/tests/$2/$(program_name "$source")
        log=$program.log
        mkdir -p "$(dirname "$log")"
        timeout "$time_limit" "${wrapper[@]}" "$program" --verbose=1 >"$log" 2>&1 </dev/null
        status=$?
        line=$(sed 's/\x1b\[[0-9;]*m//g' "$log" | grep 'Synthesis: Tested:' | tail -n 1)
        tested=$(sed -nE 's/.*Tested: *([0-9]+).*/\1/p' <<<"$line")
        passing=$(sed -nE 's/.*Passing: *([0-9]+).*/\1/p' <<<"$line")
        skipped=$(sed 's/\x1b\[[0-9;]*m//g' "$log" | grep -c '^\[SKIP\]')
        if [ -z "$tested" ]; then # did not start, or did not end
            tested=1 passing=0 skipped=0
            echo "exit status $status" >>"$log"
        fi
        failed=$((tested - passing))
        leaks=$(grep -cE 'ERROR: LeakSanitizer|ERROR: AddressSanitizer|runtime error:' "$log")
        if [ "$failed" -eq 0 ] && { [ "$status" -ne 0 ] || [ "$leaks" -gt 0 ]; }; then
            failed=1 # what the exit status of a test process does not tell
            passing=$((passing > 0 ? passing - 1 : 0))
        fi
        count "$passing" "$failed" "$skipped" "$1$variant: $2/$(program_name "$source")"
        [ "$failed" -eq 0 ] || tail -n 60 "$log"
    done
}

# count_lines LOG STATUS LABEL: counts a program's lines "ok ...", "not ok ..." and "skip ..."; one
# that ends badly without a "not ok" has failed once more.
count_lines() {
    local passed failed skipped
    passed=$(grep -c '^ok ' "$1")
    failed=$(grep -c '^not ok ' "$1")
    skipped=$(grep -c '^skip ' "$1")
    if [ "$failed" -eq 0 ] && { [ "$2" -ne 0 ] || [ $((passed + skipped)) -eq 0 ]; }; then
        failed=1
        echo "exit status $2" >>"$1"
    fi
    count "$passed" "$failed" "$skipped" "$3"
    [ "$failed" -eq 0 ] || grep -v '^ok ' "$1" | tail -n 60
    [ "$skipped" -eq 0 ] || grep '^skip ' "$1"
}

# run_main LABEL COMMAND...: a plain main: one test, or as many as it prints lines for.
run_main() {
    local label=$1 log status
    shift
    log=$(mktemp)
    timeout "$time_limit" "${wrapper[@]}" "$@" >"$log" 2>&1 </dev/null
    status=$?
    ! grep -q 'ERROR: LeakSanitizer' "$log" || status=1
    if grep -qE '^(ok|not ok|skip) ' "$log"; then
        count_lines "$log" "$status" "$label"
    elif [ "$status" -eq 0 ]; then
        count 1 0 0 "$label"
    elif [ "$status" -eq "$skip_status" ]; then
        count 0 0 1 "$label: $(tail -n 1 "$log")"
    else
        count 0 1 0 "$label (exit status $status)"
        tail -n 60 "$log"
    fi
    rm -f "$log"
}

# run_mains BUILD SUITE [PATTERN]: every program of tests/SUITE whose name does not fit the pattern.
run_mains() {
    local source name
    for source in $(sources "tests/$2"/*.c); do
        name=$(program_name "$source")
        [[ $name != ${3:-} ]] || continue
        run_main "$1$variant: $2/$name" "build/$1/tests/$2/$name"
    done
}

# run_replay BUILD: every fuzz target over its corpus.
run_replay() {
    local source name inputs
    for source in $(sources tests/fuzz/fuzz_*.c); do
        name=$(program_name "$source")
        mapfile -t inputs < <(sources "tests/fuzz/corpus/${name#fuzz_}"/*)
        run_main "$1$variant: fuzz/$name, ${#inputs[@]} inputs" \
            "build/$1/tests/fuzz/${name}_replay" "${inputs[@]}"
    done
}

# run_scripts BUILD SUITE [PATTERN]: the scripts of tests/SUITE whose name does not fit the pattern;
# each of their lines counts.
run_scripts() {
    local script
    for script in $(sources "tests/$2"/*.sh); do
        [[ $(program_name "$script") != ${3:-} ]] || continue
        HEADRACE=$PWD/build/$1/bin/headrace HR_TEST_TOOLS=$PWD/build/$1/tests \
            run_main "$1$variant: $2/$(program_name "$script")" bash "$script"
    done
}

# run_gpu BUILD: the kernels of GPUs: emulated, compiled for each vendor, and on a GPU if there is one;
# and whole pipelines on the host and over a fake driver.
run_gpu() {
    local name
    for name in emulate_builtin compile_nvrtc compile_hiprtc run_builtin run_lend; do
        run_main "$1: gpu/$name" "build/$1/tests/gpu/$name"
    done
    HR_LIBCUDA=$PWD/build/$1/tests/fake_cuda/libcuda.so.1 \
        run_main "$1: gpu/run_lend, over a fake driver" "build/$1/tests/gpu/run_lend"
    run_main "$1: gpu/run_pipelines, host" "build/$1/tests/gpu/run_pipelines" host
    run_main "$1: gpu/run_pipelines, cuda over a fake driver" \
        "build/$1/tests/gpu/pipelines_fake_gpu" cuda
    for name in check_ptx check_amd check_code_objects; do
        HR_GPU_MADE=$PWD/build/$1/gpu HR_LIST_BUILTIN=$PWD/build/$1/tests/gpu/list_builtin \
            run_main "$1: gpu/$name" bash "tests/gpu/$name.sh"
    done
}

# run_hip_over_cuda BUILD: the HIP backend over our library on top of CUDA, of each version, which is
# over the fake driver here; and what it makes of sources by the real compiler, if there is one.
run_hip_over_cuda() {
    local rocm folder
    for rocm in 5 6 7; do
        folder=$PWD/build/$1/tests/hip_over_cuda_$rocm
        local -x HR_REQUIRE=hip HR_LIBAMDHIP64=$folder/libamdhip64.so.$rocm LD_LIBRARY_PATH=$folder
        run_main "$1: conformance/conformance, HIP $rocm over CUDA" \
            "build/$1/tests/conformance/conformance_fake_cuda" hip 13
        run_main "$1: gpu/run_pipelines, HIP $rocm over CUDA" \
            "build/$1/tests/gpu/pipelines_fake_gpu" hip --quick ends kernels loans errors
        HR_LIBCUDA=$PWD/build/$1/tests/fake_cuda/libcuda.so.1 \
            run_main "$1: gpu/hip_abi, HIP $rocm over CUDA" "build/$1/tests/gpu/hip_abi" "$rocm"
        run_main "$1: gpu/compile_hiprtc, HIP $rocm over CUDA" \
            "build/$1/tests/gpu/compile_hiprtc" sm_90
    done
}

# over_hip BUILD ROCM PROGRAM [ARGUMENT...]: one that takes a device, over HIP's fake library of this
# version.
over_hip() {
    local dir=$PWD/build/$1/tests/fake_hip_$2
    run_main "$1: $3${4:+ $4}, hip over a fake ROCm $2" env LD_LIBRARY_PATH="$dir" \
        HR_LIBAMDHIP64="$dir/libamdhip64.so.$2" "build/$1/tests/$3" hip "${@:4}"
}

# run_hip BUILD ROCM [GROUP...]: faults over every version of it, and what takes longer over this one,
# of whole pipelines these groups or all; and the system's own.
run_hip() {
    local source name rocm versions
    for source in tests/faults/fault_gpu_*.c; do
        name=$(program_name "$source")
        versions='5 6 7'
        [[ $name != *_@(cancel|slow|steady) ]] || versions=$2
        [[ $1/$name != tsan/*_steady ]] || continue # it counts, which takes no second thread
        [[ $1 != tsan || $name == *_calls ]] || versions=$2 # what differs in threads is no version's
        for rocm in $versions; do
            over_hip "$1" "$rocm" "faults/$name"
        done
    done
    over_hip "$1" "$2" gpu/pipelines_fake_gpu --quick "${@:3}"
    [ ! -x "build/$1/bin/headrace" ] ||
        HEADRACE=$PWD/build/$1/bin/headrace run_main "$1: gpu/real_hip" bash tests/gpu/real_hip.sh
}

# in_variant WHAT COMMAND...: the tests of the pipeline and the command with COMMAND before each. The
# self-test goes through the same pipelines, and takes long over three drivers; bench measures.
in_variant() {
    variant=" $1"
    shift
    wrapper=("$@")
    run_criterion test pipeline
    run_scripts test cli 'test_@(selftest|bench)'
    wrapper=() variant=''
}

# as_ordinary_user: the same without root's rights to lock memory and to read everything, with the
# limit on locked memory that Linux has had since 5.16, in a copy that this user may read.
as_ordinary_user() {
    local user=65534 place here=$PWD
    if [ "$(id -u)" -ne 0 ] || ! setpriv --reuid="$user" --clear-groups true 2>/dev/null; then
        count 0 0 1 'test as another user: only root can become one'
        return
    fi
    place=$(mktemp -d)
    mkdir -p "$place/build/test"
    mkdir -p "$place/bindings" && cp -r bindings/cli "$place/bindings/" && cp -r tests "$place/" &&
        cp -a build/test/bin build/test/tests build/test/libheadrace.so* \
        "$place/build/test/"
    chmod -R a+rX "$place"
    cd "$place" || return
    in_variant 'as an ordinary user' env LD_LIBRARY_PATH="$place/build/test" HOME="$place" \
        prlimit --memlock=8388608 setpriv --reuid="$user" --regid="$user" --clear-groups
    cd "$here" || exit 2
    rm -rf "$place"
}

# run_cross [--install]: the tests of the build for arm64, if its tools are here.
run_cross() {
    local log=build/aarch64.run.log line status
    bash tests/cross_aarch64.sh "$@" >"$log" 2>&1 </dev/null
    status=$?
    line=$(tail -n 1 "$log")
    if [[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+)\ skipped$ ]]; then
        count "${BASH_REMATCH[@]:1}" aarch64
        [ "$status" -eq 0 ] || grep -vE '^ok ' "$log" | tail -n 60
    elif [ "$status" -eq "$skip_status" ]; then
        count 0 0 1 "aarch64: $line"
    else
        count 0 1 0 "aarch64 (exit status $status)"
        tail -n 60 "$log"
    fi
}

# check_format: the C files of the tree are as clang-format leaves them.
check_format() {
    local files file bad=0
    if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
        mapfile -t files < <(git ls-files -co --exclude-standard -- '*.c' '*.h')
    else
        mapfile -t files < <(find . -path ./build -prune -o -name '*.[ch]' -print)
    fi
    for file in "${files[@]}"; do
        [ -f "$file" ] || continue
        if ! clang-format --dry-run -Werror "$file" >/dev/null 2>&1; then
            echo "not formatted: $file (clang-format -i $file)"
            bad=1
        fi
    done
    return "$bad"
}

# tidy_one FILE: clang-tidy, with asserts, remembered by a stamp until the file, a header or the rules change.
tidy_one() {
    clang-tidy -p build/test --quiet --extra-arg=-UNDEBUG "$1" 2>/dev/null && touch "build/tidy/${1//\//_}"
}

# run_tidy: one test, the C files that changed since they were found clean, as many as there is time
# for; the rest are the next run's.
run_tidy() {
    local seconds=200 label='clang-tidy' log=build/tidy.log stamp file files=() newer
    if ! command -v clang-tidy >/dev/null; then
        count 0 0 1 "$label: it is not installed"
        return
    fi
    mkdir -p build/tidy
    newer=$(find .clang-tidy engine io compress backends bindings tests -name '*.h' \
        -printf '%T@ %p\n' -o -name .clang-tidy -printf '%T@ %p\n' | sort -n | tail -n 1)
    newer=${newer#* }
    for file in $(sources {engine,io,compress,backends}/*.c {backends,bindings}/*/*.c \
        bindings/python/native/*.c tests/{support,support/faults,faults,stress}/*.c); do
        stamp=build/tidy/${file//\//_}
        if [ ! "$stamp" -nt "$file" ] || [ ! "$stamp" -nt "$newer" ]; then
            files+=("$file")
        fi
    done
    export -f tidy_one
    printf '%s\0' "${files[@]}" |
        timeout "$seconds" xargs -0 -r -P "$jobs" -I{} bash -c 'tidy_one {}' >"$log" 2>&1
    local status=$?
    if grep -qE '(warning|error):' "$log"; then
        count 0 1 0 "$label"
        grep -E -A 4 '(warning|error):' "$log" | head -n 60
    elif [ "$status" -eq 124 ]; then
        count 0 0 1 "$label: ${#files[@]} files are too many for $seconds seconds; run it again"
    else
        count 1 0 0 "$label (${#files[@]} files)"
    fi
}
