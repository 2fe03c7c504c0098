# SPDX-License-Identifier: Apache-2.0
# Completion of the command headrace for bash.

_headrace_kernels='cast: scale: bswap:2 bswap:4 bswap:8 shuffle: unshuffle: filter: sum: mean: min:
    max: histogram count: crc32'
_headrace_run='--offset --length --decode --dict --window-log --encode --frame --device --kernel
    --kernel-source --kernel-image --entry --unit --out-unit --kernel-args --chunk --depth --memory
    --streams --threads --no-tuned --io --direct --unordered --fsync --strict --min-fill --max-wait --connect-timeout
    --idle-timeout --progress --no-progress --stats --stats-file
    --trace --result --help --usage --version'
_headrace_bench='--list --json --size --device --turns --tune --save --limit --help --usage --version'
_headrace_devices='--json --selftest --limit --help --usage --version'

# The words that an option takes, in $words; files if $files is set.
_headrace_values() { # COMMAND OPTION
    words='' files=''
    case $1:$2 in
    run:--decode) words='auto none zstd' ;;
    run:--encode) words='none zstd zstd:' ;;
    run:--device | bench:--device) words='auto host cuda:0 cuda:GPU- hip:0 hip:GPU-' ;;
    devices:--selftest) # its word follows an equal sign only
        [[ $typed == --*=* ]] || return 1
        words='auto host cuda:0 cuda:GPU- hip:0 hip:GPU-'
        ;;
    run:--kernel) words=$_headrace_kernels ;;
    run:--io) words='auto uring threads' ;;
    run:--direct) words='auto on off' ;;
    run:--stats) words='text json none' ;;
    run:--dict | run:--kernel-source | run:--kernel-image | run:--kernel-args) files=1 ;;
    run:--trace | run:--result | run:--stats-file | bench:--json) files=1 ;;
    run:--offset | run:--length | run:--window-log | run:--frame | run:--entry | run:--unit) ;;
    run:--out-unit | run:--chunk | run:--depth | run:--streams | run:--threads | run:--min-fill) ;;
    run:--max-wait | run:--memory | run:--connect-timeout | run:--idle-timeout | bench:--size) ;;
    devices:--limit | bench:--limit | bench:--turns) ;;
    *) return 1 ;;
    esac
}

_headrace() {
    local line=${COMP_LINE:0:COMP_POINT} command=${COMP_WORDS[1]} words files typed current previous
    # Not COMP_WORDS: bash splits these at the colons and equal signs of our words.
    typed=${line##*[[:space:]]}
    line=${line%"$typed"}
    line=${line%"${line##*[![:space:]]}"}
    previous=${line##*[[:space:]]}
    current=$typed
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        words='run devices bench --help --version'
    elif [[ $typed == --*=* ]] && _headrace_values "$command" "${typed%%=*}"; then
        current=${typed#*=}
    elif _headrace_values "$command" "$previous"; then
        :
    elif [[ $typed == -?* ]]; then
        case $command in
        run) words=$_headrace_run ;;
        bench) words=$_headrace_bench ;;
        devices) words=$_headrace_devices ;;
        esac
    elif [ "$command" = run ]; then
        words='null: peer: device: tcp:// tcp-listen:// unix: unix-listen: fd:' files=1
    elif [[ $command == bench && " $line " == *' --tune '* ]]; then
        files=1
    elif [ "$command" = bench ]; then
        words=$("${COMP_WORDS[0]}" bench --list 2>/dev/null | while read -r name _; do echo "$name"; done)
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current"
        [ -z "$files" ] || compgen -f -- "$current")
    # What bash replaces is only what stands behind the last character at which it splits.
    local behind=${current##*["$COMP_WORDBREAKS"]} i
    local before=${current%"$behind"}
    for i in "${!COMPREPLY[@]}"; do
        COMPREPLY[i]=${COMPREPLY[i]#"$before"}
    done
    [[ ${COMPREPLY[0]-} != *[:/-] ]] || compopt -o nospace 2>/dev/null
    [ -z "$files" ] || compopt -o filenames 2>/dev/null
}

complete -F _headrace headrace
