# SPDX-License-Identifier: Apache-2.0
"""The first bytes of files, from paths and from open files, seekable or not."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager
from typing import Any, BinaryIO, Callable, Iterator, Optional, Tuple, Union

from ..errors import about
from . import FormatError
from .seek_table import begins_encoded

__all__ = ["Readable", "open_at_once", "opened", "read_prefix"]

Readable = Union[str, "os.PathLike[str]", BinaryIO]

_STEP = 1 << 20  # a claimed length is allocated only as its bytes arrive


def _remaining(file: Any) -> Optional[int]:
    """Bytes from the current position to the end; None where the end is not known."""
    if not getattr(file, "seekable", lambda: False)():
        return None
    here = file.tell()
    size = file.seek(0, os.SEEK_END) - here
    file.seek(here)
    return int(size)


def open_at_once(path: Any, flags: int) -> int:
    """An opener for `open`, which does not wait for somebody to write to a pipe."""
    fd = os.open(path, flags | os.O_NONBLOCK)
    os.set_blocking(fd, True)
    return fd


@contextmanager
def opened(source: Readable) -> Iterator[Tuple[Any, Optional[str], str, Optional[int]]]:
    """A file to read from, and what is known about it.

    Parameters
    ----------
    source : str, os.PathLike or binary file object
        File objects stay open, and are left where reading ended.

    Yields
    ------
    file : binary file object
    path : str or None
    where : str
        For messages.
    size : int or None, bytes
        From the current position to the end, if the file can tell.
    """
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        with about(path), open(path, "rb", opener=open_at_once) as file:
            info = os.fstat(file.fileno())
            yield file, path, path, info.st_size if stat.S_ISREG(info.st_mode) else None
        return
    name = getattr(source, "name", None)
    where = name if isinstance(name, str) else f"<{type(source).__name__}>"
    yield source, None, where, _remaining(source)


def read_prefix(
    file: Any, needed: Callable[[bytes], int], where: str, size: Optional[int] = None
) -> bytes:
    """Read a header of which only its beginning tells the length.

    Parameters
    ----------
    file : object with read(n)
        Short reads are fine; the position is left behind the header.
    needed : callable
        How many bytes are needed, given those read so far; at most their number: done.
    where : str
        For messages.
    size : int or None, bytes
        What the file holds, to refuse lengths beyond it before reading on.

    Returns
    -------
    bytes

    Raises
    ------
    FormatError
        The file is zstd, with which no header begins; it is shorter than its header claims; or
        what ``needed`` raises.
    """
    have = bytearray()
    while True:
        if begins_encoded(bytes(have[:4])):
            raise FormatError(f"{where}: it is zstd, and has to be decoded first")
        want = needed(bytes(have))
        if want <= len(have):
            return bytes(have)
        if size is not None and want > size:
            raise FormatError(f"{where}: the header needs {want} bytes, the file has {size}")
        while len(have) < want:
            piece = file.read(min(want - len(have), _STEP))
            if not piece:
                raise FormatError(
                    f"{where}: the header needs {want} bytes, the file ends after {len(have)}"
                )
            have += piece
