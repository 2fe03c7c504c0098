#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# headrace run, end to end, with both I/O engines. HEADRACE names the command.
# shellcheck disable=SC2317,SC2002,SC2086 # the checks are called by name; no name has spaces
headrace=$(realpath "${HEADRACE:-build/test/headrace}") || exit 1
work=$(mktemp -d) || exit 1
trap 'cd /; rm -rf "$work"' EXIT
cd "$work" || exit 1
mkdir kept
export LC_ALL=C XDG_CONFIG_HOME=$work/config
set -o pipefail
bad=0 chunk=65536

# check NAME COMMAND...: the command, in a subshell with an empty directory of its own.
check() {
    local name="$io: $1"
    shift
    rm -rf here && mkdir here
    (cd here && "$@") >log 2>&1 && echo "ok $name" && return
    echo "not ok $name"
    head -n 8 log | sed 's/^/    /'
    bad=1
}
skip() { echo "skip $io: $1 $2"; }
hr() { timeout -k 2 20 "$headrace" run "$@" --io "$io"; }
small() { hr "$@" --chunk 64K; }
# fails_with STATUS TEXT COMMAND...: ends with this status and says TEXT on stderr.
fails_with() {
    local want=$1 text=$2
    shift 2
    "$@" 2>said
    [ $? = "$want" ] && grep -qF -e "$text" said && rm said && return
    echo "wanted: status $want and '$text'" | cat - said >&2
    return 1
}
# slice OFFSET LENGTH FILE
slice() { tail -c +$(($1 + 1)) "$3" | head -c "$2" || true; }

sizes="0 1 4095 4096 4097 $((chunk - 1)) $chunk $((chunk + 1)) $((3 * chunk + 7))"
for size in $sizes; do head -c "$size" /dev/urandom >"kept/$size"; done
big=../kept/$((3 * chunk + 7))
head -c 5000003 /dev/urandom >kept/large
large=../kept/large
truncate -s 6G kept/sparse
for at in 4294967290 4294967296 4294967300 6442450940; do
    printf 'm%03d' $((at % 1000)) | dd of=kept/sparse bs=1 seek="$at" conv=notrunc status=none
done

