#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The command over faults below it: io_uring refused in several ways, short reads and writes, the nth
# operation that fails. HEADRACE names the command, HR_TEST_TOOLS the folder of the fault library.
# shellcheck disable=SC2317 # the checks are called by name
headrace=$(realpath "${HEADRACE:-build/test/bin/headrace}") || exit 1
tools=$(realpath "${HR_TEST_TOOLS:-build/test/tests}") || exit 1
work=$(mktemp -d) || exit 1
trap 'cd /; rm -rf "$work"' EXIT
cd "$work" || exit 1
export LC_ALL=C XDG_CONFIG_HOME=$work/config
bad=0
head -c 300007 /dev/urandom >in

check() { # NAME COMMAND...
    local name=$1
    shift
    rm -f out
    "$@" >log 2>&1 && echo "ok $name" && return
    echo "not ok $name"
    head -n 8 log | sed 's/^/    /'
    bad=1
}
run() { timeout -k 2 20 "$headrace" run "$@"; }
faulty() { # FAULTS COMMAND...
    local faults=$1
    shift
    timeout -k 2 20 env LD_PRELOAD="$tools/libhr_faults.so" HR_FAULTS="$faults" "$headrace" "$@"
}
refused() { # ERRNO TEXT: auto goes on with threads and says why; a forced ring says why not
    local refusing=(timeout -k 2 20 "$tools/no_uring" "$1" "$headrace" run in out)
    "${refusing[@]}" --stats text 2>said && cmp in out && grep -F "io: threads, because" said &&
        grep -F "$2" said && rm out && ! "${refusing[@]}" --io uring 2>said && grep -F "$2" said &&
        [ ! -e out ]
}
short() { # ENGINE CAP SEED
    faulty "cap=$2,seed=$3" run in out --io "$1" --chunk 64K && cmp in out &&
        faulty "cap=$2,seed=$3" run - - --io "$1" --chunk 64K <in | cmp - in
}
fails() { # FAULT TEXT: status 1, the text, no output
    faulty "$1" run in out --io threads --chunk 64K 2>said
    [ $? = 1 ] && grep -F "$2" said && [ ! -e out ]
}
allocations() { # until none fails: every failure is told and leaves nothing
    local n
    for n in {1..400}; do
        faulty "alloc=$n" run in out 2>said && cmp in out && rm out && continue
        [ ! -e out ] && grep headrace said || return
    done
}

if "$tools/no_uring" 1 true; then
    check 'io_uring is not permitted' refused 1 'Operation not permitted'
    check 'io_uring is not there' refused 38 'Function not implemented'
    check 'io_uring gets no memory' refused 12 'Cannot allocate memory'
else
    echo 'skip io_uring refused: the system takes no filter'
fi
for io in uring threads; do
    if [ $io = uring ] && ! run in null: --io uring >/dev/null 2>&1; then
        echo 'skip uring: not offered'
        continue
    fi
    for cap in 100 5000 70000; do
        check "$io: at most $cap bytes at once" short $io "$cap" 1
    done
done
check 'the second read fails' fails read=2:5 'Input/output error'
check 'the third write fails' fails write=3:28 'No space left'
check 'each allocation fails' allocations
exit $bad
