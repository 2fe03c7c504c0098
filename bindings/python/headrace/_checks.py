# SPDX-License-Identifier: Apache-2.0
"""What is refused before anything is opened: texts that mean no file, and levels that zstd has not.

The command of headrace has words for ends that are no files. Here such ends are objects, and a file
made by the name of a word would be the last thing that its user wanted.
"""

from __future__ import annotations

import errno
import os
import re
import socket
from typing import Any

from headrace._numbers import size
from headrace.errors import TransferError

ADDRESSES = ("tcp://", "tcp-listen://", "unix:", "unix-listen:")
_NONE_SUCH = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://|(tcp|tcp-listen|udp):")
_LEAST_LEVEL, _MOST_LEVEL = -(1 << 17), 22  # ZSTD_minCLevel() and ZSTD_maxCLevel() of zstd.h

# Word: what it is called here as a source, and as a sink.
_WORDS = {
    "-": ("sys.stdin.buffer", "sys.stdout.buffer"),
    "null:": ("b''", "headrace.NULL"),
    "device:": ("an array in the device's memory", "headrace.DeviceMemory()"),
}


def refuse(given: Any, is_source: bool) -> None:
    """Refuses what cannot be the source or sink that was meant.

    Parameters
    ----------
    given : object
        A source or sink. Only a str may be a word; an os.PathLike is always a file.
    is_source : bool
        Else it is a sink.

    Raises
    ------
    ValueError
        A word of the command, or an address of a kind that headrace has not; the text says what is
        meant by it here.
    TransferError
        A socket that is closed.

    Examples
    --------
    >>> refuse("null:", is_source=False)
    Traceback (most recent call last):
    ValueError: "null:" is no path: give headrace.NULL; a file of this name is "./null:"
    """
    if isinstance(given, socket.socket) and given.fileno() < 0:
        stage = "read" if is_source else "write"
        raise TransferError("the socket is closed", native=errno.EBADF, stage=stage)
    if not isinstance(given, str):
        return
    said = _meant(given, is_source)
    if said:
        raise ValueError(_no_path(given, said))


def _no_path(text: str, said: str) -> str:
    return f'"{text}" is no path: {said}; a file of this name is "./{text}"'


def _meant(text: str, is_source: bool) -> str:
    """Empty: a path, or an address that there is."""
    if text in _WORDS:
        return f"give {_WORDS[text][not is_source]}"
    if text == "peer:" and is_source:
        return "it is a sink, the connection of the first source"
    number = re.fullmatch(r"fd:(\d*)", text)
    if number is not None:
        return f"give the int {number[1]} for the descriptor" if number[1] else "give an int"
    if text.startswith("file://"):
        return "give the path behind file://"
    found = None if text.startswith(ADDRESSES) else _NONE_SUCH.match(text)
    if found is None:
        return ""
    return (
        f"headrace has no {found[1] or found[2]}:, but tcp://HOST:PORT, tcp-listen://HOST:PORT, "
        "unix:PATH, unix-listen:PATH and objects with read() or write(), as urllib.request.urlopen "
        "makes them"
    )


def path_of(given: Any, is_source: bool) -> str:
    """The path of a file for load, or for save, which also writes to addresses.

    Raises
    ------
    TypeError
        No str and no os.PathLike of one.
    ValueError
        As `refuse`; or an address to load from.

    Examples
    --------
    >>> path_of("unix:a", is_source=True)
    Traceback (most recent call last):
    ValueError: "unix:a" is no path: Pipeline takes it; a file of this name is "./unix:a"
    """
    path = os.fspath(given) if isinstance(given, (str, os.PathLike)) else None
    if not isinstance(path, str):
        raise TypeError(
            f"path is {type(given).__name__}: a str or an os.PathLike of one is wanted; "
            "descriptors and file objects are for Pipeline and stream"
        )
    said = _meant(given, is_source) if isinstance(given, str) else ""
    if said.startswith("give"):
        said += " to a Pipeline"
    elif is_source and isinstance(given, str) and given.startswith(ADDRESSES):
        said = "Pipeline takes it"
    if said:
        raise ValueError(_no_path(path, said))
    return path


def zstd_level(level: Any) -> int:
    """A level of zstd; 0 is its default.

    Raises
    ------
    TypeError
        No integer.
    ValueError
        A level that zstd has not: it would take the nearest one.

    Examples
    --------
    >>> zstd_level(-5), zstd_level(22)
    (-5, 22)
    """
    number = size("zstd level", level, 63, least=-(1 << 63))
    if not _LEAST_LEVEL <= number <= _MOST_LEVEL:
        raise ValueError(
            f"zstd level {number}: there are 1 to {_MOST_LEVEL}, and faster ones from -1 down to "
            f"{_LEAST_LEVEL}"
        )
    return number
