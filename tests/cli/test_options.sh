#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The command's words, help, manual, completion, statistics, progress and results. HEADRACE names
# the command.
# shellcheck disable=SC2317,SC2086 # the checks are called by name; lists of words are split
# shellcheck disable=SC1091,SC2012,SC2013,SC2094 # our own names and words have no spaces
headrace=$(realpath "${HEADRACE:-build/test/bin/headrace}") || exit 1
cli=$(realpath "$(dirname "$0")/../../bindings/cli") || exit 1
work=$(mktemp -d) || exit 1
trap 'cd /; rm -rf "$work"' EXIT
cd "$work" || exit 1
export LC_ALL=C TMPDIR=$work XDG_CONFIG_HOME=$work/config
set -o pipefail
bad=0
head -c 300007 /dev/urandom >in

# check NAME COMMAND...: the command, in a subshell with an empty directory of its own.
check() {
    local name="$1"
    shift
    rm -rf here && mkdir here
    (cd here && "$@") >log 2>&1 && echo "ok $name" && return
    echo "not ok $name"
    head -n 8 log | sed 's/^/    /'
    bad=1
}
hr() { timeout -k 2 20 "$headrace" "$@"; }
run() { hr run ../in "$@"; }
json() { python3 -c "import json, sys; r = json.load(sys.stdin); $1"; } # PROGRAM
# says STATUS TEXT COMMAND...: ends with this status, says TEXT on stderr and nothing on stdout.
says() {
    local want=$1 text=$2
    shift 2
    "$@" 2>../said >../told
    [ $? = "$want" ] && grep -qF -e "$text" ../said && [ ! -s ../told ] && return
    echo "wanted: status $want and '$text'" | cat - ../said ../told >&2
    return 1
}
refuses() { # TEXT WORD...: as a wrong command line, and leaves nothing
    local text=$1
    shift
    says 2 "$text" run "$@" && [ -z "$(ls -A)" ]
}

