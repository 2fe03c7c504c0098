# SPDX-License-Identifier: Apache-2.0
"""What a source is, by its first bytes: its name says nothing.

Looked at are regular files, by their path or by an open descriptor or file object, and memory of
the host that has bytes. Pipes, sockets and objects with read() are not: what was read of them
beforehand would be missing.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Optional

from headrace import _ends, _flow, _foreign
from headrace._context import Context
from headrace._library import ffi
from headrace.errors import HeadraceError
from headrace.formats import FormatError, npy, safetensors, seek_table
from headrace.formats.tensor import TensorInfo

FIRST = 512  # bytes that tell
_ZIP = b"PK\x03\x04"  # APPNOTE.TXT of PKWARE, 4.3.7; the name of the member is at byte 30
_CHUNK = 4096


@dataclass(frozen=True)
class Container:
    """A file that begins with a header.

    Attributes
    ----------
    kind : {".npy", ".npz", ".safetensors"}
        Its format.
    header_bytes : int or None
        Where the data begin, decoded; None: they do not lie in one piece.
    """

    kind: str
    header_bytes: Optional[int] = None

    @property
    def text(self) -> str:
        """What is not data in it."""
        if self.header_bytes is None:
            return f"the directory and the headers of a {self.kind} file"
        return f"the header of a {self.kind} file, {self.header_bytes} bytes"

    def way_out(self, source: str) -> str:
        """How to get at its data; source: in the words of a program."""
        if self.kind == ".npy":
            return (
                f"headrace.stream({source}, kernels=...) knows the type of what follows, "
                f"headrace.Range({source}, {self.header_bytes}) has its bytes"
            )
        ways = f"headrace.load({source}, keys=...) gives its arrays"
        if self.header_bytes is None:
            return ways
        return f"{ways}, headrace.Range({source}, {self.header_bytes}) the bytes of all"


def container_of(first: bytes, where: str) -> Optional[Container]:
    """The format that bytes begin; None: none that is known.

    Parameters
    ----------
    first : bytes
        The first ones, decoded: `FIRST` of them, or all.
    where : str
        For messages.
    """
    if first[:6] == npy.MAGIC:
        return Container(".npy", npy.bytes_needed(first, where))
    name = first[30 : 30 + int.from_bytes(first[26:28], "little")]
    if first.startswith(_ZIP) and name.endswith(b".npy"):
        return Container(".npz")
    if _is_safetensors(first):
        return Container(".safetensors", safetensors.bytes_needed(first, where))
    return None


def _is_safetensors(first: bytes) -> bool:
    """The length of a header, and the begin of JSON text, which has no control characters."""
    length = int.from_bytes(first[:8], "little")
    text = first[8 : 8 + length]
    return (
        2 <= length <= safetensors.MAX_HEADER
        and text.startswith(b"{")
        and all(byte >= ord(" ") or byte in b"\t\n\r" for byte in text)
    )


class _At(io.RawIOBase):
    """A regular file from a place on; the descriptor's own position stays."""

    def __init__(self, fd: int, at: int) -> None:
        self._fd, self._at = fd, at

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        n = os.preadv(self._fd, [buffer], self._at)
        self._at += n
        return n


@dataclass(frozen=True)
class _Place:
    """Where bytes are: memory, or a path or descriptor and a position."""

    memory: Any = None
    keep: Any = None  # owns the memory
    path: Optional[str] = None
    fd: int = -1
    at: int = 0

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """A source, from the first byte on."""
        if self.memory is not None:
            yield self.memory
        elif self.path is None:
            yield _At(self.fd, self.at)
        else:
            with open(self.path, "rb", buffering=0) as file:
                yield _At(file.fileno(), 0)

    def read(self, n: int) -> bytes:
        """The first bytes, as many as there are."""
        if self.memory is not None:
            return bytes(self.memory[:n])
        with self.opened() as file:
            return bytes(io.BufferedReader(file).read(n))

    @property
    def size(self) -> int:
        """Bytes of all."""
        if self.memory is not None:
            return len(self.memory)
        status = os.fstat(self.fd) if self.path is None else os.stat(self.path)
        return max(status.st_size - self.at, 0)


