#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# headrace run with zstd data, against the stock commands zstd and pzstd, with both I/O engines.
# HEADRACE names the command.
# shellcheck disable=SC2317,SC2002,SC2086 # the checks are called by name; no name has spaces
headrace=$(realpath "${HEADRACE:-build/test/bin/headrace}") || exit 1
work=$(mktemp -d) || exit 1
trap 'cd /; rm -rf "$work"' EXIT
cd "$work" || exit 1
mkdir kept
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
skip() { echo "skip $io: $1 $2"; }
hr() { timeout -k 2 20 "$headrace" run "$@" --io "$io" --stats none; }
decode() { hr "$@" --decode zstd; }
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
# le VALUE BYTES: a little-endian number.
le() {
    local i value=$1
    for ((i = 0; i < $2; i++)); do
        # shellcheck disable=SC2059 # the format is the byte
        printf "\\x$(printf %02x $((value >> 8 * i & 255)))"
    done
}
# skippable VARIANT LENGTH: such a frame (RFC 8878, 3.1.2).
skippable() { le $((0x184D2A50 + $1)) 4 && le "$2" 4 && head -c "$2" /dev/urandom; }

# Inputs: half text, half noise.
{ seq 1 30000; head -c 300000 /dev/urandom; seq 1 90000; head -c 700003 /dev/urandom; } >kept/large
large=../kept/large
head -c 100000 kept/large >kept/100000
: >kept/0 && printf x >kept/1
for size in 0 1 100000 large; do zstd -q kept/$size -o kept/$size.zst; done
zstd -q --no-check kept/large -o kept/no-check.zst
zstd -q -c <kept/large >kept/piped.zst
zstd -q --no-content-size kept/large -o kept/no-size.zst
zstd -q -19 kept/large -o kept/level-19.zst
zstd -q --long=27 kept/large -o kept/long.zst
! pzstd -q -p 2 kept/large -o kept/pzstd.zst 2>log || have_pzstd=yes
for name in a b; do
    mkdir kept/samples
    for i in $(seq 300); do
        echo "{\"id\":$i,\"$name-name\":\"user$i\",\"$name\":$((i * i % 977))}" >kept/samples/$i
    done
    zstd -q --train kept/samples/* -o kept/dict-$name --maxdict=1000 2>>log
    cat kept/samples/{1,7,42} >kept/text-$name
    zstd -q -D kept/dict-$name kept/text-$name -o kept/text-$name.zst
    rm -r kept/samples
done

stock() { # FILE: as zstd -dc does, from a file and from a pipe, whatever the chunk size
    zstd -dc "$1" >want
    for chunk in 4K 1M; do
        decode "$1" out --chunk $chunk && cmp out want &&
            cat "$1" | decode - - --chunk $chunk | cmp - want &&
            cat "$1" | hr - - --decode auto --chunk $chunk --depth 1 | cmp - want || return
    done
}
joined() {
    cat ../kept/{0,1,100000,large,1,0,piped,no-check}.zst >all.zst
    stock all.zst && cat ../kept/{0,1,100000,large,1,0,large,large} | cmp - want
}
skipped() {
    { skippable 0 0; skippable 15 4; cat ../kept/1.zst; skippable 7 20000000
        cat ../kept/100000.zst; skippable 14 0; } >all.zst
    decode all.zst - | cmp - <(cat ../kept/{1,100000}) &&
        cat all.zst | decode - - --chunk 4K | cmp - <(cat ../kept/{1,100000})
}
encoded() { # LEVEL FRAME FILE: zstd takes it, and so do we, with ranges by the seek table
    local strict=--strict
    [ "$io" != auto ] || strict= # which would insist on io_uring
    hr "$3" out.zst --encode zstd:$1 --frame $2 --chunk 100K && zstd -q -t out.zst &&
        zstd -q -dc out.zst | cmp - "$3" && decode out.zst - | cmp - "$3" || return
    for span in "0 1" "70000 50000" "99999 900000" "999999999 5"; do
        # shellcheck disable=SC2086 # two words
        set -- "$1" "$2" "$3" $span
        decode out.zst back $strict --offset "$4" --length "$5" && slice "$4" "$5" "$3" | cmp - back ||
            return
    done
}
encoded_from_pipe() { (head -c 70001 $large; sleep 0.1; tail -c +70002 $large) | hr - - --encode zstd |
    tee out.zst | zstd -q -dc | cmp - $large && decode out.zst - --offset 70000 |
    cmp - <(tail -c +70001 $large); }
recoded() {
    cat ../kept/{large,piped,0}.zst | hr - out.zst --decode auto --encode zstd:1 --frame 300000 &&
        zstd -q -dc out.zst | cmp - <(cat $large $large)
}
several() { # raw and encoded in a row
    hr ../kept/100000 ../kept/large.zst ../kept/1 - out --decode auto <../kept/piped.zst &&
        cat ../kept/100000 $large ../kept/1 $large | cmp - out
}
range_without_table() {
    decode ../kept/large.zst out --offset 99999 --length 70000 --chunk 64K &&
        slice 99999 70000 $large | cmp - out &&
        decode - out --offset 99999 --length 70000 --chunk 4K < <(cat ../kept/large.zst) &&
        slice 99999 70000 $large | cmp - out
}
truncated() {
    local size
    size=$(stat -c %s ../kept/large.zst)
    echo old >out
    for less in 1 3 4 5 100 5000 500000; do
        head -c $((size - less)) ../kept/large.zst >cut.zst
        fails_with 1 cut.zst decode cut.zst out --chunk 4K && [ "$(cat out)" = old ] &&
            fails_with 1 "inside of the zstd frame" decode cut.zst out || return
    done
}
damaged() { # the checksum, which is the last four bytes
    cat ../kept/{100000,large}.zst >bad.zst
    printf 'oops' | dd of=bad.zst bs=1 seek=$(($(stat -c %s bad.zst) - 4)) conv=notrunc status=none
    echo old >out
    fails_with 1 checksum decode bad.zst out && [ "$(cat out)" = old ] &&
        fails_with 1 checksum decode bad.zst - >part && cmp -n 100000 part ../kept/100000 &&
        cmp -n "$(stat -c %s part)" part <(cat ../kept/{100000,large}) &&
        fails_with 1 checksum decode bad.zst null:
}
trailing() {
    local at
    at=$(stat -c %s ../kept/100000.zst)
    for rest in 1 3 4 512; do
        (cat ../kept/100000.zst; head -c $rest /dev/zero) >zeros.zst
        (cat ../kept/100000.zst; yes text | head -c $rest || true) >text.zst
        for file in zeros text; do
            fails_with 1 "at byte $at" decode $file.zst out && [ ! -e out ] || return
        done
    done
}
no_zstd() {
    for text in "" x xyz; do
        printf %s "$text" >stub.zst
        fails_with 1 "no zstd frame" decode stub.zst out && [ ! -e out ] || return
    done
    cp ../kept/text-a plain.zst
    fails_with 1 "no zstd" decode plain.zst out && fails_with 1 "no zstd" decode - out <plain.zst &&
        [ ! -e out ] && hr plain.zst out --decode auto && cmp out plain.zst
}
window() { # as zstd says it: -d refuses it too without --long=28
    head -c 30000000 /dev/zero | zstd -q -1 --long=28 >long.zst
    fails_with 1 --window-log decode long.zst null: && fails_with 1 268435456 decode long.zst null: &&
        decode long.zst null: --window-log 28
}
dictionary() {
    local id
    id=$(od -An -tu4 -j4 -N4 ../kept/dict-a | tr -d ' ')
    fails_with 1 "dictionary $id" decode ../kept/text-a.zst out &&
        fails_with 1 "another dictionary" decode ../kept/text-a.zst out --dict ../kept/dict-b &&
        decode ../kept/text-a.zst out --dict ../kept/dict-a && cmp out ../kept/text-a &&
        hr ../kept/text-b out.zst --encode zstd --dict ../kept/dict-b &&
        zstd -q -dc -D ../kept/dict-b out.zst | cmp - ../kept/text-b &&
        fails_with 1 dictionary decode out.zst out && fails_with 1 nowhere decode out.zst o --dict nowhere
}
flushed() { # what a slow sender sent comes out while the pipe is open
    mkfifo in && exec 5<>in
    "$headrace" run fd:5 - --decode zstd --io "$io" --stats none >out &
    cat ../kept/100000.zst >&5
    for _ in $(seq 100); do
        [ "$(stat -c %s out)" = 100000 ] && break
        sleep 0.05
    done
    kill -INT $! && wait $!
    cmp out ../kept/100000
}

for io in ${HR_TEST_IO:-uring threads}; do
    if [ $io = uring ] && ! refusal=$(hr kept/1 null: 2>&1) &&
        [[ $refusal == *"io_uring is not available"* ]]; then
        skip all "$refusal"
        continue
    fi
    for name in 0 1 large no-check piped no-size level-19 long; do
        check "stock $name" stock ../kept/$name.zst
    done
    if [ "$have_pzstd" ]; then
        check "stock pzstd" stock ../kept/pzstd.zst
    else
        skip "stock pzstd" "there is no pzstd"
    fi
    for size in 0 1 100000; do
        check "encoded 3 1M $size" encoded 3 1M ../kept/$size
        check "encoded 1 1000 $size" encoded 1 1000 ../kept/$size
    done
    for way in "-5 100001" "1 64K" "3 1M" "19 1M"; do
        # shellcheck disable=SC2086 # two words
        check "encoded $way large" encoded $way $large
    done
    for name in joined skipped encoded_from_pipe recoded several range_without_table truncated \
        damaged trailing no_zstd window dictionary flushed; do
        check $name $name
    done
done
exit $bad
