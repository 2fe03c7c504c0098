#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# headrace bench: its cases, what it tells of what cannot run, the settings that --tune finds, and what
# becomes of kept ones. No figure is judged. HEADRACE names the command, HR_TEST_TOOLS the folder of
# drivers that are made for tests.
# shellcheck disable=SC2317 # the checks are called by name
headrace=$(realpath "${HEADRACE:-build/test/bin/headrace}") || exit 1
tools=$(realpath "${HR_TEST_TOOLS:-build/test/tests}") || exit 1
work=$(mktemp -d) || exit 1
trap 'cd /; rm -rf "$work"' EXIT
cd "$work" || exit 1
export LC_ALL=C TMPDIR=$work XDG_CONFIG_HOME=$work/config
export HR_LIBCUDA=/nowhere/libcuda.so.1 HR_LIBAMDHIP64=/nowhere/libamdhip64.so
unset CUDA_VISIBLE_DEVICES
kept=$XDG_CONFIG_HOME/headrace/tuned
machine=$(uname -n)
bad=0
head -c 3000001 /dev/urandom >in

check() { # NAME COMMAND...: in a subshell, for the environment
    local name=$1
    shift
    rm -rf "$XDG_CONFIG_HOME"
    ("$@") >log 2>&1 && echo "ok $name" && return
    echo "not ok $name"
    head -n 12 log | sed 's/^/    /'
    bad=1
}
hr() { timeout -k 2 30 "$headrace" "$@"; }
bench() { hr bench --size 16K "$@" --json found >told; }
json() { # PROGRAM
    python3 -c "import json; r = json.load(open('found'))
settings = lambda of: {k: of[k] for k in ('chunk_bytes', 'depth', 'threads')}
$1"
}
gone() { [ -z "$(find . -name 'headrace-bench-*')" ] || { echo 'a folder is left' >&2; return 1; }; }
# says STATUS TEXT COMMAND...: what is said on stderr.
says() {
    local want=$1 text=$2
    shift 2
    "$@" 2>said >told
    [ $? = "$want" ] && { [ -z "$text" ] || grep -qF -e "$text" said; } && return
    echo "wanted: status $want and '$text'" | cat - said told >&2
    return 1
}

rates_are_whole='
def check_rate(c, least, most, prefix=""):
    key = prefix + "gigabytes_per_s"
    assert 0 < c[key + "_min"] <= c[key] <= c[key + "_max"], c
    assert least <= len(c[prefix + "wall_s"]) == len(c[prefix + "cpu_s"]) <= most, c
for c in r["ceilings"]:
    for way in c.get("measured", ()):
        check_rate(way, 3, 7)
        assert way["bytes"] > 0 and ("threads" in way) == ("best_threads" in c), way
for p in r["pipelines"]:
    check_rate(p, 5, 25)
    check_rate(p, 5, 25, "depth_1_")
    assert len(p["wall_s"]) == len(p["depth_1_wall_s"]), p
    fewer = 1 if p["name"] in ("map", "save") else 4
    assert p["depth_1_bytes"] * fewer == p["bytes"] and p["overlap_efficiency"] >= 0, p
    for key in "efficiency", "gain_measured":
        low, high = p[key + "_quartiles"]
        assert 0 < low <= p[key] <= high, p
    assert p["efficiency_by_part"][p["ceiling"]] == p["efficiency"], p
    assert set(p["efficiency_by_part"]) <= set(p["parts_gigabytes_per_s"]), p
    assert not p["gain_told_compares"] or p["name"] == "round-trip", p
    assert p["ceiling"] in p["parts_gigabytes_per_s"] and p["bottleneck"], p
    least = min(p["parts_gigabytes_per_s"][part] for part in p["efficiency_by_part"])
    assert abs(p["ceiling_gigabytes_per_s"] / least - 1) < 1e-4, p
