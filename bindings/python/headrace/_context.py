# SPDX-License-Identifier: Apache-2.0
"""Contexts: what pipelines share. One is made at first use, for all that name no other."""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from typing import Any, Callable, Optional

from headrace import _calls, errors
from headrace._library import ffi
from headrace._numbers import size

LogFunction = Callable[[str], object]

_logs: dict[int, LogFunction] = {}
_numbers = itertools.count(1)


@ffi.callback("void(void *, const char *)")  # type: ignore[untyped-decorator]
def _log(user: Any, line: Any) -> None:
    function = _logs.get(int(ffi.cast("uintptr_t", user)))
    if function is not None:  # else its context is gone
        function(ffi.string(line).decode("utf-8", "replace"))


class Context:
    """CPU workers, devices and the memory that chunks are leased from.

    A program needs none of its own: without one, pipelines share the default context, which is made
    at first use with the defaults below.

    Parameters
    ----------
    threads : int, default 0
        CPU workers; 0: one for each CPU that the process may use.
    max_memory : int, default 0
        Bytes that all chunks together may lease; 0: 1 GiB.
    log : callable, optional
        Called with one line (str) about a fall-back or a choice that a user may want to know of, on
        any thread, one call at a time. It must not use headrace.

    Raises
    ------
    TypeError, ValueError
        A number that cannot be right.
    OutOfMemoryError
        No memory for it.

    Notes
    -----
    Threads may share it. It lives as long as a pipeline or an array of it does. A child made by
    fork is refused: start children by "spawn".

    Examples
    --------
    >>> import headrace as hr
    >>> context = hr.Context(threads=2, max_memory=64 << 20)
    >>> hr.Pipeline(b"some bytes", hr.NULL, context=context).run().crc32 > 0
    True
    """

    def __init__(
        self, *, threads: int = 0, max_memory: int = 0, log: Optional[LogFunction] = None
    ) -> None:
        self._pid = os.getpid()
        config = _calls.new_struct("hr_context_config")
        config.n_threads = size("threads", threads)
        config.max_memory = size("max_memory", max_memory, 64)
        if log is not None:
            number = next(_numbers)
            _logs[number] = log
            weakref.finalize(self, _logs.pop, number).atexit = False
            config.log = _log
            config.log_user = ffi.cast("void *", number)
        self._handle = _calls.context_create(config)

    @property
    def handle(self) -> Any:
        """The hr_context of C, valid as long as this object is. Refused in a forked child."""
        if self._pid != os.getpid():
            raise errors.in_child("context", self._pid)
        return self._handle[0]


_lock = threading.RLock()  # a signal handler or a collector may come and want it, too
_default: Optional[Context] = None


def default_context() -> Context:
    """The process's default context, made at the first call.

    Returns
    -------
    Context
        The same one at each call.

    Raises
    ------
    ForkError
        The process is a child of the one that made it.
    """
    global _default
    made = _default
    if made is None:
        with _lock:
            made = _default = _default or Context()
    made.handle  # noqa: B018 - refused after fork
    return made


def _after_fork() -> None:
    global _lock
    _lock = threading.RLock()  # whose holder is not in the child


os.register_at_fork(after_in_child=_after_fork)