wrong_words() {
    refuses "SOURCE and a SINK are wanted" &&
        refuses "--depth x: a whole number from 0 to 65536" out --depth x &&
        refuses "--depth 1K: a whole number from" out --depth 1K &&
        refuses "with K, M, G or T (powers of 1024), from 0 to 1073741824" out --chunk 2G &&
        refuses "--chunk 1kiB" out --chunk 1kiB && refuses "--chunk 1Ki" out --chunk 1Ki &&
        refuses "--chunk -1" out --chunk -1 && refuses "--chunk 1KK" out --chunk 1KK &&
        refuses "--offset 99999999999999999999" out --offset 99999999999999999999 &&
        refuses "--io fast: one of auto, uring and threads" out --io fast &&
        refuses "one of none, zstd and auto" out --decode gzip &&
        refuses "one of auto, off and on" out --direct yes &&
        refuses "one of none, text and json" out --stats xml &&
        refuses "none, zstd or zstd:LEVEL" out --encode lz4 &&
        refuses "none, zstd or zstd:LEVEL" out --encode zstd:23 &&
        refuses "none, zstd or zstd:LEVEL" out --encode zstd: &&
        refuses "from 10 to 31" out --window-log 32 &&
        refuses "auto, host, cuda:N and hip:N" out --device gpu &&
        refuses "auto, host, cuda:N and hip:N" out --device cuda: &&
        refuses "seconds are wanted" out --idle-timeout 1s &&
        refuses "seconds are wanted" out --connect-timeout inf &&
        refuses "unrecognized option '--wrong'" out --wrong &&
        says 2 "there is no command 'copy'; there are run, devices and bench" hr copy a b &&
        [ "$(wc -l <../said)" = 2 ] && grep "^Try 'headrace --help'" ../said &&
        says 2 "Usage:" hr && says 2 "too much" hr devices all
}
wrong_together() {
    refuses "one source" ../in out --offset 1 &&
        refuses "--unordered goes with a file or null:" - --unordered &&
        refuses "--stats-file goes with --stats" out --stats-file s &&
        refuses "another name" out --stats json --stats-file out &&
        refuses "--kernel-source or --kernel-image" out --entry f &&
        refuses "--entry is wanted" out --kernel-source ../in &&
        refuses "not two" out --entry f --kernel-source a --kernel-image b &&
        refuses "a kernel's name is empty" out --kernel "" &&
        refuses "goes with a --kernel" out --result r &&
        refuses "standard output has the data" - --kernel crc32 --result - &&
        refuses "standard output has the data" fd:1 --kernel crc32 --result - &&
        refuses "another name" out --kernel crc32 --result out &&
        refuses "another name" out --trace ../in
}
wrong_ends() {
    refuses "a host and a port" tcp://here && refuses "a host and a port" tcp://here: &&
        refuses "a host is missing" tcp://:80 && refuses "a host and a port" "tcp://[::1]" &&
        refuses "a path is missing" unix: && refuses "a path is missing" unix-listen: &&
        refuses "open descriptor" fd:x && refuses "open descriptor" fd: &&
        refuses "no tcp://" peer: &&
        says 2 "sink only" hr run null: out && says 2 "sink only" hr run peer: out &&
        says 2 "sink only" hr run device: out &&
        refuses "name is empty" "" || return
    for pair in tcp:127.0.0.1:9\ tcp://HOST:PORT udp://h:1\ tcp://HOST:PORT unix//x\ unix:PATH \
        null\ null: http://x\ "unix:PATH"; do
        set -- $pair
        refuses "$2 is meant? A file of this name is ./$1" "$1" &&
            says 2 "is meant? A file of this name is ./$1" hr run "$1" out || return
    done
    refuses "ports go from 0" tcp://localhost:99999 &&
        says 2 "ports go from 0" hr run tcp://localhost:99999 out
}
no_effect() { # noted, and refused where nothing may be silent
    for words in "--frame 1M" "--max-wait 5" "--min-fill 5" "--idle-timeout 5" "--streams 2" \
        "--connect-timeout 5" "--window-log 20 --decode none" "--dict ../in --decode none"; do
        says 0 "${words%% *} has no effect" run out --stats text $words && rm out &&
            refuses "${words%% *} has no effect" out --strict $words || return
    done
    hr run - null: --strict --io threads --idle-timeout 5 < <(cat ../in) && mkfifo fifo &&
        says 1 "--connect-timeout)" run fifo --strict --io threads --connect-timeout 0.1
}
sizes() {
    for size in 64K 64k 64KiB 65536; do
        run null: --chunk $size --stats json 2>../said && grep '"chunk_bytes": 65536,' ../said ||
            return
    done
}
memory() {
    says 1 "(max_memory, --memory)" run out --memory 64K --chunk 256K &&
        says 0 " leased of at most 1.05 MB" run out --memory 1M --stats text && cmp ../in out
}
plain_words() {
    says 1 "create no/out: the folder no is not there" run no/out || return
    hr run ../in - 2>../said >/dev/full && return 1
    grep "standard output" ../said && ! grep "descriptor" ../said || return
    timeout 20 "$headrace" run /dev/zero - 2>../said | head -c 1 >one
    [ "${PIPESTATUS[0]}" = 1 ] && grep "standard output was closed by its reader" ../said
}
like_words() { # files whose names look like other ends
    for name in null: peer: device: fd:3 tcp: -; do
        run "./$name" && cmp ../in "./$name" && hr run "./$name" out && cmp ../in out || return
    done
}
wrong_files() {
    says 1 "--dict none: No such file" run out --dict none &&
        says 1 "--dict /dev/null: the file is empty" run out --dict /dev/null &&
        says 1 "--kernel-image .: Is a directory" run out --kernel-image . --entry f &&
        says 1 "larger than" run out --dict /dev/zero && [ -z "$(ls -A)" ] || return
    echo text >k.cu && printf 'a\0b' >nul &&
        says 1 "NUL byte" run out --kernel-source nul --entry f &&
        for args in abc ./ab; do # an odd number of digits, and a file by force
            says 1 "--kernel-args $args: No such" run out --kernel-source k.cu --entry f \
                --kernel-args $args || return
        done
}
not_there() { says 1 "no-such" hr run no-such out && says 1 "no/folder" run no/folder; }