file_to_file() { small "$1" out && cmp "$1" out; }
file_to_stdout() { small "$1" - >out && cmp "$1" out; }
file_to_pipe() { small "$1" - | cmp - "$1"; }
pipe_to_file() { cat "$1" | small - out && cmp "$1" out; }
trickle() {
    for i in 1 22 333 4444 55555; do echo "$i"; sleep 0.05; done | small - out
    printf '1\n22\n333\n4444\n55555\n' | cmp - out
}
nonblocking() { # and the pipe's flags are left
    timeout -k 2 20 python3 - "$headrace" "$io" $large <<'PY'
import os, subprocess, sys, threading, time
data = open(sys.argv[3], "rb").read()
(in_read, in_write), (out_read, out_write) = os.pipe(), os.pipe()
for end in in_read, out_write:
    os.set_blocking(end, False)
child = subprocess.Popen([sys.argv[1], "run", "-", "-", "--chunk", "64K", "--io", sys.argv[2]],
                         stdin=in_read, stdout=out_write)
os.close(out_write)
time.sleep(0.1)
threading.Thread(target=lambda: open(in_write, "wb").write(data)).start()
time.sleep(0.1)
same = open(out_read, "rb").read() == data
sys.exit(child.wait() != 0 or not same or os.get_blocking(in_read))
PY
}
fifos() {
    mkfifo in out
    timeout 20 cat $large >in &
    timeout 20 cat out >got &
    small in out && wait $! && cmp $large got && [ -p out ]
}
fd_at_offset() {
    exec 3<$big 4>out
    head -c 100 >&4 </dev/zero
    timeout 20 python3 -c 'import os; os.lseek(3, 777, os.SEEK_SET)' &&
        small fd:3 fd:4 && slice 777 999999 $big | cmp - <(tail -c +101 out)
}
several() {
    small ../kept/65537 ../kept/0 - ../kept/1 $big out <../kept/4097 &&
        cat ../kept/{65537,0,4097,1} $big | cmp - out
}
range() { small $big out --offset "$1" --length "$2" && slice "$1" "$2" $big | cmp - out; }
range_on_pipe() { # what is beyond the range stays in the pipe
    (small - out --offset "$1" --length "$2" && cat >rest) < <(cat $big) &&
        slice "$1" "$2" $big | cmp - out && slice $(($1 + $2)) 999999 $big | cmp - rest
}
range_of_open_pipe() {
    mkfifo pipe && exec 5<>pipe && cat ../kept/4097 >&5 &&
        small fd:5 - --offset 7 --length 90 | cmp - <(slice 7 90 ../kept/4097) &&
        timeout 20 head -c 4000 <&5 | cmp - <(slice 97 4000 ../kept/4097)
}
positions_move() { # of descriptors that several commands share
    { small - - --length 100 && small - - --offset 7 --length 70000 && cat; } <$big >out &&
        cmp out <(slice 0 100 $big; slice 107 999999 $big) &&
        small $big - >>out && small $big - >>out &&
        cmp out <(slice 0 100 $big; slice 107 999999 $big; cat $big $big)
}
cpuinfo() { small /proc/cpuinfo out && cmp <(grep ^proc out) <(grep ^proc /proc/cpuinfo); }
sparse() {
    small ../kept/sparse - --offset "$1" --length "$2" |
        cmp - <(dd if=../kept/sparse iflag=skip_bytes,count_bytes skip=$1 count=$2 status=none)
}
endless() { small /dev/zero - --length 300001 | cmp - <(head -c 300001 /dev/zero); }
full() {
    fails_with 1 "No space" small $big /dev/full && fails_with 1 "No space" small $big - >/dev/full
}
reader_vanishes() {
    fails_with 1 "" small /dev/zero - | head -c 1000 >out
    [ "${PIPESTATUS[0]}" = 0 ]
}
failure_keeps_old() {
    mkdir folder && echo old >target && fails_with 1 folder small $big folder target &&
        fails_with 1 folder small $big folder new || return
    (head -c 70000 /dev/zero; sleep 1) | fails_with 130 interrupted \
        timeout --preserve-status -s TERM 0.4 "$headrace" run - target --io "$io" --chunk 64K &&
        [ "$(cat target)" = old ] && rmdir folder && [ "$(ls -A)" = target ]
}
symlink_followed() {
    echo old >target && ln -s target link && small $big link && [ -L link ] && cmp $big target &&
        mkdir sub && ln -s sub/second first && ln -s third sub/second && # a chain to no file yet
        small $big first && [ -L first ] && [ -L sub/second ] && cmp $big sub/third
}
mode_kept() {
    echo old >out && chmod 604 out && small $big out && cmp $big out &&
        [ "$(stat -c %a out)" = 604 ] && (umask 027 && small $big new) &&
        [ "$(stat -c %a new)" = 640 ]
}
same_file() {
    cp $big a && ln a hard && ln -s a soft && for out in a ./a hard soft; do
        fails_with 1 a small a "$out" && fails_with 1 a small ../kept/1 a "$out" &&
            cmp $big a || return
    done
}
first_read_fails() { fails_with 1 "Input/output error" small /proc/self/mem out; }
standard_streams_closed() {
    fails_with 1 "standard input" small - out <&- && fails_with 1 "standard output" small $big - >&- &&
        small $big out <&- >&- 2>&- && cmp $big out
}
missing() { fails_with 1 no-such-input small no-such-input out && [ -z "$(ls -A)" ]; }
usage() {
    for words in "" --wrong "out --chunk x" "out --length -1" "out --io fast" "out --depth" \
        "b out --length 1" tcp://a fd:x; do
        fails_with 2 "" timeout 20 "$headrace" run $big $words && [ -z "$(ls -A)" ] || return
    done
}
interrupt() { # --foreground: the signal goes to the command alone
    mkfifo silent && exec 5<>silent && fails_with 130 interrupted timeout --foreground \
        --preserve-status -k 5 -s INT 0.5 "$headrace" run fd:5 out --io "$io" && [ ! -e out ]
}
at_once() {
    head -c 100 $big >want
    coproc small - -
    exec 6<&"${COPROC[0]}" 7>&"${COPROC[1]}"
    cat want >&7
    timeout 10 head -c 100 <&6 | cmp - want || return
    eval "exec 7>&- ${COPROC[1]}>&-"
    wait "$COPROC_PID"
}
# The leak check of a sanitized build does not work under strace.
traced() { ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 timeout -k 2 20 strace -f -qq -o trace "$@"; }
refused() {
    local inject=("inject=io_uring_setup:error=EPERM" "$headrace" run "$big" out)
    traced -e "${inject[@]}" --stats json 2>said && cmp $big out && rm out &&
        grep -F '"io": "threads"' said && fails_with 1 io_uring traced -e "${inject[@]}" --strict &&
        fails_with 1 io_uring traced -e "${inject[@]}" --io uring && [ ! -e out ]
}
eintr() { # not read: the loader of programs does not take EINTR from it
    local calls=io_uring_enter,write,preadv2,pwritev2,pread64,pwrite64,epoll_wait,epoll_pwait,poll,ppoll
    local inject=("inject=$calls:error=EINTR:when=3+7" "$headrace" run)
    cat $large | traced -e "${inject[@]}" - - --io "$io" --chunk 64K | cmp - $large &&
        grep -q INJECTED trace && traced -e "${inject[@]}" $large out --io "$io" --chunk 64K &&
        cmp $large out && grep -q INJECTED trace
}
memlock() { # an ordinary user may be refused the ring itself: auto then goes on with threads
    local limited=(timeout 20 prlimit --memlock=65536 "$headrace" run $large)
    "${limited[@]}" auto && cmp $large auto || return 1
    if "${limited[@]}" out --io "$io" 2>said; then
        cmp $large out
    else
        [ "$(id -u)" -ne 0 ] && [ "$io" = uring ] && grep "limit on locked memory" said
    fi
}
fsize() {
    echo old >out && fails_with 1 out timeout -k 2 20 prlimit --fsize=100000 \
        "$headrace" run $large out --io "$io" && [ "$(cat out)" = old ] && [ "$(ls -A)" = out ]
}
crc() {
    small "$1" null: --stats text 2>&1 | tail -n 1 | cmp - <(gzip -c1 "$1" | tail -c 8 |
        od -An -tx4 --endian=little -N4 | sed 's/^ /crc32 /')
}
depth() {
    hr $large out --chunk 4K --depth "$1" && cmp $large out &&
        cat $large | hr - - --chunk 4K --depth "$1" | cmp - $large
}

