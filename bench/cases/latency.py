# SPDX-License-Identifier: Apache-2.0
"""Request and reply: 100 bytes into tcp-listen -> kernel -> peer:, on a connection that stays open.

The client sends the next request when the reply to the last one is there, and compares each.
"""

import os
import socket
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import inputs  # noqa: E402
from report import Report, arguments  # noqa: E402

N_REQUESTS = 1000
SIZE = 100
INVERTED = bytes(255 - byte for byte in range(256))


def connect(port):
    """Connect as soon as somebody listens."""
    for _ in range(500):
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            time.sleep(0.01)
    raise SystemExit("headrace does not listen")


def ask(connection, request):
    """Send a request, wait for the whole reply, and return the seconds between."""
    begun = time.monotonic()
    connection.sendall(request)
    reply = connection.recv(SIZE, socket.MSG_WAITALL)
    taken = time.monotonic() - begun
    if reply != request.translate(INVERTED):
        raise SystemExit("the reply is not the inverted request")
    return taken


def main():
    """Measure, check, write."""
    given = arguments(__doc__)
    report = Report()
    port = inputs.free_port()
    with subprocess.Popen(["headrace", "run", f"tcp-listen://127.0.0.1:{port}", "peer:",
                           "--kernel", "scale:u8,-1,255"]) as server:
        try:
            with connect(port) as connection:
                connection.settimeout(10)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                taken = sorted(ask(connection, os.urandom(SIZE)) for _ in range(N_REQUESTS))
                connection.shutdown(socket.SHUT_WR)
                if connection.recv(1) != b"":
                    raise SystemExit("there is something behind the last reply")
            if server.wait(10) != 0:
                raise SystemExit("headrace failed")
        finally:
            server.kill()
    median = statistics.median(taken)
    report.cases["request and reply"] = {"ms": {"median": median * 1e3, "min": taken[0] * 1e3,
                                                "max": taken[-1] * 1e3}, "n": N_REQUESTS}
    report.figure("request and reply: median", median * 1e3, "ms", 50, "<")
    report.figure(f"request and reply: slowest of {N_REQUESTS}", taken[-1] * 1e3, "ms", 50, "<")
    report.write(given.report)


if __name__ == "__main__":
    main()
