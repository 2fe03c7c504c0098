# SPDX-License-Identifier: Apache-2.0
"""The libraries whose own arrays a Python function that is a kernel may ask for, by their words.

They are imported when a kernel asks for them, and never before.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from typing import Any

import numpy

from headrace import _dtypes, _streams
from headrace.errors import ArgumentError, ElementTypeError

HOST = "host"

Current = contextlib.AbstractContextManager[Any]
"""What makes a stream the current one, again and again."""


class Library:
    """A library that has arrays.

    Attributes
    ----------
    title : str
        What it calls itself.
    module : str
        What is imported.
    backends : tuple of str
        Of the devices where its arrays may be.
    any_order : bool
        Its arrays may have elements in the other byte order, and be read-only.
    count : str
        The type of a number of units.
    """

    title: str
    module: str
    backends: tuple[str, ...]
    any_order = False
    count = "uint64"

    def __init__(self) -> None:
        try:
            self._library: Any = importlib.import_module(self.module)
        except ImportError as error:
            raise ImportError(
                f"arrays of {self.title} were asked for, but {self.module} cannot be imported: "
                f"{error}",
                name=self.module,
            ) from error

    def check(self, device: str, kind: _dtypes.DType) -> None:
        """Whether there can be arrays of these elements on the device.

        Raises
        ------
        ArgumentError
            (ValueError) Its arrays are never on such a device.
        ElementTypeError
            (TypeError) It has no such type.
        """
        if device.partition(":")[0] not in self.backends:
            where = " or ".join(self.backends)
            raise ArgumentError(
                f"arrays of {self.title} are on {where}, and the kernels run on {device}"
            )
        if not self.has(kind):
            raise ElementTypeError(
                f"{self.title} has no type for {kind}: take its bytes, or arrays=None"
            )

    def has(self, kind: _dtypes.DType) -> bool:
        """Whether it has the type: here, if NumPy has it by itself and as a number."""
        plain = kind.dlpack is not None and kind.bits % 8 == 0
        return plain and not kind.is_standin and kind.numpy.isbuiltin == 1

    def on_host(self, array: numpy.ndarray[Any, Any], kind: _dtypes.DType) -> Any:
        """An array of the host, in the memory of one of NumPy."""
        raise NotImplementedError

    def on_device(self, array: Any, kind: _dtypes.DType) -> Any:
        """An array in the memory of a headrace.Array of a GPU; on its stream, if there is a
        current one."""
        raise NotImplementedError

    def stream(self, number: int, device: str) -> tuple[Any, Current]:
        """A stream as the library's object, and what makes it the current one."""
        raise NotImplementedError


class NumPy(Library):
    """On the host only."""

    title, module, backends, any_order = "NumPy", "numpy", (HOST,), True

    def has(self, kind: _dtypes.DType) -> bool:
        return True

    def on_host(self, array: numpy.ndarray[Any, Any], kind: _dtypes.DType) -> Any:
        return array


class PyTorch(Library):
    """Tensors are made of bytes, as DLPack and NumPy have not all of its types."""

    title, module, backends = "PyTorch", "torch", (HOST, "cuda", "hip")
    count = "int64"  # as its own counts have

    def has(self, kind: _dtypes.DType) -> bool:
        return hasattr(self._library, kind.torch or "no type")

    def _typed(self, flat: Any, shape: tuple[int, ...], kind: _dtypes.DType) -> Any:
        return flat.view(getattr(self._library, kind.torch or "")).view(shape)

    def on_host(self, array: numpy.ndarray[Any, Any], kind: _dtypes.DType) -> Any:
        flat = self._library.from_numpy(array.reshape(-1).view(numpy.uint8))
        return self._typed(flat, array.shape, kind)

    def on_device(self, array: Any, kind: _dtypes.DType) -> Any:
        with self._library.inference_mode(False):  # they are used in that mode, and out of it
            flat = self._library.from_dlpack(array.reshape(-1).view("uint8"))
            return self._typed(flat, array.shape, kind)

    def stream(self, number: int, device: str) -> tuple[Any, Current]:
        cuda = self._library.cuda
        cuda.init()  # nobody may have used it before
        stream = cuda.ExternalStream(number, device=_streams.index_of(device))
        return stream, cuda.stream(stream)


class CuPy(Library):
    """A stream of it makes itself the current one."""

    title, module, backends = "CuPy", "cupy", ("cuda", "hip")

    def on_device(self, array: Any, kind: _dtypes.DType) -> Any:
        return self._library.asarray(array)

    def stream(self, number: int, device: str) -> tuple[Any, Current]:
        cuda = self._library.cuda
        if hasattr(cuda.Stream, "from_external"):  # from CuPy 14 on, which deprecates the other
            stream = cuda.Stream.from_external(_Numbered(number))
        else:
            stream = cuda.ExternalStream(number)
        return stream, stream


class _Numbered:
    """A stream as CUDA's libraries show theirs to one another."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._number


class Numba(Library):
    """It has no current stream: a launch names one."""

    title, module, backends = "Numba", "numba.cuda", ("cuda",)

    def on_device(self, array: Any, kind: _dtypes.DType) -> Any:
        return self._library.as_cuda_array(array, sync=False)

    def stream(self, number: int, device: str) -> tuple[Any, Current]:
        return self._library.external_stream(number), contextlib.nullcontext()


_KNOWN: dict[str, type[Library]] = {
    "torch": PyTorch,
    "cupy": CuPy,
    "numba": Numba,
    "numpy": NumPy,
}


@functools.lru_cache(maxsize=None)
def _imported(word: str) -> Library:
    return _KNOWN[word]()


def find(word: Any) -> Library:
    """The library of a word.

    Raises
    ------
    ValueError
        It is not known.
    ImportError
        The library is not installed.

    Examples
    --------
    >>> find("numpy").title
    'NumPy'
    >>> find("pandas")
    Traceback (most recent call last):
    ValueError: arrays is 'pandas', not one of 'torch', 'cupy', 'numba', 'numpy'
    """
    if not isinstance(word, str) or word not in _KNOWN:
        known = ", ".join(map(repr, _KNOWN))
        raise ValueError(f"arrays is {word!r}, not one of {known}")
    return _imported(word)
