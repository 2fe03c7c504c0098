# SPDX-License-Identifier: Apache-2.0
"""Exceptions: each is a HeadraceError and also what Python calls such a thing.

================== ====================== ==============================================
status of C        exception              also a
================== ====================== ==============================================
HR_EINVAL          ArgumentError          ValueError
HR_ENOMEM          OutOfMemoryError       MemoryError
HR_AGAIN           BusyError              BlockingIOError, errno EAGAIN
HR_EIO             TransferError          OSError with errno, and its kind: FileNotFoundError,
                                          PermissionError, BrokenPipeError, ...
HR_ETRUNCATED      TruncatedError         EOFError
HR_EUNSUPPORTED    UnsupportedError       NotImplementedError
HR_ECANCELED       CanceledError
HR_EFORK           ForkError              RuntimeError
HR_ETHREAD         ThreadError            RuntimeError
HR_ESPACE          SpaceError             ValueError
HR_ECORRUPT        CorruptError           ValueError
HR_ELIMIT          LimitError             ValueError
HR_EDEVICE         DeviceError            RuntimeError
HR_ETIMEDOUT       TimedOutError          TimeoutError, errno ETIMEDOUT
HR_ELOANED         LoanedError            BufferError
(found in Python)  FormatError            ValueError
(found in Python)  ElementTypeError       TypeError
================== ====================== ==============================================

All are names of the package, too: ``headrace.FormatError``. Each has a ``filename``, as an OSError
has: the file that it is about, or None where that is not known or no file.

So fail files, data, devices and transfers. A wrong argument is a plain ValueError, TypeError,
KeyError or IndexError, as everywhere in Python.

What a Python function raises that a transfer called (a read, a write, a kernel) is raised as it is.
"""

from __future__ import annotations

import copyreg
import errno as _errno
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Optional

from headrace import _texts
from headrace._library import ffi, lib


class HeadraceError(Exception):
    """What went wrong, and where.

    Parameters
    ----------
    text : str
        One line that names the input or output, the position and the cause.
    code : int, default 0
        The status of the C library, ``HR_EIO`` for example; 0 if Python found the fault.
    stage : str, default "none"
        Where: "read", "decode", "H2D", "kernel", "D2H", "encode", "write" or "none".
    native : int, default 0
        errno of the system call, 0 if none.
    chunk : int, default 0
        Index of the chunk in the stream.
    offset : int, default 0
        Byte in the stream at which the failing operation stood.
    filename : str, optional
        The file to blame, if it is known, as OSError has it.
    """

    _errno = 0

    def __init__(
        self,
        text: str,
        *,
        code: int = 0,
        stage: str = "none",
        native: int = 0,
        chunk: int = 0,
        offset: int = 0,
        filename: Optional[str] = None,
    ) -> None:
        number = native or self._errno
        if isinstance(self, OSError) and number:
            super().__init__(number, text)
        else:
            super().__init__(text)
        self.text = text
        self.code = code
        self.stage = stage
        self.native = native
        self.chunk = chunk
        self.offset = offset
        self.filename = filename

    def __str__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (_plain(type(self)), self.text, self._where())

    def _where(self) -> dict[str, Any]:
        names = ("code", "stage", "native", "chunk", "offset", "filename")
        return {name: getattr(self, name) for name in names}

    def retold(self, text: str, filename: Optional[str] = None) -> HeadraceError:
        """The same error with another text, and the name of the file where that was not known."""
        where = self._where()
        where["filename"] = self.filename or filename
        return type(self)(text, **where)


class ArgumentError(HeadraceError, ValueError):
    """An argument or a configuration that cannot be right."""


class OutOfMemoryError(HeadraceError, MemoryError):
    """Memory was short."""


class BusyError(HeadraceError, BlockingIOError):
    """The context's memory is all leased at present: try later."""

    _errno = _errno.EAGAIN


class TransferError(HeadraceError, OSError):
    """A system call on a source or sink failed: errno tells which way."""

    _errno = _errno.EIO


class TruncatedError(HeadraceError, EOFError):
    """A source ended before its length, or inside of a frame or of a kernel's unit."""


class UnsupportedError(HeadraceError, NotImplementedError):
    """Not offered by this system or this build: a device that is not there, a codec."""


class CanceledError(HeadraceError):
    """The transfer was ended early by ``Pipeline.cancel``."""


class ForkError(HeadraceError, RuntimeError):
    """Used in a child of the process that made it: start children by "spawn"."""


class ThreadError(HeadraceError, RuntimeError):
    """A loop was stepped by a thread that does not own it."""


class SpaceError(HeadraceError, ValueError):
    """The array or memory that is written to is smaller than the stream."""


class CorruptError(HeadraceError, ValueError):
    """Encoded data are damaged, no zstd, or need another dictionary."""


class LimitError(HeadraceError, ValueError):
    """The data ask for more than a limit allows: the text names the option."""


class DeviceError(HeadraceError, RuntimeError):
    """A device, its driver, or a kernel failed."""


class TimedOutError(HeadraceError, TimeoutError):
    """connect_timeout or idle_timeout went by."""

    _errno = _errno.ETIMEDOUT


