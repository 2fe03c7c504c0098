# SPDX-License-Identifier: Apache-2.0
# Functions of tests/run.sh: they count every test in n_passed, n_failed and n_skipped, and print a
# line for each program; what a program printed is shown when it fails.

n_passed=0 n_failed=0 n_skipped=0
time_limit=300 # seconds, each program
jobs=$(nproc)
skip_status=77 # of a plain main that could not run here

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
    local tool library missing=0 packages sudo=()
    packages=(gcc g++ make cmake pkg-config liburing-dev libzstd-dev libcriterion-dev zstd strace
        python3 python3-venv clang clang-format)
    for tool in gcc g++ make cmake pkg-config zstd strace python3 clang clang-format; do
        command -v "$tool" >/dev/null || missing=1
    done
    python3 -c 'import ensurepip' 2>/dev/null || missing=1
    for library in liburing libzstd criterion; do
        pkg-config --exists "$library" 2>/dev/null || missing=1
    done
    [ "$missing" -eq 1 ] || return 0
    if [ "$(id -u)" -ne 0 ]; then
        sudo=(sudo -n)
        sudo -n true 2>/dev/null || sudo=(false)
    fi
    if command -v apt-get >/dev/null && "${sudo[@]}" true &&
        "${sudo[@]}" apt-get update &&
        "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
            apt-get install -y --no-install-recommends "${packages[@]}"; then
        return 0
    fi
    echo "Some of these packages are missing and could not be installed; please install them:" >&2
    echo "    apt-get install ${packages[*]}" >&2
    return 1
}

configure() { # NAME CMAKE-OPTION...
    local dir=build/$1
    shift
    cmake -S . -B "$dir" -G "Unix Makefiles" -DCMAKE_EXPORT_COMPILE_COMMANDS=ON "$@"
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
        timeout "$time_limit" "$program" --verbose=1 >"$log" 2>&1 </dev/null
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
        count "$passing" "$failed" "$skipped" "$1: $2/$(program_name "$source")"
        [ "$failed" -eq 0 ] || tail -n 60 "$log"
    done
}

# run_main LABEL COMMAND...: a plain main: one test, or as many as its last line counts in the form
# "N passed, N failed, N skipped".
run_main() {
    local label=$1 log status counted='^([0-9]+) passed, ([0-9]+) failed, ([0-9]+) skipped$'
    shift
    log=$(mktemp)
    timeout "$time_limit" "$@" >"$log" 2>&1 </dev/null
    status=$?
    if [[ $(tail -n 1 "$log") =~ $counted ]] &&
        { [ "$status" -eq 0 ] || [ "${BASH_REMATCH[2]}" -gt 0 ]; }; then
        count "${BASH_REMATCH[@]:1}" "$label"
        grep '^not ok ' "$log"
    elif [ "$status" -eq 0 ] && ! grep -q 'ERROR: LeakSanitizer' "$log"; then
        count 1 0 0 "$label"
    elif [ "$status" -eq "$skip_status" ]; then
        count 0 0 1 "$label: $(tail -n 1 "$log")"
    else
        count 0 1 0 "$label (exit status $status)"
        tail -n 60 "$log"
    fi
    rm -f "$log"
}

# run_mains BUILD SUITE [WRAPPER...]: every program of tests/SUITE.
run_mains() {
    local in=$1 suite=$2 source name
    shift 2
    for source in $(sources "tests/$suite"/*.c); do
        name=$(program_name "$source")
        run_main "$in: $suite/$name" "$@" "build/$in/tests/$suite/$name"
    done
}

# run_replay BUILD: every fuzz target over its corpus.
run_replay() {
    local source name inputs
    for source in $(sources tests/fuzz/fuzz_*.c); do
        name=$(program_name "$source")
        mapfile -t inputs < <(sources "tests/fuzz/corpus/${name#fuzz_}"/*)
        run_main "$1: fuzz/$name, ${#inputs[@]} inputs" \
            "build/$1/tests/fuzz/${name}_replay" "${inputs[@]}"
    done
}

# run_cli BUILD: the scripts of tests/cli; each of their lines counts.
run_cli() {
    local script log status passed failed skipped
    log=$(mktemp)
    for script in $(sources tests/cli/*.sh); do
        HEADRACE=$PWD/build/$1/bin/headrace timeout "$time_limit" bash "$script" \
            >"$log" 2>&1 </dev/null
        status=$?
        passed=$(grep -c '^ok ' "$log")
        failed=$(grep -c '^not ok ' "$log")
        skipped=$(grep -c '^skip ' "$log")
        if [ "$failed" -eq 0 ] && { [ "$status" -ne 0 ] || [ $((passed + skipped)) -eq 0 ]; }; then
            failed=1 # it ended early
            echo "exit status $status" >>"$log"
        fi
        count "$passed" "$failed" "$skipped" "$1: cli/$(program_name "$script")"
        [ "$failed" -eq 0 ] || tail -n 60 "$log"
        [ "$skipped" -eq 0 ] || grep '^skip ' "$log"
    done
    rm -f "$log"
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

# run_kernels_numpy: the host kernels alone in a shared object, against NumPy in a virtual environment.
run_kernels_numpy() {
    local label='python/test_kernels_numpy' object=build/kernels.so said
    if ! { [ -x build/venv/bin/pytest ] || { python3 -m venv build/venv &&
        build/venv/bin/pip install -q numpy pytest; }; } >build/venv.log 2>&1; then
        rm -rf build/venv
        count 0 0 1 "$label: no virtual environment with numpy and pytest (build/venv.log)"
        return
    fi
    check 'kernels as a shared object' gcc -std=c11 -D_GNU_SOURCE -O3 -ffp-contract=off -fPIC \
        -shared -o "$object" backends/host/*_kernels.c \
        backends/host/{crc32,exact_sum,kernel_spec}.c
    said=$(HR_KERNELS_SO=$PWD/$object timeout "$time_limit" build/venv/bin/pytest -q \
        -p no:cacheprovider tests/python/test_kernels_numpy.py 2>&1)
    number() { sed -nE "s/.*\b([0-9]+) $1.*/\1/p" <<<"$said" | tail -n 1; }
    local passed failed skipped
    passed=$(number passed) failed=$(number '(failed|error)') skipped=$(number skipped)
    [ -n "$passed$failed$skipped" ] || failed=1
    count "${passed:-0}" "${failed:-0}" "${skipped:-0}" "$label"
    [ -z "$failed" ] || tail -n 40 <<<"$said"
}
