# SPDX-License-Identifier: Apache-2.0
"""``.npz`` files: where in the archive the arrays lie.

Members that are stored, as ``numpy.savez`` writes them, are byte ranges of the file like any other.
Compressed members (``numpy.savez_compressed``) are refused. Members whose name does not end with
``.npy`` are no arrays and are passed over.
"""

from __future__ import annotations

import errno
import os
import struct
import zipfile
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, Dict, List, Tuple, Union

from . import FormatError, npy
from .reading import opened, read_prefix
from .tensor import TensorInfo, quote

__all__ = ["Member", "read"]

# APPNOTE.TXT of the zip format, 4.3.7: the local header has 30 fixed bytes, then name and extra.
_LOCAL_MAGIC = b"PK\x03\x04"
_LOCAL_BYTES = 30
_ENCRYPTED = 0x1  # bits of the general purpose flag, 4.4.4
_UTF8 = 0x800


@dataclass(frozen=True)
class Member:
    """One array of an archive.

    Attributes
    ----------
    info : TensorInfo
        With the name as ``numpy.load`` shows it, without ``.npy``, and the offset in the archive.
    offset : int, bytes
        Of the member in the archive: where its own ``.npy`` header begins.
    nbytes : int, bytes
        Length of the member, header and data.
    crc32 : int
        Of the whole member, as the archive claims; to be verified on request.
    """

    info: TensorInfo
    offset: int
    nbytes: int
    crc32: int


def read(source: Union[str, os.PathLike[str], BinaryIO]) -> Dict[str, Member]:
    r"""Find the arrays of an archive. Reads the directory and the headers only.

    Parameters
    ----------
    source : str, os.PathLike or seekable binary file object
        File objects are read from their start, wherever they stand.

    Returns
    -------
    dict of str to Member
        In the order of the archive's directory.

    Raises
    ------
    FormatError
        Not a zip file; a member is compressed, encrypted, stands twice, lies outside the file or
        over another one, or is no ``.npy`` file.
    OSError
        The file cannot be opened or read.

    Examples
    --------
    >>> import io, numpy
    >>> file = io.BytesIO()
    >>> numpy.savez(file, a=numpy.arange(3, dtype="u1"))
    >>> member = read(file)["a"]
    >>> begin = member.info.offset
    >>> file.getvalue()[begin : begin + member.info.nbytes]
    b'\x00\x01\x02'
    """
    with opened(source) as (file, path, where, size):
        if size is None:
            raise FormatError(f"{where}: a .npz archive must be seekable: its directory is last")
        entries, directory = _directory(file, where)
        members: Dict[str, Member] = {}
        for entry in entries:
            if not entry.filename.endswith(".npy"):
                continue
            name = entry.filename[: -len(".npy")]
            if name in members:
                raise FormatError(f"{where}: member {quote(name)} stands twice")
            members[name] = _member(file, entry, name, f"{where}: {quote(name)}", directory)
    _check_apart(members, where)
    return {n: replace(m, info=replace(m.info, path=path)) for n, m in members.items()}


def _directory(file: Any, where: str) -> Tuple[List[zipfile.ZipInfo], int]:
    """The entries, and where in the file their directory begins."""
    try:
        with zipfile.ZipFile(file) as archive:
            return archive.infolist(), archive.start_dir
    except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error) as error:
        raise FormatError(f"{where}: not a .npz archive: {error}") from None
    except OSError as error:
        if error.errno != errno.EINVAL:  # a directory that claims to lie before the file
            raise
        raise FormatError(f"{where}: not a .npz archive: its directory is damaged") from None


def _member(file: Any, entry: zipfile.ZipInfo, name: str, where: str, directory: int) -> Member:
    if entry.compress_type != zipfile.ZIP_STORED:
        raise FormatError(
            f"{where} is compressed (zip method {entry.compress_type}): "
            "save with numpy.savez, not savez_compressed"
        )
    if entry.flag_bits & _ENCRYPTED:
        raise FormatError(f"{where} is encrypted")
    offset = _data_offset(file, entry, where)
    size = entry.file_size
    if size != entry.compress_size:
        raise FormatError(f"{where} has {size} bytes, and {entry.compress_size} when compressed")
    if size > directory - offset:
        raise FormatError(f"{where}: {size} bytes at {offset} do not end before the directory")
    file.seek(offset)
    prefix = read_prefix(file, lambda have: npy.bytes_needed(have, where), where, size)
    info = npy.parse_header(prefix, size=size, where=where)
    info = replace(info, name=name, offset=info.offset + offset)
    return Member(info, offset, size, entry.CRC)


def _data_offset(file: Any, entry: zipfile.ZipInfo, where: str) -> int:
    """Behind the local header, whose extra field may differ from the directory's."""
    if entry.header_offset < 0:  # zipfile corrects it by where the directory was found
        raise FormatError(f"{where}: the archive's directory is damaged")
    file.seek(entry.header_offset)
    local = file.read(_LOCAL_BYTES)
    if len(local) < _LOCAL_BYTES or local[:4] != _LOCAL_MAGIC:
        raise FormatError(f"{where}: no local header at {entry.header_offset}")
    name_bytes = int.from_bytes(local[26:28], "little")
    extra_bytes = int.from_bytes(local[28:30], "little")
    name = file.read(name_bytes).decode("utf-8" if entry.flag_bits & _UTF8 else "cp437", "replace")
    if name != entry.orig_filename:
        raise FormatError(f"{where}: its local header has another name, {quote(name)}")
    return int(entry.header_offset) + _LOCAL_BYTES + name_bytes + extra_bytes


def _check_apart(members: Dict[str, Member], where: str) -> None:
    ranges: List[Tuple[int, int, str]] = sorted(
        (m.offset, m.offset + m.nbytes, name) for name, m in members.items()
    )
    for (_, end, name), (begin, _, other) in zip(ranges, ranges[1:]):
        if begin < end:
            raise FormatError(f"{where}: members {quote(name)} and {quote(other)} overlap")