timeout 20 strace -f -qq -o trace true 2>/dev/null && can_trace=yes || can_trace=
for io in ${HR_TEST_IO:-uring threads}; do
    # only a refusal by the system is a skip: any other failure shows in the checks
    if [ $io = uring ] && ! refusal=$(hr kept/1 null: 2>&1) &&
        [[ $refusal == *"io_uring is not available"* ]]; then
        skip all "$refusal"
        continue
    fi
    for size in $sizes; do
        for way in file_to_file file_to_stdout file_to_pipe pipe_to_file crc; do
            check "$way $size" $way "../kept/$size"
        done
    done
    for span in {0,1,511,65535,65537}\ {1,4097,65536,131071} "0 0" "511 0" "65537 0" "196000 99999" "300000 5"; do
        check "range $span" range $span
        check "range_on_pipe $span" range_on_pipe $span
    done
    for span in "4294967289 5" "4294901763 200001" "4294967296 77777" "6442450001 99999"; do
        check "sparse $span" sparse $span
    done
    for name in trickle nonblocking fifos range_of_open_pipe fd_at_offset positions_move several \
        cpuinfo endless full reader_vanishes failure_keeps_old symlink_followed mode_kept \
        same_file first_read_fails standard_streams_closed missing usage interrupt at_once memlock fsize "depth 1" "depth 2"; do
        check "$name" $name
    done
    for name in refused eintr; do
        if [ $can_trace ]; then check $name $name; else skip $name "strace cannot trace"; fi
    done
done
exit $bad
