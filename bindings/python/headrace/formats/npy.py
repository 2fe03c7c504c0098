# SPDX-License-Identifier: Apache-2.0
r"""``.npy`` files, versions 1.0, 2.0 and 3.0: reading and building headers.

    bytes 0-5   b"\x93NUMPY"
    bytes 6-7   major, minor
    then        length of the text: 2 bytes in 1.0, 4 in 2.0 and 3.0, little-endian
    then        the text: a Python literal; Latin-1 up to 2.0, UTF-8 in 3.0
    then        the data

What follows the data is left alone, as ``numpy.load`` does: several arrays may stand in one file,
one behind the other. In a zstd file it is not decoded, and nobody sees whether it is damaged.
Object arrays are refused; nothing is ever unpickled or evaluated.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Optional, Tuple

import numpy as np

from .. import _dtypes
from . import FormatError
from .literal import LiteralError, parse
from .reading import Readable, opened, read_prefix
from .tensor import TensorInfo, measure

__all__ = ["ALIGN", "MAX_HEADER", "build_header", "bytes_needed", "parse_header", "read"]

MAGIC = b"\x93NUMPY"
MAX_HEADER = 1 << 20  # bytes of text accepted; a record of 3,000 fields has about 60,000
ALIGN = 64  # of the data in files written here, as NumPy's own
_LENGTH_BYTES = {(1, 0): 2, (2, 0): 4, (3, 0): 4}
_ENCODING = {(1, 0): "latin-1", (2, 0): "latin-1", (3, 0): "utf-8"}
_KEYS = {"descr", "fortran_order", "shape"}
# One word with an optional unit of time: no comma-separated records, no shapes.
_DESCR = re.compile(r"[<>=|]?[A-Za-z?][A-Za-z_0-9]*(\[[0-9A-Za-z/]+\])?")
_GROWTH_DIGITS = 21  # of the growing dimension: NumPy leaves room for it since 1.24


def bytes_needed(prefix: bytes, where: str = "<npy>") -> int:
    r"""How many of a file's first bytes `parse_header` wants.

    For data that arrive bit by bit, e.g. from a decoder: call with what there is, until the result
    is no more than its length.

    Parameters
    ----------
    prefix : bytes
        The first bytes of the file, as many as there are.
    where : str, default "<npy>"
        For messages.

    Returns
    -------
    int, bytes
        At least 10.

    Raises
    ------
    FormatError
        Not a .npy file, a version that is not known, or a header of more than `MAX_HEADER`.

    Examples
    --------
    >>> bytes_needed(b""), bytes_needed(b"\x93NUMPY\x01\x00\x76\x00{'descr'")
    (10, 128)
    """
    start = bytes(prefix[: len(MAGIC)])
    if start != MAGIC[: len(start)]:
        raise FormatError(f"{where}: not a .npy file: it begins with {start!r}")
    if len(prefix) < 10:
        return 10
    version = (prefix[6], prefix[7])
    if version not in _LENGTH_BYTES:
        raise FormatError(f"{where}: .npy version {version[0]}.{version[1]} is not known")
    text_at = 8 + _LENGTH_BYTES[version]
    if len(prefix) < text_at:
        return text_at
    length = int.from_bytes(prefix[8:text_at], "little")
    if length > MAX_HEADER:
        raise FormatError(f"{where}: header of {length} bytes, more than {MAX_HEADER}")
    return text_at + length


def parse_header(
    prefix: bytes,
    *,
    size: Optional[int] = None,
    where: str = "<npy>",
    path: Optional[str] = None,
) -> TensorInfo:
    """What the header says.

    Parameters
    ----------
    prefix : bytes
        At least `bytes_needed` bytes from the start.
    size : int or None, bytes, default None
        Of the whole file, to check that the data are all there; None: unknown, not checked.
    where : str, default "<npy>"
        For messages.
    path : str or None, default None
        For ``TensorInfo.path``.

    Returns
    -------
    TensorInfo
        ``offset`` counts from the start of ``prefix``.

    Raises
    ------
    FormatError
        The header is not as the format demands, the data are shorter than the shape says, or the
        elements are objects.

    Examples
    --------
    >>> import io, numpy
    >>> file = io.BytesIO()
    >>> numpy.save(file, numpy.zeros((2, 3), ">f4"))
    >>> info = parse_header(file.getvalue(), size=152)
    >>> info.dtype.name, info.shape, info.order, info.swap, info.offset, info.nbytes
    ('f32', (2, 3), 'C', 4, 128, 24)
    """
    end = bytes_needed(prefix, where)
    if len(prefix) < end or (size is not None and size < end):
        have = len(prefix) if size is None else min(size, len(prefix))
        raise FormatError(f"{where}: the header needs {end} bytes, there are {have}")
    version = (prefix[6], prefix[7])
    descr, fortran, shape = _fields(prefix[8 + _LENGTH_BYTES[version] : end], version, where)
    stored = _dtype(descr, where)
    dtype = _dtypes.from_numpy(stored)
    nbytes = measure(dtype, shape, where)
    if size is not None and nbytes > size - end:
        raise FormatError(
            f"{where}: shape {list(shape)} of {stored} needs {nbytes} bytes of data, "
            f"the file has {size - end}"
        )
    swap = _dtypes.swap_width(stored)
    return TensorInfo("", dtype, shape, end, nbytes, "F" if fortran else "C", swap, path)


def _fields(text: bytes, version: Tuple[int, int], where: str) -> Tuple[Any, bool, Any]:
    try:
        header = parse(text.decode(_ENCODING[version]))
    except (LiteralError, UnicodeDecodeError) as error:
        raise FormatError(f"{where}: header: {error}") from None
    if not isinstance(header, dict) or set(header) != _KEYS:
        found = sorted(header)[:8] if isinstance(header, dict) else type(header).__name__
        raise FormatError(f"{where}: header wants {sorted(_KEYS)}, not {found}")
    fortran, shape = header["fortran_order"], header["shape"]
    if not isinstance(fortran, bool):
        raise FormatError(f"{where}: fortran_order is {fortran!r:.40}, not True or False")
    if not isinstance(shape, tuple) or any(type(n) is not int for n in shape):
        raise FormatError(f"{where}: shape is {shape!r:.80}, not a tuple of integers")
    return header["descr"], fortran, shape


def _check_descr(descr: Any, where: str) -> None:
    """Only what NumPy writes reaches numpy.dtype, which would accept much more."""
    if isinstance(descr, str):
        if _DESCR.fullmatch(descr):
            return
    elif isinstance(descr, list) and descr:
        for one in descr:
            _check_field(one, where)
        return
    raise FormatError(f"{where}: descr {descr!r:.80} is not a type")


def _check_field(one: Any, where: str) -> None:
    if not isinstance(one, tuple) or len(one) not in (2, 3):
        raise FormatError(f"{where}: field {one!r:.80} is not (name, type) or (name, type, shape)")
    name = one[0]
    titled = isinstance(name, tuple) and len(name) == 2 and all(isinstance(n, str) for n in name)
    if not isinstance(name, str) and not titled:
        raise FormatError(f"{where}: field name {name!r:.80} is not a string")
    if len(one) == 3:
        shape = one[2] if isinstance(one[2], tuple) else (one[2],)
        if any(type(n) is not int or n < 0 for n in shape):
            raise FormatError(f"{where}: field {name!r:.80} has shape {one[2]!r:.80}")
    _check_descr(one[1], where)


def _dtype(descr: Any, where: str) -> np.dtype[Any]:
    """The dtype of the file, byte order and all."""
    _check_descr(descr, where)
    try:
        dtype = np.lib.format.descr_to_dtype(descr)
    except (TypeError, ValueError, OverflowError, MemoryError) as error:
        raise FormatError(f"{where}: descr {descr!r:.80} is not a type: {error}") from None
    if dtype.hasobject:
        raise FormatError(
            f"{where}: elements of {dtype} are Python objects, which are stored as a pickle; "
            "headrace does not unpickle"
        )
    return dtype


def read(source: Readable, *, offset: int = 0) -> TensorInfo:
    """Read the header of a file.

    Parameters
    ----------
    source : str, os.PathLike or binary file object
        A file object need not be seekable; it is read from where it stands, and left at the data.
    offset : int, bytes, default 0
        Where in the file the array begins; paths only.

    Returns
    -------
    TensorInfo
        ``offset`` counts from the start of the file for paths, and from where reading began for
        file objects.

    Raises
    ------
    FormatError
        See `parse_header`.
    OSError
        The file cannot be opened or read.

    Notes
    -----
    Thread-safe for different files. Reads the header only.
    """
    with opened(source) as (file, path, where, size):
        if offset:
            file.seek(offset)
            size = None if size is None else max(size - offset, 0)
        prefix = read_prefix(file, lambda have: bytes_needed(have, where), where, size)
        info = parse_header(prefix, size=size, where=where, path=path)
    return replace(info, offset=info.offset + offset)


def build_header(dtype: Any, shape: Tuple[int, ...], order: str = "C") -> bytes:
    """The header of a file, up to where its data begin: a multiple of `ALIGN` bytes.

    The version is the lowest that can hold it. The first dimension (the last one for order "F")
    has room to grow to 21 digits: the header of an array whose length is not known yet may be
    written with 0 there, and overwritten in place at the end.

    Parameters
    ----------
    dtype : numpy.dtype or DType
        Byte order and records are kept.
    shape : tuple of int
        Counts of elements.
    order : {"C", "F"}, default "C"
        Of the data that will follow.

    Returns
    -------
    bytes
        The same bytes as ``numpy.save`` of NumPy 1.24 and later.

    Raises
    ------
    ValueError
        Objects, and types that the format has no name for, e.g. bfloat16.

    Examples
    --------
    >>> build_header("<f4", (3, 4))[10:69]
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }"
    >>> len(build_header("<f4", (0,))) == len(build_header("<f4", (10**18,)))
    True
    """
    if order not in ("C", "F"):
        raise ValueError(f'order "{order}": expected "C" or "F"')
    shape = tuple(int(n) for n in shape)
    descr = _descr(dtype)
    text = f"{{'descr': {descr!r}, 'fortran_order': {order == 'F'}, 'shape': {shape!r}, }}"
    if shape:
        text += " " * (_GROWTH_DIGITS - len(repr(shape[-1 if order == "F" else 0])))
    for version in sorted(_LENGTH_BYTES):
        header = _pack(text, version)
        if header is not None:
            return header
    raise ValueError(f"dtype of {len(text)} characters is beyond the .npy format")


def _descr(dtype: Any) -> Any:
    """The type as the format writes it, if reading that gives the type again."""
    known = dtype if isinstance(dtype, _dtypes.DType) else None
    stored: np.dtype[Any] = np.dtype(known.numpy if known else dtype)
    known = known or _dtypes.from_numpy(stored)
    descr = np.lib.format.dtype_to_descr(stored)
    try:
        is_told = np.lib.format.descr_to_dtype(descr) == stored
    except TypeError:
        is_told = False
    if known.is_standin or not is_told:
        raise ValueError(
            f"the .npy format has no name for {known}: save as .safetensors, or view the array "
            "as unsigned integers"
        )
    return descr


def _pack(text: str, version: Tuple[int, int]) -> Optional[bytes]:
    """The header in one version, or None if it does not fit."""
    try:
        encoded = text.encode(_ENCODING[version])
    except UnicodeEncodeError:
        return None
    n_bytes = _LENGTH_BYTES[version]
    start = len(MAGIC) + 2 + n_bytes
    padding = ALIGN - (start + len(encoded) + 1) % ALIGN  # never 0, as NumPy's
    length = len(encoded) + padding + 1
    if length >= 1 << (8 * n_bytes):
        return None
    head = MAGIC + bytes(version) + length.to_bytes(n_bytes, "little")
    return head + encoded + b" " * padding + b"\n"
