# SPDX-License-Identifier: Apache-2.0
"""The transfers of load: one for each group of tensors with the same cast."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Optional

import numpy

from headrace import _array, _calls
from headrace._array import Array
from headrace._context import Context
from headrace._ends import Range
from headrace._load_file import File
from headrace._load_parts import parts_of, sources_of, too_long
from headrace._pipeline import Pipeline
from headrace.errors import HeadraceError, OutOfMemoryError, SpaceError, TruncatedError
from headrace.formats.plan import ALIGN, Placed
from headrace.formats.tensor import quote


@dataclass
class Group:
    """Tensors that one transfer takes, in the order of their places."""

    placed: list[Placed]

    @property
    def begin(self) -> int:
        """Where in the destination it begins."""
        return self.placed[0].offset

    @property
    def end(self) -> int:
        """Where it ends."""
        return self.placed[-1].offset + self.placed[-1].nbytes

    @property
    def kernels(self) -> tuple[str, ...]:
        """What all go through."""
        return self.placed[0].kernels

    @property
    def bits_in(self) -> int:
        """Before the kernels, to `bits_out` behind them."""
        return self.placed[0].info.dtype.bits

    @property
    def bits_out(self) -> int:
        """See `bits_in`."""
        return self.placed[0].target.bits


def allocated(context: Context, device: str, nbytes: int) -> Array:
    """Bytes of new memory that begin at a multiple of 256."""
    if device == "host":
        try:
            memory = numpy.empty(nbytes + ALIGN, numpy.uint8)
        except (MemoryError, ValueError) as error:
            said = f"the arrays, by their headers, need {nbytes} bytes of memory: {error}"
            raise OutOfMemoryError(said) from None
        first = -memory.ctypes.data % ALIGN
        return _array.of_numpy(memory[first : first + nbytes])
    size = max(nbytes, 1)
    return _array.memory_array(_calls.allocated(context.handle, device, size), size)


def view(memory: Array, tensor: Placed) -> Array:
    """A tensor in the memory that it was loaded to."""
    at = memory.ptr + tensor.offset
    return memory._derive(at, tensor.stored_shape, tensor.target, order_of(tensor))


def order_of(tensor: Placed) -> str:
    """Of what is loaded: told only where there are two."""
    long = sum(length > 1 for length in tensor.shape)
    return tensor.info.order if long > 1 and tensor.nbytes else "C"


def run(
    group: Group,
    sink: Any,
    on_host: bool,
    files: dict[Optional[str], File],
    options: dict[str, Any],
) -> None:
    """Fills a sink, whose first byte is that of the group's first tensor."""
    if group.begin == group.end:
        return
    parts = parts_of(group.placed, files)
    used = {part.file for part in parts if part.file is not None}
    for file in used:
        file.rewind()
    encoded = next((file for file in used if file.encoded), None)
    sources = sources_of(parts)
    in_one_range = encoded is not None and isinstance(sources[0], Range)
    try:
        with ExitStack() as ends:
            for source in sources:
                if isinstance(source, Generator):  # which dropped would swallow Ctrl-C
                    ends.callback(source.close)
            pipeline = ends.enter_context(
                Pipeline(
                    sources,
                    sink,
                    kernels=group.kernels,
                    device="host" if on_host and group.kernels else None,
                    decode="zstd" if in_one_range else "none",
                    **options,
                )
            )
            stats = pipeline.run()
    except HeadraceError as error:
        if in_one_range and isinstance(error, SpaceError):
            assert encoded is not None
            raise too_long(encoded) from None
        raise _told(error, group, used) from None
    if stats.bytes_out < group.end - group.begin:
        at = stats.bytes_out * group.bits_in // group.bits_out
        wanted = (group.end - group.begin) * group.bits_in // group.bits_out
        said = f"the data end after {at} of {wanted} bytes"
        short = TruncatedError(said, stage="read", offset=at)
        raise _told(short, group, used)


def _told(error: HeadraceError, group: Group, used: set[File]) -> HeadraceError:
    """With the names of the file and of the tensor, as far as they are known."""
    tensor = _blamed(error, group, used)
    if tensor is None:
        return min(used, key=lambda file: file.path).named(error)
    file = next(file for file in used if file.path == tensor.info.path)
    return file.named(error, f"tensor {quote(tensor.info.name)}" if tensor.info.name else "")


def _blamed(error: HeadraceError, group: Group, used: set[File]) -> Optional[Placed]:
    """The tensor that could not be read."""
    tensors: Iterable[Placed] = (tensor for tensor in group.placed if tensor.nbytes)
    if len(group.placed) > 1:
        if error.stage != "read" and not isinstance(error, TruncatedError):
            return None
        short = next((file for file in used if file.short_at is not None), None)
        if short is not None and short.short_at is not None:
            at = short.short_at
            tensors = (t for t in tensors if t.info.path == short.path)
            tensors = (t for t in tensors if t.info.offset <= at < t.info.end)
        else:
            at = group.begin + error.offset * group.bits_out // group.bits_in
            tensors = (t for t in tensors if t.offset <= at < t.offset + t.nbytes)
    return next(iter(tensors), None)
