#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Which file may include which: dependencies run one way (bindings -> headrace.h; engine -> the
# interfaces of backends, io and compress; these know neither each other nor the rest of engine).
# Prints a line for each breach and fails if there is one. File names are unique in the tree, so
# the last part of an include names its file.
set -u
cd "${1:-$(dirname "$0")/../..}" || exit 2
breaches=0

breach() {
    echo "$*"
    breaches=$((breaches + 1))
}

sources() { # DIR...
    local dir
    for dir in "$@"; do
        [ ! -d "$dir" ] || find "$dir" -type f \( -name '*.c' -o -name '*.h' \) | sort
    done
}

includes() { # FILE: its includes, "..." or <...> kept
    sed -nE 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*(<[^>]*>|"[^"]*").*/\1/p' "$1"
}

# only DIRS FILES: files under DIRS include, of the project, the named headers and their own ones.
only() {
    local dirs=$1 allowed=" $2 " dir file include name
    for dir in $dirs; do
        for file in $(sources "$dir"); do
            while read -r include; do
                name=${include:1:-1}
                name=${name##*/}
                case $include in
                '"'*) ;;
                *) continue ;; # the system's, whatever its name: internal folders are -iquote
                esac
                [[ $allowed != *" $name "* ]] || continue
                [ -z "$(find "$dir" -name "$name" -print -quit)" ] || continue
                breach "$file: includes $include"
            done < <(includes "$file")
        done
    done
}

only "io compress backends" "headrace.h status.h clock.h wake.h"
only "bindings" "headrace.h"
only "tests/pipeline" "headrace.h peers.h engines.h quiet_fork.h chains.h kernel_models.h codec_trials.h"

# Libraries that one place only may know.
for file in $(sources engine io compress backends bindings); do
    while read -r include; do
        case $include:$file in
        *zstd*.h?:compress/* | *liburing*.h?:io/* | *cuda*.h?:backends/* | *hip*.h?:backends/*) ;;
        '<'zstd*.h'>':* | '"'zstd.h'"':*) breach "$file: includes $include outside compress/" ;;
        *liburing*.h?:*) breach "$file: includes $include outside io/" ;;
        '<'cuda*.h'>':* | '<'hip/*.h'>':* | '<'nvrtc.h'>':*)
            breach "$file: includes $include outside backends/" ;;
        esac
    done < <(includes "$file")
done
uring_users=$(sources io | while read -r file; do
    ! includes "$file" | grep -q 'liburing' || echo "$file"
done)
if [ "$(grep -c . <<<"$uring_users")" -gt 1 ]; then
    breach "liburing.h is included in more than one file:" $uring_users
fi

while read -r name; do
    breach "more than one file is named $name"
done < <(sources engine io compress backends bindings tests bench | sed 's|.*/||' | sort | uniq -d)

[ "$breaches" -eq 0 ]