class File:
    """A source that is looked at before a transfer reads it.

    Parameters
    ----------
    source : object
        What was given.
    place : _Place
        Where its bytes are.
    decode : {"none", "auto", "zstd"}
        As of ``headrace.Pipeline``.
    **options
        Of it, for what is encoded: dict, window_log.

    Attributes
    ----------
    source : object
        What was given.
    path : str or None
        Its name, if it is known.
    where : str
        What it is called in messages.
    begins_encoded : bool
        It begins as zstd does.
    encoded : bool
        It is to be decoded.
    size : int or None
        Decoded bytes; None: only reading to the end tells.
    """

    def __init__(self, source: Any, place: _Place, decode: str, **options: Any) -> None:
        self.source = source
        self.path = place.path or _name_of(source)
        self.where = self.path or f"the source, {type(source).__name__}"
        self._place, self._options = place, options
        self._first, size = place.read(FIRST), place.size
        self.begins_encoded = seek_table.begins_encoded(self._first)
        self.encoded = decode == "zstd" or (decode == "auto" and self.begins_encoded)
        is_told = not self.encoded and size >= len(self._first)  # in /proc it is 0
        self.size = size if is_told else None

    @property
    def word(self) -> str:
        """The source in the words of a program."""
        return "source" if self._place.path is None else repr(self.path)

    def container(self) -> Optional[Container]:
        """Its format; None: bytes without a header that is known."""
        return container_of(self.begin(FIRST), self.where)

    def npy_header(self) -> TensorInfo:
        """What its header says, which has that of a .npy file.

        Raises
        ------
        FormatError
            It is wrong.
        """
        prefix, needed = b"", npy.bytes_needed(b"", self.where)
        while needed > len(prefix):
            prefix = self.begin(needed)
            if len(prefix) < needed:
                raise FormatError(
                    f"{self.where}: the header needs {needed} bytes, the file has {len(prefix)}"
                )
            needed = npy.bytes_needed(prefix, self.where)
        return npy.parse_header(prefix, size=self.size, where=self.where, path=self.path)

    def begin(self, n: int) -> bytes:
        """Its first bytes, decoded, as far as they are there and right. What is wrong with a zstd
        file is left to the transfer to say, if it comes so far."""
        if not self.encoded:
            return self._first[:n] if n <= len(self._first) else self._place.read(n)
        from headrace._pipeline import Pipeline  # which looks at files, too

        room = bytearray(n)
        # A context of its own: this may be in a process whose children are to use headrace.
        options: Any = {**self._options, "context": Context(threads=1)}
        try:  # small chunks, so that a large frame is decoded no further
            with self._place.opened() as file, Pipeline(
                _ends.Range(file, 0, n), room, decode="zstd", chunk_size=_CHUNK, depth=2, **options
            ) as pipeline:
                with suppress(HeadraceError):
                    pipeline.run()
                return bytes(room[: pipeline.stats().bytes_out])
        except HeadraceError:
            return b""


def _name_of(source: Any) -> Optional[str]:
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else None


def _place_of(source: Any) -> Optional[_Place]:
    """None: it cannot be looked at."""
    if _ends.is_path(source):
        path = os.fsdecode(source)
        return _Place(path=path) if os.path.isfile(path) else None
    if isinstance(source, int) and not isinstance(source, bool):
        return _of_descriptor(source, None)
    if _ends.is_file(source):
        return _of_descriptor(source.fileno(), source) if source.readable() else None
    if isinstance(source, io.BytesIO):
        return _Place(memory=memoryview(source.getvalue())[source.tell() :])
    if _foreign.is_array(source):
        found = _foreign.describe(source, writable=False)
        if found.device == "host" and _flow.of_array(found) is None:
            return _Place(ffi.buffer(ffi.cast("char *", found.ptr), found.nbytes), found)
    return None


def _of_descriptor(fd: int, file: Any) -> Optional[_Place]:
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        return None
    return _Place(fd=fd, at=os.lseek(fd, 0, os.SEEK_CUR) if file is None else file.tell())


def looked_at(source: Any, decode: str, **options: Any) -> Optional[File]:
    """A source that can be looked at beforehand; else None.

    Parameters
    ----------
    source, decode, **options
        As of `File`.
    """
    try:
        place = _place_of(source)
        return None if place is None else File(source, place, decode, **options)
    except OSError:  # which opening it for the transfer will tell
        return None
