# SPDX-License-Identifier: Apache-2.0
"""What a stream reads and what its chunks are made of: sources, kernels, records."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, Optional

from headrace import _dtypes, _flow, _foreign, _kernel, _records, _sniff
from headrace._ends import Range, is_path
from headrace._flow import Elements, Flow
from headrace._numbers import size
from headrace._records import Record
from headrace._split import Extent, extent, share
from headrace.errors import ArgumentError, ElementTypeError, HeadraceError, TruncatedError, about
from headrace.formats import FormatError
from headrace.formats.tensor import TensorInfo

_BYTES = _dtypes.find("uint8")


class StreamPlan:
    """A stream before it is opened.

    Parameters
    ----------
    source, dtype, shape, kernels, decode
        As for ``headrace.stream``.
    encodes : bool, default False
        What leaves the kernels is encoded: then chunks are of bytes.
    **options
        Of ``headrace.Pipeline``, for files that are looked at: dict, window_log.

    Attributes
    ----------
    ends : object
        The sources as a pipeline takes them.
    decode : str
        What is left to look for.
    kernels : list of Kernel
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
    FormatError, ElementTypeError, ValueError
        As ``headrace.stream``.
    """

    def __init__(
        self,
        source: Any,
        dtype: Any,
        shape: _records.Shape,
        kernels: Any,
        decode: str = "auto",
        encodes: bool = False,
        **options: Any,
    ) -> None:
        self._sources = list(source) if isinstance(source, (list, tuple)) else [source]
        if not self._sources:
            raise ValueError("the list of sources is empty")
        self._infos: list[TensorInfo] = []
        self._look = {"decode": decode, **options}
        self.ends, self.decode = source, decode
        self.n_records: Optional[int] = None
        self.source_record: Optional[int] = None
        chain, swap = _flow.listed(kernels), _dtypes.swap_of(dtype)
        entering = self._of_files() or self._of_arrays()
        if swap and chain:
            raise ValueError(
                f"dtype is {dtype}: what leaves kernels is in the machine's byte order; put "
                f"'bswap:{swap}' first among them, and give dtype={str(_dtypes.find(dtype))!r}"
            )
        if swap and entering is not None and entering.swap != swap:
            raise self._other_type(entering, Elements(_dtypes.find(dtype), swap=swap))
        if swap and entering is None:
            entering = Elements(_dtypes.find(dtype), swap=swap)
        if dtype is not None and entering is None and _flow.keeps_type(chain):
            entering = _flow.of_type(_dtypes.find(dtype), _records.row(shape))
        before = _swapped(entering)
        self.n_before = len(before)
        self.kernels, leaving = _flow.follow(before + chain, Flow(entering))
        self.record = self._record(leaving.elements, dtype, shape)
        if encodes:
            self.record = Record(_BYTES)
        self._measure(entering)
        if self.record.nbytes > 1:
            self.kernels.append(_records.Unit(self.record.nbytes))

    # ---- what enters ----

    def _of_files(self) -> Optional[Elements]:
        """What the headers of .npy files say; None: there are none."""
        files = [_sniff.looked_at(one, **self._look) for one in self._sources]
        found = [None if file is None else file.container() for file in files]
        for file, one in zip(files, found):
            if file is not None and one is not None and one.kind != ".npy":
                raise FormatError(
                    f"{file.where}: a {one.kind} file makes no stream of one type: "
                    f"{one.way_out(file.word)}",
                    filename=file.path,
                )
            if file is not None and one is None:
                _check_name(file)
        if not any(found):
            return None
        if not all(found):
            raise ArgumentError("files of .npy and others make no stream of one type")
        looked = [file for file in files if file is not None]
        self._infos = [_header(file) for file in looked]
        info = self._common(looked)
        self.ends = [
            Range(file.source, info.offset, info.nbytes)
            for file, info in zip(looked, self._infos)
        ]
        return Elements(info.dtype, info.shape[1:], info.swap)

    def _common(self, files: list[_sniff.File]) -> TensorInfo:
        """What all files have in common."""
        first = self._infos[0]
        for file, info in zip(files, self._infos):
            if info.order != "C" and len(info.shape) > 1:
                load = f"headrace.load({file.word})" if file.path else "numpy.load"
                raise FormatError(
                    f"{file.where}: in Fortran order its rows do not lie together: {load} has the "
                    f"array, headrace.Range({file.word}, {info.offset}) its bytes",
                    filename=file.path,
                )
            same = (info.dtype, info.swap, info.shape[1:])
            if same != (first.dtype, first.swap, first.shape[1:]):
                raise FormatError(
                    f"{file.where} and {files[0].where} differ in type or shape of a row",
                    filename=file.path,
                )
        return first

    def _of_arrays(self) -> Optional[Elements]:
        """What arrays say of their elements; None: they, or other sources, are bytes."""
        if self.decode == "zstd" or not all(map(_foreign.is_array, self._sources)):
            return None
        found = [_foreign.describe(one, writable=False) for one in self._sources]
        elements = _flow.common([_flow.of_array(one) for one in found])
        if elements is None:
            return None
        if any(one.order == "F" for one in found):
            raise ArgumentError(
                "the array is in Fortran order, its rows do not lie together: stream its "
                "transpose, array.T, or a copy in C order"
            )
        copies = [one.owner if one.device == "host" else None for one in found]
        self.ends = [
            Range(one if copy is None else copy, 0) for one, copy in zip(self._sources, copies)
        ]
        self.decode = "none"
        return elements

    # ---- what leaves ----

    def _record(self, leaving: Optional[Elements], dtype: Any, shape: _records.Shape) -> Record:
        wanted, row = None if dtype is None else _dtypes.find(dtype), _records.row(shape)
        if leaving is None:
            return Record(wanted or _BYTES, row)
        if wanted is not None and not leaving.is_of(wanted):
            raise self._other_type(leaving, Elements(wanted))
        if shape is not None and leaving.row and row != leaving.row:
            raise ArgumentError(
                f"shape is {row}, the rows of the source are of shape {leaving.row}; reshape an "
                "array first, or stream bytes: headrace.Range(source, offset)"
            )
        return Record(wanted or leaving.dtype, row or leaving.row)

    def explained(self, error: TruncatedError) -> HeadraceError:
        """What the engine says of the unit that is left over, told of the record."""
        if "unit" not in error.text or self.record.nbytes < 2:
            return error
        only: Any = self._sources[0] if len(self._sources) == 1 else None
        path = os.fsdecode(only) if is_path(only) else None
        return error.retold(
            f"{path or 'the stream'}: its length is no multiple of a record, {self.record} "
            f"(dtype=, shape=): {error.text}",
            path,
        )

    def _other_type(self, there: Elements, wanted: Elements) -> ElementTypeError:
        return ElementTypeError(
            f"dtype is {wanted}, what comes is {there}: "
            f"{_flow.ways_out(there, wanted, 'among the kernels')}"
        )

    def _measure(self, entering: Optional[Elements]) -> None:
        """Bytes of a record in the source, where each gives one."""
        if entering is None:
            self.source_record = None if self.kernels else self.record.nbytes
            return
        one = replace(entering, row=self.record.shape).nbytes
        if _flow.follow(self.kernels, Flow(entering, one))[1].nbytes != self.record.nbytes:
            return
        self.source_record = one
        if self._infos and one:
            self.n_records = sum(info.nbytes for info in self._infos) // one

    # ---- shares ----

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
            Not files, or not numbers.
        ValueError
            There is no such share; it is not known what a record of the source is; or a file ends
            inside of one.
        """
        n = size("n", n, least=1)
        index = size("index", index)
        if index >= n:
            raise ValueError(f"share {index} of {n}: from 0 to {n - 1} is possible")
        if source_record is not None:
            source_record = size("record_bytes", source_record, 63, least=1)
        record = source_record or self.source_record
        if record is None:
            raise ValueError("with kernels, say how many bytes of the source make a record")
        if not all(map(is_path, self._sources)):
            raise TypeError("only files are shared by ranks and workers: give paths")
        ranges = share(self._extents(record), record, index, n)
        self.ends = [Range(*one) for one in ranges] or b""
        self.n_records = None

    def _extents(self, record: int) -> list[Extent]:
        encoded = self.decode != "none"
        if self._infos:
            return [extent(i.path, record, i.offset, i.nbytes, encoded) for i in self._infos]
        return [extent(path, record, encoded=encoded) for path in self._sources]


def _header(file: _sniff.File) -> TensorInfo:
    if file.path is None:
        return file.npy_header()
    with about(file.path):
        return file.npy_header()


def _check_name(file: _sniff.File) -> None:
    name = (file.path or "").lower()
    if name.endswith((".npy", ".npy.zst")) and not file.begins_encoded:
        raise FormatError(
            f"{file.where}: its name says .npy, its first bytes do not; "
            f"headrace.Range({file.word}, 0) has its bytes",
            filename=file.path,
        )


def _swapped(entering: Optional[Elements]) -> list[_kernel.Kernel]:
    if entering is None or not entering.swap:
        return []
    if entering.swap > 8:
        raise ValueError(f"no kernel swaps the bytes of {entering.dtype}")
    return [_kernel.kernel(f"bswap:{entering.swap}")]
