# SPDX-License-Identifier: Apache-2.0
"""What a stream's chunks are made of: records, which never straddle two chunks.

A record is an element, or a row of them. That it is whole in each chunk is the engine's work: a
kernel that does nothing states its bytes as a unit, and the engine joins what comes in parts.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, Union

from headrace import _array, _dtypes
from headrace._callbacks import Failures
from headrace._kernel import Kernel
from headrace._library import ffi, lib, native
from headrace._numbers import lengths

Shape = Union[None, int, tuple[int, ...]]


class Unit(Kernel):
    """The kernel that does nothing, with a unit.

    Parameters
    ----------
    nbytes : int
        Of the unit.
    """

    def __init__(self, nbytes: int) -> None:
        super().__init__(lib.HR_KERNEL_FUNCTION)
        self._nbytes = nbytes

    def __repr__(self) -> str:
        return f"<headrace.Kernel unit of {self._nbytes} bytes>"

    @property
    def is_function(self) -> bool:
        """True: how it is called depends on the device."""
        return True

    def fill(self, struct: Any, device: str, failures: Failures) -> list[Any]:
        """Sets a struct hr_kernel, as ``Kernel.fill`` does."""
        struct.struct_size = ffi.sizeof("struct hr_kernel")
        struct.kind = lib.HR_KERNEL_FUNCTION if device == "host" else lib.HR_KERNEL_LAUNCH
        struct.unit_in = self._nbytes
        struct.function = native.hrp_no_work
        return []


@dataclass(frozen=True)
class Record:
    """One entry of a chunk's first axis.

    Attributes
    ----------
    dtype : DType
        Of its elements.
    shape : tuple of int, default ()
        Of a row of them; (): one element.
    """

    dtype: _dtypes.DType
    shape: tuple[int, ...] = ()

    def __str__(self) -> str:
        return " x ".join(map(str, (self.dtype, *self.shape)))

    @functools.cached_property
    def nbytes(self) -> int:
        """Its bytes; of elements narrower than a byte those of the fewest that fill whole ones."""
        if not self.shape:
            return self.dtype.group[1]
        return math.prod(self.stored_shape) * int(self.dtype.numpy.itemsize)

    @functools.cached_property
    def stored_shape(self) -> tuple[int, ...]:
        """Its shape in a chunk, where elements narrower than a byte are counted in bytes."""
        return self.dtype.stored_shape(self.shape)

    def of(self, chunk: _array.Array) -> _array.Array:
        """A chunk of bytes as an array of records, in the same memory."""
        if self.shape:  # in one step: of chunks there are many
            shape = (chunk.nbytes // self.nbytes, *self.stored_shape)
            return chunk._derive(chunk.ptr, shape, self.dtype)
        return chunk if self.dtype.name == "u8" else chunk.view(self.dtype)


def row(shape: Shape) -> tuple[int, ...]:
    """The shape of a row as a user gives it.

    Examples
    --------
    >>> row(None), row(3), row((2, 3))
    ((), (3,), (2, 3))
    """
    return () if shape is None else lengths("shape", shape, least=1)
