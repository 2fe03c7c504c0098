# SPDX-License-Identifier: Apache-2.0
"""A tar of real files encoded to a zstd file: headrace beside zstd -T2, both at level 3.

Both outputs are decoded by stock zstd and compared with the input. Their sizes are stated too:
headrace writes independent frames of 1 MiB with a seek table, zstd one frame.
"""

import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import inputs  # noqa: E402
from measure import compare  # noqa: E402
from report import Report, arguments  # noqa: E402


def main():
    """Measure, check, write."""
    given = arguments(__doc__)
    report = Report()
    source = inputs.system_tar(given.size)
    inputs.need_space(2 * given.size)
    with tempfile.TemporaryDirectory(dir=inputs.folder()) as place:
        os.chdir(place)
        report.add("encode to file", compare({
            "headrace": f"headrace run {source} ours.zst --encode zstd",
            "zstd -T2 -3": f"zstd -q -T2 -3 {source} -o theirs.zst",
        }, given.size, source, outputs={"headrace": "ours.zst", "zstd -T2 -3": "theirs.zst"}))
        for output in ("ours.zst", "theirs.zst"):
            inputs.check_same(f"zstd -q -dc {output}", f"cat {source}")
        ours, theirs = os.path.getsize("ours.zst"), os.path.getsize("theirs.zst")
        os.chdir("/")
    report.ratio("encode to file", "zstd -T2 -3", 1.0)
    report.figure("encode: size of the output", ours / theirs, "headrace / zstd -T2 -3")
    report.figure("encode: compression", given.size / ours, "input / output")
    report.write(given.report)


if __name__ == "__main__":
    main()
