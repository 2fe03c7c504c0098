# SPDX-License-Identifier: Apache-2.0
"""How a Python function that is a kernel is called for a chunk, and with what arrays.

It is called for every chunk, while a GPU waits. So what can be made once, of a pipeline, a stream
or a place in memory, is made once.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Callable

import numpy

from headrace import _dtypes
from headrace._array import Array
from headrace._lent import Lent
from headrace._library import ffi
from headrace._libraries import HOST, Current, Library
from headrace._memory import Memory
from headrace._numbers import size
from headrace.errors import ArgumentError

if TYPE_CHECKING:
    from headrace._function import Function, Layout

_FIELDS = struct.Struct("@2IPPQQPPQ")  # of struct hr_kernel_call, whose later ones are not read
_INPUTS = ffi.typeof("uint64_t **")
_COUNT = _dtypes.find("uint64")
_UNSET = 1 << 63  # of a count: more than fits into memory, also when something is added to it
_PLACES = 256  # of each unit, whose arrays are kept


class KernelCall:
    """The circumstances of one call.

    Attributes
    ----------
    n_units : int
        Units in the input.
    first_unit : int
        Index of the first of them in the stream that this kernel reads.
    chunk : int
        Index of the chunk in the stream.
    device : str
        "host", "cuda:0", ...
    stream : int
        On a GPU the stream (CUstream, hipStream_t) that work is enqueued on; on the host 0.
    stream_object : object or None
        The same as the library's own, where its arrays were asked for: a ``torch.cuda.Stream``, a
        ``cupy.cuda.Stream``, or what a launch of Numba names.
    count : array of one uint64, or None
        Of counted kernels: where to store how many units were written, as in
        ``call.count[0] = n``. It holds no count before: on the host 2^63, which says that it is not
        set, on a GPU anything. PyTorch's is of int64.
    """

    __slots__ = ("n_units", "first_unit", "chunk", "device", "stream", "stream_object", "count")

    def __init__(self, n_units: int, first_unit: int, chunk: int, device: str, stream: int) -> None:
        self.n_units = n_units
        self.first_unit = first_unit
        self.chunk = chunk
        self.device = device
        self.stream = stream
        self.stream_object: Any = None
        self.count: Any = None


def _told(call: Any, device: str) -> tuple[KernelCall, int, int, int]:
    """Of a struct hr_kernel_call: what the function is told, and the addresses of input, output and
    count."""
    _, _, _, out, n, first, count, stream, chunk = _FIELDS.unpack_from(ffi.buffer(call))
    if device == HOST:
        stream = 0
    return KernelCall(n, first, chunk, device, stream), ffi.cast(_INPUTS, call)[1][0], out, count


class _Calls:
    """What the C library has called: a function with its units, on a device."""

    def __init__(self, function: Function, device: str) -> None:
        self._function = function.function
        self._name = function.name
        self._read, self._written = function.units
        self._counted = function.counted
        self._device = device

    def _check(self, given: Any, out: Any) -> None:
        """What the function returned, where it is not how many units there are."""
        if given is None:
            return
        if self._counted:
            raise TypeError("on a GPU the count is stored in call.count by the work itself")
        if given is not out:  # which NumPy's out= returns
            raise TypeError(_RETURNED.format(self._name, type(given).__name__))


_RETURNED = (
    "the kernel's function {} returned something ({}), which would be lost: it writes its result to "
    "its second argument, as in out[:] = x * 2, and returns None"
)


class HostCalls(_Calls):
    """With arrays that must be gone after each call, and are therefore made for each."""

    def __init__(self, function: Function, library: Library) -> None:
        super().__init__(function, HOST)
        self._library = library

    def __call__(self, told: Any) -> int:
        call, read_at, write_at, count_at = _told(told, HOST)
        with Lent(f"the kernel's function {self._name}") as lent:
            writable = not self._library.any_order  # others have no arrays that are read-only
            x = self._array(lent, read_at, call.n_units, self._read, writable)
            out = None
            if self._written.nbytes:
                out = self._array(lent, write_at, call.n_units, self._written, True)
            count = None
            if self._counted:
                count = numpy.frombuffer(lent.view(count_at, 8, True), "u8")
                count[0] = _UNSET
                call.count = count
            given = self._function(x, out, call)
            if count is not None:
                self._set_count(count, given)
            else:
                self._check(given, out)
            del x, out, count, given, call  # now only what the function kept is left
        return 0

    def _array(self, lent: Lent, address: int, n: int, unit: Layout, writable: bool) -> Any:
        array = numpy.frombuffer(lent.view(address, n * unit.nbytes, writable), unit.dtype)
        if unit.row:
            array = array.reshape((n, *unit.row))
        return self._library.on_host(array, unit.kind)

    def _set_count(self, count: Any, given: Any) -> None:
        name = f"the count of {self._name}, which it returns or stores in call.count[0],"
        if given is None and count[0] > _UNSET:
            raise ArgumentError(f"{name} is nothing to add to: it is not set before")
        if given is None and count[0] != _UNSET:
            return
        count[0] = size(name, given, 64)


class DeviceCalls(_Calls):
    """With arrays of headrace on a GPU, that are of no use after each call."""

    def __call__(self, told: Any) -> int:
        call, read_at, write_at, count_at = _told(told, self._device)
        # PyTorch takes no array that is read-only, so that the input is not said to be.
        memory = Memory(self._device, stream=call.stream)
        try:
            n, read, written = call.n_units, self._read, self._written
            x = Array(memory, read_at, (n, *read.row), read.kind)
            out = None
            if written.nbytes:
                out = Array(memory, write_at, (n, *written.row), written.kind)
            if self._counted:
                call.count = Array(memory, count_at, (1,), _COUNT)
            self._check(self._function(x, out, call), out)
        finally:
            memory.end("an array of a kernel's call is valid during the call only: copy it")
        return 0


class _Places(dict[tuple[int, int], Any]):
    """What was made for places in memory, addresses and units, that chunks come back to."""

    def __init__(self, make: Callable[[int, int], Any]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, place: tuple[int, int]) -> Any:
        if len(self) >= _PLACES:
            self.clear()
        made = self[place] = self._make(*place)
        return made


class LibraryCalls(_Calls):
    """With a library's own arrays on a GPU, and its current stream set. They are kept for each
    place, as they refer to the memory and do not own it, until the pipeline forgets this object."""

    def __init__(self, function: Function, device: str, library: Library) -> None:
        super().__init__(function, device)
        self._library = library
        self._x = self._places(self._read.row, self._read.kind)
        self._out = self._places(self._written.row, self._written.kind)
        self._count = self._places((), _dtypes.find(library.count))
        self._streams: dict[int, tuple[Any, Current]] = {}

    def _places(self, row: tuple[int, ...], kind: _dtypes.DType) -> _Places:
        make, memory = self._library.on_device, Memory(self._device)
        return _Places(lambda address, n: make(Array(memory, address, (n, *row), kind), kind))

    def __call__(self, told: Any) -> int:
        call, read_at, write_at, count_at = _told(told, self._device)
        if call.stream not in self._streams:
            self._streams[call.stream] = self._library.stream(call.stream, self._device)
        call.stream_object, current = self._streams[call.stream]
        with current:
            x = self._x[read_at, call.n_units]
            out = self._out[write_at, call.n_units] if self._written.nbytes else None
            if self._counted:
                call.count = self._count[count_at, 1]
            self._check(self._function(x, out, call), out)
        return 0
