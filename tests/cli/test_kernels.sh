#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# headrace run --kernel and --result: kernels against stock tools and Python, wrong words, and what
# is left of a failure. HEADRACE names the command.
# shellcheck disable=SC2317,SC2086 # the checks are called by name; lists of words are split
headrace=$(realpath "${HEADRACE:-build/test/bin/headrace}") || exit 1
work=$(mktemp -d) || exit 1
trap 'cd /; rm -rf "$work"' EXIT
cd "$work" || exit 1
export LC_ALL=C TMPDIR=$work XDG_CONFIG_HOME=$work/config
set -o pipefail
bad=0
head -c 240000 /dev/urandom >in

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
run() { timeout -k 2 20 "$headrace" run "$@" --device host; }
# fails_with STATUS TEXT COMMAND...: ends with this status and says TEXT on stderr.
fails_with() {
    local want=$1 text=$2
    shift 2
    "$@" 2>../said
    [ $? = "$want" ] && grep -qF -e "$text" ../said && return
    echo "wanted: status $want and '$text'" | cat - ../said >&2
    return 1
}
python() { timeout 20 python3 -c "import array, json, zlib
data = open('../in', 'rb').read()
$1"; } # PROGRAM

bytes_are_swapped() {
    run ../in - --kernel bswap:2 --chunk 1001 | cmp - <(dd if=../in conv=swab status=none)
}
shuffle_and_back() {
    run ../in out --kernel shuffle:4,12 --chunk "$1" --streams "$2" --depth 3 &&
        ! cmp -s ../in out && run out - --kernel unshuffle:4,12 | cmp - ../in
}
over_pipes() { # units of 12 bytes, though pieces come as they like
    { head -c 7 ../in; sleep 0.05; tail -c +8 ../in; } |
        run - - --kernel shuffle:4,12 --kernel unshuffle:4,12 --chunk 5000 | cmp - ../in
}
over_sources() {
    head -c 50001 ../in >a && tail -c +50002 ../in >b &&
        run a - out --kernel bswap:8 --kernel bswap:8 <b && cmp out ../in
}
encoded() {
    run ../in out --kernel bswap:8 --encode zstd --frame 10007 &&
        run out - --decode zstd --kernel bswap:8 --chunk 4099 | cmp - ../in
}
results_are_right() {
    run ../in out --chunk "$1" --streams "$2" --kernel crc32 --kernel sum:i16 --kernel min:u8 \
        --kernel filter:u8,lt,100 --kernel crc32 --kernel count:u8,lt,50 --kernel histogram \
        --result found &&
        python "
kept = bytes(x for x in data if x < 100)
assert open('out', 'rb').read() == kept
r = json.load(open('found'))
assert [x['kernel'] for x in r] == 'crc32 sum:i16 min:u8 crc32 count:u8,lt,50 histogram'.split()
assert [x['n_units'] for x in r] == [len(data), len(data) // 2, len(data)] + [len(kept)] * 3
assert r[0]['values'] == [zlib.crc32(data)] and r[1]['values'] == [sum(array.array('h', data))]
assert r[2]['values'] == [min(data)] and r[3]['values'] == [zlib.crc32(kept)]
assert r[4]['values'] == [sum(x < 50 for x in kept)]
assert r[5]['values'] == [kept.count(i) for i in range(256)]"
}
results_of_nothing() {
    : >empty && run empty out --kernel crc32 --kernel sum:f32 --kernel max:i16 --kernel mean:u8 \
        --kernel filter:u8,lt,3 --kernel histogram --result found && [ ! -s out ] && python "
r = json.load(open('found'))
assert [x['n_units'] for x in r] == [0] * 5
assert [x['values'] for x in r] == [[0], [0.0], [], ['nan'], [0] * 256]"
}
wrong_kernels() {
    for words in "sun:f32 histogram" "sum:u64 bf16" "bswap:3 2,~4" "filter:u8,is,3 lt~le~gt" \
        "cast:u8 TO~is~missing" "shuffle:4,13 multiple" "crc32:u8 crc32"; do
        set -- $words
        fails_with 2 "${2//\~/ }" run ../in out --kernel "$1" || return
        grep -qF -e "$1" ../said && [ ! -e out ] || return
    done
}
unfinished_unit() { # nothing that looks whole is left
    head -c 1001 ../in >odd && fails_with 1 "unit" run odd out --kernel shuffle:4,12 \
        --kernel crc32 --result found && [ "$(ls -A)" = odd ] || return
    run odd - --kernel bswap:2 2>/dev/null | cmp - <(head -c 1000 odd | dd conv=swab status=none)
    [ "${PIPESTATUS[*]}" = "1 0" ]
}
absent_devices() {
    for device in cuda:99 hip:99; do
        timeout 20 "$headrace" run ../in out --kernel crc32 --device $device 2>said
        [ $? = 1 ] && grep -qF -e "$device" said && [ ! -e out ] || return
    done
}

check "bswap is swab" bytes_are_swapped
for chunk in 97 1000 64K; do
    for streams in 1 8; do
        check "shuffled in chunks of $chunk on $streams streams" shuffle_and_back $chunk $streams
        check "results in chunks of $chunk on $streams streams" results_are_right $chunk $streams
    done
done
check "units over pipes" over_pipes
check "units over sources" over_sources
check "encoded and decoded" encoded
check "results of nothing" results_of_nothing
check "wrong kernels" wrong_kernels
check "an unfinished unit" unfinished_unit
check "absent devices" absent_devices
exit $bad
