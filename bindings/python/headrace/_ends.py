# SPDX-License-Identifier: Apache-2.0
"""Sources and sinks from Python objects.

======================================== ===============================================
object                                   read or written as
======================================== ===============================================
str                                      an address (tcp://, tcp-listen://, unix:,
                                         unix-listen:, as a sink also peer:), else a path
os.PathLike                              a path
int; socket.socket                       a descriptor, from its position on; never closed
bytes, bytearray, memoryview, arrays     memory, in place; of a GPU: on that device
a file object of ``open(..., "b")``      its descriptor; its position is where it ended
another object with read() or write()    by calls, on a thread of the library's
an iterable of bytes-like                by calls, one item after the other
a list or tuple of sources               one after the other, one stream
======================================== ===============================================

Arrays have elements (`_flow.Elements`); a range of one has bytes, as all others.

Of a descriptor the pipeline has a duplicate. So closing a file or a socket does not end a transfer
that reads from it: ``Pipeline.cancel`` does, or the peer.

A pipe's file object is read through its descriptor: what Python has buffered of it is not seen.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import socket
from collections.abc import Iterable, Mapping
from numbers import Number
from typing import Any, Callable, Optional

from headrace import _callbacks, _calls, _checks, _flow, _foreign
from headrace._callbacks import Failures
from headrace._lent import Lent
from headrace._library import ffi, lib
from headrace._numbers import size
from headrace.errors import TransferError

_ALIGN = 16  # of a source of kind HR_DEVICE
_TO_THE_END = (1 << 64) - 1


class _Null:
    def __repr__(self) -> str:
        return "headrace.NULL"

    def __reduce__(self) -> str:
        return "NULL"  # there is one


NULL = _Null()
"""The sink that reads every byte for its CRC-32 and drops it."""


class DeviceMemory:
    """The sink that gathers the stream in one allocation on the pipeline's device.

    Parameters
    ----------
    limit : int, default 0
        Bytes that it may become; 0: no limit.

    See Also
    --------
    Pipeline.gathered : what it gathered.
    """

    def __init__(self, limit: int = 0) -> None:
        self.limit = size("limit", limit, 64)

    def __repr__(self) -> str:
        return f"headrace.DeviceMemory(limit={self.limit})"


class Range:
    """A part of a source, or all of it, as bytes.

    Of an array its elements do not count any more, and of a file with a header (``.npy``) that is
    read as any other byte.

    Parameters
    ----------
    source : object
        Any source but a range or a list.
    offset : int, default 0
        First byte, counted in decoded bytes. What precedes is skipped by seeking where the source
        can, else read and dropped.
    length : int, optional
        Decoded bytes, by default to the end. A range beyond the end gives what is there.

    Examples
    --------
    >>> import headrace as hr
    >>> out = bytearray(3)
    >>> stats = hr.Pipeline(hr.Range(b"0123456789", 4, 3), out).run()
    >>> bytes(out)
    b'456'
    """

    def __init__(self, source: Any, offset: int = 0, length: Optional[int] = None) -> None:
        self.source = source
        self.offset = size("offset", offset, 64)
        self.length = None if length is None else size("length", length, 64)

    def __repr__(self) -> str:
        return f"headrace.Range({self.source!r}, {self.offset}, {self.length})"


class End:
    """One source or sink as the C library takes it, and what must stay while it is in use.

    Attributes
    ----------
    fields : dict
        Of struct hr_source or hr_sink.
    keep : list
        Objects that own what the fields point to.
    device : str or None
        "cuda:0": where the memory is, if it is a GPU's.
    after : callable or None
        To be called when the transfer has ended.
    elements : Elements or None
        What an array is made of; None: bytes.
    given : object
        Of a source: what it was made of, which may have to be looked at beforehand.
    is_range : bool
        It is a part of a source, as bytes.
    """

    def __init__(self, kind: int, keep: Any = None, **fields: Any) -> None:
        self.fields: dict[str, Any] = {"kind": kind, **fields}
        self.keep: list[Any] = [keep]
        self.device: Optional[str] = None
        self.after: Optional[Callable[[], None]] = None
        self.elements: Optional[_flow.Elements] = None
        self.given: Any = None
        self.is_range = False

    @property
    def addresses(self) -> Optional[tuple[int, int]]:
        """Where its memory begins and ends; None: it has none."""
        if "data" not in self.fields:
            return None
        begin = int(ffi.cast("uintptr_t", self.fields["data"]))
        return begin, begin + self.fields["size"]

    @property
    def nbytes(self) -> Optional[int]:
        """Bytes of its memory, or of the range of it; None: it has none."""
        addresses = self.addresses
        return None if addresses is None else self.part_of(addresses[1] - addresses[0])

    def part_of(self, nbytes: int) -> int:
        """How many of so many bytes it reads."""
        behind = max(nbytes - int(self.fields.get("offset", 0)), 0)
        return min(behind, int(self.fields.get("length", behind)))

    def first_bytes(self, n: int) -> bytes:
        """The first bytes of memory of the host; of a GPU's none."""
        if self.addresses is None or self.device is not None:
            return b""
        return bytes(ffi.buffer(self.fields["data"], min(n, self.fields["size"])))

    def fill(self, struct: Any) -> None:
        """Sets the fields of a struct hr_source or hr_sink."""
        struct.struct_size = ffi.sizeof(struct)
        for name, value in self.fields.items():
            setattr(struct, name, value)