helps() {
    hr --help >help && grep -q "headrace run SOURCE" help && hr --version >version &&
        grep -qx 'headrace [0-9.]*' version && hr help | cmp - help && hr -h | cmp - help || return
    for command in run devices bench; do
        hr $command --help >help && hr $command -h | cmp - help &&
            grep -q "Exit status" help && hr $command --version >again &&
            cmp version again && hr $command --usage >/dev/null || return
    done
    says 1 "standard output: No space" full_stdout
}
full_stdout() { hr --help >/dev/full; }
long_options() { hr "$1" --help | grep -oE -- '--[a-z][a-z-]+' | sort -u; } # COMMAND
offered() { # what the completion gives for this line
    (
        . "$cli/headrace.bash"
        COMP_LINE=$1 COMP_POINT=${#1}
        read -ra COMP_WORDS <<<"$1"
        COMP_WORDS[0]=$headrace
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        [ "${1: -1}" != " " ] || COMP_CWORD=$((COMP_CWORD + 1))
        _headrace
        [ ${#COMPREPLY[@]} = 0 ] || printf '%s\n' "${COMPREPLY[@]}"
    )
}
manual_is_complete() {
    sed 's/\\-/-/g' "$cli/headrace.1" >page
    for command in run devices bench; do
        [ "$(long_options $command | wc -l)" -ge 4 ] || return
        for option in $(long_options $command); do
            grep -qE -- "^\.B.*$option( |\"|,|$)" page || { echo "missing: $option"; return 1; }
        done
    done
}
manual_is_true() { # no option that does not exist, and its format is right
    for command in run devices bench; do long_options $command; done >known
    for option in $(sed 's/\\-/-/g' "$cli/headrace.1" | grep -oE -- '--[a-z][a-z-]+' | sort -u); do
        grep -qxF -e "$option" known || { echo "unknown: $option"; return 1; }
    done
    ! command -v groff >/dev/null || [ -z "$(groff -man -Tascii -ww -z "$cli/headrace.1" 2>&1)" ]
}
completion_is_complete() {
    for command in run devices bench; do
        diff <(long_options $command) <(offered "headrace $command --" | sort -u) || return
    done
}
completes() {
    [ "$(offered "headrace r")" = run ] && [ "$(offered "headrace run a --stats j")" = json ] &&
        [ "$(offered "headrace run a --stats=t")" = text ] &&
        [ "$(offered "headrace run a --io ")" = $'auto\nuring\nthreads' ] &&
        [ "$(offered "headrace run a --depth ")" = "" ] &&
        [ "$(offered "headrace run a --device cuda:")" = $'0\nGPU-' ] &&
        [ "$(offered "headrace run a nul")" = null: ] &&
        [ "$(offered "headrace run a unix-l")" = unix-listen: ] &&
        [ "$(offered "headrace run a --kernel his")" = histogram ] &&
        [ "$(offered "headrace run a --kernel bswap:")" = $'2\n4\n8' ] &&
        [ "$(offered "headrace bench load")" = $'load\nload-zst' ] || return
    touch filed && [ "$(offered "headrace run fil")" = filed ] &&
        [ "$(offered "headrace bench --tune fil")" = filed ] &&
        [ "$(offered "headrace run a b --dict fil")" = filed ]
}
enum_words_agree() { # between --help and the completion
    for option in decode io direct stats; do
        words=$(hr run --help | sed -nE "s/^ *--$option=([a-z|]+) .*/\1/p" | tr '|' '\n')
        [ -n "$words" ] && [ "$(offered "headrace run a --$option ")" = "$words" ] || return
        for word in $words; do run null: --$option $word 2>&1 | grep -q "one of" && return 1; done
    done
    return 0
}

quiet() { run out >../said 2>&1 && [ ! -s ../said ] && cmp ../in out; }
table() {
    says 0 "stage " run out --stats text --chunk 64K &&
        grep -E '^read +5 +300 kB +300 kB ' ../said &&
        grep -E '^write +5 +300 kB +300 kB ' ../said && grep -E '^wall [0-9.]+ s, .*B/s$' ../said &&
        grep -E '^io: (uring|threads)' ../said && cmp ../in out
}
table_of_failure() {
    says 1 "No space" run /dev/full --stats text && grep '^read ' ../said &&
        tail -n 1 ../said | grep 'No space'
}
stats_json() {
    run null: --stats json --chunk 64K 2>../said && json "
import zlib
assert r['crc32'] == zlib.crc32(open('../in', 'rb').read())
assert list(r['stages']) == 'read decode H2D kernel D2H encode write'.split()
for stage in 'read', 'write':
    assert r['stages'][stage]['chunks'] == 5 and r['stages'][stage]['bytes_in'] == 300007
assert r['crc32_hex'] == '%08x' % r['crc32'] and r['error'] is None and r['results'] == []
assert r['wall_ns'] > 0 and r['chunk_bytes'] == 65536 and r['io'] in ('uring', 'threads')
assert all(type(note) is str for note in r['notes'])
" <../said
}
stats_of_failure() {
    says 1 "No space" run /dev/full --stats json --stats-file s && json "
assert r['error']['code'] == 'HR_EIO' and r['error']['stage'] == 'write'
assert r['error']['native'] == 28 and 'No space' in r['error']['text']" <s || return
    says 1 "no-such" hr run no-such out --stats json --stats-file s &&
        json "assert r['error']['stage'] == 'read' and 'stages' not in r" <s
}
stats_file() {
    run null: --stats text --stats-file s 2>../said && [ ! -s ../said ] && grep '^read ' s &&
        says 1 "--stats-file no/s: No such file" run null: --stats text --stats-file no/s
}
found_in_words() {
    says 0 "sum:u8 = 6 of 3 units" hr run <(printf '\1\2\3') null: --kernel sum:u8 \
        --kernel histogram && grep "histogram: 256 bins, 3 units, most in bin 1" ../said || return
    run null: --kernel crc32 --stats none 2>../said && [ ! -s ../said ] &&
        run null: --kernel crc32 --result found 2>../said && [ ! -s ../said ] &&
        run null: --kernel crc32 --stats json 2>../said &&
        json "assert r['results'][0]['values'] == [r['crc32']]" <../said
}
decoded_under_its_name() {
    run a.zst --encode zstd && says 0 "name ends in .zst" hr run a.zst b.zst --stats text &&
        cmp ../in b.zst && hr run a.zst c.zst --stats text --decode none 2>../said &&
        ! grep "name ends" ../said && cmp a.zst c.zst
}
waits_for_connection() {
    says 1 "--connect-timeout)" hr run unix-listen:s null: --progress --connect-timeout 0.6 &&
        grep "waiting for a connection" ../said
}
# terminal WIDTH WORD...: runs the command on a pseudo terminal, fed with four pieces of input a
# quarter of a second apart; prints what it drew.
terminal() {
    timeout -k 2 20 python3 - "$headrace" "$@" <<'PY'
import fcntl, os, pty, struct, subprocess, sys, termios, threading, time
command, width, words = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
master, slave = pty.openpty()
fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
child = subprocess.Popen([command, "run", *words], stdin=subprocess.PIPE, stderr=slave,
                         stdout=slave if words[1] == "-" else subprocess.DEVNULL)
os.close(slave)
drawn = []
def read():
    try:
        while piece := os.read(master, 4096):
            drawn.append(piece)
    except OSError: # the other end is closed
        pass
reader = threading.Thread(target=read)
reader.start()
try:
    for piece in range(4):
        child.stdin.write(b"x" * 100000)
        child.stdin.flush()
        time.sleep(0.25)
    child.stdin.close()
except BrokenPipeError:
    pass
reader.join()
sys.stdout.buffer.write(b"".join(drawn))
sys.exit(child.wait())
PY
}
# What a terminal of this width shows in the end; fails if a line was drawn beyond its width.
screen() {
    python3 -c '
import sys
width, row, column, shown = int(sys.argv[1]), [], 0, []
for c in sys.stdin.read().replace("\r\n", "\n"):
    if c == "\r":
        column = 0
    elif c == "\n":
        shown.append("".join(row).rstrip())
        row, column = [], 0
    else:
        row[column:column + 1] = [c]
        column += 1
        if column >= width and not shown and "headrace:" not in "".join(row):
            sys.exit("a line of progress wraps")
print("\n".join(shown + ["".join(row).rstrip()]))' "$1"
}
progress_draws() { # and leaves one line
    terminal 80 - null: >drawn && [ "$(tr -cd '\r' <drawn | wc -c)" -ge 4 ] &&
        [ "$(tr -cd '\r' <drawn | wc -c)" -le 12 ] && grep -q 'kB/s' drawn || return
    screen 80 <drawn >shown && [ "$(wc -l <shown)" = 2 ] && cat shown &&
        head -n 1 shown | grep -E '^headrace: 400 kB, .*wall [0-9.]+ s, .*B/s$'
}
progress_is_narrow() {
    terminal 20 - null: >drawn && screen 20 <drawn >shown &&
        head -n 1 shown | grep '^headrace: 400 kB'
}
progress_beside_data() { # the terminal has the data: nothing is drawn between them
    terminal 80 - - >drawn && head -c 400000 /dev/zero | tr '\0' x | cmp - drawn
}
progress_before_error() {
    terminal 80 - /dev/full >drawn
    [ $? = 1 ] && screen 80 <drawn >shown && head -n 1 shown | grep '^headrace: .*No space'
}
progress_before_table() {
    terminal 80 - null: --stats text >drawn && screen 80 <drawn >shown &&
        head -n 1 shown | grep '^stage ' && ! grep '^headrace:' shown
}
progress_not_wanted() {
    terminal 80 - null: --no-progress >drawn && [ ! -s drawn ] &&
        (sleep 0.6; cat ../in) | hr run - null: 2>drawn && [ ! -s drawn ]
}
progress_forced() {
    (head -c 1000 ../in; sleep 0.7) | hr run - null: --progress 2>drawn && grep -q 'kB' drawn &&
        tail -n 1 drawn | grep 'headrace: 1.00 kB'
}
progress_knows_the_total() { # of a file, where the library tells it
    truncate -s 2G large && hr run large null: --stats json 2>json || return
    json 'sys.exit(not r["total_bytes_in"])' <json || return 0
    hr run large null: --progress --threads 1 2>drawn && tr '\r' '\n' <drawn >lines &&
        { [ "$(wc -l <lines)" -le 2 ] || grep -E '^ *[0-9]+ %.* of 2\.15 GB .* left' lines; }
}

results() {
    printf '\001\000\001\000\000\200\370\177' >eight
    chain="--kernel sum:u8 --kernel bswap:8 --kernel bswap:8 --kernel min:i64 --kernel max:f16"
    chain="$chain --kernel min:f16 --kernel max:f64 --kernel histogram"
    umask 027
    hr run eight out --device host $chain --result found && cmp eight out &&
        [ "$(stat -c %a found)" = 640 ] && [ "$(ls -A | tr '\n' ' ')" = "eight found out " ] &&
        hr run eight null: --device host $chain --result - | cmp - found && json "
import math
assert [x['kernel'] for x in r] == 'sum:u8 min:i64 max:f16 min:f16 max:f64 histogram'.split()
assert [x['n_units'] for x in r] == [8, 1, 4, 4, 1, 8]
values = [x['values'] for x in r]
assert values[0] == [505] and values[1] == [0x7ff8800000010001] and values[2] == [2.0 ** -24]
assert values[3] == [0] and math.copysign(1, values[3][0]) == -1 and values[4] == ['nan']
assert len(values[5]) == 256 and sum(values[5]) == 8 and values[5][:2] == [3, 2]
assert [x['type'] for x in r][1:5] == ['i64', 'f16', 'f16', 'f64']
" <found
}
results_not_of_failures() {
    echo old >found && says 1 "No space" run /dev/full --kernel crc32 --result found &&
        [ "$(cat found)" = old ] &&
        says 1 "--result no/found" run out --kernel crc32 --result no/found &&
        ln -s found link && run null: --kernel crc32 --result link && [ -L link ] &&
        json 'assert r[0]["kernel"] == "crc32"' <found &&
        [ "$(ls -A | tr '\n' ' ')" = "found link out " ]
}

devices() {
    hr devices >list && grep -E '^host +present ' list && grep -E '^I/O +(uring|threads)' list &&
        hr devices --json | json "
host = [d for d in r['devices'] if d['name'] == 'host']
assert len(host) == 1 and host[0]['present'] is True
assert all(d['present'] or d['why'] for d in r['devices'])
assert r['io'] in ('uring', 'threads') and type(r['io_why']) is str"
}
interrupted_twice() { # what waits for the peer of a FIFO ends, too
    mkfifo silent && timeout -k 1 20 python3 - "$headrace" <<'PY'
import signal, subprocess, sys, time
child = subprocess.Popen([sys.argv[1], "run", "silent", "out"], stderr=subprocess.DEVNULL)
for _ in range(2):
    time.sleep(0.4)
    child.send_signal(signal.SIGINT)
sys.exit(child.wait(5) not in (-signal.SIGINT, 130, 1))
PY
}
interrupt_is_told() { # where someone watches
    mkfifo silent && exec 5<>silent && says 130 "interrupt again to end at once" timeout \
        --foreground --preserve-status -k 5 -s INT 0.5 "$headrace" run fd:5 out --progress
}
signalled_as_by_timeout() { # twice at the same time is one request, which leaves nothing
    mkfifo silent && exec 5<>silent && head -c 50000 ../in >&5 || return
    timeout -k 1 20 python3 - "$headrace" <<'PY' && [ "$(ls -A)" = silent ]
import signal, subprocess, sys, time
child = subprocess.Popen([sys.argv[1], "run", "fd:5", "out"], pass_fds=[5],
                         stderr=subprocess.DEVNULL)
time.sleep(0.4)
for _ in range(2):
    child.send_signal(signal.SIGTERM)
    time.sleep(0.001)
sys.exit(child.wait(5) != 130)
PY
}
stderr_vanishes() { # the transfer is done all the same
    run out --stats text 2> >(exec true) && cmp ../in out
}

outputs_beside_the_data() { # under another name of a source or the sink, or twice the same
    local name
    ln -s ../in link
    for name in ../here/../in link ./out "$PWD/out"; do
        says 2 "is a source or the sink" hr run ../in out --kernel sum:u8 --result "$name" &&
            says 2 "is a source or the sink" hr run ../in out --trace "$name" || return
    done
    says 2 "is given twice" hr run ../in out --kernel sum:u8 --result found --trace ./found &&
        [ ! -e out ] && [ ! -e found ] && [ "$(stat -c %s ../in)" = 300007 ] &&
        hr run ../in out --kernel sum:u8 --result found && [ -s found ] && cmp ../in out
}

for name in wrong_words wrong_together wrong_ends no_effect sizes memory plain_words \
    outputs_beside_the_data stats_of_failure stats_file found_in_words decoded_under_its_name waits_for_connection \
    like_words wrong_files not_there helps \
    manual_is_complete manual_is_true completion_is_complete completes enum_words_agree quiet \
    table table_of_failure stats_json progress_draws progress_is_narrow progress_beside_data \
    progress_before_error progress_before_table progress_not_wanted progress_forced \
    progress_knows_the_total results results_not_of_failures devices \
    interrupted_twice interrupt_is_told signalled_as_by_timeout stderr_vanishes; do
    check $name $name
done
exit $bad