class LoanedError(HeadraceError, BufferError):
    """Every chunk is on loan: release one first, or set more (depth)."""


class FormatError(HeadraceError, ValueError):
    """A file is not what its format demands; the text names the file and the tensor to blame."""


class ElementTypeError(HeadraceError, TypeError):
    """A kernel or an array is of another type than what comes; the text names the ways out."""


_CLASSES: dict[int, type[HeadraceError]] = {
    lib.HR_AGAIN: BusyError,
    lib.HR_EINVAL: ArgumentError,
    lib.HR_ENOMEM: OutOfMemoryError,
    lib.HR_EIO: TransferError,
    lib.HR_ETRUNCATED: TruncatedError,
    lib.HR_EUNSUPPORTED: UnsupportedError,
    lib.HR_ECANCELED: CanceledError,
    lib.HR_EFORK: ForkError,
    lib.HR_ETHREAD: ThreadError,
    lib.HR_ESPACE: SpaceError,
    lib.HR_ECORRUPT: CorruptError,
    lib.HR_ELIMIT: LimitError,
    lib.HR_EDEVICE: DeviceError,
    lib.HR_ETIMEDOUT: TimedOutError,
    lib.HR_ELOANED: LoanedError,
}
_OF_ERRNO: dict[type[OSError], type[HeadraceError]] = {}


class _Mixed(type):
    """The classes of `_class_for`, which no module has by a name."""

    _number = 0


def _sent(made: _Mixed) -> Any:
    """How pickle makes a class again."""
    return _class_for, (TransferError, made._number)


# PyTorch sends the class of what a worker raises; a failure to send it ends the data in silence.
copyreg.pickle(_Mixed, _sent)


def _plain(of: type[HeadraceError]) -> type[HeadraceError]:
    """The class as it is written here, without what its errno added."""
    return TransferError if issubclass(of, TransferError) else of


def _class_for(of: type[HeadraceError], number: int) -> type[HeadraceError]:
    """TransferError with the built-in class that stands for an errno mixed in."""
    if of is not TransferError or not number:
        return of
    kind = type(OSError(number, ""))
    if kind is OSError:
        return of
    if kind not in _OF_ERRNO:
        fields = {"__module__": of.__module__, "_number": number}
        made: Any = _Mixed(of.__name__, (of, kind), fields)
        _OF_ERRNO[kind] = made
    return _OF_ERRNO[kind]


def _again(of: type[HeadraceError], text: str, where: dict[str, Any]) -> HeadraceError:
    return _class_for(of, where["native"])(text, **where)


def from_c(error: Any, status: int, paths: Sequence[bytes] = ()) -> HeadraceError:
    """The exception for a status and what the C library says of it.

    Parameters
    ----------
    error : cffi pointer to hr_error
        Filled in by the call that failed, or all zero.
    status : int
        What the call returned.
    paths : sequence of bytes, default ()
        Of the files that it may be about.

    Returns
    -------
    HeadraceError
        To be raised by the caller.
    """
    said = ffi.string(error.text)
    text = _texts.in_python(
        said.decode("utf-8", "replace"), [path.decode("utf-8", "replace") for path in paths]
    )
    if not text:
        text = ffi.string(lib.hr_status_name(status)).decode()
    where = {
        "code": status,
        "stage": ffi.string(lib.hr_stage_name(error.stage)).decode(),
        "native": error.native,
        "chunk": error.chunk,
        "offset": error.offset,
        "filename": _named_in(said, paths),
    }
    return _again(_CLASSES.get(status, HeadraceError), text, where)


def _named_in(said: bytes, paths: Sequence[bytes]) -> Optional[str]:
    """The longest path that stands in a text as a word of its own."""
    for path in sorted(paths, key=len, reverse=True):
        if path and re.search(rb"(?:^| )" + re.escape(path) + rb"(?=[ :;,]|$)", said):
            return os.fsdecode(path)
    return None


def of_os(error: OSError, filename: str, doing: str = "open") -> HeadraceError:
    """The TransferError for what a system call on a file said, in the words of the C library."""
    number = error.errno or _errno.EIO
    text = f"{doing} {filename}: {error.strerror or error}"
    where = {"code": lib.HR_EIO, "native": number, "stage": "read", "filename": filename}
    return _again(TransferError, text, where)


@contextmanager
def about(path: str) -> Iterator[None]:
    """Within, errors of the library get the name of the file, where they have none, and a file that
    is missing or cannot be read is a TransferError, as for a pipeline."""
    try:
        yield
    except HeadraceError as error:
        error.filename = error.filename or path
        raise
    except OSError as error:
        raise of_os(error, path) from None


def in_child(what: str, pid: int) -> ForkError:
    """The exception for what a forked child inherited.

    Parameters
    ----------
    what : str
        The object, in words.
    pid : int
        Of the process that made it.

    Returns
    -------
    ForkError
        Its text names "spawn".
    """
    text = (
        f"{what}: made by process {pid} and used in its child {os.getpid()} after fork; start "
        'children by "spawn" (multiprocessing.set_start_method("spawn"))'
    )
    return ForkError(text, code=lib.HR_EFORK)
