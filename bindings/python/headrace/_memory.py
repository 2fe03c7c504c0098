# SPDX-License-Identifier: Apache-2.0
"""What the bytes of an Array lie in, and until when.

Memory that the C library gives back is under a hold: a count in C, so that users who are not
Python's (tensors of DLPack) may keep it, and drop it on any thread.
"""

from __future__ import annotations

from typing import Any, Optional

from headrace import _calls
from headrace._library import ffi, native


class Memory:
    """Bytes somewhere, shared by an array and its views.

    Parameters
    ----------
    device : str
        "host", "cuda:N" or "hip:N".
    hold : place for a hrp_hold (`_calls.new_hold`), optional
        What to drop when nobody uses the bytes any more; this object takes it over.
    base : object, optional
        A Python object that keeps the bytes.
    stream : int, optional
        On which the bytes are made: who uses them waits for it. By default they are there.
    readonly : bool, default False
        Nobody may write to them.
    """

    def __init__(
        self,
        device: str,
        hold: Any = None,
        base: Any = None,
        stream: Optional[int] = None,
        readonly: bool = False,
    ) -> None:
        self.device = device
        self.base = base
        self.stream = stream
        self.readonly = readonly
        self._hold = hold
        self._ended: Optional[str] = None

    def check(self) -> None:
        """Raises ValueError if the bytes are not this object's any more."""
        if self._ended is not None:
            raise ValueError(self._ended)

    @property
    def hold(self) -> Any:
        """The hold, to be retained by others; None: there is none."""
        self.check()
        if self._hold is None:
            return None
        if not self._hold[0]:
            raise ValueError("the array's memory has been collected already, with what refers to it")
        return self._hold[0]

    @property
    def ended(self) -> bool:
        """Whether `end` was called."""
        return self._ended is not None

    def retained(self) -> Any:
        """Something that keeps the bytes, whatever becomes of this object."""
        hold = self.hold
        if hold is None:
            return self.base
        kept = _calls.new_hold()
        native.hrp_hold_retain(hold, kept)
        return kept

    def note(self, stream: int) -> None:
        """What is queued on a stream when the last user is gone comes before other use."""
        if self.hold is not None and native.hrp_hold_note_stream(
            self.hold, ffi.cast("void *", stream)
        ):
            raise MemoryError("headrace: no memory to note a stream")

    def end(self, why: str) -> None:
        """Ends the use by this object, for which later use has the reason; others' goes on."""
        if self._ended is None:
            hold, self._hold, self.base = self._hold, None, None
            self._ended = why
            if hold is not None:
                ffi.release(hold)

    def buffer(self, ptr: int, nbytes: int) -> memoryview:
        """Bytes of the host as a view, which keeps them by itself."""
        # The destructor is there for what it refers to; as it is C's, Ctrl-C is never lost in it.
        start = ffi.gc(ffi.cast("char *", ptr), [self.retained()].append)
        view = memoryview(ffi.buffer(start, nbytes))
        return view.toreadonly() if self.readonly else view
