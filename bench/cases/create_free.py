# SPDX-License-Identifier: Apache-2.0
"""Creating and freeing a pipeline on a loop and a context that have been used: raw, with a codec
or a kernel, and with all of them. Medians of 201.
"""

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import inputs  # noqa: E402
from report import Report, arguments  # noqa: E402


def main():
    """Measure, check, write."""
    given = arguments(__doc__)
    report = Report()
    measure = inputs.program_of_library("create_free", given.headrace)
    n_bytes = min(given.size, 64 << 20)  # run once only, to warm up
    said = subprocess.run([measure, inputs.system_tar(n_bytes), inputs.many_frames(n_bytes)],
                          check=True, stdout=subprocess.PIPE, text=True).stdout
    for line in said.splitlines():
        name, *nanoseconds = line.split()
        median, least, most = (int(word) / 1e6 for word in nanoseconds)
        report.cases[f"create and free: {name}"] = {"ms": {"median": median, "min": least,
                                                           "max": most}}
        report.figure(f"create and free: {name}", median, "ms", 1.0, "<")
    report.write(given.report)


if __name__ == "__main__":
    main()