def _path(kind: int, path: Any) -> End:
    text = _calls.text(os.fsencode(path))
    return End(kind, text, path=text)


def is_path(given: Any) -> bool:
    """Whether a source is a file by its name.

    Examples
    --------
    >>> is_path("a.npy"), is_path("tcp://host:7000"), is_path(b"abc")
    (True, False, False)
    """
    if isinstance(given, str):
        return not given.startswith(_checks.ADDRESSES)
    return isinstance(given, os.PathLike)


def _of_path(given: Any, *more_addresses: str) -> Optional[End]:
    if isinstance(given, str) and given.startswith(_checks.ADDRESSES + more_addresses):
        return _path(lib.HR_SOCKET, given)
    if not is_path(given):
        return None
    return _path(lib.HR_FILE, given)


def _of_descriptor(given: Any, writable: bool) -> Optional[End]:
    if isinstance(given, bool):
        return None
    if isinstance(given, int):
        fd = size("the descriptor", given, 31)
        _check_open(fd, writable)
        return End(lib.HR_FD, fd=fd)
    if isinstance(given, socket.socket):
        return End(lib.HR_FD, given, fd=given.fileno())
    return None


def _check_open(fd: int, writable: bool) -> None:
    """Numbers that are meant as data are mostly no descriptors, or those of the terminal."""
    wrong = os.O_RDONLY if writable else os.O_WRONLY
    try:
        is_open = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE != wrong
    except OSError:
        is_open = False
    if not is_open:
        doing = "writing" if writable else "reading"
        raise TransferError(
            f"not open for {doing}: descriptor {fd}: {os.strerror(errno.EBADF)}; an int is a "
            "descriptor: for numbers give a NumPy array",
            native=errno.EBADF,
            stage="write" if writable else "read",
        )


def _of_array(given: Any, writable: bool) -> Optional[End]:
    if not _foreign.is_array(given):
        return None
    found = _foreign.describe(given, writable)
    on_host = found.device == "host"
    end = End(
        lib.HR_MEMORY if on_host else lib.HR_DEVICE,
        found,
        data=ffi.cast("void *", found.ptr),
        size=found.nbytes,
    )
    end.elements = _flow.of_array(found)
    if not on_host:
        end.device = found.device
        before = 0 if writable or not found.nbytes else found.ptr % _ALIGN
        if before:  # a slice: skipped is what precedes it in its allocation, which is aligned
            end.fields["data"] = ffi.cast("void *", found.ptr - before)
            end.fields["size"] += before
            end.fields.update(flags=lib.HR_RANGE, offset=before, length=found.nbytes)
        if found.stream is not None:
            end.fields["stream"] = ffi.cast("void *", found.stream)
    return end


def is_file(given: Any) -> bool:
    """Whether it is of the classes of io that stand for a descriptor and nothing else. A GzipFile
    has a descriptor, too, but not of the bytes that it reads."""
    buffered = (io.BufferedReader, io.BufferedWriter, io.BufferedRandom)
    return isinstance(given.raw if isinstance(given, buffered) else given, io.FileIO)


