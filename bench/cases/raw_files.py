# SPDX-License-Identifier: Apache-2.0
"""Cached raw files: headrace beside dd, whole processes, default options.

A tar of real files, in the page cache, goes to null:, to a new file, and to a file in place of an
older one of the same size. What reaches null: is checked by its CRC-32, the copies of both programs
are compared byte for byte, all outside the clock. null: computes the CRC-32 of every byte, dd to
/dev/null looks at none.
"""

import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import inputs  # noqa: E402
from measure import compare  # noqa: E402
from report import Report, arguments  # noqa: E402


def copies(source, n_bytes, replace):
    """Measure file to file, in place of an older output or not, and compare the copies."""
    comparison = compare({
        "headrace": f"headrace run {source} ours",
        "dd": f"dd if={source} of=theirs bs=4M",
    }, n_bytes, source, outputs={"headrace": "ours", "dd": "theirs"}, replace=replace)
    for copy in ("ours", "theirs"):
        subprocess.run(["cmp", source, copy], check=True)
        os.unlink(copy)
    return comparison


def main():
    """Measure, check, write."""
    given = arguments(__doc__)
    report = Report()
    source = inputs.system_tar(given.size)
    inputs.need_space(3 * given.size)
    inputs.check_null(source, inputs.crc32_of(source))
    report.add("file to null", compare({
        "headrace": f"headrace run {source} null:",
        "dd": f"dd if={source} of=/dev/null bs=4M",
    }, given.size, source))
    report.ratio("file to null", "dd", 1.0)
    with tempfile.TemporaryDirectory(dir=inputs.folder()) as place:
        os.chdir(place)
        report.add("file to new file", copies(source, given.size, replace=False))
        report.add("file to replaced file", copies(source, given.size, replace=True))
        os.chdir("/")
    report.ratio("file to new file", "dd", 0.9)
    report.ratio("file to replaced file", "dd", 0.9)
    report.write(given.report)


if __name__ == "__main__":
    main()
