# SPDX-License-Identifier: Apache-2.0
"""What a header says about one tensor."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Optional, Tuple

import numpy as np

from .._dtypes import DType
from . import FormatError

__all__ = ["MAX_DIMS", "MAX_BYTES", "TensorInfo", "measure", "quote"]

MAX_DIMS = 64  # NumPy 2's limit; no format here needs more
MAX_BYTES = 2**63 - 1  # offsets of files are signed


@dataclass(frozen=True)
class TensorInfo:
    """One tensor of a file. Holds no memory of the file and no open descriptor.

    Attributes
    ----------
    name : str
        Empty for formats with a single, unnamed array.
    dtype : DType
        Of the data after a swap, if one is needed.
    shape : tuple of int
        Counts of elements, slowest dimension first, whatever ``order`` is.
    offset : int, bytes
        Of the first byte of data in the file.
    nbytes : int, bytes
        Length of the data in the file.
    order : {"C", "F"}, default "C"
        Whether the last or the first dimension is contiguous.
    swap : {0, 2, 4, 8, 16}, default 0
        Width for a ``bswap`` kernel; see `headrace._dtypes.swap_width`.
    path : str or None, default None
        The file; None if it was given as bytes or as an open file.
    """

    name: str
    dtype: DType
    shape: Tuple[int, ...]
    offset: int
    nbytes: int
    order: str = "C"
    swap: int = 0
    path: Optional[str] = None

    @property
    def end(self) -> int:
        """First byte behind the data."""
        return self.offset + self.nbytes

    @property
    def file_dtype(self) -> np.dtype[Any]:
        """The dtype of the bytes as they are in the file, before a swap."""
        return self.dtype.numpy.newbyteorder("S") if self.swap else self.dtype.numpy

    @property
    def stored_shape(self) -> Tuple[int, ...]:
        """The shape of a NumPy array of ``dtype.numpy`` that holds the tensor."""
        return self.dtype.stored_shape(self.shape)


def quote(name: object) -> str:
    """A name from a file, fit for a message: quoted, escaped, at most 80 characters."""
    text = str(name)
    text = text if len(text) <= 80 else text[:77] + "..."
    return '"' + text.encode("unicode_escape").decode("ascii") + '"'


def measure(dtype: DType, shape: Tuple[int, ...], where: str) -> int:
    """Bytes of a tensor, checked.

    Parameters
    ----------
    dtype : DType
        Type of the elements.
    shape : tuple of int
        As a file claims it.
    where : str
        Begin of the message: the file and the tensor.

    Returns
    -------
    int, bytes

    Raises
    ------
    FormatError
        A negative dimension; over `MAX_DIMS`; over `MAX_BYTES`, also when a 0 elsewhere hides it,
        as the strides could not be told; rows of a narrow type that end within a byte.

    Examples
    --------
    >>> from headrace._dtypes import find
    >>> measure(find("F4"), (3, 8), "x"), measure(find("f64"), (), "x")
    (12, 8)
    """
    if len(shape) > MAX_DIMS:
        raise FormatError(f"{where}: {len(shape)} dimensions, more than {MAX_DIMS}")
    if any(n < 0 for n in shape):
        raise FormatError(f"{where}: negative dimension in shape {list(shape)}")
    if max(dtype.bits, 8) * math.prod(n for n in shape if n > 0) > 8 * MAX_BYTES:
        raise FormatError(f"{where}: shape {list(shape)} of {dtype} does not fit 63 bits")
    count = math.prod(shape)
    elements = dtype.group[0]
    if count > 0 and (shape[-1] if shape else 1) % elements != 0:
        raise FormatError(
            f"{where}: shape {list(shape)} of {dtype}: {elements} elements share bytes, so the "
            f"last dimension must be a multiple of {elements}"
        )
    return count * dtype.bits // 8
