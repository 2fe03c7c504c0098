# SPDX-License-Identifier: Apache-2.0
"""Files of numbers without a header: type and shape come from the caller."""

from __future__ import annotations

import math
from typing import Any, Optional, Sequence, Tuple, Union

from .. import _dtypes
from .._dtypes import DType
from . import FormatError
from .tensor import TensorInfo, measure

__all__ = ["describe"]


def describe(
    size: Optional[int],
    dtype: Any,
    shape: Union[None, int, Sequence[int]] = None,
    *,
    offset: int = 0,
    length: Optional[int] = None,
    where: str = "<raw>",
    path: Optional[str] = None,
) -> TensorInfo:
    """The array that a file without a header holds.

    Parameters
    ----------
    size : int or None, bytes
        Of the whole file, or of the data once decoded. None: not known; the shape or ``length``
        must tell.
    dtype : str, numpy.dtype or DType
        See `headrace._dtypes.find`; a byte order (``">f4"``) is kept as ``TensorInfo.swap``.
    shape : int, sequence of int or None, default None
        One dimension may be -1: as many as there are. None: (-1,).
    offset : int, bytes, default 0
        Where the data begin.
    length : int or None, bytes, default None
        Of the data, which may end before the file does. None: they end with it.
    where : str, default "<raw>"
        For messages.
    path : str or None, default None
        For ``TensorInfo.path``.

    Returns
    -------
    TensorInfo

    Raises
    ------
    FormatError
        The data are shorter or longer than the shape, or end within an element or row where the
        shape has a -1; they do not lie within the file.
    ValueError
        The type is unknown, or the shape has two -1.

    Examples
    --------
    >>> describe(24, "f4").shape, describe(24, ">f4", (2, -1)).shape
    ((6,), (2, 3))
    """
    found = _dtypes.find(dtype)
    dims = (-1,) if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)
    if dims.count(-1) > 1:
        raise ValueError(f"shape {list(dims)}: only one dimension can be -1")
    there = _length(size, offset, length, where)
    if -1 in dims:
        assert there is not None
        dims = _fill(dims, found, there, where)
    nbytes = measure(found, dims, where)
    if there is not None and nbytes != there:
        whose = "length=" if length is not None else "the file"
        behind = f" from byte {offset} on" if offset else ""
        leave = f"; length={nbytes} leaves the rest" if nbytes < there else ""
        raise FormatError(
            f"{where}: shape {list(dims)} of {found} needs {nbytes} bytes, {whose} has {there}"
            f"{behind}{leave}"
        )
    return TensorInfo(
        "", found, dims, offset, nbytes, swap=_dtypes.swap_of(dtype), path=path
    )


def _length(size: Optional[int], offset: int, length: Optional[int], where: str) -> Optional[int]:
    """Bytes of the data; None: not known."""
    if offset < 0 or (length or 0) < 0:
        raise ValueError(f"{where}: offset {offset}, length {length}: not negative")
    if size is None:
        return length
    if offset > size:
        raise FormatError(f"{where}: offset {offset} is not within the file of {size} bytes")
    if length is not None and length > size - offset:
        raise FormatError(
            f"{where}: {length} bytes from byte {offset} on do not lie within the file of {size}"
        )
    return size - offset if length is None else length


def _fill(dims: Tuple[int, ...], dtype: DType, there: int, where: str) -> Tuple[int, ...]:
    """Put the number that uses up the file in the place of -1."""
    others = math.prod(n for n in dims if n != -1)
    if others <= 0:
        raise ValueError(f"shape {list(dims)}: -1 beside a dimension below 1 tells nothing")
    count, rest = divmod(8 * there, dtype.bits * others)
    if rest != 0:
        raise FormatError(
            f"{where}: {there} bytes are no whole number of {others} x {dtype.bits} bits "
            f"(shape {list(dims)} of {dtype})"
        )
    return tuple(count if n == -1 else n for n in dims)
