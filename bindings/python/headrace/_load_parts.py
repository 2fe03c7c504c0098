# SPDX-License-Identifier: Apache-2.0
"""From places of tensors to the sources of one transfer that fills them.

    destination   | tensor a       |000| tensor b |00000000| every other row of c |
    sources         range of file   zeros range    zeros     what is cut from a covering range

Zeros keep each tensor aligned, and the transfer in one piece. A slice with long runs, or with runs
far apart, is a range for each run. Of others the range that covers them all is read, a few MiB at a
time, and the runs are copied out of it. Small ranges beside each other are read in Python, too, as
one source.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterator, Optional, Union

import numpy

from headrace._load_file import Bytes, File, Reader
from headrace.formats import FormatError
from headrace.formats.plan import ALIGN, Grid, Placed

# Bytes from run to run, and of a range, from which on a source of its own is the faster: making and
# running one takes 60 us, as long as reading about as many bytes (measured).
_RUN_PITCH = 256 << 10
_PIECE = 4 << 20  # read at once to cut runs from
_ZEROS = memoryview(bytes(8 * ALIGN))  # as sources, before a cast that narrows


@dataclass
class Part:
    """What a piece of the destination is filled with."""

    begin: int
    end: int
    file: Optional[File] = None  # None: zeros
    grid: Optional[Grid] = None  # runs to be cut from the range

    @property
    def size(self) -> int:
        """Bytes of the range."""
        return self.end - self.begin

    def follows(self, other: Part) -> bool:
        """Whether both are one range."""
        return (
            self.file is other.file is not None
            and self.grid is other.grid is None
            and self.begin == other.end
        )


def parts_of(group: list[Placed], files: dict[Optional[str], File]) -> list[Part]:
    """What fills the destination from the first tensor of a group to the end of the last."""
    parts: list[Part] = []
    at = group[0].offset
    for tensor in group:
        if tensor.offset > at:
            pad = (tensor.offset - at) * tensor.info.dtype.bits // tensor.target.bits
            parts.append(Part(0, pad))
        for part in _of_tensor(tensor, files[tensor.info.path]):
            if parts and part.follows(parts[-1]):
                parts[-1].end = part.end
            else:
                parts.append(part)
        at = tensor.offset + tensor.nbytes
    return parts


def _of_tensor(tensor: Placed, file: File) -> Iterator[Part]:
    grid = tensor.source
    begin, end = grid.covering
    if begin == end:
        return
    if grid.n_runs > 1 and (end - begin) // grid.n_runs < _RUN_PITCH:
        yield Part(begin, end, file, grid)
        return
    for offset in grid.offsets().tolist():
        yield Part(offset, offset + grid.run_bytes, file)


def sources_of(parts: list[Part]) -> list[Any]:
    """Sources of a pipeline, for one transfer."""
    encoded = next((p.file for p in parts if p.file is not None and p.file.encoded), None)
    if encoded is not None:
        return [_of_encoded(parts, encoded)]
    made: list[Any] = []
    small: list[Part] = []
    for part in parts:
        if part.file is None or part.grid is not None or part.size < _RUN_PITCH:
            small.append(part)
        else:
            made += [*_of_small(small), part.file.range(part.begin, part.end)]
            small = []
    return made + _of_small(small)


def _of_small(parts: list[Part]) -> list[Any]:
    """One source for them all."""
    if not parts:
        return []
    first = parts[0]
    if len(parts) == 1 and first.file is None:
        return [_ZEROS[: first.size]]
    if len(parts) == 1 and first.grid is None and first.file is not None:
        return [first.file.range(first.begin, first.end)]
    return [_read(parts, {part.file: Reader(part.file) for part in parts if part.file})]


def _of_encoded(parts: list[Part], file: File) -> Union[Any, Iterator[Bytes]]:
    """A single range is decoded to its place; several ones in one pass, piece by piece."""
    if len(parts) == 1 and parts[0].grid is None:
        is_whole = file.ends == parts[0].end
        return file.range(parts[0].begin, None if is_whole else parts[0].end)
    return _in_one_pass(parts, file)


def _in_one_pass(parts: list[Part], file: File) -> Iterator[Bytes]:
    reader = Reader(file)
    try:
        yield from _read(parts, {file: reader})
        if file.ends == parts[-1].end and not reader.at_end():
            raise too_long(file)
    finally:
        reader.close()


def _read(parts: list[Part], readers: dict[File, Reader]) -> Iterator[Bytes]:
    """What fills the parts, in pieces of a few MiB."""
    batch: list[Part] = []
    size = 0
    for part in _split(parts):
        if batch and (part.grid is not None or size + part.size > _PIECE):
            yield _joined(batch, readers)
            batch, size = [], 0
        if part.grid is None:
            batch.append(part)
            size += part.size
        else:
            assert part.file is not None
            yield from _cut(part.grid, readers[part.file])
    if batch:
        yield _joined(batch, readers)


def _split(parts: list[Part]) -> Iterator[Part]:
    for part in parts:
        step = _PIECE if part.grid is None else part.size
        for begin in range(part.begin, part.end, step):
            yield Part(begin, min(begin + step, part.end), part.file, part.grid)


def _joined(batch: list[Part], readers: dict[File, Reader]) -> Bytes:
    out = numpy.zeros(sum(part.size for part in batch), numpy.uint8)
    at = 0
    for part in batch:
        if part.file is not None:
            readers[part.file].fill(out[at : at + part.size], part.begin)
        at += part.size
    return out


def too_long(file: File) -> FormatError:
    """The error for an encoded file with more bytes than its header tells."""
    said = f"by {file.ends_by} the data end at byte {file.ends}, and the file does not"
    return FormatError(f"{file.path}: {said}", filename=file.path)


def _cut(grid: Grid, reader: Reader) -> Iterator[Bytes]:
    for piece in _pieces(grid):
        runs = piece.cut(reader.read(*piece.covering))
        yield numpy.ascontiguousarray(runs).reshape(-1)


def _pieces(grid: Grid) -> Iterator[Grid]:
    """The same runs in grids that each cover a few MiB."""
    begin, end = grid.covering
    if end - begin <= _PIECE or not grid.counts:
        yield grid
        return
    stride, n = grid.strides[0], max(_PIECE // grid.strides[0], 1)
    for first in range(0, grid.counts[0], n):
        counts = (min(n, grid.counts[0] - first), *grid.counts[1:])
        at = grid.begin + first * stride
        if counts[0] > 1:
            yield Grid(at, grid.run_bytes, counts, grid.strides)
        else:
            yield from _pieces(Grid(at, grid.run_bytes, counts[1:], grid.strides[1:]))
