#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# headrace run between sockets by address, with both I/O engines. HEADRACE names the command.
# shellcheck disable=SC2317,SC2086 # the checks are called by name; no name has spaces
headrace=$(realpath "${HEADRACE:-build/test/headrace}") || exit 1
work=$(mktemp -d) || exit 1
trap 'cd /; rm -rf "$work"' EXIT
cd "$work" || exit 1
export LC_ALL=C XDG_CONFIG_HOME=$work/config
set -o pipefail
bad=0

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
hr() { timeout -k 2 20 "$headrace" run "$@" --io "$io" --chunk 64K; }
# fails_with STATUS TEXT COMMAND...: ends with this status and says TEXT on stderr.
fails_with() {
    local want=$1 text=$2
    shift 2
    "$@" 2>said
    [ $? = "$want" ] && grep -qF -e "$text" said && rm said && return
    echo "wanted: status $want and '$text'" | cat - said >&2
    return 1
}
# free_port: of the loopback, that nobody listens at.
free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}
# patiently COMMAND...: until it succeeds, as somebody must listen first.
patiently() {
    for _ in {1..100}; do "$@" 2>/dev/null && return; sleep 0.05; done
    "$@"
}

head -c 1000003 /dev/urandom >large
: >empty
large=../large

tcp_to_tcp() { # FILE: a sink that listens, a source that connects
    local port
    port=$(free_port)
    hr "$1" "tcp-listen://127.0.0.1:$port" &
    patiently hr "tcp://127.0.0.1:$port" out && wait $! && cmp "$1" out
}
unix_to_unix() { # FILE: a source that listens; its path is gone afterwards
    hr unix-listen:sock out &
    patiently hr "$1" unix:sock && wait $! && cmp "$1" out && [ ! -e sock ]
}
chain() { # FILE: three commands, compressed on the way
    hr unix-listen:two out --decode zstd &
    local last=$!
    patiently test -S two || return
    hr unix-listen:one unix:two --encode zstd &
    patiently test -S one && hr "$1" unix:one && wait $! && wait $last && cmp "$1" out
}
answers() { # each 100 bytes come back before the next are sent
    hr unix-listen:sock peer: --kernel scale:u8,2,1 &
    timeout 20 python3 - <<'PY' && wait $!
import socket, sys, time
s = socket.socket(socket.AF_UNIX)
for _ in range(200):
    try:
        s.connect("sock")
        break
    except OSError:
        time.sleep(0.05)
for i in range(50):
    s.sendall(bytes([i]) * 100)
    got = b""
    while len(got) < 100:
        got += s.recv(100)
    assert got == bytes([2 * i + 1]) * 100, i
s.shutdown(socket.SHUT_WR)
assert s.recv(1) == b""
PY
}
refused() {
    local port
    port=$(free_port)
    echo old >out && fails_with 1 "nobody listens" hr "tcp://127.0.0.1:$port" out &&
        [ "$(cat out)" = old ] && fails_with 1 "nobody listens" hr $large "tcp://127.0.0.1:$port"
}
connect_timeout() {
    fails_with 1 "waiting for a connection" hr unix-listen:sock out --connect-timeout 0.2 &&
        [ -z "$(ls -A)" ]
}
idle_timeout() {
    (head -c 777 $large; sleep 1) | fails_with 1 "after 777 bytes" hr - out --idle-timeout 0.2 &&
        [ -z "$(ls -A)" ]
}
min_fill() { # 600 bytes come at once, 100 are too few
    (head -c 100 $large; sleep 0.3; head -c 600 $large | tail -c 500; sleep 0.5) |
        hr - null: --min-fill 600 --stats json 2>said && grep -q '"chunks": 1,' said
}
receiver_vanishes() {
    hr /dev/zero unix-listen:sock 2>said &
    patiently hr unix:sock - --length 100 | wc -c >got
    wait $!
    [ $? = 1 ] && grep -q "at byte" said && [ "$(cat got)" = 100 ]
}
interrupt() { # while it listens, its path is removed
    fails_with 130 interrupted timeout --foreground --preserve-status -k 5 -s INT 0.5 \
        "$headrace" run unix-listen:sock out --io "$io" && [ -z "$(ls -A)" ]
}
# A handler runs on the main thread alone, which frees the pipeline: not beside it.
workers_take_no_signals() {
    "$headrace" run unix-listen:sock null: --kernel crc32 --device host --io "$io" &
    local pid=$! task mask n_workers=0 wrong=0
    patiently test -S sock
    for task in "/proc/$pid/task/"*; do
        [ "${task##*/}" = $pid ] && continue
        grep -q '^Name:.*iou-' "$task/status" && continue # the kernel's own
        mask=$(sed -n 's/^SigBlk:\s*//p' "$task/status")
        n_workers=$((n_workers + 1))
        [ $((0x$mask & 0x4002)) = $((0x4002)) ] || wrong=1 # SIGINT and SIGTERM
    done
    kill -INT $pid
    wait $pid
    [ $? = 130 ] && [ $n_workers -gt 0 ] && [ $wrong = 0 ]
}

for io in ${HR_TEST_IO:-uring threads}; do
    if [ $io = uring ] && ! refusal=$(hr empty null: 2>&1) &&
        [[ $refusal == *"io_uring is not available"* ]]; then
        echo "skip $io: all $refusal"
        continue
    fi
    for file in large empty; do
        for way in tcp_to_tcp unix_to_unix chain; do check "$way $file" $way ../$file; done
    done
    for name in answers refused connect_timeout idle_timeout min_fill receiver_vanishes interrupt \
        workers_take_no_signals; do
        check "$name" $name
    done
done
exit $bad
