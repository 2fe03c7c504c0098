#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Writes a file of exactly BYTES: a tar of this machine's files under /usr that the user may read,
# again from the start where there are too few, cut at the end.
# Usage: bash bench/make_tar.sh FILE BYTES
set -eu
file=$1 n_bytes=$2
: >"$file.part"
while size=$(stat -c %s "$file.part"); [ "$size" -lt "$n_bytes" ]; do
    # tar ends by SIGPIPE when head has enough, and complains of files that it may not read
    { tar -C / -cf - usr 2>/dev/null || true; } | head -c $((n_bytes - size)) >>"$file.part"
    [ "$(stat -c %s "$file.part")" -gt "$size" ] || { echo "tar gives nothing" >&2; exit 1; }
done
mv "$file.part" "$file"
