# SPDX-License-Identifier: Apache-2.0
"""A file to load from: opened once, its header and its bytes through the same descriptor, so that
both are of one file even if another one takes its name meanwhile. What is encoded is seen decoded.
"""

from __future__ import annotations

import os
import re
import stat
from typing import Any, Iterator, Optional

import numpy
from numpy.typing import NDArray

from headrace._callbacks import inside
from headrace._ends import Range
from headrace._pipeline import Pipeline
from headrace.errors import FormatError, HeadraceError, TruncatedError, about
from headrace.formats import seek_table
from headrace.formats.reading import open_at_once

Bytes = NDArray[numpy.uint8]

NOTHING: Bytes = numpy.zeros(0, numpy.uint8)
_HEADER_CHUNK = 64 << 10


class File:
    """One file, and how it is read.

    Parameters
    ----------
    path : str
        Of a regular file.
    decode : {"auto", "none", "zstd"}
        "auto": it is zstd if it begins so.
    options : dict
        For the pipelines that read it: chunk_size, depth, io, direct.

    Attributes
    ----------
    encoded : bool
        It is zstd.
    size : int or None, bytes
        Decoded; None: only reading to the end tells.
    ends : int or None, bytes
        Where the decoded bytes must end, if they were not compared with that yet.
    ends_by : str
        What says so.
    short_at : int or None, bytes
        Where a `Reader` found the end, and wanted more.
    """

    def __init__(self, path: str, decode: str, options: dict[str, Any]) -> None:
        self.path = path
        self.options = options
        self.ends: Optional[int] = None
        self.ends_by = "its header"
        self.short_at: Optional[int] = None
        with about(path):
            self._file = open(  # noqa: SIM115 - closed by close()
                path, "rb", buffering=0, opener=open_at_once
            )
        status = os.fstat(self.fd)
        if not _tells_its_size(self.fd, status):
            self.close()
            raise ValueError(f"{path}: not a regular file: read it by a Pipeline")
        if decode == "auto":
            self.encoded = seek_table.begins_encoded(os.pread(self.fd, 4, 0))
        else:
            self.encoded = decode == "zstd"
        self.size = _decoded_size(self.fd) if self.encoded else status.st_size

    @property
    def fd(self) -> int:
        """Its descriptor."""
        return self._file.fileno()

    def close(self) -> None:
        """Nothing reads it any more."""
        self._file.close()

    def header(self) -> Any:
        """A file object for the header's reader: of the decoded bytes, from the first one on."""
        self.rewind()
        return _Decoded(self) if self.encoded else self._file

    def rewind(self) -> None:
        """Ranges count from the descriptor's position: to be called before a pipeline is made."""
        os.lseek(self.fd, 0, os.SEEK_SET)

    def range(self, begin: int, end: Optional[int]) -> Range:
        """A source: a range of decoded bytes."""
        return Range(self.fd, begin, None if end is None else end - begin)

    def pieces(self, begin: int, end: Optional[int], **more: Any) -> Iterator[Bytes]:
        """The bytes of a range, piece by piece, in memory that is valid until the next one."""
        self.rewind()
        decode = "zstd" if self.encoded else "none"
        options = {**beside(self.options), **more}
        try:
            with Pipeline(self.range(begin, end), decode=decode, **options) as pipeline:
                for chunk in pipeline:
                    yield chunk.numpy()
                    del chunk  # so that it goes back with its last view
                yield NOTHING  # in its place, so that all are back when the pipeline is closed
        except HeadraceError as error:
            raise self.named(error) from None

    def named(self, error: HeadraceError, tensor: str = "") -> HeadraceError:
        """An error of a pipeline or a header, with the names of the file and of the tensor in it,
        once."""
        text = re.sub(rf" descriptor {self.fd}\b", "", error.text)
        text = text[len(self.path) + 2 :] if text.startswith(f"{self.path}: ") else text
        return error.retold(f"{self.path}: {tensor and tensor + ': '}{text}", self.path)


def beside(options: dict[str, Any]) -> dict[str, Any]:
    """Options for a pipeline that another one's callback may wait for: then it takes none of the
    other's workers, but those of a context of its own."""
    return {**options, "context": None} if inside() else dict(options)


class Reader:
    """Reads ranges that follow one another.

    Parameters
    ----------
    file : File
        Plain files are read at offsets; encoded ones are decoded once, from the first range on.
    """

    def __init__(self, file: File) -> None:
        self.file = file
        self.position = 0
        self._left = NOTHING
        self._pieces: Optional[Iterator[Bytes]] = None

    def read(self, begin: int, end: int) -> Bytes:
        """The bytes of a range, in new memory. Raises as `fill`."""
        out = numpy.empty(end - begin, numpy.uint8)
        self.fill(out, begin)
        return out

    def fill(self, out: Bytes, begin: int) -> None:
        """Reads the bytes that begin at an offset.

        Raises
        ------
        TruncatedError
            The file ends before, which it notes.
        """
        done = self._decoded(out, begin) if self.file.encoded else self._plain(out, begin)
        if done < out.size:
            at = self.file.short_at = begin + done
            raise TruncatedError(f"the data end at byte {at}", stage="read", offset=at)

    def at_end(self) -> bool:
        """Whether nothing follows what was read last, of an encoded file."""
        return not self._left.size and not self._next()

    def close(self) -> None:
        """Ends the decoding."""
        if self._pieces is not None:
            self._pieces.close()  # type: ignore[attr-defined]

    def _plain(self, out: Bytes, begin: int) -> int:
        done = 0
        while done < out.size:
            n = os.preadv(self.file.fd, [out.data[done:]], begin + done)
            if n == 0:
                break
            done += n
        return done

    def _decoded(self, out: Bytes, begin: int) -> int:
        if self._pieces is None:
            self._pieces, self.position = self.file.pieces(begin, None), begin
        done = self.position - begin  # below 0: bytes to drop
        while done < out.size and (self._left.size or self._next()):
            n = min(self._left.size, -done if done < 0 else out.size - done)
            if done >= 0:
                out[done : done + n] = self._left[:n]
            self._left = self._left[n:]
            done += n
        self.position = begin + done
        return max(done, 0)

    def _next(self) -> bool:
        assert self._pieces is not None
        self._left = NOTHING  # the chunk goes back before the next one is asked for
        self._left = next(self._pieces, NOTHING)
        return self._left.size > 0


class _Decoded:
    """The first bytes of an encoded file, as a file object with read()."""

    def __init__(self, file: File) -> None:
        self.name = file.path
        self._pieces = file.pieces(0, None, chunk_size=_HEADER_CHUNK, depth=2)
        self._left = b""

    def read(self, n: int) -> bytes:
        if not self._left:
            self._left = bytes(next(self._pieces, b""))
        taken, self._left = self._left[:n], self._left[n:]
        return taken

    def close(self) -> None:
        self._pieces.close()  # type: ignore[attr-defined]


def _tells_its_size(fd: int, status: os.stat_result) -> bool:
    """Whether it is a regular file, but none of /proc: they have bytes, and say 0."""
    return stat.S_ISREG(status.st_mode) and (status.st_size > 0 or not os.pread(fd, 1, 0))


def _decoded_size(fd: int) -> Optional[int]:
    """By the seek table; None: there is none that can be right, and without it all is decoded. The
    file is opened again: its position here stays."""
    try:
        begins = seek_table.read(f"/proc/self/fd/{fd}")
    except FormatError:
        return None
    return None if begins is None else int(begins[-1])