most = max(p["efficiency"] for p in r["pipelines"])
noted = "More than 105 % of a ceiling" in open("told").read()
assert noted == (most > 1.05) or abs(most - 1.05) < 1e-3, most
'
all_on_host() {
    bench --device host && gone && grep -qE '% \([0-9]+ to [0-9]+\) of .*allows?; bottleneck: ' told &&
        grep -q '^h2d, d2h, both, d2d not measured: the device is the host' told &&
        grep -qE '^load( +[0-9.]+){8} +-$' told && json "$rates_are_whole
assert r['bytes'] == r['zstd_decoded_bytes'] == 16384 and r['zstd_bytes'] > 0
m = r['machine']
assert m['device'] == 'host' and m['usable_cpus'] >= 1 and m['cpu'] and m['kernel']
assert m['memory_bytes'] > 0 and len(m['load_average']) == 3 and m['io']
failed = {c['name']: c['error'] for c in r['ceilings'] if 'error' in c}
assert set(failed) == {'h2d', 'd2h', 'both', 'd2d'} or set(failed) == {
    'h2d', 'd2h', 'both', 'd2d', 'read-direct'}, failed
assert len(r['pipelines']) == 7 and 'is the host' in failed['h2d']"
}
each_alone() { # a pipeline with the ceilings of its parts
    hr bench --list >list && local name && while read -r name _; do
        bench "$name" --device host --size 4K || return
        json "
names = [c['name'] for c in r['ceilings'] + r['pipelines']]
assert '$name' in names and len(names) <= 7, names" || return
    done < <(grep -E '^(socket|map|save) ' list)
    [ "$(wc -l <list)" = 21 ] && json 'assert [c["name"] for c in r["ceilings"]] == [
    "write", "encode", "d2h"]'
}
without_files() {
    local -x TMPDIR=/no/such/folder
    says 1 '' hr bench memcpy read round-trip load --size 4K --device host --json found || return
    grep -q '^read .*not measured: /no/such/folder/' told && json '
errors = {c["name"] for c in r["ceilings"] + r["pipelines"] if "error" in c}
assert {"read", "load"} <= errors and not errors & {"memcpy", "kernel", "round-trip"}, errors'
}
absent_device() {
    says 1 'library not found: tried /nowhere/libcuda.so.1' hr bench load --device cuda:0 &&
        says 2 'one of auto, host' hr bench --device gpu &&
        says 2 '--save goes with --tune' hr bench --save && says 2 'one FILE' hr bench --tune a b &&
        says 2 'made input' hr bench --tune in --size 4K &&
        says 2 "no case 'nothing'" hr bench nothing && says 2 'from 4K' hr bench --size 1
}
by_turns() {
    says 2 'an open socket' hr bench --turns 9 && says 2 'an open socket' hr bench --turns x || return
    python3 - "$headrace" <<'END' || return
import socket, subprocess, sys
def start(side, *more):
    return subprocess.Popen([sys.argv[1], "bench", "memcpy", "load", "--size", "64K", "--device", "host",
                             "--turns", str(side.fileno()), *more], pass_fds=[side.fileno()],
                            stdout=subprocess.DEVNULL)
first, second = socket.socketpair()
two = start(second, "--json", "found"), start(first)
second.send(b"t")
first.close(), second.close()
assert [process.wait(50) for process in two] == [0, 0]
partner, side = socket.socketpair()
left = start(side)
side.close()
partner.send(b"t")
while partner.recv(1):
    partner.send(b"t")
assert left.wait(50) == 0
with partner:
    assert start(partner, "--tune").wait(50) == 2
END
    json 'assert [p["name"] for p in r["pipelines"] if p["wall_s"]] == ["load"]'
}
interrupted() {
    says 130 interrupted timeout --foreground --preserve-status -k 10 -s INT 0.3 "$headrace" bench \
        --size 64M && gone
}
over_gpu() { # a driver that is made for tests, and a command with kernels for it
    LD_LIBRARY_PATH=$tools/fake_cuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
        HR_LIBCUDA=$tools/fake_cuda/libcuda.so.1 timeout -k 2 60 "$tools/cli/headrace_fake_gpu" "$@"
}
all_on_gpu() {
    over_gpu bench --size 16K --json found >told && gone && json "$rates_are_whole
assert r['machine']['device'] == 'cuda:0' and r['machine']['device_title'] == 'Fake GPU 0'
assert r['pinned'] and not [c for c in r['ceilings'] + r['pipelines'] if 'error' in c]
loads = [p for p in r['pipelines'] if p['name'] == 'load']
assert set(loads[0]['parts_gigabytes_per_s']) == {'read', 'h2d', 'cpu'}, loads"
}
wrong_driver_is_found() { # one that copies wrongly
    HR_LIBCUDA=$tools/fake_cuda/libcuda_wrong.so LD_LIBRARY_PATH=$tools/fake_cuda \
        says 1 '' hr bench h2d memcpy --size 16K --device cuda --json found &&
        grep -q '^h2d .*other bytes came back' told && grep -qE '^memcpy +[0-9.]+ ' told &&
        HR_LIBCUDA=$tools/fake_cuda/libcuda_wrong.so LD_LIBRARY_PATH=$tools/fake_cuda \
            says 1 'cuda:0 has other bytes than in' hr bench --tune in --limit 1 --device cuda
}

