# SPDX-License-Identifier: Apache-2.0
"""Python functions that the C library calls, on its workers' threads or on the loop's.

There is one C function for each kind, made once; what it shall call is its user argument, a handle
that lives as long as the pipeline. An exception stays in Python: the first one is kept, ends the
transfer, and is raised to who runs it.
"""

from __future__ import annotations

import errno
import threading
from typing import Any, Callable, Optional

from headrace._library import ffi

_here = threading.local()


class Failures:
    """The first exception that was raised in a pipeline's callbacks.

    Attributes
    ----------
    stopped : bool
        Nothing more is called: what C has begun to call may wait for the interpreter meanwhile.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._first: Optional[BaseException] = None
        self.stopped = False

    def stop(self) -> None:
        """Nothing more is to be called. Any thread, also a signal handler: takes no lock."""
        self.stopped = True

    def keep(self, error: BaseException) -> None:
        """Keeps it, if it is the first. What is meant for the program stops the others, too."""
        if not isinstance(error, Exception):
            self.stop()
        with self._lock:
            if self._first is None:
                self._first = error

    def take(self) -> Optional[BaseException]:
        """The first one, once: who raises it owns it, so that no cycle stays."""
        with self._lock:
            first, self._first = self._first, None
            return first


class _Called:
    """A Python function and where its exceptions go: what a handle stands for."""

    def __init__(self, function: Callable[..., int], failures: Failures) -> None:
        self.function = function
        self.failures = failures


def handle(function: Callable[..., int], failures: Failures) -> Any:
    """What a callback is given as its user, to be kept as long as C may call it: it owns the
    function and what that has, which goes with it at once."""
    return ffi.new_handle(_Called(function, failures))


def inside() -> bool:
    """Whether this thread is in a callback: then nothing may be waited for."""
    return bool(getattr(_here, "depth", 0))


def _call(user: Any, failed: int, *arguments: Any) -> int:
    called = ffi.from_handle(user)
    if called.failures.stopped:
        return failed
    depth = getattr(_here, "depth", 0)
    try:
        _here.depth = depth + 1
        return int(called.function(*arguments))
    except BaseException as error:  # noqa: BLE001 - also SystemExit: the thread is not Python's
        called.failures.keep(error)
        return failed
    finally:
        _here.depth = depth


def _interrupted(kind: Any, error: BaseException, trace: Any) -> None:
    """Keeps what was raised outside of the function: Ctrl-C, before it or behind it."""
    ffi.from_handle(trace.tb_frame.f_locals["user"]).failures.keep(error)


def _callback(kind: str, failed: int) -> Callable[[Callable[..., int]], Any]:
    """Makes a Python function one of C."""
    made: Callable[[Callable[..., int]], Any] = ffi.callback(
        kind, error=failed, onerror=_interrupted
    )
    return made


@_callback("hr_read_fn", -errno.EIO)
def read(user: Any, buffer: Any, size: int, offset: int) -> int:
    """function(buffer, size, offset) -> bytes that it put there, 0 at the end."""
    return _call(user, -errno.EIO, buffer, size, offset)


@_callback("hr_write_fn", -errno.EIO)
def write(user: Any, buffer: Any, size: int, offset: int) -> int:
    """function(buffer, size, offset) -> bytes that it took."""
    return _call(user, -errno.EIO, buffer, size, offset)


@_callback("hr_kernel_fn", errno.EIO)
def kernel(user: Any, call: Any) -> int:
    """function(struct hr_kernel_call *) -> 0, or an error number."""
    return _call(user, errno.EIO, call)
