# SPDX-License-Identifier: Apache-2.0
"""One TCP stream on the loopback to null:, beside a bare recv loop and one that computes a CRC-32.

A sender that waits gives each connection a tar of real files by sendfile(2), so only the receivers
are whole processes inside the clock. The bare loop looks at no byte; the other one computes zlib's
CRC-32, as null: computes it.
"""

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import inputs  # noqa: E402
from measure import compare  # noqa: E402
from report import Report, arguments  # noqa: E402


def main():
    """Measure, check, write."""
    given = arguments(__doc__)
    report = Report()
    source = inputs.system_tar(given.size)
    crc = inputs.crc32_of(source)
    receive = inputs.program("receive", "-lz")
    with subprocess.Popen([inputs.program("send_file"), source], stdout=subprocess.PIPE,
                          text=True) as sender:
        try:
            port = int(sender.stdout.readline())
            address = f"tcp://127.0.0.1:{port}"
            inputs.check_null(address, crc)
            seen = subprocess.run([receive, str(port), "crc"], check=True, capture_output=True,
                                  text=True).stdout.strip()
            if seen != f"{crc:08x}":
                raise SystemExit(f"the loop with CRC saw {seen}, the file has {crc:08x}")
            report.add("TCP to null", compare({
                "headrace": f"headrace run {address} null:",
                "recv": f"{receive} {port}",
                "recv and CRC": f"{receive} {port} crc >/dev/null",
            }, given.size, source, samples=15))
        finally:
            sender.kill()
    report.ratio("TCP to null", "recv", 0.9)
    report.ratio("TCP to null", "recv and CRC")
    report.write(given.report)


if __name__ == "__main__":
    main()