def _of_file(given: Any, writable: bool) -> Optional[End]:
    if isinstance(given, io.TextIOBase):
        raise TypeError(f'{given!r} gives text: open it in binary mode, "rb" or "wb"')
    if not is_file(given):
        return None
    if not (given.writable() if writable else given.readable()):
        way, stage = ("written to", "write") if writable else ("read", "read")
        name = given.name if isinstance(given.name, str) else None
        raise TransferError(
            f"{name or given!r}: it is open in mode {given.mode!r}, and cannot be {way}",
            native=errno.EBADF,
            stage=stage,
            filename=name,
        )
    fd = given.fileno()
    end = End(lib.HR_FD, given, fd=fd)
    if given.writable():
        given.flush()
    if given.seekable():
        at = given.tell()
        if os.lseek(fd, 0, os.SEEK_CUR) != at:
            _go(given, at)
        end.after = lambda: _seek(given)
    return end


def _seek(file: Any) -> None:
    """Python's position becomes the descriptor's; what it has buffered is forgotten."""
    if not file.closed:
        _go(file, os.lseek(file.fileno(), 0, os.SEEK_CUR))


def _go(file: Any, at: int) -> None:
    """Both Python's position and the descriptor's, with nothing buffered."""
    file.seek(0, os.SEEK_END)
    file.seek(at)


def _copy(item: Any, buffer: Any, at: int, size: int) -> int:
    n = min(len(item) - at, size)
    ffi.memmove(buffer, item[at : at + n], n)
    return int(n)


def _flat(item: Any) -> Any:
    """The bytes of a bytes-like object, contiguous: cffi's view, which keeps the object."""
    if isinstance(item, str):
        raise TypeError("a source gave str, not bytes: encode it")
    _foreign.refuse_masked(item)
    try:
        return ffi.from_buffer(item)
    except (BufferError, ValueError):
        return ffi.from_buffer(memoryview(item).tobytes())


