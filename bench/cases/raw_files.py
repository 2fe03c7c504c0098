# SPDX-License-Identifier: Apache-2.0
"""Cached raw files: headrace beside dd, whole processes, default options.

Usage: python3 bench/cases/raw_files.py HEADRACE [REPORT.json]

The file of 1 GiB is random, in the page cache. It goes to null:, to a new file, and to a file in
place of an older one of the same size. What reaches null: is checked by its CRC-32, the copies of
both programs are compared byte for byte, all outside the clock.
"""

import json
import os
import subprocess
import sys
import tempfile
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from measure import compare, machine, write_report  # noqa: E402

N_BYTES = 1 << 30


def make_input(path):
    """Write N_BYTES of random bytes and return their CRC-32."""
    crc = 0
    with open(path, "wb") as file:
        for _ in range(N_BYTES >> 24):
            block = os.urandom(1 << 24)
            crc = zlib.crc32(block, crc)
            file.write(block)
    return crc


def check_null(crc):
    """Stop unless null: sees the CRC-32 of the input."""
    stats = json.loads(subprocess.run(
        ["headrace", "run", "in", "null:", "--stats", "json"],
        check=True, capture_output=True, text=True).stderr)
    if stats["crc32"] != crc:
        raise SystemExit(f"null: saw CRC-32 {stats['crc32']:08x}, the file has {crc:08x}")


def copy_case(replace):
    """Measure file to file, in place of an older output or not, and compare the copies."""
    report = compare({
        "headrace": "headrace run in ours",
        "dd": "dd if=in of=theirs bs=4M",
    }, N_BYTES, outputs={"headrace": "ours", "dd": "theirs"}, replace=replace)
    for copy in ("ours", "theirs"):
        subprocess.run(["cmp", "in", copy], check=True)
        os.unlink(copy)
    return report


def main():
    """Measure, check, write."""
    command_folder = os.path.dirname(os.path.abspath(sys.argv[1]))
    report_path = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else os.devnull
    about = machine()
    os.environ["PATH"] = command_folder + os.pathsep + os.environ["PATH"]
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        os.chdir(folder)
        check_null(make_input("in"))
        cases = {
            "file to null": compare({
                "headrace": "headrace run in null:",
                "dd": "dd if=in of=/dev/null bs=4M",
            }, N_BYTES),
            "file to new file": copy_case(replace=False),
            "file to replaced file": copy_case(replace=True),
        }
        os.chdir("/")
        write_report(report_path, about, cases)


if __name__ == "__main__":
    main()
