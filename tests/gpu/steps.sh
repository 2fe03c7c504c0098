# SPDX-License-Identifier: Apache-2.0
# Functions of the scripts that run on machines with a GPU: each step is a line in $table and a part
# of $out/$part.log. A step may take $limit seconds; $build is the build folder.

# note WORD STEP RC SECONDS REMARK
note() {
    printf '%-7s %-36s rc %3s %5s s  %s\n' "$@" | sed 's/ *$//' | tee -a "$table"
}

# last_line LOG: what a program said of itself in the end, or what went wrong first.
last_line() {
    local line
    line=$(grep -m 1 -aE '^not ok |ERROR SUMMARY: [1-9]' "$1")
    [ -n "$line" ] || line=$(grep -aE '^[0-9]+ passed|^ok |ERROR SUMMARY' "$1" | tail -n 1)
    printf '%.100s' "$line"
}

# step NAME COMMAND...: appends what it printed to the part's log.
step() {
    local name=$1 begin rc log
    shift
    log=$(mktemp)
    begin=$SECONDS
    timeout -k 10 "$limit" "$@" >"$log" 2>&1 </dev/null
    rc=$?
    local word=ok remark
    remark=$(last_line "$log")
    case $rc in
    0) ;;
    77) word='skip' remark=$(tail -n 1 "$log") ;;
    124 | 137) word='not ok' remark="it took longer than $limit s; $remark" ;;
    *) word='not ok' ;;
    esac
    note "$word" "$part/$name" "$rc" "$((SECONDS - begin))" "$remark"
    { printf '==== %s: %s (rc %s)\n' "$name" "$*" "$rc" && cat "$log"; } >>"$out/$part.log"
    rm -f "$log"
}

# cannot NAME WHY: a step that does not run.
cannot() {
    note skip "$part/$1" - - "$2"
}

# has_program NAME: below the build folder's tests; a step that needs it has failed if it is not built.
has_program() {
    [ -x "$build/tests/$1" ] || {
        note 'not ok' "$part/${1##*/}" - - "$build/tests/$1 is not built"
        return 1
    }
}

find_sanitizer() {
    local candidate
    for candidate in /usr/local/cuda*/bin/compute-sanitizer \
        /usr/local/cuda*/compute-sanitizer/compute-sanitizer "$(command -v compute-sanitizer)"; do
        [ -x "$candidate" ] && echo "$candidate" && return
    done
    return 1
}
