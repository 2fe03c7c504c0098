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
    """The first exception that was raised in a pipeline's callbacks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._first: Optional[BaseException] = None

    def keep(self, error: BaseException) -> None:
        """Keeps it, if it is the first."""
        with self._lock:
            if self._first is None:
                self._first = error

    def take(self) -> Optional[BaseException]:
        """The first one, once: who raises it owns it, so that no cycle stays."""
        with self._lock:
            first, self._first = self._first, None
            return first


class Called:
    """A Python function and where its exceptions go: what a handle stands for."""

    def __init__(self, function: Callable[..., int], failures: Failures) -> None:
        self.function = function
        self.failures = failures
        self.handle = ffi.new_handle(self)


def inside() -> bool:
    """Whether this thread is in a callback: then nothing may be waited for."""
    return bool(getattr(_here, "depth", 0))


def _call(user: Any, failed: int, *arguments: Any) -> int:
    called = ffi.from_handle(user)
    _here.depth = getattr(_here, "depth", 0) + 1
    try:
        return int(called.function(*arguments))
    except BaseException as error:  # noqa: BLE001 - also SystemExit: the thread is not Python's
        called.failures.keep(error)
        return failed
    finally:
        _here.depth -= 1


@ffi.callback("hr_read_fn", error=-errno.EIO)  # type: ignore[untyped-decorator]
def read(user: Any, buffer: Any, size: int, offset: int) -> int:
    """function(buffer, size, offset) -> bytes that it put there, 0 at the end."""
    return _call(user, -errno.EIO, buffer, size, offset)


@ffi.callback("hr_write_fn", error=-errno.EIO)  # type: ignore[untyped-decorator]
def write(user: Any, buffer: Any, size: int, offset: int) -> int:
    """function(buffer, size, offset) -> bytes that it took."""
    return _call(user, -errno.EIO, buffer, size, offset)


@ffi.callback("hr_kernel_fn", error=errno.EIO)  # type: ignore[untyped-decorator]
def kernel(user: Any, call: Any) -> int:
    """function(struct hr_kernel_call *) -> 0, or an error number."""
    return _call(user, errno.EIO, call)
