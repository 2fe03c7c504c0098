# SPDX-License-Identifier: Apache-2.0
"""A Python function that is a kernel: its units, and how a pipeline has it called."""

from __future__ import annotations

from typing import Any, Callable, Optional, Union

import numpy

from headrace import _callbacks, _dtypes, _libraries
from headrace._callbacks import Failures
from headrace._kernel_call import DeviceCalls, HostCalls, LibraryCalls
from headrace._library import ffi, lib
from headrace._numbers import size
from headrace.errors import ArgumentError, ElementTypeError

Unit = Union[int, str, type, numpy.dtype[Any]]


class Layout:
    """A unit: its bytes, and the array that n of them are.

    Attributes
    ----------
    kind : DType
        Type of its elements.
    dtype : numpy.dtype
        The same with its byte order.
    row : tuple of int
        Shape of a unit; (): one element.
    nbytes : int
        Of a unit; 0: there is none, which only the int 0 says.

    Raises
    ------
    ValueError
        A dtype that is not known, or has no bytes.
    """

    def __init__(self, unit: Unit) -> None:
        if isinstance(unit, (int, numpy.integer)):
            self.nbytes = unit = size("a unit", unit)
            self.dtype: numpy.dtype[Any] = numpy.dtype("u1")
            self.row: tuple[int, ...] = () if unit == 1 else (unit,)
            self.kind = _dtypes.find(self.dtype)
        else:
            whole = _dtypes.unit(unit)
            self.dtype, self.row = whole.base, whole.shape
            self.nbytes = whole.itemsize
            if not self.nbytes:
                raise ArgumentError(f"a unit of {unit!r} has 0 bytes")
            while isinstance(unit, tuple):
                unit = unit[0]
            self.kind = _dtypes.find(self.dtype if isinstance(unit, numpy.dtype) else unit)

    def __str__(self) -> str:
        if self.dtype == numpy.uint8:
            return f"{self.nbytes} bytes"
        return f"{self.dtype}{list(self.row) if self.row else ''}, {self.nbytes} bytes"


class Function:
    """A function with its units.

    Attributes
    ----------
    function : callable
        The user's.
    unit_in, unit_out : Layout or None
        None: what comes; the same as it reads.
    counted : bool
        It writes as many units as it likes.
    arrays : str or None
        The library whose arrays it gets, as `_libraries.find` knows it.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        unit_in: Optional[Layout],
        unit_out: Optional[Layout],
        counted: bool,
        arrays: Optional[str],
    ) -> None:
        self.function = function
        self.unit_in = unit_in
        self.unit_out = unit_out
        self.counted = counted
        self.arrays = arrays

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return str(getattr(self.function, "__qualname__", None) or repr(self.function))

    @property
    def is_bound(self) -> bool:
        """Whether its units are settled."""
        return self.unit_in is not None and self.unit_out is not None

    def bound(self, unit: Unit) -> Function:
        """It with units: of what comes, where it names none."""
        read = self.unit_in or Layout(unit)
        written = self.unit_out or read
        return Function(self.function, read, written, self.counted, self.arrays)

    @property
    def units(self) -> tuple[Layout, Layout]:
        """What it reads and writes, when that is settled."""
        assert self.unit_in is not None and self.unit_out is not None
        return self.unit_in, self.unit_out

    def _calls(self, device: str) -> Callable[[Any], int]:
        """What is called for each chunk on a device."""
        on_host = device == _libraries.HOST
        wanted = self.arrays or ("numpy" if on_host else None)
        library = None if wanted is None else _libraries.find(wanted)
        for unit in self.units:
            if not unit.dtype.isnative and not (library and library.any_order):
                raise ElementTypeError(
                    f"{self.name}: on {device} a function gets elements in the machine's byte "
                    f"order, not {unit.dtype}: put a kernel bswap before it"
                )
            if library is not None:
                library.check(device, unit.kind)
        if library is None:
            return DeviceCalls(self, device)
        return HostCalls(self, library) if on_host else LibraryCalls(self, device, library)

    def fill(self, struct: Any, device: str, failures: Failures) -> list[Any]:
        """As ``Kernel.fill``."""
        read, written = self.units
        on_host = device == _libraries.HOST
        handle = _callbacks.handle(self._calls(device), failures)
        name = ffi.from_buffer(self.name.encode() + b"\0")
        struct.kind = lib.HR_KERNEL_FUNCTION if on_host else lib.HR_KERNEL_LAUNCH
        struct.flags = lib.HR_KERNEL_COUNTED if self.counted else 0
        struct.unit_in = read.nbytes
        struct.unit_out = written.nbytes
        struct.text = name
        struct.function = _callbacks.kernel
        struct.user = handle
        return [handle, name]