class _Reader:
    """Reads from an object with readinto() or read(), skipping what precedes a range."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.position = 0
        self.readinto = getattr(file, "readinto", None)

    def __call__(self, buffer: Any, size: int, offset: int) -> int:
        while self.position < offset:
            n = self.once(buffer, min(size, offset - self.position))
            if n == 0:
                return 0
        return self.once(buffer, size)

    def once(self, buffer: Any, size: int) -> int:
        n = self.some(buffer, size)
        self.position += n
        return n

    def some(self, buffer: Any, size: int) -> int:
        if self.readinto is not None:
            with Lent("readinto() of the source") as lent:
                n = self.readinto(lent.view(buffer, size, writable=True))
        else:
            n = self.from_read(buffer, size)
        if n is None:
            raise BlockingIOError("the source has nothing now, and does not wait")
        return int(n)

    def from_read(self, buffer: Any, size: int) -> Optional[int]:
        item = self.file.read(size)
        if item is None:
            return None
        flat = _flat(item)
        if len(flat) > size:
            raise ValueError(f"read({size}) of the source gave {len(flat)} bytes")
        return _copy(flat, buffer, 0, size)


class _Items(_Reader):
    """Reads the items of an iterable, each as much as fits."""

    def __init__(self, items: Iterable[Any]) -> None:
        super().__init__(None)
        self.items = iter(items)
        self.number = 0
        self.left = _flat(b"")  # of the item that is at hand
        self.at = 0

    def some(self, buffer: Any, size: int) -> int:
        while self.at == len(self.left):
            try:
                item = next(self.items)
            except StopIteration:
                return 0
            self.left, self.at = self.bytes_of(item), 0
            self.number += 1
        n = _copy(self.left, buffer, self.at, size)
        self.at += n
        return n

    def bytes_of(self, item: Any) -> Any:
        try:
            return _flat(item)
        except TypeError as error:
            raise TypeError(
                f"item {self.number} of the source, of type {type(item).__name__}, has no bytes: "
                f"{error}"
            ) from None


def _write_to(file: Any) -> Callable[[Any, int, int], int]:
    def write(buffer: Any, size: int, offset: int) -> int:
        with Lent("write() of the sink") as lent:
            n = file.write(lent.view(buffer, size, writable=False))
        return size if n is None else int(n)

    return write


def _of_calls(given: Any, failures: Failures) -> Optional[End]:
    if hasattr(given, "read") or hasattr(given, "readinto"):
        reader = _Reader(given)
    elif isinstance(given, Iterable) and not isinstance(given, Mapping):
        reader = _Items(given)
    else:
        return None
    user = _callbacks.handle(reader, failures)
    return End(lib.HR_CALLBACK, user, read=_callbacks.read, user=user)


def _source(given: Any, failures: Failures) -> End:
    if isinstance(given, Range):
        if isinstance(given.source, (Range, list, tuple)):
            raise TypeError("a range is of one source, not of a range or a list")
        end = _source(given.source, failures)
        end.fields["flags"] = lib.HR_RANGE
        end.fields["offset"] = end.fields.get("offset", 0) + given.offset
        end.fields["length"] = _TO_THE_END if given.length is None else given.length
        end.elements, end.is_range = None, True
        return end
    end_or_none = _whole(given, failures)
    if end_or_none is None:
        numbers = ", in a NumPy array if they are numbers" if isinstance(given, Number) else ""
        raise TypeError(
            f"{type(given).__name__} is no source: a path, address, descriptor, socket, file, "
            f"array, bytes, an iterable of bytes, or a list of these{numbers}"
        )
    end_or_none.given = given
    return end_or_none


def _whole(given: Any, failures: Failures) -> Optional[End]:
    """A source that is no range; None: it is none."""
    _checks.refuse(given, is_source=True)
    return (
        _of_path(given)
        or _of_descriptor(given, writable=False)
        or _of_array(given, writable=False)
        or _of_file(given, writable=False)
        or _of_calls(given, failures)
    )


def ranged(given: Any, offset: Optional[int], length: Optional[int]) -> Any:
    """A source, or the range of it that offset and length tell.

    Raises
    ------
    ValueError
        It is a range, or a list of sources.
    """
    if offset is None and length is None:
        return given
    if isinstance(given, (list, tuple, Range)):
        raise ValueError("offset and length are of one source: use headrace.Range in the list")
    return Range(given, offset or 0, length)


def sources(
    given: Any, offset: Optional[int], length: Optional[int], failures: Failures
) -> list[End]:
    """The sources that an object stands for.

    Parameters
    ----------
    given : object
        See the table above.
    offset, length : int, optional
        The range of the only source.
    failures : Failures
        Where exceptions of Python objects go.

    Returns
    -------
    list of End
        In the order of the stream.

    Raises
    ------
    TypeError
        It is no source.
    ValueError
        A negative range, a range of several sources, or no source at all.
    """
    several = isinstance(given, (list, tuple))
    given = ranged(given, offset, length)
    ends = [_source(one, failures) for one in (given if several else [given])]
    if not ends:
        raise ValueError("the list of sources is empty")
    return ends


def sink(given: Any, failures: Failures) -> End:
    """The sink that an object stands for.

    Parameters
    ----------
    given : object
        See the table above; None: chunks are fetched by iteration.
    failures : Failures
        Where exceptions of Python objects go.

    Returns
    -------
    End
        A new one.

    Raises
    ------
    TypeError
        It is no sink.
    BufferError, ValueError
        An array that is read-only or not contiguous.
    """
    if given is None:
        return End(lib.HR_PULL)
    if given is NULL:
        return End(lib.HR_NULL)
    if isinstance(given, DeviceMemory):
        return End(lib.HR_DEVICE, size=given.limit)
    _checks.refuse(given, is_source=False)
    end = (
        _of_path(given, "peer:")
        or _of_descriptor(given, writable=True)
        or _of_array(given, writable=True)
        or _of_file(given, writable=True)
    )
    if end is not None:
        return end
    if not hasattr(given, "write"):
        raise TypeError(
            f"{type(given).__name__} is no sink: a path, address, descriptor, socket, file, "
            "writable array, headrace.NULL, headrace.DeviceMemory(), or None to iterate"
        )
    user = _callbacks.handle(_write_to(given), failures)
    return End(lib.HR_CALLBACK, user, write=_callbacks.write, user=user)
