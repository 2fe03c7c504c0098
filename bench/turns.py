# SPDX-License-Identifier: Apache-2.0
"""Two runs of a benchmark that measure by turns, so that both see the same machine.

One that follows the other by minutes may find the machine faster or slower, and what only one of two
things suffers from moves their ratio. The runs are joined by a pair of sockets: whoever has the byte
measures, and sends it on after some seconds. Whose partner has ended goes on alone.
"""

import socket
import time

SLICE_S = 2.0


class Turns:
    """One side.

    Parameters
    ----------
    descriptor : int or None
        A socket of the pair, which is owned; None: there is no partner.
    clock : callable
        Seconds.
    """

    def __init__(self, descriptor=None, clock=time.monotonic):
        self._socket = None if descriptor is None else socket.socket(fileno=descriptor)
        self._clock = clock
        self._waited_s = 0.0
        self._until = 0.0  # this side's turn ends
        if self._socket:
            self._wait()

    def clock(self):
        """Return seconds, without those in which the partner had its turns."""
        return self._clock() - self._waited_s

    def _wait(self):
        """Wait for the byte, or go on alone."""
        begun = self._clock()
        try:
            came = self._socket.recv(1)
        except ConnectionError:
            came = b""
        if not came:
            self.end()
        now = self._clock()
        self._waited_s += now - begun
        self._until = now + SLICE_S

    def give(self):
        """Send the byte on if the turn is over, and wait for the next one."""
        if not self._socket or self._clock() < self._until:
            return
        try:
            self._socket.send(b"t")
        except ConnectionError:
            self.end()
        else:
            self._wait()

    def end(self):
        """Leave all turns to the partner, as the end of the process does."""
        if self._socket:
            self._socket.close()
        self._socket = None


def pair():
    """Return two sockets for `Turns`; the first one's turn is first."""
    first, second = socket.socketpair()
    second.send(b"t")
    return first, second