tune() { hr bench --tune in --limit 1 --device host "$@" --json found >told; }
keep() { # LINE...: behind the section of this machine
    mkdir -p "${kept%/*}" && printf '%s\n' '# headrace tuned 1' "[$machine host plain]" "$@" >"$kept"
}
force() { # OPTION...: the chunk and depth of a run
    hr run in null: --stats json "$@" 2>said &&
        sed -nE 's/.*"chunk_bytes": ([0-9]+), "slots": ([0-9]+).*/\1 \2/p' said
}
in_force() { # CHUNK DEPTH OPTION...
    local want="$1 $2" got
    shift 2
    got=$(force "$@") && [ "$got" = "$want" ] && return
    echo "wanted chunk and depth $want of $*" | cat - said >&2
    return 1
}
read -r chunk depth < <(force)
tunes_and_keeps() {
    tune && [ ! -e "$kept" ] && grep -qE '^proposed: ' told && json '
assert r["bytes"] == 3000001 and not r["decoded"] and r["saved"] is None and r["gain"] > 0
assert r["more_than_noise"] or r["proposed"] == settings(r["default"])
settings_of = [settings(t["with"]) for t in r["tried"]]
assert len(settings_of) == len(set(map(str, settings_of))) > 0, settings_of
for t in r["tried"]:
    n = len(t["with"]["wall_s"])
    assert 3 <= n == len(t["beside"]["wall_s"]) and (n >= 5 or not t["more_than_noise"]), t
    assert 2 <= t["with"]["depth"] and t["with"]["threads"] == r["default"]["threads"], t
assert r["proposed"] in (settings(r["default"]), settings(r["found"]))
' && tune --save && json "assert r['saved'] == '$kept'" && grep -qxF "[$machine host plain]" "$kept" &&
        hr devices | grep -q '^tuned *host *plain: .*gain ' && hr devices --json >found && json "
assert r['tuned_file'] == '$kept' and [t['device'] for t in r['tuned']] == ['host']
assert r['tuned'][0]['gain'] >= 1"
}
another_machine_is_kept() {
    keep chunk=1048576 && sed -i "s/^\[.*/[not-$machine host plain]/" "$kept" && in_force "$chunk" "$depth" &&
        tune --save && grep -qxF 'chunk=1048576' "$kept" && grep -c '^\[' "$kept" | grep -qx 2 &&
        [ "$(hr devices | grep -c ^tuned)" = 1 ]
}
run_takes_them() {
    keep chunk=1048576 depth=3 streams=0 threads=1 gain=1.25 && in_force 1048576 3 &&
        grep -qF 'tuned for host, plain: chunk 1024 KiB, depth 3, threads 1' said &&
        in_force "$chunk" "$depth" --no-tuned && in_force 65536 3 --chunk 64K &&
        in_force 1048576 2 --depth 2 && in_force "$chunk" "$depth" --chunk 0 --depth 0 &&
        hr run - null: --stats json <in 2>said && ! grep -q tuned said &&
        [ "$(force --kernel crc32 --device host)" != '1048576 3' ] &&
        hr run in in.zst --encode zstd --stats json 2>said && ! grep -q tuned said &&
        hr run in.zst null: --stats json 2>said && ! grep -q tuned said &&
        sed -i 's/plain\]/zstd]/' "$kept" && hr run in.zst null: --stats json 2>said &&
        grep -qF 'tuned for host, zstd: ' said && in_force "$chunk" "$depth" &&
        keep chunk=16777216 && hr run in null: --memory 2M 2>said
}
config_is_found() {
    keep depth=3 && mkdir -p home && mv "$XDG_CONFIG_HOME" home/.config || return
    export HOME=$work/home XDG_CONFIG_HOME=
    in_force "$chunk" 3 && XDG_CONFIG_HOME=relative in_force "$chunk" 3 || return
    unset HOME XDG_CONFIG_HOME
    in_force "$chunk" "$depth" && says 1 'neither XDG_CONFIG_HOME nor HOME' hr bench --tune in --limit 1 \
        --device host --save
}
broken_ones_warn() {
    local line
    for line in chunk=x chunk=-1 depth=99999 nonsense '[x]' gain=inf "depth=$(printf '%0300d' 1)"; do
        keep "$line" && says 0 "line 3: it is broken" hr run in null: &&
            says 1 "line 3: it is broken" hr run in null: --strict --io auto &&
            hr run in null: --strict --no-tuned || return
    done
    echo '<html>' >"$kept" && says 0 'warning: tuned settings: ' hr run in null: &&
        says 1 'it is not a file of headrace' hr bench --tune in --limit 1 --device host --save &&
        [ "$(cat "$kept")" = '<html>' ] && hr devices | grep -q '^tuned *broken .*it is not a file' &&
        hr devices --json >found && json 'assert "line 1" in r["tuned_error"] and r["tuned"] == []'
    rm -f "$kept" && mkdir "$kept" && says 0 'no regular file' hr run in null:
}
cannot_keep() {
    : >file && XDG_CONFIG_HOME=$work/file says 1 "--save: $work/file/headrace" hr bench --tune in \
        --limit 1 --device host --save
}
tunes_for_gpu() {
    over_gpu bench --tune in --limit 2 --save --json found >told &&
        grep -qxF "[$machine cuda:0 plain]" "$kept" && grep -q '^streams stay' told &&
        json 'assert r["tried"] or r["out_of_time"]'
}
tunes_zstd() {
    hr run in in.zst --encode zstd --no-tuned && hr bench --tune in.zst --limit 1 --device host \
        --json found >told && json 'assert r["decoded"] and r["bytes"] == 3000001' &&
        says 1 'is empty' hr bench --tune /dev/null --device host &&
        says 1 'no-such' hr bench --tune no-such --device host
}

for name in all_on_host each_alone without_files absent_device by_turns interrupted tunes_and_keeps \
    another_machine_is_kept run_takes_them config_is_found broken_ones_warn cannot_keep tunes_zstd; do
    check $name $name
done
if [ -x "$tools/cli/headrace_fake_gpu" ]; then
    for name in all_on_gpu wrong_driver_is_found tunes_for_gpu; do
        check $name $name
    done
else
    echo 'skip the fake driver: not built'
fi
exit $bad
