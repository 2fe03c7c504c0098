# SPDX-License-Identifier: Apache-2.0
"""Decode, kernel and encode in one command, beside a shell pipe of stock zstd and a filter.

The input is a tar of real files in many zstd frames; the kernel is scale:u8,-1,255, which turns
each byte x into 255 - x. The filter between ``zstd -dc`` and ``zstd -T2 -3`` is written in C, and
once more in Python with NumPy where that is installed. All outputs decode to the same bytes.
"""

import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import inputs  # noqa: E402
from measure import compare  # noqa: E402
from report import Report, arguments  # noqa: E402

KERNEL = "scale:u8,-1,255"


def has_numpy():
    """Tell whether the Python that runs this has NumPy, without loading it here."""
    return subprocess.run([sys.executable, "-c", "import numpy"], check=False,
                          stderr=subprocess.DEVNULL).returncode == 0


def main():
    """Measure, check, write."""
    given = arguments(__doc__)
    report = Report()
    source = inputs.many_frames(given.size)
    inputs.need_space(3 * given.size)
    pipe = f"zstd -q -dc {source} | %s | zstd -q -T2 -3 -o %s"
    in_c = inputs.program("invert")
    commands = {
        "headrace": f"headrace run {source} ours.zst --kernel {KERNEL} --encode zstd",
        "pipe with C": pipe % (in_c, "in_c.zst"),
    }
    outputs = {"headrace": "ours.zst", "pipe with C": "in_c.zst"}
    if has_numpy():
        script = os.path.join(inputs.BENCH, "programs", "invert_numpy.py")
        commands["pipe with NumPy"] = pipe % (f"{sys.executable} {script}", "in_numpy.zst")
        outputs["pipe with NumPy"] = "in_numpy.zst"
    else:
        print("pipe with NumPy: not run, this Python has no NumPy")
    with tempfile.TemporaryDirectory(dir=inputs.folder()) as place:
        os.chdir(place)
        report.add("decode, kernel, encode", compare(commands, given.size, source, outputs=outputs))
        for output in outputs.values():
            inputs.check_same(f"zstd -q -dc {output}", f"zstd -q -dc {source} | {in_c}")
        sizes = {name: os.path.getsize(output) for name, output in outputs.items()}
        os.chdir("/")
    for peer in list(commands)[1:]:
        report.ratio("decode, kernel, encode", peer, 1.0, ">")
    report.figure("decode, kernel, encode: size of the output",
                  sizes["headrace"] / sizes["pipe with C"], "headrace / pipe")
    report.write(given.report)


if __name__ == "__main__":
    main()
