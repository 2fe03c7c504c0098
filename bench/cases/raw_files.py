# SPDX-License-Identifier: Apache-2.0
"""Cached raw files: headrace beside dd, whole processes, default options.

Usage: python3 bench/cases/raw_files.py HEADRACE [REPORT.json]

The file of 1 GiB is random, in the page cache. What reaches null: is checked by its CRC-32, the
copies are compared byte for byte, both outside the clock.
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


def main():
    """Measure, check, write."""
    command_folder = os.path.dirname(os.path.abspath(sys.argv[1]))
    report_path = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else os.devnull
    about = machine()
    os.environ["PATH"] = command_folder + os.pathsep + os.environ["PATH"]
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        os.chdir(folder)
        crc = make_input("in")
        stats = json.loads(subprocess.run(
            ["headrace", "run", "in", "null:", "--stats", "json"],
            check=True, capture_output=True, text=True).stderr)
        if stats["crc32"] != crc:
            raise SystemExit(f"null: saw CRC-32 {stats['crc32']:08x}, the file has {crc:08x}")
        cases = {
            "file to null": compare({
                "headrace": "headrace run in null:",
                "dd": "dd if=in of=/dev/null bs=4M",
            }, N_BYTES),
            "file to file": compare({
                "headrace": "headrace run in ours",
                "dd": "dd if=in of=theirs bs=4M",
            }, N_BYTES, outputs={"headrace": "ours", "dd": "theirs"}),
        }
        subprocess.run(["cmp", "in", "ours"], check=True)
        os.chdir("/")
        write_report(report_path, about, cases)


if __name__ == "__main__":
    main()
