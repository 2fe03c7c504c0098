# SPDX-License-Identifier: Apache-2.0
"""Stand-in for P2's part: a chunk as a NumPy array."""

from __future__ import annotations

from typing import Any, Optional

import numpy

from headrace import _native_standin
from headrace._library import ffi, lib


class Array:
    def __init__(self, box: Any, chunk: Any) -> None:
        self._box, self._chunk = box, chunk
        _native_standin.box_retain(box)
        self.nbytes = int(chunk.size)
        self.ptr = int(ffi.cast("uintptr_t", chunk.data))
        self.index, self.stream_offset = int(chunk.index), int(chunk.stream_offset)
        self.source_offset, self.source = int(chunk.source_offset), int(chunk.source)
        self.first = bool(chunk.flags & lib.HR_CHUNK_FIRST)
        self.last = bool(chunk.flags & lib.HR_CHUNK_LAST)
        self.device = "host"

    def numpy(self) -> Any:
        view = ffi.buffer(ffi.cast("char *", self.ptr), self.nbytes)
        return numpy.frombuffer(view, dtype=numpy.uint8)

    def __len__(self) -> int:
        return self.nbytes

    def release(self, stream: Optional[int] = None) -> None:
        if self._box is not None:
            lib.hr_chunk_release(self._chunk, ffi.NULL)
            box, self._box = self._box, None
            _native_standin.hrp_box_drop(box)

    def __enter__(self) -> Array:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __del__(self) -> None:
        self.release()


def chunk_array(box: Any, chunk: Any, readonly: bool = False) -> Array:
    return Array(box, chunk)


def memory_array(context: Any, device: str, memory: Any, nbytes: int) -> Array:
    chunk = ffi.new("struct hr_chunk *", {"data": memory, "size": nbytes})
    return Array(_native_standin.hrp_box_create(None, None), chunk)


class Lent:
    def __init__(self, device: str, ptr: int, shape: Any, dtype: Any, stream: Any, readonly: bool):
        self.device, self._ptr, self.shape, self.dtype = device, ptr, shape, dtype
        self.stream, self._readonly = stream, readonly
        self.size = int(numpy.prod(shape))
        self.nbytes = self.size * dtype.itemsize

    def end(self, why: str) -> None:
        self._ended = why

    def __len__(self) -> int:
        return int(self.shape[0])

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if hasattr(self, "_ended"):
            raise ValueError(self._ended)
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self._ptr, self._readonly),
            "strides": None,
            "version": 3,
            "stream": self.stream,
        }


def lent_array(
    device: str, ptr: int, shape: Any, dtype: Any, stream: Any, readonly: bool
) -> tuple[Array, Any]:
    lent: Any = Lent(device, ptr, shape, dtype, stream, readonly)
    return lent, lent
