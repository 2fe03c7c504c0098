# SPDX-License-Identifier: Apache-2.0
"""Doubles of PyTorch, CuPy and Numba, as far as kernel functions with their arrays use them: who is
asked for an array takes it by the library's own protocol, and notes what came."""

from __future__ import annotations

import contextlib
import sys
import types
from typing import Any

import numpy as np

from headrace import _dlpack, _libraries

current: list[Any] = [None]
"""The library's current stream is the last one."""


class Seen:
    """An array of a double: where it lies, and what it keeps."""

    def __init__(self, ptr: int, shape: Any, dtype: Any, owner: Any) -> None:
        self.ptr, self.shape, self.dtype, self.owner = ptr, tuple(shape), dtype, owner
        self.nbytes = int(np.prod(self.shape)) * getattr(dtype, "itemsize", 1)


class Stream:
    def __init__(self, number: int, device: Any = None) -> None:
        self.number, self.device = number, device

    @contextlib.contextmanager
    def use(self) -> Any:
        current.append(self)
        try:
            yield
        finally:
            assert current.pop() is self


class Reused:
    """A context manager that may be entered again, as those of the libraries."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        self.entered = self.stream.use()
        self.entered.__enter__()

    def __exit__(self, *error: Any) -> None:
        self.entered.__exit__(*error)


class Type:
    """A dtype of PyTorch."""

    def __init__(self, name: str, itemsize: int) -> None:
        self.name, self.itemsize = name, itemsize


class Tensor(Seen):
    """Of PyTorch; on the host it has the elements, too."""

    values: Any = None

    def view(self, to: Any) -> Tensor:
        made = Tensor(self.ptr, self.shape, self.dtype, self.owner)
        made.values, made.nbytes = self.values, self.nbytes
        if isinstance(to, Type):
            made.dtype, made.shape = to, (self.nbytes // to.itemsize,)
            if self.values is not None and to.name in ("float32", "uint8"):
                made.values = self.values.view(to.name)
        else:
            made.shape = tuple(to)
            if self.values is not None:
                made.values = self.values.reshape(to)
        return made


def torch() -> Any:
    made: Any = types.ModuleType("torch")
    for name, width in (("uint8", 1), ("bfloat16", 2), ("float32", 4), ("int64", 8)):
        setattr(made, name, Type(name, width))

    def from_dlpack(array: Any) -> Tensor:
        stream = current[-1].number if current[-1] else 1
        found = _dlpack.consume(array.__dlpack__(stream=stream, max_version=(1, 0)))
        assert (found.device, found.dtype.name, found.readonly) == (array.device, "u8", False)
        return Tensor(found.ptr, found.shape, made.uint8, found.owner)

    def from_numpy(array: Any) -> Tensor:
        assert array.dtype == np.uint8 and array.flags.writeable
        tensor = Tensor(array.ctypes.data, array.shape, made.uint8, array)
        tensor.values = array
        return tensor

    made.from_dlpack, made.from_numpy = from_dlpack, from_numpy
    made.inference_mode = lambda on: contextlib.nullcontext()
    made.cuda = types.SimpleNamespace(
        init=lambda: None, ExternalStream=Stream, stream=Reused, is_initialized=lambda: False
    )
    return made


def _by_interface(array: Any, **options: Any) -> Seen:
    found = array.__cuda_array_interface__
    assert found["stream"] is None  # else the library would wait for it
    return Seen(found["data"][0], found["shape"], np.dtype(found["typestr"]), array)


class CuPyStream(Stream, Reused):
    def __init__(self, number: int) -> None:
        Stream.__init__(self, number)
        Reused.__init__(self, self)

    @classmethod
    def from_external(cls, stream: Any) -> CuPyStream:
        return cls(stream.__cuda_stream__()[1])


def cupy() -> Any:
    made: Any = types.ModuleType("cupy")
    made.asarray = _by_interface
    made.cuda = types.SimpleNamespace(
        Stream=CuPyStream,
        Device=lambda index: contextlib.nullcontext(),
        get_current_stream=lambda: current[-1].number,
    )
    return made


def numba() -> Any:
    made: Any = types.ModuleType("numba.cuda")
    made.as_cuda_array = _by_interface
    made.external_stream = Stream
    return made


MODULES = {"torch": ("torch", torch), "cupy": ("cupy", cupy), "numba": ("numba.cuda", numba)}


def install(word: str, monkeypatch: Any) -> Any:
    """Puts a double where the library is imported from, for one test."""
    name, make = MODULES[word]
    made = make()
    monkeypatch.setitem(sys.modules, name, made)
    monkeypatch.setattr(_libraries, "_imported", _libraries._imported.__wrapped__)
    return made
