# SPDX-License-Identifier: Apache-2.0
"""What a file is, by its first bytes: its name says nothing."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Optional

from headrace import _ends
from headrace._context import Context
from headrace.errors import HeadraceError
from headrace.formats import FormatError, npy, safetensors, seek_table
from headrace.formats.tensor import TensorInfo

_FIRST = 512  # bytes that tell
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

    def way_out(self, path: str) -> str:
        """How to get at its data."""
        if self.kind == ".npy":
            return (
                f"headrace.stream({path!r}, kernels=...) knows the type of what follows, "
                f"headrace.Range({path!r}, {self.header_bytes}) has its bytes"
            )
        ways = f"headrace.load({path!r}, keys=...) gives its arrays"
        if self.header_bytes is None:
            return ways
        return f"{ways}, headrace.Range({path!r}, {self.header_bytes}) the bytes of all"


class File:
    """A file that is looked at before a transfer reads it.

    Parameters
    ----------
    path : object
        What was given as a source.
    decode : {"none", "auto", "zstd"}
        As of ``headrace.Pipeline``.
    **options
        Of it, for what is encoded: dict, window_log.

    Attributes
    ----------
    path : str
        Its name.
    encoded : bool
        It is to be decoded.
    size : int or None
        Decoded bytes; None: only reading to the end tells.
    """

    def __init__(self, path: Any, decode: str, **options: Any) -> None:
        self.path: str = os.fsdecode(path)
        self._options = options
        with open(self.path, "rb") as file:
            self._first = file.read(_FIRST)
            size = file.seek(0, os.SEEK_END)
        self.encoded = decode == "zstd" or (decode == "auto" and seek_table.begins_encoded(self._first))
        is_told = not self.encoded and size >= len(self._first)  # in /proc it is 0
        self.size = size if is_told else None

    def container(self) -> Optional[Container]:
        """Its format; None: bytes without a header that is known."""
        first = self.begin(_FIRST)
        if first[:6] == npy.MAGIC:
            return Container(".npy", npy.bytes_needed(first, self.path))
        name = first[30 : 30 + int.from_bytes(first[26:28], "little")]
        if first.startswith(_ZIP) and name.endswith(b".npy"):
            return Container(".npz")
        if _is_safetensors(first):
            return Container(".safetensors", safetensors.bytes_needed(first, self.path))
        return None

    def npy_header(self) -> TensorInfo:
        """What its header says, which has that of a .npy file.

        Raises
        ------
        FormatError
            It is wrong.
        """
        if not self.encoded:
            return npy.read(self.path)
        prefix, needed = b"", npy.bytes_needed(b"", self.path)
        while needed > len(prefix):
            prefix = self.begin(needed)
            if len(prefix) < needed:
                raise FormatError(
                    f"{self.path}: the header needs {needed} bytes, the file has {len(prefix)}"
                )
            needed = npy.bytes_needed(prefix, self.path)
        return npy.parse_header(prefix, where=self.path, path=self.path)

    def begin(self, n: int) -> bytes:
        """Its first bytes, decoded, as far as they are there and right. What is wrong with a zstd
        file is left to the transfer to say, if it comes so far."""
        if not self.encoded:
            return self._first[:n]
        from headrace._pipeline import Pipeline  # which looks at files, too

        room = bytearray(n)
        # A context of its own: this may be in a process whose children are to use headrace.
        options: Any = {**self._options, "context": Context(threads=1)}
        source = _ends.Range(self.path, 0, n)
        try:  # small chunks, so that a large frame is decoded no further
            with Pipeline(
                source, room, decode="zstd", chunk_size=_CHUNK, depth=2, **options
            ) as pipeline:
                with suppress(HeadraceError):
                    pipeline.run()
                return bytes(room[: pipeline.stats().bytes_out])
        except HeadraceError:
            return b""


def _is_safetensors(first: bytes) -> bool:
    """The length of a header, and the begin of JSON text, which has no control characters."""
    length = int.from_bytes(first[:8], "little")
    text = first[8 : 8 + length]
    return (
        2 <= length <= safetensors.MAX_HEADER
        and text.startswith(b"{")
        and all(byte >= ord(" ") or byte in b"\t\n\r" for byte in text)
    )


def looked_at(source: Any, decode: str, **options: Any) -> Optional[File]:
    """A source that can be looked at beforehand: a regular file, by its path; else None.

    Parameters
    ----------
    source, decode, **options
        As of `File`.
    """
    if not _ends.is_path(source) or not os.path.isfile(source):
        return None
    try:
        return File(source, decode, **options)
    except OSError:  # which opening it for the transfer will tell
        return None
