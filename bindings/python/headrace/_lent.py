# SPDX-License-Identifier: Apache-2.0
"""Memory shown to a Python function during a call, which must not be used after it."""

from __future__ import annotations

import gc
import time
import weakref
from typing import Any, Callable, TypeVar

from headrace._library import ffi

_COLLECTIONS = 10
_BYTES = ffi.typeof("char *")

Self = TypeVar("Self", bound="Lent")

# Called before a view is said to be left: the package itself keeps what closed pipelines read.
keepers: list[Callable[[], None]] = []


class Lent:
    """Makes views, and sees at the end that none is left.

    Parameters
    ----------
    who : str
        Who gets the views, for the message.

    Raises
    ------
    BufferError
        At the end of the with statement: a view, or what was made of it without a copy, is left.
    """

    def __init__(self, who: str) -> None:
        self._who = who
        self._roots: list[weakref.ref[Any]] = []

    def view(self, address: Any, nbytes: int, writable: bool) -> memoryview:
        """Bytes at an address. Whatever uses them refers to one object, and ends with it."""
        root = ffi.buffer(ffi.cast(_BYTES, address), nbytes)
        self._roots.append(weakref.ref(root))
        view = memoryview(root)
        return view if writable else view.toreadonly()

    def _is_left(self) -> bool:
        for root in self._roots:
            if root() is not None:
                return True
        return False

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is not None or not self._is_left():
            return  # the traceback of an exception has the views, too
        for give_back in keepers:
            give_back()
        for _ in range(_COLLECTIONS):  # they may be in a cycle
            gc.collect()  # does nothing while another thread collects
            if not self._is_left():
                return
            time.sleep(0.001)
        raise BufferError(f"{self._who} kept a view of memory that is used again: copy it")
