# SPDX-License-Identifier: Apache-2.0
"""zstd to null: headrace beside pzstd (many frames) and zstd (one frame).

The input is a tar of real files, packed by the stock commands. What reaches null: has the CRC-32
that zlib computes of the tar. The stock commands write to /dev/null and check the frames' own
checksums; headrace checks those and computes the CRC-32 of the stream.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import inputs  # noqa: E402
from measure import compare  # noqa: E402
from report import Report, arguments  # noqa: E402


def main():
    """Measure, check, write."""
    given = arguments(__doc__)
    report = Report()
    crc = inputs.crc32_of(inputs.system_tar(given.size))
    many, one = inputs.many_frames(given.size), inputs.one_frame(given.size)
    inputs.check_null(many, crc)
    inputs.check_null(one, crc)
    report.add("many frames to null", compare({
        "headrace": f"headrace run {many} null:",
        "pzstd": f"pzstd -q -dc -p 2 {many} >/dev/null",
        "zstd": f"zstd -q -dc {many} >/dev/null",
    }, given.size, many, samples=15))
    report.ratio("many frames to null", "pzstd", 1.1)
    report.ratio("many frames to null", "zstd")
    report.add("one frame to null", compare({
        "headrace": f"headrace run {one} null:",
        "zstd": f"zstd -q -dc {one} >/dev/null",
    }, given.size, one))
    report.ratio("one frame to null", "zstd", 1.0)
    report.write(given.report)


if __name__ == "__main__":
    main()
