# SPDX-License-Identifier: Apache-2.0
"""What a Python function that is a kernel is called with: arrays that are valid during the call."""

from __future__ import annotations

from typing import Any

import numpy

from headrace import _array
from headrace._lent import Lent
from headrace._library import ffi


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
    count : array of one uint64, or None
        Of counted kernels: where to store how many units were written.
    """

    def __init__(self, call: Any, device: str, count: Any) -> None:
        self.n_units = int(call.n_units)
        self.first_unit = int(call.first_unit)
        self.chunk = int(call.chunk)
        self.device = device
        self.stream = 0 if device == "host" else int(ffi.cast("uintptr_t", call.stream))
        self.count = count


class HostCall(Lent):
    """Makes NumPy arrays, and sees at the end that none is left."""

    def array(self, address: Any, n: int, unit: Any, *, writable: bool) -> Any:
        """n units at an address, as a NumPy array."""
        view = self.view(address, n * unit.nbytes, writable)
        return numpy.frombuffer(view, dtype=unit.dtype).reshape((n, *unit.row))


class DeviceCall:
    """Makes device arrays, which are of no use after the end."""

    def __init__(self, device: str, stream: int) -> None:
        self._device = device
        self._stream = stream
        self._lent: list[Any] = []

    def array(self, address: Any, n: int, unit: Any) -> _array.Array:
        """n units at an address, as an array of the device."""
        ptr = int(ffi.cast("uintptr_t", address))
        shape = (n, *unit.row)
        # PyTorch takes no array that is read-only, so that the input is not said to be.
        array, memory = _array.lent_array(
            self._device, ptr, shape, unit.dtype, self._stream, readonly=False
        )
        self._lent.append(memory)
        return array

    def __enter__(self) -> DeviceCall:
        return self

    def __exit__(self, *_: object) -> None:
        for memory in self._lent:
            memory.end("an array of a kernel's call is valid during the call only: copy it")
