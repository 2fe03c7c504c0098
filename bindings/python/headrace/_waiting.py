# SPDX-License-Identifier: Apache-2.0
"""Tasks of asyncio that drive one transfer, one at a time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import weakref
from typing import Callable


class Waiting:
    """Those who wait for a transfer: for their turn, then for its descriptor to be readable.

    A thread that drives meanwhile takes what made the descriptor readable, and one that closes the
    transfer takes the descriptor: so they wake who waits, and that one looks for itself.
    """

    def __init__(self) -> None:
        self._futures: set[asyncio.Future[None]] = set()
        self._turns: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]
        self._turns = weakref.WeakKeyDictionary()

    def turn(self) -> asyncio.Lock:
        """Of the tasks of the running event loop, in the order in which they come."""
        return self._turns.setdefault(asyncio.get_running_loop(), asyncio.Lock())

    async def readable(self, descriptor: Callable[[], int]) -> None:
        """Waits, in the running event loop.

        Parameters
        ----------
        descriptor : callable
            Gives one, which is closed here.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._futures.add(future)
        try:
            fd = descriptor()
            try:
                loop.add_reader(fd, _done, future)
                await future
            finally:
                loop.remove_reader(fd)
                os.close(fd)
        finally:
            self._futures.discard(future)

    def wake(self) -> None:
        """Lets all of them look. Any thread."""
        for future in list(self._futures):
            with contextlib.suppress(RuntimeError):  # its event loop is closed
                future.get_loop().call_soon_threadsafe(_done, future)


def _done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
