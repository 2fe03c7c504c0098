# SPDX-License-Identifier: Apache-2.0
"""What a stream reads and what its chunks are made of: sources, kernels, records."""

from __future__ import annotations

import os
from typing import Any, Optional

import numpy

from headrace import _dtypes, _kernel, _records
from headrace._ends import Range
from headrace._pipeline import Pipeline
from headrace._records import Record
from headrace._split import extent, share
from headrace.formats import FormatError, npy
from headrace.formats.tensor import TensorInfo

_NPY = (".npy", ".npy.zst")
_BYTES = _dtypes.find("uint8")


def _is_path(source: Any) -> bool:
    return isinstance(source, (str, os.PathLike))


def _is_npy(source: Any) -> bool:
    return _is_path(source) and os.fspath(source).endswith(_NPY)


def _header(path: Any) -> TensorInfo:
    """What the header of a .npy file says, which may be encoded."""
    name = os.fspath(path)
    if not name.endswith(".zst"):
        return npy.read(path)
    prefix, needed = b"", npy.bytes_needed(b"", name)
    while needed > len(prefix):
        room = bytearray(needed)
        there = Pipeline(Range(name, 0, needed), room, decode="auto").run().bytes_out
        if there < needed:
            raise FormatError(f"{name}: the header needs {needed} bytes, the file has {there}")
        prefix, needed = bytes(room), npy.bytes_needed(bytes(room), name)
    return npy.parse_header(prefix, where=name, path=name)


def _swap_width(dtype: Any) -> int:
    try:
        return 0 if dtype is None else _dtypes.swap_width(numpy.dtype(dtype))
    except TypeError:  # a word that NumPy does not know has no byte order
        return 0


def _swap_and_cast(swap: int, stored: _dtypes.DType, wanted: _dtypes.DType) -> list[str]:
    if swap > 8:
        raise ValueError(f"no kernel swaps the bytes of {stored}")
    cast = _dtypes.cast_kernel(stored, wanted)
    return [f"bswap:{swap}"] * (swap > 0) + [cast] * (cast != "")


class StreamPlan:
    """A stream before it is opened.

    Parameters
    ----------
    source, dtype, shape, kernels
        As for ``headrace.stream``.

    Attributes
    ----------
    ends : object
        The sources as a pipeline takes them.
    kernels : list
        All of them.
    n_before : int
        Of those before the user's.
    record : Record
        What chunks are made of.
    n_records : int or None
        How many there must be; None: what comes.
    source_record : int or None
        Bytes of a record in the sources; None: only the kernels know.

    Raises
    ------
    FormatError, ValueError
        As ``headrace.stream``.
    """

    def __init__(self, source: Any, dtype: Any, shape: _records.Shape, kernels: Any) -> None:
        if isinstance(kernels, (str, _kernel.Kernel)) or callable(kernels):
            kernels = [kernels]
        self._sources = list(source) if isinstance(source, (list, tuple)) else [source]
        self._infos: list[TensorInfo] = []
        self.ends = source
        self.n_records: Optional[int] = None
        self.source_record: Optional[int] = None
        row = _records.row(shape)
        if any(map(_is_npy, self._sources)):
            self._of_npy(dtype, row, list(kernels))
        else:
            self._of_bytes(dtype, row, list(kernels))
        if self.record.nbytes > 1:
            self.kernels.append(_records.Unit(self.record.nbytes))

    def _of_bytes(self, dtype: Any, row: tuple[int, ...], kernels: list[Any]) -> None:
        swap = _swap_width(dtype)
        if swap and kernels:
            raise ValueError(f"dtype {dtype} is of what leaves the kernels: in native byte order")
        wanted = _records.behind(kernels, None) or _BYTES if dtype is None else _dtypes.find(dtype)
        before = _swap_and_cast(swap, wanted, wanted)
        self.kernels, self.n_before = before + kernels, len(before)
        self.record = Record(wanted, row)
        if not kernels:
            self.source_record = self.record.nbytes

    def _of_npy(self, dtype: Any, row: tuple[int, ...], kernels: list[Any]) -> None:
        if not all(map(_is_npy, self._sources)):
            raise ValueError("files of .npy and others make no stream of one type")
        self._infos = [_header(path) for path in self._sources]
        info = self._common()
        row = row or tuple(info.shape[1:])
        if dtype is not None:
            wanted = _dtypes.find(dtype)
        else:
            wanted = _records.behind(kernels, info.dtype) or _BYTES
        before = _swap_and_cast(info.swap, info.dtype, info.dtype if kernels else wanted)
        self.kernels, self.n_before = before + kernels, len(before)
        self.record = Record(wanted, row)
        self.source_record = Record(info.dtype, row).nbytes
        if not kernels and self.source_record:
            self.n_records = sum(info.nbytes for info in self._infos) // self.source_record
        self.ends = [Range(info.path, info.offset, info.nbytes) for info in self._infos]

    def _common(self) -> TensorInfo:
        """What all files have in common."""
        first = self._infos[0]
        for info in self._infos:
            if info.order != "C" and len(info.shape) > 1:
                raise FormatError(f"{info.path}: in Fortran order its rows do not lie together")
            same = (info.dtype, info.swap, info.shape[1:])
            if same != (first.dtype, first.swap, first.shape[1:]):
                raise FormatError(f"{info.path} and {first.path} differ in type or shape of a row")
        return first

    def share(self, index: int, n: int, source_record: Optional[int] = None) -> None:
        """Makes it the stream of one share.

        Parameters
        ----------
        index, n : int
            Share `index` of `n`.
        source_record : int, optional
            Bytes of a record in the sources, where the kernels do not tell.

        Raises
        ------
        TypeError
            Not files.
        ValueError
            It is not known what a record of the source is; or a file ends inside of one.
        """
        record = source_record or self.source_record
        if record is None:
            raise ValueError("with kernels, say how many bytes of the source make a record")
        if not all(map(_is_path, self._sources)):
            raise TypeError("only files are shared by ranks and workers: give paths")
        if self._infos:
            extents = [extent(i.path, record, i.offset, i.nbytes) for i in self._infos]
        else:
            extents = [extent(path, record) for path in self._sources]
        self.ends = [Range(*one) for one in share(extents, record, index, n)] or b""
        self.n_records = None
