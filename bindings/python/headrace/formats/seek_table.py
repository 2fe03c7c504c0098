# SPDX-License-Identifier: Apache-2.0
"""Seek tables of zstd files ("zstd seekable format", contrib/seekable_format in the zstd project):

    frames of zstd
    skippable frame   4 bytes 0x184D2A5E, 4 bytes length of what follows
        entries       a frame each: 4 bytes encoded, 4 bytes decoded length, 4 bytes checksum if the
                      descriptor says so
        footer        4 bytes number of frames, 1 byte descriptor, 4 bytes 0x8F92EAB1

All numbers are little-endian.
"""

from __future__ import annotations

import os
import struct
from typing import Any, Optional, Union

import numpy as np

from ..errors import about
from . import FormatError

__all__ = ["begins_encoded", "is_encoded", "read"]

_FRAME, _SKIPPABLE = 0xFD2FB528, 0x184D2A50  # RFC 8878, 3.1.1 and 3.1.2
_TABLE, _FOOTER = 0x184D2A5E, struct.Struct("<IBI")
_SEEKABLE = 0x8F92EAB1
_HAS_CHECKSUMS, _RESERVED = 0x80, 0x7C


def begins_encoded(start: bytes) -> bool:
    """Whether bytes begin as zstd does."""
    magic = int.from_bytes(start[:4], "little")
    return magic == _FRAME or magic & ~15 == _SKIPPABLE


def is_encoded(path: Union[str, os.PathLike[str]]) -> bool:
    """Whether a file begins as zstd does."""
    with about(os.fspath(path)), open(path, "rb") as file:
        return begins_encoded(file.read(4))


def read(path: Union[str, os.PathLike[str]]) -> Optional[np.ndarray[Any, Any]]:
    """Where the frames of a file begin, decoded.

    Parameters
    ----------
    path : str or os.PathLike
        A file of zstd frames.

    Returns
    -------
    numpy.ndarray or None
        Of int64: the first decoded byte of each frame, and the end of the last one. None: the file
        has no table.

    Raises
    ------
    FormatError
        It has one that cannot be right.
    OSError
        It cannot be read.
    """
    where = os.fspath(path)
    with about(where), open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        if size < 8 + _FOOTER.size:
            return None
        file.seek(size - _FOOTER.size)
        n_frames, descriptor, magic = _FOOTER.unpack(file.read(_FOOTER.size))
        if magic != _SEEKABLE:
            return None
        width = 12 if descriptor & _HAS_CHECKSUMS else 8
        length = n_frames * width + _FOOTER.size
        if descriptor & _RESERVED or 8 + length > size:
            raise FormatError(f"{where}: its seek table of {n_frames} frames is damaged")
        file.seek(size - 8 - length)
        head = struct.unpack("<II", file.read(8))
        entries = np.frombuffer(file.read(n_frames * width), "<u4").reshape(n_frames, -1)
    encoded = int(entries[:, 0].sum(dtype=np.int64))
    if head != (_TABLE, length) or encoded != size - 8 - length:
        raise FormatError(f"{where}: its seek table does not fit the file", filename=where)
    return np.concatenate([[0], np.cumsum(entries[:, 1], dtype=np.int64)])
