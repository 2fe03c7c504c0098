# SPDX-License-Identifier: Apache-2.0
"""What is given to be saved: arrays of any library, and iterables of them, as sources."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Optional

import numpy

from headrace import _dtypes, _foreign
from headrace._array import Array
from headrace._load_file import NOTHING, Bytes, beside
from headrace._pipeline import Pipeline
from headrace.errors import HeadraceError

_DEVICE_ALIGN = 16  # of a source of kind HR_DEVICE


@dataclass
class Given:
    """An array.

    Attributes
    ----------
    where : str
        For messages: the file and the tensor.
    source : object
        For a pipeline.
    found : Foreign
        Its memory.
    stored : numpy.dtype or DType
        Its type, byte order and all.
    """

    where: str
    source: Any
    found: _foreign.Foreign
    stored: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """In elements, also of types that share bytes."""
        elements, unit_bytes = self.found.dtype.group
        shape = tuple(self.found.shape)
        return shape if elements == 1 else (*shape[:-1], shape[-1] // unit_bytes * elements)

    @property
    def swap(self) -> int:
        """Width for a bswap kernel."""
        return _dtypes.swap_width(self.stored) if isinstance(self.stored, numpy.dtype) else 0

    def kernels(self, to: _dtypes.DType, is_native: bool) -> list[str]:
        """What brings it to a type, and to the machine's byte order if need be."""
        try:
            cast = _dtypes.cast_kernel(self.found.dtype, to)
        except ValueError as error:
            raise ValueError(f"{self.where}: {error}") from None
        if not self.swap or not (cast or is_native):
            return [cast] if cast else []
        if self.swap > 8:
            raise ValueError(f"{self.where}: no kernel swaps the bytes of {self.stored}")
        return [f"bswap:{self.swap}", *([cast] if cast else [])]

    def in_c_order(self) -> Given:
        """The same, row-major: of the host a copy, if need be."""
        if self.found.order == "C":
            return self
        if self.found.device != "host":
            raise ValueError(f"{self.where}: it is column-major: make a row-major copy of it first")
        source = numpy.ascontiguousarray(_on_host(self.source))
        found = _foreign.describe(source, writable=False)
        found.dtype = self.found.dtype  # where NumPy has a stand-in
        return Given(self.where, source, found, self.stored)

    def as_source(self, kernels: list[str], device: Optional[str], options: Any) -> Any:
        """For a pipeline on a device that has other sources, too."""
        on_host = self.found.device == "host"
        aligned = self.found.device == device and self.found.ptr % _DEVICE_ALIGN == 0
        if not kernels and (on_host or aligned):
            return self.source
        return pulled(self.source, kernels, on_host, self.where, options)


def describe(array: Any, where: str) -> Given:
    """An array that is to be saved.

    Raises
    ------
    TypeError, ValueError, BufferError
        As ``_foreign.describe``; the text names the file and the tensor.
    """
    try:
        found = _foreign.describe(array, writable=False)
    except (TypeError, ValueError, BufferError) as error:
        raise type(error)(f"{where}: {error}") from None
    is_numpy = isinstance(found.owner, numpy.ndarray) and not isinstance(array, Array)
    stored = found.owner.dtype if is_numpy and not found.dtype.is_standin else found.dtype
    return Given(where, found.owner if is_numpy else array, found, stored)


def _on_host(source: Any) -> numpy.ndarray[Any, Any]:
    """As NumPy sees it; of a tensor of PyTorch in a type that NumPy lacks, its bits."""
    if hasattr(source, "detach"):
        source = source.detach()
        if "float8" in str(source.dtype) or "bfloat16" in str(source.dtype):
            word = {1: "uint8", 2: "int16"}[source.element_size()]
            source = source.view(getattr(sys.modules["torch"], word))
    return numpy.asarray(source)


def pulled(
    source: Any, kernels: list[str], on_host: bool, where: str, options: Any
) -> Iterator[Bytes]:
    """What a source gives behind kernels, piece by piece, each valid until the next one."""
    device = "host" if on_host and kernels else None
    try:
        with Pipeline(
            source, kernels=kernels, device=device, decode="none", **beside(options)
        ) as pipeline:
            for chunk in pipeline:
                yield chunk.view("uint8").numpy()
                del chunk
                yield NOTHING  # in its place, so that it is back when the next one is made
    except HeadraceError as error:
        raise error.retold(f"{where}: {error.text}") from None


class Items:
    """An iterable of arrays or bytes, one behind the other.

    Parameters
    ----------
    items : iterable
        Asked once.
    where : str
        For messages.
    options : dict
        For the pipelines that read what is on a GPU.

    Attributes
    ----------
    first : Given or None
        What it is, without its memory. None: there are none.
    """

    def __init__(self, items: Iterable[Any], where: str, options: Any) -> None:
        self.where = where
        self.options = options
        rest = iter(items)
        self.first: Optional[Given] = None
        self._items: Iterator[Any] = rest
        for item in rest:
            if isinstance(item, (int, float, complex, list, tuple)):
                raise TypeError(
                    f"{where}: item 0 is of type {type(item).__name__}, no array and no bytes: "
                    "save numpy.asarray(data)"
                )
            first = describe(item, f"{where}: item 0")
            self.first = replace(first, source=None, found=replace(first.found, owner=None))
            self._items = chain([item], rest)
            break

    def pieces(
        self, shape: Optional[tuple[int, ...]] = None, nbytes: Optional[int] = None
    ) -> Iterator[Bytes]:
        """The bytes of all, which together are to have a shape, that is so many bytes."""
        done = number = 0
        for item in self._items:
            given = describe(item, f"{self.where}: item {number}").in_c_order()
            self._check_type(given)
            if shape is not None and not _are_bytes(item, given):
                _check_rows(given, shape[1:])
            done += given.found.nbytes
            if nbytes is not None and done > nbytes:
                raise ValueError(f"{given.where} ends at byte {done}, shape= has {nbytes} bytes")
            yield from self._bytes_of(given)
            del item, given
            yield NOTHING  # in its place, so that a chunk is back when the next one is made
            number += 1
        if nbytes is not None and done < nbytes:
            raise ValueError(f"{self.where}: the items have {done} bytes, shape= has {nbytes}")

    def _check_type(self, given: Given) -> None:
        assert self.first is not None
        if given.found.dtype != self.first.found.dtype or given.swap != self.first.swap:
            raise ValueError(
                f"{given.where} is of {given.stored}, the first one of {self.first.stored}"
            )

    def _bytes_of(self, given: Given) -> Iterator[Bytes]:
        if given.found.device != "host":
            yield from pulled(given.source, [], False, given.where, self.options)
        elif given.found.nbytes:
            yield numpy.ascontiguousarray(_on_host(given.source)).reshape(-1).view(numpy.uint8)


def _are_bytes(item: Any, given: Given) -> bool:
    """Whether it is a stretch of bytes, which ends where it likes: no array with rows."""
    is_stretch = isinstance(item, (bytes, bytearray, memoryview, Array))
    return is_stretch and given.found.dtype.name == "u8" and len(given.shape) == 1


def _check_rows(given: Given, row: tuple[int, ...]) -> None:
    if given.shape[1:] != row and given.shape != row:
        raise ValueError(f"{given.where} has shape {given.shape}: a row of shape= is {row}")
